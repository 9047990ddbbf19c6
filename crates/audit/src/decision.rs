//! What a scheduler decided in one cycle, judged against the world that it saw.

mod books;
mod deserved;
mod evict;
mod fit;
mod gang;
mod limits;
mod locks;
mod near;
mod place;
mod report;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{Finding, Rules, World};
use books::Books;

/// A pod and its node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placement {
    /// `namespace/name`.
    pub pod: String,
    /// The uid of the pod that is meant; empty: whichever there is.
    pub uid: String,
    /// The node.
    pub node: String,
}

/// A pod that has to go.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Eviction {
    /// `namespace/name`.
    pub pod: String,
    /// The uid of the pod that is meant; empty: whichever there is.
    pub uid: String,
    /// What for.
    pub purpose: Purpose,
    /// The pod group that gets the room: `namespace/name`; for a reservation the queue. Empty where the purpose is neither.
    pub beneficiary: String,
}

/// What an eviction is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Purpose {
    /// A more important group of the same queue, or of one near it.
    Preempt,
    /// A queue that gets back what it deserves.
    Reclaim,
    /// As `Preempt`, by whole gangs.
    GangPreempt,
    /// As `Reclaim`, by whole gangs.
    GangReclaim,
    /// A guaranteed reservation of nodes.
    Reservation,
    /// A policy that moves pods around.
    Shuffle,
}

impl Purpose {
    /// Another queue's entitlement is the reason.
    pub(crate) fn is_reclaim(self) -> bool {
        matches!(self, Purpose::Reclaim | Purpose::GangReclaim)
    }

    /// Whole gangs may go.
    pub(crate) fn by_gangs(self) -> bool {
        matches!(self, Purpose::GangPreempt | Purpose::GangReclaim | Purpose::Reservation)
    }

    /// The action that asks for it, as a configuration names it; none: it is not an action's doing.
    pub(crate) fn action(self) -> Option<&'static str> {
        match self {
            Purpose::Preempt => Some("preempt"),
            Purpose::Reclaim => Some("reclaim"),
            Purpose::GangPreempt => Some("gangpreempt"),
            Purpose::GangReclaim => Some("gangreclaim"),
            Purpose::Shuffle => Some("shuffle"),
            Purpose::Reservation => None,
        }
    }

    /// It makes room for a placement.
    pub(crate) fn places(self) -> bool {
        !matches!(self, Purpose::Reservation | Purpose::Shuffle)
    }
}

/// What the scheduler says about a queue: amounts are thousandths of a cpu, and whole units of everything else.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueReport {
    /// What it has, with everything below it, once the decision is carried out.
    pub allocated: BTreeMap<String, i64>,
    /// What it deserves; none: nothing is said.
    pub deserved: Option<BTreeMap<String, i64>>,
}

/// What a scheduler decided in one cycle, in the order in which it decided.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decision {
    /// Pods that go to a node now.
    pub binds: Vec<Placement>,
    /// Pods that will go to a node once others have left it.
    pub pipelined: Vec<Placement>,
    /// Pods that have to go.
    pub evictions: Vec<Eviction>,
    /// What is said about queues, by name; empty: nothing.
    pub queues: BTreeMap<String, QueueReport>,
}

/// Everything that is wrong with a decision.
pub fn judge(world: &World, rules: &Rules, decision: &Decision) -> Vec<Finding> {
    let mut findings = Vec::new();
    let books = Books::open(world, decision, &mut findings);
    fit::check(&books, &mut findings);
    gang::check(&books, rules, &mut findings);
    place::check(&books, rules, &mut findings);
    near::check(&books, rules, &mut findings);
    let shares = deserved::shares(&books, rules);
    limits::check(&books, rules, &shares, &mut findings);
    locks::check(&books, rules, &mut findings);
    evict::check(&books, rules, &shares, &mut findings);
    report::check(&books, &shares, decision, &mut findings);
    findings.sort();
    findings
}
