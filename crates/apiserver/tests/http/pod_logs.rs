//! Logs of pods, asked of a host that follows a script.

use std::sync::atomic::Ordering;

use axum::body::Body;
use basalt_apiserver::http::Identity;
use http_body_util::BodyExt;
use serde_json::json;

use crate::pod_host::{PODS, pod, world};
use crate::world::World;

#[tokio::test]
async fn logs_are_of_the_container_that_is_meant() {
    let (world, _) = world().await;
    pod(&world, "one", "n1", &["running"], json!({})).await;
    pod(
        &world,
        "two",
        "n1",
        &["running-a", "again", "crash", "ended", "silent", "waiting"],
        json!({}),
    )
    .await;
    let chosen = json!({"kubectl.kubernetes.io/default-container": "ended"});
    pod(&world, "chosen", "n1", &["running", "ended"], chosen).await;
    pod(&world, "homeless", "", &["silent"], json!({})).await;
    let plain = "LogAsk { follow: false, previous: false, timestamps: false, since: None, tail_lines: None, limit_bytes: None }";
    for (path, code, expected) in [
        ("one/log", 200, format!("n1 running {plain}\n")),
        ("one/log?container=running", 200, format!("n1 running {plain}\n")),
        ("chosen/log", 200, format!("n1 ended {plain}\n")),
        ("two/log?container=crash", 200, format!("n1 crash {plain}\n")),
        (
            "one/log?timestamps=true&tailLines=3&limitBytes=10&sinceTime=2026-01-02T03%3A04%3A05Z",
            200,
            "n1 running LogAsk { follow: false, previous: false, timestamps: true, since: Some(2026-01-02T03:04:05Z), \
             tail_lines: Some(3), limit_bytes: Some(10) }\n"
                .to_owned(),
        ),
        ("two/log?container=again&previous=true", 200, format!("n1 again {plain}\n").replace("previous: false", "previous: true")),
        ("one/log?container=other", 400, "container other is not valid for pod one".to_owned()),
        (
            "two/log",
            400,
            "a container name must be specified for pod two, choose one of: [running-a again crash ended silent waiting] \
             or one of the init containers: [running-init]"
                .to_owned(),
        ),
        (
            "one/log?previous=true",
            400,
            "previous terminated container \"running\" in pod \"one\" not found".to_owned(),
        ),
        (
            "two/log?container=waiting",
            400,
            "container \"waiting\" in pod \"two\" is waiting to start: PodInitializing".to_owned(),
        ),
        (
            "two/log?container=silent",
            400,
            "container \"silent\" in pod \"two\" is waiting to start: ContainerCreating".to_owned(),
        ),
        (
            "homeless/log",
            400,
            "container \"silent\" in pod \"homeless\" is waiting to start: the pod has no node yet".to_owned(),
        ),
        (
            "one/log?tailLines=-1",
            422,
            "PodLogOptions \"\" is invalid: tailLines: Invalid value: -1: must be greater than or equal to 0".to_owned(),
        ),
        (
            "one/log?limitBytes=0",
            422,
            "PodLogOptions \"\" is invalid: limitBytes: Invalid value: 0: must be greater than 0".to_owned(),
        ),
        (
            "one/log?sinceSeconds=1&sinceTime=2026-01-02T03:04:05Z",
            422,
            "PodLogOptions \"\" is invalid: sinceSeconds: Forbidden: at most one of `sinceTime` or `sinceSeconds` may be specified"
                .to_owned(),
        ),
        ("one/log?tailLines=many", 400, "invalid tailLines: \"many\" is not a number".to_owned()),
        ("none/log", 404, "pods \"none\" not found".to_owned()),
    ] {
        let answer = world.get(&format!("{PODS}/{path}")).await;
        let text = answer.body.as_str().unwrap_or_else(|| answer.message());
        assert_eq!((answer.code, text), (code, expected.as_str()), "{path}");
    }
    assert_eq!(world.post(&format!("{PODS}/one/log"), json!({})).await.code, 405);
    let bare = World::new().await;
    pod(&bare, "one", "n1", &["running"], json!({})).await;
    assert_eq!(bare.get(&format!("{PODS}/one/log")).await.code, 400);
}

#[tokio::test]
async fn a_followed_log_ends_with_its_reader_and_with_the_server() {
    let (world, host) = world().await;
    pod(&world, "one", "n1", &["running"], json!({})).await;
    let follow = async || {
        let mut request = http::Request::builder()
            .uri(format!("{PODS}/one/log?follow=true"))
            .body(Body::empty())
            .expect("a request");
        request.extensions_mut().insert(Identity::admin("tester"));
        let mut body = world.raw(request).await.into_body();
        let first = body.frame().await.expect("a frame").expect("data");
        assert!(first.into_data().expect("data").starts_with(b"n1 running"));
        body
    };
    let body = follow().await;
    assert_eq!(host.open.load(Ordering::SeqCst), 1);
    drop(body);
    assert_eq!(host.open.load(Ordering::SeqCst), 0);
    let mut body = follow().await;
    world.server.close();
    assert!(body.frame().await.is_none(), "it ends in order");
}
