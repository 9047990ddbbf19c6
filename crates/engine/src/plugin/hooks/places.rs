//! Where pods may go, and where they go best: each node for itself, then all of them together.

use super::{Hook, Hooks};
use crate::model::{ClassId, NOTHING, NodeId, QueueId, TaskId};
use crate::plugin::{Blocker, Fit, Shape, Site, Want, node_reservation};
use crate::session::State;

impl Hooks {
    /// What the nodes look at when a pod comes, each for itself.
    pub(crate) fn shape(&self, state: &State, task: TaskId) -> Shape {
        let record = &state.model.tasks[task];
        let queue = if (self.zoned || self.honours_locks) && record.job.is_some() {
            state.model.jobs[record.job].queue
        } else {
            QueueId::NONE
        };
        self.shape_in(state, record.class, queue)
    }

    /// The shape of pods of a class in a queue.
    pub(crate) fn shape_in(&self, state: &State, class: ClassId, queue: QueueId) -> Shape {
        let mut zone = QueueId::NONE;
        if self.zoned && queue.is_some() {
            for (_, plugin) in self.answers(Hook::Predicate).chain(self.answers(Hook::NodeOrder)) {
                let answer = plugin.zone(state, queue);
                if answer.is_some() {
                    // Rules of more than one queue: the pod's own queue stands for all of them.
                    zone = if zone.is_some() && zone != answer {
                        queue
                    } else {
                        answer
                    };
                }
            }
        }
        let right = state.right_of(class, queue);
        Shape { class, zone, right }
    }

    /// Whether a pod's place depends on more than each node for itself.
    pub(crate) fn is_wide(&self, state: &State, task: TaskId, shape: Shape) -> bool {
        let record = &state.model.tasks[task];
        record.ties != NOTHING
            || state
                .model
                .places
                .tags
                .get(record.tag)
                .is_some_and(|tag| !tag.meets.is_empty())
            || self
                .answers(Hook::NodeOrder)
                .any(|(_, plugin)| plugin.compares(state, shape))
    }

    /// What all nodes together look at when a pod comes.
    pub(crate) fn want(&self, state: &State, task: TaskId) -> Want {
        let shape = self.shape(state, task);
        let record = &state.model.tasks[task];
        let (tag, ties) = if self.is_wide(state, task, shape) {
            (record.tag, record.ties)
        } else {
            (NOTHING, NOTHING)
        };
        Want { shape, tag, ties }
    }

    /// Why a node does not admit a shape, by facts alone: the first objection.
    pub(crate) fn blocker(&self, state: &State, shape: Shape, node: NodeId) -> Option<Blocker> {
        self.unfit(state, shape, node)
            .or_else(|| node_reservation::lock(state, shape, node))
    }

    /// The same, whoever the node is locked for.
    pub(crate) fn unfit(&self, state: &State, shape: Shape, node: NodeId) -> Option<Blocker> {
        self.answers(Hook::Predicate)
            .find_map(|(_, plugin)| plugin.blocker(state, shape, node))
    }

    /// Whether what is on a node can speak against the shape.
    pub(crate) fn minds_guests(&self, state: &State, shape: Shape) -> bool {
        self.answers(Hook::Predicate)
            .any(|(_, plugin)| plugin.minds_guests(state, shape))
    }

    /// What is on a node that speaks against the shape: the first objection.
    pub(crate) fn guest_blocker(&self, state: &State, shape: Shape, node: NodeId, fit: Fit) -> Option<Blocker> {
        self.answers(Hook::Predicate)
            .find_map(|(_, plugin)| plugin.guest_blocker(state, shape, node, fit))
    }

    /// What other nodes say.
    pub(crate) fn judge(&self, state: &State, task: TaskId, sites: &mut [Site]) {
        for (_, plugin) in self.answers(Hook::Predicate) {
            plugin.judge(state, task, sites);
        }
    }

    /// Why a node does not admit a pod once what is being released there is gone: everything but room counts.
    pub(crate) fn obstacle(&self, state: &State, task: TaskId, node: NodeId) -> Option<Blocker> {
        self.admits(state, task, node).err()
    }

    /// Whether a node admits a pod, now or in future: everything but room counts.
    pub(crate) fn admits(&self, state: &State, task: TaskId, node: NodeId) -> Result<Fit, Blocker> {
        let shape = self.shape(state, task);
        if let Some(blocker) = self.blocker(state, shape, node) {
            return Err(blocker);
        }
        let mut site = Site {
            node,
            fit: Fit::Idle,
            blocker: None,
            score: 0.0,
        };
        if self.minds_guests(state, shape) {
            site.blocker = self.guest_blocker(state, shape, node, Fit::Future);
            if self.guest_blocker(state, shape, node, Fit::Idle).is_some() {
                site.fit = Fit::Future;
            }
        }
        if self.is_wide(state, task, shape) {
            self.judge(state, task, std::slice::from_mut(&mut site));
        }
        site.blocker.map_or(Ok(site.fit), Err)
    }

    /// A number that changes when scores of untouched nodes may have changed.
    pub(crate) fn score_version(&self, state: &State, shape: Shape) -> u64 {
        self.answers(Hook::NodeOrder)
            .map(|(_, plugin)| plugin.score_version(state, shape))
            .max()
            .unwrap_or(0)
    }

    /// The sum of all scores that a node gets for itself.
    pub(crate) fn score(&self, state: &State, shape: Shape, node: NodeId) -> f64 {
        self.answers(Hook::NodeOrder)
            .map(|(_, plugin)| plugin.score(state, shape, node))
            .sum()
    }

    /// Adds what comes from comparing sites.
    pub(crate) fn rank(&self, state: &State, task: TaskId, sites: &mut [Site]) {
        for (_, plugin) in self.answers(Hook::NodeOrder) {
            plugin.rank(state, task, sites);
        }
    }
}
