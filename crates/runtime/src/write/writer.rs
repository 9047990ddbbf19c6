//! The one door of the scheduler's and the controllers' writes, and of the reads that belong to them.
//!
//! The executor (changes), the binder (bindings) and the evictions all send through [`Writer`], so that no request leaves
//! without the right to write, and all share one limit of requests under way. Leader election writes its Lease beside it:
//! that is where the right to write comes from.

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, Method, Request, StatusCode, header};
use http_body_util::BodyExt;
use kube::Client;
use kube::client::Body;
use kube::core::Status;
use serde_json::Value;
use tokio::time::Instant;

use crate::leader_election::write_fence::Tenure;
use crate::write::concurrency_limit::{Limit, Outcome};

/// Content type of a plain JSON body.
pub const JSON: &str = "application/json";

/// After so long without an answer, a write's outcome is unknown.
const ANSWER_MAX: Duration = Duration::from_secs(10);

/// Sends requests, for as long as it has the right to, and as many at once as the server takes well. Clones are one.
#[derive(Clone)]
pub struct Writer {
    client: Client,
    tenure: Tenure,
    limit: Arc<Limit>,
}

impl From<Client> for Writer {
    fn from(client: Client) -> Self {
        Self::new(client, Tenure::unlimited())
    }
}

impl Writer {
    /// A writer that may write while `tenure` lasts.
    pub fn new(client: Client, tenure: Tenure) -> Self {
        Self {
            client,
            tenure,
            limit: Arc::default(),
        }
    }

    /// The same for another life of who writes: what an earlier one has decided is not its business.
    #[must_use]
    pub fn anew(&self) -> Self {
        Self {
            tenure: self.tenure.anew(),
            ..self.clone()
        }
    }

    /// The client beneath, for what only reads.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The right to write.
    pub fn tenure(&self) -> &Tenure {
        &self.tenure
    }

    /// How many requests may be under way.
    pub fn limit(&self) -> &Arc<Limit> {
        &self.limit
    }

    /// Sends a request with a JSON body, as [`Writer::request_text`] does.
    pub async fn send_json(
        &self,
        method: Method,
        path: &str,
        content_type: &str,
        body: &Value,
    ) -> Result<String, kube::Error> {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::CONTENT_TYPE, content_type)
            .body(body.to_string().into_bytes())
            .map_err(kube::Error::HttpError)?;
        self.request_text(request).await
    }

    /// Sends a request and waits for its answer, but not for ever. No answer is no refusal: the server may have done it.
    /// A request that the server has surely not done, because it has too much to do, is sent again when it says so.
    pub async fn request_text(&self, request: Request<Vec<u8>>) -> Result<String, kube::Error> {
        let begun = Instant::now();
        let (head, body) = request.into_parts();
        loop {
            let request = Request::from_parts(head.clone(), Body::from(body.clone()));
            let again = match self.send(request).await? {
                Answer::Ok(text) => return Ok(text),
                Answer::Refused(status) => return Err(kube::Error::Api(status)),
                Answer::Overload { status, again } => {
                    let again = again.filter(|again| begun.elapsed() + *again < ANSWER_MAX);
                    again.ok_or(kube::Error::Api(status))?
                }
            };
            tokio::time::sleep(again).await;
        }
    }

    async fn send(&self, request: Request<Body>) -> Result<Answer, kube::Error> {
        let _pass = self.limit.enter().await;
        let patience = self.tenure.patience().ok_or_else(not_leading)?;
        let sent = Instant::now();
        // Such a refusal is about the pods' budget, not about the server.
        let budgeted = request.uri().path().ends_with("/eviction");
        match tokio::time::timeout(patience.min(ANSWER_MAX), exchange(&self.client, request)).await {
            Ok(Ok((code, headers, text))) => {
                let answer = answer(code, &headers, text, budgeted);
                self.limit.learn(match &answer {
                    Answer::Overload { .. } => Outcome::Overload,
                    Answer::Ok(_) | Answer::Refused(_) => Outcome::Answered(sent.elapsed()),
                });
                Ok(answer)
            }
            Ok(Err(error)) => {
                self.limit.learn(Outcome::Silence);
                Err(error)
            }
            Err(elapsed) => {
                self.limit.learn(Outcome::Silence);
                Err(kube::Error::Service(elapsed.into()))
            }
        }
    }
}

/// What came back.
#[derive(Debug)]
enum Answer {
    Ok(String),
    Refused(Box<Status>),
    /// The server has too much to do; if it has surely not done it, it says when to come again.
    Overload {
        status: Box<Status>,
        again: Option<Duration>,
    },
}

async fn exchange(client: &Client, request: Request<Body>) -> Result<(StatusCode, HeaderMap, String), kube::Error> {
    let (head, body) = client.send(request).await?.into_parts();
    let bytes = body.collect().await?.to_bytes();
    let text = String::from_utf8(bytes.into()).map_err(kube::Error::FromUtf8)?;
    Ok((head.status, head.headers, text))
}

fn answer(code: StatusCode, headers: &HeaderMap, text: String, budgeted: bool) -> Answer {
    if !code.is_client_error() && !code.is_server_error() {
        return Answer::Ok(text);
    }
    let mut status: Status = serde_json::from_str(&text).unwrap_or_else(|_| Status::failure(&text, "NoStatus"));
    status.code = code.as_u16();
    let status = Box::new(status);
    let again = headers
        .get(header::RETRY_AFTER)
        .and_then(|value| value.to_str().ok())
        .and_then(|text| text.parse().ok())
        .map(Duration::from_secs);
    match code {
        StatusCode::TOO_MANY_REQUESTS if !budgeted => Answer::Overload { status, again },
        // Whether it was done is not known.
        StatusCode::SERVICE_UNAVAILABLE if again.is_some() => Answer::Overload { status, again: None },
        _ => Answer::Refused(status),
    }
}

/// A refusal of our own: it was surely not done.
fn not_leading() -> kube::Error {
    let message = "this process does not lead any more: the request was not sent";
    kube::Error::Api(Box::new(Status::failure(message, "NotLeading").with_code(403)))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// The server answers the n-th request with the n-th code and Retry-After, and then with the last. Returns the last code
    /// that the caller sees (0: no answer), how often the server was asked, seconds that passed, and the limit afterwards.
    async fn ask(path: &str, answers: &'static [(u16, Option<u64>)]) -> (u16, usize, u64, usize) {
        let asked = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&asked);
        let service = tower::service_fn(move |_: Request<Body>| {
            let number = counted.fetch_add(1, Ordering::SeqCst).min(answers.len() - 1);
            async move {
                let (code, again) = answers[number];
                if code == 0 {
                    std::future::pending::<()>().await;
                }
                let mut answer = http::Response::builder().status(code);
                if let Some(again) = again {
                    answer = answer.header(header::RETRY_AFTER, again);
                }
                answer.body(Body::from(b"{}".to_vec()))
            }
        });
        let writer = Writer::from(Client::new(service, "default"));
        let begun = Instant::now();
        let request = Request::post(path).body(Vec::new()).expect("a request");
        let code = match writer.request_text(request).await {
            Ok(_) => 200,
            Err(kube::Error::Api(status)) => status.code,
            Err(_) => 0,
        };
        let asked = asked.load(Ordering::SeqCst);
        (code, asked, begun.elapsed().as_secs(), writer.limit().now().0)
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_surely_not_done_is_sent_again_when_the_server_says() {
        let path = "/api/v1/namespaces/a/pods/p/binding";
        assert_eq!(ask(path, &[(200, None)]).await, (200, 1, 0, 64));
        assert_eq!(ask(path, &[(429, Some(1)), (200, None)]).await, (200, 2, 1, 32));
        assert_eq!(
            ask(path, &[(429, Some(2)), (429, Some(3)), (409, None)]).await,
            (409, 3, 5, 16)
        );
        assert_eq!(ask(path, &[(429, Some(60))]).await, (429, 1, 0, 32), "that is too long");
        assert_eq!(ask(path, &[(429, Some(3))]).await, (429, 4, 9, 4), "and for ever too");
        assert_eq!(ask(path, &[(429, None)]).await, (429, 1, 0, 32), "nobody says when");
        assert_eq!(ask(path, &[(503, Some(1))]).await, (503, 1, 0, 32), "it may be done");
        assert_eq!(ask(path, &[(500, None)]).await, (500, 1, 0, 64));
        assert_eq!(ask(path, &[(0, None)]).await, (0, 1, 10, 32));
        let eviction = "/api/v1/namespaces/a/pods/p/eviction";
        assert_eq!(ask(eviction, &[(429, Some(1))]).await, (429, 1, 0, 64), "a budget");
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_leaves_when_the_right_to_write_has_ended() {
        let asked = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&asked);
        let client = crate::scripted_server::client(move |_, _| {
            counted.fetch_add(1, Ordering::SeqCst);
            crate::scripted_server::Answer::Silence
        });
        let tenure = Tenure::awaited();
        let writer = Writer::new(client, tenure.clone());
        let send = || writer.request_text(Request::post("/x").body(Vec::new()).expect("a request"));
        assert!(matches!(send().await, Err(kube::Error::Api(status)) if status.reason == "NotLeading"));
        let now = Instant::now();
        tenure.grant(now + Duration::from_secs(2), now + Duration::from_secs(3));
        // It leaves, and is given up when another may lead.
        assert!(matches!(send().await, Err(kube::Error::Service(_))));
        assert_eq!(now.elapsed(), Duration::from_secs(3));
        assert!(send().await.is_err());
        assert_eq!(asked.load(Ordering::SeqCst), 1);
    }
}
