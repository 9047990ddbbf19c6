//! The table of hooks: which plugins answer which question, and how their answers become one.

mod places;

use std::cmp::Ordering;

use basalt_api::reason::Code;

use super::{Claim, Plugin, QueueReport, Refusal, ReservationShortage, TooFew, Vote, build};
use crate::conf::Conf;
use crate::model::{JobId, QueueId, TaskId};
use crate::session::State;

macro_rules! hooks {
    ($($(#[$doc:meta])* $name:ident => $flag:expr,)*) => {
        /// A question that plugins can answer.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(usize)]
        pub(crate) enum Hook {
            $($(#[$doc])* $name,)*
        }

        impl Hook {
            /// How many hooks there are.
            const COUNT: usize = [$(Hook::$name),*].len();

            /// The configuration's key that switches it; none: it cannot be switched off.
            pub(crate) fn flag(self) -> Option<&'static str> {
                match self {
                    $(Hook::$name => $flag,)*
                }
            }
        }
    };
}

hooks! {
    /// Which queue first.
    QueueOrder => Some("enableQueueOrder"),
    /// Which job first.
    JobOrder => Some("enableJobOrder"),
    /// Which pod of a job first.
    TaskOrder => Some("enableTaskOrder"),
    /// Whether a job can be scheduled at all.
    JobValid => None,
    /// Whether a job may enter the queue.
    JobEnqueueable => Some("enableJobEnqueued"),
    /// Whether a job has what it needs.
    JobReady => Some("enableJobReady"),
    /// Whether a job has what it needs once releasing pods are gone.
    JobPipelined => Some("enableJobPipelined"),
    /// Whether a job lacks so much that others may have to give way.
    JobStarving => Some("enableJobStarving"),
    /// Whether a queue has had enough.
    Overused => Some("enabledOverused"),
    /// Whether a queue may have this pod placed.
    Allocatable => Some("enabledAllocatable"),
    /// Whether a queue may have others give way for these pods.
    Preemptive => Some("enablePreemptive"),
    /// Which pods may go for a more important job of the same queue, or of a near one.
    Preemptable => Some("enablePreemptable"),
    /// Which pods may go for another queue.
    Reclaimable => Some("enableReclaimable"),
    /// Which pods may go for a whole gang.
    Evictable => None,
    /// Which queue gives way first.
    VictimQueueOrder => None,
    /// Which running pods have to move.
    VictimTasks => Some("enabledVictim"),
    /// What a queue deserves, and how much of it it has.
    QueueReport => None,
    /// Whether a node admits a class of pods.
    Predicate => Some("enablePredicate"),
    /// How good a node is for a class of pods.
    NodeOrder => Some("enableNodeOrder"),
    /// Whether a queue may borrow what is idle, beyond its due.
    Loan => Some("enabledAllocatable"),
    /// For which queues locked nodes are cleared, and by whose going.
    Reservation => None,
}

/// The table: which plugins answer which hook, in order.
pub(crate) struct Hooks {
    plugins: Vec<Box<dyn Plugin>>,
    /// By hook: (tier, plugin).
    table: [Vec<(usize, usize)>; Hook::COUNT],
    /// Some plugin has rules about nodes that depend on the queue.
    zoned: bool,
    /// Nodes that are locked for a queue take no pods of others.
    honours_locks: bool,
}

impl Hooks {
    /// Builds the table from a configuration. Plugins that do not exist are left out; the configuration's warnings
    /// name them.
    pub(crate) fn new(conf: &Conf) -> Self {
        let mut hooks = Hooks {
            plugins: Vec::new(),
            table: Default::default(),
            zoned: false,
            honours_locks: false,
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
                hooks.zoned |= plugin.has_zones();
                hooks.honours_locks |= plugin.honours_locks();
                hooks.plugins.push(plugin);
            }
        }
        hooks
    }

    /// Whether nodes that are locked for a queue take no pods of others.
    pub(crate) fn honours_locks(&self) -> bool {
        self.honours_locks
    }

    /// Tells every plugin that a cycle begins. True: what is allowed may have changed.
    pub(crate) fn open(&mut self, state: &State) -> bool {
        let mut changed = false;
        for plugin in &mut self.plugins {
            changed |= plugin.open(state);
        }
        changed
    }

    /// When some plugin will answer otherwise although nothing happens.
    pub(crate) fn wakes_at(&self, state: &State) -> Option<i64> {
        self.plugins.iter().filter_map(|plugin| plugin.wakes_at(state)).min()
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
    fn vote(&self, hook: Hook, ask: impl Fn(&dyn Plugin) -> Vote) -> Result<(), Refusal> {
        let mut permitted_in = None;
        for (tier, plugin) in self.answers(hook) {
            if permitted_in.is_some_and(|permitted| permitted != tier) {
                return Ok(());
            }
            match ask(plugin) {
                Vote::Reject(refusal) => return Err(refusal),
                Vote::Permit => permitted_in = Some(tier),
                Vote::Abstain => {}
            }
        }
        Ok(())
    }

    /// Combining rule "intersect by tier". Plugins that protect are asked in every tier, and what they keep stays. Of
    /// the others the first tier with an opinion decides: what all of its plugins let go. An empty answer is an answer.
    fn intersect(
        &self,
        hook: Hook,
        candidates: &[TaskId],
        ask: impl Fn(&dyn Plugin, &[TaskId]) -> Option<Vec<TaskId>>,
    ) -> Vec<TaskId> {
        let mut victims: Option<Vec<TaskId>> = None;
        let mut decided_in = None;
        for (tier, plugin) in self.answers(hook) {
            if !plugin.protects() && decided_in.is_some_and(|decided| decided != tier) {
                continue;
            }
            let Some(answer) = ask(plugin, victims.as_deref().unwrap_or(candidates)) else {
                continue;
            };
            if !plugin.protects() {
                decided_in = Some(tier);
            }
            if answer.is_empty() {
                return answer;
            }
            victims = Some(answer);
        }
        victims.unwrap_or_default()
    }

    /// Which queue first: plugins, then age, then name.
    pub(crate) fn queue_order(&self, state: &State, a: QueueId, b: QueueId) -> Ordering {
        let queues = &state.model.queues;
        self.first(Hook::QueueOrder, |plugin| plugin.queue_order(state, a, b))
            .then_with(|| queues[a].created_ms.cmp(&queues[b].created_ms))
            .then_with(|| queues.name(a).cmp(queues.name(b)))
    }

    /// Which job first, by plugins alone.
    pub(crate) fn job_rank(&self, state: &State, a: JobId, b: JobId) -> Ordering {
        self.first(Hook::JobOrder, |plugin| plugin.job_order(state, a, b))
    }

    /// Whether what one queue gets changes how others stand to each other.
    pub(crate) fn queues_are_related(&self) -> bool {
        self.answers(Hook::QueueOrder)
            .any(|(_, plugin)| plugin.queues_are_related())
    }

    /// Which job first: plugins, then age, then name.
    pub(crate) fn job_order(&self, state: &State, a: JobId, b: JobId) -> Ordering {
        let jobs = &state.model.jobs;
        self.job_rank(state, a, b)
            .then_with(|| jobs[a].created_ms.cmp(&jobs[b].created_ms))
            .then_with(|| jobs.name(a).cmp(jobs.name(b)))
    }

    /// Which pod first: plugins, then the number in the name, then age, then uid.
    pub(crate) fn task_order(&self, state: &State, a: TaskId, b: TaskId) -> Ordering {
        let (x, y) = (&state.model.tasks[a], &state.model.tasks[b]);
        let number = |ordinal: Option<u32>| ordinal.map_or(u64::MAX, u64::from);
        self.first(Hook::TaskOrder, |plugin| plugin.task_order(state, a, b))
            .then_with(|| number(x.ordinal).cmp(&number(y.ordinal)))
            .then_with(|| x.created_ms.cmp(&y.created_ms))
            .then_with(|| x.uid.cmp(&y.uid))
            .then_with(|| state.model.tasks.name(a).cmp(state.model.tasks.name(b)))
    }

    /// Why a job cannot be scheduled: the first objection.
    pub(crate) fn job_invalid(&self, state: &State, job: JobId) -> Option<TooFew> {
        self.answers(Hook::JobValid)
            .find_map(|(_, plugin)| plugin.job_invalid(state, job))
    }

    /// A vote: may the job enter the queue? A full cluster does not stop a job that its queue is due: else nothing
    /// could ever be taken back for it.
    pub(crate) fn job_enqueueable(&self, state: &State, job: JobId) -> Result<(), Refusal> {
        let is_due = || {
            self.answers(Hook::QueueReport)
                .any(|(_, plugin)| plugin.is_due(state, job))
        };
        self.vote(Hook::JobEnqueueable, |plugin| {
            match plugin.job_enqueueable(state, job) {
                Vote::Reject(refusal) if refusal.code == Code::ClusterOvercommitted && is_due() => Vote::Permit,
                vote => vote,
            }
        })
    }

    /// All must agree that the job has what it needs.
    pub(crate) fn job_ready(&self, state: &State, job: JobId) -> bool {
        self.answers(Hook::JobReady)
            .all(|(_, plugin)| plugin.job_ready(state, job))
    }

    /// How many more pods the job needs at least: the largest answer.
    pub(crate) fn job_lacks(&self, state: &State, job: JobId) -> u32 {
        self.answers(Hook::JobReady)
            .map(|(_, plugin)| plugin.job_lacks(state, job))
            .max()
            .unwrap_or(0)
    }

    /// A vote: will the job have what it needs?
    pub(crate) fn job_pipelined(&self, state: &State, job: JobId) -> bool {
        self.vote(Hook::JobPipelined, |plugin| plugin.job_pipelined(state, job))
            .is_ok()
    }

    /// All of the first tier that has an opinion must agree; nobody starves without one.
    pub(crate) fn job_starving(&self, state: &State, job: JobId) -> bool {
        let Some((first, _)) = self.answers(Hook::JobStarving).next() else {
            return false;
        };
        self.answers(Hook::JobStarving)
            .take_while(|&(tier, _)| tier == first)
            .all(|(_, plugin)| plugin.job_starving(state, job))
    }

    /// Any may say that the queue has had enough.
    pub(crate) fn overused(&self, state: &State, queue: QueueId) -> bool {
        self.answers(Hook::Overused)
            .any(|(_, plugin)| plugin.overused(state, queue))
    }

    /// Why the queue may not have the pod placed: the first objection.
    pub(crate) fn queue_refuses(&self, state: &State, queue: QueueId, task: TaskId) -> Option<Refusal> {
        self.answers(Hook::Allocatable)
            .find_map(|(_, plugin)| plugin.queue_refuses(state, queue, task))
    }

    /// Whether what is idle can be lent to queues that have their due.
    pub(crate) fn lends(&self) -> bool {
        !self.table[Hook::Loan as usize].is_empty()
    }

    /// Why a queue may not borrow idle room for the pod: the first objection.
    pub(crate) fn loan_refused(&self, state: &State, queue: QueueId, task: TaskId) -> Option<Refusal> {
        self.answers(Hook::Loan)
            .find_map(|(_, plugin)| plugin.loan_refused(state, queue, task))
    }

    /// Whether any plugin says who of one queue gives way to whom, not only who is safe.
    pub(crate) fn ranks_victims(&self) -> bool {
        self.answers(Hook::Preemptable).any(|(_, plugin)| !plugin.protects())
    }

    /// Whether any plugin says what queues deserve.
    pub(crate) fn shares_out(&self) -> bool {
        self.answers(Hook::QueueReport).next().is_some()
    }

    /// All must agree that others may have to give way.
    pub(crate) fn preemptive(&self, state: &State, queue: QueueId, tasks: &[TaskId]) -> bool {
        self.answers(Hook::Preemptive)
            .all(|(_, plugin)| plugin.preemptive(state, queue, tasks))
    }

    /// The pods that may go for a claim, in the order given. Nobody goes if nobody has an opinion.
    pub(crate) fn victims(&self, state: &State, claim: &Claim, candidates: &[TaskId]) -> Vec<TaskId> {
        self.intersect(claim.means.hook(), candidates, |plugin, left| {
            plugin.victims(state, claim, left)
        })
    }

    /// Which queue gives way first: plugins, then the one that is served last.
    pub(crate) fn victim_queue_order(&self, state: &State, a: QueueId, b: QueueId, claimant: QueueId) -> Ordering {
        self.first(Hook::VictimQueueOrder, |plugin| {
            plugin.victim_queue_order(state, a, b, claimant)
        })
        .then_with(|| self.queue_order(state, b, a))
    }

    /// The pods that have to move: all that the first tier with any names, each once.
    pub(crate) fn victim_tasks(&self, state: &State) -> Vec<TaskId> {
        let mut named: Vec<TaskId> = Vec::new();
        let mut named_in = None;
        for (tier, plugin) in self.answers(Hook::VictimTasks) {
            if named_in.is_some_and(|first| first != tier) {
                break;
            }
            let more = plugin.victim_tasks(state);
            if !more.is_empty() {
                named_in = Some(tier);
                named.extend(more);
            }
        }
        named.sort_unstable();
        named.dedup();
        named
    }

    /// What a queue deserves and has: the first answer.
    pub(crate) fn queue_report(&self, state: &State, queue: QueueId) -> Option<QueueReport> {
        self.answers(Hook::QueueReport)
            .find_map(|(_, plugin)| plugin.queue_report(state, queue))
    }

    /// The queues for whose guarantee pods of others are evicted, in order: the first answer.
    pub(crate) fn reserving_queues(&self, state: &State) -> Vec<QueueId> {
        let mut answers = self.answers(Hook::Reservation);
        answers
            .next()
            .map(|(_, plugin)| plugin.reserving_queues(state))
            .unwrap_or_default()
    }

    /// What one of these queues lacks on its locked nodes: the first answer.
    pub(crate) fn reservation_shortage(&self, state: &State, queue: QueueId) -> Option<ReservationShortage> {
        self.answers(Hook::Reservation)
            .find_map(|(_, plugin)| plugin.reservation_shortage(state, queue))
    }

    /// All must agree that a pod may be evicted for the guarantee of a queue; nobody goes if nobody has an opinion.
    pub(crate) fn is_reservation_victim(&self, state: &State, queue: QueueId, task: TaskId) -> bool {
        let mut answers = self.answers(Hook::Reservation).peekable();
        answers.peek().is_some() && answers.all(|(_, plugin)| plugin.is_reservation_victim(state, queue, task))
    }

    /// Tells every plugin that no pods can go for what a queue lacks.
    pub(crate) fn note_unmovable(&self, state: &State, queue: QueueId) {
        for (_, plugin) in self.answers(Hook::Reservation) {
            plugin.note_unmovable(state, queue);
        }
    }
}
