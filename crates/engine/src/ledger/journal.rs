//! Which nodes changed, in order, so that an index over nodes can catch up instead of being built again.

use crate::model::{Id, NodeId};

/// What changed about a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Touch {
    /// What is on it.
    Counts,
    /// What it is: labels, taints, size, cordon.
    Facts,
}

/// An append-only list of touched nodes with a running number. Old entries are dropped in one go; a reader that is
/// older than the list has to start afresh.
#[derive(Clone, Debug, Default)]
pub(crate) struct Journal {
    start: u64,
    entries: Vec<NodeId>,
    /// Number of the latest touch of each node, plus one.
    last: Vec<u64>,
    /// The same, of facts only.
    last_facts: Vec<u64>,
}

/// Journals are about caches, not about state: they never make two ledgers differ.
impl PartialEq for Journal {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Journal {}

impl Journal {
    pub(super) fn grow(&mut self, nodes: usize) {
        self.last.resize(nodes, 0);
        self.last_facts.resize(nodes, 0);
    }

    /// Notes a change.
    pub(crate) fn touch(&mut self, node: NodeId, what: Touch) {
        let bound = (4 * self.last.len()).max(1024);
        if self.entries.len() >= bound {
            self.start += self.entries.len() as u64;
            self.entries.clear();
        }
        self.entries.push(node);
        let end = self.end();
        self.last[node.index()] = end;
        if what == Touch::Facts {
            self.last_facts[node.index()] = end;
        }
    }

    /// The number of the next touch.
    pub(crate) fn end(&self) -> u64 {
        self.start + self.entries.len() as u64
    }

    /// The number after a node's latest touch; 0: never touched.
    pub(crate) fn last_touch(&self, node: NodeId) -> u64 {
        self.last[node.index()]
    }

    /// The nodes touched since a number, each once, with whether its facts changed since then; none if the list no
    /// longer goes back that far.
    pub(crate) fn since(&self, number: u64) -> Option<impl Iterator<Item = (NodeId, bool)> + '_> {
        let skip = usize::try_from(number.checked_sub(self.start)?).ok()?;
        let entries = self.entries.get(skip..)?;
        Some(entries.iter().enumerate().filter_map(move |(at, &node)| {
            let this = number + at as u64 + 1;
            (self.last[node.index()] == this).then(|| (node, self.last_facts[node.index()] > number))
        }))
    }
}
