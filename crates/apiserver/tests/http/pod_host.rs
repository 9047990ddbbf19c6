//! A server whose pods are hosted by a script: what the tests of logs and of commands share.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::scripted::Scripted;
use crate::world::World;

pub(crate) const PODS: &str = "/api/v1/namespaces/default/pods";

pub(crate) async fn world() -> (World, Scripted) {
    let world = World::new().await;
    let host = Scripted::default();
    world.server.set_host(Arc::new(host.clone()));
    (world, host)
}

/// A pod with these containers, each with the state that its name begins with.
pub(crate) async fn pod(world: &World, name: &str, node: &str, containers: &[&str], annotations: Value) {
    let list: Vec<Value> = containers
        .iter()
        .map(|name| json!({"name": name, "image": "x"}))
        .collect();
    let object = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "annotations": annotations},
        "spec": {"nodeName": node, "containers": list,
            "initContainers": [{"name": "running-init", "image": "x"}]}});
    world.made(PODS, object).await;
    let statuses: Vec<Value> = containers
        .iter()
        .map(|name| {
            let ended = json!({"terminated": {"exitCode": 0, "reason": "Completed"}});
            let (state, last) = match name.split('-').next() {
                Some("running") => (json!({"running": {}}), json!({})),
                Some("again") => (json!({"running": {}}), ended),
                Some("crash") => (json!({"waiting": {"reason": "CrashLoopBackOff"}}), ended),
                Some("ended") => (ended, json!({})),
                Some("silent") => (json!({}), json!({})),
                _ => (json!({"waiting": {"reason": "PodInitializing"}}), json!({})),
            };
            json!({"name": name, "image": "x", "imageID": "", "ready": false, "restartCount": 0,
                "state": state, "lastState": last})
        })
        .collect();
    let status = json!({"status": {"phase": "Running", "containerStatuses": statuses}});
    let answer = world.merge(&format!("{PODS}/{name}/status"), status).await;
    assert_eq!(answer.code, 200, "{}", answer.body);
}

#[tokio::test]
async fn discovery_lists_both() {
    let (world, _) = world().await;
    let list = world.get("/api/v1").await.body;
    for (name, verbs) in [("pods/log", json!(["get"])), ("pods/exec", json!(["create", "get"]))] {
        let found = list["resources"].as_array().expect("a list");
        let found = found.iter().find(|entry| entry["name"] == name).expect("it is listed");
        assert_eq!(found["verbs"], verbs);
    }
}
