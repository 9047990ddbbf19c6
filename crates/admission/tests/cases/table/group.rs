//! PodGroups and pods, deliveries apart.

use serde_json::{Value, json};

use super::{Row, read};

pub(crate) fn rows() -> Vec<Row> {
    read(include_str!("group.txt"), build)
}

fn group(spec: &Value) -> Value {
    json!({"metadata": {"name": "pg", "namespace": "default"}, "spec": spec})
}

pub(crate) fn build(what: &str, details: Value) -> Row {
    let row = Row::new("scheduling.volcano.sh", "podgroups", "pg");
    match what {
        "group" => Row {
            object: Some(group(&details)),
            ..row
        },
        "regroup" => Row {
            object: Some(group(&details[1])),
            old: Some(group(&details[0])),
            ..row
        },
        "pod" => {
            let metadata = json!({"name": "p", "namespace": "default", "annotations": details[0]});
            let scheduler = details.get(1).cloned().unwrap_or(json!("volcano"));
            Row {
                object: Some(json!({"metadata": metadata, "spec": {"schedulerName": scheduler}})),
                ..Row::new("", "pods", "p")
            }
        }
        other => panic!("unknown: {other}"),
    }
}
