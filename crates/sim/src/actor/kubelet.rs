//! The node: runs what is bound to it, ends what is deleted. When work is done is the user's to say.

use std::collections::VecDeque;

use jiff::Timestamp;
use serde_json::json;

use super::Actor;
use super::controllers::with_conditions;
use crate::api::meta::{is_deleting, text};
use crate::api::{Answer, Api, Kind, Report, Request};
use crate::whim::Whim;

/// All nodes' kubelets.
#[derive(Default)]
pub struct Kubelet {
    todo: VecDeque<Request>,
}

impl Actor for Kubelet {
    fn name(&self) -> &'static str {
        "node"
    }

    fn watches(&self) -> &'static [Kind] {
        &[Kind::Pod]
    }

    fn take_in(&mut self, report: &Report, _: Timestamp) {
        let (pod, key) = (&report.object, report.key.clone());
        if report.gone || text(pod, "/spec/nodeName").is_empty() {
            return;
        }
        let uid = text(pod, "/metadata/uid");
        if is_deleting(pod) {
            self.todo.push_back(Request::Delete {
                key,
                uid: Some(uid.to_owned()),
                revision: None,
                grace: Some(0),
            });
        } else if text(pod, "/status/phase") == "Pending" {
            // The version is a condition: a pod that has ended since does not run again.
            let conditions = [
                ("uid", Some(uid)),
                ("resourceVersion", Some(text(pod, "/metadata/resourceVersion"))),
            ];
            self.todo.push_back(Request::Patch {
                key,
                status: true,
                merge: with_conditions(json!({"status": {"phase": "Running"}}), &conditions),
            });
        }
    }

    fn listed(&mut self, _: Kind, _: Timestamp) {}

    fn next(&mut self, _: &Api, _: Timestamp, _: &mut Whim) -> Option<Request> {
        self.todo.front().cloned()
    }

    fn answered(&mut self, _: &Request, answer: &Answer, _: Timestamp) {
        // A kubelet tries again until it knows; a refusal means that the watch has more to tell.
        if !super::is_lost(answer) {
            self.todo.pop_front();
        }
    }

    fn next_due(&self) -> Option<Timestamp> {
        None
    }
}
