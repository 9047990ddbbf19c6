//! Delete: preconditions, grace, finalizers and propagation.

use std::sync::Arc;

use axum::body::Body;
use basalt_admission::Operation;
use basalt_apimachinery::json::{integer_at, string_at, strings_at, value_at};
use futures::{TryStreamExt, stream};
use http::{Response, StatusCode};
use serde_json::{Value, json};

use crate::http::admission;
use crate::http::metadata;
use crate::http::registry::custom_resources;
use crate::http::request::body;
use crate::http::request::call::Call;
use crate::http::response::presentation;
use crate::http::response::status::{ApiError, ApiResult, json_response, success};
use crate::http::verbs::commit::{CommitFailure, commit};
use crate::http::verbs::list;
use crate::http::verbs::update::{ATTEMPTS_MAX, write_of};
use crate::store::{Object, Write};

/// Finalizer of a deletion that waits for its dependents.
pub(crate) const FOREGROUND: &str = "foregroundDeletion";
/// Finalizer of a deletion that lets its dependents live.
pub(crate) const ORPHAN: &str = "orphan";

/// How many objects of a collection are deleted at the same time.
const COLLECTION_WIDTH: usize = 64;

/// What a deletion asks for.
#[derive(Debug, Default, Clone)]
pub(crate) struct DeleteOptions {
    pub(crate) grace: Option<i64>,
    pub(crate) uid: Option<String>,
    pub(crate) revision: Option<String>,
    pub(crate) propagation: Option<Propagation>,
    pub(crate) dry_run: bool,
}

/// What happens to dependents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Propagation {
    Background,
    Foreground,
    Orphan,
}

/// What a deletion ended with, in stored form.
pub(crate) enum Deleted {
    /// It is gone.
    Gone(Value),
    /// It goes once its grace is over and its finalizers are gone.
    Going(Value),
}

/// Answers a DELETE of one object.
pub(crate) async fn delete(call: &Call, bytes: &[u8]) -> ApiResult<Response<Body>> {
    let options = options(call, bytes)?;
    let mut warnings = Vec::new();
    let mut response = match delete_one(call, &call.name, &options, &mut warnings).await? {
        Deleted::Gone(object) if !call.kind.is("", "Pod") => {
            let uid = string_at(&object, "/metadata/uid");
            json_response(StatusCode::OK, &success(&call.kind, &call.name, uid))
        }
        Deleted::Gone(mut object) | Deleted::Going(mut object) => {
            presentation::to_served(&call.kind, &mut object);
            presentation::answer_value(call, StatusCode::OK, object)
        }
    };
    presentation::warn(&mut response, &warnings);
    Ok(response)
}

/// Answers a DELETE of a collection: each selected object on its own, and the list of them.
pub(crate) async fn collection(call: &Call, bytes: &[u8]) -> ApiResult<Response<Body>> {
    let options = options(call, bytes)?;
    let selection = list::Selection::new(call)?;
    let listing = call.store().list(&call.kind.resource, call.list_namespace());
    let chosen: Vec<Arc<Object>> = listing
        .objects
        .into_iter()
        .filter(|object| selection.matches(object))
        .collect();
    let calls: Vec<Call> = chosen
        .iter()
        .map(|object| call.about(&object.key.namespace, &object.key.name))
        .collect();
    stream::iter(calls.iter().map(Ok))
        .try_for_each_concurrent(COLLECTION_WIDTH, |one| {
            let options = &options;
            async move {
                match delete_one(one, &one.name, options, &mut Vec::new()).await {
                    Err(error) if error.code != 404 => Err(error),
                    _ => Ok(()),
                }
            }
        })
        .await?;
    let items: Vec<Value> = chosen
        .iter()
        .map(|object| presentation::value(&call.kind, &object.body))
        .collect();
    let answer = json!({
        "kind": call.kind.list_kind, "apiVersion": call.kind.api_version,
        "metadata": {"resourceVersion": listing.revision.to_string()}, "items": items,
    });
    Ok(json_response(StatusCode::OK, &answer))
}

fn options(call: &Call, bytes: &[u8]) -> ApiResult<DeleteOptions> {
    let query = &call.query;
    let mut options = DeleteOptions {
        grace: query.grace_period_seconds,
        dry_run: query.dry_run,
        ..DeleteOptions::default()
    };
    let mut policy = query.propagation.clone();
    if !bytes.is_empty() {
        let given = body::decode(&call.headers, bytes, "DeleteOptions")?.value;
        let kind = string_at(&given, "/kind");
        if !matches!(kind, "" | "DeleteOptions") {
            return Err(ApiError::bad_request(format!(
                "{kind} cannot be handled as a DeleteOptions"
            )));
        }
        options.grace = given
            .get("gracePeriodSeconds")
            .and_then(Value::as_i64)
            .or(options.grace);
        let condition = |pointer| value_at(&given, pointer).and_then(Value::as_str).map(str::to_owned);
        options.uid = condition("/preconditions/uid");
        options.revision = condition("/preconditions/resourceVersion");
        policy = given
            .get("propagationPolicy")
            .and_then(Value::as_str)
            .map(str::to_owned)
            .or(policy);
        if given.get("orphanDependents") == Some(&Value::Bool(true)) {
            policy = Some("Orphan".to_owned());
        }
        options.dry_run |= strings_at(&given, "/dryRun").any(|word| word == "All");
    }
    if let Some(grace) = options.grace.filter(|grace| *grace < 0) {
        return Err(invalid(&format!(
            "gracePeriodSeconds: Invalid value: {grace}: must be greater than or equal to 0"
        )));
    }
    options.propagation = match policy.as_deref() {
        None | Some("") => None,
        Some("Background") => Some(Propagation::Background),
        Some("Foreground") => Some(Propagation::Foreground),
        Some("Orphan") => Some(Propagation::Orphan),
        Some(other) => {
            let supported = "supported values: \"Background\", \"Foreground\", \"Orphan\"";
            return Err(invalid(&format!(
                "propagationPolicy: Unsupported value: \"{other}\": {supported}"
            )));
        }
    };
    Ok(options)
}

fn invalid(why: &str) -> ApiError {
    ApiError::new(
        422,
        "Invalid",
        format!("DeleteOptions.meta.k8s.io \"\" is invalid: {why}"),
    )
}

/// Deletes one object, or begins to.
pub(crate) async fn delete_one(
    call: &Call,
    name: &str,
    options: &DeleteOptions,
    warnings: &mut Vec<String>,
) -> ApiResult<Deleted> {
    let key = call.key(name);
    for _ in 0..ATTEMPTS_MAX {
        let passage = admission::passage(call, None).await;
        let current = call
            .store()
            .head(&key)
            .ok_or_else(|| ApiError::not_found(&call.kind, name))?;
        let old = presentation::parse(&current)?;
        check_conditions(call, name, options, &old, &current)?;
        admission::admit(call, Operation::Delete, name, None, Some(&old), warnings)?;
        let mut new = old.clone();
        mark(call, options, &mut new)?;
        let write = match write_of(call, &key, &new, current.revision) {
            Write::Put { key, expect, .. } if new == old => Write::Check { key, expect },
            write => write,
        };
        let gone = matches!(write, Write::Delete { .. });
        let done = |object: Value| {
            if gone {
                Deleted::Gone(object)
            } else {
                Deleted::Going(object)
            }
        };
        if options.dry_run {
            return Ok(done(new));
        }
        match commit(call, passage, vec![write]).await {
            Ok(commit) => {
                let object = commit
                    .objects
                    .last()
                    .ok_or_else(|| ApiError::internal("the commit is empty"))?;
                return Ok(done(presentation::parse(object)?));
            }
            Err(CommitFailure::Conflict(_)) => {}
            Err(CommitFailure::Failed(error)) => return Err(error),
        }
    }
    Err(ApiError::stale(&call.kind, name))
}

fn check_conditions(call: &Call, name: &str, options: &DeleteOptions, old: &Value, current: &Object) -> ApiResult<()> {
    let uid = string_at(old, "/metadata/uid");
    if let Some(wanted) = options.uid.as_deref().filter(|wanted| *wanted != uid) {
        let why = format!("Precondition failed: UID in precondition: {wanted}, UID in object meta: {uid}");
        return Err(ApiError::conflict(&call.kind, name, &why));
    }
    let revision = current.revision.to_string();
    if let Some(wanted) = options.revision.as_deref().filter(|wanted| *wanted != revision) {
        let why = format!(
            "Precondition failed: ResourceVersion in precondition: {wanted}, ResourceVersion in object meta: {revision}"
        );
        return Err(ApiError::conflict(&call.kind, name, &why));
    }
    if (call.kind.is("", "Namespace") && matches!(name, "default" | "kube-system" | "kube-public"))
        || (call.kind.is("scheduling.k8s.io", "PriorityClass") && name.starts_with("system-"))
    {
        return Err(ApiError::forbidden(&call.kind, name, "this object may not be deleted"));
    }
    Ok(())
}

/// Writes into the object that it is being deleted, and how.
fn mark(call: &Call, options: &DeleteOptions, object: &mut Value) -> ApiResult<()> {
    hold(options.propagation, object)?;
    let is_pod = call.kind.is("", "Pod");
    let grace = if is_pod { pod_grace(options.grace, object) } else { 0 };
    if metadata::is_deleting(object) {
        let left = value_at(object, "/metadata/deletionGracePeriodSeconds")
            .and_then(Value::as_i64)
            .unwrap_or_default();
        // Grace can be cut short, never extended.
        if is_pod && grace < left && (options.grace.is_some() || grace == 0) {
            set_deadline(call, object, grace)?;
        }
        return Ok(());
    }
    set_deadline(call, object, grace)?;
    let generation = integer_at(object, "/metadata/generation");
    if let Some(generation) = generation.filter(|generation| *generation > 0) {
        metadata::metadata_mut(object)?.insert("generation".to_owned(), generation.saturating_add(1).into());
    }
    if call.kind.is("", "Namespace") {
        metadata::field_mut(object, "status")?.insert("phase".to_owned(), "Terminating".into());
    }
    if call.kind.is("apiextensions.k8s.io", "CustomResourceDefinition") {
        add_finalizer(object, custom_resources::CLEANUP_FINALIZER)?;
        let words = (
            "True",
            "InstanceDeletionPending",
            "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
        );
        custom_resources::set_condition(object, "Terminating", words, &call.now());
    }
    Ok(())
}

fn set_deadline(call: &Call, object: &mut Value, grace: i64) -> ApiResult<()> {
    let at = call.server.now().saturating_add(jiff::SignedDuration::from_secs(grace));
    let at = at.map_err(|error| ApiError::bad_request(format!("gracePeriodSeconds: {error}")))?;
    let metadata = metadata::metadata_mut(object)?;
    metadata.insert("deletionTimestamp".to_owned(), metadata::time(at).into());
    metadata.insert("deletionGracePeriodSeconds".to_owned(), grace.into());
    Ok(())
}

/// A pod's grace: none where no node runs it (any more).
fn pod_grace(wanted: Option<i64>, pod: &Value) -> i64 {
    let ended = matches!(string_at(pod, "/status/phase"), "Succeeded" | "Failed");
    if ended || string_at(pod, "/spec/nodeName").is_empty() {
        return 0;
    }
    let own = value_at(pod, "/spec/terminationGracePeriodSeconds")
        .and_then(Value::as_i64)
        .unwrap_or(30);
    wanted.unwrap_or(own).max(0)
}

/// The finalizers that stand for the propagation policy.
fn hold(propagation: Option<Propagation>, object: &mut Value) -> ApiResult<()> {
    let wanted = match propagation {
        None => return Ok(()),
        Some(Propagation::Background) => None,
        Some(Propagation::Foreground) => Some(FOREGROUND),
        Some(Propagation::Orphan) => Some(ORPHAN),
    };
    if let Some(Value::Array(finalizers)) = metadata::metadata_mut(object)?.get_mut("finalizers") {
        finalizers.retain(|finalizer| !matches!(finalizer.as_str(), Some(FOREGROUND | ORPHAN)));
        if finalizers.is_empty() {
            metadata::metadata_mut(object)?.remove("finalizers");
        }
    }
    wanted.map_or(Ok(()), |finalizer| add_finalizer(object, finalizer))
}

fn add_finalizer(object: &mut Value, finalizer: &str) -> ApiResult<()> {
    let finalizers = metadata::metadata_mut(object)?
        .entry("finalizers")
        .or_insert_with(|| json!([]));
    if let Some(list) = finalizers.as_array_mut()
        && !list.iter().any(|found| found == finalizer)
    {
        list.push(finalizer.into());
    }
    Ok(())
}
