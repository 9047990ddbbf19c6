//! What one queue says about itself, quantities apart.

use basalt_api::Quantity;
use basalt_api::fraction::Fraction;
use basalt_api::json::{annotation, list_at, value_or_null};
use basalt_api::names;

use crate::quantities::{is_resource, quantity};
use crate::read::brief;
use crate::rule::{Case, Rule};

const WEIGHT_MAX: i64 = 65_535;

pub(super) const STATE_VALUE: Rule = Rule::invalid(
    "queue/state-value",
    "spec.state is Open or Closed; Closing is what status says on the way",
    state_value,
);
pub(super) const WEIGHT: Rule = Rule::invalid("queue/weight", "spec.weight is between 1 and 65535", weight);
pub(super) const GUARANTEE_POLICY: Rule = Rule::invalid(
    "queue/guarantee-policy",
    "spec.guarantee.policy is Best-Effort or Guaranteed, where it is set",
    guarantee_policy,
);
pub(super) const GUARANTEE_PERCENTAGE: Rule = Rule::invalid(
    "queue/guarantee-percentage",
    "spec.guarantee.percentage names resources, each once, and a share of the nodes within 0 and 1",
    guarantee_percentage,
);
pub(super) const HIERARCHY: Rule = Rule::invalid(
    "queue/hierarchy-annotations",
    "the annotations volcano.sh/hierarchy and hierarchy-weights have as many parts as each other, the weights above 0",
    hierarchy,
);

fn state_value(case: &Case<'_>, broken: &mut Vec<String>) {
    let state = value_or_null(case.object, "/spec/state");
    if !matches!(state.as_str(), Some("Open" | "Closed")) {
        broken.push(format!(
            "{}: spec.state is {}, but only \"Open\" or \"Closed\" can be asked for",
            case.subject(),
            brief(state)
        ));
    }
}

fn weight(case: &Case<'_>, broken: &mut Vec<String>) {
    let weight = value_or_null(case.object, "/spec/weight");
    if !weight.as_i64().is_some_and(|weight| (1..=WEIGHT_MAX).contains(&weight)) {
        broken.push(format!(
            "{}: spec.weight is {}, choose a whole number from 1 to {WEIGHT_MAX}",
            case.subject(),
            brief(weight)
        ));
    }
}

fn guarantee_policy(case: &Case<'_>, broken: &mut Vec<String>) {
    let policy = value_or_null(case.object, "/spec/guarantee/policy");
    if !policy.is_null() && !matches!(policy.as_str(), Some("Best-Effort" | "Guaranteed")) {
        broken.push(format!(
            "{}: spec.guarantee.policy is {}, choose \"Best-Effort\" (never evicts) or \"Guaranteed\" (may evict)",
            case.subject(),
            brief(policy)
        ));
    }
}

fn guarantee_percentage(case: &Case<'_>, broken: &mut Vec<String>) {
    let percentage = value_or_null(case.object, "/spec/guarantee/percentage");
    if percentage.is_null() {
        return;
    }
    let place = format!("{}: spec.guarantee.percentage", case.subject());
    let value = value_or_null(percentage, "/value");
    let share = |value: Quantity| Fraction::new(value).is_share();
    if !quantity(value).is_ok_and(share) {
        broken.push(format!(
            "{place}.value is {}, choose a share from 0 to 1, for example 0.25",
            brief(value)
        ));
    }
    let dimensions = list_at(percentage, "/dimensions");
    let named = |dimension: &serde_json::Value| dimension.as_str().is_some_and(is_resource);
    if dimensions.is_empty() || !dimensions.iter().all(named) {
        broken.push(format!(
            "{place}.dimensions is {}, name at least one resource, for example [\"cpu\", \"nvidia.com/gpu\"]",
            brief(value_or_null(percentage, "/dimensions"))
        ));
    }
    let twice =
        |(at, dimension): &(usize, &serde_json::Value)| dimensions.iter().take(*at).any(|one| one == *dimension);
    if let Some((_, dimension)) = dimensions.iter().enumerate().find(twice) {
        broken.push(format!(
            "{place}.dimensions names {} twice, name each resource once",
            brief(dimension)
        ));
    }
}

fn hierarchy(case: &Case<'_>, broken: &mut Vec<String>) {
    let path = annotation(case.object, names::HIERARCHY);
    let weights = annotation(case.object, names::HIERARCHY_WEIGHTS);
    if path.is_empty() && weights.is_empty() {
        return;
    }
    let (parts, count) = (path.split('/').count(), weights.split('/').count());
    if parts != count || path.is_empty() || weights.is_empty() {
        broken.push(format!(
            "{}: annotation {} is {path:?} with {parts} parts, but {} is {weights:?} with {count}: give each part one weight",
            case.subject(),
            names::HIERARCHY,
            names::HIERARCHY_WEIGHTS
        ));
    }
    let bad = |weight: &&str| {
        !weight
            .parse::<f64>()
            .is_ok_and(|weight| weight > 0.0 && weight.is_finite())
    };
    if let Some(weight) = weights.split('/').find(bad).filter(|_| !weights.is_empty()) {
        broken.push(format!(
            "{}: annotation {} has the weight {weight:?}, choose a number above 0",
            case.subject(),
            names::HIERARCHY_WEIGHTS
        ));
    }
    if path.split('/').any(str::is_empty) && !path.is_empty() {
        broken.push(format!(
            "{}: annotation {} is {path:?}, which has an empty part: name each",
            case.subject(),
            names::HIERARCHY
        ));
    }
}
