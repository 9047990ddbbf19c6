//! A node, as the engine knows it.

use std::sync::Arc;

use super::PodView;
use crate::engine::Engine;
use crate::facts::Resources;
use crate::model::{Id, Node, NodeId};

/// A node that the engine knows, or that a pod says it is on.
#[derive(Clone, Copy)]
pub struct NodeView<'e> {
    engine: &'e Engine,
    id: NodeId,
}

impl<'e> NodeView<'e> {
    #[inline]
    pub(super) fn new(engine: &'e Engine, id: NodeId) -> Self {
        NodeView { engine, id }
    }

    #[inline]
    fn record(self) -> &'e Node {
        &self.engine.state().model.nodes[self.id]
    }

    /// Returns the node's name.
    #[inline]
    pub fn name(self) -> &'e Arc<str> {
        self.engine.state().model.nodes.name(self.id)
    }

    /// Returns the uid of the object; empty while the object is unknown.
    #[inline]
    pub fn uid(self) -> &'e Arc<str> {
        &self.record().uid
    }

    /// Returns whether the engine knows the object itself, not only pods that name it.
    #[inline]
    pub fn is_declared(self) -> bool {
        self.record().present
    }

    /// Returns the pods on the node, and those that it is being cleared for, in no meaningful order.
    pub fn pods(self) -> impl ExactSizeIterator<Item = PodView<'e>> {
        let tasks = self.engine.state().ledger.tasks_on(self.id).iter();
        tasks.map(move |&task| PodView::new(self.engine, task))
    }

    /// Returns the pods that a plan has given this node and that the API does not show there yet.
    pub fn assumed_pods(self) -> impl Iterator<Item = PodView<'e>> {
        self.pods().filter(|pod| pod.is_assumed())
    }

    /// Returns what the node has idle; negative where it is overcommitted.
    pub fn idle(self) -> Resources {
        let state = self.engine.state();
        state.model.dims.resources(&state.ledger.idle().row(self.id.index()))
    }

    /// Returns what the node will have idle once the pods that go are gone and the pods that it is cleared for have
    /// come.
    pub fn future_idle(self) -> Resources {
        let state = self.engine.state();
        state.model.dims.resources(&state.ledger.future().row(self.id.index()))
    }
}
