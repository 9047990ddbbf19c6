//! The actions of a scheduling cycle.

use std::fmt;
use std::str::FromStr;

/// An action of the scheduling cycle, as the configuration's `actions` lists them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SchedulingAction {
    /// Evicts pods of others from nodes that are locked for a queue, until its guarantee is met.
    Reserve,
    /// Admits pod groups to their queues.
    Enqueue,
    /// Places the pods of admitted groups.
    Allocate,
    /// Places pods without requests, and fills idle room beyond what queues deserve.
    Backfill,
    /// Evicts less important pods of the same queue, or of a near one.
    Preempt,
    /// Evicts pods of queues that have more than they deserve.
    Reclaim,
    /// Preempts for a whole gang, by whole gangs.
    GangPreempt,
    /// Reclaims for a whole gang, by whole gangs.
    GangReclaim,
    /// Evicts pods that a plugin wants elsewhere.
    Shuffle,
}

/// A name that is not that of an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownAction;

impl SchedulingAction {
    /// All actions.
    pub const ALL: [SchedulingAction; 9] = [
        SchedulingAction::Reserve,
        SchedulingAction::Enqueue,
        SchedulingAction::Allocate,
        SchedulingAction::Backfill,
        SchedulingAction::Preempt,
        SchedulingAction::Reclaim,
        SchedulingAction::GangPreempt,
        SchedulingAction::GangReclaim,
        SchedulingAction::Shuffle,
    ];

    /// Returns the name that the configuration uses.
    pub const fn name(self) -> &'static str {
        match self {
            SchedulingAction::Reserve => "reserve",
            SchedulingAction::Enqueue => "enqueue",
            SchedulingAction::Allocate => "allocate",
            SchedulingAction::Backfill => "backfill",
            SchedulingAction::Preempt => "preempt",
            SchedulingAction::Reclaim => "reclaim",
            SchedulingAction::GangPreempt => "gangpreempt",
            SchedulingAction::GangReclaim => "gangreclaim",
            SchedulingAction::Shuffle => "shuffle",
        }
    }
}

impl fmt::Display for SchedulingAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for SchedulingAction {
    type Err = UnknownAction;

    fn from_str(name: &str) -> Result<Self, UnknownAction> {
        let mut all = SchedulingAction::ALL.into_iter();
        all.find(|action| action.name() == name).ok_or(UnknownAction)
    }
}
