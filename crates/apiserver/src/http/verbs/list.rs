//! Lists: selection, consistent pages, and a body that is streamed from stored bytes.

use std::sync::Arc;

use axum::body::Body;
use basalt_apimachinery::selector::{FieldSelector, LabelSelector, facets_of_paths};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::{Bytes, BytesMut};
use futures::stream;
use http::{HeaderValue, Response, StatusCode, header};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::http::request::call::Call;
use crate::http::request::negotiation::Form;
use crate::http::response::presentation;
use crate::http::response::status::{ApiError, ApiResult, json_response};
use crate::http::verbs::list_pages::{PageKey, Snapshot};
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
        let bad = |error: basalt_apimachinery::selector::SelectorError| ApiError::bad_request(error.to_string());
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
        if self.is_everything() {
            return true;
        }
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
    let (revision, all) = snapshot(call, &selection, token.as_ref())?;
    let after = token.as_ref().and_then(|token| token.start.split_once('/'));
    let start = after.map_or(0, |after| all.partition_point(|object| place(object) <= after));
    let mut rest = all
        .get(start..)
        .unwrap_or_default()
        .iter()
        .filter(|object| selection.matches(object));
    let limit = usize::try_from(call.query.limit)
        .ok()
        .filter(|limit| *limit > 0)
        .unwrap_or(usize::MAX);
    let chosen: Vec<Arc<Object>> = rest.by_ref().take(limit).cloned().collect();
    let mut metadata = json!({"resourceVersion": revision.to_string()});
    let key = PageKey {
        resource: call.kind.resource.clone(),
        namespace: call.namespace.clone(),
        revision,
    };
    let pages = &call.server.inner.pages;
    match chosen.last().filter(|_| rest.next().is_some()) {
        Some(last) => {
            metadata["continue"] = Continue::encode(revision, last).into();
            // With a selector Kubernetes does not count what is left.
            if selection.is_everything() {
                metadata["remainingItemCount"] = all.len().saturating_sub(start).saturating_sub(limit).into();
            }
            pages.keep(key, all.clone());
        }
        None if token.is_some() => pages.forget(&key),
        None => {}
    }
    match call.form {
        Form::Plain => {
            let kind = call.kind.clone();
            let (list, version) = (&kind.list_kind.clone(), &kind.api_version.clone());
            Ok(stream_list(list, version, &metadata, chosen, move |body| {
                presentation::bytes(&kind, body)
            }))
        }
        Form::Metadata => {
            let kind = "PartialObjectMetadataList";
            Ok(stream_list(kind, "meta.k8s.io/v1", &metadata, chosen, |body| {
                presentation::metadata_bytes(body)
            }))
        }
        Form::Table => {
            let objects: Vec<Value> = chosen
                .iter()
                .map(|object| presentation::value(&call.kind, &object.body))
                .collect();
            Ok(json_response(
                StatusCode::OK,
                &presentation::table(call, metadata, &objects, true),
            ))
        }
    }
}

fn place(object: &Object) -> (&str, &str) {
    (&object.key.namespace, &object.key.name)
}

/// The state that the list is about, by `resourceVersion`, `resourceVersionMatch` and `continue`.
fn snapshot(call: &Call, selection: &Selection, token: Option<&Continue>) -> ApiResult<(Revision, Snapshot)> {
    let (store, query) = (call.store(), &call.query);
    let shared = |listing: Listing| (listing.revision, Arc::new(listing.objects));
    let newest = || {
        let named = named(call, selection);
        shared(named.unwrap_or_else(|| store.list(&call.kind.resource, call.list_namespace())))
    };
    if let Some(token) = token {
        if !query.resource_version.is_empty() && query.resource_version != "0" {
            return Err(ApiError::bad_request(
                "specifying resource version is not allowed when using continue",
            ));
        }
        if token.rv == 0 {
            return Ok(newest());
        }
        let key = PageKey {
            resource: call.kind.resource.clone(),
            namespace: call.namespace.clone(),
            revision: token.rv,
        };
        if let Some(snapshot) = call.server.inner.pages.get(&key) {
            return Ok((token.rv, snapshot));
        }
        // Asked for by its revision even where that is the newest: it may not be so a moment later.
        let listing = store.list_at(&call.kind.resource, call.list_namespace(), token.rv);
        let listing = listing.ok().filter(|listing| listing.revision == token.rv);
        return listing.map(shared).ok_or_else(|| go_on(token));
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
    if !exact {
        return Ok(newest());
    }
    store
        .list_at(&call.kind.resource, call.list_namespace(), revision)
        .map(shared)
        .map_err(|compacted| ApiError::too_old(revision, compacted.oldest))
}

/// The newest list of one object that is asked for by its name: no need to look at all the others.
fn named(call: &Call, selection: &Selection) -> Option<Listing> {
    let name = selection.fields.required_name()?;
    if call.kind.namespaced && call.namespace.is_empty() {
        return None;
    }
    let store = call.store();
    let revision = store.revision();
    let objects: Vec<Arc<Object>> = store.get(&call.key(name)).into_iter().collect();
    // What was found belongs to that revision only if there is no later one by now.
    (store.revision() == revision).then_some(Listing { revision, objects })
}

/// The error for a page whose list is forgotten, with a token to go on from the same place in today's list.
fn go_on(token: &Continue) -> ApiError {
    let next = Continue {
        v: token.v.clone(),
        rv: 0,
        start: token.start.clone(),
    };
    let next = URL_SAFE_NO_PAD.encode(serde_json::to_vec(&next).unwrap_or_default());
    ApiError::expired(
        "The provided continue parameter is too old to display a consistent list result. You can start a new \
         list without the continue parameter, or use the continue token in this response to retrieve the \
         remainder of the results. Continuing with the provided token results in an inconsistent list - \
         objects that were created, modified, or deleted between the time the first chunk was returned and \
         now may show up in the list.",
    )
    .with_continue(next)
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
fn stream_list(
    kind: &str,
    api_version: &str,
    metadata: &Value,
    objects: Vec<Arc<Object>>,
    shape: impl Fn(&Bytes) -> Bytes + Send + 'static,
) -> Response<Body> {
    let head = format!("{{\"kind\":\"{kind}\",\"apiVersion\":\"{api_version}\",\"metadata\":{metadata},\"items\":[");
    let mut next = 0_usize;
    let mut pending = Some(BytesMut::from(head.as_bytes()));
    let mut piece = move || -> Option<Bytes> {
        let mut out = pending.take()?;
        while let Some(object) = objects.get(next) {
            if next > 0 {
                out.extend_from_slice(b",");
            }
            out.extend_from_slice(&shape(&object.body));
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
