//! The garbage collector: what belonged to something that is gone goes too. Like the server's own it judges by the store.

use basalt_api::json::{is_deleting, string_at};
use jiff::Timestamp;
use serde_json::Value;

use super::Actor;
use crate::api::{Answer, Api, Key, Kind, Report, Request};
use crate::whim::Whim;

/// The garbage collector.
#[derive(Default)]
pub struct Collector {
    /// Whether anything has happened since it found nothing to do.
    stirred: bool,
}

/// Whether all owners of an object are gone.
fn is_orphan(api: &Api, key: &Key, object: &Value) -> bool {
    let owners = object.pointer("/metadata/ownerReferences").and_then(Value::as_array);
    let Some(owners) = owners.filter(|owners| !owners.is_empty() && !is_deleting(object)) else {
        return false;
    };
    owners.iter().all(|owner| {
        let kind = Kind::of(string_at(owner, "/kind"));
        kind.is_some_and(|kind| {
            let owner_key = Key::new(kind, &key.namespace, string_at(owner, "/name"));
            let found = api.get(&owner_key);
            found.is_none_or(|found| string_at(found, "/metadata/uid") != string_at(owner, "/uid"))
        })
    })
}

impl Actor for Collector {
    fn name(&self) -> &'static str {
        "collector"
    }

    fn watches(&self) -> &'static [Kind] {
        &[
            Kind::Job,
            Kind::PodGroup,
            Kind::Pod,
            Kind::PersistentVolumeClaim,
            Kind::Service,
            Kind::ConfigMap,
            Kind::Secret,
            Kind::NetworkPolicy,
        ]
    }

    fn take_in(&mut self, _: &Report, _: Timestamp) {
        self.stirred = true;
    }

    fn listed(&mut self, _: Kind, _: Timestamp) {
        self.stirred = true;
    }

    fn next(&mut self, api: &Api, _: Timestamp, _: &mut Whim) -> Option<Request> {
        if !self.stirred {
            return None;
        }
        let kinds = self.watches().iter();
        let mut found = kinds.flat_map(|kind| api.of_kind(*kind));
        let orphan = found.find(|(key, object)| is_orphan(api, key, object));
        let request = orphan.map(|(key, object)| Request::Delete {
            key: key.clone(),
            uid: Some(string_at(object, "/metadata/uid").to_owned()),
            revision: None,
            grace: None,
        });
        self.stirred = request.is_some();
        request
    }

    fn answered(&mut self, _: &Request, _: &Answer, _: Timestamp) {}

    fn next_due(&self) -> Option<Timestamp> {
        None
    }
}
