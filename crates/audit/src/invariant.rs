//! The promises by name; their short ids appear in findings, metrics and tests.

use std::cmp::Ordering;
use std::fmt;

use serde::{Serialize, Serializer};

/// A promise that must hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Invariant {
    /// `I1`: No node holds more than it offers.
    NoOvercommit,
    /// `I2`: A gang runs with at least its minimum, or not at all.
    WholeGangs,
    /// `I3`: No queue exceeds its capability.
    CapabilityKept,
    /// `I4`: What is guaranteed to a queue stays free for it.
    GuaranteeKept,
    /// `I5`: Evictions have a purpose and permitted victims.
    PermittedEvictions,
    /// `I6`: No pod of a Job is lost or doubled.
    NoLostPods,
    /// `I7`: A pod is bound once.
    OneBind,
    /// `I8`: A closed queue holds nothing that runs.
    ClosedQueuesEmpty,
    /// `I10`: What is said of queues is what their pods hold.
    AccountsMatch,
    /// `I13`: Pods go only where they may.
    PlacementRules,
    /// `L1`: A status follows the facts.
    StatusFollowsFacts,
    /// `Q1`: Queues accept only what they may.
    AcceptedDeliveries,
    /// `Q2`: A Command takes effect once.
    CommandsOnce,
    /// `Q3`: Nothing that was accepted is lost.
    NothingLost,
    /// `R1`: Locked nodes take only their queue's pods.
    LockedNodes,
    /// `R2`: Evictions for a reservation are needed and permitted.
    ReservationEvictions,
    /// `R3`: Locks are exclusive, and nested like the queues.
    ExclusiveLocks,
    /// `R4`: No node is locked for a queue that asks for none.
    OwnedLocks,
    /// `R5`: What is said of a reservation is what the pods say.
    ReservationStatus,
}

impl Invariant {
    /// Returns the short id, such as `I1`.
    pub const fn id(self) -> &'static str {
        match self {
            Self::NoOvercommit => "I1",
            Self::WholeGangs => "I2",
            Self::CapabilityKept => "I3",
            Self::GuaranteeKept => "I4",
            Self::PermittedEvictions => "I5",
            Self::NoLostPods => "I6",
            Self::OneBind => "I7",
            Self::ClosedQueuesEmpty => "I8",
            Self::AccountsMatch => "I10",
            Self::PlacementRules => "I13",
            Self::StatusFollowsFacts => "L1",
            Self::AcceptedDeliveries => "Q1",
            Self::CommandsOnce => "Q2",
            Self::NothingLost => "Q3",
            Self::LockedNodes => "R1",
            Self::ReservationEvictions => "R2",
            Self::ExclusiveLocks => "R3",
            Self::OwnedLocks => "R4",
            Self::ReservationStatus => "R5",
        }
    }

    /// Whether the promise is about nodes that are locked for a queue.
    pub const fn is_about_reservations(self) -> bool {
        matches!(
            self,
            Self::LockedNodes
                | Self::ReservationEvictions
                | Self::ExclusiveLocks
                | Self::OwnedLocks
                | Self::ReservationStatus
        )
    }
}

impl fmt::Display for Invariant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.id())
    }
}

impl Serialize for Invariant {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.id())
    }
}

/// By id, so that lists of findings are in the order that people know.
impl Ord for Invariant {
    fn cmp(&self, other: &Self) -> Ordering {
        self.id().cmp(other.id())
    }
}

impl PartialOrd for Invariant {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
