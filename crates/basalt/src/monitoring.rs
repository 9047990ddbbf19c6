//! What operators see of a process: whether it lives, whether it can work, its numbers, and what it logs.

#[cfg(test)]
mod names_exist;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{ConnectInfo, DefaultBodyLimit, State};
use axum::http::{Extensions, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use basalt_apiserver::http::{FaceOptions, ServeError, serve_router};
use futures::FutureExt;
use futures::future::BoxFuture;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;
use tokio::sync::Mutex;
use tokio::time::Instant;

use basalt_runtime::controllers::Numbers;
use basalt_runtime::leader_election::Ballot;
use basalt_runtime::logging;
use basalt_runtime::scheduler::{CONTENT_TYPE, Face};
use basalt_runtime::write::writer::Writer;
use basalt_webhook::Webhook;

/// Longest filter of logs that is taken.
const FILTER_MAX: usize = 4_096;
/// Connections at the same time: Prometheus and the kubelet need a few.
const CONNECTIONS_MAX: usize = 128;
/// How long the head of a request may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// The largest head of a request.
const HEAD_MAX: u32 = 64 * 1024;
/// A connection on which nothing is asked is ended after this.
const IDLE_MAX: Duration = Duration::from_mins(2);
/// A page of metrics is shown for so long.
const PAGE_AGE_MAX: Duration = Duration::from_millis(100);
/// The last line of a page of metrics.
const END: &str = "# EOF\n";

type Labels = Vec<(&'static str, String)>;

/// A part of the process, as operators see it.
pub trait Part: Send + Sync {
    /// Why it would be better to begin anew, if so.
    fn trouble(&self) -> Option<String> {
        None
    }

    /// Why it cannot do its work yet, if so.
    fn unready(&self) -> Option<String>;

    /// Its numbers as text.
    fn metrics(&self) -> BoxFuture<'static, String> {
        std::future::ready(String::new()).boxed()
    }
}

/// A place for what shows a part; another life of the part puts another there.
pub type Slot<F> = Arc<RwLock<Option<F>>>;

/// Puts it there.
pub fn fill<F>(slot: &Slot<F>, face: F) {
    *slot.write().unwrap_or_else(PoisonError::into_inner) = Some(face);
}

fn read<F: Clone>(slot: &Slot<F>) -> Option<F> {
    slot.read().unwrap_or_else(PoisonError::into_inner).clone()
}

impl Part for Slot<Face> {
    fn trouble(&self) -> Option<String> {
        read(self)?.vitals().trouble().map(|why| format!("scheduler: {why}"))
    }

    fn unready(&self) -> Option<String> {
        let why = match read(self) {
            Some(face) => face.vitals().unready()?,
            None => "it has not begun yet".to_owned(),
        };
        Some(format!("scheduler: {why}"))
    }

    fn metrics(&self) -> BoxFuture<'static, String> {
        let face = read(self);
        async move {
            match face {
                Some(face) => face.metrics().await,
                None => String::new(),
            }
        }
        .boxed()
    }
}

impl Part for Slot<Numbers> {
    fn trouble(&self) -> Option<String> {
        let why = read(self)?.vitals()?.trouble()?;
        Some(format!("controllers: {why}"))
    }

    fn unready(&self) -> Option<String> {
        let why = match read(self).as_ref().and_then(Numbers::vitals) {
            Some(vitals) => vitals.unready()?,
            None => "they have not begun yet".to_owned(),
        };
        Some(format!("controllers: {why}"))
    }

    fn metrics(&self) -> BoxFuture<'static, String> {
        let text = read(self).map(|numbers| numbers.encode()).unwrap_or_default();
        std::future::ready(text).boxed()
    }
}

impl Part for Webhook {
    fn trouble(&self) -> Option<String> {
        let broken = self.watches().broken();
        let trouble = || format!("webhook: the watches of {} fail for minutes", broken.join(", "));
        (!broken.is_empty()).then(trouble)
    }

    fn unready(&self) -> Option<String> {
        Webhook::unready(self).map(|why| format!("webhook: {why}"))
    }

    fn metrics(&self) -> BoxFuture<'static, String> {
        std::future::ready(Webhook::metrics(self)).boxed()
    }
}

/// All leases of the process.
impl Part for Vec<Ballot> {
    fn trouble(&self) -> Option<String> {
        self.iter().find_map(Ballot::trouble)
    }

    fn unready(&self) -> Option<String> {
        self.iter().find_map(Ballot::unready)
    }

    fn metrics(&self) -> BoxFuture<'static, String> {
        let leader: Family<Labels, Gauge> = Family::default();
        for ballot in self {
            let gauge = leader.get_or_create_owned(&vec![("lease", ballot.lease().to_owned())]);
            gauge.set(ballot.leads().into());
        }
        let mut registry = Registry::default();
        registry.register("basalt_leader", "1: this process holds the lease, and works", leader);
        std::future::ready(text(&registry)).boxed()
    }
}

/// What writes, by part.
impl Part for Vec<(&'static str, Writer)> {
    fn unready(&self) -> Option<String> {
        None
    }

    fn metrics(&self) -> BoxFuture<'static, String> {
        let [limits, under_way]: [Family<Labels, Gauge>; 2] = Default::default();
        let requests: Family<Labels, Counter> = Family::default();
        for (part, writer) in self {
            let labels = || vec![("part", (*part).to_owned())];
            let (limit, out) = writer.limit().now();
            let gauge = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
            limits.get_or_create_owned(&labels()).set(gauge(limit));
            under_way.get_or_create_owned(&labels()).set(gauge(out));
            let counts = writer.limit().counts();
            for (result, count) in [
                ("answered", counts.answered),
                ("overload", counts.overloads),
                ("silence", counts.silences),
            ] {
                let mut labels = labels();
                labels.push(("result", result.to_owned()));
                requests.get_or_create_owned(&labels).inc_by(count);
            }
        }
        let mut registry = Registry::default();
        let ours = registry.sub_registry_with_prefix("basalt_client");
        ours.register("limit", "Requests that may be under way", limits);
        ours.register("in_flight", "Requests that are under way", under_way);
        ours.register(
            "requests",
            "Requests: answered, refused because the server had too much to do, or without an answer",
            requests,
        );
        std::future::ready(text(&registry)).boxed()
    }
}

fn text(registry: &Registry) -> String {
    let mut text = String::new();
    // Writing into a text cannot fail.
    let _ = encode(&mut text, registry);
    text
}

/// The desk at which all this is told. Clones are one.
#[derive(Clone, Default)]
pub struct Desk {
    parts: Arc<Vec<Box<dyn Part>>>,
    leaving: Arc<AtomicBool>,
    /// The page of metrics, and when it was made: however many ask, the loops are asked a few times a second.
    page: Arc<Mutex<Option<(Instant, String)>>>,
}

impl Desk {
    /// A desk for these parts.
    pub fn new(parts: Vec<Box<dyn Part>>) -> Self {
        Self {
            parts: Arc::new(parts),
            leaving: Arc::default(),
            page: Arc::default(),
        }
    }

    /// The process is about to end: it is ready for nothing any more.
    pub fn leave(&self) {
        self.leaving.store(true, Ordering::SeqCst);
    }

    /// `/healthz`, `/livez`, `/readyz`, `/metrics` and `/log`.
    pub fn router(&self) -> Router {
        Router::new()
            .route("/healthz", get(healthy))
            .route("/livez", get(healthy))
            .route("/readyz", get(ready))
            .route("/metrics", get(metrics))
            .route("/log", get(log).put(change_log))
            .layer(DefaultBodyLimit::max(FILTER_MAX))
            .with_state(self.clone())
    }

    /// Serves them for ever, in the clear. The port is open to whoever reaches it, so there are limits.
    pub async fn serve(self, listener: TcpListener) -> Result<(), ServeError> {
        let options = FaceOptions {
            connections_max: CONNECTIONS_MAX,
            patience: PATIENCE,
            head_max: Some(HEAD_MAX),
            idle_max: Some(IDLE_MAX),
            ..FaceOptions::plain()
        };
        serve_router(listener, self.router(), options, std::future::pending()).await
    }

    fn troubles(&self) -> Vec<String> {
        self.parts.iter().filter_map(|part| part.trouble()).collect()
    }

    fn unready(&self) -> Vec<String> {
        if self.leaving.load(Ordering::SeqCst) {
            return vec!["the process is about to end".to_owned()];
        }
        self.parts.iter().filter_map(|part| part.unready()).collect()
    }
}

fn answer(code: StatusCode, reasons: &[String]) -> Response {
    if reasons.is_empty() {
        "ok".into_response()
    } else {
        (code, reasons.join("\n") + "\n").into_response()
    }
}

async fn healthy(State(desk): State<Desk>) -> Response {
    answer(StatusCode::INTERNAL_SERVER_ERROR, &desk.troubles())
}

async fn ready(State(desk): State<Desk>) -> Response {
    let troubles = desk.troubles();
    if troubles.is_empty() {
        answer(StatusCode::SERVICE_UNAVAILABLE, &desk.unready())
    } else {
        answer(StatusCode::INTERNAL_SERVER_ERROR, &troubles)
    }
}

async fn metrics(State(desk): State<Desk>) -> impl IntoResponse {
    let mut page = desk.page.lock().await;
    let fresh = page.as_ref().filter(|(made, _)| made.elapsed() < PAGE_AGE_MAX);
    let text = if let Some((_, text)) = fresh {
        text.clone()
    } else {
        let pages = futures::future::join_all(desk.parts.iter().map(|part| part.metrics())).await;
        let text = one_page(&pages);
        *page = Some((Instant::now(), text.clone()));
        text
    };
    ([(header::CONTENT_TYPE, CONTENT_TYPE)], text)
}

async fn log() -> String {
    logging::filter() + "\n"
}

/// What is logged is changed from the same machine or pod only: others may look, but not fill the disk.
async fn change_log(extensions: Extensions, body: Bytes) -> (StatusCode, String) {
    let peer: Option<&ConnectInfo<SocketAddr>> = extensions.get();
    if !peer.is_some_and(|ConnectInfo(peer)| peer.ip().to_canonical().is_loopback()) {
        let why = "what is logged can be changed through the loopback address only: kubectl port-forward leads there\n";
        return (StatusCode::FORBIDDEN, why.to_owned());
    }
    let outcome = std::str::from_utf8(&body)
        .map_err(|_| "a filter is text".to_owned())
        .and_then(|filter| logging::change(filter.trim()));
    match outcome {
        Ok(()) => (StatusCode::OK, logging::filter() + "\n"),
        Err(why) => (StatusCode::BAD_REQUEST, why + "\n"),
    }
}

/// Pages of metrics as one: only the last line of all says that this is the end.
pub fn one_page<T: AsRef<str>>(pages: &[T]) -> String {
    let mut text: String = pages
        .iter()
        .map(|page| page.as_ref().strip_suffix(END).unwrap_or(page.as_ref()))
        .collect();
    text.push_str(END);
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use basalt_runtime::liveness::Vitals;
    use basalt_runtime::watch::interruptions::Watches;
    use tower::ServiceExt;

    struct Alone(Arc<Vitals>);

    impl Part for Alone {
        fn trouble(&self) -> Option<String> {
            self.0.trouble()
        }

        fn unready(&self) -> Option<String> {
            self.0.unready()
        }
    }

    async fn ask(desk: &Desk, path: &str) -> (u16, String) {
        let request = http::Request::get(path).body(axum::body::Body::empty());
        let answer = desk.router().oneshot(request.expect("a request")).await;
        let (head, body) = answer.expect("an answer").into_parts();
        let body = axum::body::to_bytes(body, 1 << 20).await.expect("a body");
        (head.status.as_u16(), String::from_utf8_lossy(&body).into_owned())
    }

    async fn codes(desk: &Desk) -> [u16; 2] {
        [ask(desk, "/healthz").await.0, ask(desk, "/readyz").await.0]
    }

    async fn minutes(count: u64) {
        tokio::time::sleep(Duration::from_mins(count)).await;
    }

    /// The loop moves once a minute, and now.
    async fn beats(vitals: &Vitals, count: u64) {
        for _ in 0..count {
            minutes(1).await;
            vitals.beat();
        }
        vitals.beat();
    }

    #[tokio::test(start_paused = true)]
    async fn a_loop_in_trouble_says_so() {
        let watches: Arc<Watches> = Arc::default();
        let vitals = Arc::new(Vitals::new(Duration::from_secs(1), Arc::clone(&watches)));
        let desk = Desk::new(vec![Box::new(Alone(Arc::clone(&vitals)))]);
        assert_eq!(codes(&desk).await, [200, 503], "it has just begun");
        vitals.lacks(vec!["Pod".to_owned(), "Queue".to_owned()]);
        beats(&vitals, 2).await;
        assert_eq!(codes(&desk).await, [200, 503], "a large cluster takes its time");
        let (_, why) = ask(&desk, "/readyz").await;
        assert_eq!(why, "not everything of Pod, Queue is known yet\n");
        minutes(2).await;
        assert_eq!(codes(&desk).await, [500, 500], "it is stuck");
        beats(&vitals, 0).await;
        assert_eq!(codes(&desk).await, [200, 503], "it moves again");
        beats(&vitals, 2).await;
        assert_eq!(codes(&desk).await, [500, 500], "the caches never come");
        vitals.lacks(Vec::new());
        assert_eq!(codes(&desk).await, [200, 200], "all is well");
        for _ in 0..7 {
            watches.failed("Pod");
            beats(&vitals, 1).await;
        }
        assert_eq!(codes(&desk).await, [500, 500], "it decides on an old view");
        watches.works("Pod");
        assert_eq!(codes(&desk).await, [200, 200], "all is well again");
        desk.leave();
        assert_eq!(codes(&desk).await, [200, 503], "it is about to end");
    }

    /// Whoever asks from there changes what is logged?
    async fn check_log(peer: Option<&str>, expected: u16) {
        let mut request = http::Request::put("/log")
            .body(axum::body::Body::from("basalt=nonsense=filter"))
            .expect("a request");
        if let Some(peer) = peer {
            let peer: SocketAddr = peer.parse().expect("an address");
            request.extensions_mut().insert(ConnectInfo(peer));
        }
        let answer = Desk::default().router().oneshot(request).await.expect("an answer");
        assert_eq!(answer.status().as_u16(), expected, "{peer:?}");
    }

    #[tokio::test]
    async fn what_is_logged_is_changed_from_the_same_machine_only() {
        // The filter makes no sense, which only those are told who may change it.
        check_log(Some("127.0.0.1:5000"), 400).await;
        check_log(Some("[::1]:5000"), 400).await;
        check_log(Some("[::ffff:127.0.0.1]:5000"), 400).await;
        check_log(Some("10.0.0.7:5000"), 403).await;
        check_log(None, 403).await;
    }

    struct Counted(Arc<Counter>);

    impl Part for Counted {
        fn unready(&self) -> Option<String> {
            None
        }

        fn metrics(&self) -> BoxFuture<'static, String> {
            self.0.inc();
            std::future::ready(format!("asked {}\n", self.0.get())).boxed()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn however_many_ask_for_metrics_the_parts_are_asked_now_and_then() {
        let asked: Arc<Counter> = Arc::default();
        let desk = Desk::new(vec![Box::new(Counted(Arc::clone(&asked)))]);
        for _ in 0..10 {
            assert_eq!(ask(&desk, "/metrics").await.1, "asked 1\n# EOF\n");
        }
        tokio::time::sleep(PAGE_AGE_MAX).await;
        assert_eq!(ask(&desk, "/metrics").await.1, "asked 2\n# EOF\n");
    }

    #[test]
    fn pages_of_metrics_have_one_end() {
        assert_eq!(one_page(&["a 1\n# EOF\n", "", "b 2\n# EOF\n"]), "a 1\nb 2\n# EOF\n");
        assert_eq!(one_page::<&str>(&[]), "# EOF\n");
    }
}
