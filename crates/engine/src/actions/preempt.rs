//! `preempt`: a more important job takes room from less important ones of its queue; where queues are a tree, then from
//! queues near by that have more than they deserve.

use std::cmp::Reverse;

use serde_json::{Map, Value};

use super::Cycle;
use super::hunt::{Hunt, Kind, Stage};
use super::serve::Effort;
use super::victims::Evicted;
use crate::ledger::Status;
use crate::model::{JobId, NodeId, TaskId};
use crate::plugin::{Claim, Means, Want};

/// How many nodes are looked at before the cheapest is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DryRun {
    percentage: i64,
    least: i64,
    most: i64,
}

impl DryRun {
    /// From the action's arguments; none: the best node is cleared, not the cheapest.
    pub(super) fn of(arguments: Option<&Map<String, Value>>) -> Option<DryRun> {
        let arguments = arguments?;
        let on = arguments.get("enableTopologyAwarePreemption")?;
        let on = on.as_bool().or_else(|| on.as_str()?.parse().ok())?;
        let number = |key: &str, default: i64| arguments.get(key).and_then(Value::as_i64).unwrap_or(default);
        on.then(|| DryRun {
            percentage: number("minCandidateNodesPercentage", 10).clamp(0, 100),
            least: number("minCandidateNodesAbsolute", 1).max(1),
            most: number("maxCandidateNodesAbsolute", 100).max(1),
        })
    }

    fn candidates(self, nodes: usize) -> usize {
        let nodes = i64::try_from(nodes).unwrap_or(i64::MAX);
        let wanted = nodes.saturating_mul(self.percentage) / 100;
        let wanted = wanted.max(self.least).min(self.most).min(nodes);
        usize::try_from(wanted).unwrap_or(0)
    }
}

/// What clearing a node costs, the cheaper the less: the most important victim, all of them together, how many, and how
/// long the most important ones have been running (what began last has least to lose).
type Cost = (i32, i64, usize, Reverse<i64>);

impl Cycle<'_> {
    /// Queue by queue, all starving jobs of each; then pods that may take the place of less important ones of their own
    /// job.
    pub(super) fn preempt(&mut self) {
        let mut hunt = self.hunt();
        self.dry_run = DryRun::of(self.conf.configurations.get("preempt"));
        let mut line = self.starving_line();
        let mut still: Vec<JobId> = Vec::new();
        while let Some(queue) = self.next_queue(&mut line) {
            let Some(job) = self.next_job(&mut line, queue) else {
                continue;
            };
            let served = self.serve(&mut hunt, job, Means::Preempt);
            self.follow(&mut line, queue);
            if served {
                self.call_again(&mut line, queue);
            } else {
                still.push(job);
            }
            self.requeue(&mut line, queue);
        }
        for job in still {
            let counts = self.state.ledger.counts(job);
            if counts.of(Status::Running) + counts.of(Status::Bound) > 0 {
                self.swap_within(&mut hunt, job);
            }
        }
        self.dry_run = None;
    }

    /// Pods of a starving job take the places of less important pods of the same job, each for itself.
    fn swap_within(&mut self, hunt: &mut Hunt, job: JobId) {
        let mut whole = Effort::default();
        for task in self.claimants(job) {
            let claim = self.claim(Means::Preempt, task);
            if !self.may_claim(&claim) || !self.hooks.job_starving(self.state, job) {
                break;
            }
            let kind = Kind {
                job,
                ..Kind::of(self.state, &claim)
            };
            let stage = Stage {
                own_job: true,
                reach: 0,
                spare: false,
            };
            let want = self.hooks.want(self.state, task);
            let Some((node, evicted)) = self.clear_any(hunt, &claim, &(kind, stage, want)) else {
                break;
            };
            self.pipeline(task, node, evicted, &mut whole);
        }
        if !whole.evicted.is_empty() {
            hunt.decided();
            self.decide(job, whole, Means::Preempt);
        }
    }

    /// Looks at some of the nodes that can be cleared, and clears the cheapest.
    pub(super) fn clear_cheapest(
        &mut self,
        hunt: &mut Hunt,
        claim: &Claim,
        at: &(Kind, Stage, Want),
    ) -> Option<(NodeId, Evicted)> {
        let enough = self.dry_run?.candidates(self.state.nodes_in_order().len());
        let mut best: Option<(Cost, NodeId)> = None;
        let mut found = 0;
        for node in hunt.all(self.state, self.hooks, at) {
            if found >= enough {
                break;
            }
            let (checkpoint, before) = (self.state.checkpoint(), self.state.ledger.journal.last_touch(node));
            let admits = self.hooks.blocker(self.state, at.2.shape, node).is_none();
            let evicted = if admits {
                self.clear(hunt, claim, at.1, node)
            } else {
                None
            };
            let Some(evicted) = evicted else {
                hunt.close(self.state, at, node);
                continue;
            };
            let cost = self.cost(&evicted);
            self.state.rollback(checkpoint);
            hunt.was_tried(self.state, node, before);
            found += 1;
            if best.is_none_or(|(least, _)| cost < least) {
                best = Some((cost, node));
            }
        }
        let (_, node) = best?;
        Some((node, self.clear(hunt, claim, at.1, node)?))
    }

    fn cost(&self, evicted: &[TaskId]) -> Cost {
        let tasks = evicted.iter().map(|&task| &self.state.model.tasks[task]);
        let top = tasks.clone().map(|task| task.priority).max().unwrap_or(i32::MIN);
        let sum = tasks.clone().map(|task| i64::from(task.priority) + (1 << 31)).sum();
        let started = tasks.filter(|task| task.priority == top).map(|task| task.started_ms);
        (top, sum, evicted.len(), Reverse(started.min().unwrap_or(0)))
    }
}
