//! The API in memory answers as the real one: the same requests, the same codes, the same objects.
//!
//! Uids, versions and times differ, so requests name them by what they are of, and objects are compared without.
//! Of pods the real server keeps many defaults more; what the one in memory keeps must be the same there. The defaults of
//! the other kinds' schemas are written out in the requests.

mod steps;

use std::cell::Cell;

use axum::body::Body;
use basalt_api::resource_kind;
use basalt_apiserver::http::{Identity, Server, ServerOptions, index};
use basalt_apiserver::store::{Backend, Options, Store};
use basalt_sim::{Api, Key, Kind, Request};
use http_body_util::BodyExt;
use jiff::Timestamp;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Value, json};

use steps::{Step, Writer, steps};

/// A side: its objects, its way to do a request.
struct Real {
    server: Server,
    runtime: tokio::runtime::Runtime,
}

impl Real {
    fn new() -> Self {
        let mut options = Options::new(Backend::Memory);
        options.indexer = index;
        let store = Store::open(options).expect("a store in memory opens");
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        let real = Self {
            server: Server::new(store, ServerOptions::default()),
            runtime,
        };
        real.runtime.block_on(real.server.bootstrap()).expect("bootstrap");
        for definition in basalt_api::crd::all() {
            let name = definition.metadata.name.clone().unwrap_or_default();
            if Kind::stored_as(&name).is_some() {
                let body = serde_json::to_value(definition).expect("plain data");
                let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
                let (code, answer) = real.send("POST", path, "application/json", &body);
                assert_eq!(code, 201, "{answer}");
            }
        }
        real
    }

    fn send(&self, method: &str, path: &str, content: &str, body: &Value) -> (u16, Value) {
        let request = http::Request::builder()
            .method(method)
            .uri(path)
            .header("accept", "application/json")
            .header("content-type", content);
        let body = if body.is_null() {
            Body::empty()
        } else {
            Body::from(body.to_string())
        };
        let mut request = request.body(body).expect("a request");
        request.extensions_mut().insert(Identity::admin("tester"));
        self.runtime.block_on(async {
            let response = self.server.clone().handle(request).await;
            let code = response.status().as_u16();
            let bytes = response.into_body().collect().await.expect("a body").to_bytes();
            (code, serde_json::from_slice(&bytes).unwrap_or_default())
        })
    }

    fn get(&self, key: &Key) -> Option<Value> {
        let (code, object) = self.send("GET", &path(key, true), "application/json", &Value::Null);
        (code == 200).then_some(object)
    }

    /// Does the request; the HTTP code.
    fn handle(&self, request: &Request) -> u16 {
        let json = "application/json";
        match request {
            Request::Create { key, object } => self.send("POST", &path(key, false), json, object).0,
            Request::Patch { key, status, merge } => {
                let part = if *status { "/status" } else { "" };
                let path = format!("{}{part}", path(key, true));
                self.send("PATCH", &path, "application/merge-patch+json", merge).0
            }
            Request::Strategic { key, status, patch } => {
                let part = if *status { "/status" } else { "" };
                let path = format!("{}{part}", path(key, true));
                self.send("PATCH", &path, "application/strategic-merge-patch+json", patch)
                    .0
            }
            Request::Delete {
                key,
                uid,
                revision,
                grace,
            } => {
                let mut body = json!({"propagationPolicy": "Background"});
                if let Some(uid) = uid {
                    body["preconditions"]["uid"] = json!(uid);
                }
                if let Some(revision) = revision {
                    body["preconditions"]["resourceVersion"] = json!(revision);
                }
                if let Some(grace) = grace {
                    body["gracePeriodSeconds"] = json!(grace);
                }
                self.send("DELETE", &path(key, true), json, &body).0
            }
            Request::Bind { namespace, binds } => {
                let items = binds.iter().map(|(name, uid, node)| {
                    json!({"metadata": {"name": name, "uid": uid}, "target": {"kind": "Node", "name": node}})
                });
                let items: Vec<Value> = items.collect();
                let path = resource_kind::GANG_BINDING.collection_path(namespace);
                self.send("POST", &path, json, &json!({"items": items})).0
            }
            Request::Event { .. } => 200,
        }
    }
}

fn path(key: &Key, named: bool) -> String {
    let kind = key.kind.resource_kind();
    if named {
        kind.object_path(&key.namespace, &key.name)
    } else {
        kind.collection_path(&key.namespace)
    }
}

/// Takes away what differs from side to side.
fn masked(mut object: Value) -> Value {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("uid");
        metadata.remove("resourceVersion");
        metadata.remove("creationTimestamp");
        if let Some(time) = metadata.get_mut("deletionTimestamp") {
            *time = json!("then");
        }
        for owner in metadata
            .get_mut("ownerReferences")
            .and_then(Value::as_array_mut)
            .into_iter()
            .flatten()
        {
            owner["uid"] = json!("of the owner");
        }
    }
    if let Some(target) = object.get_mut("target") {
        target["uid"] = json!("of the target");
    }
    object
}

fn is_condition_list(list: &[Value]) -> bool {
    !list.is_empty()
        && list
            .iter()
            .all(|item| item["type"].is_string() && item["status"].is_string())
}

/// Whether everything in `part` stands in `whole`.
fn contains(whole: &Value, part: &Value) -> bool {
    match (whole, part) {
        (Value::Object(whole), Value::Object(part)) => part
            .iter()
            .all(|(key, part)| whole.get(key).is_some_and(|whole| contains(whole, part))),
        // Conditions are a map by type: the real server keeps more of them, in another order.
        (Value::Array(whole), Value::Array(part)) if is_condition_list(part) => {
            let is_there = |item: &Value| whole.iter().any(|other| contains(other, item));
            part.iter().all(is_there)
        }
        (Value::Array(whole), Value::Array(part)) => {
            whole.len() == part.len() && whole.iter().zip(part).all(|(whole, part)| contains(whole, part))
        }
        (whole, part) => whole == part,
    }
}

fn begin() -> Api {
    let mut api = Api::default();
    api.set_now(Timestamp::from_second(1_800_000_000).expect("a time"));
    let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}});
    let key = Key::new(Kind::Namespace, "", "default");
    api.handle(&Request::Create { key, object }).expect("a namespace");
    api
}

fn key_of(request: &Request) -> Key {
    match request {
        Request::Create { key, .. }
        | Request::Patch { key, .. }
        | Request::Strategic { key, .. }
        | Request::Delete { key, .. }
        | Request::Event { key, .. } => key.clone(),
        Request::Bind { binds, .. } => Key::new(Kind::Pod, "default", &binds[0].0),
    }
}

/// Does the same on both sides; how many requests were done.
fn compare(real: &Real, case: u32, steps: &[Step]) -> Result<usize, TestCaseError> {
    let mut api = begin();
    let mut done = 0;
    for (at, step) in steps.iter().enumerate() {
        let get = |key: &Key| real.get(key);
        let theirs = Writer { case, get: &get }.request(step);
        let get = |key: &Key| api.get(key).map(|object| (**object).clone());
        let ours = Writer { case, get: &get }.request(step);
        let wanted = real.handle(&theirs);
        let answer = api.handle(&ours);
        let created = matches!(
            step,
            Step::Create(..) | Step::Bind(..) | Step::Owned(..) | Step::Command(..)
        );
        let found = match &answer {
            Ok(_) if created => 201,
            Ok(_) => 200,
            Err(refusal) => refusal.code,
        };
        done += usize::from(answer.is_ok());
        prop_assert_eq!(found, wanted, "step {} {:?}: {:?}", at, step, answer);
        let key = key_of(&ours);
        let wanted = real.get(&key).map(masked);
        let found = api.get(&key).map(|object| masked((**object).clone()));
        if key.kind == Kind::Pod {
            prop_assert_eq!(found.is_some(), wanted.is_some(), "step {} {:?}", at, step);
            if let (Some(found), Some(wanted)) = (found, wanted) {
                prop_assert!(
                    contains(&wanted, &found),
                    "step {} {:?}: {} is not in {}",
                    at,
                    step,
                    found,
                    wanted
                );
            }
        } else {
            prop_assert_eq!(found, wanted, "step {} {:?}", at, step);
        }
    }
    Ok(done)
}

#[test]
fn the_api_in_memory_answers_as_the_real_one() {
    let real = Real::new();
    let (case, tried, done) = (Cell::new(0_u32), Cell::new(0), Cell::new(0));
    let mut runner = TestRunner::new(Config {
        cases: Config::default().cases.min(400),
        failure_persistence: None,
        ..Config::default()
    });
    let result = runner.run(&steps(), |steps| {
        case.set(case.get() + 1);
        tried.set(tried.get() + steps.len());
        done.set(done.get() + compare(&real, case.get(), &steps)?);
        Ok(())
    });
    if let Err(error) = result {
        panic!("{error}");
    }
    let (tried, done) = (tried.get(), done.get());
    println!("{tried} requests, {done} of them done");
    assert!(done * 4 > tried, "of {tried} requests only {done} were done");
}
