use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::{Preserved, merge_patch};
use crate::job::{Job, TaskSpec};
use crate::queue::{Queue, WantedState};

fn queue() -> Value {
    json!({
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": { "name": "q", "future": { "deep": [1, 2] } },
        "spec": { "capability": { "cpu": "1000m" }, "parent": "", "colour": "red" },
        "status": { "state": "Paused", "allocated": {}, "mood": "good" },
        "extra": true,
    })
}

#[test]
fn an_untouched_object_is_written_as_it_was() {
    let preserved = Preserved::<Queue>::new(queue()).expect("a queue");
    assert_eq!(preserved.to_value().expect("json"), queue());
    assert_eq!(preserved.merge_patch().expect("json"), None);
    assert_eq!(serde_json::to_value(&preserved).expect("json"), queue());
}

#[test]
fn only_what_was_changed_changes() {
    let mut preserved = Preserved::<Queue>::new(queue()).expect("a queue");
    preserved.spec.state = Some(WantedState::Closed);
    preserved.spec.weight = 4;
    let patch = preserved.merge_patch().expect("json");
    assert_eq!(patch, Some(json!({ "spec": { "state": "Closed", "weight": 4 } })));

    let mut expected = queue();
    expected["spec"]["state"] = json!("Closed");
    expected["spec"]["weight"] = json!(4);
    assert_eq!(preserved.to_value().expect("json"), expected);

    preserved.spec.capability.clear();
    let value = preserved.to_value().expect("json");
    assert_eq!(value["spec"].get("capability"), None);
    assert_eq!(value["spec"]["colour"], json!("red"));
}

fn job(tasks: Value) -> Preserved<Job> {
    let raw = json!({ "metadata": { "name": "j" }, "spec": { "tasks": tasks } });
    Preserved::new(raw).expect("a job")
}

fn tasks(job: &Preserved<Job>) -> Value {
    job.to_value().expect("json")["spec"]["tasks"].clone()
}

#[test]
fn items_are_found_again_by_name() {
    let before = json!([{ "name": "a", "x": 1 }, { "name": "b", "x": 2, "replicas": 1 }, { "name": "c", "x": 3 }]);
    let mut removed = job(before.clone());
    removed.spec.tasks.remove(0);
    assert_eq!(
        tasks(&removed),
        json!([{ "name": "b", "x": 2, "replicas": 1 }, { "name": "c", "x": 3 }])
    );

    let mut changed = job(before.clone());
    changed.spec.tasks.swap(0, 2);
    changed.spec.tasks[1].replicas = 5;
    let expected = json!([{ "name": "c", "x": 3 }, { "name": "b", "x": 2, "replicas": 5 }, { "name": "a", "x": 1 }]);
    assert_eq!(tasks(&changed), expected);

    let mut added = job(before);
    added.spec.tasks.insert(
        0,
        TaskSpec {
            name: "new".into(),
            ..TaskSpec::default()
        },
    );
    assert_eq!(tasks(&added)[0], json!({ "name": "new" }));
    assert_eq!(tasks(&added)[1], json!({ "name": "a", "x": 1 }));
}

#[test]
fn nameless_items_keep_their_place() {
    let mut job = job(json!([{ "x": 1 }, { "x": 2, "replicas": 1 }]));
    job.spec.tasks[1].replicas = 7;
    assert_eq!(tasks(&job), json!([{ "x": 1 }, { "x": 2, "replicas": 7 }]));
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!(true)),
        (-5_i64..5).prop_map(|n| json!(n)),
        "[a-c]{0,2}".prop_map(|text| json!(text))
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
            prop::collection::btree_map("[a-e]", inner, 0..4)
                .prop_map(|fields| Value::Object(fields.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

/// A plain merge patch, to check the made ones with.
fn apply(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    for (name, change) in patch {
        if change.is_null() {
            if let Some(fields) = target.as_object_mut() {
                fields.remove(name);
            }
        } else {
            apply(&mut target[name.as_str()], change);
        }
    }
}

proptest! {
    #[test]
    fn a_merge_patch_leads_from_one_to_the_other(from in any_json(), to in any_json()) {
        match merge_patch(&from, &to) {
            None => prop_assert_eq!(from, to),
            Some(patch) => {
                let mut patched = from;
                apply(&mut patched, &patch);
                prop_assert_eq!(patched, to);
            }
        }
    }

    /// A type that knows everything is written as it is now.
    #[test]
    fn a_complete_view_is_written_in_full(from in any_json(), to in any_json()) {
        let mut preserved = Preserved::<Value>::new(from).expect("any json");
        *preserved = to.clone();
        prop_assert_eq!(preserved.to_value().expect("json"), to);
    }

    /// Whatever stands in unknown fields survives a change of known ones, and reads back as the changed type.
    #[test]
    fn unknown_fields_survive(unknown in any_json(), deep in any_json(), weight in 1_i32..100, replicas in 0_i32..9) {
        let mut raw = queue();
        raw["mystery"] = unknown.clone();
        raw["spec"]["mystery"] = deep.clone();
        let mut queue = Preserved::<Queue>::new(raw).expect("a queue");
        queue.spec.weight = weight;
        let written = queue.to_value().expect("json");
        prop_assert_eq!(&written["mystery"], &unknown);
        prop_assert_eq!(&written["spec"]["mystery"], &deep);
        let read: Queue = serde_json::from_value(written).expect("a queue");
        prop_assert_eq!(&read, &*queue);

        let mut job = job(json!([{ "name": "a", "mystery": deep }, { "name": "b" }]));
        job.spec.tasks[0].replicas = replicas;
        job.spec.tasks.pop();
        prop_assert_eq!(&tasks(&job)[0]["mystery"], &deep);
        let read: Job = serde_json::from_value(job.to_value().expect("json")).expect("a job");
        prop_assert_eq!(&read, &*job);
    }
}

#[test]
fn it_is_the_same_resource() {
    use kube::Resource as _;
    assert_eq!(Preserved::<Queue>::url_path(&(), None), Queue::url_path(&(), None));
    let preserved = Preserved::<Queue>::new(queue()).expect("a queue");
    assert_eq!(preserved.meta().name.as_deref(), Some("q"));
}
