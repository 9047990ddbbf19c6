//! Jobs: what is filled in.

use serde_json::{Value, json};

use crate::table::decide;
use crate::table::job::{build, stored};

fn filled(spec: Value) -> Option<Value> {
    decide(&build("create", spec)).object
}

#[test]
fn defaults_are_those_of_volcano_except_a_tasks_minimum() {
    let task = json!({"replicas": 2, "template": {"spec": {"hostNetwork": true}}});
    let object = filled(json!({"tasks": [task], "plugins": {"mpi": []}})).expect("defaults were filled in");
    assert_eq!(
        object["spec"],
        json!({
            "queue": "default", "schedulerName": "volcano", "maxRetry": 3, "minAvailable": 2,
            "plugins": {"mpi": [], "ssh": [], "svc": []},
            "tasks": [{
                "name": "default0", "replicas": 2,
                "template": {"spec": {"hostNetwork": true, "dnsPolicy": "ClusterFirstWithHostNet"}},
            }],
        })
    );
}

#[test]
fn defaults_settle_in_one_pass() {
    assert_eq!(filled(stored()), None);
    let partitions = json!({"totalPartitions": 3, "partitionSize": 2, "minPartitions": 2});
    let first = filled(json!({"tasks": [{"name": "a", "replicas": 6, "partitionPolicy": partitions}]}));
    let spec = first.expect("filled in")["spec"].clone();
    assert_eq!(spec["minAvailable"], json!(4));
    assert_eq!(filled(spec), None);
}

/// Volcano #1706: `kubectl apply` of an unchanged manifest replaces `tasks` as a whole, without the
/// defaults, and was refused. Here it comes out as it was stored.
#[test]
fn re_applying_a_manifest_gives_what_was_stored() {
    let manifest = json!({"tasks": [{"replicas": 2, "template": {"spec": {"hostNetwork": true}}}]});
    let stored = filled(manifest.clone()).expect("filled in");
    let mut row = build("create", stored["spec"].clone());
    row.old = row.object.clone();
    row.object.as_mut().expect("object")["spec"]["tasks"] = manifest["tasks"].clone();
    let decision = decide(&row);
    assert_eq!(decision.verdict, basalt_admission::Verdict::Allow);
    assert_eq!(decision.object.expect("filled in")["spec"], stored["spec"]);
}
