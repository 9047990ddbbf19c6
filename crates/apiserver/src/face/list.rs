//! Lists: selection, consistent pages, and a body that is streamed from stored bytes.

use std::sync::Arc;

use axum::body::Body;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::{Bytes, BytesMut};
use futures::stream;
use http::{HeaderValue, Response, StatusCode, header};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::call::Call;
use super::kinds::Kind;
use super::negotiate::Form;
use super::present;
use super::status::{ApiError, ApiResult, json_response};
use crate::machinery::selector::{FieldSelector, LabelSelector, facets_of_paths};
use crate::store::{Listing, Object, Revision};

/// A list body leaves in pieces of about this size.
const PIECE: usize = 64 * 1024;

/// Which objects a request is about.
pub(crate) struct Selection {
    labels: LabelSelector,
    fields: FieldSelector,
    /// Selectable fields of a custom kind that the selector names; they are read from the body.
    custom: Vec<String>,
}

impl Selection {
    pub(crate) fn new(call: &Call) -> ApiResult<Selection> {
        let bad = |error: crate::machinery::selector::SelectorError| ApiError::bad_request(error.to_string());
        let labels = LabelSelector::parse(&call.query.label_selector).map_err(bad)?;
        let selectable: Vec<&str> = call
            .kind
            .custom()
            .map(|shape| shape.selectable.iter().map(String::as_str).collect())
            .unwrap_or_default();
        let fields = FieldSelector::parse(&call.query.field_selector).map_err(bad)?;
        let fields = fields.for_resource(&call.kind.resource, &selectable).map_err(bad)?;
        let named = |path: &&&str| fields.terms.iter().any(|term| term.path == **path);
        let custom = selectable.iter().filter(named).map(|path| (*path).to_owned()).collect();
        Ok(Selection { labels, fields, custom })
    }

    pub(crate) fn is_everything(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    pub(crate) fn matches(&self, object: &Object) -> bool {
        let (key, facets) = (&object.key, &object.facets);
        if !self.labels.matches(&facets.labels) {
            return false;
        }
        if self.custom.is_empty() {
            return self.fields.matches(&key.namespace, &key.name, &facets.fields);
        }
        let paths: Vec<&str> = self.custom.iter().map(String::as_str).collect();
        let (_, fields) = facets_of_paths(&paths, &object.body);
        self.fields.matches(&key.namespace, &key.name, &fields)
    }

    /// The one name that can match, if the selector says so.
    pub(crate) fn name(&self) -> Option<&str> {
        self.fields.required_name()
    }
}

/// Where the next page begins.
#[derive(Serialize, Deserialize)]
struct Continue {
    v: String,
    /// Revision of the list; 0: whatever is newest.
    rv: Revision,
    /// The last object that was sent: `namespace/name`.
    start: String,
}

impl Continue {
    fn encode(revision: Revision, last: &Object) -> String {
        let start = format!("{}/{}", last.key.namespace, last.key.name);
        let token = Continue {
            v: "meta.k8s.io/v1".to_owned(),
            rv: revision,
            start,
        };
        URL_SAFE_NO_PAD.encode(serde_json::to_vec(&token).unwrap_or_default())
    }

    fn decode(token: &str) -> ApiResult<Continue> {
        let bad = || ApiError::bad_request("continue key is not valid");
        let bytes = URL_SAFE_NO_PAD.decode(token).map_err(|_| bad())?;
        serde_json::from_slice(&bytes).map_err(|_| bad())
    }
}

/// Answers a list.
pub(crate) fn list(call: &Call) -> ApiResult<Response<Body>> {
    let selection = Selection::new(call)?;
    let token = match call.query.continue_token.as_str() {
        "" => None,
        token => Some(Continue::decode(token)?),
    };
    let listing = snapshot(call, token.as_ref())?;
    let after = token.as_ref().and_then(|token| token.start.split_once('/'));
    let revision = listing.revision;
    let name = selection.name().map(str::to_owned);
    let mut chosen = listing.objects;
    if let Some(after) = after {
        chosen.retain(|object| (&*object.key.namespace, &*object.key.name) > after);
    }
    if let Some(name) = name {
        chosen.retain(|object| *object.key.name == *name);
    }
    if !selection.is_everything() {
        chosen.retain(|object| selection.matches(object));
    }
    let mut metadata = json!({"resourceVersion": revision.to_string()});
    let limit = usize::try_from(call.query.limit).unwrap_or(usize::MAX);
    if limit > 0 && chosen.len() > limit {
        let left = chosen.len().saturating_sub(limit);
        chosen.truncate(limit);
        if let Some(last) = chosen.last() {
            metadata["continue"] = Continue::encode(revision, last).into();
        }
        // With a selector Kubernetes does not count what is left.
        if selection.is_everything() {
            metadata["remainingItemCount"] = left.into();
        }
    }
    match call.form {
        Form::Plain => Ok(stream_list(&call.kind, &metadata, chosen)),
        Form::Metadata => {
            let items: Vec<Value> = chosen
                .iter()
                .map(|object| present::metadata(&present::value(&call.kind, &object.body)))
                .collect();
            let kind = "PartialObjectMetadataList";
            let answer = json!({"kind": kind, "apiVersion": "meta.k8s.io/v1", "metadata": metadata, "items": items});
            Ok(json_response(StatusCode::OK, &answer))
        }
        Form::Table => {
            let objects: Vec<Value> = chosen
                .iter()
                .map(|object| present::value(&call.kind, &object.body))
                .collect();
            Ok(json_response(
                StatusCode::OK,
                &present::table(call, metadata, &objects, true),
            ))
        }
    }
}

/// The state that the list is about, by `resourceVersion`, `resourceVersionMatch` and `continue`.
fn snapshot(call: &Call, token: Option<&Continue>) -> ApiResult<Listing> {
    let (store, query) = (call.store(), &call.query);
    let newest = || store.list(&call.kind.resource, call.list_namespace());
    if let Some(token) = token {
        if !query.resource_version.is_empty() && query.resource_version != "0" {
            return Err(ApiError::bad_request(
                "specifying resource version is not allowed when using continue",
            ));
        }
        if token.rv == 0 || token.rv == store.revision() {
            return Ok(newest());
        }
        return store
            .list_at(&call.kind.resource, call.list_namespace(), token.rv)
            .map_err(|_| {
                let go_on = Continue {
                    v: token.v.clone(),
                    rv: 0,
                    start: token.start.clone(),
                };
                let go_on = URL_SAFE_NO_PAD.encode(serde_json::to_vec(&go_on).unwrap_or_default());
                ApiError::expired(
                "The provided continue parameter is too old to display a consistent list result. You can start a new \
                 list without the continue parameter, or use the continue token in this response to retrieve the \
                 remainder of the results. Continuing with the provided token results in an inconsistent list - \
                 objects that were created, modified, or deleted between the time the first chunk was returned and \
                 now may show up in the list.",
            )
            .with_continue(go_on)
            });
    }
    let revision = revision(&query.resource_version)?;
    let exact = match (query.resource_version_match.as_str(), revision) {
        ("", revision) => revision > 0 && query.limit > 0,
        (_, _) if query.resource_version.is_empty() => {
            return Err(match_error(
                "Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided",
            ));
        }
        ("Exact", 0) => {
            return Err(match_error(
                "Forbidden: resourceVersionMatch \"Exact\" is forbidden for resourceVersion \"0\"",
            ));
        }
        ("Exact", _) => true,
        ("NotOlderThan", _) => false,
        (other, _) => {
            let supported = "supported values: \"Exact\", \"NotOlderThan\"";
            return Err(match_error(&format!("Unsupported value: \"{other}\": {supported}")));
        }
    };
    let current = store.revision();
    if revision > current {
        return Err(ApiError::too_large_revision(revision, current));
    }
    if !exact || revision == current {
        return Ok(newest());
    }
    store
        .list_at(&call.kind.resource, call.list_namespace(), revision)
        .map_err(|compacted| ApiError::too_old(revision, compacted.oldest))
}

fn match_error(why: &str) -> ApiError {
    ApiError::new(
        422,
        "Invalid",
        format!("ListOptions.meta.k8s.io \"\" is invalid: resourceVersionMatch: {why}"),
    )
}

/// Reads a `resourceVersion` parameter; empty is 0.
pub(crate) fn revision(text: &str) -> ApiResult<Revision> {
    if text.is_empty() {
        return Ok(0);
    }
    text.parse().map_err(|_| {
        let why = format!("Invalid value: \"{text}\": strconv.ParseUint: parsing \"{text}\": invalid syntax");
        ApiError::new(400, "BadRequest", format!("resourceVersion: {why}"))
    })
}

/// A get may ask for a state that is not older than a revision.
pub(crate) fn check_not_older(call: &Call, found: Revision) -> ApiResult<()> {
    if call.query.resource_version.is_empty() {
        return Ok(());
    }
    let wanted = revision(&call.query.resource_version)?;
    let current = call.store().revision();
    if wanted > found && wanted > current {
        Err(ApiError::too_large_revision(wanted, current))
    } else {
        Ok(())
    }
}

/// The list as a stream of pieces made of stored bytes: however long it is, there is no second copy of it.
fn stream_list(kind: &Arc<Kind>, metadata: &Value, objects: Vec<Arc<Object>>) -> Response<Body> {
    let head = format!(
        "{{\"kind\":\"{}\",\"apiVersion\":\"{}\",\"metadata\":{metadata},\"items\":[",
        kind.list_kind, kind.api_version
    );
    let kind = kind.clone();
    let mut next = 0_usize;
    let mut pending = Some(BytesMut::from(head.as_bytes()));
    let mut piece = move || -> Option<Bytes> {
        let mut out = pending.take()?;
        while let Some(object) = objects.get(next) {
            if next > 0 {
                out.extend_from_slice(b",");
            }
            out.extend_from_slice(&present::bytes(&kind, &object.body));
            next += 1;
            if out.len() >= PIECE && next < objects.len() {
                pending = Some(BytesMut::with_capacity(PIECE + 4096));
                return Some(out.freeze());
            }
        }
        out.extend_from_slice(b"]}\n");
        Some(out.freeze())
    };
    let pieces = stream::iter(std::iter::from_fn(move || {
        piece().map(Ok::<_, std::convert::Infallible>)
    }));
    let mut response = Response::new(Body::from_stream(pieces));
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
