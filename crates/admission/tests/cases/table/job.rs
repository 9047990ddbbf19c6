//! Jobs.

use serde_json::{Value, json};

use super::{Row, job, read};

pub(crate) fn rows() -> Vec<Row> {
    read(include_str!("job.txt"), build)
}

/// A stored job: two tasks, defaults filled in.
pub(crate) fn stored() -> Value {
    let template = json!({"spec": {"containers": [{"name": "c", "image": "i"}]}});
    json!({
        "queue": "default", "schedulerName": "volcano", "maxRetry": 3, "minAvailable": 3,
        "tasks": [
            {"name": "a", "replicas": 1, "maxRetry": 3, "template": template},
            {"name": "b", "replicas": 2, "maxRetry": 3, "template": template},
        ],
    })
}

pub(crate) fn build(what: &str, details: Value) -> Row {
    let row = Row::new("batch.volcano.sh", "jobs", "train");
    match what {
        "create" => Row {
            object: Some(job(details)),
            ..row
        },
        "edit" => Row {
            object: Some(job(edited(&details))),
            old: Some(job(stored())),
            ..row
        },
        other => panic!("unknown: {other}"),
    }
}

fn edited(edits: &Value) -> Value {
    let mut spec = stored();
    for (pointer, value) in edits.as_object().expect("pointers") {
        let (parent, key) = pointer.rsplit_once('/').expect("a pointer");
        match spec.pointer_mut(parent).expect("a place") {
            Value::Array(list) => list.insert(key.parse().expect("an index"), value.clone()),
            map => map[key] = value.clone(),
        }
    }
    spec
}
