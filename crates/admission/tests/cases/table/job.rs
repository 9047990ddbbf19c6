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
        "edit" => edit(stored(), &details),
        "from" => {
            let mut spec = stored();
            for (key, value) in details[0].as_object().expect("fields") {
                spec[key] = value.clone();
            }
            edit(job(spec)["spec"].take(), &details[1])
        }
        "named" => {
            let mut object = job(details[1].clone());
            object["metadata"]["name"] = details[0].clone();
            object["metadata"]["generateName"] = details[2].clone();
            let name = details[0].as_str().expect("a name").to_owned();
            Row {
                object: Some(object),
                name,
                ..row
            }
        }
        other => panic!("unknown: {other}"),
    }
}

/// A change of a stored job; the empty pointer is its metadata.
fn edit(stored: Value, edits: &Value) -> Row {
    let mut new = job(stored.clone());
    for (pointer, value) in edits.as_object().expect("pointers") {
        let Some((parent, key)) = pointer.rsplit_once('/') else {
            new["metadata"]
                .as_object_mut()
                .expect("a map")
                .extend(value.as_object().expect("a map").clone());
            continue;
        };
        match new["spec"].pointer_mut(parent).expect("a place") {
            Value::Array(list) => {
                let index: usize = key.parse().expect("an index");
                list.drain(index..list.len().min(index + 1));
                list.insert(index, value.clone());
            }
            map => map[key] = value.clone(),
        }
    }
    Row {
        object: Some(new),
        old: Some(job(stored)),
        ..Row::new("batch.volcano.sh", "jobs", "train")
    }
}
