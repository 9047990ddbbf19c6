//! How events change the state. Every upsert is idempotent, and the order of events about different objects does not
//! matter: a name that is mentioned before its object arrives has a slot already.

mod budgets;
mod groups;
mod nodes;
mod pods;
mod queues;
mod quotas;
mod ties;

use super::State;
use crate::facts::Event;

impl State {
    /// Takes in one change. `ours` says which scheduler names we serve.
    pub(crate) fn apply(&mut self, event: &Event, ours: &dyn Fn(&str) -> bool) {
        match event {
            Event::Node(facts) => self.upsert_node(facts),
            Event::NodeGone { name, uid } => self.node_gone(name, uid.as_deref()),
            Event::Pod(facts) => self.upsert_pod(facts, ours(&facts.scheduler)),
            Event::PodGone { key, uid } => self.pod_gone(key, uid.as_deref()),
            Event::PodGroup(facts) => self.upsert_group(facts),
            Event::PodGroupGone { key, uid } => self.group_gone(key, uid.as_deref()),
            Event::Queue(facts) => self.upsert_queue(facts),
            Event::QueueGone { name, uid } => self.queue_gone(name, uid.as_deref()),
            Event::PriorityClass(facts) => self.upsert_priority(facts),
            Event::PriorityClassGone { name, uid } => self.priority_gone(name, uid.as_deref()),
            Event::Budget(facts) => self.upsert_budget(facts),
            Event::BudgetGone { key, uid } => self.budget_gone(key, uid.as_deref()),
            Event::Quota(facts) => self.upsert_quota(facts),
            Event::QuotaGone { key, uid } => self.quota_gone(key, uid.as_deref()),
            Event::Namespace(facts) => self.upsert_namespace(facts),
            Event::NamespaceGone { name, uid } => self.namespace_gone(name, uid.as_deref()),
            Event::Claim(facts) => self.upsert_claim(facts),
            Event::ClaimGone { key, uid } => self.claim_gone(key, uid.as_deref()),
            Event::Volume(facts) => self.upsert_volume(facts),
            Event::VolumeGone { name, uid } => self.volume_gone(name, uid.as_deref()),
            Event::Storage(facts) => self.upsert_storage(facts),
            Event::StorageGone { name, uid } => self.storage_gone(name, uid.as_deref()),
        }
    }
}

/// Whether news of an end are about the object that is known: a late word about an earlier one of the same name is not.
pub(crate) fn is_meant(uid: Option<&str>, known: &str) -> bool {
    uid.is_none_or(|uid| uid == known)
}

/// Sets a field; true when that changed it.
fn put<T: PartialEq>(field: &mut T, value: T) -> bool {
    let changed = *field != value;
    *field = value;
    changed
}
