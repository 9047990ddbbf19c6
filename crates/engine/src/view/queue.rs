//! A queue, as the engine knows it.

use std::sync::Arc;

use crate::engine::Engine;
use crate::facts::Resources;
use crate::model::{Id, Queue, QueueId};
use crate::resources::Amounts;

/// A queue that the engine knows, or that another object names.
#[derive(Clone, Copy)]
pub struct QueueView<'e> {
    engine: &'e Engine,
    id: QueueId,
}

impl<'e> QueueView<'e> {
    #[inline]
    pub(super) fn new(engine: &'e Engine, id: QueueId) -> Self {
        QueueView { engine, id }
    }

    #[inline]
    fn record(self) -> &'e Queue {
        &self.engine.state().model.queues[self.id]
    }

    /// Returns the queue's name.
    #[inline]
    pub fn name(self) -> &'e Arc<str> {
        self.engine.state().model.queues.name(self.id)
    }

    /// Returns whether the engine knows the object itself, not only objects that name it.
    #[inline]
    pub fn is_declared(self) -> bool {
        self.record().present
    }

    /// Returns the queue's weight among its siblings.
    #[inline]
    pub fn weight(self) -> u32 {
        self.record().weight
    }

    /// Returns the most that the queue may have; a resource that is absent has no limit.
    pub fn capability(self) -> Resources {
        self.engine.state().model.dims.resources(&self.record().capability)
    }

    /// Returns what pods of the queue and of all queues below it have: those with a node, observed, assumed or
    /// nominated.
    pub fn allocated(self) -> Resources {
        let state = self.engine.state();
        let row = state.ledger.queue_allocated().row(self.id.index());
        state.model.dims.resources(&row)
    }

    /// Returns what all unfinished pods of the queue and of all queues below it request, with a node or without.
    pub fn requested(self) -> Resources {
        let state = self.engine.state();
        let [allocated, waiting] =
            [state.ledger.queue_allocated(), state.ledger.queue_waiting()].map(|columns| columns.row(self.id.index()));
        let requested = Amounts::from_pairs(allocated.iter().chain(waiting.iter()));
        state.model.dims.resources(&requested)
    }
}
