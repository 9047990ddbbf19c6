//! What a queue asks for, and which nodes can serve it.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use basalt_api::Queue;
use basalt_api::fraction::Fraction;
use basalt_api::queue::{Affinity, Guarantee, GuaranteePolicy};

use super::row::asked;

/// What a queue asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    /// Amounts by resource, none of them 0.
    pub resource: Vec<(String, i64)>,
    /// A share of the nodes.
    pub share: Option<Share>,
    /// Pods may be evicted for it.
    pub evicts: bool,
}

/// A share of the nodes that offer all of some dimensions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Share {
    /// Names of resources, each once, in order.
    pub dimensions: Vec<String>,
    /// Which share; more than 0.
    pub value: Fraction,
}

impl Ask {
    /// What a guarantee asks for; nothing where it asks for no node.
    pub fn of(guarantee: &Guarantee) -> Option<Self> {
        let amounts = guarantee.resource.iter();
        let resource: Vec<(String, i64)> = amounts
            .map(|(name, quantity)| (name.clone(), asked(name, *quantity)))
            .filter(|(_, amount)| *amount > 0)
            .collect();
        let percentage = guarantee.percentage.as_ref();
        let share = percentage.filter(|share| share.value.is_share() && !share.value.value().is_zero());
        let share = share.map(|share| Share {
            dimensions: share
                .dimensions
                .iter()
                .cloned()
                .collect::<BTreeSet<_>>()
                .into_iter()
                .collect(),
            value: share.value,
        });
        (!resource.is_empty() || share.is_some()).then(|| Self {
            resource,
            share,
            evicts: guarantee.policy == Some(GuaranteePolicy::Guaranteed),
        })
    }
}

/// Who chooses first: the smallest.
pub type Rank = (bool, Reverse<i32>, i64, String);

/// The rank of a queue among those that reserve: Guaranteed first, then priority, age, name.
pub fn rank(queue: &Queue) -> Rank {
    let evicts = queue.spec.guarantee.policy == Some(GuaranteePolicy::Guaranteed);
    let created = queue.metadata.creation_timestamp.as_ref();
    (
        !evicts,
        Reverse(queue.spec.priority),
        created.map_or(i64::MAX, |time| time.0.as_millisecond()),
        queue.metadata.name.clone().unwrap_or_default(),
    )
}

/// What the scheduler's `nodegroup` plugin is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupRules {
    /// Nodes of no group are for nobody; otherwise for queues that name no groups.
    pub strict: bool,
    /// A queue that names no groups takes over those of the nearest queue above that does.
    pub hierarchy: bool,
}

/// Which node groups serve a queue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Zone {
    /// All nodes.
    #[default]
    Everywhere,
    /// Nodes without a group.
    Groupless,
    /// None at all.
    Nowhere,
    /// Nodes of these groups.
    Groups(BTreeSet<String>),
}

impl Zone {
    /// The zone of a queue with this affinity, its own or taken over.
    pub fn of(rules: Option<GroupRules>, affinity: Option<&Affinity>) -> Self {
        let Some(rules) = rules else {
            return Self::Everywhere;
        };
        let names = |affinity: &Affinity| Groups::of(affinity);
        let Some(groups) = affinity.map(names).filter(|groups| !groups.is_empty()) else {
            return if rules.strict { Self::Nowhere } else { Self::Groupless };
        };
        let wanted = groups.wanted.difference(&groups.unwanted).cloned();
        Self::Groups(wanted.chain(groups.disliked).collect())
    }

    /// Whether a node of this group serves the queue.
    pub fn admits(&self, group: Option<&str>) -> bool {
        match self {
            Self::Everywhere => true,
            Self::Nowhere => false,
            Self::Groupless => group.is_none(),
            Self::Groups(groups) => group.is_some_and(|group| groups.contains(group)),
        }
    }
}

/// Names of node groups as the plugin reads them: those that are merely disliked still serve.
struct Groups {
    wanted: BTreeSet<String>,
    unwanted: BTreeSet<String>,
    disliked: BTreeSet<String>,
}

impl Groups {
    fn of(affinity: &Affinity) -> Self {
        let (near, far) = (&affinity.node_group_affinity, &affinity.node_group_anti_affinity);
        let hard = |terms: &Option<_>| -> BTreeSet<String> {
            let terms: Option<&basalt_api::queue::NodeGroups> = terms.as_ref();
            let names = terms.map(|terms| &terms.required_during_scheduling_ignored_during_execution);
            names.into_iter().flatten().cloned().collect()
        };
        let soft = |terms: &Option<_>| -> BTreeSet<String> {
            let terms: Option<&basalt_api::queue::NodeGroups> = terms.as_ref();
            let names = terms.map(|terms| &terms.preferred_during_scheduling_ignored_during_execution);
            names.into_iter().flatten().cloned().collect()
        };
        Self {
            wanted: hard(near).union(&soft(near)).cloned().collect(),
            unwanted: hard(far),
            disliked: soft(far),
        }
    }

    fn is_empty(&self) -> bool {
        [&self.wanted, &self.unwanted, &self.disliked]
            .iter()
            .all(|names| names.is_empty())
    }
}
