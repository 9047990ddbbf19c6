//! What the server does by itself.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use basalt_admission::{Decision, Operation, Request, Verdict, View};
use basalt_apiserver::http::{AdmissionHook, Server, ServerOptions, index};
use basalt_apiserver::store::{Backend, Draft, Expect, Key, Options, Store, Write};
use futures::FutureExt;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::{DeleteParams, PostParams, PropagationPolicy};
use serde_json::{Value, json};

use crate::world::{Answer, World, config_map, pod};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const PODS: &str = "/api/v1/namespaces/default/pods";

fn owned(mut object: Value, owners: &[&Value]) -> Value {
    let references = owners.iter().map(|owner| {
        json!({"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": owner["metadata"]["name"],
            "uid": owner["metadata"]["uid"], "blockOwnerDeletion": true})
    });
    object["metadata"]["ownerReferences"] = references.collect();
    object
}

#[tokio::test]
async fn dependents_go_with_their_last_owner() {
    let world = World::new().await;
    let (one, two) = (
        world.made(MAPS, config_map("one")).await,
        world.made(MAPS, config_map("two")).await,
    );
    for n in 0..100 {
        world.made(PODS, owned(pod(&format!("p{n}")), &[&one])).await;
    }
    let child = world.made(MAPS, owned(config_map("child"), &[&one, &two])).await;
    world.made(MAPS, owned(config_map("grandchild"), &[&child])).await;
    let start = Instant::now();
    world
        .delete(&format!("{MAPS}/one"), json!({"propagationPolicy": "Background"}))
        .await;
    world
        .until(PODS, |answer| {
            answer.body["items"].as_array().is_some_and(Vec::is_empty)
        })
        .await;
    assert!(start.elapsed().as_secs() < 5, "{:?}", start.elapsed());
    let left = world
        .until(&format!("{MAPS}/child"), |answer| {
            answer.body["metadata"]["ownerReferences"].as_array().map(Vec::len) == Some(1)
        })
        .await;
    assert_eq!(left.body["metadata"]["ownerReferences"][0]["name"], "two");
    world.delete(&format!("{MAPS}/two"), json!({})).await;
    world.gone(&format!("{MAPS}/child")).await;
    world.gone(&format!("{MAPS}/grandchild")).await;
}

#[tokio::test]
async fn an_object_of_a_vanished_owner_goes() {
    let world = World::new().await;
    let owner = world.made(MAPS, config_map("owner")).await;
    world.delete(&format!("{MAPS}/owner"), json!({})).await;
    world.made(MAPS, config_map("owner")).await;
    world.made(PODS, owned(pod("late"), &[&owner])).await;
    world.gone(&format!("{PODS}/late")).await;
    assert_eq!(world.get(&format!("{MAPS}/owner")).await.code, 200);
}

#[tokio::test]
async fn foreground_waits_and_orphan_spares() {
    let world = World::new().await;
    let owner = world.made(MAPS, config_map("owner")).await;
    let mut held = owned(config_map("held"), &[&owner]);
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    world.made(MAPS, held).await;
    world
        .delete(&format!("{MAPS}/owner"), json!({"propagationPolicy": "Foreground"}))
        .await;
    world
        .until(&format!("{MAPS}/held"), |answer| {
            answer.body["metadata"]["deletionTimestamp"].is_string()
        })
        .await;
    let waiting = world.get(&format!("{MAPS}/owner")).await.body;
    assert_eq!(waiting["metadata"]["finalizers"], json!(["foregroundDeletion"]));
    world
        .merge(&format!("{MAPS}/held"), json!({"metadata": {"finalizers": null}}))
        .await;
    world.gone(&format!("{MAPS}/owner")).await;

    let owner = world.made(MAPS, config_map("owner")).await;
    world.made(MAPS, owned(config_map("spared"), &[&owner])).await;
    world
        .delete(&format!("{MAPS}/owner"), json!({"propagationPolicy": "Orphan"}))
        .await;
    world.gone(&format!("{MAPS}/owner")).await;
    let spared = world.get(&format!("{MAPS}/spared")).await;
    assert_eq!(
        (spared.code, spared.body["metadata"].get("ownerReferences")),
        (200, None)
    );
}

/// A server without its workers.
async fn idle() -> Server {
    let store = Store::open(Options {
        indexer: index,
        ..Options::new(Backend::Memory)
    })
    .expect("a store");
    let server = Server::new(store, ServerOptions::default());
    server.bootstrap().await.expect("bootstrap");
    server
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nothing_is_let_go_before_everything_is_known() {
    let server = idle().await;
    let maps: kube::Api<ConfigMap> = kube::Api::default_namespaced(server.client("tester"));
    let owner: ConfigMap = serde_json::from_value(config_map("owner")).expect("a config map");
    let owner = maps.create(&PostParams::default(), &owner).await.expect("an owner");
    let owner = serde_json::to_value(owner).expect("JSON");
    let pods: kube::Api<Pod> = kube::Api::default_namespaced(server.client("tester"));
    for n in 0..300 {
        let spared = owned(pod(&format!("spared-{n}")), &[&owner]);
        let spared: Pod = serde_json::from_value(spared).expect("a pod");
        pods.create(&PostParams::default(), &spared).await.expect("a pod");
    }
    let orphan = DeleteParams {
        propagation_policy: Some(PropagationPolicy::Orphan),
        ..DeleteParams::default()
    };
    maps.delete("owner", &orphan).await.expect("deleted");
    let world = World::over(server);
    world.gone(&format!("{MAPS}/owner")).await;
    let left = world.get(PODS).await.body["items"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    assert_eq!(left.len(), 300);
    assert!(left.iter().all(|pod| pod["metadata"].get("ownerReferences").is_none()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn dependents_made_just_before_are_spared() {
    let world = World::new().await;
    for n in 0..200 {
        let owner = world.made(MAPS, config_map("owner")).await;
        let spared = format!("spared-{n}");
        world.made(PODS, owned(pod(&spared), &[&owner])).await;
        world
            .delete(&format!("{MAPS}/owner"), json!({"propagationPolicy": "Orphan"}))
            .await;
        world.gone(&format!("{MAPS}/owner")).await;
        let left = world.get(&format!("{PODS}/{spared}")).await.body;
        assert!(left["metadata"]["uid"].is_string(), "{left}");
        assert!(left["metadata"].get("ownerReferences").is_none(), "{left}");
    }
}

/// Gives the object a new owner in the very moment in which it is about to be deleted.
struct Adoption {
    store: Store,
    /// What to write instead of what.
    swaps: Mutex<Vec<(String, String)>>,
}

impl AdmissionHook for Adoption {
    fn concerns(&self, _: &str, resource: &str) -> bool {
        resource == "configmaps"
    }

    fn admit(&self, request: &Request<'_>, _: &View) -> Decision {
        let swaps = match (request.operation, request.name) {
            (Operation::Delete, "child") => std::mem::take(&mut *self.swaps.lock().expect("a lock")),
            _ => Vec::new(),
        };
        if !swaps.is_empty() {
            let key = Key::new("configmaps", "default", "child");
            let child = self.store.head(&key).expect("the child");
            let text = String::from_utf8(child.body.to_vec()).expect("text");
            let revision = format!("\"{}\"", child.revision);
            let (before, after) = text.split_once(&revision).expect("a revision");
            let mut after = format!("\"{after}");
            for (old, new) in swaps {
                after = after.replace(&old, &new);
            }
            let draft = Draft::new(format!("{before}\"").as_bytes(), after.as_bytes());
            let expect = Expect::Present;
            let writes = vec![Write::Put { key, expect, draft }];
            let done = self.store.commit(writes).now_or_never();
            done.expect("memory is quick").expect("stored");
        }
        Decision {
            object: None,
            warnings: Vec::new(),
            verdict: Verdict::Allow,
        }
    }
}

#[tokio::test]
async fn an_object_adopted_at_the_last_moment_stays() {
    let store = Store::open(Options {
        indexer: index,
        ..Options::new(Backend::Memory)
    })
    .expect("a store");
    let hook = Arc::new(Adoption {
        store: store.clone(),
        swaps: Mutex::default(),
    });
    let options = ServerOptions {
        admission: hook.clone(),
        ..ServerOptions::default()
    };
    let server = Server::new(store, options);
    server.bootstrap().await.expect("bootstrap");
    let world = World::over(server);
    let (one, two) = (
        world.made(MAPS, config_map("one")).await,
        world.made(MAPS, config_map("two")).await,
    );
    world.made(MAPS, owned(config_map("child"), &[&one])).await;
    let uid = |owner: &Value| owner["metadata"]["uid"].as_str().expect("a uid").to_owned();
    let names = ("\"name\":\"one\"".to_owned(), "\"name\":\"two\"".to_owned());
    *hook.swaps.lock().expect("a lock") = vec![(uid(&one), uid(&two)), names];
    world.delete(&format!("{MAPS}/one"), json!({})).await;
    let adopted = |answer: &Answer| answer.body["metadata"]["ownerReferences"][0]["name"] == "two";
    world.until(&format!("{MAPS}/child"), adopted).await;
    world.made(MAPS, owned(config_map("late"), &[&one])).await;
    world.gone(&format!("{MAPS}/late")).await;
    assert_eq!(world.get(&format!("{MAPS}/child")).await.code, 200);
    world.delete(&format!("{MAPS}/two"), json!({})).await;
    world.gone(&format!("{MAPS}/child")).await;
}

#[tokio::test]
async fn an_owner_that_cannot_be_looked_up_keeps_what_it_owns() {
    let world = World::new().await;
    let owner = world.made(MAPS, config_map("owner")).await;
    let classes = "/apis/scheduling.k8s.io/v1/priorityclasses";
    let class = |name: &str| json!({"metadata": {"name": name}, "value": 7});
    // Nothing says in which namespace the owner of an object without one is.
    world.made(classes, owned(class("kept"), &[&owner])).await;
    let gone = world.made(classes, class("gone")).await;
    world.delete(&format!("{classes}/gone"), json!({})).await;
    world.made(classes, owned(class("later"), &[&gone])).await;
    world.gone(&format!("{classes}/later")).await;
    assert_eq!(world.get(&format!("{classes}/kept")).await.code, 200);
}

#[tokio::test]
async fn a_namespace_is_emptied_first() {
    let world = World::new().await;
    world
        .made("/api/v1/namespaces", json!({"metadata": {"name": "space"}}))
        .await;
    world
        .until("/api/v1/namespaces/space/serviceaccounts/default", |answer| {
            answer.code == 200
        })
        .await;
    for n in 0..50 {
        world.made("/api/v1/namespaces/space/pods", pod(&format!("p{n}"))).await;
    }
    let mut held = config_map("held");
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    world.made("/api/v1/namespaces/space/configmaps", held).await;
    let going = world.delete("/api/v1/namespaces/space", json!({})).await.body;
    assert_eq!(going["status"]["phase"], "Terminating");
    let status = json!({"status": {"phase": "Active"}});
    let revived = world.merge("/api/v1/namespaces/space/status", status).await.body;
    assert_eq!(revived["status"]["phase"], "Terminating", "{revived}");
    let refused = world.post("/api/v1/namespaces/space/pods", pod("late")).await;
    assert_eq!((refused.code, refused.reason()), (403, "Forbidden"));
    assert!(
        refused.message().contains("because it is being terminated"),
        "{}",
        refused.message()
    );
    world
        .until("/api/v1/namespaces/space/pods", |answer| {
            answer.body["items"].as_array().is_some_and(Vec::is_empty)
        })
        .await;
    assert_eq!(world.get("/api/v1/namespaces/space").await.code, 200);
    world
        .merge(
            "/api/v1/namespaces/space/configmaps/held",
            json!({"metadata": {"finalizers": null}}),
        )
        .await;
    world.gone("/api/v1/namespaces/space").await;
    assert!(
        world
            .server
            .store()
            .list("serviceaccounts", Some("space"))
            .objects
            .is_empty()
    );
}

#[tokio::test]
async fn a_namespace_made_anew_is_not_emptied() {
    let world = World::new().await;
    let (space, maps) = ("/api/v1/namespaces/space", "/api/v1/namespaces/space/configmaps");
    let namespace = |name: &str| json!({"metadata": {"name": name}});
    world.made("/api/v1/namespaces", namespace("space")).await;
    let mut held = config_map("held");
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    world.made(maps, held).await;
    world.delete(space, json!({})).await;
    world
        .until(&format!("{maps}/held"), |answer| {
            answer.body["metadata"]["deletionTimestamp"].is_string()
        })
        .await;
    // Somebody does not wait for the content, and makes the namespace again.
    let mut going = world.get(space).await.body;
    going["spec"]["finalizers"] = json!([]);
    world.put(&format!("{space}/finalize"), going).await;
    world.gone(space).await;
    world.made("/api/v1/namespaces", namespace("space")).await;
    world.made(maps, config_map("new")).await;
    world
        .merge(&format!("{maps}/held"), json!({"metadata": {"finalizers": null}}))
        .await;
    // Another namespace comes and goes, so the worker has had its turn.
    world.made("/api/v1/namespaces", namespace("other")).await;
    world.delete("/api/v1/namespaces/other", json!({})).await;
    world.gone("/api/v1/namespaces/other").await;
    assert_eq!(world.get(&format!("{maps}/new")).await.code, 200);
    assert_eq!(world.get(space).await.body["status"]["phase"], "Active");
}

#[tokio::test]
async fn claims_get_volumes() {
    let world = World::new().await;
    let claims = "/api/v1/namespaces/default/persistentvolumeclaims";
    let claim = json!({"metadata": {"name": "c"}, "spec": {"accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}}}});
    let made = world.made(claims, claim).await;
    assert_eq!(made["spec"]["storageClassName"], "standard");
    let bound = world
        .until(&format!("{claims}/c"), |answer| {
            answer.body["status"]["phase"] == "Bound"
        })
        .await
        .body;
    let volume = format!(
        "/api/v1/persistentvolumes/{}",
        bound["spec"]["volumeName"].as_str().expect("a volume")
    );
    let found = world.get(&volume).await.body;
    assert_eq!(
        (&found["status"]["phase"], &found["spec"]["claimRef"]["name"]),
        (&json!("Bound"), &json!("c"))
    );
    world.delete(&format!("{claims}/c"), json!({})).await;
    world.gone(&volume).await;
}

#[tokio::test]
async fn old_events_go() {
    let hours = Arc::new(AtomicI64::new(0));
    let clock = {
        let hours = hours.clone();
        Arc::new(move || jiff::Timestamp::UNIX_EPOCH + jiff::SignedDuration::from_hours(hours.load(Ordering::Relaxed)))
    };
    let store = Store::open(Options {
        indexer: index,
        ..Options::new(Backend::Memory)
    })
    .expect("a store");
    let server = Server::new(
        store,
        ServerOptions {
            clock,
            event_ttl: Duration::from_secs(5),
            ..ServerOptions::default()
        },
    );
    server.bootstrap().await.expect("bootstrap");
    let world = World::over(server);
    let events = "/api/v1/namespaces/default/events";
    let event =
        |name: &str| json!({"metadata": {"name": name}, "involvedObject": {"kind": "Pod", "namespace": "default"}});
    world.made(events, event("old")).await;
    hours.store(1, Ordering::Relaxed);
    world.made(events, event("new")).await;
    world.gone(&format!("{events}/old")).await;
    assert_eq!(world.get(&format!("{events}/new")).await.code, 200);
}
