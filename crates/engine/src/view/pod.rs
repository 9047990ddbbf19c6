//! A pod, as the engine knows it.

use std::sync::Arc;

use super::{NodeView, PodGroupView};
use crate::engine::Engine;
use crate::ledger::Status;
use crate::model::{Task, TaskId};

/// A pod that the engine knows.
#[derive(Clone, Copy)]
pub struct PodView<'e> {
    engine: &'e Engine,
    id: TaskId,
}

impl<'e> PodView<'e> {
    #[inline]
    pub(super) fn new(engine: &'e Engine, id: TaskId) -> Self {
        PodView { engine, id }
    }

    #[inline]
    fn record(self) -> &'e Task {
        &self.engine.state().model.tasks[self.id]
    }

    #[inline]
    fn status(self) -> Status {
        self.engine.state().ledger.status(self.id)
    }

    /// Returns `namespace/name`.
    #[inline]
    pub fn key(self) -> &'e Arc<str> {
        self.engine.state().model.tasks.name(self.id)
    }

    /// Returns the pod's uid.
    #[inline]
    pub fn uid(self) -> &'e Arc<str> {
        &self.record().uid
    }

    /// Returns the pod's group; none for pods of other schedulers.
    #[inline]
    pub fn group(self) -> Option<PodGroupView<'e>> {
        let job = self.record().job;
        job.is_some().then(|| PodGroupView::new(self.engine, job))
    }

    /// Returns the pod's node: observed, assumed, or being cleared for it.
    #[inline]
    pub fn node(self) -> Option<NodeView<'e>> {
        let node = self.engine.state().ledger.node(self.id);
        node.is_some().then(|| NodeView::new(self.engine, node))
    }

    /// Returns whether the pod waits for a node.
    #[inline]
    pub fn is_pending(self) -> bool {
        self.status() == Status::Pending
    }

    /// Returns whether a scheduling gate holds the pod back.
    #[inline]
    pub fn is_gated(self) -> bool {
        self.record().gated
    }

    /// Returns whether a plan has given the pod a node and the API does not show it there yet.
    #[inline]
    pub fn is_assumed(self) -> bool {
        self.status() == Status::Allocated
    }

    /// Returns whether a node is being cleared for the pod.
    #[inline]
    pub fn is_pipelined(self) -> bool {
        self.status() == Status::Pipelined
    }

    /// Returns whether the API shows the pod on a node, where it has neither ended nor been told to go.
    #[inline]
    pub fn is_placed(self) -> bool {
        matches!(self.status(), Status::Bound | Status::Running)
    }

    /// Returns whether the API shows the pod's node.
    #[inline]
    pub fn is_node_observed(self) -> bool {
        self.record().shown
    }

    /// Returns whether the API refused to evict the pod a short time ago, so that nobody tries again for a while.
    #[inline]
    pub fn is_in_eviction_backoff(self) -> bool {
        self.record().spared
    }

    /// Returns whether the node that was decided for the pod still suits it, now that other changes may have come in:
    /// the node is there, admits the pod, and is not overcommitted in anything that the pod requests.
    pub fn is_node_still_suitable(self) -> bool {
        let state = self.engine.state();
        let node = state.ledger.node(self.id);
        if !node.is_some() || !state.model.nodes[node].present || self.engine.objection(self.id).is_some() {
            return false;
        }
        // A node that shrank has less than nothing left; of its pods, the one that has not come yet gives way.
        let mut request = state.model.classes.request(self.record().class).iter();
        request.all(|(dim, _)| state.ledger.idle_of(node, dim) >= 0)
    }
}
