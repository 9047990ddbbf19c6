//! A small world to try the job controller in: it stores what the controller asks for, as an API
//! server would, and plays scheduler and kubelet by hand.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use basalt_api::slim::Pod;
use basalt_api::{Job, NamespacedName, PodGroup};
use basalt_controllers::job::{JobView, reconcile};
use basalt_controllers::pod::PodRecord;
use basalt_controllers::words::Words;
use basalt_controllers::{Change, Outcome};
use jiff::Timestamp;
use serde_json::{Value, json};

/// Objects by kind and name.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct World {
    pub(crate) objects: BTreeMap<(String, String), Value>,
    pub(crate) now: i64,
    /// Changes executed so far.
    pub(crate) executed: usize,
    /// The executor dies after this change, once.
    pub(crate) crash_after: Option<usize>,
    next_uid: usize,
}

pub(crate) fn task(name: &str, replicas: i32) -> Value {
    let container = json!({"name": "c", "image": "i", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}});
    json!({"name": name, "replicas": replicas, "template": {"spec": {"containers": [container]}}})
}

impl World {
    /// A world with the Job `train` as admission lets it in.
    pub(crate) fn with_job(spec: Value) -> Self {
        let mut world = Self::default();
        world.submit(spec);
        world
    }

    /// Submits the Job `train`, with a new uid.
    pub(crate) fn submit(&mut self, mut spec: Value) {
        for (key, value) in [
            ("queue", json!("default")),
            ("schedulerName", json!("volcano")),
            ("maxRetry", json!(3)),
        ] {
            if spec[key].is_null() {
                spec[key] = value;
            }
        }
        self.put(json!({
            "apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job",
            "metadata": {"name": "train", "namespace": "default"}, "spec": spec,
        }));
    }

    fn put(&mut self, mut object: Value) {
        let key = (
            object["kind"].as_str().expect("kind").to_owned(),
            object["metadata"]["name"].as_str().expect("name").to_owned(),
        );
        if self.objects.contains_key(&key) {
            return;
        }
        self.next_uid += 1;
        object["metadata"]["uid"] = json!(format!("uid-{}", self.next_uid));
        object["metadata"]["resourceVersion"] = json!(self.next_uid.to_string());
        object["metadata"]["creationTimestamp"] = json!(self.time().to_string());
        self.objects.insert(key, object);
    }

    pub(crate) fn time(&self) -> Timestamp {
        Timestamp::from_second(self.now).expect("in range")
    }

    pub(crate) fn get<T: serde::de::DeserializeOwned>(&self, kind: &str, name: &str) -> Option<T> {
        let object = self.objects.get(&(kind.to_owned(), name.to_owned()))?;
        Some(serde_json::from_value(object.clone()).expect("typed"))
    }

    pub(crate) fn job(&self) -> Job {
        self.get("Job", "train").expect("the job exists")
    }

    pub(crate) fn raw(&mut self, kind: &str, name: &str) -> &mut Value {
        self.objects
            .get_mut(&(kind.to_owned(), name.to_owned()))
            .unwrap_or_else(|| panic!("{kind} {name} exists"))
    }

    pub(crate) fn names(&self, kind: &str) -> Vec<String> {
        self.objects
            .keys()
            .filter(|key| key.0 == kind)
            .map(|key| key.1.clone())
            .collect()
    }

    pub(crate) fn phase(&self) -> String {
        self.job().phase().to_string()
    }

    /// What the controller asks for now.
    pub(crate) fn look(&self) -> Outcome {
        let Some(job) = self.get::<Job>("Job", "train") else {
            return Outcome::default();
        };
        let mut words = Words::default();
        let mut record =
            |pod: Pod| PodRecord::new(Arc::new(NamespacedName::of(&pod)), pod, &BTreeSet::new(), &mut words);
        let pods: Vec<PodRecord> = self
            .names("Pod")
            .iter()
            .filter_map(|name| self.get("Pod", name).map(&mut record))
            .collect();
        let group_name = format!("train-{}", job.metadata.uid.as_deref().expect("uid"));
        let group: Option<PodGroup> = self.get("PodGroup", &group_name);
        let priorities = BTreeMap::from([("high".to_owned(), 100)]);
        let view = JobView {
            pods: pods.iter().collect(),
            ..JobView::of(&job, group.as_ref(), &priorities)
        };
        reconcile(&view, self.time())
    }

    /// One call of the controller, executed. True if it asked for anything, other than to tell people.
    pub(crate) fn step(&mut self) -> bool {
        let changes = self.look().changes;
        for change in &changes {
            self.execute(change);
            self.executed += 1;
            if self.crash_after == Some(self.executed) {
                self.crash_after = None;
                break;
            }
        }
        changes.iter().any(|change| !matches!(change, Change::Event { .. }))
    }

    /// Steps until the controller is content.
    pub(crate) fn settle(&mut self) {
        for _ in 0..50 {
            if !self.step() {
                return;
            }
        }
        panic!("does not settle: {:?}", self.look().changes);
    }

    fn execute(&mut self, change: &Change) {
        match change {
            Change::Create { target, object } => {
                assert_eq!(object["metadata"]["name"], json!(target.name));
                assert_eq!(
                    (&object["kind"], &object["apiVersion"]),
                    (&json!(target.kind), &json!(target.api_version))
                );
                self.put(object.clone());
            }
            Change::Patch {
                target,
                uid,
                merge,
                resource_version,
                ..
            } => {
                let object = self.raw(&target.kind, &target.name);
                assert_eq!(object["metadata"]["uid"], json!(uid));
                if let Some(version) = resource_version {
                    assert_eq!(object["metadata"]["resourceVersion"], json!(version));
                }
                json_patch::merge(object, merge);
            }
            Change::Delete { target, uid, .. } => {
                let key = (target.kind.to_string(), target.name.to_string());
                if self
                    .objects
                    .get(&key)
                    .is_some_and(|object| object["metadata"]["uid"] == json!(uid))
                {
                    self.objects.remove(&key);
                }
            }
            Change::Strategic { .. } => unreachable!("no controller asks for it"),
            Change::Event { .. } => {}
        }
    }

    /// The scheduler writes a phase into the group.
    pub(crate) fn group_phase(&mut self, phase: &str) {
        let name = self.names("PodGroup").pop().expect("a group");
        self.raw("PodGroup", &name)["status"]["phase"] = json!(phase);
    }

    /// The kubelet writes a phase into pods.
    pub(crate) fn pods(&mut self, phase: &str, names: &[&str]) {
        for name in names {
            let ready = phase == "Running";
            let status = json!({"phase": phase, "containerStatuses": [{"name": "c", "ready": ready}]});
            self.raw("Pod", name)["status"] = status;
        }
    }

    pub(crate) fn all_pods(&mut self, phase: &str) {
        let names = self.names("Pod");
        self.pods(phase, &names.iter().map(String::as_str).collect::<Vec<_>>());
    }

    /// From submission to all pods made.
    pub(crate) fn started(spec: Value) -> Self {
        let mut world = Self::with_job(spec);
        world.settle();
        world.group_phase("Inqueue");
        world.settle();
        world
    }
}
