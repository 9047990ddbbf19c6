//! What the server itself does with some built-in kinds when they are created or changed.

use basalt_api::quantity::Quantity;
use basalt_apimachinery::json::{annotation, list_at, string_at, value_at};
use serde_json::{Value, json};

use crate::http::metadata;
use crate::http::registry::custom_resources;
use crate::http::registry::kinds::Sub;
use crate::http::request::call::Call;
use crate::http::response::presentation;
use crate::http::response::status::{ApiError, ApiResult};
use crate::store::Key;

/// Makes a new object ready: status, defaults that depend on other objects.
pub(crate) fn create(call: &Call, object: &mut Value) -> ApiResult<()> {
    let kind = &call.kind;
    // Nodes describe themselves when they register; everything else begins without a status.
    if kind.has_status()
        && !kind.is("", "Node")
        && let Some(map) = object.as_object_mut()
    {
        map.remove("status");
    }
    match (kind.group.as_ref(), kind.kind.as_ref()) {
        ("", "Namespace") => {
            let name = string_at(object, "/metadata/name").to_owned();
            object["spec"] = json!({"finalizers": ["kubernetes"]});
            object["status"] = json!({"phase": "Active"});
            label_namespace(object, &name)
        }
        ("", "Pod") => pod(call, object),
        ("", "PersistentVolumeClaim") => {
            object["status"] = json!({"phase": "Pending"});
            default_storage_class(call, object)
        }
        ("", "PersistentVolume") => {
            object["status"] = json!({"phase": "Pending"});
            Ok(())
        }
        ("apiextensions.k8s.io", "CustomResourceDefinition") => {
            custom_resources::default(object);
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Keeps what a change of an object may not touch.
pub(crate) fn update(call: &Call, old: &Value, new: &mut Value) -> ApiResult<()> {
    match (call.kind.group.as_ref(), call.kind.kind.as_ref()) {
        ("", "Namespace") if call.sub == Some(Sub::Finalize) => {
            let finalizers = value_at(new, "/spec/finalizers").cloned().unwrap_or_else(|| json!([]));
            *new = old.clone();
            new["spec"]["finalizers"] = finalizers;
            Ok(())
        }
        ("", "Namespace") => {
            if let Some(spec) = old.get("spec") {
                new["spec"] = spec.clone();
            }
            // The phase follows the deletion: nobody makes a namespace that is going look alive, or the other way round.
            let phase = if metadata::is_deleting(old) {
                "Terminating"
            } else {
                "Active"
            };
            metadata::field_mut(new, "status")?.insert("phase".to_owned(), phase.into());
            label_namespace(new, &call.name)
        }
        ("", "Pod") => keep_resolved(old, new),
        ("apiextensions.k8s.io", "CustomResourceDefinition") => {
            custom_resources::default(new);
            Ok(())
        }
        _ => Ok(()),
    }
}

/// What was resolved when the pod was created stays, also where a manifest does not repeat it.
fn keep_resolved(old: &Value, new: &mut Value) -> ApiResult<()> {
    let spec = metadata::field_mut(new, "spec")?;
    for key in ["priority", "preemptionPolicy", "serviceAccountName", "serviceAccount"] {
        if let (None, Some(value)) = (spec.get(key), old.get("spec").and_then(|spec| spec.get(key))) {
            spec.insert(key.to_owned(), value.clone());
        }
    }
    Ok(())
}

fn label_namespace(namespace: &mut Value, name: &str) -> ApiResult<()> {
    let labels = metadata::metadata_mut(namespace)?
        .entry("labels")
        .or_insert_with(|| json!({}));
    if let Some(labels) = labels.as_object_mut() {
        labels.insert("kubernetes.io/metadata.name".to_owned(), name.into());
    }
    Ok(())
}

/// A claim that names no class gets the default one, if there is one.
fn default_storage_class(call: &Call, claim: &mut Value) -> ApiResult<()> {
    let spec = metadata::field_mut(claim, "spec")?;
    if spec.get("storageClassName").is_some_and(|class| !class.is_null()) {
        return Ok(());
    }
    let listing = call.store().list("storageclasses.storage.k8s.io", None);
    let default = listing.objects.iter().find(|class| {
        let class = call.server.inner.values.value(class);
        class.is_some_and(|class| annotation(&class, "storageclass.kubernetes.io/is-default-class") == "true")
    });
    if let Some(class) = default {
        spec.insert("storageClassName".to_owned(), class.key.name.as_ref().into());
    }
    Ok(())
}

fn pod(call: &Call, pod: &mut Value) -> ApiResult<()> {
    let spec = metadata::field_mut(pod, "spec")?;
    // An empty node is no node.
    if spec.get("nodeName").and_then(Value::as_str) == Some("") {
        spec.remove("nodeName");
    }
    service_account(pod)?;
    limit_ranges(call, pod);
    priority(call, pod)?;
    pod["status"] = json!({"phase": "Pending", "qosClass": quality(pod)});
    Ok(())
}

fn service_account(pod: &mut Value) -> ApiResult<()> {
    let spec = metadata::field_mut(pod, "spec")?;
    let given = ["serviceAccountName", "serviceAccount"]
        .into_iter()
        .find_map(|key| spec.get(key)?.as_str());
    let name = given.filter(|name| !name.is_empty()).unwrap_or("default").to_owned();
    spec.insert("serviceAccountName".to_owned(), name.as_str().into());
    spec.insert("serviceAccount".to_owned(), name.into());
    Ok(())
}

const CLASSES: &str = "priorityclasses.scheduling.k8s.io";

/// Resolves the priority class: its value and preemption policy go into the pod.
fn priority(call: &Call, pod: &mut Value) -> ApiResult<()> {
    let name = string_at(pod, "/spec/priorityClassName").to_owned();
    let class = if name.is_empty() {
        default_class(call)
    } else {
        Some(class(call, pod, &name)?)
    };
    let value = class
        .as_ref()
        .and_then(|class| class.get("value")?.as_i64())
        .unwrap_or_default();
    let policy = class
        .as_ref()
        .map(|class| string_at(class, "/preemptionPolicy"))
        .filter(|policy| !policy.is_empty());
    let policy = policy.unwrap_or("PreemptLowerPriority").to_owned();
    let pod_name = string_at(pod, "/metadata/name").to_owned();
    let spec = metadata::field_mut(pod, "spec")?;
    if let Some(given) = spec
        .get("priority")
        .and_then(Value::as_i64)
        .filter(|given| *given != value)
    {
        let why = format!(
            "the integer value of priority ({given}) must not be provided in pod spec; \
             priority admission controller computed {value} from the given PriorityClass name"
        );
        return Err(ApiError::forbidden(&call.kind, &pod_name, &why));
    }
    if let Some(class) = class.as_ref().filter(|_| name.is_empty()) {
        spec.insert(
            "priorityClassName".to_owned(),
            string_at(class, "/metadata/name").into(),
        );
    }
    spec.insert("priority".to_owned(), value.into());
    if spec.get("preemptionPolicy").is_none_or(Value::is_null) {
        spec.insert("preemptionPolicy".to_owned(), policy.into());
    }
    Ok(())
}

fn class(call: &Call, pod: &Value, name: &str) -> ApiResult<Value> {
    let class = call.store().head(&Key::new(CLASSES, "", name)).ok_or_else(|| {
        let why = format!("no PriorityClass with name {name} was found");
        ApiError::forbidden(&call.kind, string_at(pod, "/metadata/name"), &why)
    })?;
    presentation::parse(&class)
}

/// The class for pods that name none: of several global defaults the lowest, as in Kubernetes.
fn default_class(call: &Call) -> Option<Value> {
    let listing = call.store().list(CLASSES, None);
    let classes = listing
        .objects
        .iter()
        .filter_map(|class| call.server.inner.values.value(class));
    let defaults = classes.filter(|class| class.get("globalDefault") == Some(&Value::Bool(true)));
    defaults
        .min_by_key(|class| class.get("value").and_then(Value::as_i64))
        .map(|class| (*class).clone())
}

/// Requests and limits that the namespace's LimitRanges give to containers without.
fn limit_ranges(call: &Call, pod: &mut Value) {
    let listing = call.store().list("limitranges", Some(&call.namespace));
    for range in listing
        .objects
        .iter()
        .filter_map(|range| call.server.inner.values.value(range))
    {
        let limits = value_at(&range, "/spec/limits").and_then(Value::as_array);
        for limit in limits
            .into_iter()
            .flatten()
            .filter(|limit| string_at(limit, "/type") == "Container")
        {
            for list in ["containers", "initContainers"] {
                let containers = pod
                    .get_mut("spec")
                    .and_then(|spec| spec.get_mut(list))
                    .and_then(Value::as_array_mut);
                for container in containers
                    .into_iter()
                    .flatten()
                    .filter(|container| container.is_object())
                {
                    fill(container, "limits", limit.get("default"));
                    fill(container, "requests", limit.get("defaultRequest"));
                }
            }
        }
    }
}

fn fill(container: &mut Value, section: &str, defaults: Option<&Value>) {
    for (resource, quantity) in defaults.and_then(Value::as_object).into_iter().flatten() {
        let Ok(resources) = metadata::field_mut(container, "resources") else {
            return;
        };
        let list = resources.entry(section).or_insert_with(|| json!({}));
        if let Some(list) = list.as_object_mut() {
            list.entry(resource.clone()).or_insert_with(|| quantity.clone());
        }
    }
}

/// Kubernetes' quality of service class.
fn quality(pod: &Value) -> &'static str {
    let containers = ["/spec/containers", "/spec/initContainers"]
        .into_iter()
        .flat_map(|pointer| list_at(pod, pointer));
    let mut guaranteed = true;
    let mut anything = false;
    for container in containers {
        let amount = |pointer: &str| {
            let amount = Quantity::parse(string_at(container, pointer)).ok();
            amount.filter(|amount| amount.milli().unwrap_or(i64::MAX) > 0)
        };
        for (request, limit) in [
            ("/resources/requests/cpu", "/resources/limits/cpu"),
            ("/resources/requests/memory", "/resources/limits/memory"),
        ] {
            let (request, limit) = (amount(request), amount(limit));
            anything |= request.is_some() || limit.is_some();
            // A request that is left out is the limit.
            guaranteed &= limit.is_some() && (request.is_none() || request == limit);
        }
    }
    match (anything, guaranteed) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}
