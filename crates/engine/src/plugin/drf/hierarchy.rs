//! drf's own tree of queues, by annotation (`root/a/b` with weights `1/2/3`); jobs are its leaves.
//!
//! A branch whose leaves use different resources is rescaled: what its unsaturated children have counts only up to the
//! smallest of their shares. A leaf is saturated when it has all that it asks for in some dimension, or wants one that
//! the cluster has no more of.

use std::cmp::Ordering;

use crate::model::{Id, JobId, QueueId, TaskId};
use crate::resources::DimId;
use crate::session::State;

/// A change to try: a pod comes to a job (1), or leaves it (−1).
pub(super) type Change = (JobId, TaskId, i64);

#[derive(Clone, Debug)]
struct Node {
    name: String,
    weight: f64,
    children: Vec<usize>,
    /// What it counts for, by dimension of the total.
    has: Vec<f64>,
    share: f64,
    saturated: bool,
}

impl Node {
    fn new(name: &str, weight: f64) -> Self {
        Node {
            name: name.to_owned(),
            weight,
            children: Vec::new(),
            has: Vec::new(),
            share: 0.0,
            saturated: true,
        }
    }
}

/// The tree, worked out for one state.
#[derive(Clone, Debug)]
pub(super) struct Tree {
    /// The first is the root; children come after their parents, jobs last.
    nodes: Vec<Node>,
}

/// A queue's path below the root, with weights; one without annotations hangs right below the root.
fn path(state: &State, queue: QueueId) -> Vec<(&str, f64)> {
    let Some((path, weights)) = &state.model.queues[queue].hierarchy else {
        return Vec::new();
    };
    let weight = |text: &str| text.trim().parse().ok().filter(|weight: &f64| *weight >= 1.0);
    let mut weights = weights.split('/').map(|text| weight(text).unwrap_or(1.0));
    let steps = path.split('/').map(|name| (name, weights.next().unwrap_or(1.0)));
    steps.skip(1).collect()
}

impl Tree {
    pub(super) fn of(state: &State, total: &[(DimId, f64)], changes: &[Change]) -> Tree {
        let mut tree = Tree {
            nodes: vec![Node::new("root", 1.0)],
        };
        let jobs = &state.model.jobs;
        let served = |&job: &JobId| jobs[job].present && state.model.queues[jobs[job].queue].present;
        let mut leaves: Vec<JobId> = jobs.ids().filter(served).collect();
        // Floating-point sums depend on their order, so that must not depend on history.
        leaves.sort_by(|&a, &b| jobs.name(a).cmp(jobs.name(b)));
        let parents: Vec<usize> = leaves
            .iter()
            .map(|&job| tree.grow(&path(state, jobs[job].queue)))
            .collect();
        let inner = tree.nodes.len();
        let scarce: Vec<bool> = total
            .iter()
            .map(|&(dim, total)| {
                let idle = state.ledger.cluster_idle(dim) - shift(state, changes, None, dim);
                total - idle as f64 >= total
            })
            .collect();
        for (&job, parent) in leaves.iter().zip(parents) {
            let leaf = leaf(state, total, &scarce, job, changes);
            tree.nodes.push(leaf);
            let at = tree.nodes.len() - 1;
            tree.nodes[parent].children.push(at);
        }
        for at in (0..inner).rev() {
            tree.sum_up(at, total);
        }
        tree
    }

    /// The node at the end of a path, made where it is missing.
    fn grow(&mut self, path: &[(&str, f64)]) -> usize {
        let mut at = 0;
        for &(name, weight) in path {
            at = self.child(at, name).unwrap_or_else(|| {
                self.nodes.push(Node::new(name, weight));
                let new = self.nodes.len() - 1;
                self.nodes[at].children.push(new);
                new
            });
        }
        at
    }

    fn child(&self, at: usize, name: &str) -> Option<usize> {
        let mut children = self.nodes[at].children.iter().copied();
        children.find(|&child| self.nodes[child].name == name)
    }

    /// What a branch has, given its children.
    fn sum_up(&mut self, at: usize, total: &[(DimId, f64)]) {
        let children: Vec<&Node> = self.nodes[at]
            .children
            .iter()
            .map(|&child| &self.nodes[child])
            .collect();
        let shares = children.iter().filter(|child| child.share > 0.0 && !child.saturated);
        let least = shares.map(|child| child.share).fold(1.0, f64::min);
        let mut has = vec![0.0; total.len()];
        for child in children.iter().filter(|child| child.share > 0.0) {
            let scale = if child.saturated { 1.0 } else { least / child.share };
            for (sum, part) in has.iter_mut().zip(&child.has) {
                *sum += part * scale;
            }
        }
        let saturated = children.iter().all(|child| child.saturated);
        let node = &mut self.nodes[at];
        node.share = dominant(&has, total);
        node.has = has;
        node.saturated = saturated;
    }

    /// Less: `a` comes first. From the root down: who still wants something, then the smaller share by weight.
    pub(super) fn compare(&self, state: &State, a: QueueId, b: QueueId) -> Ordering {
        let (path_a, path_b) = (path(state, a), path(state, b));
        let (mut a, mut b) = (0, 0);
        for (&(name_a, _), &(name_b, _)) in path_a.iter().zip(&path_b) {
            match (self.child(a, name_a), self.child(b, name_b)) {
                (Some(next_a), Some(next_b)) => (a, b) = (next_a, next_b),
                (known_a, known_b) => return known_a.is_some().cmp(&known_b.is_some()),
            }
            let (x, y) = (&self.nodes[a], &self.nodes[b]);
            let by_share = || (x.share / x.weight).total_cmp(&(y.share / y.weight));
            let order = x.saturated.cmp(&y.saturated).then_with(by_share);
            if order.is_ne() {
                return order;
            }
        }
        // A path that ends goes after those that lead on from there, so that the order is one for any three queues.
        path_b.len().cmp(&path_a.len())
    }
}

fn dominant(has: &[f64], total: &[(DimId, f64)]) -> f64 {
    let parts = has.iter().zip(total).map(|(has, (_, total))| has / total);
    parts.fold(0.0, f64::max)
}

/// How much more a job has in one dimension by the changes; no job: all of them.
fn shift(state: &State, changes: &[Change], of: Option<JobId>, dim: DimId) -> i64 {
    let counts = changes.iter().filter(|(job, ..)| of.is_none_or(|of| of == *job));
    let amount = |task: TaskId| state.model.classes.request(state.model.tasks[task].class).get(dim);
    counts.map(|&(_, task, sign)| sign * amount(task).unwrap_or(0)).sum()
}

fn leaf(state: &State, total: &[(DimId, f64)], scarce: &[bool], job: JobId, changes: &[Change]) -> Node {
    let (row, ledger) = (job.index(), &state.ledger);
    let mut node = Node::new("", 1.0);
    node.saturated = false;
    for (at, &(dim, _)) in total.iter().enumerate() {
        let allocated = ledger.job_allocated().get(row, dim);
        let asks = allocated + ledger.job_waiting().get(row, dim);
        let has = allocated + shift(state, changes, Some(job), dim);
        node.saturated |= has > 0 && asks > 0 && (has >= asks || scarce[at]);
        node.has.push(has as f64);
    }
    node.share = dominant(&node.has, total);
    node
}
