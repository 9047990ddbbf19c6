//! Create, update, patch, delete of ordinary objects.

use serde_json::{Value, json};

use crate::world::{World, config_map, pod};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const PODS: &str = "/api/v1/namespaces/default/pods";

fn revision(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"]
        .as_str()
        .and_then(|text| text.parse().ok())
        .expect("a revision")
}

#[tokio::test]
async fn the_server_owns_metadata() {
    let world = World::new().await;
    let mut map = config_map("a");
    map["metadata"]["managedFields"] = json!([{"manager": "x"}]);
    map["metadata"]["uid"] = "mine".into();
    let made = world.made(&format!("{MAPS}?fieldManager=me"), map).await;
    let metadata = &made["metadata"];
    assert_ne!(metadata["uid"], "mine");
    assert_eq!(metadata["namespace"], "default");
    assert!(
        metadata["creationTimestamp"]
            .as_str()
            .is_some_and(|time| time.ends_with('Z') && time.len() == 20)
    );
    assert!(metadata.get("managedFields").is_none());
    assert_eq!(world.get(&format!("{MAPS}/a")).await.body, made);

    let mut changed = made.clone();
    changed["metadata"]["creationTimestamp"] = "2001-01-01T00:00:00Z".into();
    changed["metadata"]["managedFields"] = json!([]);
    let same = world.put(&format!("{MAPS}/a"), changed.clone()).await;
    assert_eq!(same.body, made, "a change of what the server owns is no change");
    changed["data"]["a"] = "2".into();
    let next = world.put(&format!("{MAPS}/a"), changed.clone()).await;
    assert_eq!(next.code, 200);
    assert!(revision(&next.body) > revision(&made));
    assert_eq!(
        next.body["metadata"]["creationTimestamp"],
        made["metadata"]["creationTimestamp"]
    );
    let stale = world.put(&format!("{MAPS}/a"), changed).await;
    assert_eq!((stale.code, stale.reason()), (409, "Conflict"));
}

#[tokio::test]
async fn names_are_generated() {
    let world = World::new().await;
    let mut map = config_map("");
    map["metadata"] = json!({"generateName": "run-"});
    let (one, two) = (world.made(MAPS, map.clone()).await, world.made(MAPS, map).await);
    let name = |made: &Value| made["metadata"]["name"].as_str().expect("a name").to_owned();
    assert_ne!(name(&one), name(&two));
    assert!(
        name(&one).starts_with("run-") && name(&one).len() == 9,
        "{}",
        name(&one)
    );
}

#[tokio::test]
async fn patches_of_three_kinds() {
    let world = World::new().await;
    world.made(PODS, pod("p")).await;
    let path = format!("{PODS}/p");
    let cases: [(&str, Value, &str, Value); 4] = [
        (
            "merge",
            json!({"metadata": {"labels": {"a": "1"}}}),
            "/metadata/labels/a",
            json!("1"),
        ),
        (
            "json",
            json!([{"op": "add", "path": "/metadata/labels/b", "value": "2"}]),
            "/metadata/labels/b",
            json!("2"),
        ),
        (
            "strategic",
            json!({"spec": {"containers": [{"name": "main", "image": "other"}]}}),
            "/spec/containers/0/image",
            json!("other"),
        ),
        (
            "merge",
            json!({"metadata": {"labels": {"a": null}}}),
            "/metadata/labels",
            json!({"b": "2"}),
        ),
    ];
    for (kind, patch, pointer, expected) in cases {
        let suffix = if kind == "merge" || kind == "strategic" || kind == "json" {
            ""
        } else {
            "?"
        };
        let content_type = match kind {
            "json" => "application/json-patch+json",
            "merge" => "application/merge-patch+json",
            _ => "application/strategic-merge-patch+json",
        };
        let got = world
            .send("PATCH", &format!("{path}{suffix}"), content_type, patch.to_string())
            .await;
        assert_eq!(got.code, 200, "{kind}: {}", got.body);
        assert_eq!(got.body.pointer(pointer), Some(&expected), "{kind}");
    }
    let before = world.get(&path).await.body;
    let nothing = world.merge(&path, json!({"metadata": {"labels": {"b": "2"}}})).await;
    assert_eq!(nothing.body, before, "a patch that changes nothing keeps the revision");
    let stale = world
        .merge(
            &path,
            json!({"metadata": {"resourceVersion": "1", "labels": {"c": "1"}}}),
        )
        .await;
    assert_eq!((stale.code, stale.reason()), (409, "Conflict"));
}

#[tokio::test]
async fn concurrent_patches_all_arrive() {
    let world = World::new().await;
    world.made(MAPS, config_map("a")).await;
    let path = format!("{MAPS}/a");
    let patches = (0..50).map(|n| {
        let body = json!({"data": {format!("k{n}"): "x"}});
        world.merge(&path, body)
    });
    for answer in futures::future::join_all(patches).await {
        assert_eq!(answer.code, 200, "{}", answer.body);
    }
    let data = world.get(&path).await.body["data"].clone();
    assert_eq!(data.as_object().map(serde_json::Map::len), Some(51));
}

#[tokio::test]
async fn status_and_object_are_apart() {
    let world = World::new().await;
    let mut wanted = pod("p");
    wanted["status"] = json!({"phase": "Running"});
    let made = world.made(PODS, wanted).await;
    assert_eq!(
        made["status"]["phase"], "Pending",
        "a new pod begins without a status of its own"
    );
    assert_eq!(made["metadata"]["generation"], 1);
    let path = format!("{PODS}/p");
    let got = world
        .merge(
            &path,
            json!({"status": {"phase": "Running"}, "metadata": {"labels": {"a": "b"}}}),
        )
        .await;
    assert_eq!(
        (&got.body["status"]["phase"], &got.body["metadata"]["labels"]["a"]),
        (&json!("Pending"), &json!("b"))
    );
    let patch = json!({"status": {"phase": "Running"}, "spec": {"activeDeadlineSeconds": 5}});
    let got = world.merge(&format!("{path}/status"), patch).await;
    assert_eq!(got.body["status"]["phase"], "Running");
    assert!(got.body["spec"].get("activeDeadlineSeconds").is_none());
    assert_eq!(got.body["metadata"]["generation"], 1);
    let got = world.merge(&path, json!({"spec": {"activeDeadlineSeconds": 5}})).await;
    assert_eq!(
        (got.code, &got.body["metadata"]["generation"]),
        (200, &json!(2)),
        "{}",
        got.body
    );
}

#[tokio::test]
async fn dry_runs_store_nothing() {
    let world = World::new().await;
    let before = world.server.store().revision();
    let made = world.post(&format!("{MAPS}?dryRun=All"), config_map("a")).await;
    assert_eq!(made.code, 201);
    assert_eq!(world.get(&format!("{MAPS}/a")).await.code, 404);
    assert_eq!(world.server.store().revision(), before);
    world.made(MAPS, config_map("a")).await;
    let patched = world
        .merge(&format!("{MAPS}/a?dryRun=All"), json!({"data": {"b": "2"}}))
        .await;
    assert_eq!(patched.body["data"]["b"], "2");
    let deleted = world.delete(&format!("{MAPS}/a"), json!({"dryRun": ["All"]})).await;
    assert_eq!(deleted.code, 200);
    assert_eq!(world.get(&format!("{MAPS}/a")).await.body["data"], json!({"a": "1"}));
}

#[tokio::test]
async fn unknown_fields_warn_or_are_ignored() {
    let world = World::new().await;
    let mut odd = pod("p");
    odd["spec"]["nonsense"] = 1.into();
    for (name, query, warnings) in [
        ("a", "", 1),
        ("b", "?fieldValidation=Warn", 1),
        ("c", "?fieldValidation=Ignore", 0),
    ] {
        odd["metadata"]["name"] = name.into();
        let got = world.post(&format!("{PODS}{query}"), odd.clone()).await;
        assert_eq!(
            (got.code, got.warnings.len()),
            (201, warnings),
            "{query} {:?}",
            got.warnings
        );
        assert!(got.body["spec"].get("nonsense").is_none());
    }
}

#[tokio::test]
async fn finalizers_hold_and_let_go() {
    let world = World::new().await;
    let mut map = config_map("a");
    map["metadata"]["finalizers"] = json!(["example.com/hold"]);
    world.made(MAPS, map).await;
    let path = format!("{MAPS}/a");
    let going = world.delete(&path, json!({})).await;
    assert_eq!(going.code, 200);
    assert!(
        going.body["metadata"]["deletionTimestamp"].is_string(),
        "{}",
        going.body
    );
    let again = world.delete(&path, json!({})).await;
    assert_eq!(
        again.body["metadata"]["resourceVersion"],
        going.body["metadata"]["resourceVersion"]
    );
    let refused = world
        .merge(
            &path,
            json!({"metadata": {"finalizers": ["example.com/hold", "example.com/more"]}}),
        )
        .await;
    assert_eq!((refused.code, refused.reason()), (422, "Invalid"));
    let gone = world.merge(&path, json!({"metadata": {"finalizers": null}})).await;
    assert_eq!(gone.code, 200);
    assert_eq!(world.get(&path).await.code, 404);
}

#[tokio::test]
async fn collections_are_deleted_by_selector() {
    let world = World::new().await;
    for (name, color) in [("a", "red"), ("b", "red"), ("c", "blue")] {
        let mut map = config_map(name);
        map["metadata"]["labels"] = json!({"color": color});
        world.made(MAPS, map).await;
    }
    let gone = world
        .send("DELETE", &format!("{MAPS}?labelSelector=color%3Dred"), "", "")
        .await;
    assert_eq!(gone.body["items"].as_array().map(Vec::len), Some(2));
    let left = world.get(MAPS).await.body;
    assert_eq!(left["items"].as_array().map(Vec::len), Some(1));
    assert_eq!(left["items"][0]["metadata"]["name"], "c");
}

#[tokio::test]
async fn yaml_bodies_are_read() {
    let world = World::new().await;
    let text = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: yam\ndata:\n  a: \"1\"\n";
    let made = world.send("POST", MAPS, "application/yaml", text).await;
    assert_eq!(
        (made.code, &made.body["data"]["a"]),
        (201, &json!("1")),
        "{}",
        made.body
    );
}

#[tokio::test]
async fn both_groups_of_events_show_the_same_objects() {
    let world = World::new().await;
    let event = json!({"apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "e"},
        "regarding": {"kind": "Pod", "name": "p", "namespace": "default"}, "note": "hello", "reason": "Because",
        "type": "Normal", "action": "Run", "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingController": "basalt.sh/x", "reportingInstance": "x-1"});
    let made = world
        .made("/apis/events.k8s.io/v1/namespaces/default/events", event)
        .await;
    assert_eq!(
        (&made["note"], &made["apiVersion"]),
        (&json!("hello"), &json!("events.k8s.io/v1"))
    );
    let core = world
        .get("/api/v1/namespaces/default/events?fieldSelector=involvedObject.name%3Dp")
        .await
        .body;
    assert_eq!(
        (&core["items"][0]["message"], &core["items"][0]["apiVersion"]),
        (&json!("hello"), &json!("v1"))
    );
    let new = world
        .get("/apis/events.k8s.io/v1/namespaces/default/events?fieldSelector=regarding.name%3Dp")
        .await
        .body;
    assert_eq!(new["items"][0], made);
}

#[tokio::test]
async fn protobuf_bodies_are_read() {
    let field = |number: u8, bytes: &[u8]| [&[number << 3 | 2, bytes.len() as u8], bytes].concat();
    let kind = [field(1, b"v1"), field(2, b"Namespace")].concat();
    let namespace = field(1, &field(1, b"space"));
    let body = [b"k8s\0".to_vec(), field(1, &kind), field(2, &namespace)].concat();
    let world = World::new().await;
    let content_type = "application/vnd.kubernetes.protobuf";
    let made = world.send("POST", "/api/v1/namespaces", content_type, body).await;
    assert_eq!(
        (made.code, &made.body["metadata"]["name"]),
        (201, &json!("space")),
        "{}",
        made.body
    );
    let broken = world.send("POST", "/api/v1/namespaces", content_type, "k8s").await;
    assert_eq!((broken.code, broken.reason()), (400, "BadRequest"));
}
