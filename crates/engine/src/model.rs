//! The cluster as the engine holds it: records with dense ids, kept across cycles and changed by events.
//!
//! Here is what the objects *say*. What is *counted* (who is where, what is free) is in the ledger.

mod class;
mod places;
mod shared;
mod table;

use std::collections::BTreeMap;
use std::sync::Arc;

use smallvec::SmallVec;

pub(crate) use self::class::Classes;
pub(crate) use self::places::{Bonds, Hold, Mark, MarkKey, NOTHING, Places, Tag, Topology, tag_text};
pub(crate) use self::table::{ClassId, CrowdId, Id, JobId, NamespaceId, NodeId, QueueId, Table, TaskId};
use crate::facts::{BudgetFacts, NodeGroups, Phase, PriorityClassFacts, Taint, Tally};
use crate::ledger::Status;
use crate::resources::{Amounts, Dims};

/// The queue above all others.
pub(crate) const ROOT: &str = "root";

/// All records.
#[derive(Clone, Debug, Default)]
pub(crate) struct Model {
    /// The resource dimensions.
    pub dims: Dims,
    /// Nodes, by name.
    pub nodes: Table<NodeId, Node>,
    /// Pods, by `namespace/name`.
    pub tasks: Table<TaskId, Task>,
    /// Pod groups, by `namespace/name`.
    pub jobs: Table<JobId, Job>,
    /// Queues, by name.
    pub queues: Table<QueueId, Queue>,
    /// Pod shapes.
    pub classes: Classes,
    /// Namespaces that have groups.
    pub namespaces: Table<NamespaceId, ()>,
    /// Disruption budgets, by `namespace/name`.
    pub budgets: BTreeMap<Arc<str>, BudgetFacts>,
    /// Quotas of namespaces, by `namespace/name`.
    pub quotas: BTreeMap<Arc<str>, Quota>,
    /// Priority classes, by name.
    pub priorities: BTreeMap<Arc<str>, PriorityClassFacts>,
    /// Who is near whom, and volumes.
    pub places: Places,
}

/// A node's record.
#[derive(Clone, Debug, Default)]
pub(crate) struct Node {
    /// False: only mentioned by pods that say they are on it.
    pub present: bool,
    /// The node's uid.
    pub uid: Arc<str>,
    /// Cordoned.
    pub unschedulable: bool,
    /// Not ready.
    pub not_ready: bool,
    /// Labels, sorted by key.
    pub labels: BTreeMap<Arc<str>, Arc<str>>,
    /// Taints.
    pub taints: Vec<Taint>,
    /// What it offers in all.
    pub allocatable: Amounts,
    /// Its images.
    pub images: BTreeMap<Arc<str>, i64>,
    /// Its place in the order that breaks ties; valid for present nodes once the order is fresh.
    pub rank: u32,
    /// The queue that it is locked for; of several the deepest.
    pub holder: Option<QueueId>,
    /// Its estate; valid as the rank is.
    pub estate: u32,
}

/// A pod's record: about one cache line.
#[derive(Clone, Debug)]
pub(crate) struct Task {
    /// The pod's uid.
    pub uid: Arc<str>,
    /// Creation time.
    pub created_ms: i64,
    /// The number at the end of the pod's name, which orders pods of one task.
    pub ordinal: Option<u32>,
    /// Its shape.
    pub class: ClassId,
    /// Its namespace and labels, in [`Places::tags`].
    pub tag: u32,
    /// Its ties, in [`Places::ties`], or [`NOTHING`].
    pub ties: u32,
    /// Its group, or none for pods that only take room.
    pub job: JobId,
    /// Where it stands in its job's list of tasks.
    pub in_job: u32,
    /// Order inside the job: higher first.
    pub priority: i32,
    /// Index of its role in the job's roles.
    pub role: u16,
    /// Held back by scheduling gates.
    pub gated: bool,
    /// May be evicted.
    pub preemptable: bool,
    /// May have others evicted for it.
    pub preempts: bool,
    /// Of the system: never evicted.
    pub critical: bool,
    /// Of its node: nobody has it moved.
    pub fixed: bool,
    /// We decided to evict it; the API does not show that yet.
    pub evicting: bool,
    /// The API refused to have it evicted: for a while nobody asks again.
    pub spared: bool,
    /// How often it did.
    pub refusals: u8,
    /// Its status by what the API shows alone.
    pub shown_as: Status,
    /// When it began to run.
    pub started_ms: i64,
    /// The node that is being cleared for it.
    pub nominated: Option<Arc<str>>,
    /// The API shows its node. A node that is not shown is our decision, still under way.
    pub shown: bool,
}

impl Default for Task {
    fn default() -> Self {
        Task {
            uid: Arc::from(""),
            created_ms: 0,
            ordinal: None,
            class: ClassId::NONE,
            tag: NOTHING,
            ties: NOTHING,
            job: JobId::NONE,
            in_job: 0,
            priority: 1,
            role: 0,
            gated: false,
            preemptable: true,
            preempts: true,
            critical: false,
            fixed: false,
            evicting: false,
            spared: false,
            refusals: 0,
            shown_as: Status::Out,
            started_ms: 0,
            nominated: None,
            shown: false,
        }
    }
}

/// A role of a job: pods of one task.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Role {
    /// Its name; empty: the unnamed one.
    pub name: Arc<str>,
    /// How many of its pods the gang needs; 0: no minimum of its own.
    pub min: u32,
}

/// A pod group's record.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    /// False: only mentioned by its pods.
    pub present: bool,
    /// The group's uid.
    pub uid: Arc<str>,
    /// Creation time.
    pub created_ms: i64,
    /// Hash of the spec that was read.
    pub spec_hash: u64,
    /// Its queue.
    pub queue: QueueId,
    /// The gang's size; 0: no minimum.
    pub min_member: u32,
    /// Roles, in the order in which they were first mentioned.
    pub roles: SmallVec<[Role; 1]>,
    /// Its namespace.
    pub namespace: NamespaceId,
    /// What the minimum needs, if declared.
    pub min_resources: Option<Amounts>,
    /// All that quotas count of it, where that is more.
    pub quota_asks: Option<Box<Amounts>>,
    /// Its priority class.
    pub priority_class: Arc<str>,
    /// Its priority.
    pub priority: i32,
    /// Whether the group says that it may be evicted.
    pub preemptable: Option<bool>,
    /// The phase that the API showed last.
    pub seen_phase: Phase,
    /// The phase that the engine holds to be true.
    pub phase: Phase,
    /// The phase that the API shows, or that a plan has told it to show.
    pub announced: Phase,
    /// The counters that the API showed last.
    pub seen_tally: Tally,
    /// The counters that the API shows, or that a plan has told it to show.
    pub announced_tally: Tally,
    /// Binds that failed since the last one that succeeded.
    pub bind_failures: u32,
    /// After a failed bind: not tried again before this time.
    pub retry_at_ms: i64,
    /// In the list of jobs that wait for something.
    pub unsettled: bool,
    /// One more than the state's `eased` when nothing more could be done for it; 0: look at it in any case.
    pub failed_at: u64,
    /// The state's `moves` when the reasons for which it waits were worked out; 0: they are to be.
    pub counted_at: u64,
    /// The jobs among which it waits and which are like it; none: it is looked at for itself.
    pub crowd: CrowdId,
    /// The time of making by which it stands in line there.
    pub stood_since_ms: i64,
    /// How long it may wait at most before it goes first.
    pub sla_ms: Option<i64>,
    /// Hard constraints that the engine does not know.
    pub unsupported: Vec<Arc<str>>,
    /// Its pods, in no meaningful order.
    pub tasks: Vec<TaskId>,
    /// How many of them are gated, or need something that the engine does not know.
    pub odd_tasks: u32,
}

impl Default for Job {
    fn default() -> Self {
        Job {
            present: false,
            uid: Arc::from(""),
            created_ms: 0,
            spec_hash: 0,
            queue: QueueId::NONE,
            min_member: 0,
            roles: SmallVec::new(),
            namespace: NamespaceId::NONE,
            min_resources: None,
            quota_asks: None,
            priority_class: Arc::from(""),
            priority: 0,
            preemptable: None,
            seen_phase: Phase::Pending,
            phase: Phase::Pending,
            announced: Phase::Pending,
            seen_tally: Tally::default(),
            announced_tally: Tally::default(),
            bind_failures: 0,
            retry_at_ms: i64::MIN,
            unsettled: false,
            failed_at: 0,
            counted_at: 0,
            crowd: CrowdId::NONE,
            stood_since_ms: 0,
            sla_ms: None,
            unsupported: Vec::new(),
            tasks: Vec::new(),
            odd_tasks: 0,
        }
    }
}

impl Job {
    /// Whether the per-role minimums count: only when together they are not more than the job's own minimum.
    pub(crate) fn roles_count(&self) -> bool {
        let sum: u64 = self.roles.iter().map(|role| u64::from(role.min)).sum();
        sum > 0 && u64::from(self.min_member) >= sum
    }
}

/// A queue's record.
#[derive(Clone, Debug, Default)]
pub(crate) struct Queue {
    /// False: only mentioned by groups or children.
    pub present: bool,
    /// The queue's uid.
    pub uid: Arc<str>,
    /// Creation time.
    pub created_ms: i64,
    /// The queue above; none for `root`.
    pub parent: Option<QueueId>,
    /// This queue, then its ancestors up to `root` (or up to where the chain breaks).
    pub chain: SmallVec<[QueueId; 4]>,
    /// Weight among its siblings.
    pub weight: u32,
    /// Higher is served first.
    pub priority: i32,
    /// Whether what it borrowed may be taken back.
    pub reclaimable: bool,
    /// What it should get.
    pub deserved: Amounts,
    /// What it always keeps.
    pub guarantee: Amounts,
    /// What it can have at most.
    pub capability: Amounts,
    /// While its head waits, so does the rest.
    pub fifo: bool,
    /// Its path and weights in drf's own tree.
    pub hierarchy: Option<(Arc<str>, Arc<str>)>,
    /// Node groups that it wants or avoids.
    pub node_groups: Option<NodeGroups>,
    /// Names of the nodes that are locked for it, sorted.
    pub locks: Vec<Arc<str>>,
    /// What must be free for it on them, with what it uses there.
    pub target: Amounts,
    /// Others' pods on them are evicted until that is reached.
    pub evicts: bool,
    /// How many groups and child queues mention it.
    pub mentions: u32,
}

/// A namespace's quota.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Quota {
    /// The quota's uid.
    pub uid: Arc<str>,
    /// What the namespace may use.
    pub hard: Amounts,
    /// What its objects use already.
    pub used: Amounts,
}

impl Model {
    /// The disruption budgets of a namespace.
    pub(crate) fn budgets_of<'a>(&'a self, namespace: &str) -> impl Iterator<Item = &'a BudgetFacts> + use<'a> {
        let prefix = format!("{namespace}/");
        let from = self.budgets.range(Arc::from(prefix.as_str())..);
        from.take_while(move |(key, _)| key.starts_with(&*prefix))
            .map(|(_, budget)| budget)
    }

    /// The quotas of a namespace.
    pub(crate) fn quotas_of<'a>(&'a self, namespace: &str) -> impl Iterator<Item = &'a Quota> + use<'a> {
        let prefix = format!("{namespace}/");
        let from = self.quotas.range(Arc::from(prefix.as_str())..);
        from.take_while(move |(key, _)| key.starts_with(&prefix))
            .map(|(_, quota)| quota)
    }

    /// The priority of a group with this class name.
    pub(crate) fn priority_of(&self, class: &str) -> i32 {
        if let Some(class) = self.priorities.get(class) {
            return class.value;
        }
        self.priorities
            .values()
            .filter(|class| class.global_default)
            .map(|class| class.value)
            .max()
            .unwrap_or(0)
    }

    /// A queue and the queues above it; nothing for no queue.
    pub(crate) fn chain(&self, queue: QueueId) -> &[QueueId] {
        if queue.is_some() {
            &self.queues[queue].chain
        } else {
            &[]
        }
    }

    /// Whether a pod is gated, or needs something that the engine does not know.
    pub(crate) fn is_odd(&self, task: TaskId) -> bool {
        let record = &self.tasks[task];
        record.gated || !self.classes[record.class].key.constraints.unsupported.is_empty()
    }

    /// The index of a role in a job, added if it is new.
    pub(crate) fn role_index(&mut self, job: JobId, name: &Arc<str>) -> u16 {
        let roles = &mut self.jobs[job].roles;
        let at = roles.iter().position(|role| role.name == *name).unwrap_or_else(|| {
            roles.push(Role {
                name: name.clone(),
                min: 0,
            });
            roles.len() - 1
        });
        // A job with more roles than that counts the rest as one.
        at.min(usize::from(u16::MAX)) as u16
    }

    /// Rebuilds every queue's chain of ancestors. A cycle ends the chain where it closes.
    pub(crate) fn link_queues(&mut self) {
        let ids: Vec<QueueId> = self.queues.ids().collect();
        for &id in &ids {
            let mut chain: SmallVec<[QueueId; 4]> = SmallVec::new();
            let mut next = Some(id);
            while let Some(queue) = next {
                if chain.contains(&queue) {
                    break;
                }
                chain.push(queue);
                next = self.queues[queue].parent;
            }
            self.queues[id].chain = chain;
        }
    }
}

/// The number after the last dash of a pod's name, where the name has at least three parts (`job-task-7`).
pub(crate) fn ordinal(key: &str) -> Option<u32> {
    let name = key.rsplit('/').next()?;
    let mut parts = name.rsplit('-');
    let number = parts.next()?.parse().ok()?;
    (parts.count() >= 2).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::ordinal;

    #[test]
    fn ordinals() {
        for (key, expected) in [
            ("ns/job-task-7", Some(7)),
            ("ns/pod-7", None),
            ("a-b/c-d", None),
            ("ns/a-b-c", None),
            ("ns/a-b-010", Some(10)),
        ] {
            assert_eq!(ordinal(key), expected, "{key}");
        }
    }
}
