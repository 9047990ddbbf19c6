//! How many pods on which node wear which mark.

use rustc_hash::FxHashMap;

use super::Status;
use crate::model::{Model, NodeId, Task};

/// How many pods are there now and stay, are there now and leave, are not there yet and come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Wearers {
    /// There now, to stay.
    pub stay: u32,
    /// There now, about to leave.
    pub leave: u32,
    /// Not there yet, but to come.
    pub come: u32,
}

impl Wearers {
    /// Those that are there once everybody who leaves is gone.
    pub(crate) fn later(&self) -> u32 {
        self.stay + self.come
    }

    /// Adds others.
    pub(crate) fn add(&mut self, other: &Wearers) {
        self.stay += other.stay;
        self.leave += other.leave;
        self.come += other.come;
    }

    fn cell(&mut self, status: Status) -> Option<&mut u32> {
        match (status.takes_idle(), status.takes_future()) {
            (true, true) => Some(&mut self.stay),
            (true, false) => Some(&mut self.leave),
            (false, true) => Some(&mut self.come),
            (false, false) => None,
        }
    }
}

/// For each mark, the nodes where somebody wears it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct MarkCounts {
    by_mark: Vec<FxHashMap<NodeId, Wearers>>,
}

impl MarkCounts {
    /// The nodes where somebody wears a mark, in no meaningful order.
    pub(crate) fn on(&self, mark: u32) -> impl Iterator<Item = (NodeId, &Wearers)> {
        let nodes = self.by_mark.get(mark as usize).into_iter().flatten();
        nodes.map(|(&node, wearers)| (node, wearers))
    }

    /// Counts, or stops counting, all marks of a pod.
    pub(super) fn count(&mut self, model: &Model, task: &Task, status: Status, node: NodeId, enter: bool) {
        for mark in model.places.worn(task.tag, task.ties) {
            self.shift(mark, status, node, enter);
        }
    }

    pub(super) fn shift(&mut self, mark: u32, status: Status, node: NodeId, enter: bool) {
        let mark = mark as usize;
        if self.by_mark.len() <= mark {
            self.by_mark.resize_with(mark + 1, FxHashMap::default);
        }
        let wearers = self.by_mark[mark].entry(node).or_default();
        if let Some(cell) = wearers.cell(status) {
            *cell = if enter {
                cell.wrapping_add(1)
            } else {
                cell.wrapping_sub(1)
            };
        }
        if *wearers == Wearers::default() {
            self.by_mark[mark].remove(&node);
        }
    }

    pub(super) fn forget(&mut self, mark: u32) {
        if let Some(nodes) = self.by_mark.get_mut(mark as usize) {
            *nodes = FxHashMap::default();
        }
    }

    pub(super) fn clear(&mut self) {
        self.by_mark.clear();
    }
}
