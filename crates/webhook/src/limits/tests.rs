use std::sync::Arc;

use axum::body::Body;
use axum::response::Response;
use basalt_admission::{Settings, View};
use futures::stream;
use serde_json::{Value, json};
use tower::ServiceExt;

use super::*;
use crate::Webhook;
use basalt_runtime::scripted_server::{self, Answer};

#[test]
fn an_answer_comes_before_the_caller_is_gone() {
    let limits = Limits::default();
    for (query, expected) in [
        (None, 8000),
        (Some("timeout=10s"), 8000),
        (Some("timeout=5s"), 4500),
        (Some("a=b&timeout=1s"), 900),
        (Some("timeout=soon"), 8000),
        (Some("timeout=99999999999999999999s"), 8000),
    ] {
        let expected = Duration::from_millis(expected);
        assert_eq!(limits.patience(query), expected, "{query:?}");
    }
}

/// A webhook that knows one queue, and whose API server never answers.
fn webhook(reviews: usize) -> Webhook {
    let client = scripted_server::client(|_, _| Answer::Silence);
    let mut view = View::default();
    let queue = json!({"metadata": {"name": "q", "uid": "u"}, "spec": {"state": "Open"}});
    view.put("queues.scheduling.volcano.sh", &Arc::new(queue));
    let limits = Limits {
        reviews,
        ..Limits::default()
    };
    Webhook::with_view(client, Settings::default(), view).with_limits(limits)
}

/// A review of a Command, which needs a right.
fn review() -> Value {
    let target = json!({"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "name": "q", "uid": "u"});
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": "1", "operation": "CREATE", "namespace": "default", "name": "c",
        "resource": {"group": "bus.volcano.sh", "version": "v1alpha1", "resource": "commands"},
        "object": {"metadata": {"name": "c", "namespace": "default"}, "action": "CloseQueue", "target": target},
        "userInfo": {"username": "alice"}}})
}

async fn send(webhook: &Webhook, path: &str, length: Option<usize>, body: Body) -> Response {
    let mut request = http::Request::post(path).header("content-type", "application/json");
    if let Some(length) = length {
        request = request.header("content-length", length);
    }
    let request = request.body(body).expect("a request");
    webhook.router().oneshot(request).await.expect("an answer")
}

/// A body that comes in pieces of a MiB, and then not at all where it does not end.
fn pieces(count: usize, ends: bool) -> Body {
    let piece = Bytes::from(vec![b' '; 1024 * 1024]);
    let pieces = stream::iter(vec![Ok::<_, std::convert::Infallible>(piece); count]);
    if ends {
        Body::from_stream(pieces)
    } else {
        Body::from_stream(futures::StreamExt::chain(pieces, stream::pending()))
    }
}

#[tokio::test(start_paused = true)]
async fn callers_are_cut_where_they_ask_too_much() {
    let (mutate, validate) = ("/commands/mutate", "/commands/validate");
    let whole = || Body::from(review().to_string());
    for (title, path, length, body, expected) in [
        ("a small one", mutate, None, whole(), 200),
        ("no JSON, but not too large", mutate, None, pieces(3, true), 400),
        ("larger than allowed, in pieces", mutate, None, pieces(4, true), 413),
        (
            "larger than allowed, and says so",
            mutate,
            Some(REVIEW_MAX + 1),
            pieces(0, false),
            413,
        ),
        ("a body that never comes", mutate, None, pieces(0, false), 408),
        ("a body that stops in the middle", mutate, None, pieces(1, false), 408),
        ("a right that nobody tells of", validate, None, whole(), 504),
    ] {
        let answer = send(&webhook(8), path, length, body).await;
        assert_eq!(answer.status().as_u16(), expected, "{title}");
    }
}

#[tokio::test(start_paused = true)]
async fn one_too_many_is_told_to_come_back() {
    let webhook = webhook(2);
    let slow = [(); 2].map(|()| {
        let webhook = webhook.clone();
        tokio::spawn(async move { send(&webhook, "/commands/mutate", None, pieces(0, false)).await })
    });
    // Time stands still until both wait for their bodies.
    tokio::time::sleep(Duration::from_millis(1)).await;
    let refused = send(&webhook, "/commands/mutate", None, Body::from(review().to_string())).await;
    assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(refused.headers()[header::RETRY_AFTER], "1");
    for slow in slow {
        assert_eq!(slow.await.expect("no panic").status(), StatusCode::REQUEST_TIMEOUT);
    }
    let taken = send(&webhook, "/commands/mutate", None, Body::from(review().to_string())).await;
    assert_eq!(taken.status(), StatusCode::OK, "there is room again");
}
