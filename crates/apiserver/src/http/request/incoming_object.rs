//! The object in a request: decoded, checked against its kind and schema, and brought into its stored form.

use basalt_apimachinery::json::string_at;
use basalt_apimachinery::{builtin_kinds, schema};
use serde_json::Value;

use crate::http::metadata;
use crate::http::registry::kinds::Kind;
use crate::http::request::body::Decoded;
use crate::http::request::call::Call;
use crate::http::request::query::FieldValidation;
use crate::http::response::presentation;
use crate::http::response::status::{ApiError, ApiResult};

/// An object in stored form, with defaults, and what to warn about.
pub(crate) struct Incoming {
    pub(crate) object: Value,
    pub(crate) warnings: Vec<String>,
}

/// Checks and normalises an object of the call's kind.
pub(crate) fn take(call: &Call, decoded: Decoded) -> ApiResult<Incoming> {
    let Decoded {
        value: mut object,
        duplicates,
    } = decoded;
    let kind = &call.kind;
    check_kind(kind, &mut object)?;
    metadata::check_types(kind, &object)?;
    metadata::tidy(metadata::metadata_mut(&mut object)?);
    let mut warnings: Vec<String> = kind
        .custom()
        .and_then(|shape| shape.deprecation.clone())
        .into_iter()
        .collect();
    let unknown = kind
        .schema()
        .map(|schema| schema.prune(&mut object))
        .unwrap_or_default();
    let faults = unknown.iter().map(|path| format!("unknown field \"{path}\""));
    let faults: Vec<String> = faults
        .chain(duplicates.iter().map(|path| format!("duplicate field \"{path}\"")))
        .collect();
    match call.query.field_validation {
        FieldValidation::Strict if !faults.is_empty() => {
            return Err(cannot_handle(
                kind,
                &format!("strict decoding error: {}", faults.join(", ")),
            ));
        }
        FieldValidation::Warn => warnings.extend(faults),
        _ => {}
    }
    decode_types(kind, &object)?;
    if let Some(shape) = kind.custom() {
        shape.schema.default(&mut object);
        schema::make_whole(&mut object);
    } else {
        builtin_kinds::default(&kind.api_version, &kind.kind, &mut object);
    }
    presentation::to_stored(kind, &mut object);
    Ok(Incoming { object, warnings })
}

fn cannot_handle(kind: &Kind, why: &str) -> ApiError {
    ApiError::bad_request(format!(
        "{0} in version \"{1}\" cannot be handled as a {0}: {why}",
        kind.kind, kind.version
    ))
}

/// A built-in object with a field of the wrong type cannot be decoded into its Go type: a bad request, not an invalid one.
fn decode_types(kind: &Kind, object: &Value) -> ApiResult<()> {
    if kind.custom().is_some() {
        return Ok(());
    }
    match kind.schema().and_then(|schema| schema.decode_error(object)) {
        None => Ok(()),
        Some(words) => Err(cannot_handle(kind, &words)),
    }
}

/// Checks `apiVersion` and `kind`. Built-in kinds may leave them out: the path says it.
fn check_kind(kind: &Kind, object: &mut Value) -> ApiResult<()> {
    let Some(map) = object.as_object_mut() else {
        let why = format!(
            "the object provided is unrecognized (must be of type {}): not a JSON object",
            kind.kind
        );
        return Err(ApiError::bad_request(why));
    };
    let given = |key: &str| map.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (version, name) = (given("apiVersion"), given("kind"));
    if kind.custom().is_some() && (version.is_empty() || name.is_empty()) {
        let missing = if name.is_empty() { "Kind" } else { "apiVersion" };
        return Err(ApiError::bad_request(format!(
            "Object '{missing}' is missing in the object provided"
        )));
    }
    if !version.is_empty() && version != *kind.api_version {
        let (given, expected) = (version, &kind.api_version);
        return Err(ApiError::bad_request(format!(
            "the API version in the data ({given}) does not match the expected API version ({expected})"
        )));
    }
    if !name.is_empty() && name != *kind.kind {
        let (given, version, expected) = (name, &kind.version, &kind.kind);
        return Err(ApiError::bad_request(format!(
            "{given} in version \"{version}\" cannot be handled as a {expected}: the kind in the data does not match"
        )));
    }
    map.insert("apiVersion".to_owned(), kind.api_version.as_ref().into());
    map.insert("kind".to_owned(), kind.kind.as_ref().into());
    Ok(())
}

/// Everything that must hold for an object to be stored.
pub(crate) fn validate(call: &Call, object: &Value, old: Option<&Value>) -> ApiResult<()> {
    let kind = &call.kind;
    let errors = if let Some(shape) = kind.custom() {
        let mut errors = builtin_kinds::validate_metadata(builtin_kinds::NameRule::Subdomain, object, old);
        errors.extend(shape.schema.validate(object));
        errors
    } else {
        // Both windows on events show the stored, core shape here.
        builtin_kinds::validate(&kind.stored_api_version, &kind.kind, object, old)
    };
    if errors.is_empty() {
        return Ok(());
    }
    Err(ApiError::invalid(kind, string_at(object, "/metadata/name"), &errors))
}
