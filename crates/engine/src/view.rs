//! Borrowing views: how code outside the engine reads what the engine knows.
//!
//! A view is an id and a reference to the engine. It copies nothing, and it is valid until the engine changes. Views
//! say what the API server reported ("observed"), what the engine decided and the API does not show yet ("assumed"),
//! and what follows from the two.

mod node;
mod pod;
mod pod_group;
mod queue;

pub use self::node::NodeView;
pub use self::pod::PodView;
pub use self::pod_group::PodGroupView;
pub use self::queue::QueueView;
use crate::engine::Engine;

impl Engine {
    /// Returns the pod group `namespace/name`, if the engine knows it or any pod names it.
    #[inline]
    pub fn group(&self, key: &str) -> Option<PodGroupView<'_>> {
        let id = self.state().model.jobs.find(key)?;
        Some(PodGroupView::new(self, id))
    }

    /// Returns all pod groups, in no meaningful order.
    pub fn groups(&self) -> impl Iterator<Item = PodGroupView<'_>> {
        self.state().model.jobs.ids().map(move |id| PodGroupView::new(self, id))
    }

    /// Returns the pod `namespace/name`.
    #[inline]
    pub fn pod(&self, key: &str) -> Option<PodView<'_>> {
        let id = self.state().model.tasks.find(key)?;
        Some(PodView::new(self, id))
    }

    /// Returns all pods, in no meaningful order.
    pub fn pods(&self) -> impl Iterator<Item = PodView<'_>> {
        self.state().model.tasks.ids().map(move |id| PodView::new(self, id))
    }

    /// Returns a node by its name, if the engine knows it or any pod says that it is on it.
    #[inline]
    pub fn node(&self, name: &str) -> Option<NodeView<'_>> {
        let id = self.state().model.nodes.find(name)?;
        Some(NodeView::new(self, id))
    }

    /// Returns all nodes, in no meaningful order.
    pub fn nodes(&self) -> impl Iterator<Item = NodeView<'_>> {
        self.state().model.nodes.ids().map(move |id| NodeView::new(self, id))
    }

    /// Returns a queue by its name, if the engine knows it or another object names it.
    #[inline]
    pub fn queue(&self, name: &str) -> Option<QueueView<'_>> {
        let id = self.state().model.queues.find(name)?;
        Some(QueueView::new(self, id))
    }

    /// Returns all queues, in no meaningful order.
    pub fn queues(&self) -> impl Iterator<Item = QueueView<'_>> {
        self.state().model.queues.ids().map(move |id| QueueView::new(self, id))
    }
}

#[cfg(test)]
mod tests;
