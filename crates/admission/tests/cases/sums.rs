//! What the view adds up, against a plain recomputation; and the tree rules as promises.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use basalt_admission::{Operation, Request, Settings, User, Verdict, View, admit};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::table::queue;

const QUEUES: &str = "queues.scheduling.volcano.sh";
const NAMES: [&str; 8] = ["a", "b", "c", "d", "e", "f", "g", "h"];

/// One write: which queue, under whom, deserved and capability if set; or its removal.
#[derive(Clone, Debug)]
enum Step {
    Put(usize, Option<usize>, Option<u32>, Option<u32>),
    Remove(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let name = 0..NAMES.len();
    let amount = || prop::option::of(0..20_u32);
    let put = (name.clone(), prop::option::of(name.clone()), amount(), amount());
    let step = prop_oneof![
        6 => put.prop_map(|(name, parent, deserved, capability)| Step::Put(name, parent, deserved, capability)),
        1 => name.prop_map(Step::Remove),
    ];
    prop::collection::vec(step, 1..40)
}

fn object(name: usize, parent: Option<usize>, deserved: Option<u32>, capability: Option<u32>) -> Value {
    let parent = parent.map_or("root", |parent| NAMES[parent]);
    let mut spec = json!({"parent": parent, "weight": 1, "reclaimable": true, "state": "Open"});
    for (list, amount) in [("deserved", deserved), ("capability", capability)] {
        if let Some(amount) = amount {
            spec[list] = json!({"cpu": amount});
        }
    }
    queue_object(NAMES[name], spec)
}

fn queue_object(name: &str, spec: Value) -> Value {
    queue(name, spec, "")
}

/// Whether the view lets `name` set this.
fn allows(view: &View, name: &str, stored: Option<&Value>, object: &Value) -> bool {
    let user = User::default();
    let request = Request {
        operation: if stored.is_some() {
            Operation::Update
        } else {
            Operation::Create
        },
        group: "scheduling.volcano.sh",
        resource: "queues",
        subresource: None,
        namespace: "",
        name,
        user: &user,
        object: Some(object),
        old: stored,
        dry_run: false,
    };
    let settings = Settings {
        queue_depth_max: 20,
        ..Settings::default()
    };
    admit(&request, view, &settings).verdict == Verdict::Allow
}

type Stored = BTreeMap<&'static str, Value>;

fn amount(queue: &Value, list: &str) -> Option<i64> {
    queue["spec"][list]["cpu"].as_i64()
}

fn children<'a>(stored: &'a Stored, parent: &'a str) -> impl Iterator<Item = &'a Value> {
    stored.values().filter(move |queue| queue["spec"]["parent"] == parent)
}

fn name_of(queue: &Value) -> &str {
    queue["metadata"]["name"].as_str().expect("a name")
}

/// What a queue counts for, recomputed; `seen` ends cycles.
fn counts(stored: &Stored, queue: &Value, list: &str, seen: &mut BTreeSet<String>) -> i64 {
    if !seen.insert(name_of(queue).to_owned()) {
        return 0;
    }
    let mut below = || -> Vec<i64> {
        children(stored, name_of(queue))
            .map(|child| counts(stored, child, list, seen))
            .collect()
    };
    match (amount(queue, list), list) {
        (Some(own), _) => own,
        (None, "deserved") => below().iter().sum(),
        (None, _) => below().into_iter().max().unwrap_or(0),
    }
}

/// The parents whose children deserve or may use more than they do.
fn overrun(stored: &Stored) -> BTreeSet<String> {
    let over = |parent: &&Value| {
        let total = |list: &str| {
            children(stored, name_of(parent))
                .map(|child| counts(stored, child, list, &mut BTreeSet::new()))
                .collect::<Vec<_>>()
        };
        amount(parent, "deserved").is_some_and(|own| total("deserved").iter().sum::<i64>() > own)
            || amount(parent, "capability").is_some_and(|own| total("capability").into_iter().any(|each| each > own))
    };
    stored
        .values()
        .filter(over)
        .map(|parent| name_of(parent).to_owned())
        .collect()
}

proptest! {
    /// Through admission alone, no parent is ever overrun: whatever is raised, lowered, moved, removed.
    #[test]
    fn what_admission_lets_pass_always_adds_up(steps in steps()) {
        let mut view = View::default();
        view.put(QUEUES, &Arc::new(queue_object("root", json!({}))));
        let mut stored = Stored::new();
        for step in steps {
            match step {
                Step::Put(name, parent, deserved, capability) => {
                    let new = object(name, parent, deserved, capability);
                    if allows(&view, NAMES[name], stored.get(NAMES[name]), &new) {
                        view.put(QUEUES, &Arc::new(new.clone()));
                        stored.insert(NAMES[name], new);
                    }
                }
                // Only leaves: what is above a removed queue loses its sums, as by the finalizer's order.
                Step::Remove(name) if children(&stored, NAMES[name]).next().is_none() => {
                    view.remove(QUEUES, "", NAMES[name]);
                    stored.remove(NAMES[name]);
                }
                Step::Remove(_) => {}
            }
            prop_assert_eq!(overrun(&stored), BTreeSet::new());
        }
    }

    /// A view that grew by any sequence of writes, cycles included, decides like one that was filled in
    /// one go with what is stored at the end, once the cycles are untied.
    #[test]
    fn history_leaves_no_trace(steps in steps(), probe in (0..NAMES.len(), 0..20_u32)) {
        let mut view = View::default();
        let mut stored = Stored::new();
        for step in steps {
            match step {
                Step::Put(name, parent, deserved, capability) => {
                    let new = object(name, parent, deserved, capability);
                    view.put(QUEUES, &Arc::new(new.clone()));
                    stored.insert(NAMES[name], new);
                }
                Step::Remove(name) => {
                    view.remove(QUEUES, "", NAMES[name]);
                    stored.remove(NAMES[name]);
                }
            }
        }
        untie(&mut view, &mut stored);
        let mut fresh = View::default();
        for queue in stored.values().rev() {
            fresh.put(QUEUES, &Arc::new(queue.clone()));
        }
        let (name, amount) = (NAMES[probe.0], probe.1);
        for parent in NAMES {
            for list in ["deserved", "capability"] {
                let new = queue_object(name, json!({"parent": parent, list: {"cpu": amount}}));
                let old = stored.get(name);
                prop_assert_eq!(allows(&view, name, old, &new), allows(&fresh, name, old, &new), "{} under {}", name, parent);
            }
        }
    }
}

/// Puts every queue of a cycle under root, in the order of their names.
fn untie(view: &mut View, stored: &mut Stored) {
    for name in NAMES {
        let mut here = name.to_owned();
        for _ in 0..NAMES.len() {
            let Some(queue) = stored.get(&*here) else { break };
            here = queue["spec"]["parent"].as_str().expect("a parent").to_owned();
            if here == name {
                let queue = stored.get_mut(name).expect("it is stored");
                queue["spec"]["parent"] = json!("root");
                view.put(QUEUES, &Arc::new(queue.clone()));
                break;
            }
        }
    }
}

/// The refusal names the object, the field, both numbers and what to do.
#[test]
fn texts_name_both_numbers_and_what_to_do() {
    let check = |what: &str, details: Value, parts: &[&str]| {
        let row = queue::build(what, details);
        let message = crate::table::refusal(&row).expect("refused").message;
        for part in parts {
            assert!(message.contains(part), "{part:?} is missing in: {message}");
        }
    };
    check(
        "create",
        json!(["q", {"parent": "full", "deserved": {"cpu": "5"}}]),
        &[
            "Queue q",
            "spec.deserved[cpu] is 5",
            "deserve 12",
            "of \"full\", which is 10",
            "at most 3",
            "raise \"full\"",
        ],
    );
    check(
        "create",
        json!(["q", {"deserved": {"memory": "300Gi"}}]),
        &[
            "spec.deserved[memory] is 300Gi",
            "deserve 310Gi",
            "nodes offer, which is 256Gi",
            "at most 246Gi",
            "add nodes",
        ],
    );
    check(
        "update",
        json!(["full", {"deserved": {"cpu": "10"}}, {"deserved": {"cpu": "6"}}]),
        &[
            "Queue full",
            "spec.deserved[cpu] is 6",
            "deserve 7 together",
            "\"full-a\" the most",
            "at least 7",
        ],
    );
    check(
        "create",
        json!(["q", {"parent": "full", "capability": {"cpu": "21"}}]),
        &[
            "spec.capability[cpu] is 21",
            "ancestor \"full\", which is 20",
            "at most 20",
        ],
    );
    check(
        "update",
        json!(["full", {"capability": {"cpu": "20"}}, {"capability": {"cpu": "9"}}]),
        &["spec.capability[cpu] is 9", "child \"full-a\" is 10", "at least 10"],
    );
}
