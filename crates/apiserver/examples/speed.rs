//! How fast the API server is without a socket: `cargo run --release -p basalt-apiserver --example speed`.
//!
//! One thread, a store in memory. Prints one line a measurement.

use std::time::Instant;

use axum::body::Body;
use basalt_apiserver::http::{Identity, Server, ServerOptions, index};
use basalt_apiserver::store::{Backend, Options, Store};
use futures::StreamExt;
use http::Request;
use http_body_util::BodyExt;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, PostParams};
use serde_json::json;

const PODS: usize = 100_000;
const GETS: usize = 200_000;

/// A moment, by the wall and by the processor.
struct Moment(Instant, f64);

impl Moment {
    fn now() -> Moment {
        Moment(Instant::now(), processor_seconds())
    }
}

fn report(what: &str, count: usize, start: Moment) {
    let (wall, used) = (start.0.elapsed().as_secs_f64(), processor_seconds() - start.1);
    let rate = count as f64 / used.max(0.01);
    println!("{what}: {count} in {wall:.2} s, {used:.2} s of processor time: {rate:.0}/s of one core");
}

/// User and system time of this process; the kernel counts in hundredths.
fn processor_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
    let ticks = fields
        .split_whitespace()
        .skip(11)
        .take(2)
        .filter_map(|field| field.parse::<f64>().ok());
    ticks.sum::<f64>() / 100.0
}

fn resident_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .unwrap_or_default();
    line.split_whitespace()
        .next()
        .and_then(|kib| kib.parse::<u64>().ok())
        .unwrap_or_default()
        / 1024
}

fn request(path: &str) -> Request<Body> {
    let mut request = Request::new(Body::empty());
    *request.uri_mut() = path.parse().unwrap_or_default();
    request.extensions_mut().insert(Identity::admin("speed"));
    request
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let store = Store::open(Options {
        indexer: index,
        ..Options::new(Backend::Memory)
    })?;
    let server = Server::new(store, ServerOptions::default());
    server.bootstrap().await?;
    let client = server.client("speed");
    let pods: Api<Pod> = Api::namespaced(client, "default");

    let start = Moment::now();
    let creates = futures::stream::iter(0..PODS).map(|n| {
        let pods = &pods;
        async move {
            let pod: Pod = serde_json::from_value(json!({
                "metadata": {"name": format!("pod-{n}"), "labels": {"app": "speed", "index": n.to_string()}},
                "spec": {"containers": [{"name": "main", "image": "busybox", "command": ["sleep", "30"],
                    "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}}}]}}))?;
            pods.create(&PostParams::default(), &pod).await?;
            Ok::<_, Box<dyn std::error::Error>>(())
        }
    });
    let created: Vec<_> = creates.buffer_unordered(64).collect().await;
    created.into_iter().collect::<Result<Vec<()>, _>>()?;
    report("create, typed client", PODS, start);
    println!("resident: {} MiB", resident_mib());

    let start = Moment::now();
    for n in 0..GETS {
        let pod = pods.get_metadata(&format!("pod-{}", n % PODS)).await?;
        std::hint::black_box(pod);
    }
    report("get metadata, typed client", GETS, start);
    let start = Moment::now();
    for n in 0..GETS / 4 {
        let pod = pods.get(&format!("pod-{}", n % PODS)).await?;
        std::hint::black_box(pod);
    }
    report("get pod, typed client", GETS / 4, start);
    let start = Moment::now();
    for n in 0..GETS {
        let path = format!("/api/v1/namespaces/default/pods/pod-{}", n % PODS);
        let response = server.clone().handle(request(&path)).await;
        std::hint::black_box(response.into_body().collect().await?.to_bytes());
    }
    report("get, request to bytes", GETS, start);

    let start = Moment::now();
    let mut bytes = 0;
    let mut body = server
        .clone()
        .handle(request("/api/v1/pods"))
        .await
        .into_body()
        .into_data_stream();
    while let Some(piece) = body.next().await {
        bytes += piece?.len();
    }
    report(&format!("list of {bytes} bytes, streamed, objects"), PODS, start);
    println!("resident: {} MiB", resident_mib());
    changes(&server, &pods).await?;
    definitions(&server).await
}

async fn post(server: &Server, path: &str, body: String) -> Result<(), Box<dyn std::error::Error>> {
    let mut request = request(path).map(|_| Body::from(body));
    *request.method_mut() = http::Method::POST;
    let response = server.clone().handle(request).await;
    if response.status().is_success() {
        return Ok(());
    }
    let answer = response.into_body().collect().await?.to_bytes();
    Err(String::from_utf8_lossy(&answer).into_owned().into())
}

const BINDS: usize = 10_000;

/// What a scheduler and a node do to pods.
async fn changes(server: &Server, pods: &Api<Pod>) -> Result<(), Box<dyn std::error::Error>> {
    let binding =
        |n: usize| json!({"metadata": {"name": format!("pod-{n}")}, "target": {"kind": "Node", "name": "n1"}});
    let start = Moment::now();
    for n in 0..BINDS {
        post(
            server,
            &format!("/api/v1/namespaces/default/pods/pod-{n}/binding"),
            binding(n).to_string(),
        )
        .await?;
    }
    report("bind, one by one", BINDS, start);
    let start = Moment::now();
    let gang = json!({"items": (BINDS..2 * BINDS).map(binding).collect::<Vec<_>>()});
    post(
        server,
        "/apis/basalt.sh/v1alpha1/namespaces/default/gangbindings",
        gang.to_string(),
    )
    .await?;
    report("bind, one gang", BINDS, start);
    let start = Moment::now();
    let status = kube::api::Patch::Merge(json!({"status": {"phase": "Running", "startTime": "2026-01-01T00:00:00Z"}}));
    for n in 0..BINDS {
        pods.patch_status(&format!("pod-{n}"), &kube::api::PatchParams::default(), &status)
            .await?;
    }
    report("patch of a status, typed client", BINDS, start);
    Ok(())
}

/// The definitions of our own kinds, as a first start makes them.
async fn definitions(server: &Server) -> Result<(), Box<dyn std::error::Error>> {
    let start = Moment::now();
    let all = basalt_api::crd::all();
    let count = all.len();
    for crd in all {
        let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        post(server, path, serde_json::to_string(&crd)?).await?;
    }
    report("create definitions", count, start);
    Ok(())
}
