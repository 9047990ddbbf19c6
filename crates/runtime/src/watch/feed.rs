//! One watch, as a stream of upserts and deletes that heals itself.
//!
//! `kube`'s watcher reports a re-list as "init, these objects, done"; what vanished in between is not named. A
//! [`Feed`] remembers the keys it has handed out, so a re-list becomes plain upserts and deletes, and consumers
//! need to know nothing of reconnects.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use basalt_api::NamespacedName;
use futures::StreamExt;
use futures::stream::BoxStream;
use http::{HeaderValue, header};
use kube::client::Body;
use kube::core::ApiResource;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use tokio::sync::watch;

use crate::event_loop::Sink;
use crate::watch::interruptions::Watches;
use crate::watch::metadata_only;
use crate::watch::raw_object::RawObject;

/// So long may pass until a server begins to answer a list or a watch.
const ANSWER_MAX: Duration = Duration::from_mins(1);
/// What asks for everything that exists, as the beginning of a watch.
const STREAMED: &str = "sendInitialEvents=true";

/// What a feed reports.
#[derive(Debug)]
pub enum FeedEvent<K> {
    /// The object is new or changed.
    Upsert(Box<K>),
    /// The object is gone; `uid` is that of the incarnation that went.
    Delete {
        /// Which.
        key: NamespacedName,
        /// Which incarnation.
        uid: String,
    },
    /// Everything that existed at the (re-)start of the watch has been reported.
    Synced,
}

impl<K> FeedEvent<K> {
    /// The same report, of what `change` makes of the object.
    pub fn map<T>(self, change: impl FnOnce(K) -> T) -> FeedEvent<T> {
        match self {
            Self::Upsert(object) => FeedEvent::Upsert(Box::new(change(*object))),
            Self::Delete { key, uid } => FeedEvent::Delete { key, uid },
            Self::Synced => FeedEvent::Synced,
        }
    }
}

/// The objects that were handed out: of a hundred thousand pods only what tells them apart, in one text each.
#[derive(Default)]
struct Known(BTreeMap<Box<str>, Box<str>>);

impl Known {
    /// No namespace has a slash, so the first one ends it.
    fn text(key: &NamespacedName) -> Box<str> {
        format!("{}/{}", key.namespace, key.name).into()
    }

    fn note(&mut self, object: &RawObject) {
        let uid = object.uid().unwrap_or_default();
        self.0.insert(Self::text(&NamespacedName::of(object)), uid.into());
    }

    fn uid(&self, key: &NamespacedName) -> Option<&str> {
        self.0.get(&Self::text(key)).map(AsRef::as_ref)
    }

    fn remove(&mut self, key: &NamespacedName) {
        self.0.remove(&Self::text(key));
    }

    /// The objects, and incarnations, that are not in `now`.
    fn without(self, now: &Self) -> impl Iterator<Item = (NamespacedName, String)> {
        let gone = self.0.into_iter().filter(|(key, uid)| now.0.get(key) != Some(uid));
        gone.filter_map(|(key, uid)| {
            let (namespace, name) = key.split_once('/')?;
            let key = NamespacedName::new(namespace, name);
            Some((key, uid.into()))
        })
    }
}

/// Turns watcher events into [`FeedEvent`]s.
#[derive(Default)]
struct Tracker {
    known: Known,
    listing: Option<Known>,
}

impl Tracker {
    fn translate<K: Resource<DynamicType = ()> + DeserializeOwned>(
        &mut self,
        event: Event<RawObject>,
    ) -> Vec<FeedEvent<K>> {
        match event {
            Event::Init => {
                self.listing = Some(Known::default());
                Vec::new()
            }
            Event::InitApply(object) => {
                self.listing.get_or_insert_default().note(&object);
                self.report(&object)
            }
            Event::InitDone => {
                let listed = self.listing.take().unwrap_or_default();
                let gone = std::mem::replace(&mut self.known, listed);
                let mut out: Vec<FeedEvent<K>> = gone
                    .without(&self.known)
                    .map(|(key, uid)| FeedEvent::Delete { key, uid })
                    .collect();
                out.push(FeedEvent::Synced);
                out
            }
            Event::Apply(object) => {
                let reports = self.report(&object);
                if !reports.is_empty() {
                    self.known.note(&object);
                }
                reports
            }
            Event::Delete(object) => {
                let key = NamespacedName::of(&object);
                self.known.remove(&key);
                vec![FeedEvent::Delete {
                    key,
                    uid: object.uid().unwrap_or_default(),
                }]
            }
        }
    }
}

impl Tracker {
    /// An object as it is now, after the end of the incarnation that it replaces. One that cannot be read is left out,
    /// loudly: what was known of it before stays.
    fn report<K: Resource<DynamicType = ()> + DeserializeOwned>(&mut self, object: &RawObject) -> Vec<FeedEvent<K>> {
        let key = NamespacedName::of(object);
        let read = match object.read::<K>() {
            Ok(read) => read,
            Err(error) => {
                tracing::warn!(kind = %K::kind(&()), object = %key, %error, "an object cannot be read and is left out");
                return Vec::new();
            }
        };
        let uid = object.uid().unwrap_or_default();
        let replaced = self.known.uid(&key).filter(|known| *known != uid).map(str::to_owned);
        if replaced.is_some() {
            self.known.remove(&key);
        }
        let gone = replaced.map(|uid| FeedEvent::Delete { key, uid });
        gone.into_iter().chain([FeedEvent::Upsert(Box::new(read))]).collect()
    }
}

/// The post of one watch.
pub(crate) struct Post<M> {
    /// Where its news goes.
    pub(crate) sink: Sink<M>,
    /// Which watch it is.
    pub(crate) number: usize,
    /// How often everything was to be listed anew.
    pub(crate) rounds: watch::Receiver<u64>,
    /// Only metadata counts.
    pub(crate) bare: bool,
    /// Knows how the watches fare.
    pub(crate) watches: Arc<Watches>,
}

/// What a watch tells.
pub type Events<T> = BoxStream<'static, watcher::Result<Event<T>>>;

/// How everything that exists is asked for at first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Manner {
    /// As the beginning of the watch.
    Streamed,
    /// In a list, page by page: of servers that cannot do the other.
    Listed,
}

/// Asks for everything that exists now, and watches from there.
pub fn events<T>(api: Api<T>, config: watcher::Config, manner: Manner) -> Events<T>
where
    T: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let config = match manner {
        Manner::Streamed => config.streaming_lists(),
        Manner::Listed => config,
    };
    watcher::watcher(api, config).default_backoff().boxed()
}

/// A client that asks for what [`events`] wants; for metadata only, if that is all that counts.
pub fn reader(client: Client, bare: bool) -> Client {
    let namespace = client.default_namespace().to_owned();
    let service = tower::service_fn(move |request| {
        let (client, mut request) = (client.clone(), newest(request));
        if bare {
            let accept = HeaderValue::from_static(metadata_only::ACCEPT);
            request.headers_mut().insert(header::ACCEPT, accept);
        }
        async move {
            // A server may go away without a word; whoever waits for it for ever sees nothing any more.
            let answer = tokio::time::timeout(ANSWER_MAX, client.send(request)).await;
            answer.unwrap_or_else(|late| Err(kube::Error::Service(late.into())))
        }
    });
    Client::new(service, namespace)
}

/// The watcher is content with what the server remembers when everything is streamed; we want what is there now.
fn newest(mut request: http::Request<Body>) -> http::Request<Body> {
    let wanted = request.uri().path_and_query().map(http::uri::PathAndQuery::as_str);
    if let Some(wanted) = wanted.filter(|wanted| wanted.contains(STREAMED))
        && let Ok(uri) = wanted.replace("&resourceVersion=0", "").parse()
    {
        *request.uri_mut() = uri;
    }
    request
}

/// Whether the server says that it cannot stream what exists.
pub fn cannot_stream(error: &watcher::Error) -> bool {
    let watcher::Error::WatchStartFailed(kube::Error::Api(status)) = error else {
        return false;
    };
    matches!(status.code, 400 | 406 | 415 | 422)
}

/// Watches a kind for ever and sends every change through `wrap`; ends when the receiver is gone.
pub(crate) async fn run<K, M>(client: Client, mut post: Post<M>, wrap: fn(FeedEvent<K>) -> M)
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + 'static,
    M: Send + 'static,
{
    let (mut tracker, mut failing) = (Tracker::default(), false);
    let mut round = *post.rounds.borrow_and_update();
    let client = reader(client, post.bare);
    let resource = ApiResource::erase::<K>(&());
    let mut manner = Manner::Streamed;
    let begin = |manner| {
        let api: Api<RawObject> = Api::all_with(client.clone(), &resource);
        events(api, watcher::Config::default(), manner)
    };
    let mut stream = begin(manner);
    let Post {
        bare: _,
        sink,
        number,
        rounds,
        watches,
    } = &mut post;
    loop {
        let event = tokio::select! {
            Some(event) = stream.next() => event,
            Ok(()) = rounds.changed() => {
                round = *rounds.borrow_and_update();
                stream = begin(manner);
                continue;
            }
            else => return,
        };
        let event = match event {
            Ok(event) => event,
            Err(error) if manner == Manner::Streamed && cannot_stream(&error) => {
                tracing::debug!(kind = %K::kind(&()), %error, "this server does not stream lists");
                manner = Manner::Listed;
                stream = begin(manner);
                continue;
            }
            Err(error) => {
                let hint = hint(&error);
                failing = true;
                watches.failed(&K::kind(&()));
                tracing::warn!(kind = %K::kind(&()), %error, "watch interrupted, will resume{hint}");
                continue;
            }
        };
        // The beginning of a list is only an attempt.
        if failing && !matches!(event, Event::Init) {
            failing = false;
            watches.works(&K::kind(&()));
        }
        for event in tracker.translate::<K>(event) {
            let alive = if matches!(event, FeedEvent::Synced) {
                sink.send_complete(wrap(event), *number, round).await
            } else {
                sink.send(wrap(event)).await
            };
            if !alive {
                return;
            }
        }
    }
}

/// What an operator can do about an interrupted watch.
fn hint(error: &watcher::Error) -> &'static str {
    use watcher::Error;
    let code = match error {
        Error::InitialListFailed(kube::Error::Api(status))
        | Error::WatchStartFailed(kube::Error::Api(status))
        | Error::WatchError(status)
        | Error::WatchFailed(kube::Error::Api(status)) => status.code,
        _ => 0,
    };
    match code {
        404 => ": install the CRDs",
        403 => ": grant list and watch",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    use super::*;
    use crate::event_loop::Frame;
    use crate::scripted_server::{self, Answer};
    use k8s_openapi::api::core::v1::ConfigMap;

    fn object(name: &str, uid: &str) -> RawObject {
        let text = serde_json::json!({"metadata": {"name": name, "uid": uid}}).to_string();
        serde_json::from_str(&text).expect("an object")
    }

    fn word(event: &FeedEvent<ConfigMap>) -> String {
        match event {
            FeedEvent::Upsert(o) => format!("+{}:{}", o.name_any(), o.uid().unwrap_or_default()),
            FeedEvent::Delete { key, uid } => format!("-{}:{uid}", key.name),
            FeedEvent::Synced => "synced".into(),
        }
    }

    /// `script`: `init`, `done`, `i name uid` (listed), `a name uid` (applied), `d name uid` (deleted).
    fn check(script: &[&str], expected: &[&str]) {
        let mut tracker = Tracker::default();
        let mut seen = Vec::new();
        for line in script {
            let words: Vec<&str> = line.split(' ').collect();
            let event = match words.as_slice() {
                ["init"] => Event::Init,
                ["done"] => Event::InitDone,
                ["i", name, uid] => Event::InitApply(object(name, uid)),
                ["a", name, uid] => Event::Apply(object(name, uid)),
                ["d", name, uid] => Event::Delete(object(name, uid)),
                other => panic!("unknown line {other:?}"),
            };
            seen.extend(tracker.translate(event).iter().map(word));
        }
        assert_eq!(seen, expected, "script {script:?}");
    }

    #[test]
    fn a_relist_becomes_upserts_and_deletes() {
        check(&["init", "i a 1", "done"], &["+a:1", "synced"]);
        check(
            &["init", "i a 1", "i b 2", "done", "init", "i b 2", "done"],
            &["+a:1", "+b:2", "synced", "+b:2", "-a:1", "synced"],
        );
        check(
            &["init", "done", "a a 1", "d a 1", "init", "done"],
            &["synced", "+a:1", "-a:1", "synced"],
        );
    }

    #[test]
    fn a_recreated_object_is_reported_as_gone_in_its_old_incarnation() {
        check(
            &["init", "i a 1", "done", "init", "i a 2", "done"],
            &["+a:1", "synced", "-a:1", "+a:2", "synced"],
        );
    }

    #[test]
    fn what_is_streamed_is_what_is_there_now() {
        for (asked, expected) in [
            (
                "/api/v1/pods?&watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=0",
                "/api/v1/pods?&watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan",
            ),
            (
                "/api/v1/pods?&watch=true&resourceVersion=0",
                "/api/v1/pods?&watch=true&resourceVersion=0",
            ),
            (
                "/api/v1/pods?&watch=true&resourceVersion=7",
                "/api/v1/pods?&watch=true&resourceVersion=7",
            ),
            ("/api/v1/pods", "/api/v1/pods"),
        ] {
            let request = http::Request::get(asked).body(Body::empty()).expect("a request");
            assert_eq!(newest(request).uri(), expected);
        }
    }

    #[test]
    fn an_interrupted_watch_says_what_to_do() {
        use kube::core::Status;
        use watcher::Error;
        let status = |code: u16| Box::new(Status::failure("no", "no").with_code(code));
        let api = |code: u16| kube::Error::Api(status(code));
        for (code, expected) in [(404, ": install the CRDs"), (403, ": grant list and watch"), (500, "")] {
            for error in [
                Error::InitialListFailed(api(code)),
                Error::WatchStartFailed(api(code)),
                Error::WatchFailed(api(code)),
                Error::WatchError(status(code)),
            ] {
                assert_eq!(hint(&error), expected, "{error}");
            }
        }
        for other in [
            Error::NoResourceVersion,
            Error::WatchFailed(kube::Error::Service("no answer".into())),
        ] {
            assert_eq!(hint(&other), "", "{other}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_that_fails_is_known_to_and_one_that_works_again_too() {
        let allowed = Arc::new(AtomicBool::new(false));
        let asked = Arc::clone(&allowed);
        let client = scripted_server::client(move |_, _| {
            if asked.load(Ordering::SeqCst) {
                Answer::Object(serde_json::json!({
                    "kind": "ConfigMapList", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": [],
                }))
            } else {
                Answer::Refusal(403)
            }
        });
        let mut frame: Frame<FeedEvent<ConfigMap>> = Frame::default();
        frame.follow(&client, |event| event);
        tokio::time::sleep(Duration::from_mins(10)).await;
        assert_eq!(frame.watches().broken(), ["ConfigMap"]);
        allowed.store(true, Ordering::SeqCst);
        tokio::time::sleep(Duration::from_mins(1)).await;
        assert!(frame.watches().broken().is_empty());
        frame.rest(drop);
        assert!(frame.is_complete());
    }
}
