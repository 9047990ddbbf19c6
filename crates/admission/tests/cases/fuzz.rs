//! Whatever comes in, admission answers.

use basalt_admission::Verdict;
use proptest::prelude::*;
use serde_json::{Map, Value};

use crate::table::{Row, decide};

const KEYS: [&str; 22] = [
    "metadata",
    "spec",
    "status",
    "name",
    "tasks",
    "replicas",
    "minAvailable",
    "queue",
    "parent",
    "state",
    "weight",
    "plugins",
    "annotations",
    "ownerReferences",
    "target",
    "kind",
    "volumes",
    "volumeClaim",
    "template",
    "generateName",
    "policies",
    "maxRetry",
];
const WORDS: [&str; 9] = [
    "",
    "root",
    "default",
    "team",
    "x",
    "Closed",
    "Queue",
    "scheduling.volcano.sh/v1beta1",
    "ü",
];

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        prop::sample::select(WORDS.to_vec()).prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 60, 6, |inner| {
        let pairs = prop::collection::vec((prop::sample::select(KEYS.to_vec()), inner.clone()), 0..6);
        let map = pairs.prop_map(|pairs| {
            pairs
                .into_iter()
                .map(|(key, value)| (key.to_owned(), value))
                .collect::<Map<_, _>>()
        });
        prop_oneof![
            map.prop_map(Value::Object),
            prop::collection::vec(inner, 0..4).prop_map(Value::Array)
        ]
    })
}

proptest! {
    #[test]
    fn never_panics_and_defaults_settle(
        object in any_json(),
        old in prop::option::of(any_json()),
        place in prop::sample::select(vec![
            ("batch.volcano.sh", "jobs"),
            ("scheduling.volcano.sh", "queues"),
            ("scheduling.volcano.sh", "podgroups"),
            ("bus.volcano.sh", "commands"),
            ("", "pods"),
        ]),
    ) {
        let mut row = Row { object: Some(object), old, ..Row::new(place.0, place.1, "x") };
        let first = decide(&row);
        if let Verdict::Refuse(refusal) = &first.verdict {
            prop_assert!(!refusal.message.is_empty());
        }
        if let Some(filled) = first.object {
            row.object = Some(filled);
            let second = decide(&row);
            prop_assert_eq!(second.object, None, "defaults of defaults");
            prop_assert_eq!(second.verdict, first.verdict);
        }
    }
}
