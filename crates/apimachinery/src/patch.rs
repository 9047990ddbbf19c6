//! Patches: JSON patch, merge patch and strategic merge patch.

pub mod merge_keys;
mod strategic;

pub use strategic::strategic;

use super::schema::{DEPTH_MAX, deeper_than};
use json_patch::PatchOperation;
use serde_json::Value;

/// Kubernetes' limit for one JSON patch.
pub const OPERATIONS_MAX: usize = 10_000;

/// Copies can double an object again and again; together they may add this many bytes.
pub const COPIED_BYTES_MAX: usize = 3 * 1024 * 1024;

/// Why a patch cannot be applied.
#[derive(Debug, thiserror::Error)]
pub enum PatchError {
    /// The patch is no patch of its type (status 400).
    #[error("error decoding patch: {0}")]
    Malformed(String),
    /// The patch has too many operations (status 413).
    #[error("The allowed maximum operations in a JSON patch is {OPERATIONS_MAX}, got {0}")]
    TooManyOperations(usize),
    /// The copies of a patch add too much to the object (status 413).
    #[error(
        "Unable to complete the copy, the accumulated size increase of copy is beyond the limit {COPIED_BYTES_MAX}"
    )]
    TooMuchCopied,
    /// The patch does not fit the object: a path that is not there, a failed test, a directive that makes no sense (status 422).
    #[error("{0}")]
    Unprocessable(String),
    /// The kind has no strategic merge patch: custom resources (status 415).
    #[error(
        "the body of the request was in an unknown format - accepted media types include: application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml"
    )]
    NotStrategic,
}

impl PatchError {
    /// The HTTP status that Kubernetes answers with.
    pub fn code(&self) -> u16 {
        match self {
            Self::Malformed(_) => 400,
            Self::TooManyOperations(_) | Self::TooMuchCopied => 413,
            Self::NotStrategic => 415,
            Self::Unprocessable(_) => 422,
        }
    }
}

/// Applies a JSON patch (RFC 6902).
pub fn json(current: &Value, patch: &[u8]) -> Result<Value, PatchError> {
    let patch: json_patch::Patch =
        serde_json::from_slice(patch).map_err(|error| PatchError::Malformed(error.to_string()))?;
    if patch.0.len() > OPERATIONS_MAX {
        return Err(PatchError::TooManyOperations(patch.0.len()));
    }
    let mut patched = current.clone();
    let mut copied = 0_usize;
    for operation in patch.0 {
        let (source, carried) = match &operation {
            PatchOperation::Copy(copy) => (patched.pointer(copy.from.as_str()), true),
            PatchOperation::Move(moved) => (patched.pointer(moved.from.as_str()), true),
            PatchOperation::Add(add) => (Some(&add.value), false),
            PatchOperation::Replace(replace) => (Some(&replace.value), false),
            PatchOperation::Remove(_) | PatchOperation::Test(_) => (None, false),
        };
        let depth = operation.path().count();
        if depth > DEPTH_MAX || source.is_some_and(|source| deeper_than(source, DEPTH_MAX - depth)) {
            return Err(PatchError::Unprocessable(
                "the patched object would be nested too deeply".to_owned(),
            ));
        }
        if carried {
            copied = copied.saturating_add(source.map_or(0, |source| source.to_string().len()));
        }
        if copied > COPIED_BYTES_MAX {
            return Err(PatchError::TooMuchCopied);
        }
        let refused = |error: json_patch::PatchError| PatchError::Unprocessable(error.to_string());
        json_patch::patch(&mut patched, &[operation]).map_err(refused)?;
    }
    Ok(patched)
}

/// Applies a merge patch (RFC 7396).
pub fn merge(current: &Value, patch: &Value) -> Result<Value, PatchError> {
    if !patch.is_object() {
        return Err(PatchError::Malformed(
            "json: a merge patch must be an object".to_owned(),
        ));
    }
    let mut patched = current.clone();
    json_patch::merge(&mut patched, patch);
    Ok(patched)
}
