//! The webhook's paths.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Instant;

use axum::Router;
use axum::extract::{Path, Request, State};
use axum::response::{IntoResponse, Json, Response};
use axum::routing::{get, post};
use basalt_admission::{AccessReview, Review, Settings, Stage, Verdict, View, admit};
use basalt_api::resource_kind;
use http::{HeaderValue, StatusCode, header};
use kube::Client;
use serde_json::Value;
use tokio::sync::Semaphore;

use super::limits::{self, Limits};
use super::numbers::Numbers;
use super::watches;
use basalt_runtime::watch::interruptions::Watches;

/// The kinds that are judged, as paths name them.
const RESOURCES: [&str; 5] = ["commands", "jobs", "podgroups", "pods", "queues"];
/// The stages, as paths name them.
const STAGES: [(&str, Stage); 2] = [("mutate", Stage::Mutate), ("validate", Stage::Validate)];

/// Admission behind HTTPS. Clones are one webhook.
#[derive(Clone)]
pub struct Webhook {
    client: Client,
    settings: Settings,
    limits: Limits,
    /// A place for each review that may be in flight.
    room: Arc<Semaphore>,
    view: Arc<RwLock<View>>,
    /// Resources that have not been seen whole yet: until then nothing is decided.
    unseen: Arc<Mutex<BTreeSet<&'static str>>>,
    /// Webhook configurations that may not trust us yet: until then nobody can ask.
    untrusting: Arc<Mutex<BTreeSet<String>>>,
    watches: Arc<Watches>,
    numbers: Numbers,
}

/// Why there is no answer.
pub(super) struct Failure(pub(super) StatusCode, pub(super) String);

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let again = matches!(self.0, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE);
        let mut response = (self.0, self.1).into_response();
        if again {
            // An API server that is told when to come back does so, within the time that the webhook has.
            response
                .headers_mut()
                .insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}

impl Webhook {
    /// A webhook that knows nothing yet; `client` reads the view and asks for rights.
    pub fn new(client: Client, settings: Settings) -> Self {
        let limits = Limits::default();
        Self {
            client,
            settings,
            limits,
            room: Arc::new(Semaphore::new(limits.reviews)),
            view: Arc::default(),
            unseen: Arc::new(Mutex::new(View::RESOURCES.into())),
            untrusting: Arc::default(),
            watches: Arc::default(),
            numbers: Numbers::default(),
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

    /// The same with other limits.
    #[must_use]
    pub fn with_limits(self, limits: Limits) -> Self {
        let room = Arc::new(Semaphore::new(limits.reviews));
        Self { limits, room, ..self }
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

    /// These configurations are to trust us.
    pub(super) fn courts(&self, configurations: impl Iterator<Item = String>) {
        let mut untrusting = self.untrusting.lock().unwrap_or_else(PoisonError::into_inner);
        untrusting.extend(configurations);
    }

    /// This configuration trusts us, or does not exist.
    pub(super) fn trusted(&self, configuration: &str) {
        let mut untrusting = self.untrusting.lock().unwrap_or_else(PoisonError::into_inner);
        untrusting.remove(configuration);
    }

    /// How the watches fare.
    pub fn watches(&self) -> &Watches {
        &self.watches
    }

    /// The numbers as text.
    pub fn metrics(&self) -> String {
        self.numbers.encode()
    }

    /// Why nobody should be sent here yet: it cannot decide, or its callers would not trust it.
    pub fn unready(&self) -> Option<String> {
        let untrusting = self.untrusting.lock().unwrap_or_else(PoisonError::into_inner);
        let untrusted = || {
            let name = untrusting.first()?;
            Some(format!(
                "the authorities are not in the webhook configuration {name} yet"
            ))
        };
        self.ready().err().or_else(untrusted)
    }

    /// Whether it can decide; if not, what is missing.
    fn ready(&self) -> Result<(), String> {
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
        let request = http::Request::post(resource_kind::SUBJECT_ACCESS_REVIEW.collection_path(""))
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
    match webhook.unready() {
        None => Ok("ok"),
        Some(why) => Err(Failure(StatusCode::SERVICE_UNAVAILABLE, why)),
    }
}

async fn review(
    State(webhook): State<Webhook>,
    Path((resource, stage)): Path<(String, String)>,
    request: Request,
) -> Result<Json<Value>, Failure> {
    let resource = RESOURCES.into_iter().find(|known| *known == resource);
    let stage = STAGES.into_iter().find(|(known, _)| *known == stage);
    let (Some(resource), Some((word, stage))) = (resource, stage) else {
        return Err(Failure(StatusCode::NOT_FOUND, "there is no such webhook".to_owned()));
    };
    let begun = Instant::now();
    let answer = webhook.answer_in_time(resource, stage, request).await;
    let allowed = |Json(answer): &Json<Value>| answer["response"]["allowed"] == true;
    let outcome = answer.as_ref().map(allowed).map_err(|failure| failure.0);
    webhook.numbers.reviewed(resource, word, outcome, begun.elapsed());
    answer
}

impl Webhook {
    async fn answer_in_time(&self, resource: &str, stage: Stage, request: Request) -> Result<Json<Value>, Failure> {
        let Ok(_place) = self.room.try_acquire() else {
            let why = format!("{} reviews are in flight, come back", self.limits.reviews);
            return Err(Failure(StatusCode::TOO_MANY_REQUESTS, why));
        };
        let patience = self.limits.patience(request.uri().query());
        let answer = self.answer(resource, stage, request);
        tokio::time::timeout(patience, answer).await.unwrap_or_else(|_| {
            let why = format!("no decision within {patience:?}");
            Err(Failure(StatusCode::GATEWAY_TIMEOUT, why))
        })
    }

    async fn answer(&self, resource: &str, stage: Stage, request: Request) -> Result<Json<Value>, Failure> {
        let content = request.headers().get(header::CONTENT_TYPE);
        let content = content.and_then(|value| value.to_str().ok());
        if !content.is_some_and(|content| content.starts_with("application/json")) {
            let why = format!("the content type is {content:?}, send application/json");
            return Err(Failure(StatusCode::UNSUPPORTED_MEDIA_TYPE, why));
        }
        self.complete()?;
        let body = limits::body(request, &self.limits).await?;
        let review = Review::read(&body).map_err(|error| Failure(StatusCode::BAD_REQUEST, error.to_string()))?;
        if review.resource() != resource {
            let why = format!("the review is about {:?}, sent to /{resource}", review.resource());
            return Err(Failure(StatusCode::BAD_REQUEST, why));
        }
        let decision = {
            let view = self.view.read().unwrap_or_else(PoisonError::into_inner);
            admit(&review.request(), &view, &self.settings)
        };
        let granted = match &decision.verdict {
            Verdict::Review(access) if stage == Stage::Validate => self.granted(&review, access).await?,
            _ => true,
        };
        Ok(Json(review.answer(stage, &decision, granted)))
    }
}
