//! The server: its state, and around it how it listens, routes requests, makes certificates and fills an empty store.

mod activity;
pub(super) mod bootstrap;
pub(super) mod listener;
pub(super) mod pki;
mod routing;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use futures::future::BoxFuture;
use http::Request;
use parking_lot::{Mutex, RwLock};
use serde_json::Value;
use tokio::sync::{Semaphore, watch};

use crate::http::admission::{AdmissionHook, Standing, ValueCache};
use crate::http::registry::Registry;
use crate::http::registry::custom_resources::{self, Definition};
use crate::http::request::authentication::Identity;
use crate::http::subresources::pod_host::PodHost;
use crate::http::verbs::list_pages::Pages;
use crate::store::{Key, Revision, Store};

/// Commands that run inside pods at the same time.
const SESSIONS_MAX: usize = 256;

/// Where the time comes from.
pub type Clock = Arc<dyn Fn() -> jiff::Timestamp + Send + Sync>;
/// Where uids come from.
pub type Uids = Arc<dyn Fn() -> String + Send + Sync>;

/// What a server is built from besides its store.
#[derive(Clone)]
pub struct ServerOptions {
    /// The clock of creation and deletion timestamps.
    pub clock: Clock,
    /// The source of object uids; generated names are derived from it as well.
    pub uids: Uids,
    /// Rules of Basalt's own kinds.
    pub admission: Arc<dyn AdmissionHook>,
    /// The admin's bearer token; without one, only in-process clients get in.
    pub token: Option<Arc<str>>,
    /// How long events are kept.
    pub event_ttl: Duration,
    /// How often an idle watch gets a bookmark.
    pub bookmark_period: Duration,
}

impl Default for ServerOptions {
    fn default() -> Self {
        ServerOptions {
            clock: Arc::new(jiff::Timestamp::now),
            uids: Arc::new(random_uid),
            admission: Arc::new(crate::http::admission::Rules::default()),
            token: None,
            event_ttl: Duration::from_hours(1),
            bookmark_period: Duration::from_mins(1),
        }
    }
}

impl fmt::Debug for ServerOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerOptions")
            .field("event_ttl", &self.event_ttl)
            .finish_non_exhaustive()
    }
}

/// A version 4 uuid from the system's randomness.
fn random_uid() -> String {
    let mut bytes = [0_u8; 16];
    // Without randomness uids would repeat, and nothing that follows could be trusted.
    getrandom::fill(&mut bytes).expect("the system has no source of randomness");
    let number = u128::from_be_bytes(bytes);
    let number = (number & !(0xF << 76) & !(0b11 << 62)) | (4 << 76) | (0b10 << 62);
    let hex = format!("{number:032x}");
    let parts = [(0, 8), (8, 12), (12, 16), (16, 20), (20, 32)].map(|(from, to)| hex.get(from..to).unwrap_or_default());
    parts.join("-")
}

/// A page that somebody else in this process writes: its content type, and how to get it.
struct Page {
    content_type: &'static str,
    write: Box<dyn Fn() -> BoxFuture<'static, String> + Send + Sync>,
}

/// The API server over a store. Cheap to clone; all clones are one server.
#[derive(Clone)]
pub struct Server {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) store: Store,
    pub(crate) options: ServerOptions,
    registry: RwLock<Arc<Registry>>,
    /// One at a time rebuilds the table of kinds, so that a newer table never loses to an older one.
    reload: Mutex<()>,
    definitions: Mutex<BTreeMap<Key, (Revision, Arc<Definition>)>>,
    pub(crate) values: ValueCache,
    /// What admission decides by.
    pub(crate) standing: Mutex<Standing>,
    /// Lists that are being read page by page.
    pub(crate) pages: Pages,
    /// See [`crate::http::admission::passage`].
    pub(crate) gate: Arc<tokio::sync::RwLock<()>>,
    /// Held while an eviction is weighed and done.
    pub(crate) evictions: tokio::sync::Mutex<()>,
    /// What `/metrics` answers.
    metrics: OnceLock<Page>,
    /// Who knows about the processes of pods.
    host: OnceLock<Arc<dyn PodHost>>,
    /// Room for commands inside pods.
    pub(crate) sessions: Arc<Semaphore>,
    /// Turns true when the server goes down: watches end.
    pub(crate) closing: watch::Sender<bool>,
    /// Rings when the table of kinds changes.
    pub(crate) kinds_changed: watch::Sender<()>,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server")
            .field("options", &self.inner.options)
            .finish_non_exhaustive()
    }
}

impl Server {
    /// A server over `store`, serving the kinds of the CRDs that are in it already.
    pub fn new(store: Store, options: ServerOptions) -> Server {
        let server = Server {
            inner: Arc::new(Inner {
                store,
                options,
                registry: RwLock::default(),
                reload: Mutex::new(()),
                definitions: Mutex::default(),
                values: ValueCache::default(),
                standing: Mutex::default(),
                pages: Pages::default(),
                gate: Arc::default(),
                evictions: tokio::sync::Mutex::default(),
                metrics: OnceLock::new(),
                host: OnceLock::new(),
                sessions: Arc::new(Semaphore::new(SESSIONS_MAX)),
                closing: watch::Sender::new(false),
                kinds_changed: watch::Sender::new(()),
            }),
        };
        server.reload();
        // Read now what is there, so that the first write does not wait for it.
        server.inner.standing.lock().catch_up(&server.inner.store);
        server
    }

    /// The store underneath.
    pub fn store(&self) -> &Store {
        &self.inner.store
    }

    /// The kinds that are served now.
    pub fn registry(&self) -> Arc<Registry> {
        self.inner.registry.read().clone()
    }

    /// Makes the table of kinds anew from the CRDs in the store.
    pub(crate) fn reload(&self) {
        let _one = self.inner.reload.lock();
        let kinds = self
            .definitions()
            .into_iter()
            .flat_map(|definition| definition.kinds.clone());
        *self.inner.registry.write() = Arc::new(Registry::new(kinds));
        self.inner.kinds_changed.send_replace(());
    }

    /// Lets admission see a write of `resource` at once, so that no later decision has many to take in.
    pub(crate) fn look(&self, resource: &str) {
        // Of pods there are many writes, of which the next decision has little to take in. Whoever holds it is taking in
        // the same writes.
        if resource != "pods"
            && basalt_admission::View::RESOURCES.contains(&resource)
            && let Some(mut standing) = self.inner.standing.try_lock()
        {
            standing.catch_up(&self.inner.store);
        }
    }

    /// All stored CRDs; each is read once per revision.
    pub(crate) fn definitions(&self) -> Vec<Arc<Definition>> {
        let listing = self.inner.store.list(custom_resources::RESOURCE, None);
        let mut known = self.inner.definitions.lock();
        let mut current = BTreeMap::new();
        for object in listing.objects {
            let read = known
                .remove(&object.key)
                .filter(|(revision, _)| *revision == object.revision);
            let definition = read.map(|(_, definition)| definition).or_else(|| {
                let crd: Value = serde_json::from_slice(&object.body).ok()?;
                Some(Arc::new(Definition::new(&crd)))
            });
            if let Some(definition) = definition {
                current.insert(object.key.clone(), (object.revision, definition));
            }
        }
        *known = current;
        known.values().map(|(_, definition)| definition.clone()).collect()
    }

    /// Ends all watches, so that connections can be closed in order. The store stays open.
    pub fn close(&self) {
        self.inner.closing.send_replace(true);
    }

    /// Serves `/metrics` from now on, to whoever may use the API. Only the first call counts.
    pub fn set_metrics(
        &self,
        content_type: &'static str,
        write: impl Fn() -> BoxFuture<'static, String> + Send + Sync + 'static,
    ) {
        let write = Box::new(write);
        let _ = self.inner.metrics.set(Page { content_type, write });
    }

    /// Asks `host` from now on about the processes of pods. Only the first call counts.
    pub fn set_host(&self, host: Arc<dyn PodHost>) {
        let _ = self.inner.host.set(host);
    }

    pub(crate) fn host(&self) -> Option<&dyn PodHost> {
        self.inner.host.get().map(AsRef::as_ref)
    }

    /// The time of the server's clock.
    pub fn now(&self) -> jiff::Timestamp {
        (self.inner.options.clock)()
    }

    /// The server as an axum router: one fallback, because `routing` reads the paths.
    pub fn router(&self) -> Router {
        let server = self.clone();
        Router::new().fallback(move |request: Request<Body>| server.clone().handle(request))
    }

    /// A client that calls this server in-process as `user`: no socket, no TLS, no token.
    pub fn client(&self, user: &str) -> kube::Client {
        let identity = Identity::admin(user);
        let server = self.clone();
        let service = tower::service_fn(move |request: Request<kube::client::Body>| {
            let mut request = request.map(Body::new);
            request.extensions_mut().insert(identity.clone());
            let server = server.clone();
            async move { Ok::<_, Infallible>(server.handle(request).await) }
        });
        kube::Client::new(service, "default")
    }
}
