//! `basalt-bench get`: reads through the embedded API in-process, on one core.

use std::time::{Duration, Instant};

use basalt_api::resource_kind;
use basalt_apiserver::http::{Server, ServerOptions};
use basalt_apiserver::store::{Backend, Store};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::PostParams;
use serde_json::json;

use basalt::up::store_options;

/// In-process reads a second on one core, through the same client that talks to a cluster.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  basalt-bench get --seconds 3")]
pub struct GetOptions {
    /// How long
    #[arg(long, default_value_t = 2)]
    seconds: u64,
    /// Output: table or json
    #[arg(short, long, default_value = "table", value_parser = ["table", "json"])]
    output: String,
}

/// Runs the measurement and prints it. Call it on a single-threaded runtime: the figure is for one core.
pub async fn run(options: GetOptions) -> anyhow::Result<()> {
    let store = Store::open(store_options(Backend::Memory))?;
    let server = Server::new(store, ServerOptions::default());
    server.bootstrap().await?;
    let client = server.client("system:admin");
    let api: Api<ConfigMap> = Api::default_namespaced(client.clone());
    let map: ConfigMap = serde_json::from_value(json!({"metadata": {"name": "m"}, "data": {"key": "x".repeat(500)}}))?;
    api.create(&PostParams::default(), &map).await?;
    let limit = Duration::from_secs(options.seconds.max(1));

    let begun = Instant::now();
    let mut typed: u64 = 0;
    while begun.elapsed() < limit {
        api.get("m").await?;
        typed += 1;
    }
    let typed_per_s = typed as f64 / begun.elapsed().as_secs_f64();

    let path = resource_kind::CONFIG_MAP.object_path("default", "m");
    let begun = Instant::now();
    let mut text: u64 = 0;
    while begun.elapsed() < limit {
        let request = http::Request::get(&path).body(Vec::new())?;
        client.request_text(request).await?;
        text += 1;
    }
    let text_per_s = text as f64 / begun.elapsed().as_secs_f64();
    if options.output == "json" {
        println!("{:#}", json!({"typedPerS": typed_per_s, "textPerS": text_per_s}));
    } else {
        println!("in-process get on one core: {typed_per_s:.0}/s decoded, {text_per_s:.0}/s as text");
    }
    Ok(())
}
