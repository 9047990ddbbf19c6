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
fn volcano_1706_re_apply_refused() {
    let manifest = json!({"tasks": [{"replicas": 2, "template": {"spec": {"hostNetwork": true}}}]});
    let stored = filled(manifest.clone()).expect("filled in");
    let mut row = build("create", stored["spec"].clone());
    row.old = row.object.clone();
    row.object.as_mut().expect("object")["spec"]["tasks"] = manifest["tasks"].clone();
    let decision = decide(&row);
    assert_eq!(decision.verdict, basalt_admission::Verdict::Allow);
    assert_eq!(decision.object.expect("filled in")["spec"], stored["spec"]);
}

/// In Volcano a task in partitions cannot be scaled: its replicas must match a policy that cannot change.
#[test]
fn volcano_partitioned_task_cannot_be_scaled() {
    let task = json!({"name": "a", "replicas": 4, "partitionPolicy": {"totalPartitions": 2, "partitionSize": 2}});
    let edit = json!([{"minAvailable": 1, "tasks": [task]}, {"/tasks/0/replicas": 10}]);
    let object = decide(&build("from", edit)).object.expect("filled in");
    assert_eq!(
        object["spec"]["tasks"][0]["partitionPolicy"]["totalPartitions"],
        json!(5)
    );
}

/// A claim's name that the controller wrote down is not lost when the manifest is applied again.
#[test]
fn a_claims_name_stays() {
    let claim = json!({"mountPath": "/d", "volumeClaim": {"accessModes": ["ReadWriteOnce"]}});
    let mut named = claim.clone();
    named["volumeClaimName"] = json!("train-pvc");
    let row = build("from", json!([{"volumes": [named]}, {"/volumes": [claim]}]));
    let object = decide(&row).object.expect("filled in");
    assert_eq!(object["spec"]["volumes"], json!([named]));
    assert_eq!(Some(object), row.old, "nothing has changed");
}

/// What is of another type is not filled in over: the schema must see it.
#[test]
fn a_value_of_another_type_is_kept() {
    let object = filled(json!({"queue": 7, "tasks": [{"name": 7, "replicas": 1}]})).expect("filled in");
    assert_eq!(
        (&object["spec"]["queue"], &object["spec"]["tasks"][0]["name"]),
        (&json!(7), &json!(7))
    );
}

#[test]
fn arguments_that_nobody_reads_are_warned_of() {
    let warnings = |plugins: Value| {
        let spec = json!({"tasks": [{"name": "a", "replicas": 1}], "plugins": plugins});
        let decision = decide(&build("create", spec));
        assert_eq!(decision.verdict, basalt_admission::Verdict::Allow);
        decision.warnings
    };
    assert_eq!(
        warnings(json!({"svc": ["--publish-not-ready-addresses=true"]})),
        [""; 0]
    );
    let told = warnings(json!({"svc": ["--teleport=true"]}));
    assert!(
        told.len() == 1 && told[0].contains("Job default/train") && told[0].contains("--teleport"),
        "{told:?}"
    );
    let told = warnings(json!({"pytorch": ["--port=many"]}));
    assert!(told.iter().any(|told| told.contains("--port")), "{told:?}");
    assert!(told.iter().any(|told| told.contains("\"master\"")), "{told:?}");
}

/// The refusal names the object, the field, both numbers and what to do.
#[test]
fn texts_name_both_numbers_and_what_to_do() {
    let check = |what: &str, details: Value, parts: &[&str]| {
        let message = crate::table::refusal(&build(what, details)).expect("refused").message;
        for part in parts.iter().chain(&["Job default/train"]) {
            assert!(message.contains(part), "{part:?} is missing in: {message}");
        }
    };
    let task = json!({"name": "a", "replicas": 2});
    check(
        "create",
        json!({"minAvailable": 3, "tasks": [task]}),
        &["spec.minAvailable is 3", "have 2 replicas", "lower minAvailable"],
    );
    check(
        "create",
        json!({"minSuccess": 3, "tasks": [task]}),
        &["spec.minSuccess is 3", "2 replicas", "from 1 to 2"],
    );
    check(
        "from",
        json!([{"minSuccess": 2}, {"/tasks/1/replicas": 0, "/minAvailable": 1}]),
        &["minSuccess is 2", "with 1 replicas", "keep at least 2"],
    );
    check(
        "edit",
        json!({"/queue": "team-a"}),
        &["spec.queue is \"team-a\", was \"default\"", "create a new job"],
    );
    check(
        "edit",
        json!({"/maxRetry": 5, "/queue": "team-a"}),
        &["spec.maxRetry is 5, was 3", "spec.queue is"],
    );
    let partitions = json!({"totalPartitions": 2, "partitionSize": 2});
    check(
        "create",
        json!({"tasks": [{"name": "a", "replicas": 5, "partitionPolicy": partitions}]}),
        &["5 replicas", "2 partitions of 2 pods are 4", "multiple of 2"],
    );
}

/// The body of a request has three megabytes: neither its dependencies nor its faults may cost more than a look each.
#[test]
fn ten_thousand_tasks_are_judged_at_once() {
    let task = |index: usize| json!({"name": format!("t{index}"), "replicas": 1, "dependsOn": {"name": [format!("t{}", index + 1)]}});
    let mut tasks: Vec<Value> = (0..10_000).map(task).collect();
    tasks[9_999]["dependsOn"] = Value::Null;
    let begun = std::time::Instant::now();
    assert_eq!(
        decide(&build("create", json!({"tasks": tasks}))).verdict,
        basalt_admission::Verdict::Allow
    );
    tasks[9_999]["dependsOn"] = json!({"name": ["t0"]});
    for task in &mut tasks {
        task["maxRetry"] = json!(-1);
    }
    let message = crate::table::refusal(&build("create", json!({"tasks": tasks})))
        .expect("refused")
        .message;
    assert!(
        message.len() < 20_000 && message.contains("more faults"),
        "{} characters",
        message.len()
    );
    assert!(
        begun.elapsed() < std::time::Duration::from_secs(10),
        "{:?}",
        begun.elapsed()
    );
}

fn warned(spec: Value) -> Vec<String> {
    let decision = decide(&build("create", spec));
    assert_eq!(decision.verdict, basalt_admission::Verdict::Allow);
    decision.warnings
}

/// Volcano #2298, #2944: pods of a task that waits for another do not exist when the job starts, and the job never did.
#[test]
fn volcano_2298_depends_on_never_starts_with_the_default_minimum() {
    let check = |tasks: Value, expected: i64| {
        let spec = filled(json!({"tasks": tasks})).expect("filled in")["spec"].clone();
        assert_eq!(spec["minAvailable"], json!(expected), "{tasks}");
        assert_eq!(warned(spec), [""; 0]);
    };
    let after = json!({"name": ["a"]});
    check(
        json!([{"name": "a", "replicas": 2}, {"name": "b", "replicas": 3, "dependsOn": after}]),
        2,
    );
    check(
        json!([{"name": "a", "replicas": 2, "minAvailable": 1}, {"name": "b", "replicas": 3, "dependsOn": after}]),
        1,
    );
    check(
        json!([{"name": "a", "replicas": 2}, {"name": "b", "replicas": 3, "dependsOn": {"name": []}}]),
        5,
    );
    // Written, it is the user's, and told of where it cannot be.
    let spec = |min: i64| json!({"minAvailable": min, "tasks": [{"name": "a", "replicas": 2, "minAvailable": 1}, {"name": "b", "replicas": 3, "dependsOn": after}]});
    assert_eq!(warned(spec(2)), [""; 0]);
    let told = warned(spec(3));
    assert!(
        told.len() == 1 && told[0].contains("minAvailable is 3, but only 2 pods"),
        "{told:?}"
    );
}

#[test]
fn policies_that_can_never_act_are_warned_of() {
    let check = |job: Value, task: Value, expected: &[&str]| {
        let told = warned(json!({"policies": job, "tasks": [{"name": "a", "replicas": 1, "policies": task}]}));
        let all = told
            .iter()
            .zip(expected)
            .all(|(told, expected)| told.contains(expected));
        assert!(told.len() == expected.len() && all, "{told:?}");
    };
    let policy = |event: &str| json!([{"event": event, "action": "RestartJob"}]);
    let late = |event: &str| json!([{"event": event, "action": "RestartJob", "timeout": "10s"}]);
    check(policy("JobUpdated"), policy("PodFailed"), &[]);
    check(policy("Unknown"), policy("*"), &[]);
    check(
        json!([]),
        policy("JobUpdated"),
        &["spec.tasks[0] (a).policies[0] is for JobUpdated"],
    );
    check(
        json!([]),
        policy("Unknown"),
        &["is for Unknown, which happens to a job"],
    );
    check(
        late("JobUpdated"),
        json!([]),
        &["spec.policies[0].timeout is \"10s\", but"],
    );
    check(late("PodPending"), json!([]), &[]);
}
