//! What queues are due and what they may have at most: the arithmetic that `proportion` and `capacity` have in common.
//!
//! The tables are worked out when a cycle opens; what queues have is read from the ledger each time.

mod losers;

use smallvec::SmallVec;

use basalt_api::reason::Code;

pub(super) use self::losers::{Losers, Standing};
use super::{QueueReport, Refusal, Vote};
use crate::model::{Id, Job, JobId, QueueId, TaskId};
use crate::mutants::mutant;
use crate::resources::{Amounts, Columns, DimId, PODS};
use crate::session::State;

/// A due that is not set.
const UNSET: i64 = -1;
/// No limit.
pub(super) const UNLIMITED: i64 = i64::MAX;

/// The tables, one row per queue.
#[derive(Default, PartialEq)]
pub(super) struct Shares {
    /// What a queue is due; [`UNSET`] where nobody says.
    deserved: Columns,
    /// What it may have at most.
    pub(super) limit: Columns,
    /// What may be let in at most, with what it has.
    pub(super) admit: Columns,
    /// By queue, where queues stand side by side: those right below it, which the ledger counts with it.
    below: Vec<SmallVec<[QueueId; 1]>>,
    /// By queue: its due in all dimensions where that is not nothing, to divide by.
    ratios: Vec<SmallVec<[(DimId, f64); 4]>>,
    dims: usize,
    flat: bool,
}

impl Shares {
    /// Empty tables of the right size: nothing is due, everything is allowed.
    pub(super) fn new(state: &State, flat: bool) -> Self {
        let (rows, dims) = (state.model.queues.slots(), state.model.dims.count());
        let filled = |value| {
            let mut columns = Columns::default();
            columns.reserve(rows, dims);
            columns.fill(value);
            columns
        };
        let mut below = vec![SmallVec::new(); rows];
        for queue in state.model.queues.ids().filter(|_| flat) {
            if let Some(parent) = state.model.queues[queue].parent {
                below[parent.index()].push(queue);
            }
        }
        Shares {
            below,
            deserved: filled(UNSET),
            limit: filled(UNLIMITED),
            admit: filled(UNLIMITED),
            ratios: vec![SmallVec::new(); rows],
            dims,
            flat,
        }
    }

    /// How many queues there is room for.
    pub(super) fn rows(&self) -> usize {
        self.ratios.len()
    }

    /// Whether queues stand side by side.
    pub(super) fn is_flat(&self) -> bool {
        self.flat
    }

    /// A queue's account in one dimension: with all below it in a tree, without them side by side.
    pub(super) fn of(&self, accounts: &Columns, queue: QueueId, dim: DimId) -> i64 {
        let below = self.below[queue.index()].iter();
        let others: i64 = below.map(|below| accounts.get(below.index(), dim)).sum();
        accounts.get(queue.index(), dim) - others
    }

    /// What a queue has.
    pub(super) fn has(&self, state: &State, queue: QueueId, dim: DimId) -> i64 {
        self.of(state.ledger.queue_allocated(), queue, dim)
    }

    /// The first dimension in which a queue would pass its limit with this much more.
    pub(super) fn over_limit(&self, state: &State, queue: QueueId, more: &Amounts) -> Option<Excess> {
        self.excess(state, &self.limit, queue, more)
    }

    /// The first dimension in which a queue would have more than its due with this much more.
    pub(super) fn over_due(&self, state: &State, queue: QueueId, more: &Amounts) -> Option<Excess> {
        self.excess(state, &self.deserved, queue, more)
    }

    fn excess(&self, state: &State, limit: &Columns, queue: QueueId, more: &Amounts) -> Option<Excess> {
        asked(more).find_map(|(dim, amount)| {
            let need = self.has(state, queue, dim).saturating_add(amount);
            let have = limit.get(queue.index(), dim);
            (need > have).then_some(Excess { dim, need, have })
        })
    }

    /// The same for letting in: what is let in already counts too, and what is beyond a minimum does not.
    pub(super) fn over_entry(&self, state: &State, queue: QueueId, more: &Amounts) -> Option<Excess> {
        let ledger = &state.ledger;
        asked(more).find_map(|(dim, amount)| {
            let taken = self.has(state, queue, dim) + self.of(ledger.queue_inqueue(), queue, dim)
                - self.of(ledger.queue_elastic(), queue, dim);
            let (need, have) = (taken.saturating_add(amount), self.admit.get(queue.index(), dim));
            (need > have).then_some(Excess { dim, need, have })
        })
    }

    /// All dimensions.
    pub(super) fn dims(&self) -> impl Iterator<Item = DimId> + use<> {
        (0..self.dims).map(|dim| DimId(dim as u16))
    }

    /// What a queue is due, if anybody says.
    pub(super) fn due(&self, queue: QueueId, dim: DimId) -> Option<i64> {
        Some(self.deserved.get(queue.index(), dim)).filter(|&due| due != UNSET)
    }

    /// Sets what a queue is due; `exact`: the same before it was rounded down.
    pub(super) fn set_due(&mut self, queue: QueueId, dim: DimId, due: i64, exact: f64) {
        let due = if mutant!(MiscountDeserved) { due / 2 } else { due };
        self.deserved.set(queue.index(), dim, due.max(0));
        if exact > 0.0 {
            self.ratios[queue.index()].push((dim, exact));
        }
    }

    /// Whether a queue is due anything but places for pods.
    pub(super) fn has_due(&self, queue: QueueId) -> bool {
        self.ratios[queue.index()].iter().any(|&(dim, _)| dim != PODS)
    }

    /// The largest part of its due that a queue has; none where it is due nothing.
    pub(super) fn share(&self, state: &State, queue: QueueId) -> Option<f64> {
        let part = |&(dim, due): &(DimId, f64)| self.has(state, queue, dim) as f64 / due;
        self.ratios[queue.index()].iter().map(part).reduce(f64::max)
    }

    /// What to tell about a queue.
    pub(super) fn report(&self, state: &State, queue: QueueId, share: f64) -> Option<QueueReport> {
        let due = |dim| self.due(queue, dim).filter(|&due| due > 0).map(|due| (dim, due));
        state.model.queues[queue].present.then(|| QueueReport {
            deserved: Amounts::from_pairs(self.dims().filter_map(due)),
            share,
        })
    }

    /// Whether, with a job's declared minimum, its queue stays within its due; what is let in already counts.
    pub(super) fn is_due(&self, state: &State, job: JobId) -> bool {
        let Job {
            queue, min_resources, ..
        } = &state.model.jobs[job];
        min_resources.iter().flat_map(asked).all(|(dim, need)| {
            let taken = self.has(state, *queue, dim) + self.of(state.ledger.queue_inqueue(), *queue, dim);
            self.due(*queue, dim).is_some_and(|due| taken + need <= due)
        })
    }
}

/// A limit that would be passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Excess {
    pub(super) dim: DimId,
    pub(super) need: i64,
    pub(super) have: i64,
}

impl Excess {
    /// As a refusal.
    pub(super) fn refusal(self, code: Code, queue: QueueId) -> Refusal {
        Refusal {
            dim: Some(self.dim),
            need: self.need,
            have: self.have,
            ..Refusal::of(code, queue)
        }
    }
}

/// The dimensions that are asked for; places for pods are the node's affair.
pub(super) fn asked(amounts: &Amounts) -> impl Iterator<Item = (DimId, i64)> + '_ {
    amounts.iter().filter(|&(dim, amount)| dim != PODS && amount > 0)
}

/// What several pods ask for together.
pub(super) fn requests(state: &State, tasks: &[TaskId]) -> Amounts {
    let model = &state.model;
    let request = |&task: &TaskId| model.classes.request(model.tasks[task].class).iter();
    Amounts::from_pairs(tasks.iter().flat_map(request))
}

/// A queue's own upper limit in one dimension, as declared: what is not declared is not limited, zero is none.
pub(super) fn capability(state: &State, queue: QueueId, dim: DimId) -> Option<i64> {
    let most = state.model.queues[queue].capability.get(dim);
    most.filter(|_| !mutant!(IgnoreCapability))
}

/// A queue's guarantee in one dimension.
pub(super) fn guarantee(state: &State, queue: QueueId, dim: DimId) -> i64 {
    state.model.queues[queue].guarantee.get(dim).unwrap_or(0)
}

/// What is kept for a queue in one dimension: its guarantee or, where that is more, what the nodes offer that are locked
/// for it.
pub(super) fn kept(state: &State, queue: QueueId, dim: DimId, locked: &Columns) -> i64 {
    guarantee(state, queue, dim).max(locked.get(queue.index(), dim))
}

/// What is left of a whole for a queue when its siblings keep what is kept for them, up to its own capability. `kept` is
/// for all of them together, `own` what of it the queue may use.
pub(super) fn real_capability(whole: i64, kept: i64, own: i64, most: Option<i64>) -> i64 {
    if whole == UNLIMITED {
        return most.unwrap_or(UNLIMITED);
    }
    let kept = if mutant!(IgnoreGuarantees) { own } else { kept };
    let left = whole.saturating_sub(kept).max(0).saturating_add(own);
    most.map_or(left, |most| left.min(most))
}

/// What of all that is kept a queue that stands alone may use: what is kept for it, and nodes that are locked for queues
/// above it.
fn own_part(state: &State, queue: QueueId, dim: DimId) -> i64 {
    let locked = state.locked_own();
    let above = state.model.chain(queue).iter().skip(1);
    let more = above
        .filter(|&&above| state.model.queues[above].present)
        .map(|&above| kept(state, above, dim, locked) - guarantee(state, above, dim));
    more.fold(kept(state, queue, dim, locked), i64::saturating_add)
}

/// Why a queue that stands alone may not have more: its own limit, others' guarantees, or the size of the cluster.
pub(super) fn flat_code(state: &State, queue: QueueId, excess: Excess) -> Code {
    if capability(state, queue, excess.dim).is_some_and(|most| excess.need > most) {
        Code::QueueOverCapability
    } else if excess.need > state.ledger.total_of(excess.dim) {
        Code::NotEnoughResources
    } else {
        Code::ReservedForOthers
    }
}

/// The limits of queues that stand alone: the cluster, less what is guaranteed to others.
pub(super) fn set_flat_limits(shares: &mut Shares, state: &State) {
    let present: Vec<QueueId> = present_queues(state).collect();
    for dim in shares.dims() {
        let all = present.iter().map(|&queue| kept(state, queue, dim, state.locked_own()));
        let all = all.fold(0, i64::saturating_add);
        let total = state.ledger.total_of(dim);
        for &queue in &present {
            let most = capability(state, queue, dim);
            let limit = real_capability(total, all, own_part(state, queue, dim), most);
            shares.limit.set(queue.index(), dim, limit);
            shares.admit.set(queue.index(), dim, limit);
        }
    }
}

/// Queues that exist.
pub(super) fn present_queues(state: &State) -> impl Iterator<Item = QueueId> + '_ {
    let queues = &state.model.queues;
    queues.ids().filter(|&queue| queues[queue].present)
}

/// A vote on a job by the limits of its queue, where that stands alone.
pub(super) fn flat_vote(shares: &Shares, state: &State, job: JobId) -> Vote {
    let record = &state.model.jobs[job];
    let Some(need) = &record.min_resources else {
        return Vote::Permit;
    };
    match shares.over_entry(state, record.queue, need) {
        None => Vote::Permit,
        Some(excess) => Vote::Reject(excess.refusal(flat_code(state, record.queue, excess), record.queue)),
    }
}

/// Everything about queues and the cluster that dues and limits follow from, to tell whether it changed.
pub(super) fn inputs(state: &State, requests: bool) -> Vec<i64> {
    let sizes = [state.model.dims.count(), state.model.queues.slots()];
    let mut inputs: Vec<i64> = sizes.into_iter().filter_map(|size| i64::try_from(size).ok()).collect();
    let mut add = |amounts: &Amounts| {
        inputs.push(i64::MIN);
        inputs.extend(amounts.iter().flat_map(|(dim, amount)| [i64::from(dim.0), amount]));
    };
    add(&state.ledger.total());
    for queue in present_queues(state) {
        let record = &state.model.queues[queue];
        for amounts in [&record.deserved, &record.guarantee, &record.capability] {
            add(amounts);
        }
        add(&state.locked_own().row(queue.index()));
        if requests {
            let ledger = &state.ledger;
            for columns in [
                ledger.queue_allocated(),
                ledger.queue_waiting(),
                ledger.queue_expected(),
            ] {
                add(&columns.row(queue.index()));
            }
            add(&Amounts::from_pairs([(DimId(0), i64::from(ledger.queue_jobs(queue)))]));
        }
        let parent = record.parent.map_or(-1, |parent| i64::from(parent.0));
        add(&Amounts::from_pairs([
            (DimId(0), i64::from(queue.0)),
            (DimId(1), i64::from(record.weight)),
            (DimId(2), parent),
            (DimId(3), record.created_ms),
        ]));
    }
    inputs
}
