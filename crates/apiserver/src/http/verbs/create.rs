//! Create: defaults, names, admission, and checks that the namespace and the definition of the object stay.

use std::sync::Arc;

use axum::body::Body;
use basalt_admission::Operation;
use basalt_apimachinery::field_error::FieldError;
use basalt_apimachinery::json::string_at;
use http::{Response, StatusCode};
use serde_json::Value;

use crate::http::admission;
use crate::http::metadata;
use crate::http::registry::{custom_resources, strategies};
use crate::http::request::body;
use crate::http::request::call::Call;
use crate::http::request::incoming_object::{self, Incoming};
use crate::http::response::presentation;
use crate::http::response::status::{ApiError, ApiResult};
use crate::http::verbs::commit::{CommitFailure, commit};
use crate::store::{Expect, Key, Object, Write};

/// How often a generated name may turn out to be taken.
const GENERATE_MAX: usize = 8;
/// Longest name that generation makes.
const GENERATED_NAME_MAX: usize = 63;

/// Answers a POST to a collection.
pub(crate) async fn create(call: &Call, bytes: &[u8]) -> ApiResult<Response<Body>> {
    if call.kind.namespaced && call.namespace.is_empty() {
        return Err(ApiError::method_not_allowed());
    }
    let decoded = body::decode(&call.headers, bytes, &call.kind.kind)?;
    let Incoming { object, mut warnings } = incoming_object::take(call, decoded)?;
    let made = make(call, object, &mut warnings).await?;
    let mut response = match made {
        Made::Stored(object) => presentation::answer(call, StatusCode::CREATED, &object),
        Made::Dry(mut object) => {
            presentation::to_served(&call.kind, &mut object);
            presentation::answer_value(call, StatusCode::CREATED, object)
        }
    };
    presentation::warn(&mut response, &warnings);
    Ok(response)
}

enum Made {
    Stored(Arc<Object>),
    Dry(Value),
}

async fn make(call: &Call, mut object: Value, warnings: &mut Vec<String>) -> ApiResult<Made> {
    place(call, &mut object)?;
    let generate = string_at(&object, "/metadata/generateName").to_owned();
    let given = string_at(&object, "/metadata/name").to_owned();
    if given.is_empty() && generate.is_empty() {
        let error = FieldError::required("metadata.name", "name or generateName is required");
        return Err(ApiError::invalid(&call.kind, "", &[error]));
    }
    let mut last = String::new();
    for _ in 0..GENERATE_MAX {
        last = if given.is_empty() {
            generated(call, &generate)
        } else {
            given.clone()
        };
        let mut attempt = object.clone();
        metadata::metadata_mut(&mut attempt)?.insert("name".to_owned(), last.as_str().into());
        match store(call, attempt, &last, warnings).await {
            Ok(made) => return Ok(made),
            Err(CommitFailure::Failed(error)) => return Err(error),
            // The namespace changed meanwhile, or a generated name is taken: once more.
            Err(CommitFailure::Conflict(key)) if *key.resource != *call.kind.resource || given.is_empty() => {}
            Err(CommitFailure::Conflict(_)) => break,
        }
    }
    let mut error = ApiError::already_exists(&call.kind, &last);
    let deleting = |object: Arc<Object>| metadata::head(&object.body).deletion_timestamp.is_some();
    if call.store().head(&call.key(&last)).is_some_and(deleting) {
        error.message = format!("object is being deleted: {}", error.message);
    }
    Err(error)
}

fn generated(call: &Call, base: &str) -> String {
    let suffix = metadata::suffix(&(call.server.inner.options.uids)());
    let room = GENERATED_NAME_MAX.saturating_sub(suffix.len());
    let cut = (0..=room.min(base.len()))
        .rev()
        .find(|at| base.is_char_boundary(*at))
        .unwrap_or_default();
    format!("{}{suffix}", base.get(..cut).unwrap_or_default())
}

/// Gives the object the namespace of the path and takes away what only the server sets.
fn place(call: &Call, object: &mut Value) -> ApiResult<()> {
    let namespace = string_at(object, "/metadata/namespace").to_owned();
    if !namespace.is_empty() && namespace != *call.namespace {
        return Err(ApiError::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    if !string_at(object, "/metadata/resourceVersion").is_empty() {
        return Err(ApiError::new(
            500,
            "",
            "resourceVersion should not be set on objects to be created",
        ));
    }
    let metadata = metadata::metadata_mut(object)?;
    for key in [
        "selfLink",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "resourceVersion",
        "generation",
    ] {
        metadata.remove(key);
    }
    metadata::put(
        metadata,
        "namespace",
        call.kind.namespaced.then(|| call.namespace.as_ref().into()),
    );
    metadata.insert("uid".to_owned(), (call.server.inner.options.uids)().into());
    metadata.insert("creationTimestamp".to_owned(), call.now().into());
    if call.kind.generation {
        metadata.insert("generation".to_owned(), 1.into());
    }
    Ok(())
}

async fn store(call: &Call, mut object: Value, name: &str, warnings: &mut Vec<String>) -> Result<Made, CommitFailure> {
    let failed = CommitFailure::Failed;
    let passage = admission::passage(call, Some(&object)).await;
    let mut writes = Vec::with_capacity(3);
    if let Some(shape) = call.kind.custom() {
        writes.push(definition_check(call, shape.terminating).map_err(failed)?);
    }
    if call.kind.namespaced {
        writes.push(namespace_check(call, name).map_err(failed)?);
    }
    strategies::create(call, &mut object).map_err(failed)?;
    let key = call.key(name);
    if given_name_taken(call, &key) {
        return Err(CommitFailure::Conflict(key));
    }
    admission::admit(call, Operation::Create, name, Some(&mut object), None, warnings).map_err(failed)?;
    incoming_object::validate(call, &object, None).map_err(failed)?;
    if *call.kind.resource == *custom_resources::RESOURCE {
        custom_resources::establish(&mut object, &call.server.definitions(), &call.now());
    }
    if call.query.dry_run {
        return Ok(Made::Dry(object));
    }
    writes.push(Write::Put {
        key,
        expect: Expect::Absent,
        draft: metadata::draft(&object),
    });
    let mut commit = commit(call, passage, writes).await?;
    let stored = commit
        .objects
        .pop()
        .ok_or_else(|| failed(ApiError::internal("the commit is empty")))?;
    Ok(Made::Stored(stored))
}

/// The definition must be there, not be on its way out, and stay so until the object is stored: then whoever empties it
/// sees everything that there is of it.
fn definition_check(call: &Call, terminating: bool) -> ApiResult<Write> {
    // A definition has the name of its resource.
    let key = Key::new(custom_resources::RESOURCE, "", call.kind.resource.clone());
    let definition = call.store().head(&key).ok_or_else(ApiError::no_resource)?;
    if terminating || metadata::head(&definition.body).deletion_timestamp.is_some() {
        let why = "create not allowed while custom resource definition is terminating";
        return Err(ApiError::new(405, "MethodNotAllowed", why));
    }
    Ok(Write::Check {
        key,
        expect: Expect::Revision(definition.revision),
    })
}

/// A name that is taken is said before admission finds other faults.
fn given_name_taken(call: &Call, key: &Key) -> bool {
    call.store().head(key).is_some()
}

/// The namespace must exist, not be on its way out, and stay so until the object is stored.
fn namespace_check(call: &Call, name: &str) -> ApiResult<Write> {
    let key = Key::new("namespaces", "", call.namespace.clone());
    let missing = || {
        ApiError::new(404, "NotFound", format!("namespaces \"{}\" not found", call.namespace)).about(
            "",
            "namespaces",
            &call.namespace,
        )
    };
    let namespace = call.store().head(&key).ok_or_else(missing)?;
    // The phase is a facet, so that no JSON is parsed for this.
    if namespace.facets.field("status.phase") == Some("Terminating") {
        let why = format!(
            "unable to create new content in namespace {} because it is being terminated",
            call.namespace
        );
        let cause = format!("namespace {} is being terminated", call.namespace);
        let error = ApiError::forbidden(&call.kind, name, &why);
        return Err(error.cause("NamespaceTerminating", &cause, "metadata.namespace"));
    }
    Ok(Write::Check {
        key,
        expect: Expect::Revision(namespace.revision),
    })
}

/// Creates an object that the server itself wants.
pub(crate) async fn insert(call: &Call, object: Value) -> ApiResult<Arc<Object>> {
    let decoded = body::Decoded {
        value: object,
        duplicates: Vec::new(),
    };
    let Incoming { object, mut warnings } = incoming_object::take(call, decoded)?;
    match make(call, object, &mut warnings).await? {
        Made::Stored(object) => Ok(object),
        Made::Dry(_) => Err(ApiError::internal("a dry run stores nothing")),
    }
}
