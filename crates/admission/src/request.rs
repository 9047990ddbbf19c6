//! What comes in: one write request, and what an administrator has set.

use std::sync::Arc;

use basalt_api::Quantity;
use basalt_api::fraction::Fraction;
use basalt_api::names;
use basalt_api::quantity::Format;
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

/// What an administrator can set about the rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Levels under the root that the tree of queues may have.
    pub queue_depth_max: usize,
    /// Whether a delivery also needs the right to `use` the queue.
    pub queue_acl: bool,
    /// The part of the cluster that all queues together may be guaranteed.
    pub guarantee_share: Fraction,
    /// The schedulers whose pods are ours; a Job that names none gets the first.
    pub schedulers: Arc<[String]>,
}

impl Settings {
    /// All of the cluster.
    const WHOLE: i128 = 1_000_000_000;
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            queue_depth_max: 5,
            queue_acl: false,
            schedulers: names::SCHEDULER_NAMES.map(str::to_owned).into(),
            guarantee_share: Fraction::new(Quantity::from_nano(Self::WHOLE, Format::DecimalSi).unwrap_or_default()),
        }
    }
}
