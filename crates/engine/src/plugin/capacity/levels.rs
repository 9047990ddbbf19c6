//! What queues are due and may have, level by level from the top.

use super::super::shares::{self, Shares, UNLIMITED, guarantee, kept, real_capability};
use super::tree::Tree;
use crate::model::{Id, QueueId, ROOT};
use crate::resources::{DimId, PODS};
use crate::session::State;

/// The tables of a cycle.
pub(super) fn share_out(state: &State, tree: &Tree, from_weight: bool) -> Shares {
    let mut shares = Shares::new(state, tree.root().is_none());
    let all: Vec<QueueId> = shares::present_queues(state).collect();
    match tree.root() {
        None => {
            shares::set_flat_limits(&mut shares, state);
            let whole = |dim| from_weight.then(|| state.ledger.total_of(dim));
            let is_root = |queue: QueueId| **state.model.queues.name(queue) == *ROOT;
            let alone: Vec<QueueId> = all.into_iter().filter(|&queue| !is_root(queue)).collect();
            set_dues(&mut shares, state, &alone, whole, true);
        }
        Some(root) => {
            for dim in shares.dims() {
                let total = state.ledger.total_of(dim);
                shares.set_due(root, dim, total, total as f64);
                shares.limit.set(root.index(), dim, total);
            }
            let mut parents = vec![root];
            while let Some(parent) = parents.pop() {
                descend(&mut shares, state, tree, parent, from_weight);
                parents.extend(tree.children(parent).iter().filter(|&&child| tree.is_inner(child)));
            }
            // Whoever hangs on nothing waits anyway, but keeps what it says that it is due.
            let chain = |queue: QueueId| state.model.chain(queue).last().copied();
            let adrift: Vec<QueueId> = all.into_iter().filter(|&queue| chain(queue) != Some(root)).collect();
            set_dues(&mut shares, state, &adrift, |_| None, false);
        }
    }
    shares
}

/// What is kept for a queue and all queues below it: what a parent does not say is what its children say together.
fn kept_within(state: &State, tree: &Tree, queue: QueueId, dim: DimId) -> i64 {
    let own = kept(state, queue, dim, state.locked_below());
    let below = tree.children(queue).iter();
    let below = below.map(|&child| kept_within(state, tree, child, dim));
    own.max(below.fold(0, i64::saturating_add))
}

/// The children of a queue: what they are due of its due, and their limits from its own.
fn descend(shares: &mut Shares, state: &State, tree: &Tree, parent: QueueId, from_weight: bool) {
    let children = tree.children(parent);
    let due: Vec<Option<i64>> = shares.dims().map(|dim| shares.due(parent, dim)).collect();
    let whole = |dim: DimId| due[dim.index()].filter(|_| from_weight);
    set_dues(shares, state, children, whole, false);
    for dim in shares.dims() {
        let kept = |child: QueueId| kept_within(state, tree, child, dim);
        let all = children
            .iter()
            .fold(0, |sum: i64, &child| sum.saturating_add(kept(child)));
        let above = (
            shares.limit.get(parent.index(), dim),
            shares.admit.get(parent.index(), dim),
        );
        for &child in children {
            let own = shares::capability(state, child, dim);
            let limit = |above: i64| {
                let most = own.unwrap_or(UNLIMITED).min(above);
                let most = (most != UNLIMITED).then_some(most);
                real_capability(above, all, kept(child), most)
            };
            shares.limit.set(child.index(), dim, limit(above.0));
            shares.admit.set(child.index(), dim, limit(above.1));
        }
    }
}

/// What siblings are due: what they say, at least their guarantee; where they say nothing, by weight what the others
/// leave of the whole, if there is one. `capped`: at most what they may have.
fn set_dues(
    shares: &mut Shares,
    state: &State,
    siblings: &[QueueId],
    whole: impl Fn(DimId) -> Option<i64>,
    capped: bool,
) {
    let queues = &state.model.queues;
    for dim in shares.dims() {
        let said = |queue: QueueId| queues[queue].deserved.get(dim);
        let free = whole(dim).filter(|_| dim != PODS).map(|whole| {
            let taken = siblings.iter().filter_map(|&queue| said(queue));
            whole.saturating_sub(taken.fold(0, i64::saturating_add)).max(0)
        });
        let silent = siblings.iter().filter(|&&queue| said(queue).is_none());
        let weights: i128 = silent.map(|&queue| i128::from(queues[queue].weight)).sum();
        for &queue in siblings {
            let by_weight = |free: i64| {
                let part = i128::from(free) * i128::from(queues[queue].weight) / weights.max(1);
                let part = i64::try_from(part).unwrap_or(i64::MAX);
                let part = part.max(guarantee(state, queue, dim));
                shares::capability(state, queue, dim).map_or(part, |most| part.min(most))
            };
            let said = said(queue).or_else(|| free.map(by_weight));
            let guaranteed = queues[queue].guarantee.get(dim);
            let limit = shares.limit.get(queue.index(), dim);
            let said = said.map(|said| if capped { said.min(limit) } else { said });
            if let Some(due) = said.max(guaranteed) {
                shares.set_due(queue, dim, due, due as f64);
            }
        }
    }
}
