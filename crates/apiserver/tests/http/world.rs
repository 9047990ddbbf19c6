//! A server in memory and small ways to talk to it.

use axum::body::Body;
use basalt_apiserver::Workers;
use basalt_apiserver::http::{Identity, Server, ServerOptions, index};
use basalt_apiserver::store::{Backend, Options, Store};
use http::{Request, Response};
use http_body_util::BodyExt;
use serde_json::{Value, json};

pub(crate) const TOKEN: &str = "the-token";

pub(crate) struct World {
    pub(crate) server: Server,
    pub(crate) client: kube::Client,
    _workers: Workers,
}

/// An answer: status code and JSON body.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) body: Value,
    pub(crate) warnings: Vec<String>,
}

impl Answer {
    pub(crate) fn reason(&self) -> &str {
        self.body["reason"].as_str().unwrap_or_default()
    }

    pub(crate) fn message(&self) -> &str {
        self.body["message"].as_str().unwrap_or_default()
    }
}

impl World {
    pub(crate) async fn new() -> World {
        World::with(Options::new(Backend::Memory)).await
    }

    pub(crate) async fn with(mut options: Options) -> World {
        options.indexer = index;
        let store = Store::open(options).expect("a store in memory opens");
        let server = Server::new(
            store,
            ServerOptions {
                token: Some(TOKEN.into()),
                bookmark_period: std::time::Duration::from_millis(300),
                ..ServerOptions::default()
            },
        );
        server.bootstrap().await.expect("bootstrap");
        World::over(server)
    }

    pub(crate) fn over(server: Server) -> World {
        let workers = server.start_workers();
        World {
            client: server.client("tester"),
            server,
            _workers: workers,
        }
    }

    pub(crate) async fn raw(&self, request: Request<Body>) -> Response<Body> {
        self.server.clone().handle(request).await
    }

    /// Sends a request as the admin.
    pub(crate) async fn send(&self, method: &str, path: &str, content_type: &str, body: impl Into<Body>) -> Answer {
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header("accept", "application/json");
        if !content_type.is_empty() {
            request = request.header("content-type", content_type);
        }
        let mut request = request.body(body.into()).expect("a request");
        request.extensions_mut().insert(Identity::admin("tester"));
        answer(self.raw(request).await).await
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send("GET", path, "", Body::empty()).await
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> Answer {
        self.send("POST", path, "application/json", body.to_string()).await
    }

    pub(crate) async fn put(&self, path: &str, body: Value) -> Answer {
        self.send("PUT", path, "application/json", body.to_string()).await
    }

    pub(crate) async fn merge(&self, path: &str, body: Value) -> Answer {
        self.send("PATCH", path, "application/merge-patch+json", body.to_string())
            .await
    }

    pub(crate) async fn delete(&self, path: &str, body: Value) -> Answer {
        self.send("DELETE", path, "application/json", body.to_string()).await
    }

    /// Posts and expects it to be created.
    pub(crate) async fn made(&self, path: &str, body: Value) -> Value {
        let answer = self.post(path, body).await;
        assert_eq!(answer.code, 201, "{}", answer.body);
        answer.body
    }

    /// Waits until a GET answers 404.
    pub(crate) async fn gone(&self, path: &str) {
        self.until(path, |answer| answer.code == 404).await;
    }

    /// Waits until a GET answers as wanted.
    pub(crate) async fn until(&self, path: &str, wanted: impl Fn(&Answer) -> bool) -> Answer {
        let start = std::time::Instant::now();
        loop {
            let answer = self.get(path).await;
            if wanted(&answer) {
                return answer;
            }
            assert!(start.elapsed().as_secs() < 10, "{path} stays {}", answer.body);
            // The state is what counts, not the wait: looking again is cheap, spinning is not.
            tokio::time::sleep(std::time::Duration::from_millis(2)).await;
        }
    }
}

pub(crate) async fn answer(response: Response<Body>) -> Answer {
    let code = response.status().as_u16();
    let warnings = response
        .headers()
        .get_all("warning")
        .iter()
        .filter_map(|value| value.to_str().ok());
    let warnings = warnings.map(str::to_owned).collect();
    let bytes = response.into_body().collect().await.expect("a body").to_bytes();
    let body = serde_json::from_slice(&bytes).unwrap_or_else(|_| json!(String::from_utf8_lossy(&bytes)));
    Answer { code, body, warnings }
}

pub(crate) fn pod(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {"containers": [{"name": "main", "image": "busybox"}]}})
}

pub(crate) fn config_map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": "1"}})
}

/// A definition of `widgets.example.com` with a status and a scale.
pub(crate) fn widgets() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget", "shortNames": ["wd"], "categories": ["all"]},
            "versions": [
                {"name": "v1", "served": true, "storage": true, "subresources": {"status": {}, "scale": {
                    "specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}},
                 "additionalPrinterColumns": [{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}],
                 "selectableFields": [{"jsonPath": ".spec.color"}],
                 "schema": {"openAPIV3Schema": schema()}},
                {"name": "v1beta1", "served": true, "storage": false, "schema": {"openAPIV3Schema": schema()}},
            ],
        },
    })
}

fn schema() -> Value {
    json!({"type": "object", "properties": {
        "spec": {"type": "object", "properties": {
            "size": {"type": "integer", "minimum": 0, "default": 3}, "color": {"type": "string"},
            "replicas": {"type": "integer"}}},
        "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}})
}

pub(crate) fn widget(name: &str) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name}, "spec": {"color": "red"}})
}
