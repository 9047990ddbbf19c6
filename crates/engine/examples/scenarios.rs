//! Runs scenario files (one YAML document each: configuration, objects, expected decisions) and says which pass.
//! `cargo run --example scenarios -- FILE|FOLDER…`

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use basalt_api::{PodGroup, Queue, slim};
use basalt_engine::facts::Phase;
use basalt_engine::{Conf, Engine, Event, Options, Plan};
use k8s_openapi::api::scheduling::v1::PriorityClass;
use serde::de::DeserializeOwned;
use serde_json::Value;

type Outcome = Result<Vec<String>, String>;

fn main() {
    let mut files = Vec::new();
    for path in std::env::args().skip(1) {
        collect(Path::new(&path), &mut files);
    }
    files.sort();
    let (mut passed, mut failed) = (0, 0);
    for file in &files {
        let name = file.display();
        match run(file) {
            Err(error) => println!("ERROR {name}: {error}"),
            Ok(complaints) if complaints.is_empty() => {
                passed += 1;
                println!("pass  {name}");
            }
            Ok(complaints) => {
                failed += 1;
                println!("FAIL  {name}");
                for complaint in complaints {
                    println!("        {complaint}");
                }
            }
        }
    }
    println!("{passed} passed, {failed} failed, {} in all", files.len());
}

fn collect(path: &Path, files: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(path) else {
        return files.push(path.to_owned());
    };
    for entry in entries.flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|ext| ext == "yaml") {
            files.push(path);
        }
    }
}

fn run(file: &Path) -> Outcome {
    let text = std::fs::read_to_string(file).map_err(|error| error.to_string())?;
    let scenario: Value = serde_saphyr::from_str(&text).map_err(|error| error.to_string())?;
    let conf = serde_json::to_string(&scenario["conf"]).map_err(|error| error.to_string())?;
    let conf = Conf::parse(&conf).map_err(|error| error.to_string())?;
    let mut complaints: Vec<String> = Vec::new();
    let mut engine = Engine::new(conf.clone(), Options::default());
    let mut phases: BTreeMap<Arc<str>, Phase> = BTreeMap::new();
    for object in scenario["objects"].as_array().into_iter().flatten() {
        match event(object)? {
            Some(event) => {
                if let Event::PodGroup(group) = &event {
                    phases.insert(group.key.clone(), group.phase);
                }
                engine.apply(&event);
            }
            None => complaints.push(format!("not supported: {}", object["kind"])),
        }
    }
    let plan = engine.cycle(0, 0);
    for transaction in &plan.transactions {
        if let Some(phase) = transaction.phase {
            phases.insert(transaction.pod_group.clone(), phase);
        }
    }
    for (key, expected) in scenario["expect"].as_object().into_iter().flatten() {
        let seen = seen(key, expected, &plan, &phases);
        if !matches(key, expected, &seen) {
            complaints.push(format!("{key}: expected {expected}, seen {seen}"));
        }
    }
    if !complaints.is_empty() {
        complaints.extend(conf.warnings);
    }
    Ok(complaints)
}

fn parse<T: DeserializeOwned>(object: &Value) -> Result<T, String> {
    serde_json::from_value(object.clone()).map_err(|error| error.to_string())
}

fn event(object: &Value) -> Result<Option<Event>, String> {
    Ok(Some(match object["kind"].as_str().unwrap_or("") {
        "Node" => Event::Node((&parse::<slim::Node>(object)?).into()),
        "Pod" => Event::Pod((&parse::<slim::Pod>(object)?).into()),
        "PodGroup" => Event::PodGroup((&parse::<PodGroup>(object)?).into()),
        "Queue" => Event::Queue((&parse::<Queue>(object)?).into()),
        "PriorityClass" => Event::PriorityClass((&parse::<PriorityClass>(object)?).into()),
        _ => return Ok(None),
    }))
}

/// What the plan says under one key of `expect`.
fn seen(key: &str, expected: &Value, plan: &Plan, phases: &BTreeMap<Arc<str>, Phase>) -> Value {
    let counts = || {
        plan.transactions
            .iter()
            .filter(|t| !t.binds.is_empty())
            .map(|t| (t.pod_group.to_string(), t.binds.len()))
    };
    match key {
        "binds" => plan
            .binds()
            .map(|bind| (bind.pod.to_string(), Value::from(&*bind.node)))
            .collect(),
        "bindCount" => plan.binds().count().into(),
        "boundPods" => {
            let mut pods: Vec<String> = plan.binds().map(|bind| bind.pod.to_string()).collect();
            pods.sort();
            pods.into()
        }
        "bindCountByPodGroup" => counts().map(|(group, count)| (group, Value::from(count))).collect(),
        "evicted" => Value::Array(Vec::new()),
        "evictCountByPodGroup" => Value::Object(serde_json::Map::new()),
        "pipelined" => expected
            .as_object()
            .into_iter()
            .flatten()
            .map(|(group, _)| {
                let of = plan
                    .transactions
                    .iter()
                    .filter(|t| *t.pod_group == **group)
                    .flat_map(|t| &t.pipelined);
                let mut nodes: Vec<&str> = of.map(|bind| &*bind.node).collect();
                nodes.sort_unstable();
                nodes.dedup();
                (group.clone(), Value::from(nodes))
            })
            .collect(),
        "podGroupPhase" => expected
            .as_object()
            .into_iter()
            .flatten()
            .map(|(group, _)| {
                (
                    group.clone(),
                    Value::from(phases.get(&**group).map(|phase| format!("{phase:?}"))),
                )
            })
            .collect(),
        _ => Value::from("not supported"),
    }
}

/// Equal, where a list of nodes means any of them, and zero counts need not be written.
fn matches(key: &str, expected: &Value, seen: &Value) -> bool {
    let (Some(expected), Some(seen)) = (expected.as_object(), seen.as_object()) else {
        let sorted = |value: &Value| {
            let mut texts: Vec<String> = value.as_array().into_iter().flatten().map(Value::to_string).collect();
            texts.sort();
            texts
        };
        return if expected.is_array() {
            sorted(expected) == sorted(seen)
        } else {
            expected == seen
        };
    };
    let expected: BTreeMap<&String, &Value> = expected.iter().filter(|(_, value)| **value != 0).collect();
    expected.len() == seen.len()
        && expected
            .iter()
            .all(|(name, expected)| match (seen.get(*name), expected) {
                (Some(Value::Array(seen)), Value::Array(expected)) => {
                    seen.is_empty() == expected.is_empty() && seen.iter().all(|node| expected.contains(node))
                }
                (Some(seen), Value::Array(any)) if key == "binds" => any.contains(seen),
                (Some(seen), expected) => seen == *expected,
                (None, _) => false,
            })
}
