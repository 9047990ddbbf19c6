//! What the tree adds up to: children's deserved and guarantee within their parent's, or the
//! cluster's under root, and no capability above an ancestor's.
//!
//! A dimension that a queue does not set counts as what its children have of it, so a change is judged
//! by the nearest ancestor that sets the dimension. It is judged only where this request makes it
//! worse: raises an amount, moves a queue, or lowers a parent's. A tree that no longer fits, because a
//! node was lost, can still be edited otherwise.

use std::collections::BTreeSet;

use basalt_api::Quantity;
use basalt_api::json::value_or_null;
use basalt_api::names;
use basalt_api::quantity::Format;
use serde_json::Value;

use crate::quantities::{amount, amounts, share_of, shares, written};
use crate::request::Settings;
use crate::rule::{Case, Rule};
use crate::view::{Measure, Tally, parent_of};

pub(super) const DESERVED_WITHIN_PARENT: Rule = Rule::forbidden(
    "queue/deserved-within-parent",
    "what the children of a queue deserve is together at most what it deserves itself",
    |case, broken| Kind::Deserved.within(case, broken, false),
);
pub(super) const GUARANTEE_WITHIN_PARENT: Rule = Rule::forbidden(
    "queue/guarantee-within-parent",
    "what the children of a queue are guaranteed is together at most what it is guaranteed itself",
    |case, broken| Kind::Guarantee.within(case, broken, false),
);
pub(super) const DESERVED_WITHIN_CLUSTER: Rule = Rule::forbidden(
    "queue/deserved-within-cluster",
    "what the queues under root deserve is together at most what the nodes offer",
    |case, broken| Kind::Deserved.within(case, broken, true),
);
pub(super) const GUARANTEE_WITHIN_CLUSTER: Rule = Rule::forbidden(
    "queue/guarantee-within-cluster",
    "what the queues under root are guaranteed, each and together, is at most the part of what the nodes offer that the settings allow (1.0)",
    |case, broken| Kind::Guarantee.within(case, broken, true),
);
pub(super) const CAPABILITY_WITHIN_PARENT: Rule = Rule::forbidden(
    "queue/capability-within-parent",
    "the capability of a queue is at most that of its nearest ancestor that sets one",
    |case, broken| Kind::Capability.within(case, broken, false),
);
pub(super) const DESERVED_OF_CHILDREN: Rule = Rule::forbidden(
    "queue/deserved-of-children",
    "deserved is not lowered below what the children deserve together",
    |case, broken| Kind::Deserved.of_children(case, broken),
);
pub(super) const GUARANTEE_OF_CHILDREN: Rule = Rule::forbidden(
    "queue/guarantee-of-children",
    "guarantee is not lowered below what the children are guaranteed together",
    |case, broken| Kind::Guarantee.of_children(case, broken),
);
pub(super) const CAPABILITY_OF_CHILDREN: Rule = Rule::forbidden(
    "queue/capability-of-children",
    "capability is not lowered below that of a child",
    |case, broken| Kind::Capability.of_children(case, broken),
);

/// The three lists of quantities.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Deserved,
    Guarantee,
    Capability,
}

/// What bounds a dimension from above: a queue, or the cluster.
struct Bound<'a> {
    /// Empty for the cluster.
    queue: &'a str,
    amount: i128,
}

impl Kind {
    fn measure(self, dimension: &str) -> Measure {
        match self {
            Self::Deserved => Measure::Deserved(dimension.into()),
            Self::Guarantee => Measure::Guarantee(dimension.into()),
            Self::Capability => Measure::Capability(dimension.into()),
        }
    }

    fn field(self, dimension: &str) -> String {
        let list = match self {
            Self::Deserved => "deserved",
            Self::Guarantee => "guarantee.resource",
            Self::Capability => "capability",
        };
        format!("spec.{list}[{dimension}]")
    }

    /// Says what is added up, for messages.
    fn verb(self) -> &'static str {
        match self {
            Self::Deserved => "deserve",
            Self::Guarantee => "are guaranteed",
            Self::Capability => "may use",
        }
    }

    fn list(self, queue: &Value) -> &Value {
        value_or_null(queue, self.measure("").list())
    }

    /// The dimensions that a queue itself sets.
    fn set(self, queue: &Value) -> BTreeSet<&str> {
        let written = amounts(self.list(queue)).map(|(dimension, _)| dimension);
        let shares = shares(queue).map(|(dimension, _)| dimension);
        written.chain(shares.filter(|_| self == Self::Guarantee)).collect()
    }

    /// The dimensions that this queue or those below it have anything of.
    fn dimensions(self, case: &Case<'_>) -> BTreeSet<String> {
        let own = self.set(case.object).into_iter().map(str::to_owned);
        let below = case
            .view
            .tree()
            .measures(case.request.name)
            .filter_map(|measure| match measure {
                Measure::Deserved(dimension) if self == Self::Deserved => Some(dimension.to_string()),
                Measure::Guarantee(dimension) if self == Self::Guarantee => Some(dimension.to_string()),
                Measure::Capability(dimension) if self == Self::Capability => Some(dimension.to_string()),
                _ => None,
            });
        own.chain(below).collect()
    }

    /// What the children have: together, or the largest for a capability, and whose that is.
    fn of_all_children<'a>(self, case: &Case<'a>, dimension: &str) -> Option<(i128, &'a str)> {
        let tree = case.view.tree();
        let tally: &Tally = tree.tally(case.request.name, &self.measure(dimension))?;
        let (largest, name) = tally.largest().filter(|_| !tree.is_tied(case.request.name))?;
        let all = || self.together(case, case.request.name, dimension);
        Some((if self == Self::Capability { largest } else { all() }, name))
    }

    /// What the children of a queue have together.
    fn together(self, case: &Case<'_>, queue: &str, dimension: &str) -> i128 {
        let sum = |measure| case.view.tree().tally(queue, &measure).map_or(0, |tally| tally.sum);
        let amount = sum(self.measure(dimension));
        if self != Self::Guarantee {
            return amount;
        }
        let shares = self.weighed(case, dimension, sum(Measure::Share(dimension.into())));
        // Where both are written the smaller does not count.
        let smaller = case.view.tree().either(queue, dimension);
        let smaller = smaller.fold(0_i128, |sum, (amount, share, queues)| {
            let least = amount.min(self.weighed(case, dimension, share));
            sum.saturating_add(least.saturating_mul(queues))
        });
        amount.saturating_add(shares).saturating_sub(smaller)
    }

    /// What a share of the cluster weighs: nothing while there are no nodes, or where it is no guarantee.
    fn weighed(self, case: &Case<'_>, dimension: &str, share: i128) -> i128 {
        let cluster = case.view.cluster_total(dimension).filter(|_| self == Self::Guarantee);
        share_of(share, cluster.unwrap_or_default())
    }

    /// What the queue itself sets: an amount, a share of the cluster, or the larger of both.
    fn own(self, case: &Case<'_>, queue: &Value, dimension: &str) -> Option<i128> {
        let written = amount(self.list(queue), dimension).map(Quantity::nano);
        let share = shares(queue).filter(|(name, _)| *name == dimension && self == Self::Guarantee);
        let share = share.map(|(_, share)| share).max();
        if written.is_none() && share.is_none() {
            return None;
        }
        let share = self.weighed(case, dimension, share.unwrap_or_default());
        Some(written.unwrap_or_default().max(share))
    }

    /// What the queue counts for: its own amount, else what its children have.
    fn counts(self, case: &Case<'_>, queue: &Value, dimension: &str) -> i128 {
        let children = || self.of_all_children(case, dimension).map(|(amount, _)| amount);
        self.own(case, queue, dimension).or_else(children).unwrap_or_default()
    }

    /// The nearest bound from `parent` upwards.
    fn bound<'a>(self, case: &Case<'a>, parent: &'a str, dimension: &str) -> Option<Bound<'a>> {
        let tree = case.view.tree();
        let measure = self.measure(dimension);
        let path = tree.upwards(parent);
        // In a cycle nothing adds up, and other rules speak about that.
        if path.contains(&case.request.name) || path.last().is_some_and(|top| tree.is_tied(top)) {
            return None;
        }
        let set = path.iter().find_map(|name| Some((*name, tree.own(name, &measure)?)));
        if let Some((queue, amount)) = set {
            let share = tree.own(queue, &Measure::Share(dimension.into())).unwrap_or_default();
            // A share bounds nothing while there is nothing that it is a share of.
            let known = self != Self::Guarantee || share == 0 || case.view.cluster_total(dimension).is_some();
            let amount = amount.max(self.weighed(case, dimension, share));
            return known.then_some(Bound { queue, amount });
        }
        let top = path
            .last()
            .map_or(Some(parent), |top| case.view.queue(top).map(parent_of));
        if self == Self::Capability || top != Some(names::ROOT_QUEUE) {
            return None;
        }
        self.cluster(case, dimension)
    }

    /// What the cluster has to give: of guarantees only so much as the settings allow.
    fn cluster<'a>(self, case: &Case<'a>, dimension: &str) -> Option<Bound<'a>> {
        let total = case.view.cluster_total(dimension)?;
        let amount = match self {
            Self::Guarantee => share_of(case.settings.guarantee_share.value().nano(), total),
            Self::Deserved | Self::Capability => total,
        };
        Some(Bound { queue: "", amount })
    }

    /// Judges what this queue alone is guaranteed, where a queue above bounds the sum: that one may have been written
    /// when there were more nodes, or none.
    fn alone(self, case: &Case<'_>, broken: &mut Vec<String>, dimension: &str) {
        let (Some(new), Some(bound)) = (self.own(case, case.object, dimension), self.cluster(case, dimension)) else {
            return;
        };
        let before = case.old.and_then(|old| self.own(case, old, dimension));
        if before.is_none_or(|before| new > before) && new > bound.amount {
            broken.push(self.exceeded(case, dimension, &bound, new, new));
        }
    }

    /// Judges what this queue adds to what bounds it from above.
    fn within(self, case: &Case<'_>, broken: &mut Vec<String>, cluster: bool) {
        if case.request.name == names::ROOT_QUEUE {
            return;
        }
        for dimension in self.dimensions(case) {
            let Some(bound) = self.bound(case, parent_of(case.object), &dimension) else {
                continue;
            };
            if bound.queue.is_empty() != cluster {
                if cluster && self == Self::Guarantee {
                    self.alone(case, broken, &dimension);
                }
                continue;
            }
            let new = self.counts(case, case.object, &dimension);
            let before = case.old.map_or(0, |old| {
                let same = self.bound(case, parent_of(old), &dimension);
                let same = same.is_some_and(|same| same.queue == bound.queue);
                if same { self.counts(case, old, &dimension) } else { 0 }
            });
            if new <= before {
                continue;
            }
            let total = if self == Self::Capability {
                new
            } else {
                let place = if cluster { names::ROOT_QUEUE } else { bound.queue };
                let all = self.together(case, place, &dimension);
                all.saturating_sub(before).saturating_add(new)
            };
            if total > bound.amount {
                broken.push(self.exceeded(case, &dimension, &bound, new, total));
            }
        }
    }

    fn exceeded(self, case: &Case<'_>, dimension: &str, bound: &Bound<'_>, new: i128, total: i128) -> String {
        let own = amount(self.list(case.object), dimension);
        let format = own.map_or(Format::DecimalSi, Quantity::format);
        let say = |nano: i128| written(nano, format);
        let field = self.field(dimension);
        let set = self.own(case, case.object, dimension);
        let part = match (own, set) {
            (Some(own), Some(set)) if own.nano() == set => format!("{}: {field} is {own}", case.subject()),
            (_, Some(set)) => format!(
                "{}: spec.guarantee.percentage makes {} of {dimension}",
                case.subject(),
                say(set)
            ),
            _ => format!("{}: {field} of what is below it is {}", case.subject(), say(new)),
        };
        let room = say(bound.amount.saturating_sub(total.saturating_sub(new)).max(0));
        match (self, bound.queue) {
            (Self::Capability, queue) => format!(
                "{part}, more than {field} of its ancestor {queue:?}, which is {}: lower it to at most {room} or raise {queue:?} first",
                say(bound.amount)
            ),
            (_, "") => {
                let (offered, remedy) = self.offered(case);
                let whole = if new == total {
                    String::new()
                } else {
                    format!(", with which the queues under root {} {}", self.verb(), say(total))
                };
                format!(
                    "{part}{whole}, more than {offered}, which is {}: lower it to at most {room} or {remedy}",
                    say(bound.amount)
                )
            }
            (_, queue) => format!(
                "{part}, with which the queues under {queue:?} {} {}, more than {field} of {queue:?}, which is {}: lower it to at most {room} or raise {queue:?} first",
                self.verb(),
                say(total),
                say(bound.amount)
            ),
        }
    }

    /// What the cluster gives in words, and how there could be more of it.
    fn offered(self, case: &Case<'_>) -> (String, &'static str) {
        let share = case.settings.guarantee_share;
        if self == Self::Guarantee && share != Settings::default().guarantee_share {
            let offered = format!("{share} of what the nodes offer");
            return (offered, "add nodes, or have --guarantee-share raised");
        }
        ("the nodes offer".to_owned(), "add nodes")
    }

    /// Judges a bound that this request sets or lowers by what is below it.
    fn of_children(self, case: &Case<'_>, broken: &mut Vec<String>) {
        for dimension in self.set(case.object) {
            let bound = self.own(case, case.object, dimension).unwrap_or_default();
            let before = case.old.and_then(|old| self.own(case, old, dimension));
            let lowered = before.is_none_or(|before| bound < before);
            let Some((below, child)) = self.of_all_children(case, dimension) else {
                continue;
            };
            // A share bounds nothing while there is nothing that it is a share of.
            let by_share = amount(self.list(case.object), dimension).is_none();
            if !lowered || below <= bound || (by_share && case.view.cluster_total(dimension).is_none()) {
                continue;
            }
            let written_as = amount(self.list(case.object), dimension).map_or(Format::DecimalSi, Quantity::format);
            let field = self.field(dimension);
            let least = written(below, written_as);
            let whose = if self == Self::Capability {
                format!("{field} of its child {child:?} is {least}")
            } else {
                format!("its children {} {least} together ({child:?} the most)", self.verb())
            };
            broken.push(format!(
                "{}: {field} is {}, but {whose}: choose at least {least} or lower what is below first",
                case.subject(),
                written(bound, written_as)
            ));
        }
    }
}
