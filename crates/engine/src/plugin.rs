//! Plugins: one trait with default methods, one table of hooks, a handful of ways to combine answers.
//!
//! A plugin only reads the state; the ledger does all accounting. It is listed in the table under each hook that it
//! offers and that the configuration leaves on, in the order of tiers and, inside a tier, of the configuration.

mod binpack;
mod gang;
mod nodeorder;
mod predicates;
mod priority;

use std::cmp::Ordering;
use std::sync::Arc;

use crate::conf::{Conf, PluginConf};
use crate::model::{ClassId, JobId, NodeId, QueueId, TaskId};
use crate::session::State;

/// A question that plugins can answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Hook {
    /// Which queue first.
    QueueOrder,
    /// Which job first.
    JobOrder,
    /// Which pod of a job first.
    TaskOrder,
    /// Whether a job can be scheduled at all.
    JobValid,
    /// Whether a job may enter the queue.
    JobEnqueueable,
    /// Whether a job has what it needs.
    JobReady,
    /// Whether a job has what it needs once releasing pods are gone.
    JobPipelined,
    /// Whether a job lacks so much that others may have to give way.
    JobStarving,
    /// Whether a queue has had enough.
    Overused,
    /// Whether a queue may have this pod placed.
    Allocatable,
    /// Whether a node admits a class of pods.
    Predicate,
    /// How good a node is for a class of pods.
    NodeOrder,
}

const HOOKS: usize = 12;

impl Hook {
    /// The configuration's key that switches it; none: it cannot be switched off.
    pub fn flag(self) -> Option<&'static str> {
        Some(match self {
            Hook::QueueOrder => "enableQueueOrder",
            Hook::JobOrder => "enableJobOrder",
            Hook::TaskOrder => "enableTaskOrder",
            Hook::JobValid => return None,
            Hook::JobEnqueueable => "enableJobEnqueued",
            Hook::JobReady => "enableJobReady",
            Hook::JobPipelined => "enableJobPipelined",
            Hook::JobStarving => "enableJobStarving",
            Hook::Overused => "enabledOverused",
            Hook::Allocatable => "enabledAllocatable",
            Hook::Predicate => "enablePredicate",
            Hook::NodeOrder => "enableNodeOrder",
        })
    }
}

/// An answer to a vote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vote {
    /// For it.
    Permit,
    /// No opinion.
    Abstain,
    /// Against it; that decides.
    Reject,
}

/// Why a job cannot be scheduled at all: too few pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TooFew {
    /// The role that lacks pods; none: the job as a whole.
    pub role: Option<Arc<str>>,
    /// How many are needed.
    pub need: u32,
    /// How many there are.
    pub have: u32,
}

/// Why a node does not admit a class of pods, whatever is free on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Blocker {
    /// It is not ready.
    NotReady,
    /// It is cordoned.
    Unschedulable,
    /// It lacks labels that the pod selects.
    Affinity,
    /// It has a taint that the pod does not tolerate.
    Taint,
}

/// A plugin. Every method answers one hook; it is asked only for hooks that [`Plugin::hooks`] lists.
pub trait Plugin: Send + Sync {
    /// The hooks that it answers.
    fn hooks(&self) -> &'static [Hook];

    /// A cycle begins: work out what holds for all of it.
    fn open(&mut self, _state: &State) {}

    /// Less: `a` is served first.
    fn queue_order(&self, _state: &State, _a: QueueId, _b: QueueId) -> Ordering {
        Ordering::Equal
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
    /// Whether the queue may have this pod placed.
    fn allocatable(&self, _state: &State, _queue: QueueId, _task: TaskId) -> bool {
        true
    }
    /// Why the node does not admit the class. Must depend on facts alone, not on what is placed.
    fn blocker(&self, _state: &State, _class: ClassId, _node: NodeId) -> Option<Blocker> {
        None
    }
    /// How good the node is for the class. Must depend on this node alone.
    fn score(&self, _state: &State, _class: ClassId, _node: NodeId) -> f64 {
        0.0
    }
}

/// Names of plugins that the engine has.
pub const KNOWN: &[&str] = &["gang", "priority", "predicates", "nodeorder", "binpack"];

fn build(conf: &PluginConf) -> Option<Box<dyn Plugin>> {
    Some(match conf.name.as_str() {
        "gang" => Box::new(gang::Gang),
        "priority" => Box::new(priority::Priority),
        "predicates" => Box::new(predicates::Predicates),
        "nodeorder" => Box::new(nodeorder::NodeOrder::new(conf)),
        "binpack" => Box::new(binpack::Binpack::new(conf)),
        _ => return None,
    })
}

/// The table: which plugins answer which hook, in order.
pub struct Hooks {
    plugins: Vec<Box<dyn Plugin>>,
    /// By hook: (tier, plugin).
    table: [Vec<(usize, usize)>; HOOKS],
}

impl Hooks {
    /// Builds the table from a configuration. Plugins that do not exist are left out; the configuration's warnings
    /// name them.
    pub fn new(conf: &Conf) -> Self {
        let mut hooks = Hooks {
            plugins: Vec::new(),
            table: Default::default(),
        };
        for (tier, plugins) in conf.tiers.iter().enumerate() {
            for plugin_conf in plugins {
                let Some(plugin) = build(plugin_conf) else { continue };
                let index = hooks.plugins.len();
                for &hook in plugin.hooks() {
                    if hook.flag().is_none_or(|flag| plugin_conf.is_on(flag)) {
                        hooks.table[hook as usize].push((tier, index));
                    }
                }
                hooks.plugins.push(plugin);
            }
        }
        hooks
    }

    /// Tells every plugin that a cycle begins.
    pub fn open(&mut self, state: &State) {
        for plugin in &mut self.plugins {
            plugin.open(state);
        }
    }

    fn answers(&self, hook: Hook) -> impl Iterator<Item = (usize, &dyn Plugin)> {
        self.table[hook as usize]
            .iter()
            .map(|&(tier, index)| (tier, &*self.plugins[index]))
    }

    /// Combining rule "first": the first answer that is not a tie.
    fn first(&self, hook: Hook, ask: impl Fn(&dyn Plugin) -> Ordering) -> Ordering {
        self.answers(hook)
            .map(|(_, plugin)| ask(plugin))
            .find(|answer| answer.is_ne())
            .unwrap_or(Ordering::Equal)
    }

    /// Combining rule "vote": one reject refuses; after a tier with a permit the rest is not asked; no opinion permits.
    fn vote(&self, hook: Hook, ask: impl Fn(&dyn Plugin) -> Vote) -> bool {
        let mut permitted_in = None;
        for (tier, plugin) in self.answers(hook) {
            if permitted_in.is_some_and(|permitted| permitted != tier) {
                return true;
            }
            match ask(plugin) {
                Vote::Reject => return false,
                Vote::Permit => permitted_in = Some(tier),
                Vote::Abstain => {}
            }
        }
        true
    }

    /// Which queue first: plugins, then age, then name.
    pub fn queue_order(&self, state: &State, a: QueueId, b: QueueId) -> Ordering {
        let queues = &state.model.queues;
        self.first(Hook::QueueOrder, |plugin| plugin.queue_order(state, a, b))
            .then_with(|| queues[a].created_ms.cmp(&queues[b].created_ms))
            .then_with(|| queues.name(a).cmp(queues.name(b)))
    }

    /// Which job first: plugins, then age, then name.
    pub fn job_order(&self, state: &State, a: JobId, b: JobId) -> Ordering {
        let jobs = &state.model.jobs;
        self.first(Hook::JobOrder, |plugin| plugin.job_order(state, a, b))
            .then_with(|| jobs[a].created_ms.cmp(&jobs[b].created_ms))
            .then_with(|| jobs.name(a).cmp(jobs.name(b)))
    }

    /// Which pod first: plugins, then the number in the name, then age, then uid.
    pub fn task_order(&self, state: &State, a: TaskId, b: TaskId) -> Ordering {
        let (x, y) = (&state.model.tasks[a], &state.model.tasks[b]);
        let number = |ordinal: Option<u32>| ordinal.map_or(u64::MAX, u64::from);
        self.first(Hook::TaskOrder, |plugin| plugin.task_order(state, a, b))
            .then_with(|| number(x.ordinal).cmp(&number(y.ordinal)))
            .then_with(|| x.created_ms.cmp(&y.created_ms))
            .then_with(|| x.uid.cmp(&y.uid))
            .then_with(|| state.model.tasks.name(a).cmp(state.model.tasks.name(b)))
    }

    /// Why a job cannot be scheduled: the first objection.
    pub fn job_invalid(&self, state: &State, job: JobId) -> Option<TooFew> {
        self.answers(Hook::JobValid)
            .find_map(|(_, plugin)| plugin.job_invalid(state, job))
    }

    /// A vote: may the job enter the queue?
    pub fn job_enqueueable(&self, state: &State, job: JobId) -> bool {
        self.vote(Hook::JobEnqueueable, |plugin| plugin.job_enqueueable(state, job))
    }

    /// All must agree that the job has what it needs.
    pub fn job_ready(&self, state: &State, job: JobId) -> bool {
        self.answers(Hook::JobReady)
            .all(|(_, plugin)| plugin.job_ready(state, job))
    }

    /// How many more pods the job needs at least: the largest answer.
    pub fn job_lacks(&self, state: &State, job: JobId) -> u32 {
        self.answers(Hook::JobReady)
            .map(|(_, plugin)| plugin.job_lacks(state, job))
            .max()
            .unwrap_or(0)
    }

    /// A vote: will the job have what it needs?
    pub fn job_pipelined(&self, state: &State, job: JobId) -> bool {
        self.vote(Hook::JobPipelined, |plugin| plugin.job_pipelined(state, job))
    }

    /// All of the first tier that has an opinion must agree; nobody starves without one.
    pub fn job_starving(&self, state: &State, job: JobId) -> bool {
        let Some((first, _)) = self.answers(Hook::JobStarving).next() else {
            return false;
        };
        self.answers(Hook::JobStarving)
            .take_while(|&(tier, _)| tier == first)
            .all(|(_, plugin)| plugin.job_starving(state, job))
    }

    /// Any may say that the queue has had enough.
    pub fn overused(&self, state: &State, queue: QueueId) -> bool {
        self.answers(Hook::Overused)
            .any(|(_, plugin)| plugin.overused(state, queue))
    }

    /// All must agree that the queue may have the pod.
    pub fn allocatable(&self, state: &State, queue: QueueId, task: TaskId) -> bool {
        self.answers(Hook::Allocatable)
            .all(|(_, plugin)| plugin.allocatable(state, queue, task))
    }

    /// Why a node does not admit a class: the first objection.
    pub fn blocker(&self, state: &State, class: ClassId, node: NodeId) -> Option<Blocker> {
        self.answers(Hook::Predicate)
            .find_map(|(_, plugin)| plugin.blocker(state, class, node))
    }

    /// The sum of all scores.
    pub fn score(&self, state: &State, class: ClassId, node: NodeId) -> f64 {
        self.answers(Hook::NodeOrder)
            .map(|(_, plugin)| plugin.score(state, class, node))
            .sum()
    }
}
