//! The webhook's paths.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, Path, State};
use axum::response::{IntoResponse, Json, Response};
use axum::routing::{get, post};
use basalt_admission::{AccessReview, Review, Settings, Stage, Verdict, View, admit};
use basalt_apiserver::face::BODY_MAX;
use http::{HeaderMap, StatusCode, header};
use kube::Client;
use serde_json::Value;

use super::watches;

/// The kinds that are judged, as paths name them.
const RESOURCES: [&str; 5] = ["commands", "jobs", "podgroups", "pods", "queues"];
/// An AdmissionReview carries the object twice.
const REVIEW_MAX: usize = 2 * BODY_MAX;

/// Admission behind HTTPS. Clones are one webhook.
#[derive(Clone)]
pub struct Webhook {
    client: Client,
    settings: Settings,
    view: Arc<RwLock<View>>,
    /// Resources that have not been seen whole yet: until then nothing is decided.
    unseen: Arc<Mutex<BTreeSet<&'static str>>>,
}

/// Why there is no answer.
struct Failure(StatusCode, String);

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        (self.0, self.1).into_response()
    }
}

impl Webhook {
    /// A webhook that knows nothing yet; `client` reads the view and asks for rights.
    pub fn new(client: Client, settings: Settings) -> Self {
        Self {
            client,
            settings,
            view: Arc::default(),
            unseen: Arc::new(Mutex::new(View::RESOURCES.into())),
        }
    }

    /// A webhook that knows everything: `view` and nothing else. It does not watch.
    pub fn with_view(client: Client, settings: Settings, view: View) -> Self {
        let webhook = Self::new(client, settings);
        webhook.change(|known| *known = view);
        for resource in View::RESOURCES {
            webhook.seen(resource);
        }
        webhook
    }

    /// Keeps the view up to date, for ever.
    pub async fn watch(self) {
        watches::run(&self).await;
    }

    /// The paths.
    pub fn router(&self) -> Router {
        Router::new()
            .route("/healthz", get(async || "ok"))
            .route("/readyz", get(ready))
            .route("/{resource}/{stage}", post(review))
            .layer(DefaultBodyLimit::max(REVIEW_MAX))
            .with_state(self.clone())
    }

    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    pub(super) fn change(&self, change: impl FnOnce(&mut View)) {
        change(&mut self.view.write().unwrap_or_else(PoisonError::into_inner));
    }

    pub(super) fn seen(&self, resource: &str) {
        self.unseen
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(resource);
    }

    /// Whether it can decide; if not, what is missing.
    pub fn ready(&self) -> Result<(), String> {
        let unseen = self.unseen.lock().unwrap_or_else(PoisonError::into_inner);
        if unseen.is_empty() {
            return Ok(());
        }
        let names: Vec<&str> = unseen.iter().copied().collect();
        Err(format!("not ready: {} have not been seen yet", names.join(", ")))
    }

    fn complete(&self) -> Result<(), Failure> {
        self.ready()
            .map_err(|why| Failure(StatusCode::SERVICE_UNAVAILABLE, why))
    }

    /// Asks the API server whether the user has a right.
    async fn granted(&self, review: &Review, access: &AccessReview) -> Result<bool, Failure> {
        let failed = |why: String| {
            let why = format!(
                "cannot find out whether the user may {} queue {}: {why}",
                access.verb, access.name
            );
            Failure(StatusCode::INTERNAL_SERVER_ERROR, why)
        };
        let body = review.access(access).to_string().into_bytes();
        let request = http::Request::post("/apis/authorization.k8s.io/v1/subjectaccessreviews")
            .header(header::CONTENT_TYPE, "application/json")
            .body(body)
            .map_err(|error| failed(error.to_string()))?;
        let answer: Value = self
            .client
            .request(request)
            .await
            .map_err(|error| failed(error.to_string()))?;
        Ok(answer["status"]["allowed"] == true)
    }
}

async fn ready(State(webhook): State<Webhook>) -> Result<&'static str, Failure> {
    webhook.complete().map(|()| "ok")
}

async fn review(
    State(webhook): State<Webhook>,
    Path((resource, stage)): Path<(String, String)>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Json<Value>, Failure> {
    let stage = match stage.as_str() {
        "mutate" if RESOURCES.contains(&&*resource) => Stage::Mutate,
        "validate" if RESOURCES.contains(&&*resource) => Stage::Validate,
        _ => return Err(Failure(StatusCode::NOT_FOUND, "there is no such webhook".to_owned())),
    };
    let content = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    if !content.is_some_and(|content| content.starts_with("application/json")) {
        let why = format!("the content type is {content:?}, send application/json");
        return Err(Failure(StatusCode::UNSUPPORTED_MEDIA_TYPE, why));
    }
    webhook.complete()?;
    let review = Review::read(&body).map_err(|error| Failure(StatusCode::BAD_REQUEST, error.to_string()))?;
    if review.resource() != resource {
        let why = format!("the review is about {:?}, sent to /{resource}", review.resource());
        return Err(Failure(StatusCode::BAD_REQUEST, why));
    }
    let decision = {
        let view = webhook.view.read().unwrap_or_else(PoisonError::into_inner);
        admit(&review.request(), &view, &webhook.settings)
    };
    let granted = match &decision.verdict {
        Verdict::Review(access) if stage == Stage::Validate => webhook.granted(&review, access).await?,
        _ => true,
    };
    Ok(Json(review.answer(stage, &decision, granted)))
}
