//! A server for tests that answers as it is told to, or not at all.

use std::sync::Arc;

use http::{Method, Request, Response};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};

/// What such a server does with a request.
#[derive(Debug, Clone)]
pub enum Answer {
    /// Says yes, with this body.
    Object(Value),
    /// Says no, with this code.
    Refusal(u16),
    /// Says this code and body.
    Status(u16, Value),
    /// Says nothing, ever.
    Silence,
}

/// A client of a server that answers each request by its method and path.
pub fn client(script: impl Fn(&Method, &str) -> Answer + Send + Sync + 'static) -> Client {
    let script = Arc::new(script);
    let service = tower::service_fn(move |request: Request<Body>| {
        // It does not stream lists.
        let streams = request
            .uri()
            .query()
            .is_some_and(|query| query.contains("sendInitialEvents"));
        let answer = if streams {
            Answer::Refusal(422)
        } else {
            script(request.method(), request.uri().path())
        };
        async move {
            let (code, body) = match answer {
                Answer::Object(body) => (200, body),
                Answer::Refusal(code) => (code, refusal(code)),
                Answer::Status(code, body) => (code, body),
                Answer::Silence => std::future::pending().await,
            };
            let body = Body::from(body.to_string().into_bytes());
            Response::builder().status(code).body(body)
        }
    });
    Client::new(service, "default")
}

fn refusal(code: u16) -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "message": "no", "reason": "no"})
}
