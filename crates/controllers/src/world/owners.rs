//! Controllers of plain pods (ReplicaSets and the like), for what they say about the PodGroup of their pods.

use std::collections::BTreeMap;

use basalt_api::{NamespacedName, names};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::{Work, World};
use crate::change::Outcome;
use crate::podgroup;

/// What is kept of a controller of plain pods.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Owner {
    pub(super) annotations: BTreeMap<String, String>,
    /// It wants no pods at all.
    idle: bool,
}

impl World {
    /// Takes in a controller of plain pods, which wants so many of them where it says so.
    pub fn upsert_owner(&mut self, meta: &ObjectMeta, replicas: Option<i32>) -> Vec<Work> {
        let uid = meta.uid.clone().unwrap_or_default();
        let counts = |key: &str| {
            key.starts_with(names::INHERITED_PREFIX) || matches!(key, names::GROUP_MIN_MEMBER | names::QUEUE_NAME)
        };
        let annotations = meta.annotations.iter().flatten().filter(|(key, _)| counts(key));
        let owner = Owner {
            annotations: annotations.map(|(key, value)| (key.clone(), value.clone())).collect(),
            idle: replicas == Some(0),
        };
        if self.owners.get(&uid).unwrap_or(&Owner::default()) == &owner {
            return Vec::new();
        }
        let mut work: Vec<Work> = self
            .pods_of_owner
            .of(&uid)
            .map(|key| Work::Pod((**key).clone()))
            .collect();
        if owner.idle {
            let namespace = meta.namespace.clone().unwrap_or_default();
            work.push(Work::Owner(NamespacedName::new(&namespace, &uid)));
        }
        if owner == Owner::default() {
            self.owners.remove(&uid);
        } else {
            self.owners.insert(uid, owner);
        }
        work
    }

    /// A controller of plain pods is gone.
    pub fn remove_owner(&mut self, uid: &str) {
        self.owners.remove(uid);
    }

    /// What becomes of the group of a controller; its key has the uid in place of the name.
    pub(super) fn look_at_owner(&self, key: &NamespacedName) -> Outcome {
        if !self.owners.get(&*key.name).is_some_and(|owner| owner.idle) {
            return Outcome::default();
        }
        let group = key.in_same_namespace(&names::plain_pod_group(&key.name));
        podgroup::retire(self.groups.get(&group), self.pods_of_owner.count(&key.name))
    }

    /// The owner of a pod that is gone may have no use for the group any more.
    pub(super) fn idle_owner(&self, namespace: &str, uid: Option<&str>) -> Option<Work> {
        let uid = uid.filter(|uid| self.owners.get(*uid).is_some_and(|owner| owner.idle))?;
        Some(Work::Owner(NamespacedName::new(namespace, uid)))
    }
}
