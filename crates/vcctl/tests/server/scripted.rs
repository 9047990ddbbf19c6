//! What is sent when the server's answers are chosen by the test.

use std::convert::Infallible;
use std::ffi::OsString;
use std::sync::{Arc, Mutex};

use http::{Method, Request, Response};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};

/// A server that answers each request by a function of how many came before, and keeps what was sent.
#[derive(Clone, Default)]
struct Script {
    sent: Arc<Mutex<Vec<(Method, Value)>>>,
}

impl Script {
    fn client(&self, answer: impl Fn(&Method, usize) -> (u16, Value) + Clone + Send + Sync + 'static) -> Client {
        let sent = self.sent.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let (sent, answer) = (sent.clone(), answer.clone());
            async move {
                let (parts, body) = request.into_parts();
                let bytes = body.collect_bytes().await.expect("a body");
                let body = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
                let mut sent = sent.lock().expect("no panic before");
                let before = sent.iter().filter(|(method, _)| *method == parts.method).count();
                let (status, value) = answer(&parts.method, before);
                sent.push((parts.method, body));
                let response = Response::builder()
                    .status(status)
                    .body(Body::from(value.to_string().into_bytes()));
                Ok::<_, Infallible>(response.expect("a response"))
            }
        });
        Client::new(service, "default")
    }
}

fn job(uid: &str, version: usize, replicas: i64) -> Value {
    json!({
        "apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job",
        "metadata": {"name": "train", "namespace": "default", "uid": uid, "resourceVersion": version.to_string()},
        "spec": {"minAvailable": 1, "tasks": [{"name": "w", "replicas": replicas, "later": "kept"}]},
    })
}

fn conflict() -> (u16, Value) {
    let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "reason": "Conflict", "message": "the object has been modified", "code": 409});
    (409, status)
}

async fn scale(client: Client) -> (u8, String, String) {
    let args = ["vcctl", "job", "scale", "train", "--replicas", "w=5"].map(OsString::from);
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let code = basalt_vcctl::run_with(client, args, &mut out, &mut err).await;
    (code, String::from_utf8(out).unwrap(), String::from_utf8(err).unwrap())
}

#[tokio::test]
async fn a_conflict_is_tried_anew_on_what_is_there_then() {
    let script = Script::default();
    let client = script.client(|method, before| match *method {
        Method::GET => (200, job("u1", before, 2 + i64::try_from(before).unwrap())),
        _ if before < 2 => conflict(),
        _ => (200, job("u1", 9, 5)),
    });
    let (code, out, err) = scale(client).await;
    assert_eq!((code, err.as_str()), (0, ""));
    assert_eq!(out, "scale job train successfully: w 4 -> 5\n");
    let sent = script.sent.lock().unwrap();
    let patches: Vec<&Value> = sent
        .iter()
        .filter(|(m, _)| *m == Method::PATCH)
        .map(|(_, body)| body)
        .collect();
    assert_eq!(patches.len(), 3);
    let expected = json!({
        "metadata": {"uid": "u1", "resourceVersion": "2"},
        "spec": {"tasks": [{"name": "w", "replicas": 5, "later": "kept"}]},
    });
    assert_eq!(patches[2], &expected);
}

#[tokio::test]
async fn another_job_of_that_name_is_left_alone() {
    let script = Script::default();
    let client = script.client(|method, before| match *method {
        Method::GET => (200, job(if before == 0 { "u1" } else { "u2" }, before, 2)),
        _ => conflict(),
    });
    let (code, out, err) = scale(client).await;
    assert_eq!((code, out.as_str()), (1, ""));
    assert_eq!(
        err,
        "error: cannot scale job default/train: it was deleted and made anew meanwhile\n"
    );
    assert_eq!(script.sent.lock().unwrap().len(), 3);
}

#[tokio::test]
async fn endless_conflicts_end() {
    let script = Script::default();
    let client = script.client(|method, before| match *method {
        Method::GET => (200, job("u1", before, 2)),
        _ => conflict(),
    });
    let (code, _, err) = scale(client).await;
    assert_eq!(code, 1);
    assert!(err.contains("somebody else changed it"), "{err}");
}
