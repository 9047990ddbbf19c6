//! Admission: the rules of Basalt's own kinds, asked through a hook, with the store as their view.

use std::collections::HashMap;
use std::sync::Arc;

use basalt_admission::{Decision, Operation, Request, Verdict, View};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard};

use super::call::Call;
use super::status::{ApiError, ApiResult};
use crate::store::{Key, Object, Revision, Store};

/// Decides about writes. The default is [`Rules`]; tests and other hosts may bring their own.
pub trait AdmissionHook: Send + Sync {
    /// Whether the hook has anything to say about the resource.
    fn concerns(&self, group: &str, resource: &str) -> bool;
    /// Decides one request.
    fn admit(&self, request: &Request<'_>, view: &dyn View) -> Decision;
}

/// The rules of the `admission` crate.
#[derive(Debug, Clone, Copy)]
pub struct Rules;

impl AdmissionHook for Rules {
    fn concerns(&self, group: &str, resource: &str) -> bool {
        basalt_admission::concerns(group, resource)
    }

    fn admit(&self, request: &Request<'_>, view: &dyn View) -> Decision {
        basalt_admission::admit(request, view)
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

struct StoreView<'a> {
    store: &'a Store,
    cache: &'a ValueCache,
}

impl View for StoreView<'_> {
    fn get(&self, resource: &str, namespace: &str, name: &str) -> Option<Arc<Value>> {
        // The head, so that two dependent writes in flight cannot both pass.
        self.store
            .head(&Key::new(resource, namespace, name))
            .and_then(|object| self.cache.value(&object))
    }

    fn list(&self, resource: &str, namespace: Option<&str>) -> Vec<Arc<Value>> {
        let listing = self.store.list(resource, namespace);
        listing
            .objects
            .iter()
            .filter_map(|object| self.cache.value(object))
            .collect()
    }
}

/// Held from an admission decision until its write is durable, so that what was decided on still holds.
pub(crate) enum Passage {
    Free,
    Shared { _guard: OwnedRwLockReadGuard<()> },
    Alone { _guard: OwnedRwLockWriteGuard<()> },
}

/// Waits for the right to decide about a write of the call's kind: queues and CRDs, whose rules look at their siblings,
/// one at a time; deliveries into queues together, but not while a queue changes.
pub(crate) async fn passage(call: &Call) -> Passage {
    let gate = call.server.inner.gate.clone();
    let (group, plural) = (call.kind.group.as_ref(), call.kind.plural.as_ref());
    match (group, plural) {
        _ if call.sub.is_some() => Passage::Free,
        ("scheduling.volcano.sh", "queues") | ("apiextensions.k8s.io", _) => Passage::Alone {
            _guard: gate.write_owned().await,
        },
        ("", "pods") => Passage::Free,
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
    if !hook.concerns(&kind.group, &kind.plural) {
        return Ok(());
    }
    let request = Request {
        operation,
        group: &kind.group,
        resource: &kind.plural,
        subresource: call.sub.map(super::kinds::Sub::name),
        namespace: &call.namespace,
        name,
        user: call.identity.user(),
        object: object.as_deref(),
        old,
        dry_run: call.query.dry_run,
    };
    let decision = hook.admit(
        &request,
        &StoreView {
            store: &inner.store,
            cache: &inner.values,
        },
    );
    warnings.extend(decision.warnings);
    match decision.verdict {
        // Until there is RBAC every user is the admin, whose reviews all end with yes.
        Verdict::Allow | Verdict::Review(_) => {}
        Verdict::Refuse(refusal) => {
            let error = ApiError::new(refusal.code, refusal.reason, refusal.message);
            return Err(error
                .about(&kind.group, &kind.plural, name)
                .cause("AdmissionRule", refusal.rule, ""));
        }
    }
    if let (Some(object), Some(changed)) = (object, decision.object) {
        *object = changed;
    }
    Ok(())
}
