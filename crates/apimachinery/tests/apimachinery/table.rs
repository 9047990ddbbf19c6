//! Rows as `kubectl get` shows them.

use basalt_apimachinery::table::{Include, JsonPath, Printer, age, render};
use jiff::Timestamp;
use serde_json::{Map, Value, json};

fn now() -> Timestamp {
    "2026-01-01T12:00:00Z".parse().expect("a time")
}

const CREATED: &str = "2026-01-01T11:57:30Z";

#[test]
fn ages_are_short() {
    let check = |seconds: i64, expected: &str| assert_eq!(age(seconds), expected, "{seconds}");
    check(-5, "<invalid>");
    check(-1, "0s");
    check(0, "0s");
    check(119, "119s");
    check(120, "2m");
    check(150, "2m30s");
    check(599, "9m59s");
    check(600, "10m");
    check(3 * 3600 - 1, "179m");
    check(3 * 3600, "3h");
    check(3 * 3600 + 300, "3h5m");
    check(8 * 3600 + 300, "8h");
    check(48 * 3600, "2d");
    check(50 * 3600, "2d2h");
    check(8 * 86_400, "8d");
    check(400 * 86_400, "400d");
    check(730 * 86_400, "2y");
    check(800 * 86_400, "2y70d");
    check(10 * 365 * 86_400, "10y");
}

fn cells(api_version: &str, kind: &str, mut object: Value) -> Value {
    object["metadata"]["creationTimestamp"] = json!(CREATED);
    if object["metadata"]["name"].is_null() {
        object["metadata"]["name"] = json!("x");
    }
    let printer = Printer::builtin(api_version, kind);
    let cells = printer.cells(&object, now());
    assert_eq!(cells.len(), printer.columns().len(), "{kind}");
    let shown = printer
        .columns()
        .iter()
        .zip(cells)
        .filter(|(column, _)| column.priority == 0);
    Value::from(shown.map(|(_, cell)| cell).collect::<Vec<_>>())
}

fn pod(status: Value) -> Value {
    json!({ "spec": { "containers": [{ "name": "a" }, { "name": "b" }] }, "status": status })
}

#[test]
fn pods() {
    let check = |object: Value, expected: Value| assert_eq!(cells("v1", "Pod", object.clone()), expected, "{object}");
    check(
        pod(json!({ "phase": "Pending" })),
        json!(["x", "0/2", "Pending", "0", "2m30s"]),
    );
    let running = json!({ "running": {} });
    check(
        pod(json!({ "phase": "Running", "containerStatuses": [
            { "ready": true, "state": running, "restartCount": 2,
              "lastState": { "terminated": { "finishedAt": "2026-01-01T11:59:00Z" } } },
            { "ready": false, "state": running, "restartCount": 1 }] })),
        json!(["x", "1/2", "Running", "3 (60s ago)", "2m30s"]),
    );
    let ended = |reason: &str, code: i64| json!({ "state": { "terminated": { "reason": reason, "exitCode": code } } });
    check(
        pod(json!({ "phase": "Succeeded", "containerStatuses": [ended("Completed", 0), ended("Completed", 0)] })),
        json!(["x", "0/2", "Completed", "0", "2m30s"]),
    );
    check(
        pod(json!({ "phase": "Failed", "containerStatuses": [ended("", 3), ended("Completed", 0)] })),
        json!(["x", "0/2", "ExitCode:3", "0", "2m30s"]),
    );
    check(
        pod(
            json!({ "phase": "Running", "conditions": [{ "type": "Ready", "status": "True" }],
            "containerStatuses": [ended("Completed", 0), { "ready": true, "state": running }] }),
        ),
        json!(["x", "1/2", "Running", "0", "2m30s"]),
    );
    check(
        pod(json!({ "phase": "Pending", "containerStatuses": [
            { "state": { "waiting": { "reason": "ContainerCreating" } } }] })),
        json!(["x", "0/2", "ContainerCreating", "0", "2m30s"]),
    );
    check(
        pod(json!({ "phase": "Failed", "reason": "Evicted" })),
        json!(["x", "0/2", "Evicted", "0", "2m30s"]),
    );
    check(
        pod(json!({ "phase": "Pending", "conditions": [{ "type": "PodScheduled", "reason": "SchedulingGated" }] })),
        json!(["x", "0/2", "SchedulingGated", "0", "2m30s"]),
    );
    let mut leaving = pod(json!({ "phase": "Running" }));
    leaving["metadata"] = json!({ "deletionTimestamp": CREATED });
    check(leaving, json!(["x", "0/2", "Terminating", "0", "2m30s"]));
    let mut initialising = pod(json!({ "phase": "Pending", "initContainerStatuses": [
        ended("Completed", 0), { "name": "i2", "state": { "waiting": { "reason": "PodInitializing" } } }] }));
    initialising["spec"]["initContainers"] = json!([{ "name": "i1" }, { "name": "i2" }]);
    check(initialising, json!(["x", "0/2", "Init:1/2", "0", "2m30s"]));
    let printer = Printer::builtin("v1", "Pod");
    let wide = json!({ "metadata": { "name": "x" }, "spec": { "nodeName": "n1" }, "status": { "podIPs": [{ "ip": "10.0.0.1" }] } });
    assert_eq!(
        printer.cells(&wide, now())[4..],
        [
            json!("<unknown>"),
            json!("10.0.0.1"),
            json!("n1"),
            json!("<none>"),
            json!("<none>")
        ]
    );
}

#[test]
fn core_kinds() {
    let check = |api_version: &str, kind: &str, object: Value, expected: Value| {
        assert_eq!(cells(api_version, kind, object), expected, "{kind}");
    };
    check(
        "v1",
        "Node",
        json!({ "metadata": { "labels": { "node-role.kubernetes.io/worker": "", "node-role.kubernetes.io/gpu": "" } },
            "spec": { "unschedulable": true },
            "status": { "conditions": [{ "type": "Ready", "status": "True" }], "nodeInfo": { "kubeletVersion": "v1.37.0" } } }),
        json!(["x", "Ready,SchedulingDisabled", "gpu,worker", "2m30s", "v1.37.0"]),
    );
    check(
        "v1",
        "Namespace",
        json!({ "status": { "phase": "Active" } }),
        json!(["x", "Active", "2m30s"]),
    );
    check(
        "v1",
        "ConfigMap",
        json!({ "data": { "a": "", "b": "" }, "binaryData": { "c": "" } }),
        json!(["x", "3", "2m30s"]),
    );
    check(
        "v1",
        "Secret",
        json!({ "type": "Opaque", "data": { "a": "" } }),
        json!(["x", "Opaque", 1, "2m30s"]),
    );
    check("v1", "ServiceAccount", json!({}), json!(["x", "0", "2m30s"]));
    check(
        "v1",
        "Service",
        json!({ "spec": { "type": "NodePort", "clusterIP": "10.0.0.1", "ports": [
            { "port": 80, "protocol": "TCP" }, { "port": 443, "nodePort": 30443, "protocol": "TCP" }] } }),
        json!(["x", "NodePort", "10.0.0.1", "<none>", "80/TCP,443:30443/TCP", "2m30s"]),
    );
    check(
        "v1",
        "PersistentVolumeClaim",
        json!({ "spec": { "volumeName": "v", "storageClassName": "fast" },
            "status": { "phase": "Bound", "capacity": { "storage": "1Gi" }, "accessModes": ["ReadWriteOnce", "ReadOnlyMany"] } }),
        json!(["x", "Bound", "v", "1Gi", "RWO,ROX", "fast", "<unset>", "2m30s"]),
    );
    check(
        "v1",
        "PersistentVolume",
        json!({ "spec": { "capacity": { "storage": "1Gi" }, "accessModes": ["ReadWriteMany"],
            "persistentVolumeReclaimPolicy": "Retain", "claimRef": { "namespace": "n", "name": "c" } }, "status": { "phase": "Bound" } }),
        json!(["x", "1Gi", "RWX", "Retain", "Bound", "n/c", "", "<unset>", "", "2m30s"]),
    );
}

#[test]
fn storage_and_events() {
    let check = |api_version: &str, kind: &str, object: Value, expected: Value| {
        assert_eq!(cells(api_version, kind, object), expected, "{kind}");
    };
    check(
        "storage.k8s.io/v1",
        "StorageClass",
        json!({ "metadata": { "annotations": { "storageclass.kubernetes.io/is-default-class": "true" } }, "provisioner": "p" }),
        json!(["x (default)", "p", "Delete", "Immediate", false, "2m30s"]),
    );
    let event = json!({ "involvedObject": { "kind": "Pod", "name": "p" }, "type": "Warning", "reason": "Failed",
        "message": " no nodes\n", "lastTimestamp": "2026-01-01T11:59:50Z" });
    check(
        "v1",
        "Event",
        event,
        json!(["10s", "Warning", "Failed", "pod/p", "no nodes"]),
    );
    let event = json!({ "regarding": { "kind": "Pod", "name": "p" }, "type": "Normal", "reason": "R", "note": "n",
        "eventTime": "2026-01-01T11:59:50.000000Z" });
    check(
        "events.k8s.io/v1",
        "Event",
        event,
        json!(["10s", "Normal", "R", "pod/p", "n"]),
    );
    check(
        "v1",
        "ResourceQuota",
        json!({ "status": { "hard": { "limits.cpu": "4", "pods": "10", "requests.cpu": "2" }, "used": { "pods": "3" } } }),
        json!(["x", "pods: 3/10, requests.cpu: 0/2", "limits.cpu: 0/4", "2m30s"]),
    );
    check(
        "scheduling.k8s.io/v1",
        "PriorityClass",
        json!({ "value": 7 }),
        json!(["x", 7, false, "2m30s", "PreemptLowerPriority"]),
    );
    check(
        "policy/v1",
        "PodDisruptionBudget",
        json!({ "spec": { "minAvailable": "50%" }, "status": { "disruptionsAllowed": 1 } }),
        json!(["x", "50%", "N/A", 1, "2m30s"]),
    );
}

#[test]
fn other_groups() {
    let check = |api_version: &str, kind: &str, object: Value, expected: Value| {
        assert_eq!(cells(api_version, kind, object), expected, "{kind}");
    };
    check(
        "coordination.k8s.io/v1",
        "Lease",
        json!({ "spec": { "holderIdentity": "me" } }),
        json!(["x", "me", "2m30s"]),
    );
    check(
        "rbac.authorization.k8s.io/v1",
        "RoleBinding",
        json!({ "roleRef": { "kind": "Role", "name": "r" } }),
        json!(["x", "Role/r", "2m30s"]),
    );
    check(
        "rbac.authorization.k8s.io/v1",
        "ClusterRole",
        json!({}),
        json!(["x", CREATED]),
    );
    check(
        "apiextensions.k8s.io/v1",
        "CustomResourceDefinition",
        json!({}),
        json!(["x", CREATED]),
    );
    check(
        "networking.k8s.io/v1",
        "NetworkPolicy",
        json!({ "spec": { "podSelector": { "matchLabels": { "a": "b" } } } }),
        json!(["x", "a=b", "2m30s"]),
    );
    check(
        "v1",
        "Endpoints",
        json!({ "subsets": [{ "addresses": [{ "ip": "1.1.1.1" }, { "ip": "1.1.1.2" }],
        "ports": [{ "port": 80 }, { "port": 81 }] }] }),
        json!(["x", "1.1.1.1:80,1.1.1.1:81,1.1.1.2:80 + 1 more...", "2m30s"]),
    );
    check("discovery.k8s.io/v1", "EndpointSlice", json!({}), json!(["x", "2m30s"]));
}

#[test]
fn custom_columns() {
    let columns = json!([
        { "name": "Weight", "type": "integer", "jsonPath": ".spec.weight" },
        { "name": "State", "type": "string", "jsonPath": ".status.state", "priority": 1 },
        { "name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status" },
        { "name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp" },
        { "name": "Ok", "type": "boolean", "jsonPath": ".status.ok" },
    ]);
    let printer = Printer::custom(&columns).expect("good columns");
    let object = json!({ "metadata": { "name": "q", "creationTimestamp": CREATED }, "spec": { "weight": 3 },
        "status": { "state": "Open", "conditions": [{ "type": "Ready", "status": "True" }], "ok": true } });
    assert_eq!(
        printer.cells(&object, now()),
        [
            json!("q"),
            json!(3),
            json!("Open"),
            json!("True"),
            json!("2m30s"),
            json!(true)
        ]
    );
    let bare = json!({ "metadata": { "name": "q" } });
    assert_eq!(
        printer.cells(&bare, now())[1..],
        [json!(null), json!(null), json!(null), json!(null), json!(null)]
    );
    let plain = Printer::custom(&Value::Null).expect("age only");
    assert_eq!(plain.cells(&object, now()), [json!("q"), json!("2m30s")]);
    let table = render(
        &printer,
        Map::from_iter([("resourceVersion".to_owned(), json!("7"))]),
        [&object],
        now(),
        Include::Metadata,
        true,
    );
    assert_eq!(table["kind"], "Table");
    assert_eq!(table["metadata"]["resourceVersion"], "7");
    assert_eq!(
        table["columnDefinitions"][0],
        json!({ "name": "Name", "type": "string", "format": "name", "description": "", "priority": 0 })
    );
    assert_eq!(table["rows"][0]["object"]["kind"], "PartialObjectMetadata");
    assert_eq!(table["rows"][0]["object"]["metadata"]["name"], "q");
    let rest = render(&printer, Map::new(), [&object], now(), Include::None, false);
    assert_eq!(rest["columnDefinitions"], Value::Null);
    assert_eq!(rest["rows"][0].get("object"), None);
}

#[test]
fn paths_lead_where_they_should() {
    let object = json!({ "a": { "b.c": 1, "list": [{ "k": "x", "v": 1 }, { "k": "y", "v": 2 }], "n": null } });
    let check = |path: &str, expected: Value| {
        let path = JsonPath::parse(path).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(
            Value::from(path.find(&object).into_iter().cloned().collect::<Vec<_>>()),
            expected,
            "{path:?}"
        );
    };
    check(".a.b\\.c", json!([1]));
    check(".a['b.c']", json!([1]));
    check("{.a.list[0].v}", json!([1]));
    check(".a.list[-1].v", json!([2]));
    check(".a.list[*].v", json!([1, 2]));
    check(".a.list[?(@.k=='y')].v", json!([2]));
    check(".a.list[?(@.v!=2)].k", json!(["x"]));
    check(".a.list[?(@.v==2)].k", json!(["y"]));
    check(".a.list[?(@.z)].k", json!([]));
    check(".a.none.deeper", json!([]));
    check(".a.list[9]", json!([]));
    for bad in [".a[", ".a[x]", ".a..b", ".a[?(k==1)]", ".a[?(@.k==y)]"] {
        assert!(JsonPath::parse(bad).is_err(), "{bad}");
    }
}
