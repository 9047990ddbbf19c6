//! Bugs that can be planted in the engine, one at a time, to see that the auditor finds each of them.

macro_rules! mutants {
    ($($(#[$doc:meta])* $name:ident)*) => {
        /// A bug that can be planted in the engine.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Mutant {
            $($(#[$doc])* $name,)*
        }

        impl Mutant {
            /// All mutants.
            pub const ALL: &'static [Mutant] = &[$(Mutant::$name,)*];

            /// Returns the name by which the engine's code asks for the bug.
            pub fn name(self) -> &'static str {
                match self {
                    $(Mutant::$name => stringify!($name),)*
                }
            }
        }
    };
}

/// Plants a bug in the engines of this thread, or takes it out again.
#[cfg(feature = "mutants")]
pub fn plant(mutant: Option<Mutant>) {
    basalt_engine::plant_mutant(mutant.map(Mutant::name));
}

mutants! {
    /// A pod goes to a node whether or not there is room.
    IgnoreRoom
    /// Half a gang is bound.
    IgnoreMinimum
    /// The minimum of each task does not count.
    IgnoreTaskMinimum
    /// Taints do not count.
    IgnoreTaints
    /// Cordons do not count.
    IgnoreCordon
    /// Selectors and node affinity do not count.
    IgnoreAffinity
    /// Host ports do not count.
    IgnorePorts
    /// Pods that must be apart are not.
    IgnoreAntiAffinity
    /// Pods that must be together are not.
    IgnorePodAffinity
    /// Pods join others that are on their way out.
    JoinLeaving
    /// Pods are bound to room that others are still leaving.
    TakeLeavingRoom
    /// Pods are bound beside others that they must be apart from, if these are on their way out.
    MeetLeaving
    /// Scheduling gates do not count.
    IgnoreGates
    /// A pod is bound twice.
    BindTwice
    /// The capability of a queue does not count.
    IgnoreCapability
    /// The capability of the queues above does not count.
    IgnoreAncestors
    /// The guarantees of others do not count.
    IgnoreGuarantees
    /// Queues lose what is guaranteed to them.
    TakeGuaranteed
    /// Any queue loses pods to one that reclaims.
    IgnoreDeserved
    /// A queue that has what it deserves reclaims.
    ReclaimBeyondDue
    /// Gangs are taken below their minimum.
    BreakGangs
    /// Only a part of a gang goes where all of it should.
    TakePartOfGang
    /// A gang loses one pod more than it has to spare.
    TakeBeyondSurplus
    /// Gangs go that nobody needs to go.
    LetNobodyOff
    /// Pods go on nodes on which nobody gets a place.
    HuntEverywhere
    /// Evictions are said to be another action's.
    MisnameAction
    /// Groups that say no lose pods to gangs.
    TakeProtectedGroups
    /// Pods that say no are evicted.
    TakeProtected
    /// Pods of the system are evicted.
    TakeCritical
    /// Queues that are not reclaimable lose pods.
    TakeUnreclaimable
    /// Disruption budgets do not count.
    IgnoreBudgets
    /// More important pods are preempted.
    IgnorePriority
    /// Pods are evicted for a job that gets no place.
    EvictForNothing
    /// Evictions for a job that does not reach its minimum stand.
    EvictInVain
    /// What queues have is counted wrong.
    MiscountQueues
    /// What queues deserve is worked out wrong.
    MiscountDeserved
    /// Work in a queue that has queues below it is served.
    ServeInnerQueues
    /// Nodes that are locked for a queue take pods of others.
    IgnoreLocks
    /// Of several holders of a node the one above all others decides.
    ObeyTopHolder
    /// Pods go for guarantees that do not evict.
    EvictForBestEffort
    /// Only a part of a gang goes from a locked node where all of it should.
    TakePartOfIntruder
    /// A queue's own pods go from its locked nodes.
    EvictForOwn
    /// Pods go from locked nodes though the target is met without that.
    EvictBeyondTarget
}
