//! All that the controllers know, with the indexes and sums that make a view without searching.
//!
//! A report goes in by an `upsert_*` or a `remove_*`, which say what has to be looked at; [`World::look_at`] decides.

mod amounts;
mod index;
mod nodes;
mod objects;
mod queues;
mod tallies;
mod tree;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use basalt_api::{Command, Job, PodGroup, Queue, names};
use jiff::{SignedDuration, Timestamp};

use crate::cache::Cache;
use crate::change::Outcome;
use crate::job::{self, JobView};
use crate::key::ObjectKey;
use crate::pod::PodRecord;
use crate::podgroup::{self, PodView};
use crate::queue::{self, commands};
use crate::words::Words;
use index::Index;
use nodes::Nodes;
use tallies::Tallies;
use tree::Tree;

/// Counters change with every Job; people need them a few times a second.
const COUNTERS_PAUSE: SignedDuration = SignedDuration::from_millis(100);

/// Something that has to be looked at.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Work {
    /// `root` and `default` must exist.
    StandardQueues,
    /// A Job.
    Job(ObjectKey),
    /// A pod that may need a PodGroup.
    Pod(ObjectKey),
    /// A queue's state, counters and conditions, and its end.
    Queue(String),
    /// The Commands to a queue.
    Commands(String),
}

/// The objects that the controllers watch.
#[derive(Debug, Default)]
pub struct World {
    jobs: Cache<Job>,
    pods: Cache<PodRecord>,
    /// What records of pods share.
    words: Words,
    groups: Cache<PodGroup>,
    queues: Cache<Queue>,
    commands: Cache<Command>,
    nodes: Nodes,
    priorities: BTreeMap<String, i32>,
    /// Schedulers whose pods get a PodGroup.
    schedulers: BTreeSet<String>,
    pods_of_owner: Index<Arc<ObjectKey>>,
    pods_of_group: Index<Arc<ObjectKey>>,
    /// By group: how many of its pods have not ended.
    living_of_group: BTreeMap<String, usize>,
    jobs_of_queue: Index,
    groups_of_queue: Index,
    commands_of_queue: Index,
    tallies: Tallies,
    tree: Tree,
}

impl World {
    /// An empty world in which pods of `schedulers` get PodGroups.
    pub fn new(schedulers: BTreeSet<String>) -> Self {
        Self {
            schedulers,
            ..Self::default()
        }
    }

    /// Notes the value of a priority class.
    pub fn set_priority(&mut self, name: String, value: i32) {
        self.priorities.insert(name, value);
    }

    /// Forgets a priority class.
    pub fn remove_priority(&mut self, name: &str) {
        self.priorities.remove(name);
    }

    /// What `work` asks for, decided from what is known; nothing where what it is about is gone.
    pub fn look_at(&self, work: &Work, now: Timestamp) -> Outcome {
        let outcome = match work {
            Work::StandardQueues => Some(queue::bootstrap(|name| self.has_queue(name))),
            Work::Job(key) => self.job_view(key).map(|view| job::reconcile(&view, now)),
            Work::Pod(key) => self.pod_view(key).map(|view| podgroup::reconcile(&view)),
            Work::Queue(name) => self.queue_view(name).map(|view| queue::reconcile(&view, now)),
            Work::Commands(name) => Some(commands::reconcile(&self.commands_view(name), now)),
        };
        outcome.unwrap_or_default()
    }

    /// How long `work` may wait, so that several changes become one write. Nobody waits for a counter or a note; for
    /// the state of a queue, which lets deliveries and deletions pass, somebody does.
    pub fn pause(&self, work: &Work) -> SignedDuration {
        match work {
            Work::Queue(name) if !self.is_urgent(name) => COUNTERS_PAUSE,
            _ => SignedDuration::ZERO,
        }
    }

    /// What the job controller looks at.
    pub fn job_view(&self, key: &ObjectKey) -> Option<JobView<'_>> {
        let job = self.jobs.get(key)?;
        let uid = job.metadata.uid.as_deref().unwrap_or_default();
        let group = names::job_pod_group(&key.name, uid);
        Some(JobView {
            job,
            pod_group: self.groups.get(&ObjectKey {
                namespace: key.namespace.clone(),
                name: group,
            }),
            pods: self
                .pods_of_owner
                .of(uid)
                .filter_map(|pod| self.pods.get(pod))
                .collect(),
            priorities: &self.priorities,
        })
    }

    /// What the podgroup controller looks at.
    pub fn pod_view(&self, key: &ObjectKey) -> Option<PodView<'_>> {
        let pod = self.pods.get(key)?.plain.as_deref()?;
        let name = podgroup::group_name(pod)?;
        let group = ObjectKey {
            namespace: key.namespace.clone(),
            name,
        };
        Some(PodView {
            pod,
            group_exists: self.groups.get(&group).is_some(),
            owner_annotations: None,
            schedulers: &self.schedulers,
        })
    }
}
