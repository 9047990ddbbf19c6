//! Watch: a stream of changes, one JSON object a line.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use futures::stream;
use http::{HeaderValue, Response, header};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::http::metadata::REVISION_MARK;
use crate::http::request::call::Call;
use crate::http::request::negotiation::Form;
use crate::http::response::presentation;
use crate::http::response::status::{ApiError, ApiResult};
use crate::http::verbs::list::{self, Selection};
use crate::store::{Compacted, Event, EventKind, Object, Revision, Watch};

/// How long a watch lasts when the client does not say.
const TIMEOUT: Duration = Duration::from_mins(45);
/// Events leave in pieces of about this size.
const PIECE: usize = 64 * 1024;

/// What a watch begins with.
struct Start {
    /// Objects to send as ADDED before the changes.
    initial: Vec<Arc<Object>>,
    /// Changes after this revision follow.
    after: Revision,
    /// Whether a bookmark says that the initial objects are complete.
    mark: bool,
}

/// Answers a watch.
pub(crate) fn watch(call: &Call) -> ApiResult<Response<Body>> {
    let selection = Selection::new(call)?;
    let start = start(call)?;
    let after = start.after;
    let watch = call.store().watch(&call.kind.resource, after);
    let now = Instant::now();
    let timeout = call
        .query
        .timeout_seconds
        .filter(|seconds| *seconds > 0)
        .map_or(TIMEOUT, Duration::from_secs);
    let mut stream = Stream {
        lines: Lines {
            call: call.copy(),
            selection,
            first: true,
        },
        watch: None,
        initial: start.initial.into(),
        mark: start.mark.then_some(after),
        deadline: now.checked_add(timeout).unwrap_or(now),
        bookmark: call
            .query
            .bookmarks
            .then(|| now + call.server.inner.options.bookmark_period),
        after,
        broken: None,
        closing: call.server.inner.closing.subscribe(),
    };
    match watch {
        Ok(watch) => stream.watch = Some(watch),
        Err(Compacted { oldest, .. }) => stream.broken = Some(ApiError::too_old(after, oldest)),
    }
    let pieces = stream::unfold(stream, |mut stream| async move {
        let piece = stream.next().await?;
        Some((Ok::<Bytes, Infallible>(piece), stream))
    });
    let mut response = Response::new(Body::from_stream(pieces));
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(response)
}

fn start(call: &Call) -> ApiResult<Start> {
    let query = &call.query;
    let revision = list::revision(&query.resource_version)?;
    let initial_events = query.send_initial_events;
    if initial_events.is_some() && query.resource_version_match != "NotOlderThan" {
        let why = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
        return Err(ApiError::new(
            422,
            "Invalid",
            format!("ListOptions.meta.k8s.io \"\" is invalid: resourceVersionMatch: Forbidden: {why}"),
        ));
    }
    if initial_events.is_none() && !query.resource_version_match.is_empty() {
        let why = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
        return Err(ApiError::new(
            422,
            "Invalid",
            format!("ListOptions.meta.k8s.io \"\" is invalid: resourceVersionMatch: Forbidden: {why}"),
        ));
    }
    let current = call.store().revision();
    // Such a client has seen another history: it must list anew rather than wait for ever.
    if revision > current {
        return Err(ApiError::too_large_revision(revision, current));
    }
    let state = || call.store().list(&call.kind.resource, call.list_namespace());
    Ok(match (initial_events, revision) {
        (Some(true), _) => {
            let listing = state();
            Start {
                initial: listing.objects,
                after: listing.revision,
                mark: query.bookmarks,
            }
        }
        (Some(false), 0) => Start {
            initial: Vec::new(),
            after: current,
            mark: false,
        },
        (None, 0) => {
            let listing = state();
            Start {
                initial: listing.objects,
                after: listing.revision,
                mark: false,
            }
        }
        (_, revision) => Start {
            initial: Vec::new(),
            after: revision,
            mark: false,
        },
    })
}

struct Stream {
    lines: Lines,
    watch: Option<Watch>,
    initial: VecDeque<Arc<Object>>,
    mark: Option<Revision>,
    deadline: Instant,
    bookmark: Option<Instant>,
    after: Revision,
    broken: Option<ApiError>,
    /// Turns true when the server goes down.
    closing: tokio::sync::watch::Receiver<bool>,
}

impl Stream {
    /// The next piece; none when the watch is over.
    async fn next(&mut self) -> Option<Bytes> {
        if let Some(error) = self.broken.take() {
            self.watch = None;
            self.initial.clear();
            return Some(error_line(&error));
        }
        if let Some(piece) = self.initial_piece() {
            return Some(piece);
        }
        let watch = self.watch.as_mut()?;
        loop {
            let wake = self.bookmark.map_or(self.deadline, |at| at.min(self.deadline));
            tokio::select! {
                biased;
                events = watch.next() => match events {
                    Ok(events) => {
                        let mut out = BytesMut::new();
                        for event in &events {
                            self.after = event.revision;
                            self.lines.event(&mut out, event);
                        }
                        if !out.is_empty() {
                            return Some(out.freeze());
                        }
                    }
                    Err(Compacted { oldest, .. }) => {
                        let error = ApiError::too_old(self.after, oldest);
                        self.watch = None;
                        return Some(error_line(&error));
                    }
                },
                _ = self.closing.wait_for(|closing| *closing) => return None,
                () = tokio::time::sleep_until(wake) => {
                    let now = Instant::now();
                    if now >= self.deadline {
                        return None;
                    }
                    let period = self.lines.call.server.inner.options.bookmark_period;
                    self.bookmark = self.bookmark.map(|_| now + period);
                    return Some(self.lines.bookmark(watch.progress(), false));
                }
            }
        }
    }

    fn initial_piece(&mut self) -> Option<Bytes> {
        let mut out = BytesMut::new();
        while let Some(object) = self.initial.pop_front() {
            if self.lines.selects(&object) {
                self.lines.line(&mut out, "ADDED", &object.body);
            }
            if out.len() >= PIECE {
                return Some(out.freeze());
            }
        }
        if let Some(revision) = self.mark.take() {
            out.extend_from_slice(&self.lines.bookmark(revision, true));
        }
        (!out.is_empty()).then(|| out.freeze())
    }
}

/// Turns events into lines.
struct Lines {
    call: Call,
    selection: Selection,
    first: bool,
}

impl Lines {
    fn selects(&self, object: &Object) -> bool {
        (self.call.namespace.is_empty() || object.key.namespace == self.call.namespace)
            && (self.selection.is_everything() || self.selection.matches(object))
    }

    /// One change, as it looks through the selection: entering it is ADDED, leaving it is DELETED.
    fn event(&mut self, out: &mut BytesMut, event: &Event) {
        let object = &event.object;
        let was = || event.previous.as_ref().is_some_and(|previous| self.selects(previous));
        let is = self.selects(object);
        match event.kind {
            EventKind::Added if is => self.line(out, "ADDED", &object.body),
            EventKind::Added => {}
            EventKind::Modified => match (was(), is) {
                (true, true) => self.line(out, "MODIFIED", &object.body),
                (false, true) => self.line(out, "ADDED", &object.body),
                (true, false) => {
                    if let Some(previous) = &event.previous {
                        let left = with_revision(&previous.body, event.revision);
                        self.line(out, "DELETED", &left);
                    }
                }
                (false, false) => {}
            },
            EventKind::Deleted => {
                if was() || is {
                    self.line(out, "DELETED", &object.body);
                }
            }
        }
    }

    fn line(&mut self, out: &mut BytesMut, kind: &str, body: &Bytes) {
        out.extend_from_slice(format!("{{\"type\":\"{kind}\",\"object\":").as_bytes());
        match self.call.form {
            Form::Plain => out.extend_from_slice(&presentation::bytes(&self.call.kind, body)),
            Form::Metadata => out.extend_from_slice(&presentation::metadata_bytes(body)),
            Form::Table => {
                let table = self.row(presentation::value(&self.call.kind, body));
                out.extend_from_slice(table.to_string().as_bytes());
            }
        }
        out.extend_from_slice(b"}\n");
    }

    /// A Table of one row; only the first one of a watch says what its columns are.
    fn row(&mut self, object: Value) -> Value {
        let revision = object["metadata"]["resourceVersion"].clone();
        let first = std::mem::take(&mut self.first);
        presentation::table(&self.call, json!({"resourceVersion": revision}), &[object], first)
    }

    fn bookmark(&mut self, revision: Revision, initial_end: bool) -> Bytes {
        let mut metadata = json!({"resourceVersion": revision.to_string()});
        if initial_end {
            metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        let kind = &self.call.kind;
        let object = json!({"kind": kind.kind, "apiVersion": kind.api_version, "metadata": metadata});
        let object = match self.call.form {
            Form::Table => presentation::table(&self.call, object["metadata"].clone(), &[], false),
            Form::Metadata => presentation::metadata(&object),
            Form::Plain => object,
        };
        Bytes::from(format!("{}\n", json!({"type": "BOOKMARK", "object": object})))
    }
}

fn error_line(error: &ApiError) -> Bytes {
    Bytes::from(format!("{}\n", json!({"type": "ERROR", "object": error.status()})))
}

/// A body with another revision: drafts have it at a known place, so no JSON is parsed.
fn with_revision(body: &Bytes, revision: Revision) -> Bytes {
    let Some(at) = body
        .windows(REVISION_MARK.len())
        .position(|window| window == REVISION_MARK)
    else {
        return body.clone();
    };
    let (before, rest) = body.split_at(at + REVISION_MARK.len());
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let after = rest.get(digits..).unwrap_or_default();
    [before, revision.to_string().as_bytes(), after].concat().into()
}
