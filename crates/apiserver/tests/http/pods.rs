//! Pods: binding, gangs, grace, eviction, priorities.

use serde_json::{Value, json};

use crate::world::{World, pod};

const PODS: &str = "/api/v1/namespaces/default/pods";
const GANGS: &str = "/apis/basalt.sh/v1alpha1/namespaces/default/gangbindings";

fn binding(name: &str, node: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": {"kind": "Node", "name": node}})
}

#[tokio::test]
async fn a_pod_is_bound_once() {
    let world = World::new().await;
    let made = world.made(PODS, pod("p")).await;
    let path = format!("{PODS}/p/binding");
    let mut other = binding("p", "n1");
    other["metadata"]["uid"] = "other".into();
    assert_eq!(world.post(&path, other).await.code, 409);
    let mut right = binding("p", "n1");
    right["metadata"]["uid"] = made["metadata"]["uid"].clone();
    let bound = world.post(&path, right).await;
    assert_eq!(
        (bound.code, &bound.body["status"]),
        (201, &json!("Success")),
        "{}",
        bound.body
    );
    let got = world.get(&format!("{PODS}/p")).await.body;
    assert_eq!(got["spec"]["nodeName"], "n1");
    assert_eq!(
        (
            &got["status"]["conditions"][0]["type"],
            &got["status"]["conditions"][0]["status"]
        ),
        (&json!("PodScheduled"), &json!("True"))
    );
    world.made(PODS, pod("q")).await;
    for (annotations, code) in [
        (json!({"a": 1}), 400),
        (json!({"no good key": "1"}), 422),
        (json!({"a": "x".repeat(300 * 1024)}), 422),
        (json!({"a": "1"}), 201),
    ] {
        let mut wrong = binding("q", "n1");
        wrong["metadata"]["annotations"] = annotations;
        assert_eq!(world.post(&format!("{PODS}/q/binding"), wrong).await.code, code);
    }
    let again = world.post(&path, binding("p", "n2")).await;
    assert_eq!((again.code, again.reason()), (409, "Conflict"));
    assert!(
        again.message().contains("pod p is already assigned to node \"n1\""),
        "{}",
        again.message()
    );
    assert_eq!(
        world
            .post(&format!("{PODS}/none/binding"), binding("none", "n1"))
            .await
            .code,
        404
    );
}

#[tokio::test]
async fn a_gang_is_bound_whole_or_not_at_all() {
    let world = World::new().await;
    for name in ["a", "b", "c"] {
        world.made(PODS, pod(name)).await;
    }
    let gang = |names: &[&str]| json!({"items": names.iter().map(|name| binding(name, "n1")).collect::<Vec<_>>()});
    let node = |pod: Value| pod["spec"]["nodeName"].clone();
    let missing = world.post(GANGS, gang(&["a", "none"])).await;
    assert_eq!((missing.code, missing.reason()), (404, "NotFound"));
    assert_eq!(world.post(GANGS, gang(&["a", "a"])).await.code, 400);
    assert_eq!(world.post(GANGS, gang(&[])).await.code, 400);
    assert_eq!(
        world.post(&format!("{PODS}/c/binding"), binding("c", "n2")).await.code,
        201
    );
    let refused = world.post(GANGS, gang(&["a", "b", "c"])).await;
    assert_eq!((refused.code, &refused.body["details"]["name"]), (409, &json!("c")));
    assert_eq!(node(world.get(&format!("{PODS}/a")).await.body), Value::Null);
    let before = world.server.store().revision();
    assert_eq!(world.post(GANGS, gang(&["a", "b"])).await.code, 201);
    assert_eq!(world.server.store().revision(), before + 2);
    for name in ["a", "b"] {
        assert_eq!(node(world.get(&format!("{PODS}/{name}")).await.body), "n1");
    }
}

#[tokio::test]
async fn a_gang_may_be_larger_than_an_object() {
    let world = World::new().await;
    let names: Vec<String> = (0..1_000).map(|n| format!("p{n}")).collect();
    for name in &names {
        world.made(PODS, pod(name)).await;
    }
    let items = names.iter().map(|name| {
        let mut item = binding(name, "n1");
        item["metadata"]["annotations"] = json!({"note": "x".repeat(4_000)});
        item
    });
    let gang = json!({"items": items.collect::<Vec<_>>()});
    let bound = world.post(GANGS, gang).await;
    assert_eq!(bound.code, 201, "{}", bound.body);
    assert_eq!(world.get(&format!("{PODS}/p999")).await.body["spec"]["nodeName"], "n1");
    let huge = world
        .post(PODS, json!({"metadata": {"name": "x".repeat(4 << 20)}}))
        .await;
    assert_eq!(huge.code, 413);
}

#[tokio::test]
async fn grace_is_for_pods_on_nodes() {
    let world = World::new().await;
    for name in ["free", "bound", "done"] {
        world.made(PODS, pod(name)).await;
    }
    assert_eq!(world.delete(&format!("{PODS}/free"), json!({})).await.code, 200);
    assert_eq!(world.get(&format!("{PODS}/free")).await.code, 404);
    for name in ["bound", "done"] {
        world.post(&format!("{PODS}/{name}/binding"), binding(name, "n1")).await;
    }
    let path = format!("{PODS}/bound");
    let going = world.delete(&path, json!({})).await.body;
    assert_eq!(going["metadata"]["deletionGracePeriodSeconds"], 30);
    let shorter = world.delete(&path, json!({"gracePeriodSeconds": 5})).await.body;
    assert_eq!(shorter["metadata"]["deletionGracePeriodSeconds"], 5);
    let longer = world.delete(&path, json!({"gracePeriodSeconds": 50})).await.body;
    assert_eq!(
        longer["metadata"]["resourceVersion"],
        shorter["metadata"]["resourceVersion"]
    );
    assert_eq!(
        world
            .post(&format!("{path}/binding"), binding("bound", "n1"))
            .await
            .code,
        409
    );
    world
        .send("DELETE", &format!("{path}?gracePeriodSeconds=0"), "", "")
        .await;
    assert_eq!(world.get(&path).await.code, 404);
    world
        .merge(
            &format!("{PODS}/done/status"),
            json!({"status": {"phase": "Succeeded"}}),
        )
        .await;
    world.delete(&format!("{PODS}/done"), json!({})).await;
    assert_eq!(world.get(&format!("{PODS}/done")).await.code, 404);
}

#[tokio::test]
async fn evictions_respect_budgets() {
    let world = World::new().await;
    for name in ["a", "b", "c"] {
        let mut wanted = pod(name);
        wanted["metadata"]["labels"] = json!({"app": "x"});
        world.made(PODS, wanted).await;
        world.post(&format!("{PODS}/{name}/binding"), binding(name, "n1")).await;
        let ready = json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
        world.merge(&format!("{PODS}/{name}/status"), ready).await;
    }
    let budget =
        json!({"metadata": {"name": "b"}, "spec": {"minAvailable": "60%", "selector": {"matchLabels": {"app": "x"}}}});
    world
        .made("/apis/policy/v1/namespaces/default/poddisruptionbudgets", budget)
        .await;
    let path = "/apis/policy/v1/namespaces/default/poddisruptionbudgets/b";
    world
        .until(path, |answer| answer.body["status"]["disruptionsAllowed"] == 1)
        .await;
    let eviction = |name: &str| json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}});
    let evict = |name: &'static str| {
        let (world, body) = (&world, eviction(name));
        async move { world.post(&format!("{PODS}/{name}/eviction"), body).await }
    };
    let codes: Vec<u16> = futures::future::join_all(["a", "b", "c"].map(evict))
        .await
        .iter()
        .map(|got| got.code)
        .collect();
    assert_eq!(codes, [201, 429, 429], "one of three may go while two are needed");
    let refused = world.post(&format!("{PODS}/b/eviction"), eviction("b")).await;
    assert_eq!(
        (refused.reason(), &refused.body["details"]["causes"][0]["reason"]),
        ("TooManyRequests", &json!("DisruptionBudget"))
    );
    assert!(world.get(&format!("{PODS}/a")).await.body["metadata"]["deletionTimestamp"].is_string());
}

#[tokio::test]
async fn priorities_are_resolved() {
    let world = World::new().await;
    let classes = "/apis/scheduling.k8s.io/v1/priorityclasses";
    let mut plain = pod("plain");
    assert_eq!(world.made(PODS, plain.clone()).await["spec"]["priority"], 0);
    world
        .made(
            classes,
            json!({"metadata": {"name": "high"}, "value": 1000, "preemptionPolicy": "Never"}),
        )
        .await;
    let mut high = pod("high");
    high["spec"]["priorityClassName"] = "high".into();
    let made = world.made(PODS, high.clone()).await;
    assert_eq!(
        (&made["spec"]["priority"], &made["spec"]["preemptionPolicy"]),
        (&json!(1000), &json!("Never"))
    );
    world
        .made(
            classes,
            json!({"metadata": {"name": "usual"}, "value": 7, "globalDefault": true}),
        )
        .await;
    plain["metadata"]["name"] = "later".into();
    let made = world.made(PODS, plain).await;
    assert_eq!(
        (&made["spec"]["priority"], &made["spec"]["priorityClassName"]),
        (&json!(7), &json!("usual"))
    );
    high["metadata"]["name"] = "liar".into();
    high["spec"]["priority"] = 5.into();
    let refused = world.post(PODS, high).await;
    assert_eq!((refused.code, refused.reason()), (403, "Forbidden"));
    let mut system = pod("system");
    system["spec"]["priorityClassName"] = "system-node-critical".into();
    assert_eq!(world.made(PODS, system).await["spec"]["priority"], 2_000_001_000);
}

#[tokio::test]
async fn limit_ranges_fill_in() {
    let world = World::new().await;
    let range = json!({"metadata": {"name": "r"}, "spec": {"limits": [{"type": "Container",
        "default": {"cpu": "2"}, "defaultRequest": {"cpu": "1", "memory": "64Mi"}}]}});
    world.made("/api/v1/namespaces/default/limitranges", range).await;
    let made = world.made(PODS, pod("p")).await;
    let resources = &made["spec"]["containers"][0]["resources"];
    assert_eq!(
        resources,
        &json!({"limits": {"cpu": "2"}, "requests": {"cpu": "1", "memory": "64Mi"}})
    );
    assert_eq!(made["status"]["qosClass"], "Burstable");
}

#[tokio::test]
async fn reviews_and_tokens_are_answered() {
    let world = World::new().await;
    let cases = [
        (
            "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
            "SelfSubjectAccessReview",
            "/status/allowed",
            json!(true),
        ),
        (
            "/apis/authorization.k8s.io/v1/subjectaccessreviews",
            "SubjectAccessReview",
            "/status/allowed",
            json!(true),
        ),
        (
            "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews",
            "SelfSubjectRulesReview",
            "/status/incomplete",
            json!(false),
        ),
        (
            "/apis/authentication.k8s.io/v1/selfsubjectreviews",
            "SelfSubjectReview",
            "/status/userInfo/username",
            json!("tester"),
        ),
        (
            "/apis/authentication.k8s.io/v1/tokenreviews",
            "TokenReview",
            "/status/authenticated",
            json!(false),
        ),
    ];
    for (path, kind, pointer, expected) in cases {
        let made = world.made(path, json!({"kind": kind, "spec": {}})).await;
        assert_eq!((&made["kind"], made.pointer(pointer)), (&json!(kind), Some(&expected)));
    }
    let token = world
        .made(
            "/api/v1/namespaces/default/serviceaccounts/default/token",
            json!({"spec": {}}),
        )
        .await;
    assert!(token["status"]["token"].as_str().is_some_and(|token| token.len() > 32));
    assert_eq!(
        world
            .post("/api/v1/namespaces/default/serviceaccounts/none/token", json!({}))
            .await
            .code,
        404
    );
}
