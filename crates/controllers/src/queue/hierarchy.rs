//! What can be wrong with the place of a queue in the tree, in plain data and in words.

use basalt_api::Quantity;
use basalt_api::quantity::{Format, ResourceList};
use basalt_api::queue::QueueSpec;

/// Amounts of which children may have no more together than their parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    /// `spec.deserved`
    Deserved,
    /// `spec.guarantee.resource`
    Guarantee,
}

impl Field {
    /// Both, in the order in which they are looked at.
    pub const ALL: [Self; 2] = [Self::Deserved, Self::Guarantee];

    /// The list in a spec.
    pub const fn of(self, spec: &QueueSpec) -> &ResourceList {
        match self {
            Self::Deserved => &spec.deserved,
            Self::Guarantee => &spec.guarantee.resource,
        }
    }

    /// What children do with it.
    const fn verb(self) -> &'static str {
        match self {
            Self::Deserved => "deserve",
            Self::Guarantee => "are guaranteed",
        }
    }
}

/// A sum that passes its limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Excess {
    /// Of which amounts.
    pub field: Field,
    /// Of which resource.
    pub dimension: String,
    /// What the children ask for together.
    pub sum: Quantity,
    /// What there is.
    pub limit: Quantity,
}

impl Excess {
    /// From billionths.
    pub(crate) fn new(field: Field, dimension: &str, sum: i128, limit: i128) -> Self {
        let bytes = ["memory", "storage", "hugepages"]
            .iter()
            .any(|word| dimension.contains(word));
        let format = if bytes { Format::BinarySi } else { Format::DecimalSi };
        let quantity = |nano| Quantity::from_nano(nano, format).unwrap_or(Quantity::ZERO);
        Self {
            field,
            dimension: dimension.to_owned(),
            sum: quantity(sum),
            limit: quantity(limit),
        }
    }

    /// `its children together deserve cpu 12, and it has 10`
    pub(crate) fn sentence(&self, whose: &str, holder: &str) -> String {
        let (verb, dimension, sum, limit) = (self.field.verb(), &self.dimension, self.sum, self.limit);
        format!("{whose} together {verb} {dimension} {sum}, and {holder} has {limit}")
    }
}

/// The children of a queue ask for more than it has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overcommit {
    /// The first sum that is too large.
    pub excess: Excess,
    /// The children that wait until the rest fits, the youngest first.
    pub waiting: Vec<String>,
}

/// Why a queue waits because of its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Damage {
    /// A queue, this one or one above it, names a parent that does not exist.
    ParentMissing {
        /// Which.
        queue: String,
        /// The name that is missing.
        parent: String,
    },
    /// The way up never reaches root.
    Cycle {
        /// The queues of the cycle.
        path: Vec<String>,
    },
    /// A queue, this one or one above it, is among the youngest of siblings that ask for too much.
    Overcommitted {
        /// Which.
        queue: String,
        /// The parent of those.
        parent: String,
        /// What they ask for.
        excess: Excess,
    },
}

impl Damage {
    /// One word for conditions and events.
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::ParentMissing { .. } => "ParentNotFound",
            Self::Cycle { .. } => "Cycle",
            Self::Overcommitted { .. } => "Overcommitted",
        }
    }

    /// What is wrong, and what to do.
    pub fn message(&self) -> String {
        match self {
            Self::ParentMissing { queue, parent } => format!(
                "queue {queue} names the parent {parent}, which does not exist: create {parent} or give {queue} another parent"
            ),
            Self::Cycle { path } => {
                let first = path.first().map(String::as_str).unwrap_or_default();
                format!(
                    "the parents go round in a circle ({} → {first}): give one of them another parent",
                    path.join(" → ")
                )
            }
            Self::Overcommitted { queue, parent, excess } => {
                let children = format!("the children of {parent}");
                format!(
                    "{}: {queue} is among the youngest of them, and its work waits until the sum fits",
                    excess.sentence(&children, parent)
                )
            }
        }
    }
}
