//! `Queue.status`: what each queue has, what it deserves, and its share.

use std::collections::BTreeMap;
use std::sync::Arc;

use basalt_api::quantity::ResourceList;
use basalt_api::queue::{Queue, QueueStatus};
use basalt_api::{ObjectRef, resource_kind};
use basalt_controllers::Change;
use basalt_engine::facts::{Resources, quantity};
use basalt_engine::plan::QueueState;
use kube::ResourceExt;
use serde_json::{Map, Value, json};

use crate::watch::feed::FeedEvent;
use crate::write::coalescing::Latest;

/// The fields of a queue's status that are ours.
#[derive(Debug, Default, PartialEq)]
struct Ours {
    allocated: ResourceList,
    deserved: ResourceList,
    share: String,
}

/// Keeps what stands in the queues, and tells what differs.
pub(in crate::scheduler) struct QueueStatuses {
    outlet: Latest,
    stands: BTreeMap<String, (String, Ours)>,
    told: Arc<Vec<QueueState>>,
}

impl QueueStatuses {
    pub(in crate::scheduler) fn new(outlet: Latest) -> Self {
        Self {
            outlet,
            stands: BTreeMap::new(),
            told: Arc::default(),
        }
    }

    /// Learns what stands in a queue.
    pub(in crate::scheduler) fn observe(&mut self, event: &FeedEvent<Queue>) {
        match event {
            FeedEvent::Upsert(queue) => {
                let (name, uid) = (queue.name_any(), queue.uid().unwrap_or_default());
                let ours = self.stands.get(&name).is_some_and(|(known, _)| *known == uid);
                if !ours || !self.outlet.is_pending(&target(&name)) {
                    let QueueStatus {
                        allocated,
                        deserved,
                        share,
                        ..
                    } = queue.status.clone().unwrap_or_default();
                    let found = Ours {
                        allocated,
                        deserved,
                        share,
                    };
                    let differs = self.stands.get(&name).is_none_or(|(_, known)| *known != found);
                    if differs {
                        self.told = Arc::default(); // to be looked at again
                    }
                    self.stands.insert(name, (uid, found));
                }
            }
            FeedEvent::Delete { key, uid } => {
                if self.stands.get(&*key.name).is_some_and(|(known, _)| known == uid) {
                    self.stands.remove(&*key.name);
                }
            }
            FeedEvent::Synced => {}
        }
    }

    /// Sends what differs from what stands.
    pub(in crate::scheduler) fn tell(&mut self, queues: &Arc<Vec<QueueState>>) {
        if Arc::ptr_eq(&self.told, queues) {
            return;
        }
        self.told = Arc::clone(queues);
        for queue in queues.iter() {
            let Some((uid, stands)) = self.stands.get_mut(&*queue.name) else {
                continue;
            };
            let wanted = Ours {
                allocated: list(&queue.allocated),
                deserved: list(&queue.deserved),
                share: format!("{:.6}", queue.share),
            };
            if *stands == wanted {
                continue;
            }
            let status = json!({
                "allocated": difference(&stands.allocated, &wanted.allocated),
                "deserved": difference(&stands.deserved, &wanted.deserved),
                "share": wanted.share,
            });
            let target = target(&queue.name);
            let change = Change::Patch {
                target: target.clone(),
                subresource: Some("status".to_owned()),
                uid: Some(uid.clone()),
                resource_version: None,
                merge: json!({"status": status}),
            };
            *stands = wanted;
            self.outlet.put(target, change);
        }
    }
}

fn target(name: &str) -> ObjectRef {
    ObjectRef::new(resource_kind::QUEUE, "", name)
}

fn list(resources: &Resources) -> ResourceList {
    let entries = resources.iter();
    entries
        .map(|(name, amount)| (name.to_string(), quantity(name, *amount)))
        .collect()
}

/// The whole new list, with the dimensions that fell away taken out. A write that never arrives may be replaced by the
/// next one, so each says everything.
fn difference(before: &ResourceList, after: &ResourceList) -> Value {
    let mut patch: Map<String, Value> = before.keys().map(|name| (name.clone(), Value::Null)).collect();
    patch.extend(after.iter().map(|(name, amount)| (name.clone(), json!(amount))));
    Value::Object(patch)
}
