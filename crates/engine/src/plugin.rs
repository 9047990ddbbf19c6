//! Plugins: one trait with default methods, one table of hooks, a handful of ways to combine answers.
//!
//! A plugin only reads the state; the ledger does all accounting. It is listed in the table under each hook that it
//! offers and that the configuration leaves on, in the order of tiers and, inside a tier, of the configuration.

mod binpack;
mod capacity;
mod conformance;
mod drf;
mod gang;
mod hooks;
mod node_reservation;
mod nodegroup;
mod nodeorder;
mod overcommit;
mod pdb;
mod predicates;
mod priority;
mod proportion;
mod resourcequota;
mod shares;
mod sla;
mod strategy;

use std::cmp::Ordering;
use std::sync::Arc;

use basalt_api::reason::Code;

pub(crate) use self::hooks::{Hook, Hooks};
pub(crate) use self::node_reservation::{NAME as NODE_RESERVATION, ReservationShortage, lock_preference};
pub(crate) use self::pdb::Allowance;
use crate::conf::PluginConf;
use crate::model::{ClassId, JobId, NOTHING, NodeId, QueueId, TaskId};
use crate::resources::{Amounts, DimId};
use crate::session::State;

/// An answer to a vote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Vote {
    /// For it.
    Permit,
    /// No opinion.
    Abstain,
    /// Against it; that decides.
    Reject(Refusal),
}

/// Why a queue, or the cluster, does not take more: the rule, whose it is, and the two numbers that disagree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// The rule.
    pub code: Code,
    /// Whose limit it is; none: the cluster's, or a namespace's.
    pub queue: QueueId,
    /// The dimension that is short; none where the rule is not about amounts.
    pub dim: Option<DimId>,
    /// How much would be taken in all.
    pub need: i64,
    /// How much may be.
    pub have: i64,
    /// What the numbers are of, or what else there is to say, in words with names; none: the dimension's name tells.
    pub about: Option<Arc<str>>,
}

impl Refusal {
    /// A refusal without numbers.
    pub(crate) fn of(code: Code, queue: QueueId) -> Self {
        Refusal {
            code,
            queue,
            dim: None,
            need: 0,
            have: 0,
            about: None,
        }
    }
}

/// By what right pods are taken from others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Means {
    /// More important than they are, in the same queue or a near one.
    Preempt,
    /// Its queue has less than it deserves.
    Reclaim,
    /// As preempt, for a whole gang, from whole gangs.
    GangPreempt,
    /// As reclaim, for a whole gang, from whole gangs.
    GangReclaim,
}

impl Means {
    fn hook(self) -> Hook {
        match self {
            Means::Preempt => Hook::Preemptable,
            Means::Reclaim => Hook::Reclaimable,
            Means::GangPreempt | Means::GangReclaim => Hook::Evictable,
        }
    }
}

/// Who wants room that others have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Claim {
    /// By what right.
    pub means: Means,
    /// The pod that is to be placed (of a gang: the first).
    pub task: TaskId,
    /// Its job.
    pub job: JobId,
    /// Its queue.
    pub queue: QueueId,
}

/// What a queue deserves, and how much of it it has.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct QueueReport {
    /// Its due.
    pub deserved: Amounts,
    /// The largest part of its due, over all dimensions, that it has.
    pub share: f64,
}

/// Why a job cannot be scheduled at all: too few pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TooFew {
    /// The role that lacks pods; none: the job as a whole.
    pub role: Option<Arc<str>>,
    /// How many are needed.
    pub need: u32,
    /// How many there are.
    pub have: u32,
}

/// Why a node does not admit a pod, whatever is free on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Blocker {
    /// It is not ready.
    NotReady,
    /// It is cordoned.
    Unschedulable,
    /// It lacks labels that the pod selects.
    Affinity,
    /// It has a taint that the pod does not tolerate.
    Taint,
    /// It is of a node group that the pod's queue does not use.
    NodeGroup,
    /// A port of it that the pod needs is taken.
    Ports,
    /// The rest would be too little for the devices that it has.
    Proportion,
    /// The pods that this one must be near are not.
    PodAffinity,
    /// Pods that this one must not be near are.
    PodAntiAffinity,
    /// Pods that must not be near this one are.
    OthersAntiAffinity,
    /// There would be too many such pods in one place.
    Spread,
    /// A claim of the pod does not exist.
    NoClaim,
    /// A claim of the pod has no volume yet.
    ClaimUnbound,
    /// Another pod has a claim that only one may use.
    ClaimTaken,
    /// It does not reach a volume of the pod.
    VolumeNode,
    /// It is not in the zone of a volume of the pod.
    VolumeZone,
    /// There is no volume for a claim of the pod, nor can one be made there.
    NoVolume,
    /// It is locked for this queue, and the pod is of another.
    Locked(QueueId),
}

/// How well a pod fits on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fit {
    /// When what is being released there is gone.
    Future,
    /// Now.
    Idle,
}

/// What makes two pods the same to every node that is looked at for itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Shape {
    /// Their class.
    pub class: ClassId,
    /// The queue whose own rules about nodes they are under; none: there are no such rules.
    pub zone: QueueId,
    /// The queue by which they may use locked nodes; none: they may not (or any of them, which their class tells).
    pub right: QueueId,
}

impl Shape {
    /// What counts where it does not matter who holds a node.
    #[must_use]
    pub(crate) fn anywhere(self) -> Self {
        Shape {
            right: QueueId::NONE,
            ..self
        }
    }
}

/// What makes two pods the same to all nodes together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Want {
    /// Their shape.
    pub shape: Shape,
    /// Namespace and labels, where it matters.
    pub tag: u32,
    /// Ties to others.
    pub ties: u32,
}

impl Want {
    /// Of pods that are not tied to others.
    pub(crate) fn plain(shape: Shape) -> Self {
        Want {
            shape,
            tag: NOTHING,
            ties: NOTHING,
        }
    }

    /// Whether it is of pods that are not tied to others.
    pub(crate) fn is_plain(&self) -> bool {
        (self.tag, self.ties) == (NOTHING, NOTHING)
    }
}

/// A node that a pod may go to, as far as the node alone tells.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Site {
    /// The node.
    pub node: NodeId,
    /// Whether it has room now.
    pub fit: Fit,
    /// What speaks against it.
    pub blocker: Option<Blocker>,
    /// How good it is.
    pub score: f64,
}

impl Site {
    /// Notes what speaks against it; the first word counts.
    pub(crate) fn block(&mut self, blocker: Blocker) {
        self.blocker.get_or_insert(blocker);
    }
}

impl Blocker {
    /// How such nodes are counted in a reason.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Blocker::NotReady => "not ready",
            Blocker::Unschedulable => "unschedulable",
            Blocker::Affinity => "not selected by the pod",
            Blocker::Taint => "with a taint that the pod does not tolerate",
            Blocker::NodeGroup => "in a node group that the queue does not use",
            Blocker::Ports => "with node ports taken that the pod needs",
            Blocker::Proportion => "with too little left for their devices",
            Blocker::PodAffinity => "not near the pods of its pod affinity",
            Blocker::PodAntiAffinity => "near pods of its pod anti-affinity",
            Blocker::OthersAntiAffinity => "near pods whose anti-affinity is against it",
            Blocker::Spread => "where its topology spread does not hold",
            Blocker::NoClaim => "waiting for a volume claim that does not exist",
            Blocker::ClaimUnbound => "waiting for a volume claim to be bound",
            Blocker::ClaimTaken => "waiting for a volume claim that another pod uses",
            Blocker::VolumeNode => "out of reach of a volume of the pod",
            Blocker::VolumeZone => "not in the zone of a volume of the pod",
            Blocker::NoVolume => "without a volume for a claim of the pod",
            Blocker::Locked(_) => "locked for another queue",
        }
    }
}

/// A plugin. Every method answers one hook; it is asked only for hooks that [`Plugin::hooks`] lists.
pub(crate) trait Plugin: Send + Sync {
    /// The hooks that it answers.
    fn hooks(&self) -> &'static [Hook];

    /// A cycle begins: work out what holds for all of it. True: what is allowed may have changed since the last cycle,
    /// so that every job that waits has to be looked at again.
    fn open(&mut self, _state: &State) -> bool {
        false
    }

    /// When it will answer otherwise although nothing happens; none: never.
    fn wakes_at(&self, _state: &State) -> Option<i64> {
        None
    }

    /// Less: `a` is served first.
    fn queue_order(&self, _state: &State, _a: QueueId, _b: QueueId) -> Ordering {
        Ordering::Equal
    }
    /// Whether what one queue gets changes how others stand to each other. Asked with [`Hook::QueueOrder`].
    fn queues_are_related(&self) -> bool {
        false
    }
    /// Less: `a` is served first.
    fn job_order(&self, _state: &State, _a: JobId, _b: JobId) -> Ordering {
        Ordering::Equal
    }
    /// Less: `a` is served first.
    fn task_order(&self, _state: &State, _a: TaskId, _b: TaskId) -> Ordering {
        Ordering::Equal
    }
    /// Why the job cannot be scheduled.
    fn job_invalid(&self, _state: &State, _job: JobId) -> Option<TooFew> {
        None
    }
    /// Whether the job may enter the queue.
    fn job_enqueueable(&self, _state: &State, _job: JobId) -> Vote {
        Vote::Abstain
    }
    /// Whether the job has what it needs.
    fn job_ready(&self, _state: &State, _job: JobId) -> bool {
        true
    }
    /// How many more pods the job needs at least before it can be ready. Asked with [`Hook::JobReady`].
    fn job_lacks(&self, _state: &State, _job: JobId) -> u32 {
        0
    }
    /// Whether the job has what it needs, pipelined pods included.
    fn job_pipelined(&self, _state: &State, _job: JobId) -> Vote {
        Vote::Abstain
    }
    /// Whether others may have to give way for the job.
    fn job_starving(&self, _state: &State, _job: JobId) -> bool {
        false
    }
    /// Whether the queue has had enough.
    fn overused(&self, _state: &State, _queue: QueueId) -> bool {
        false
    }
    /// Why the queue may not have this pod placed.
    fn queue_refuses(&self, _state: &State, _queue: QueueId, _task: TaskId) -> Option<Refusal> {
        None
    }
    /// Why the queue may not have this pod placed beyond its due, on room that is idle.
    fn loan_refused(&self, _state: &State, _queue: QueueId, _task: TaskId) -> Option<Refusal> {
        None
    }
    /// Whether others may have to give way so that the queue gets these pods placed.
    fn preemptive(&self, _state: &State, _queue: QueueId, _tasks: &[TaskId]) -> bool {
        true
    }
    /// Which of these pods may go, in the order given; none: no opinion. All candidates that are taken go together, so
    /// an answer counts with those before it gone.
    fn victims(&self, _state: &State, _claim: &Claim, _candidates: &[TaskId]) -> Option<Vec<TaskId>> {
        None
    }
    /// True: what this plugin does not let go stays, whatever other tiers say. False: its answer is a preference, and
    /// the first tier that has one decides.
    fn protects(&self) -> bool {
        false
    }
    /// Less: pods of `a` go before pods of `b`.
    fn victim_queue_order(&self, _state: &State, _a: QueueId, _b: QueueId, _claimant: QueueId) -> Ordering {
        Ordering::Equal
    }
    /// Running pods that have to move, whoever needs their room.
    fn victim_tasks(&self, _state: &State) -> Vec<TaskId> {
        Vec::new()
    }
    /// The queues for whose guarantee pods of others are evicted, in the order in which they are served.
    fn reserving_queues(&self, _state: &State) -> Vec<QueueId> {
        Vec::new()
    }
    /// What one of these queues lacks on its locked nodes; none: nothing, or no pod can go for it. Asked with
    /// [`Hook::Reservation`].
    fn reservation_shortage(&self, _state: &State, _queue: QueueId) -> Option<ReservationShortage> {
        None
    }
    /// Whether a pod may be evicted for the guarantee of a queue. Asked with [`Hook::Reservation`].
    fn is_reservation_victim(&self, _state: &State, _queue: QueueId, _task: TaskId) -> bool {
        false
    }
    /// No pods can go for what a queue lacks, until something changes. Told with [`Hook::Reservation`].
    fn note_unmovable(&self, _state: &State, _queue: QueueId) {}
    /// What the queue deserves and has; none: this plugin does not deal with it.
    fn queue_report(&self, _state: &State, _queue: QueueId) -> Option<QueueReport> {
        None
    }
    /// Whether, with a job's declared minimum, its queue stays within what it deserves. Asked with
    /// [`Hook::QueueReport`].
    fn is_due(&self, _state: &State, _job: JobId) -> bool {
        false
    }
    /// Whether it has rules about nodes that depend on the queue.
    fn has_zones(&self) -> bool {
        false
    }
    /// The queue whose own rules about nodes hold for pods of this queue; none: this plugin has no such rules.
    fn zone(&self, _state: &State, _queue: QueueId) -> QueueId {
        QueueId::NONE
    }
    /// Whether nodes that are locked for a queue take no pods of others.
    fn honours_locks(&self) -> bool {
        false
    }
    /// Why the node does not admit the shape. Must depend on facts alone, not on what is placed.
    fn blocker(&self, _state: &State, _shape: Shape, _node: NodeId) -> Option<Blocker> {
        None
    }
    /// Whether what is on a node can speak against the shape, beyond the room that it takes.
    fn minds_guests(&self, _state: &State, _shape: Shape) -> bool {
        false
    }
    /// What is on the node, now or in future, that speaks against the shape. Must depend on this node alone.
    fn guest_blocker(&self, _state: &State, _shape: Shape, _node: NodeId, _fit: Fit) -> Option<Blocker> {
        None
    }
    /// Changes when scores of nodes may have changed that were not touched themselves.
    fn score_version(&self, _state: &State, _shape: Shape) -> u64 {
        0
    }
    /// How good the node is for the shape. Must depend on this node alone.
    fn score(&self, _state: &State, _shape: Shape, _node: NodeId) -> f64 {
        0.0
    }
    /// Whether nodes have to be compared to find the best one for the shape, so that all are looked at together.
    fn compares(&self, _state: &State, _shape: Shape) -> bool {
        false
    }
    /// What other nodes, and what is on them, say about placing the pod: blocks sites, or puts them off to the future.
    /// Asked with [`Hook::Predicate`], for pods that are tied to others.
    fn judge(&self, _state: &State, _task: TaskId, _sites: &mut [Site]) {}
    /// Adds to the scores of sites what comes from comparing them. Asked with [`Hook::NodeOrder`], for pods that are
    /// tied to others and for shapes for which nodes are compared.
    fn rank(&self, _state: &State, _task: TaskId, _sites: &mut [Site]) {}
}

/// How a plugin is built from its entry in the configuration.
type Constructor = fn(&PluginConf) -> Box<dyn Plugin>;

/// Every plugin that the engine has, by the name that the configuration uses.
const PLUGINS: &[(&str, Constructor)] = &[
    ("binpack", |conf| Box::new(binpack::Binpack::new(conf))),
    ("capacity", |conf| Box::new(capacity::Capacity::new(conf))),
    ("conformance", |_| Box::new(conformance::Conformance)),
    ("drf", |conf| Box::new(drf::Drf::new(conf))),
    ("gang", |_| Box::new(gang::Gang)),
    (NODE_RESERVATION, |_| {
        Box::<node_reservation::NodeReservation>::default()
    }),
    ("nodegroup", |conf| Box::new(nodegroup::NodeGroup::new(conf))),
    ("nodeorder", |conf| Box::new(nodeorder::NodeOrder::new(conf))),
    ("overcommit", |conf| Box::new(overcommit::Overcommit::new(conf))),
    ("pdb", |_| Box::new(pdb::Pdb)),
    ("predicates", |conf| Box::new(predicates::Predicates::new(conf))),
    ("priority", |_| Box::new(priority::Priority)),
    ("proportion", |_| Box::<proportion::Proportion>::default()),
    ("resource-strategy-fit", |conf| {
        Box::new(strategy::StrategyFit::new(conf))
    }),
    ("resourcequota", |_| Box::new(resourcequota::ResourceQuota)),
    ("sla", |conf| Box::new(sla::Sla::new(conf))),
];

/// Returns the names of all plugins that the engine has.
pub(crate) fn plugin_names() -> impl Iterator<Item = &'static str> {
    PLUGINS.iter().map(|&(name, _)| name)
}

/// Builds the plugin that an entry of the configuration names, if the engine has it.
fn build(conf: &PluginConf) -> Option<Box<dyn Plugin>> {
    let (_, construct) = PLUGINS.iter().find(|(name, _)| *name == conf.name)?;
    Some(construct(conf))
}
