//! Watches: raw streams, and kube-rs' reflector through many changes.

use std::pin::pin;

use axum::body::Body;
use basalt_apiserver::http::Identity;
use basalt_apiserver::store::{Backend, Draft, Expect, Key, Options, Write};
use futures::{StreamExt, TryStreamExt};
use http::Request;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::Api;
use kube::runtime::{WatchStreamExt, reflector, watcher};
use serde_json::{Value, json};

use crate::world::{World, config_map, pod};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const PODS: &str = "/api/v1/namespaces/default/pods";

struct Lines {
    body: axum::body::BodyDataStream,
    text: String,
}

impl Lines {
    async fn open(world: &World, path: &str, accept: &str) -> Lines {
        let mut request = Request::builder()
            .uri(path)
            .header("accept", accept)
            .body(Body::empty())
            .expect("a request");
        request.extensions_mut().insert(Identity::admin("tester"));
        let response = world.raw(request).await;
        assert_eq!(response.status(), 200, "{path}");
        Lines {
            body: response.into_body().into_data_stream(),
            text: String::new(),
        }
    }

    /// The next event; none at the end of the stream.
    async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some((line, rest)) = self.text.split_once('\n') {
                let event = serde_json::from_str(line).expect("a line of JSON");
                let consumed = self.text.len() - rest.len();
                self.text.drain(..consumed);
                return Some(event);
            }
            let piece = self.body.try_next().await.expect("a stream")?;
            self.text.push_str(std::str::from_utf8(&piece).expect("text"));
        }
    }

    async fn expect(&mut self, kind: &str, name: &str) -> Value {
        let event = self.next().await.expect("an event");
        assert_eq!(
            (&event["type"], &event["object"]["metadata"]["name"]),
            (&json!(kind), &json!(name)),
            "{event}"
        );
        event
    }
}

#[tokio::test]
async fn selection_makes_added_and_deleted() {
    let world = World::new().await;
    let from = world.server.store().revision();
    let path = format!("{PODS}?watch=true&resourceVersion={from}&labelSelector=app%3Dx");
    let mut lines = Lines::open(&world, &path, "application/json").await;
    world.made(PODS, pod("other")).await;
    let label = |value: Value| json!({"metadata": {"labels": {"app": value}}});
    world.made(PODS, pod("p")).await;
    let entered = world.merge(&format!("{PODS}/p"), label(json!("x"))).await.body;
    let event = lines.expect("ADDED", "p").await;
    assert_eq!(event["object"], entered);
    world
        .merge(&format!("{PODS}/p"), json!({"metadata": {"annotations": {"a": "b"}}}))
        .await;
    lines.expect("MODIFIED", "p").await;
    let left = world.merge(&format!("{PODS}/p"), label(json!("y"))).await.body;
    let event = lines.expect("DELETED", "p").await;
    assert_eq!(
        event["object"]["metadata"]["labels"]["app"], "x",
        "as it was when it was last seen"
    );
    assert_eq!(
        event["object"]["metadata"]["resourceVersion"],
        left["metadata"]["resourceVersion"]
    );
    world.merge(&format!("{PODS}/p"), label(json!("x"))).await;
    lines.expect("ADDED", "p").await;
    world.delete(&format!("{PODS}/p"), json!({})).await;
    lines.expect("DELETED", "p").await;
}

#[tokio::test]
async fn initial_events_end_with_a_bookmark() {
    let world = World::new().await;
    world.made(MAPS, config_map("a")).await;
    world.made(MAPS, config_map("b")).await;
    let path =
        format!("{MAPS}?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true");
    let mut lines = Lines::open(&world, &path, "application/json").await;
    lines.expect("ADDED", "a").await;
    lines.expect("ADDED", "b").await;
    let mark = lines.next().await.expect("a bookmark");
    assert_eq!(
        (&mark["type"], &mark["object"]["kind"]),
        (&json!("BOOKMARK"), &json!("ConfigMap"))
    );
    assert_eq!(
        mark["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"],
        "true"
    );
    world.made(MAPS, config_map("c")).await;
    lines.expect("ADDED", "c").await;
}

#[tokio::test]
async fn watches_get_bookmarks_and_end() {
    let world = World::new().await;
    let path = format!("{MAPS}?watch=true&resourceVersion=0&allowWatchBookmarks=true&timeoutSeconds=1");
    let mut lines = Lines::open(&world, &path, "application/json").await;
    let mut marks = 0;
    while let Some(event) = lines.next().await {
        assert_eq!(event["type"], "BOOKMARK");
        marks += 1;
    }
    assert!(marks >= 1, "{marks}");
}

#[tokio::test]
async fn compaction_is_told() {
    let world = World::new().await;
    for n in 0..5 {
        world.made(MAPS, config_map(&format!("m{n}"))).await;
    }
    world.server.store().compact(world.server.store().revision());
    let mut lines = Lines::open(
        &world,
        &format!("{MAPS}?watch=true&resourceVersion=2"),
        "application/json",
    )
    .await;
    let event = lines.next().await.expect("an event");
    assert_eq!(
        (&event["type"], &event["object"]["code"], &event["object"]["reason"]),
        (&json!("ERROR"), &json!(410), &json!("Expired"))
    );
    assert_eq!(lines.next().await, None);
}

#[tokio::test]
async fn tables_are_watched_row_by_row() {
    let world = World::new().await;
    let from = world.server.store().revision();
    let accept = "application/json;as=Table;v=v1;g=meta.k8s.io";
    let mut lines = Lines::open(&world, &format!("{PODS}?watch=true&resourceVersion={from}"), accept).await;
    world.made(PODS, pod("p")).await;
    world.delete(&format!("{PODS}/p"), json!({})).await;
    let (first, second) = (lines.next().await.expect("a row"), lines.next().await.expect("a row"));
    assert_eq!(
        (&first["type"], &first["object"]["rows"][0]["cells"][0]),
        (&json!("ADDED"), &json!("p"))
    );
    assert!(
        first["object"]["columnDefinitions"]
            .as_array()
            .is_some_and(|heads| !heads.is_empty())
    );
    assert_eq!(
        (&second["type"], &second["object"]["kind"]),
        (&json!("DELETED"), &json!("Table"))
    );
}

#[tokio::test]
async fn the_end_of_the_server_ends_watches() {
    let world = World::new().await;
    let mut lines = Lines::open(
        &world,
        &format!("{PODS}?watch=true&resourceVersion=0"),
        "application/json",
    )
    .await;
    world.server.close();
    assert_eq!(lines.next().await, None);
}

/// Changes, spread over this many objects.
const CHANGES: usize = 100_000;
const OBJECTS: usize = 500;

/// The write that gives an object its next state: the last round deletes every tenth.
fn change(round: usize, n: usize) -> Write {
    let key = Key::new("configmaps", "default", format!("m{n:03}"));
    let before = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"resourceVersion":""#;
    let after = format!(r#"","name":"m{n:03}","namespace":"default"}},"data":{{"round":"{round}"}}}}"#);
    let draft = Draft::new(before.as_bytes(), after.as_bytes());
    if round + 1 == CHANGES / OBJECTS && n.is_multiple_of(10) {
        Write::Delete {
            key,
            expect: Expect::Present,
            last: draft,
        }
    } else {
        Write::Put {
            key,
            expect: Expect::Any,
            draft,
        }
    }
}

#[tokio::test]
async fn a_reflector_misses_no_change() {
    let world = World::with(Options {
        history_bytes_max: 512 << 20,
        ..Options::new(Backend::Memory)
    })
    .await;
    let maps: Api<ConfigMap> = Api::namespaced(world.client.clone(), "default");
    let (reader, writer) = reflector::store();
    let stream = reflector(writer, watcher(maps, watcher::Config::default())).touched_objects();
    let mut stream = pin!(stream);
    let store = world.server.store();
    let mut written = 0;
    let mut seen = 0;
    while seen < CHANGES {
        // Ahead of the reflector by some rounds, so that it has a backlog to work through.
        while written < CHANGES && written < seen + 8 * OBJECTS {
            let round = written / OBJECTS;
            let writes = (0..OBJECTS).map(|n| change(round, n)).collect();
            store.commit(writes).await.expect("committed");
            written += OBJECTS;
        }
        let touched = stream.next().await.expect("a change").expect("no error");
        let round = touched
            .data
            .as_ref()
            .and_then(|data| data.get("round"))
            .and_then(|round| round.parse().ok());
        // The first list may show any state; from there on each change comes, in order.
        match round {
            Some(round) if seen == 0 => seen = round * OBJECTS + 1,
            round => {
                assert_eq!(round, Some(seen / OBJECTS));
                assert_eq!(touched.metadata.name, Some(format!("m{:03}", seen % OBJECTS)));
                seen += 1;
            }
        }
    }
    let state = reader.state();
    assert_eq!(state.len(), OBJECTS * 9 / 10);
    let last = (CHANGES / OBJECTS - 1).to_string();
    assert!(
        state
            .iter()
            .all(|map| map.data.as_ref().is_some_and(|data| data.get("round") == Some(&last)))
    );
}

#[tokio::test]
async fn a_reflector_can_list_by_watching() {
    let world = World::new().await;
    for n in 0..20 {
        world.made(MAPS, config_map(&format!("m{n}"))).await;
    }
    let maps: Api<ConfigMap> = Api::namespaced(world.client.clone(), "default");
    let (reader, writer) = reflector::store();
    let stream = reflector(writer, watcher(maps, watcher::Config::default().streaming_lists()));
    let mut stream = pin!(stream.touched_objects());
    for _ in 0..20 {
        stream.next().await.expect("an object").expect("no error");
    }
    world.made(MAPS, config_map("later")).await;
    let later = stream.next().await.expect("a change").expect("no error");
    assert_eq!(later.metadata.name.as_deref(), Some("later"));
    assert_eq!(reader.state().len(), 21);
}
