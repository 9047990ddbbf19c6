//! All that the controllers know, with the indexes and sums that make a view without searching.
//!
//! A report goes in by an `upsert_*` or a `remove_*`, which say what has to be looked at; [`World::look_at`] decides.

mod amounts;
mod index;
mod jobs;
mod nodes;
mod objects;
mod owners;
mod queues;
mod reserving;
mod tallies;
mod tree;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use basalt_api::slim::Pod;
use basalt_api::{Command, Job, NamespacedName, PodGroup, Queue};
use jiff::{SignedDuration, Timestamp};

use crate::cache::Cache;
use crate::change::Outcome;
use crate::companion::Companions;
use crate::job;
use crate::object;
use crate::pod::PodRecord;
use crate::podgroup::{self, PodView};
use crate::queue::{self, commands};
use crate::words::Words;
use index::Index;
use nodes::Nodes;
use owners::Owner;
use reserving::Reserving;
pub use reserving::{Reserved, Rules};
use tallies::Tallies;
use tree::Tree;

/// Counters change with every Job; people need them a few times a second.
const COUNTERS_PAUSE: SignedDuration = SignedDuration::from_millis(100);

/// A look at this many pods of a job costs so little that it need not wait; each time as many more, it waits a step.
const PODS_AT_ONCE: usize = 100;
const PAUSE_STEP: SignedDuration = SignedDuration::from_millis(1);

/// Something that has to be looked at.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Work {
    /// `root` and `default` must exist.
    StandardQueues,
    /// A Job.
    Job(NamespacedName),
    /// A pod that may need a PodGroup.
    Pod(NamespacedName),
    /// The group of a controller of plain pods that was scaled to nothing: namespace, and uid in place of the name.
    Owner(NamespacedName),
    /// A queue's state, counters and conditions, and its end.
    Queue(String),
    /// The Commands to a queue.
    Commands(String),
    /// Which nodes are locked for which queue.
    Reservation,
    /// A queue whose guarantee has lost what a client may not have known: policy or percentage.
    LostGuarantee(String),
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
    pods_of_owner: Index<Arc<NamespacedName>>,
    pods_of_group: Index<Arc<NamespacedName>>,
    /// By group: how many of its pods have not ended.
    living_of_group: BTreeMap<String, usize>,
    jobs_of_queue: Index,
    groups_of_queue: Index,
    /// By the name of the queue, or by namespace and name of the Job.
    commands_of: Index,
    companions: Companions,
    /// Controllers of plain pods that say something about them, by uid.
    owners: BTreeMap<String, Owner>,
    /// Jobs that wait for a claim of that namespace and name, or use it.
    jobs_of_claim: Index,
    /// Pods that vanished, by the uid of their Job, until it has taken note.
    lost: BTreeMap<String, Vec<PodRecord>>,
    /// uids of the Jobs whose status was written here.
    confirmed: BTreeSet<String>,
    entropy: [u8; 32],
    tallies: Tallies,
    tree: Tree,
    reserving: Reserving,
}

impl World {
    /// An empty world in which pods of `schedulers` get PodGroups.
    pub fn new(schedulers: BTreeSet<String>) -> Self {
        Self {
            schedulers,
            ..Self::default()
        }
    }

    /// What keys for Jobs are made from: bytes that nobody can guess, different in every process.
    #[must_use]
    pub fn with_entropy(mut self, entropy: [u8; 32]) -> Self {
        self.entropy = entropy;
        self
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
    pub fn look_at(&mut self, work: &Work, now: Timestamp) -> Outcome {
        let outcome = match work {
            Work::StandardQueues => Some(queue::bootstrap(|name| self.has_queue(name))),
            Work::Job(key) => Some(match self.job_view(key) {
                Some(view) => job::reconcile(&view, now),
                None => job::orphaned(&self.commands_to(&key.to_string()), now),
            }),
            Work::Pod(key) => self.pod_view(key).map(|view| podgroup::reconcile(&view)),
            Work::Owner(key) => Some(self.look_at_owner(key)),
            Work::Queue(name) => self.queue_view(name).map(|view| queue::reconcile(&view, now)),
            Work::Reservation => Some(self.relock()),
            Work::LostGuarantee(name) => self.queue(name).map(queue::tell_of_lost_guarantee),
            Work::Commands(name) => Some(commands::reconcile(&self.commands_view(name), now)),
        };
        outcome.unwrap_or_default()
    }

    /// How long `work` may wait, so that several changes become one write. Nobody waits for a counter or a note; for
    /// the state of a queue, which lets deliveries and deletions pass, somebody does.
    pub fn pause(&self, work: &Work) -> SignedDuration {
        match work {
            Work::Queue(name) if !self.is_urgent(name) => COUNTERS_PAUSE,
            Work::Reservation => self.reserving.pause(),
            // A look at a large job takes long, so it waits for more news: then all looks together take a fixed share.
            Work::Job(key) => {
                let uid = self.jobs.get(key).and_then(|job| job.metadata.uid.as_deref());
                let pods = uid.map_or(0, |uid| self.pods_of_owner.count(uid));
                let pause = i32::try_from(pods / PODS_AT_ONCE).map_or(COUNTERS_PAUSE, |n| PAUSE_STEP.saturating_mul(n));
                pause.min(COUNTERS_PAUSE)
            }
            _ => SignedDuration::ZERO,
        }
    }

    fn owner_annotations(&self, pod: &Pod) -> Option<&BTreeMap<String, String>> {
        let owner = object::controller(&pod.metadata)?;
        self.owners.get(&owner.uid).map(|owner| &owner.annotations)
    }

    /// What the podgroup controller looks at.
    pub fn pod_view(&self, key: &NamespacedName) -> Option<PodView<'_>> {
        let pod = self.pods.get(key)?.plain.as_deref()?;
        let name = podgroup::group_name(pod)?;
        let group = key.in_same_namespace(&name);
        Some(PodView {
            pod,
            group: self.groups.get(&group),
            owner_annotations: self.owner_annotations(pod),
            schedulers: &self.schedulers,
        })
    }
}
