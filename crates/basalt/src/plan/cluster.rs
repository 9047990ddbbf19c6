//! A cluster from manifests: what the API server and the controllers would add is added here.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use basalt_api::json::string_at;
use basalt_api::podgroup::{PodGroupPhase, PodGroupStatus};
use basalt_api::resource_kind::split_api_version;
use basalt_api::{Job, ObjectRef, PodGroup, names, slim};
use basalt_controllers::{Change, job, podgroup};
use basalt_engine::Event;
use basalt_engine::facts::QueueFacts;
use basalt_vcctl::manifest::{self, Manifest, ManifestError};
use jiff::Timestamp;
use serde_json::{Value, json};

/// What the engine is told.
pub(super) struct Cluster {
    pub(super) events: Vec<Event>,
    /// What was left out.
    pub(super) notes: Vec<String>,
}

/// Reads all manifests. An object that is written twice counts as last written, as with `kubectl apply`.
pub(super) fn read(paths: &[PathBuf], schedulers: &[String], now: Timestamp) -> anyhow::Result<Cluster> {
    let mut builder = Builder {
        now,
        schedulers: schedulers.iter().cloned().collect(),
        uids: 0,
        events: BTreeMap::new(),
        order: Vec::new(),
        priorities: BTreeMap::new(),
        jobs: Vec::new(),
        skipped: BTreeMap::new(),
    };
    for path in paths {
        for (_, manifests) in manifest::read(path)? {
            for manifest in manifests {
                builder.add(manifest)?;
            }
        }
    }
    builder.expand_jobs()?;
    Ok(builder.finish())
}

/// Kind, namespace, name.
type Key = (String, String, String);

struct Builder {
    now: Timestamp,
    schedulers: BTreeSet<String>,
    uids: u64,
    events: BTreeMap<Key, Event>,
    /// Keys in the order of the files.
    order: Vec<Key>,
    priorities: BTreeMap<String, i32>,
    jobs: Vec<Manifest>,
    /// Kinds that the engine does not decide by, and how many there were.
    skipped: BTreeMap<String, usize>,
}

/// Kinds that live in no namespace.
const CLUSTER_SCOPED: &[&str] = &[
    "Node",
    "Queue",
    "PriorityClass",
    "PersistentVolume",
    "StorageClass",
    "HyperNode",
];

impl Builder {
    fn add(&mut self, mut manifest: Manifest) -> Result<(), ManifestError> {
        self.complete(&mut manifest)?;
        let kind = string_at(&manifest.object, "/kind").to_owned();
        if kind == "Job" && split_api_version(string_at(&manifest.object, "/apiVersion")).0 == names::BATCH_GROUP {
            self.jobs.push(manifest);
            return Ok(());
        }
        if kind == "Pod" {
            self.give_group(&mut manifest)?;
        }
        self.insert(&manifest)
    }

    /// Fills in what the API server would have.
    fn complete(&mut self, manifest: &mut Manifest) -> Result<(), ManifestError> {
        let kind = string_at(&manifest.object, "/kind").to_owned();
        let (now, uid) = (self.now, self.uids + 1);
        let Some(metadata) = manifest.object.get_mut("metadata").and_then(Value::as_object_mut) else {
            return Err(manifest.fault("metadata is missing"));
        };
        self.uids = uid;
        if !CLUSTER_SCOPED.contains(&kind.as_str()) {
            metadata.entry("namespace").or_insert_with(|| "default".into());
        }
        // Rises in the order of the files, so that of two equal objects the first comes first.
        metadata
            .entry("uid")
            .or_insert_with(|| format!("00000000-0000-4000-8000-{uid:012}").into());
        metadata
            .entry("creationTimestamp")
            .and_modify(|time| {
                if time.is_null() {
                    *time = now.to_string().into();
                }
            })
            .or_insert_with(|| now.to_string().into());
        Ok(())
    }

    fn insert(&mut self, manifest: &Manifest) -> Result<(), ManifestError> {
        let object = &manifest.object;
        let event = Event::from_manifest(object).map_err(|error| manifest.fault(error))?;
        let kind = string_at(object, "/kind");
        let Some(event) = event else {
            *self.skipped.entry(kind.to_owned()).or_default() += 1;
            return Ok(());
        };
        if let Event::PriorityClass(class) = &event {
            self.priorities.insert(class.name.to_string(), class.value);
        }
        let key = key_of(object);
        if self.events.insert(key.clone(), event).is_none() {
            self.order.push(key);
        }
        Ok(())
    }

    /// Gives a plain pod the PodGroup that its controller would.
    fn give_group(&mut self, manifest: &mut Manifest) -> Result<(), ManifestError> {
        let pod: slim::Pod = parse(manifest)?;
        let group_exists = podgroup::group_name(&pod).is_some_and(|name| {
            let namespace = string_at(&manifest.object, "/metadata/namespace").to_owned();
            self.events.contains_key(&("PodGroup".to_owned(), namespace, name))
        });
        let known = PodGroup::default();
        let view = podgroup::PodView {
            pod: &pod,
            group: group_exists.then_some(&known),
            owner_annotations: None,
            schedulers: &self.schedulers,
        };
        for change in podgroup::reconcile(&view).changes {
            match change {
                Change::Create { object, .. } => {
                    let mut group = Manifest {
                        object,
                        ..manifest.clone()
                    };
                    self.complete(&mut group)?;
                    self.insert(&group)?;
                }
                Change::Patch { merge, .. } => {
                    let name = merge
                        .pointer("/metadata/annotations")
                        .and_then(|a| a.get(names::GROUP_NAME));
                    manifest.object["metadata"]["annotations"][names::GROUP_NAME] = json!(name);
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Makes of each Job the PodGroup and the pods that its controller would make once it is let in.
    fn expand_jobs(&mut self) -> Result<(), ManifestError> {
        for manifest in std::mem::take(&mut self.jobs) {
            let mut job: Job = parse(&manifest)?;
            if job.metadata.name.is_none() {
                return Err(manifest.fault("Job: metadata.name is missing"));
            }
            if job.spec.queue.is_empty() {
                names::DEFAULT_QUEUE.clone_into(&mut job.spec.queue);
            }
            if job.spec.scheduler_name.is_empty() {
                names::SCHEDULER_NAME.clone_into(&mut job.spec.scheduler_name);
            }
            let made = self.reconcile(&job, None);
            let group = made.into_iter().find(|(target, _)| target.kind == "PodGroup");
            let Some((_, group)) = group else {
                continue;
            };
            let mut admitted: PodGroup = serde_json::from_value(group.clone()).map_err(|e| manifest.fault(e))?;
            admitted.status = Some(PodGroupStatus {
                phase: Some(PodGroupPhase::Inqueue),
                ..PodGroupStatus::default()
            });
            let pods = self.reconcile(&job, Some(&admitted));
            let pods = pods.into_iter().filter(|(target, _)| target.kind == "Pod");
            for object in std::iter::once(group).chain(pods.map(|(_, pod)| pod)) {
                let mut made = Manifest {
                    object,
                    ..manifest.clone()
                };
                self.complete(&mut made)?;
                // What the input has is what the cluster has: a pod that runs keeps its node.
                if !self.events.contains_key(&key_of(&made.object)) {
                    self.insert(&made)?;
                }
            }
        }
        Ok(())
    }

    fn reconcile(&self, job: &Job, pod_group: Option<&PodGroup>) -> Vec<(ObjectRef, Value)> {
        let view = job::JobView::of(job, pod_group, &self.priorities);
        let changes = job::reconcile(&view, self.now).changes.into_iter();
        changes
            .filter_map(|change| match change {
                Change::Create { target, object } => Some((target, object)),
                _ => None,
            })
            .collect()
    }

    fn finish(mut self) -> Cluster {
        let mut events = Vec::new();
        for name in [names::ROOT_QUEUE, names::DEFAULT_QUEUE] {
            let written = self
                .events
                .contains_key(&("Queue".to_owned(), String::new(), name.to_owned()));
            if !written {
                events.push(Event::Queue(QueueFacts {
                    name: name.into(),
                    ..QueueFacts::default()
                }));
            }
        }
        events.extend(self.order.iter().filter_map(|key| self.events.remove(key)));
        let skipped = self.skipped.iter();
        let notes = skipped.map(|(kind, count)| format!("{count} of kind {kind} left out: nothing is decided by them"));
        Cluster {
            events,
            notes: notes.collect(),
        }
    }
}

fn key_of(object: &Value) -> Key {
    let part = |pointer| string_at(object, pointer).to_owned();
    (part("/kind"), part("/metadata/namespace"), part("/metadata/name"))
}

fn parse<T: serde::de::DeserializeOwned>(manifest: &Manifest) -> Result<T, ManifestError> {
    serde_path_to_error::deserialize(&manifest.object).map_err(|error| {
        let object = &manifest.object;
        let (kind, name) = (string_at(object, "/kind"), string_at(object, "/metadata/name"));
        manifest.fault(format!("{kind} {name:?}, field {}: {}", error.path(), error.inner()))
    })
}
