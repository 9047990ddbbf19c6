//! Update: one read-modify-write loop that PUT, PATCH and the subresources share.

use std::sync::Arc;

use axum::body::Body;
use basalt_admission::Operation;
use basalt_apimachinery::field_error::FieldError;
use basalt_apimachinery::json::{string_at, value_at};
use http::{Response, StatusCode};
use serde_json::Value;

use crate::http::admission;
use crate::http::metadata;
use crate::http::registry::kinds::Sub;
use crate::http::registry::{custom_resources, strategies};
use crate::http::request::body;
use crate::http::request::call::Call;
use crate::http::request::incoming_object::{self, Incoming};
use crate::http::response::presentation;
use crate::http::response::status::{ApiError, ApiResult};
use crate::http::verbs::commit::{CommitFailure, commit};
use crate::store::{Expect, Object, Write};

/// How often a write that names no revision is tried against concurrent writers.
pub(crate) const ATTEMPTS_MAX: usize = 256;

/// What a modification ended with.
pub(crate) enum Modified {
    /// Stored, or the same as before.
    Stored(Arc<Object>),
    /// A dry run's result, in stored form.
    Dry(Value),
}

/// Answers a PUT of an object or of its status.
pub(crate) async fn replace(call: &Call, bytes: &[u8]) -> ApiResult<Response<Body>> {
    let decoded = body::decode(&call.headers, bytes, &call.kind.kind)?;
    let Incoming { object, mut warnings } = incoming_object::take(call, decoded)?;
    check_path(call, &object)?;
    let revision = string_at(&object, "/metadata/resourceVersion");
    // Custom kinds are never replaced blindly.
    if revision.is_empty() && call.kind.custom().is_some() {
        let error = FieldError::invalid("metadata.resourceVersion", 0, "must be specified for an update");
        return Err(ApiError::invalid(&call.kind, &call.name, &[error]));
    }
    let modified = modify(call, &mut warnings, |_, _| Ok(object.clone())).await?;
    Ok(answer(call, StatusCode::OK, modified, &warnings))
}

/// Answers with what a modification ended with.
pub(crate) fn answer(call: &Call, code: StatusCode, done: Modified, warnings: &[String]) -> Response<Body> {
    let mut response = match done {
        Modified::Stored(object) => presentation::answer(call, code, &object),
        Modified::Dry(mut object) => {
            presentation::to_served(&call.kind, &mut object);
            presentation::answer_value(call, code, object)
        }
    };
    presentation::warn(&mut response, warnings);
    response
}

/// Name and namespace in the body must be those of the path.
pub(crate) fn check_path(call: &Call, object: &Value) -> ApiResult<()> {
    let (name, namespace) = (
        string_at(object, "/metadata/name"),
        string_at(object, "/metadata/namespace"),
    );
    if !name.is_empty() && name != &*call.name {
        let why = format!(
            "the name of the object ({name}) does not match the name on the URL ({})",
            call.name
        );
        return Err(ApiError::bad_request(why));
    }
    if !namespace.is_empty() && namespace != &*call.namespace {
        let why = format!(
            "the namespace of the object ({namespace}) does not match the namespace on the request ({})",
            call.namespace
        );
        return Err(ApiError::bad_request(why));
    }
    Ok(())
}

/// Reads, lets `change` make the new object of the current one (both in stored form), and writes, again and again until
/// no other writer came between. A revision or uid in the new object is a condition.
pub(crate) async fn modify(
    call: &Call,
    warnings: &mut Vec<String>,
    mut change: impl FnMut(&Value, &Object) -> ApiResult<Value>,
) -> ApiResult<Modified> {
    let key = call.key(&call.name);
    let told = warnings.len();
    for _ in 0..ATTEMPTS_MAX {
        warnings.truncate(told);
        let passage = admission::passage(call, None).await;
        let current = call.store().head(&key).ok_or_else(|| call.not_found())?;
        let old = presentation::parse(&current)?;
        let mut new = change(&old, &current)?;
        settle(call, &old, &mut new, &current)?;
        admission::admit(
            call,
            Operation::Update,
            &call.name,
            Some(&mut new),
            Some(&old),
            warnings,
        )?;
        bump_generation(call, &old, &mut new)?;
        let write = if new == old {
            // Nothing to write; but what is answered must be on disk.
            Write::Check {
                key: key.clone(),
                expect: Expect::Revision(current.revision),
            }
        } else {
            incoming_object::validate(call, &new, Some(&old))?;
            if *call.kind.resource == *custom_resources::RESOURCE {
                custom_resources::establish(&mut new, &call.server.definitions(), &call.now());
            }
            if call.query.dry_run {
                return Ok(Modified::Dry(new));
            }
            write_of(call, &key, &new, current.revision)
        };
        if call.query.dry_run {
            return Ok(Modified::Dry(old));
        }
        match commit(call, passage, vec![write]).await {
            Ok(mut commit) => {
                let object = commit
                    .objects
                    .pop()
                    .ok_or_else(|| ApiError::internal("the commit is empty"))?;
                return Ok(Modified::Stored(object));
            }
            Err(CommitFailure::Conflict(_)) => {}
            Err(CommitFailure::Failed(error)) => return Err(error),
        }
    }
    Err(ApiError::stale(&call.kind, &call.name))
}

/// The write that makes `new` the state: a removal when the last thing that held a deleted object is gone.
pub(crate) fn write_of(call: &Call, key: &crate::store::Key, new: &Value, revision: u64) -> Write {
    let expect = Expect::Revision(revision);
    let draft = metadata::draft(new);
    let grace = value_at(new, "/metadata/deletionGracePeriodSeconds")
        .and_then(Value::as_i64)
        .unwrap_or_default();
    // A pod with grace left is removed by its node, which deletes it with grace 0.
    let waits = call.kind.is("", "Pod") && grace > 0;
    if metadata::is_deleting(new) && !metadata::is_held(new) && !waits {
        Write::Delete {
            key: key.clone(),
            expect,
            last: draft,
        }
    } else {
        Write::Put {
            key: key.clone(),
            expect,
            draft,
        }
    }
}

/// Checks conditions, restores what a request cannot change, and keeps object and status apart.
fn settle(call: &Call, old: &Value, new: &mut Value, current: &Object) -> ApiResult<()> {
    let revision = string_at(new, "/metadata/resourceVersion");
    if !revision.is_empty() && revision != current.revision.to_string() {
        if revision.parse::<u64>().is_err() {
            let error = FieldError::invalid("metadata.resourceVersion", revision, "must be an unsigned integer");
            return Err(ApiError::invalid(&call.kind, &call.name, &[error]));
        }
        return Err(ApiError::stale(&call.kind, &call.name));
    }
    let (uid, old_uid) = (string_at(new, "/metadata/uid"), string_at(old, "/metadata/uid"));
    if !uid.is_empty() && uid != old_uid {
        let why = format!("Precondition failed: UID in precondition: {uid}, UID in object meta: {old_uid}");
        return Err(ApiError::conflict(&call.kind, &call.name, &why));
    }
    isolate(call, old, new);
    keep_metadata(old, new)?;
    strategies::update(call, old, new)
}

/// A write of the object cannot touch the status, and a write of the status nothing else.
fn isolate(call: &Call, old: &Value, new: &mut Value) {
    let (Some(from), Some(to)) = (old.as_object(), new.as_object_mut()) else {
        return;
    };
    match call.sub {
        None if call.kind.has_status() => match from.get("status") {
            Some(status) => drop(to.insert("status".to_owned(), status.clone())),
            None => drop(to.remove("status")),
        },
        Some(Sub::Status) => {
            let status = to.remove("status");
            let metadata = to.remove("metadata");
            to.clone_from(from);
            match status {
                Some(status) => drop(to.insert("status".to_owned(), status)),
                None => drop(to.remove("status")),
            }
            // Built-in kinds take labels and annotations with a status; custom ones take the status alone.
            if call.kind.custom().is_none()
                && let (Some(given), Some(kept)) = (metadata, to.get_mut("metadata").and_then(Value::as_object_mut))
            {
                for key in ["labels", "annotations"] {
                    metadata::put(kept, key, given.get(key).cloned());
                }
            }
        }
        _ => {}
    }
}

fn keep_metadata(old: &Value, new: &mut Value) -> ApiResult<()> {
    let metadata = metadata::metadata_mut(new)?;
    metadata::tidy(metadata);
    let kept = old.get("metadata");
    for key in [
        "name",
        "namespace",
        "uid",
        "creationTimestamp",
        "generation",
        "generateName",
        "resourceVersion",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
    ] {
        metadata::put(metadata, key, kept.and_then(|kept| kept.get(key)).cloned());
    }
    Ok(())
}

/// The generation counts changes of what is wanted.
fn bump_generation(call: &Call, old: &Value, new: &mut Value) -> ApiResult<()> {
    if !call.kind.generation {
        return Ok(());
    }
    let changed = if call.kind.custom().is_some() {
        // Without a status subresource the status is wanted like everything else.
        let wanted = |object: &Value| {
            let mut rest = object.as_object().cloned().unwrap_or_default();
            rest.remove("metadata");
            if call.kind.has_status() {
                rest.remove("status");
            }
            rest
        };
        wanted(old) != wanted(new)
    } else {
        old.get("spec") != new.get("spec")
    };
    if changed {
        let generation = value_at(old, "/metadata/generation")
            .and_then(Value::as_i64)
            .unwrap_or_default();
        metadata::metadata_mut(new)?.insert("generation".to_owned(), generation.saturating_add(1).into());
    }
    Ok(())
}
