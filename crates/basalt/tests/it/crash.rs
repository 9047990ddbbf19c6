//! `kill -9` of the real server at random moments while writers work: what was acknowledged is there afterwards,
//! whole, and revisions only grow.
//!
//! `BASALT_CRASH_KILLS` sets the number of kills (a short slice by default; the long run does 200).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use rand::{RngExt, SeedableRng, rngs::StdRng};
use serde_json::json;

use crate::server::Server;

const WRITERS: usize = 8;
const GANG: usize = 4;

/// What one writer was told about one of its objects.
#[derive(Debug, Clone, PartialEq)]
enum Acknowledged {
    Written { counter: u64, revision: u64 },
    Deleted,
}

/// Everything acknowledged so far, by object name. A name with a write in flight may be one step further.
#[derive(Default)]
struct Ledger {
    maps: BTreeMap<String, Acknowledged>,
    in_flight: BTreeMap<String, u64>,
    gangs: BTreeMap<String, bool>,
    highest_revision: u64,
}

type Shared = Arc<Mutex<Ledger>>;

fn revision_of(version: Option<String>) -> u64 {
    version.and_then(|v| v.parse().ok()).expect("revisions are numbers")
}

/// Creates, updates and deletes its own ConfigMaps until the server goes away.
async fn write_maps(client: Client, writer: usize, mut counter: u64, shared: Shared) -> u64 {
    let api: Api<ConfigMap> = Api::default_namespaced(client);
    loop {
        counter += 1;
        let name = format!("w{writer}-{}", counter % 5);
        let known = {
            let mut ledger = shared.lock().expect("no writer panics");
            ledger.in_flight.insert(name.clone(), counter);
            ledger.maps.get(&name).cloned()
        };
        let delete = counter.is_multiple_of(7);
        let outcome = match known {
            Some(Acknowledged::Written { .. }) if delete => api
                .delete(&name, &DeleteParams::default())
                .await
                .map(|_| Acknowledged::Deleted),
            Some(Acknowledged::Written { .. }) => {
                let patch = Patch::Merge(json!({"data": {"counter": counter.to_string()}}));
                api.patch(&name, &PatchParams::default(), &patch)
                    .await
                    .map(|map| written(&map, counter))
            }
            _ => {
                let map: ConfigMap = serde_json::from_value(
                    json!({"metadata": {"name": name}, "data": {"counter": counter.to_string()}}),
                )
                .expect("a config map");
                api.create(&PostParams::default(), &map)
                    .await
                    .map(|map| written(&map, counter))
            }
        };
        let Ok(outcome) = outcome else { return counter };
        let mut ledger = shared.lock().expect("no writer panics");
        if let Acknowledged::Written { revision, .. } = outcome {
            ledger.highest_revision = ledger.highest_revision.max(revision);
        }
        ledger.in_flight.remove(&name);
        ledger.maps.insert(name, outcome);
    }
}

fn written(map: &ConfigMap, counter: u64) -> Acknowledged {
    Acknowledged::Written {
        counter,
        revision: revision_of(map.resource_version()),
    }
}

/// Creates little gangs of pods that nobody schedules and binds each gang as one transaction.
async fn bind_gangs(client: Client, mut round: u64, shared: Shared) -> u64 {
    let api: Api<Pod> = Api::default_namespaced(client.clone());
    loop {
        round += 1;
        let gang = format!("g{round}");
        for member in 0..GANG {
            let pod: Pod = serde_json::from_value(json!({
                "metadata": {"name": format!("{gang}-{member}"), "labels": {"gang": gang}},
                "spec": {"schedulerName": "nobody", "containers": [{"name": "c", "image": "i"}]},
            }))
            .expect("a pod");
            if api.create(&PostParams::default(), &pod).await.is_err() {
                return round;
            }
        }
        shared
            .lock()
            .expect("no writer panics")
            .gangs
            .insert(gang.clone(), false);
        let items: Vec<_> = (0..GANG)
            .map(|member| json!({"metadata": {"name": format!("{gang}-{member}")}, "target": {"kind": "Node", "name": "elsewhere"}}))
            .collect();
        let request = http_post(
            "/apis/basalt.sh/v1alpha1/namespaces/default/gangbindings",
            &json!({"items": items}),
        );
        if client.request_text(request).await.is_err() {
            return round;
        }
        shared.lock().expect("no writer panics").gangs.insert(gang, true);
    }
}

fn http_post(path: &str, body: &serde_json::Value) -> http::Request<Vec<u8>> {
    http::Request::post(path)
        .header("content-type", "application/json")
        .body(serde_json::to_vec(body).expect("JSON"))
        .expect("a request")
}

/// A node that nobody serves, so that what is bound to it stays as it is.
async fn make_room(client: &Client) {
    let node: Node = serde_json::from_value(json!({
        "metadata": {"name": "elsewhere"},
        "status": {"allocatable": {"pods": "1000000"}, "capacity": {"pods": "1000000"}},
    }))
    .expect("a node");
    match Api::<Node>::all(client.clone())
        .create(&PostParams::default(), &node)
        .await
    {
        Ok(_) => {}
        Err(kube::Error::Api(status)) if status.is_already_exists() => {}
        Err(error) => panic!("the node was not made: {error}"),
    }
}

/// [`verify`] on the shared ledger; no writer runs meanwhile.
async fn settle(client: &Client, shared: &Shared) {
    let mut ledger = std::mem::take(&mut *shared.lock().expect("no writer panics"));
    verify(client, &mut ledger).await;
    *shared.lock().expect("no writer panics") = ledger;
}

/// Compares what the restarted server holds with what had been acknowledged, and settles what was in flight.
async fn verify(client: &Client, ledger: &mut Ledger) {
    let maps = Api::<ConfigMap>::default_namespaced(client.clone())
        .list(&ListParams::default())
        .await
        .expect("a list");
    let now = revision_of(maps.metadata.resource_version.clone());
    assert!(
        now >= ledger.highest_revision,
        "revision went back from {} to {now}",
        ledger.highest_revision
    );
    ledger.highest_revision = now;
    let found: BTreeMap<String, Acknowledged> = maps
        .items
        .iter()
        .filter(|map| map.name_any().starts_with('w'))
        .map(|map| {
            let counter = map
                .data
                .as_ref()
                .and_then(|d| d.get("counter"))
                .and_then(|c| c.parse().ok());
            (
                map.name_any(),
                written(map, counter.expect("each map was written whole")),
            )
        })
        .collect();
    for (name, acknowledged) in &ledger.maps {
        let present = found.get(name);
        let same = match acknowledged {
            Acknowledged::Written { .. } => present == Some(acknowledged),
            Acknowledged::Deleted => present.is_none(),
        };
        assert!(
            same || ledger.in_flight.contains_key(name),
            "{name}: acknowledged {acknowledged:?}, found {present:?}"
        );
    }
    for (name, counter) in std::mem::take(&mut ledger.in_flight) {
        match found.get(&name) {
            Some(state) => {
                if let Acknowledged::Written { counter: stored, .. } = state {
                    assert!(
                        *stored <= counter,
                        "{name}: holds {stored}, never sent more than {counter}"
                    );
                }
                ledger.maps.insert(name, state.clone());
            }
            None => {
                ledger.maps.insert(name, Acknowledged::Deleted);
            }
        }
    }
    verify_gangs(client, &ledger.gangs).await;
}

async fn verify_gangs(client: &Client, gangs: &BTreeMap<String, bool>) {
    let pods = Api::<Pod>::default_namespaced(client.clone())
        .list(&ListParams::default())
        .await
        .expect("a list");
    let mut bound: BTreeMap<String, usize> = BTreeMap::new();
    for pod in pods.items {
        let gang = pod.labels().get("gang").cloned().unwrap_or_default();
        let has_node = pod.spec.is_some_and(|spec| spec.node_name.is_some());
        *bound.entry(gang).or_default() += usize::from(has_node);
    }
    for (gang, acknowledged) in gangs {
        let members = bound.get(gang).copied().unwrap_or_default();
        assert!(
            members == 0 || members == GANG,
            "gang {gang} is half bound: {members} of {GANG}"
        );
        assert!(
            !acknowledged || members == GANG,
            "the acknowledged bind of {gang} is lost"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_acknowledged_is_lost_when_the_server_is_killed() {
    let kills: u32 = std::env::var("BASALT_CRASH_KILLS").map_or(5, |text| text.parse().expect("a number of kills"));
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut dice = StdRng::seed_from_u64(20_261_115);
    let shared: Shared = Arc::default();
    let (mut counters, mut round) = (vec![0; WRITERS], 0);
    for _ in 0..kills {
        let mut server = Server::start(folder.path(), &[]);
        let client = server.client().await;
        make_room(&client).await;
        settle(&client, &shared).await;
        server.watchman.look(&client).await;
        let mut writers = Vec::new();
        for (writer, counter) in counters.iter().enumerate() {
            writers.push(tokio::spawn(write_maps(
                server.client().await,
                writer,
                *counter,
                shared.clone(),
            )));
        }
        let binder = tokio::spawn(bind_gangs(server.client().await, round, shared.clone()));
        tokio::time::sleep(Duration::from_millis(dice.random_range(5..400))).await;
        server.kill();
        for (writer, task) in writers.into_iter().enumerate() {
            counters[writer] = task.await.expect("a writer ends by itself");
        }
        round = binder.await.expect("the binder ends by itself");
    }
    let server = Server::start(folder.path(), &[]);
    settle(&server.client().await, &shared).await;
    let ledger = shared.lock().expect("no writer panics");
    let (maps, gangs) = (ledger.maps.len(), ledger.gangs.len());
    println!(
        "{kills} kills, {maps} names, {gangs} gangs, revision {}",
        ledger.highest_revision
    );
    assert!(ledger.highest_revision > u64::from(kills), "the writers wrote");
}
