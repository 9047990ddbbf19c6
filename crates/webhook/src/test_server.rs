//! An API server in this process, for tests: with our kinds, and nobody who acts on them.

use basalt_apiserver::http::{Server, ServerOptions, index};
use basalt_apiserver::store::{Backend, Options, Store};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::PostParams;
use kube::{Api, Client};
use serde_json::json;

/// A client of a server of its own.
pub async fn client() -> Client {
    let options = Options {
        indexer: index,
        ..Options::new(Backend::Memory)
    };
    let store = Store::open(options).expect("a store in memory");
    let server = Server::new(store, ServerOptions::default());
    server.bootstrap().await.expect("the usual objects");
    let client = server.client("tester");
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    let configurations = ["Validating", "Mutating"].map(webhook_configurations);
    for definition in basalt_api::crd::all().into_iter().chain(configurations) {
        api.create(&PostParams::default(), &definition).await.expect("a kind");
    }
    client
}

/// The server has no webhooks, so it does not know their configurations; but it can store them.
fn webhook_configurations(stage: &str) -> CustomResourceDefinition {
    let (kind, group) = (format!("{stage}WebhookConfiguration"), "admissionregistration.k8s.io");
    let singular = kind.to_lowercase();
    let plural = format!("{singular}s");
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let definition = json!({
        "metadata": {"name": format!("{plural}.{group}"),
            "annotations": {"api-approved.kubernetes.io": "unapproved, for tests"}},
        "spec": {"group": group, "scope": "Cluster",
            "names": {"kind": kind, "listKind": format!("{kind}List"), "plural": plural, "singular": singular},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]},
    });
    serde_json::from_value(definition).expect("a definition")
}
