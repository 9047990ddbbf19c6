//! Admission: the rules of Basalt's own kinds, asked through a hook, with the store as their view.

use std::collections::HashMap;
use std::sync::Arc;

use basalt_admission::{Decision, Operation, Request, Settings, Verdict, View};
use basalt_api::names;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard};

use crate::http::request::call::Call;
use crate::http::response::status::{ApiError, ApiResult};
use crate::store::{EventKind, Key, Object, Revision, Store, Watch};

/// Decides about writes. The default is [`Rules`]; tests and other hosts may bring their own.
pub trait AdmissionHook: Send + Sync {
    /// Whether the hook has anything to say about the resource.
    fn concerns(&self, group: &str, resource: &str) -> bool;
    /// Decides one request.
    fn admit(&self, request: &Request<'_>, view: &View) -> Decision;
}

/// The rules of the `admission` crate.
#[derive(Debug, Clone, Default)]
pub struct Rules {
    /// What the administrator has set about them.
    pub settings: Settings,
}

impl AdmissionHook for Rules {
    fn concerns(&self, group: &str, resource: &str) -> bool {
        basalt_admission::concerns(group, resource)
    }

    fn admit(&self, request: &Request<'_>, view: &View) -> Decision {
        basalt_admission::admit(request, view, &self.settings)
    }
}

/// Parsed objects that rules ask for again and again, each valid for one revision.
#[derive(Debug, Default)]
pub(crate) struct ValueCache {
    values: Mutex<HashMap<Key, (Revision, Arc<Value>)>>,
}

/// How many parsed objects are kept.
const CACHE_MAX: usize = 8192;

impl ValueCache {
    /// The object, parsed at most once per revision while it is remembered.
    pub(crate) fn value(&self, object: &Object) -> Option<Arc<Value>> {
        if let Some((revision, value)) = self.values.lock().get(&object.key)
            && *revision == object.revision
        {
            return Some(value.clone());
        }
        let value: Arc<Value> = Arc::new(serde_json::from_slice(&object.body).ok()?);
        let mut values = self.values.lock();
        if values.len() >= CACHE_MAX {
            values.clear();
        }
        values.insert(object.key.clone(), (object.revision, value.clone()));
        Some(value)
    }
}

/// As storage names it.
const PODS: &str = "pods";

/// What rules look at, kept in step with what is durable. That is enough: whoever may change what a decision looks at
/// waits at the gate until the decision's own write is durable (see [`passage`]).
#[derive(Default)]
pub(crate) struct Standing {
    view: View,
    watches: HashMap<&'static str, Watch>,
}

/// How often a resource is listed anew in one go, when its history is forgotten faster than it can be read.
const LISTS_MAX: usize = 3;

impl Standing {
    /// Takes in what was stored since the last time.
    pub(crate) fn catch_up(&mut self, store: &Store) {
        for resource in View::RESOURCES {
            let mut lists = 0;
            loop {
                match self.watches.get_mut(resource).map(Watch::ready) {
                    Some(Ok(events)) if events.is_empty() => break,
                    Some(Ok(events)) => {
                        for event in events {
                            self.take(resource, event.kind, &event.object);
                        }
                    }
                    None | Some(Err(_)) if lists < LISTS_MAX => {
                        lists += 1;
                        self.list(store, resource);
                    }
                    None | Some(Err(_)) => break,
                }
            }
        }
    }

    fn take(&mut self, resource: &str, kind: EventKind, object: &Object) {
        match kind {
            // There are many pods, and rules look at few: the others are not worth reading.
            EventKind::Added | EventKind::Modified
                if resource == PODS && !mentions(&object.body, names::QUEUE_NAME) =>
            {
                self.view.remove(resource, &object.key.namespace, &object.key.name);
            }
            EventKind::Added | EventKind::Modified => {
                // What is stored was JSON when it came.
                if let Ok(value) = serde_json::from_slice(&object.body) {
                    self.view.put(resource, &Arc::new(value));
                }
            }
            EventKind::Deleted => self.view.remove(resource, &object.key.namespace, &object.key.name),
        }
    }

    fn list(&mut self, store: &Store, resource: &'static str) {
        let listing = store.list(resource, None);
        let key = |object: &Arc<Object>| (object.key.namespace.to_string(), object.key.name.to_string());
        self.view.retain(resource, &listing.objects.iter().map(key).collect());
        for object in &listing.objects {
            self.take(resource, EventKind::Modified, object);
        }
        match store.watch(resource, listing.revision) {
            Ok(watch) => drop(self.watches.insert(resource, watch)),
            Err(_) => drop(self.watches.remove(resource)),
        }
    }
}

/// Whether a text occurs in a body.
fn mentions(body: &[u8], word: &str) -> bool {
    memchr::memmem::find(body, word.as_bytes()).is_some()
}

/// Held from an admission decision until its write is durable, so that what was decided on still holds.
pub(crate) enum Passage {
    Free,
    Shared { _guard: OwnedRwLockReadGuard<()> },
    Alone { _guard: OwnedRwLockWriteGuard<()> },
}

/// Waits for the right to decide about a write of the call's kind: queues and CRDs, whose rules look at their siblings,
/// one at a time; deliveries into queues together, but not while a queue changes. Of pods only those are deliveries that
/// come without a PodGroup: `made` is the object that the call is to make.
pub(crate) async fn passage(call: &Call, made: Option<&Value>) -> Passage {
    let gate = call.server.inner.gate.clone();
    let (group, plural) = (call.kind.group.as_ref(), call.kind.plural.as_ref());
    match (group, plural) {
        _ if call.sub.is_some() => Passage::Free,
        ("scheduling.volcano.sh", "queues") | ("apiextensions.k8s.io", _) => Passage::Alone {
            _guard: gate.write_owned().await,
        },
        ("", "pods") if made.and_then(basalt_admission::lone_pod_queue).is_none() => Passage::Free,
        _ if call.server.inner.options.admission.concerns(group, plural) => Passage::Shared {
            _guard: gate.read_owned().await,
        },
        _ => Passage::Free,
    }
}

/// Asks the hook; changes `object` as it decides and collects its warnings.
pub(crate) fn admit(
    call: &Call,
    operation: Operation,
    name: &str,
    object: Option<&mut Value>,
    old: Option<&Value>,
    warnings: &mut Vec<String>,
) -> ApiResult<()> {
    let inner = &call.server.inner;
    let (hook, kind) = (&inner.options.admission, &call.kind);
    // Subresources have one writer each, and there are many writes of them.
    if call.sub.is_some() || !hook.concerns(&kind.group, &kind.plural) {
        return Ok(());
    }
    let request = Request {
        operation,
        group: &kind.group,
        resource: &kind.plural,
        subresource: None,
        namespace: &call.namespace,
        name,
        user: call.identity.user(),
        object: object.as_deref(),
        old,
        dry_run: call.query.dry_run,
    };
    let decision = {
        let mut standing = inner.standing.lock();
        standing.catch_up(&inner.store);
        hook.admit(&request, &standing.view)
    };
    warnings.extend(decision.warnings);
    match decision.verdict {
        // Until there is RBAC every user is the admin, whose reviews all end with yes.
        Verdict::Allow | Verdict::Review(_) => {}
        Verdict::Refuse(refusal) => {
            let error = ApiError::new(refusal.code, refusal.reason, refusal.message.as_str());
            // Of an invalid object kubectl shows field and message of each cause, and nothing else.
            return Err(error.about(&kind.group, &kind.plural, name).cause(
                "AdmissionRule",
                &refusal.message,
                refusal.rule,
            ));
        }
    }
    if let (Some(object), Some(changed)) = (object, decision.object) {
        *object = changed;
    }
    Ok(())
}
