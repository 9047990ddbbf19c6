//! How fast the face is without a socket: `cargo run --release -p basalt-apiserver --example speed`.
//!
//! One thread, a store in memory. Prints one line a measurement: what, how many, per second.

use std::time::Instant;

use axum::body::Body;
use basalt_apiserver::face::{Identity, Server, ServerOptions, index};
use basalt_apiserver::store::{Backend, Options, Store};
use futures::StreamExt;
use http::Request;
use http_body_util::BodyExt;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, PostParams};
use serde_json::json;

const PODS: usize = 100_000;
const GETS: usize = 200_000;

fn report(what: &str, count: usize, start: Instant) {
    let seconds = start.elapsed().as_secs_f64();
    println!("{what}: {count} in {seconds:.2} s, {:.0}/s", count as f64 / seconds);
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

    let start = Instant::now();
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

    let start = Instant::now();
    for n in 0..GETS {
        let pod = pods.get_metadata(&format!("pod-{}", n % PODS)).await?;
        std::hint::black_box(pod);
    }
    report("get metadata, typed client", GETS, start);
    let start = Instant::now();
    for n in 0..GETS / 4 {
        let pod = pods.get(&format!("pod-{}", n % PODS)).await?;
        std::hint::black_box(pod);
    }
    report("get pod, typed client", GETS / 4, start);
    let start = Instant::now();
    for n in 0..GETS {
        let path = format!("/api/v1/namespaces/default/pods/pod-{}", n % PODS);
        let response = server.clone().handle(request(&path)).await;
        std::hint::black_box(response.into_body().collect().await?.to_bytes());
    }
    report("get, request to bytes", GETS, start);

    let start = Instant::now();
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
    Ok(())
}
