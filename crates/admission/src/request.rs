//! What comes in: one write request, and a view of what is stored.

use std::sync::Arc;

use serde_json::Value;

/// The verb of a write, as admission sees it (a patch is an update).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    /// A new object.
    Create,
    /// A change of a stored object.
    Update,
    /// A removal.
    Delete,
}

/// Who asks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct User {
    /// User name, for example `system:admin`.
    pub name: String,
    /// Groups of the user.
    pub groups: Vec<String>,
}

/// One write request, after decoding and before storage.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The verb.
    pub operation: Operation,
    /// API group, empty for the core group.
    pub group: &'a str,
    /// Plural resource name, for example `jobs`.
    pub resource: &'a str,
    /// Subresource, for example `status`; none for the object itself.
    pub subresource: Option<&'a str>,
    /// Namespace, empty for cluster-scoped kinds.
    pub namespace: &'a str,
    /// Object name.
    pub name: &'a str,
    /// Who asks.
    pub user: &'a User,
    /// The new object (create, update).
    pub object: Option<&'a Value>,
    /// The stored object (update, delete).
    pub old: Option<&'a Value>,
    /// Whether nothing will be stored.
    pub dry_run: bool,
}

/// The stored objects that rules look at. Resources are named as in storage: `pods`,
/// `queues.scheduling.volcano.sh`.
pub trait View {
    /// One object.
    fn get(&self, resource: &str, namespace: &str, name: &str) -> Option<Arc<Value>>;
    /// All objects of a resource, in one namespace or in all.
    fn list(&self, resource: &str, namespace: Option<&str>) -> Vec<Arc<Value>>;
    /// The queues whose parent is `parent`. A caller with an index overrides this.
    fn children(&self, parent: &str) -> Vec<Arc<Value>> {
        let mut queues = self.list(crate::queue::RESOURCE, None);
        queues.retain(|queue| crate::queue::parent_of(queue) == parent);
        queues
    }
}
