//! `Queue.status`: what each queue has, what it deserves, and its share.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use basalt_api::Change;
use basalt_api::quantity::ResourceList;
use basalt_api::queue::{Queue, QueueStatus};
use basalt_engine::facts::{Resources, quantity};
use basalt_engine::plan::QueueState;
use kube::ResourceExt;
use serde_json::{Map, Value, json};

use crate::command::{CommandOutbox, StatusWriter, queue_ref};
use crate::input::ObjectEvent;
use crate::pending_write::PendingWrites;

/// The fields of a queue's status that the scheduler owns.
#[derive(Debug, Default, PartialEq)]
struct QueueAccount {
    allocated: ResourceList,
    deserved: ResourceList,
    share: String,
}

/// Publishes what each queue has and deserves. Only differences from what was published are written.
#[derive(Debug, Default)]
pub(crate) struct QueueStatusReporter {
    pending: PendingWrites,
    /// The uid and the published account of every queue.
    published: BTreeMap<String, (String, QueueAccount)>,
    /// The accounts that were compared last; the engine shares an unchanged list.
    compared: Arc<Vec<QueueState>>,
}

impl QueueStatusReporter {
    /// Learns what a queue's status says.
    pub(crate) fn observe(&mut self, event: &ObjectEvent<'_, Queue>) {
        match event {
            ObjectEvent::Applied(queue) => {
                let (name, uid) = (queue.name_any(), queue.uid().unwrap_or_default());
                let is_known = self.published.get(&name).is_some_and(|(known, _)| *known == uid);
                if is_known && self.pending.is_pending(&name) {
                    return;
                }
                let QueueStatus {
                    allocated,
                    deserved,
                    share,
                    ..
                } = queue.status.clone().unwrap_or_default();
                let observed = QueueAccount {
                    allocated,
                    deserved,
                    share,
                };
                if self.published.get(&name).is_none_or(|(_, known)| *known != observed) {
                    self.compared = Arc::default();
                }
                self.published.insert(name, (uid, observed));
            }
            ObjectEvent::Deleted { key, uid } => {
                if self.published.get(&*key.name).is_some_and(|(known, _)| known == uid) {
                    self.published.remove(&*key.name);
                    self.pending.forget(&key.name);
                }
            }
        }
    }

    /// Takes note of the answer to a write.
    pub(crate) fn write_answered(&mut self, name: &str, sequence: u64) {
        self.pending.answer(name, sequence);
    }

    /// Writes the accounts that differ from the published ones.
    pub(crate) fn publish(&mut self, queues: &Arc<Vec<QueueState>>, outbox: &mut CommandOutbox) {
        if Arc::ptr_eq(&self.compared, queues) {
            return;
        }
        self.compared = Arc::clone(queues);
        for queue in queues.iter() {
            let Some((uid, published)) = self.published.get_mut(&*queue.name) else {
                continue;
            };
            let account = QueueAccount {
                allocated: resource_list(&queue.allocated),
                deserved: resource_list(&queue.deserved),
                share: format!("{:.6}", queue.share),
            };
            if *published == account {
                continue;
            }
            let status = json!({
                "allocated": merge_patch(&published.allocated, &account.allocated),
                "deserved": merge_patch(&published.deserved, &account.deserved),
                "share": account.share,
            });
            let target = queue_ref(&queue.name);
            let change = Change::Patch {
                target: target.clone(),
                subresource: Some("status".to_owned()),
                uid: Some(uid.clone()),
                resource_version: None,
                merge: json!({"status": status}),
            };
            *published = account;
            let sequence = outbox.write_status(StatusWriter::Queues, target, change, Duration::ZERO);
            self.pending.add(&queue.name, sequence);
        }
    }
}

fn resource_list(resources: &Resources) -> ResourceList {
    let entries = resources.iter();
    entries
        .map(|(name, amount)| (name.to_string(), quantity(name, *amount)))
        .collect()
}

/// Returns the whole new list, with the resources that it no longer has removed. A write that was not sent may be
/// replaced by the next one, so each contains everything.
fn merge_patch(before: &ResourceList, after: &ResourceList) -> Value {
    let mut patch: Map<String, Value> = before.keys().map(|name| (name.clone(), Value::Null)).collect();
    patch.extend(after.iter().map(|(name, amount)| (name.clone(), json!(amount))));
    Value::Object(patch)
}
