//! Pods of ours: the annotations that say how many of their group may be disrupted.

use basalt_api::json::{annotation, string_at};
use basalt_api::names;

use crate::request::Operation::Create;
use crate::rule::{Case, Rule};

pub(crate) const RULES: &[Rule] = &[Rule::invalid(
    "pod/disruption",
    "the annotations jdb-min-available and jdb-max-unavailable of a pod of ours are a number above 0 or 1% to 99%, and not both set",
    disruption,
)
.on(&[Create])];

/// A number above 0, or a share of all pods that is neither none nor all.
fn is_amount(written: &str) -> bool {
    let number = |text: &str| {
        text.parse::<u32>()
            .ok()
            .filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()))
    };
    match written.strip_suffix('%') {
        Some(share) => number(share).is_some_and(|share| (1..=99).contains(&share)),
        None => number(written).is_some_and(|count| count > 0),
    }
}

fn disruption(case: &Case<'_>, broken: &mut Vec<String>) {
    let scheduler = string_at(case.object, "/spec/schedulerName");
    if !case.settings.schedulers.iter().any(|ours| ours == scheduler) {
        return;
    }
    let keys = [names::JDB_MIN_AVAILABLE, names::JDB_MAX_UNAVAILABLE];
    let [least, most] = keys.map(|key| annotation(case.object, key));
    for (key, written) in keys.iter().zip([least, most]) {
        if !written.is_empty() && !is_amount(written) {
            broken.push(format!(
                "{}: annotation {key} is {written:?}, choose a whole number above 0 or a share from 1% to 99%",
                case.subject()
            ));
        }
    }
    if !least.is_empty() && !most.is_empty() {
        broken.push(format!(
            "{}: annotations {} ({least:?}) and {} ({most:?}) are both set, keep one",
            case.subject(),
            names::JDB_MIN_AVAILABLE,
            names::JDB_MAX_UNAVAILABLE
        ));
    }
}
