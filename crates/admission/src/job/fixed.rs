//! What of a Job stays as it was created. Compared by meaning: whoever reads a Job and writes it back, in
//! Go or otherwise, spells quantities, durations and empty values in another way and has changed nothing.

use std::collections::BTreeSet;

use basalt_api::duration::Duration;
use basalt_api::json::value_or_null;
use serde_json::Value;

use super::default::RETRIES;
use crate::quantities::quantity;
use crate::read::brief;
use crate::request::Operation::Update;
use crate::rule::{Case, Rule};

pub(super) const SPEC_FIXED: Rule = Rule::forbidden(
    "job/spec-fixed",
    "only replicas, minAvailable, priorityClassName and the number of partitions change after creation",
    spec_fixed,
)
.on(&[Update]);

/// Maps in which a key with an empty value says more than no key.
const MAPS: [&str; 5] = ["plugins", "labels", "annotations", "nodeSelector", "matchLabels"];
/// Fields in which an empty map says more than no map.
const PRESENT: [&str; 2] = ["emptyDir", "volumeClaim"];
/// Fields that Go leaves out when they are false or zero.
const ZERO_IS_ABSENT: [&str; 13] = [
    "failureThreshold",
    "hostIPC",
    "hostNetwork",
    "hostPID",
    "hostPort",
    "initialDelaySeconds",
    "periodSeconds",
    "readOnly",
    "stdin",
    "stdinOnce",
    "successThreshold",
    "timeoutSeconds",
    "tty",
];
/// Lists of quantities, and single ones.
const QUANTITIES: [&str; 5] = ["requests", "limits", "overhead", "sizeLimit", "divisor"];
const DURATIONS: [&str; 2] = ["timeout", "runningEstimate"];

fn spec_fixed(case: &Case<'_>, broken: &mut Vec<String>) {
    let Some(old) = case.old else { return };
    let mut changes = Vec::new();
    let place = Place {
        path: "spec".to_owned(),
        key: "spec",
        above: "",
    };
    compare(&place, &fixed_part(old), &fixed_part(case.object), &mut changes);
    broken.extend(changes.into_iter().map(|change| {
        format!(
            "{}: {change} and cannot change after creation, only replicas, minAvailable and priorityClassName can: create a new job instead",
            case.subject()
        )
    }));
}

/// The spec without what may change. A claim's name is filled in by the controller; partitions follow the
/// replicas and the minimum.
fn fixed_part(job: &Value) -> Value {
    let mut spec = value_or_null(job, "/spec").clone();
    let Some(fields) = spec.as_object_mut() else {
        return spec;
    };
    fields.remove("minAvailable");
    fields.remove("priorityClassName");
    for task in maps(fields.get_mut("tasks")) {
        task.remove("replicas");
        task.remove("minAvailable");
        // Volcano writes its default into the object; we leave it out, so that a re-applied list of tasks is the same.
        if matches!(task.get("maxRetry").map(Value::as_i64), Some(Some(0 | RETRIES))) {
            task.remove("maxRetry");
        }
        if let Some(partitions) = task.get_mut("partitionPolicy").and_then(Value::as_object_mut) {
            partitions.remove("totalPartitions");
            partitions.remove("minPartitions");
        }
    }
    for volume in maps(fields.get_mut("volumes")) {
        if volume.get("volumeClaim").is_some_and(|claim| !claim.is_null()) {
            volume.remove("volumeClaimName");
        }
    }
    spec
}

fn maps(list: Option<&mut Value>) -> impl Iterator<Item = &mut serde_json::Map<String, Value>> {
    let list = list.and_then(Value::as_array_mut);
    list.into_iter().flatten().filter_map(Value::as_object_mut)
}

/// A place in a spec: its path, its last key and the one before.
struct Place<'a> {
    path: String,
    key: &'a str,
    above: &'a str,
}

impl Place<'_> {
    fn same(&self, old: &Value, new: &Value) -> bool {
        if old == new {
            return true;
        }
        let zero = |value: &Value| value.is_null() || value == false || value.as_i64() == Some(0);
        if ZERO_IS_ABSENT.contains(&self.key) && zero(old) && zero(new) {
            return true;
        }
        if (QUANTITIES.contains(&self.key) || QUANTITIES.contains(&self.above))
            && let (Ok(old), Ok(new)) = (quantity(old), quantity(new))
        {
            return old == new;
        }
        let duration = |value: &Value| value.as_str().and_then(|text| Duration::parse(text).ok());
        if DURATIONS.contains(&self.key)
            && let (Some(old), Some(new)) = (duration(old), duration(new))
        {
            return old == new;
        }
        let key_counts = MAPS.contains(&self.above);
        let nothing = |value: &Value| value.is_null() || (!key_counts && is_empty(self.key, value));
        nothing(old) && nothing(new)
    }
}

/// Says every difference in words: what is written now and what was.
fn compare(place: &Place<'_>, old: &Value, new: &Value, changes: &mut Vec<String>) {
    if place.same(old, new) {
        return;
    }
    match (old, new) {
        (Value::Object(before), Value::Object(now)) => {
            let keys: BTreeSet<&String> = before.keys().chain(now.keys()).collect();
            for key in keys {
                let inner = Place {
                    path: format!("{}.{key}", place.path),
                    key,
                    above: place.key,
                };
                let (before, now) = (before.get(key), now.get(key));
                compare(
                    &inner,
                    before.unwrap_or(&Value::Null),
                    now.unwrap_or(&Value::Null),
                    changes,
                );
            }
        }
        (Value::Array(before), Value::Array(now)) if before.len() == now.len() => {
            for (index, (old, new)) in before.iter().zip(now).enumerate() {
                let inner = Place {
                    path: format!("{}[{index}]", place.path),
                    ..*place
                };
                compare(&inner, old, new, changes);
            }
        }
        (Value::Array(before), Value::Array(now)) => changes.push(format!(
            "{} has {} entries, had {}",
            place.path,
            now.len(),
            before.len()
        )),
        _ => changes.push(format!("{} is {}, was {}", place.path, brief(new), brief(old))),
    }
}

/// Whether a value says no more than its absence.
fn is_empty(key: &str, value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(list) => list.is_empty(),
        Value::Object(map) if MAPS.contains(&key) => map.is_empty(),
        Value::Object(map) => !PRESENT.contains(&key) && map.iter().all(|(key, value)| is_empty(key, value)),
        Value::String(text) => text.is_empty(),
        _ => false,
    }
}
