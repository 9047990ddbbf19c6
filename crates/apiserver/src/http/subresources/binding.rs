//! Binding pods to nodes: one, or a whole gang at once.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use axum::body::Body;
use basalt_apimachinery::builtin_kinds;
use basalt_apimachinery::json::string_at;
use http::{Response, StatusCode};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::http::admission::Passage;
use crate::http::metadata;
use crate::http::registry::custom_resources;
use crate::http::registry::kinds::Kind;
use crate::http::request::call::Call;
use crate::http::request::{body, negotiation};
use crate::http::response::status::{ApiError, ApiResult, json_response};
use crate::http::verbs::commit::{CommitFailure, commit};
use crate::http::verbs::update::ATTEMPTS_MAX;
use crate::store::{Draft, Expect, Key, Object, Write};

/// Most pods of one gang binding.
const GANG_MAX: usize = 100_000;
/// Largest body of a gang binding: room for [`GANG_MAX`] items with their names and uids.
pub(crate) const GANG_BYTES_MAX: usize = 64 * 1024 * 1024;
/// After how many items of a gang others get their turn.
const BREATH: usize = 256;

/// The answer to a binding or an eviction that was done.
pub(crate) fn done() -> Response<Body> {
    let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201});
    json_response(StatusCode::CREATED, &status)
}

/// What a Binding says. Absent and null are the same, as in Go.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Binding {
    metadata: Option<BindingMeta>,
    target: Option<Target>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct BindingMeta {
    name: Option<String>,
    namespace: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
    annotations: Option<BTreeMap<String, String>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Target {
    kind: Option<String>,
    name: Option<String>,
}

impl Binding {
    fn meta(&self, field: impl Fn(&BindingMeta) -> Option<&String>) -> &str {
        self.metadata.as_ref().and_then(field).map_or("", String::as_str)
    }

    fn name(&self) -> &str {
        self.meta(|meta| meta.name.as_ref())
    }

    fn target(&self, field: impl Fn(&Target) -> Option<&String>) -> &str {
        self.target.as_ref().and_then(field).map_or("", String::as_str)
    }

    fn node(&self) -> &str {
        self.target(|target| target.name.as_ref())
    }
}

fn unreadable(error: &serde_json::Error) -> ApiError {
    ApiError::bad_request(format!(
        "Binding in version \"v1\" cannot be handled as a Binding: json: {error}"
    ))
}

/// Answers a POST of a Binding: the pod gets its node.
pub(crate) async fn bind(call: &Call, bytes: &[u8]) -> ApiResult<Response<Body>> {
    let binding = body::decode(&call.headers, bytes, "Binding")?.value;
    let mut binding: Binding = serde_json::from_value(binding).map_err(|error| unreadable(&error))?;
    if !binding.name().is_empty() && binding.name() != &*call.name {
        return Err(ApiError::bad_request(
            "name in URL does not match name in Binding object",
        ));
    }
    binding.metadata.get_or_insert_default().name = Some(call.name.as_ref().to_owned());
    bind_all(call, &call.kind, &[binding]).await?;
    Ok(done())
}

/// A gang's Bindings, each still as text.
#[derive(Deserialize)]
struct Gang<'a> {
    #[serde(borrow, default)]
    items: Vec<&'a RawValue>,
}

/// Answers a POST of a gang's Bindings: all of them in one commit, or none.
pub(crate) async fn bind_gang(call: &Call, bytes: &[u8]) -> ApiResult<Response<Body>> {
    if !matches!(negotiation::content_type(&call.headers), "" | "application/json") {
        return Err(ApiError::unsupported_media_type(&["application/json"]));
    }
    let gang: Gang<'_> = serde_json::from_slice(bytes).map_err(|error| unreadable(&error))?;
    if gang.items.is_empty() || gang.items.len() > GANG_MAX {
        return Err(ApiError::bad_request(format!(
            "a gang binding has 1 to {GANG_MAX} items"
        )));
    }
    let mut bindings: Vec<Binding> = Vec::with_capacity(gang.items.len());
    let mut names = HashSet::with_capacity(gang.items.len());
    for (count, item) in gang.items.iter().enumerate() {
        breathe(count).await;
        let binding: Binding = serde_json::from_str(item.get()).map_err(|error| unreadable(&error))?;
        let (name, namespace) = (binding.name(), binding.meta(|meta| meta.namespace.as_ref()));
        if name.is_empty() || !(namespace.is_empty() || namespace == &*call.namespace) {
            return Err(ApiError::bad_request(
                "every item names a pod of the request's namespace",
            ));
        }
        if !names.insert(name.to_owned()) {
            return Err(ApiError::bad_request(format!(
                "pod \"{name}\" is in the gang binding twice"
            )));
        }
        bindings.push(binding);
    }
    let registry = call.server.registry();
    let pods = registry.find("", "v1", "pods").ok_or_else(ApiError::no_resource)?;
    bind_all(call, pods, &bindings).await?;
    Ok(done())
}

/// Lets others have their turn every now and then: a large gang keeps a thread busy for long.
async fn breathe(count: usize) {
    if count % BREATH == BREATH - 1 {
        tokio::task::yield_now().await;
    }
}

async fn bind_all(call: &Call, pods: &Arc<Kind>, bindings: &[Binding]) -> ApiResult<()> {
    let now = call.now();
    let mut lost = None;
    for _ in 0..ATTEMPTS_MAX {
        let mut writes = Vec::with_capacity(bindings.len());
        for (count, binding) in bindings.iter().enumerate() {
            breathe(count).await;
            let name = binding.name();
            let key = Key {
                resource: pods.resource.clone(),
                namespace: call.namespace.clone(),
                name: name.into(),
            };
            let current = call.store().head(&key).ok_or_else(|| ApiError::not_found(pods, name))?;
            let draft = bound(pods, &current, binding, &now)?;
            writes.push(Write::Put {
                key,
                expect: Expect::Revision(current.revision),
                draft,
            });
        }
        if call.query.dry_run {
            return Ok(());
        }
        match commit(call, Passage::Free, writes).await {
            Ok(_) => return Ok(()),
            Err(CommitFailure::Conflict(key)) => lost = Some(key),
            Err(CommitFailure::Failed(error)) => return Err(error),
        }
    }
    Err(ApiError::stale(pods, lost.as_ref().map_or("", |key| &key.name)))
}

/// A stored pod, parsed only as far as binding needs: a scheduler binds many thousands of them.
#[derive(Deserialize)]
struct StoredPod<'a> {
    #[serde(borrow)]
    metadata: &'a RawValue,
    #[serde(borrow)]
    spec: &'a RawValue,
    #[serde(default)]
    status: Value,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Placement {
    node_name: Option<String>,
    scheduling_gates: Option<Vec<IgnoredAny>>,
}

/// The pod with its node, or why it cannot have one.
fn bound(pods: &Kind, current: &Object, binding: &Binding, now: &str) -> ApiResult<Draft> {
    let damaged = |error: serde_json::Error| ApiError::internal(format!("{}: {error}", current.key));
    let pod: StoredPod<'_> = serde_json::from_slice(&current.body).map_err(damaged)?;
    let placement: Placement = serde_json::from_str(pod.spec.get()).map_err(damaged)?;
    let node = binding.node();
    check_bindable(pods, current, binding, &placement)?;
    let mut metadata: Value = serde_json::from_str(pod.metadata.get()).map_err(damaged)?;
    let given = binding.metadata.as_ref().and_then(|meta| meta.annotations.as_ref());
    if let Some(given) = given.filter(|given| !given.is_empty()) {
        let annotations = metadata::field_mut(&mut metadata, "annotations")?;
        annotations.extend(given.iter().map(|(key, value)| (key.clone(), value.as_str().into())));
        let errors = builtin_kinds::annotation_errors(&metadata);
        if !errors.is_empty() {
            return Err(ApiError::invalid(pods, &current.key.name, &errors));
        }
    }
    let mut rest = json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "status": pod.status});
    scheduled(&mut rest, now)?;
    let mut draft = metadata::draft(&rest);
    // The spec is copied as it is, with the node before its first field.
    let fields = pod.spec.get().trim_start().strip_prefix('{').unwrap_or_default();
    let comma = if fields.trim_start().starts_with('}') { "" } else { "," };
    let after = draft.after();
    after.pop();
    after.extend_from_slice(format!(",\"spec\":{{\"nodeName\":{}{comma}", Value::from(node)).as_bytes());
    after.extend_from_slice(fields.as_bytes());
    after.push(b'}');
    Ok(draft)
}

fn check_bindable(pods: &Kind, current: &Object, binding: &Binding, placement: &Placement) -> ApiResult<()> {
    let name = &*current.key.name;
    if binding.node().is_empty() || !matches!(binding.target(|target| target.kind.as_ref()), "" | "Node") {
        return Err(ApiError::bad_request(format!(
            "the binding of pod \"{name}\" does not target a Node"
        )));
    }
    let head = metadata::head(&current.body);
    let conflict = |why: &str| Err(ApiError::conflict(pods, name, why));
    let (uid, own) = (binding.meta(|meta| meta.uid.as_ref()), &head.uid);
    if !uid.is_empty() && uid != own {
        return conflict(&format!(
            "Precondition failed: UID in precondition: {uid}, UID in object meta: {own}"
        ));
    }
    let revision = binding.meta(|meta| meta.resource_version.as_ref());
    if !revision.is_empty() && revision != current.revision.to_string() {
        return Err(ApiError::stale(pods, name));
    }
    if head.deletion_timestamp.is_some() {
        return conflict(&format!("pod {name} is being deleted, cannot be assigned to a host"));
    }
    if let Some(has) = placement.node_name.as_deref() {
        return conflict(&format!("pod {name} is already assigned to node \"{has}\""));
    }
    if placement
        .scheduling_gates
        .as_ref()
        .is_some_and(|gates| !gates.is_empty())
    {
        return conflict(&format!("pod {name} has non-empty .spec.schedulingGates"));
    }
    Ok(())
}

fn scheduled(pod: &mut Value, now: &str) -> ApiResult<()> {
    custom_resources::set_condition(pod, "PodScheduled", ("True", "", ""), now);
    let conditions = metadata::field_mut(pod, "status")?
        .get_mut("conditions")
        .and_then(Value::as_array_mut);
    let conditions = conditions.into_iter().flatten();
    for condition in conditions.filter(|condition| string_at(condition, "/type") == "PodScheduled") {
        if let Some(map) = condition.as_object_mut() {
            map.remove("reason");
            map.remove("message");
            map.insert("lastProbeTime".to_owned(), Value::Null);
        }
    }
    Ok(())
}
