//! Planted bugs, one at a time, to see that the auditor finds each of them. Without the feature `mutants` none exists.

/// A bug that can be planted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mutant {
    /// A pod goes to a node whether or not there is room.
    IgnoreRoom,
    /// Half a gang is bound.
    IgnoreMinimum,
    /// The minimum of each task does not count.
    IgnoreTaskMinimum,
    /// Taints do not count.
    IgnoreTaints,
    /// Cordons do not count.
    IgnoreCordon,
    /// Selectors and node affinity do not count.
    IgnoreAffinity,
    /// Host ports do not count.
    IgnorePorts,
    /// Pods that must be apart are not.
    IgnoreAntiAffinity,
    /// Pods that must be together are not.
    IgnorePodAffinity,
    /// Pods join others that are on their way out.
    JoinLeaving,
    /// Pods are bound to room that others are still leaving.
    TakeLeavingRoom,
    /// Pods are bound beside others that they must be apart from, if these are on their way out.
    MeetLeaving,
    /// Scheduling gates do not count.
    IgnoreGates,
    /// A pod is bound twice.
    BindTwice,
    /// The capability of a queue does not count.
    IgnoreCapability,
    /// The capability of the queues above does not count.
    IgnoreAncestors,
    /// The guarantees of others do not count.
    IgnoreGuarantees,
    /// Queues lose what is guaranteed to them.
    TakeGuaranteed,
    /// Any queue loses pods to one that reclaims.
    IgnoreDeserved,
    /// A queue that has what it deserves reclaims.
    ReclaimBeyondDue,
    /// Gangs are taken below their minimum.
    BreakGangs,
    /// Only a part of a gang goes where all of it should.
    TakePartOfGang,
    /// A gang loses one pod more than it has to spare.
    TakeBeyondSurplus,
    /// Gangs go that nobody needs to go.
    LetNobodyOff,
    /// Pods go on nodes on which nobody gets a place.
    HuntEverywhere,
    /// Evictions are said to be another action's.
    MisnameAction,
    /// Groups that say no lose pods to gangs.
    TakeProtectedGroups,
    /// Pods that say no are evicted.
    TakeProtected,
    /// Pods of the system are evicted.
    TakeCritical,
    /// Queues that are not reclaimable lose pods.
    TakeUnreclaimable,
    /// Disruption budgets do not count.
    IgnoreBudgets,
    /// More important pods are preempted.
    IgnorePriority,
    /// Pods are evicted for a job that gets no place.
    EvictForNothing,
    /// Evictions for a job that does not reach its minimum stand.
    EvictInVain,
    /// What queues have is counted wrong.
    MiscountQueues,
    /// What queues deserve is worked out wrong.
    MiscountDeserved,
    /// Work in a queue that has queues below it is served.
    ServeInnerQueues,
    /// Nodes that are locked for a queue take pods of others.
    IgnoreLocks,
    /// Of several holders of a node the one above all others decides.
    ObeyTopHolder,
    /// Pods go for guarantees that do not evict.
    EvictForBestEffort,
    /// Only a part of a gang goes from a locked node where all of it should.
    TakePartOfIntruder,
    /// A queue's own pods go from its locked nodes.
    EvictForOwn,
    /// Pods go from locked nodes though the target is met without that.
    EvictBeyondTarget,
}

#[cfg(feature = "mutants")]
mod switch {
    use std::cell::Cell;

    use super::Mutant;

    thread_local! {
        static PLANTED: Cell<Option<Mutant>> = const { Cell::new(None) };
    }

    /// Plants a bug in this thread's engines, or takes it out.
    pub fn plant(mutant: Option<Mutant>) {
        PLANTED.set(mutant);
    }

    /// Whether a bug is planted.
    pub fn is_planted(mutant: Mutant) -> bool {
        PLANTED.get() == Some(mutant)
    }
}

#[cfg(feature = "mutants")]
pub use switch::{is_planted, plant};

/// Whether a bug is planted: never.
#[cfg(not(feature = "mutants"))]
pub const fn is_planted(_: Mutant) -> bool {
    false
}

/// `mutant!(Name)`: whether this bug is planted.
macro_rules! mutant {
    ($name:ident) => {
        $crate::mutants::is_planted($crate::mutants::Mutant::$name)
    };
}
pub(crate) use mutant;
