//! The auditor with a memory.

use std::collections::{BTreeMap, BTreeSet};

use crate::locks::{self, LockWatch};
use crate::read::{meta, node_of};
use crate::{Finding, Invariant, Objects, Rules, gang, job, node, queue, queue_state, reservation};

/// Watches a world by successive sets of objects.
///
/// [`observe`](Self::observe) checks what must hold at every moment, [`settled`](Self::settled)
/// also what must hold once nothing more happens by itself.
#[derive(Clone, Debug, Default)]
pub struct Auditor {
    /// Node of each pod that was bound, by pod uid.
    bound: BTreeMap<String, String>,
    /// Groups that have been seen, by uid.
    groups: BTreeSet<String>,
    /// Those of them that had all they needed once.
    whole: BTreeSet<String>,
    /// Since when gangs are partial.
    partial_since: gang::PartialSince,
    /// Which nodes queues held.
    locks: LockWatch,
    /// Whether nodes can be locked; none: it is not known.
    locking: Option<bool>,
}

impl Auditor {
    /// An auditor that knows the scheduler's configuration, and so whether nodes can be locked for queues.
    pub fn under(rules: &Rules) -> Self {
        Self {
            locking: Some(rules.locks()),
            ..Self::default()
        }
    }

    /// What is wrong with the locks of queues now: a part of [`observe`](Self::observe), for when only queues changed.
    pub fn locks(&mut self, objects: &Objects) -> Vec<Finding> {
        let mut findings = Vec::new();
        self.locks.observe(objects, &mut findings);
        findings.sort();
        findings
    }

    /// What is wrong now.
    pub fn observe(&mut self, objects: &Objects) -> Vec<Finding> {
        let mut findings = Vec::new();
        let bound_to = self.binds(objects, &mut findings);
        node::over_commit(objects, &bound_to, &mut findings);
        job::doubled(objects, &mut findings);
        gang::remember(objects, &mut self.groups, &mut self.whole);
        self.locks.observe(objects, &mut findings);
        findings.sort();
        findings
    }

    /// What of gangs is wrong in a world at rest: of [`settled`](Self::settled) what needs no memory of single pods.
    pub fn gangs(&mut self, objects: &Objects) -> Vec<Finding> {
        let mut findings = Vec::new();
        gang::remember(objects, &mut self.groups, &mut self.whole);
        gang::partial(objects, &self.whole, &mut findings);
        findings.sort();
        findings
    }

    /// Returns the gangs that hold room without being whole, and have done so for longer than `limit_ms`: whoever binds
    /// gangs completes or releases them. To be called whenever time passes.
    pub fn overdue_gangs(&mut self, objects: &Objects, now_ms: i64, limit_ms: i64) -> Vec<Finding> {
        self.partial_since.overdue(objects, &self.whole, now_ms, limit_ms)
    }

    /// Lets the time of partial gangs begin anew: the scheduler was restarted.
    pub fn restart_gang_clock(&mut self) {
        self.partial_since = gang::PartialSince::default();
    }

    /// What is wrong in a world at rest.
    pub fn settled(&mut self, objects: &Objects) -> Vec<Finding> {
        let mut findings = self.observe(objects);
        gang::partial(objects, &self.whole, &mut findings);
        job::orphaned_or_lost(objects, &mut findings);
        queue::status(objects, &mut findings);
        queue_state::settled(objects, &mut findings);
        locks::settled(objects, &mut findings);
        reservation::settled(objects, self.locking, &mut findings);
        findings.sort();
        findings.dedup();
        findings
    }

    /// I7: a bind is final. Returns the nodes that got a pod since the last look.
    fn binds(&mut self, objects: &Objects, findings: &mut Vec<Finding>) -> BTreeSet<String> {
        let mut now = BTreeMap::new();
        let mut fresh = BTreeSet::new();
        for pod in &objects.pods {
            let (uid, node) = (meta(pod, "uid"), node_of(pod));
            let mut found = |message: String| findings.push(Finding::new(Invariant::OneBind, "Pod", pod, message));
            match self.bound.get(uid) {
                Some(before) if before != node => {
                    found(format!(
                        "was bound to node {before:?} and is now on {node:?}: a bind is final"
                    ));
                }
                None if !node.is_empty() => drop(fresh.insert(node.to_owned())),
                _ => {}
            }
            if !node.is_empty() && now.insert(uid.to_owned(), node.to_owned()).is_some() {
                found(format!("shares its uid {uid} with another pod"));
            }
        }
        self.bound = now;
        fresh
    }
}
