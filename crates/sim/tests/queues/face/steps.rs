//! Requests that are made up, before anyone knows uids and versions.

use basalt_sim::api::meta_text as text;
use basalt_sim::{Key, Kind, Request};
use proptest::prelude::*;
use serde_json::{Value, json};

/// A condition on a request.
#[derive(Clone, Copy, Debug)]
pub(super) enum Condition {
    None,
    Uid,
    OtherUid,
    Version,
    OtherVersion,
}

/// A request, before anyone knows uids and versions. Names are numbers.
#[derive(Clone, Debug)]
pub(super) enum Step {
    Create(Kind, u8, Value),
    Patch(Kind, u8, bool, Value, Condition),
    Delete(Kind, u8, Condition, Option<i64>),
    Bind(u8, Condition),
    /// A condition of a pod: type and message.
    PodCondition(u8, &'static str, &'static str, Condition),
    /// A PodGroup of a Job.
    Owned(u8, u8),
    /// A Command to a queue.
    Command(u8, u8, &'static str, Condition),
}

const PREFIX: [(Kind, &str); 5] = [
    (Kind::Queue, "q"),
    (Kind::Job, "j"),
    (Kind::PodGroup, "g"),
    (Kind::Pod, "p"),
    (Kind::Command, "c"),
];

/// Names of one case: queues of other cases are in the same server.
fn name(case: u32, kind: Kind, number: u8) -> String {
    let prefix = PREFIX
        .iter()
        .find(|(known, _)| *known == kind)
        .map_or("x", |(_, prefix)| prefix);
    format!("t{case}-{prefix}{number}")
}

fn queue_word() -> impl Strategy<Value = String> {
    prop_oneof![4 => (0u8..3).prop_map(|queue| format!("@q{queue}")), 1 => Just("root".to_owned())]
}

fn creates() -> impl Strategy<Value = Step> {
    let state = prop_oneof![3 => Just(json!("Open")), 2 => Just(json!("Closed")), 1 => Just(json!("Closing")), 1 => Just(json!(null))];
    let pod = json!({"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}],
        "schedulerName": "volcano", "restartPolicy": "Never"});
    let job_pod = pod.clone();
    prop_oneof![
        4 => (0u8..3, queue_word(), state, any::<bool>()).prop_map(|(queue, parent, state, held)| {
            let mut object = json!({"metadata": {}, "status": {"state": "Closed"},
                "spec": {"weight": 1, "parent": parent, "state": state, "dequeueStrategy": "traverse"}});
            if object["spec"]["state"].is_null() {
                object["spec"] = json!({"parent": object["spec"]["parent"], "dequeueStrategy": "traverse"});
            }
            if held {
                object["metadata"]["finalizers"] = json!(["example.com/hold"]);
            }
            Step::Create(Kind::Queue, queue, object)
        }),
        3 => (0u8..2, queue_word()).prop_map(move |(job, queue)| {
            let template = json!({"spec": job_pod.clone()});
            let tasks = json!([{"name": "t", "replicas": 1, "template": template}]);
            let spec = json!({"queue": queue, "minAvailable": 1, "maxRetry": 3, "schedulerName": "volcano", "tasks": tasks});
            Step::Create(Kind::Job, job, json!({"metadata": {}, "spec": spec}))
        }),
        2 => (0u8..2, queue_word()).prop_map(|(group, queue)| {
            let object = json!({"metadata": {}, "spec": {"queue": queue, "minMember": 1}, "status": {"phase": "Pending"}});
            Step::Create(Kind::PodGroup, group, object)
        }),
        2 => (0u8..2, queue_word(), any::<bool>()).prop_map(move |(number, queue, named)| {
            let mut object = json!({"metadata": {}, "spec": pod.clone()});
            if named {
                object["metadata"]["annotations"] = json!({"scheduling.volcano.sh/queue-name": queue});
            }
            Step::Create(Kind::Pod, number, object)
        }),
    ]
}

fn condition() -> impl Strategy<Value = Condition> {
    prop_oneof![
        4 => Just(Condition::None),
        2 => Just(Condition::Uid),
        1 => Just(Condition::OtherUid),
        2 => Just(Condition::Version),
        1 => Just(Condition::OtherVersion),
    ]
}

fn patches() -> impl Strategy<Value = Step> {
    let state = prop_oneof![Just("Open"), Just("Closed"), Just("Closing")];
    let queue = prop_oneof![
        state
            .clone()
            .prop_map(|state| (false, json!({"spec": {"state": state}}))),
        queue_word().prop_map(|parent| (false, json!({"spec": {"parent": parent}}))),
        Just((false, json!({"spec": {"state": null, "weight": 2}}))),
        Just((
            false,
            json!({"metadata": {"labels": {"a": "b"}}, "status": {"state": "Open"}})
        )),
        Just((false, json!({"metadata": {"finalizers": null}}))),
        Just((
            false,
            json!({"metadata": {"finalizers": ["example.com/hold"], "annotations": {}}})
        )),
        Just((
            false,
            json!({"metadata": {"name": null, "generation": 99, "deletionTimestamp": null}})
        )),
        state.prop_map(|state| (
            true,
            json!({"metadata": {"labels": {"c": "d"}}, "spec": {"weight": 5}, "status": {"state": state}})
        )),
    ];
    let phase = prop_oneof![Just("Pending"), Just("Running"), Just("Completed")];
    let pod_phase = prop_oneof![Just("Running"), Just("Succeeded")];
    prop_oneof![
        6 => (0u8..3, queue, condition()).prop_map(|(queue, (status, merge), condition)| {
            Step::Patch(Kind::Queue, queue, status, merge, condition)
        }),
        2 => (0u8..2, phase.clone(), condition()).prop_map(|(job, phase, condition)| {
            Step::Patch(Kind::Job, job, true, json!({"status": {"state": {"phase": phase}}}), condition)
        }),
        2 => (0u8..2, phase, condition()).prop_map(|(group, phase, condition)| {
            Step::Patch(Kind::PodGroup, group, false, json!({"status": {"phase": phase}}), condition)
        }),
        1 => (0u8..2, queue_word(), condition()).prop_map(|(group, queue, condition)| {
            Step::Patch(Kind::PodGroup, group, false, json!({"spec": {"queue": queue}}), condition)
        }),
        2 => (0u8..2, pod_phase, condition()).prop_map(|(pod, phase, condition)| {
            Step::Patch(Kind::Pod, pod, true, json!({"status": {"phase": phase}}), condition)
        }),
    ]
}

fn words(words: [&'static str; 2]) -> impl Strategy<Value = &'static str> {
    prop_oneof![Just(words[0]), Just(words[1])]
}

pub(super) fn steps() -> impl Strategy<Value = Vec<Step>> {
    let kinds =
        prop_oneof![3 => Just(Kind::Queue), 1 => Just(Kind::Job), 1 => Just(Kind::PodGroup), 2 => Just(Kind::Pod)];
    let grace = prop_oneof![Just(None), Just(Some(0)), Just(Some(5))];
    let action = prop_oneof![Just("OpenQueue"), Just("CloseQueue"), Just("AbortJob")];
    let step = prop_oneof![
        8 => creates(),
        8 => patches(),
        4 => (kinds, 0u8..3, condition(), grace).prop_map(|(kind, number, condition, grace)| {
            Step::Delete(kind, number, condition, grace.filter(|_| kind == Kind::Pod))
        }),
        2 => (0u8..2, condition()).prop_map(|(pod, condition)| Step::Bind(pod, condition)),
        2 => (0u8..2, words(["a", "b"]), words(["one", "two"]), condition()).prop_map(|(pod, kind, message, condition)| {
            Step::PodCondition(pod, kind, message, condition)
        }),
        2 => (0u8..2, 0u8..2).prop_map(|(group, job)| Step::Owned(group, job)),
        1 => (0u8..2, 0u8..3, action, condition()).prop_map(|(command, queue, action, condition)| {
            Step::Command(command, queue, action, condition)
        }),
    ];
    // Most requests need queues.
    let queue = |number| {
        let spec = json!({"weight": 1, "parent": "root", "state": "Open", "dequeueStrategy": "traverse"});
        Step::Create(Kind::Queue, number, json!({"metadata": {}, "spec": spec}))
    };
    let begin = prop_oneof![3 => Just(vec![queue(0), queue(1)]), 1 => Just(Vec::new())];
    (begin, proptest::collection::vec(step, 1..40)).prop_map(|(begin, rest)| [begin, rest].concat())
}

/// Turns steps into requests for one side, which knows uids and versions.
pub(super) struct Writer<'a> {
    /// Number of the case.
    pub(super) case: u32,
    /// The side's objects.
    pub(super) get: &'a dyn Fn(&Key) -> Option<Value>,
}

impl Writer<'_> {
    fn key(&self, kind: Kind, number: u8) -> Key {
        Key::new(kind, "default", &name(self.case, kind, number))
    }

    fn stored(&self, key: &Key, pointer: &str) -> String {
        text(&(self.get)(key).unwrap_or_default(), pointer).to_owned()
    }

    /// Uid and version that a condition asks for.
    fn conditions(&self, key: &Key, condition: Condition) -> (Option<String>, Option<String>) {
        match condition {
            Condition::None => (None, None),
            Condition::Uid => (Some(self.stored(key, "/metadata/uid")), None),
            Condition::OtherUid => (Some("another".to_owned()), None),
            Condition::Version => (None, Some(self.stored(key, "/metadata/resourceVersion"))),
            Condition::OtherVersion => (None, Some("1".to_owned())),
        }
    }

    /// The queues' names in their full length.
    fn named(&self, value: &Value) -> Value {
        let text = value.to_string().replace("@q", &format!("t{}-q", self.case));
        serde_json::from_str(&text).expect("JSON")
    }

    fn create(&self, kind: Kind, number: u8, object: &Value) -> Request {
        let key = self.key(kind, number);
        let mut object = self.named(object);
        object["apiVersion"] = json!(kind.api_version());
        object["kind"] = json!(kind.name());
        object["metadata"]["name"] = json!(&*key.name);
        Request::Create { key, object }
    }

    fn patch(&self, key: Key, status: bool, merge: &Value, condition: Condition) -> Request {
        let mut merge = self.named(merge);
        let (uid, version) = self.conditions(&key, condition);
        if let Some(uid) = uid {
            merge["metadata"]["uid"] = json!(uid);
        }
        if let Some(version) = version {
            merge["metadata"]["resourceVersion"] = json!(version);
        }
        Request::Patch { key, status, merge }
    }

    /// A PodGroup of a Job, which may not be there.
    fn owned(&self, group: u8, job: u8) -> Request {
        let job = self.key(Kind::Job, job);
        let owner = json!({"apiVersion": job.kind.api_version(), "kind": "Job", "name": &*job.name,
            "uid": self.uid_or_nobody(&job), "controller": true});
        let queue = self.stored(&job, "/spec/queue");
        let object = json!({"metadata": {"ownerReferences": [owner]}, "spec": {"queue": queue, "minMember": 1}});
        self.create(Kind::PodGroup, group, &object)
    }

    fn command(&self, command: u8, queue: u8, action: &str, condition: Condition) -> Request {
        let queue = self.key(Kind::Queue, queue);
        let uid = match condition {
            Condition::OtherUid => "another".to_owned(),
            _ => self.uid_or_nobody(&queue),
        };
        let target = json!({"apiVersion": queue.kind.api_version(), "kind": "Queue", "name": &*queue.name, "uid": uid});
        let object = json!({"metadata": {}, "action": action, "target": target});
        self.create(Kind::Command, command, &object)
    }

    fn uid_or_nobody(&self, key: &Key) -> String {
        Some(self.stored(key, "/metadata/uid"))
            .filter(|uid| !uid.is_empty())
            .unwrap_or_else(|| "nobody".to_owned())
    }

    /// The request of a step.
    pub(super) fn request(&self, step: &Step) -> Request {
        match step {
            Step::Create(kind, number, object) => self.create(*kind, *number, object),
            Step::Patch(kind, number, status, merge, condition) => {
                self.patch(self.key(*kind, *number), *status, merge, *condition)
            }
            Step::Delete(kind, number, condition, grace) => {
                let key = self.key(*kind, *number);
                let (uid, revision) = self.conditions(&key, *condition);
                Request::Delete {
                    key,
                    uid,
                    revision,
                    grace: *grace,
                }
            }
            Step::Bind(number, condition) => {
                let key = self.key(Kind::Pod, *number);
                let (uid, _) = self.conditions(&key, *condition);
                let bind = (key.name.to_string(), uid.unwrap_or_default(), "n1".to_owned());
                Request::Bind {
                    namespace: "default".to_owned(),
                    binds: vec![bind],
                }
            }
            Step::PodCondition(number, kind, message, condition) => {
                let condition_of_pod =
                    json!({"type": format!("basalt.sh/{kind}"), "status": "False", "message": message});
                let patch = json!({"status": {"conditions": [condition_of_pod]}});
                match self.patch(self.key(Kind::Pod, *number), true, &patch, *condition) {
                    Request::Patch { key, status, merge } => Request::Strategic {
                        key,
                        status,
                        patch: merge,
                    },
                    other => other,
                }
            }
            Step::Owned(group, job) => self.owned(*group, *job),
            Step::Command(command, queue, action, condition) => self.command(*command, *queue, action, *condition),
        }
    }
}
