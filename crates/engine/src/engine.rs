//! The engine: events in, plans out.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};
use serde::Serialize;

use crate::actions::Cycle;
use crate::candidates::Candidates;
use crate::conf::Conf;
use crate::explain::Shortages;
use crate::facts::Event;
use crate::ledger::Status;
use crate::model::{ClassId, Id, QueueId, TaskId};
use crate::plan::{Plan, QueueState, Transaction, Waiting, WaitingList};
use crate::plugin::{Blocker, Hooks};
use crate::resources::{Amounts, DimId};
use crate::session::{Promise, State};

/// The part of the recounts and tells of a cycle that one with other work does.
const BUSY: usize = 20;

/// What is not in the scheduler's configuration file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Pods that name one of these schedulers are ours.
    pub scheduler_names: Vec<String>,
    /// How long a decided bind is believed without the API showing it.
    pub assume_ms: i64,
    /// How long room that was cleared for a pod is kept for it.
    pub hold_ms: i64,
    /// How soon after a change the numbers in reasons are worked out again for all that wait, part by part.
    pub recount_ms: i64,
    /// How many groups of those that wait alike are told new numbers in one cycle.
    pub tells: usize,
    /// For how many pods numbers are worked out again in one cycle (but at least for one group).
    pub recounts: usize,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            scheduler_names: basalt_api::names::SCHEDULER_NAMES.map(str::to_owned).into(),
            assume_ms: 30_000,
            hold_ms: 60_000,
            recount_ms: 50,
            tells: 1_000,
            recounts: 200,
        }
    }
}

impl Options {
    /// Embedded there is no other scheduler, so the default one's pods are ours too.
    pub fn embedded() -> Self {
        let mut options = Options::default();
        options
            .scheduler_names
            .push(basalt_api::names::DEFAULT_SCHEDULER_NAME.to_owned());
        options
    }
}

/// What the engine holds and has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Statistics {
    /// Cycles asked for.
    pub cycles: u64,
    /// Cycles that had anything to look at.
    pub busy_cycles: u64,
    /// Binds decided.
    pub binds: u64,
    /// Decided binds that ran out of time, or failed.
    pub binds_lost: u64,
    /// Nodes known.
    pub nodes: usize,
    /// Pods known.
    pub pods: usize,
    /// Pod groups known.
    pub pod_groups: usize,
    /// Queues known.
    pub queues: usize,
    /// Shapes of pods.
    pub classes: usize,
    /// Decided binds that the API does not show yet.
    pub assumed: usize,
}

/// The scheduler's decisions: a deterministic function of the events, the configuration, the time and the seed.
pub struct Engine {
    options: Options,
    conf: Conf,
    hooks: Hooks,
    state: State,
    candidates: Candidates,
    shortages: Shortages,
    waiting: Arc<WaitingList>,
    queues: Arc<Vec<QueueState>>,
    statistics: Statistics,
    /// The time of the last cycle.
    now_ms: i64,
    /// When plugins answer otherwise by time alone.
    due_ms: Option<i64>,
    /// When numbers in reasons are worked out again.
    recount_due_ms: Option<i64>,
}

/// How long a group waits after a failed bind, at first …
const RETRY_MS: i64 = 100;
/// … and how often that doubles at most (to 25 s).
const RETRY_DOUBLINGS: u32 = 8;
/// How long a pod whose eviction was refused is left in peace, at first …
const SPARE_MS: i64 = 10_000;
/// … and how often that doubles at most (to 320 s): a budget may never let it go.
const SPARE_DOUBLINGS: u8 = 5;

impl Engine {
    /// An engine that knows nothing of the cluster yet.
    pub fn new(conf: Conf, options: Options) -> Self {
        let (hooks, mut state) = (Hooks::new(&conf), State::default());
        state.honour_locks(hooks.honours_locks());
        Engine {
            hooks,
            conf,
            options,
            state,
            candidates: Candidates::default(),
            shortages: Shortages::default(),
            waiting: Arc::default(),
            queues: Arc::default(),
            statistics: Statistics::default(),
            now_ms: 0,
            due_ms: None,
            recount_due_ms: None,
        }
    }

    /// Changes the configuration; what is known of the cluster stays.
    pub fn set_conf(&mut self, conf: Conf) {
        self.hooks = Hooks::new(&conf);
        self.conf = conf;
        self.state.honour_locks(self.hooks.honours_locks());
        self.candidates.clear();
        self.shortages.clear();
        self.state.dissolve_crowds();
        self.state.ease();
    }

    /// The configuration in force.
    pub fn conf(&self) -> &Conf {
        &self.conf
    }

    /// The state, which views read.
    #[inline]
    pub(crate) fn state(&self) -> &State {
        &self.state
    }

    /// Whether pods that ask for this scheduler are ours.
    pub fn answers_to(&self, scheduler: &str) -> bool {
        self.options.scheduler_names.iter().any(|ours| ours == scheduler)
    }

    /// Takes in a change of the cluster. Telling the same thing twice does nothing.
    pub fn apply(&mut self, event: &Event) {
        let names = &self.options.scheduler_names;
        self.state.apply(event, &|name| names.iter().any(|ours| ours == name));
    }

    /// Why the node of a decided pod does not admit it any more, by facts of the node alone: what came in since the decision
    /// may speak against it.
    pub(crate) fn objection(&self, task: TaskId) -> Option<Blocker> {
        let (state, node) = (&self.state, self.state.ledger.node(task));
        self.hooks.blocker(state, self.hooks.shape(state, task), node)
    }

    /// A decided bind was not carried out: the pod waits again. Its group is tried again after a moment, longer with
    /// every failure in a row, so that a bind that cannot succeed does not keep everyone busy.
    pub fn bind_failed(&mut self, pod: &str, uid: &str) {
        let Some(task) = self.state.model.tasks.find(pod) else {
            return;
        };
        let record = &self.state.model.tasks[task];
        if *record.uid != *uid || !self.state.is_under_way(task) {
            return;
        }
        let job = record.job;
        self.state.unassume(task);
        self.statistics.binds_lost += 1;
        if job.is_some() && self.state.model.jobs[job].retry_at_ms <= self.now_ms {
            let record = &mut self.state.model.jobs[job];
            let pause = RETRY_MS << record.bind_failures.min(RETRY_DOUBLINGS);
            record.bind_failures += 1;
            record.retry_at_ms = self.now_ms.saturating_add(pause);
            self.state.retries.push(job);
        }
    }

    /// A decided eviction was not carried out: the pod stays, and nobody asks it to go for a while. Whoever waits for room on
    /// its node looks for other room.
    pub fn evict_failed(&mut self, pod: &str, uid: &str) {
        if let Some(task) = self.state.model.tasks.find(pod)
            && *self.state.model.tasks[task].uid == *uid
        {
            let node = self.state.ledger.node(task);
            self.state.unevict(task);
            self.state.release_holds(node);
            let record = &mut self.state.model.tasks[task];
            if !std::mem::replace(&mut record.spared, true) {
                record.refusals = record.refusals.saturating_add(1);
                let (since_ms, uid) = (self.now_ms, record.uid.clone());
                self.state.spared.push(Promise { since_ms, task, uid });
            }
        }
    }

    /// A decided phase (or counter) was not written: it is decided again.
    pub fn phase_failed(&mut self, pod_group: &str) {
        if let Some(job) = self.state.model.jobs.find(pod_group) {
            let record = &mut self.state.model.jobs[job];
            record.announced = record.seen_phase;
            record.announced_tally = record.seen_tally;
            self.state.mark(job);
            self.state.changed = true;
        }
    }

    /// Whether a cycle would have anything to look at. Besides this, [`Engine::next_wake`] is a reason for one.
    pub fn needs_cycle(&self) -> bool {
        self.state.changed
    }

    /// When a cycle is due by time alone: a decided bind stops being believed, or a failed one is tried again.
    pub fn next_wake(&self) -> Option<i64> {
        let state = &self.state;
        let promises = [
            (&state.assumed, self.options.assume_ms),
            (&state.evicting, self.options.assume_ms),
            (&state.holds, self.options.hold_ms),
        ];
        let held = promises
            .into_iter()
            .flat_map(|(list, ms)| list.iter().map(move |promise| (promise, ms)))
            .filter(|(promise, _)| self.is_open(promise))
            .map(|(promise, ms)| promise.since_ms.saturating_add(ms));
        let retries = self
            .state
            .retries
            .iter()
            .map(|&job| self.state.model.jobs[job].retry_at_ms);
        let spared = state.spared.iter().map(|promise| spared_until(state, promise));
        let due = self.due_ms.into_iter().chain(self.recount_due_ms);
        held.chain(retries).chain(spared).chain(due).min()
    }

    /// Numbers about the engine.
    pub fn statistics(&self) -> Statistics {
        let model = &self.state.model;
        Statistics {
            nodes: model.nodes.count(),
            pods: model.tasks.count(),
            pod_groups: model.jobs.count(),
            queues: model.queues.count(),
            classes: model.classes.count(),
            assumed: self
                .state
                .assumed
                .iter()
                .filter(|promise| self.is_open(promise))
                .count(),
            ..self.statistics
        }
    }

    /// Decides. Binds in the plan are taken as done until the API shows them, they fail, or their time runs out; so the
    /// next cycle may come at once. `seed` only says which of equal nodes comes first.
    pub fn cycle(&mut self, now_ms: i64, seed: u64) -> Plan {
        self.cycle_observed(now_ms, seed, &mut |_| {})
    }

    /// The same; calls `stage` when the cycle is open ("open") and after each action (its name), so that the caller, who has
    /// a clock, can tell where the time goes.
    pub fn cycle_observed(&mut self, now_ms: i64, seed: u64, stage: &mut dyn FnMut(&str)) -> Plan {
        self.statistics.cycles += 1;
        self.now_ms = now_ms;
        self.state.now_ms = now_ms;
        self.expire(now_ms);
        let recount = self.recount_due_ms.take_if(|due| *due <= now_ms).is_some();
        // Who comes is served first: numbers are worked out again, and told, mostly in cycles of their own.
        let share = if self.state.changed { BUSY } else { 1 };
        if !self.state.changed && !recount {
            return Plan {
                transactions: Vec::new(),
                waiting: self.waiting.clone(),
                queues: self.queues.clone(),
            };
        }
        self.statistics.busy_cycles += 1;
        self.state.moves += u64::from(std::mem::take(&mut self.state.changed));
        self.state.order_nodes(seed);
        let freed: FxHashSet<ClassId> = std::mem::take(&mut self.state.freed_classes).into_iter().collect();
        self.candidates.forget(&freed);
        self.shortages.open(&freed);
        self.state.hunts = self.conf.evicts();
        self.state.settle_claims();
        if self.hooks.open(&self.state) {
            self.state.eased += 1;
        }
        self.state.open();
        let mut jobs = self.state.hopefuls();
        let recounts = if recount {
            self.options.recounts.div_ceil(share)
        } else {
            0
        };
        let recounted = self.state.outdated(&mut jobs, recounts);
        let mut cycle = Cycle {
            state: &mut self.state,
            hooks: &self.hooks,
            candidates: &mut self.candidates,
            conf: &self.conf,
            now_ms,
            decisions: Vec::new(),
            held: Vec::new(),
            beneficiaries: FxHashSet::default(),
            at: 0,
            dry_run: None,
            attempts: FxHashMap::default(),
            shortages: &mut self.shortages,
            jobs,
            alike: FxHashMap::default(),
            recounted,
        };
        stage("open");
        cycle.run(stage);
        let transactions = cycle.close(now_ms);
        let news = cycle.settle(self.options.tells.div_ceil(share));
        // What was decided changes the numbers of those that came before it.
        self.state.moves += u64::from(transactions.iter().any(Transaction::moves));
        if self.state.is_behind() {
            let due = now_ms.saturating_add(self.options.recount_ms);
            self.recount_due_ms.get_or_insert(due);
        }
        merge(&mut self.waiting, news);
        self.state.settle();
        self.due_ms = self.hooks.wakes_at(&self.state);
        self.queues = Arc::new(queue_states(&self.state, &self.hooks));
        let plan = Plan {
            transactions,
            waiting: self.waiting.clone(),
            queues: self.queues.clone(),
        };
        self.statistics.binds += plan.binds().count() as u64;
        plan
    }

    /// Whether we still believe in a decision that the API does not show.
    fn is_open(&self, promise: &Promise) -> bool {
        let task = &self.state.model.tasks[promise.task];
        task.uid == promise.uid && (task.evicting || self.state.is_under_way(promise.task))
    }

    /// Drops what is confirmed, and takes back what was not confirmed in time.
    fn expire(&mut self, now_ms: i64) {
        if self.due_ms.take_if(|due| *due <= now_ms).is_some() {
            self.state.ease();
        }
        let (assume_ms, hold_ms) = (self.options.assume_ms, self.options.hold_ms);
        for promise in self.overdue(|state| &mut state.assumed, now_ms.saturating_sub(assume_ms)) {
            if self.state.ledger.status(promise.task) != Status::Pipelined {
                self.state.unassume(promise.task);
                self.statistics.binds_lost += 1;
            }
        }
        for promise in self.overdue(|state| &mut state.evicting, now_ms.saturating_sub(assume_ms)) {
            self.state.unevict(promise.task);
        }
        for promise in self.overdue(|state| &mut state.holds, now_ms.saturating_sub(hold_ms)) {
            if self.state.ledger.status(promise.task) == Status::Pipelined {
                self.state.model.tasks[promise.task].nominated = None;
                self.state.unassume(promise.task);
            }
        }
        let spared = std::mem::take(&mut self.state.spared).into_iter();
        let (over, rest): (Vec<_>, Vec<_>) = spared.partition(|promise| spared_until(&self.state, promise) <= now_ms);
        self.state.spared = rest;
        for promise in over {
            let record = &mut self.state.model.tasks[promise.task];
            if record.uid == promise.uid {
                record.spared = false;
                self.state.ease();
            }
        }
        let (due, rest): (Vec<_>, Vec<_>) = std::mem::take(&mut self.state.retries)
            .into_iter()
            .partition(|&job| self.state.model.jobs[job].retry_at_ms <= now_ms);
        self.state.retries = rest;
        for job in due {
            self.state.mark(job);
            self.state.changed = true;
        }
    }

    /// Drops the confirmed ones of a list of promises, and takes out those that were made before a time.
    fn overdue(&mut self, list: impl Fn(&mut State) -> &mut Vec<Promise>, before_ms: i64) -> Vec<Promise> {
        let promises = std::mem::take(list(&mut self.state));
        let open = promises.into_iter().filter(|promise| self.is_open(promise));
        let (overdue, young): (Vec<_>, Vec<_>) = open.partition(|promise| promise.since_ms <= before_ms);
        *list(&mut self.state) = young;
        overdue
    }
}

/// Until when a pod is left in peace.
fn spared_until(state: &State, promise: &Promise) -> i64 {
    let refusals = state.model.tasks[promise.task].refusals.saturating_sub(1);
    promise
        .since_ms
        .saturating_add(SPARE_MS << refusals.min(SPARE_DOUBLINGS))
}

/// What queues have that they only wait for.
fn awaited(state: &State) -> FxHashMap<QueueId, Vec<(DimId, i64)>> {
    let mut awaited: FxHashMap<QueueId, Vec<(DimId, i64)>> = FxHashMap::default();
    for hold in &state.holds {
        let task = &state.model.tasks[hold.task];
        if state.ledger.status(hold.task) != Status::Pipelined || !task.job.is_some() {
            continue;
        }
        let request = state.model.classes.request(task.class);
        for &queue in state.model.chain(state.model.jobs[task.job].queue) {
            let less = request.iter().map(|(dim, amount)| (dim, -amount));
            awaited.entry(queue).or_default().extend(less);
        }
    }
    awaited
}

/// Brings the list of waiting groups up to date. What is known already is no news.
fn merge(waiting: &mut Arc<WaitingList>, news: BTreeMap<Arc<str>, Option<Arc<Waiting>>>) {
    for (key, new) in news {
        if waiting.get(&key) != new.as_ref() {
            Arc::make_mut(waiting).set(&key, new);
        }
    }
}

/// The account of every queue, by name.
fn queue_states(state: &State, hooks: &Hooks) -> Vec<QueueState> {
    let queues = &state.model.queues;
    let awaited = awaited(state);
    let mut states: Vec<QueueState> = queues
        .ids()
        .filter(|&queue| queues[queue].present)
        .map(|queue| {
            let report = hooks.queue_report(state, queue).unwrap_or_default();
            let dims = &state.model.dims;
            let charged = state.ledger.queue_allocated().row(queue.index());
            let waits_for = awaited.get(&queue).into_iter().flatten().copied();
            let allocated = Amounts::from_pairs(charged.iter().chain(waits_for)).non_zero();
            QueueState {
                name: queues.name(queue).clone(),
                allocated: dims.resources(&allocated),
                deserved: dims.resources(&report.deserved),
                share: report.share,
            }
        })
        .collect();
    states.sort_by(|a, b| a.name.cmp(&b.name));
    states
}
