//! The part of a commit that needs no lock: bodies are joined and indexed before the revision is
//! known; the digits are then filled in place.

use std::sync::Arc;

use bytes::Bytes;

use super::model::{Draft, Expect, Facets, Indexer, Key, Object, Revision, Write};

/// A [`Write`] whose body is ready but for the digits of its revision.
pub(super) enum Step {
    Put { key: Key, expect: Expect, body: Body },
    Delete { key: Key, expect: Expect, last: Body },
    Check { key: Key, expect: Expect },
}

/// Prepares a transaction; `guess` is a revision of probably the right number of digits.
pub(super) fn steps(writes: Vec<Write>, guess: Revision, indexer: Indexer) -> Vec<Step> {
    let prepare = |write| match write {
        Write::Put { key, expect, draft } => {
            let body = Body::new(&key, draft, guess, indexer);
            Step::Put { key, expect, body }
        }
        Write::Delete { key, expect, last } => {
            let last = Body::new(&key, last, guess, indexer);
            Step::Delete { key, expect, last }
        }
        Write::Check { key, expect } => Step::Check { key, expect },
    };
    writes.into_iter().map(prepare).collect()
}

/// What a transaction weighs against the store's limits.
pub(super) fn weight(steps: &[Step]) -> usize {
    steps.iter().fold(0, |sum, step| match step {
        Step::Put { key, body, .. } | Step::Delete { key, last: body, .. } => {
            sum.saturating_add(key.len()).saturating_add(body.bytes.len())
        }
        Step::Check { key, .. } => sum.saturating_add(key.len()),
    })
}

/// A complete body with a place for digits.
pub(super) struct Body {
    bytes: Vec<u8>,
    at: usize,
    width: usize,
    facets: Facets,
}

impl Body {
    fn new(key: &Key, draft: Draft, guess: Revision, indexer: Indexer) -> Self {
        let Draft {
            before: mut bytes,
            after,
        } = draft;
        let (at, width) = (bytes.len(), digits(guess));
        bytes.reserve_exact(width + after.len());
        bytes.resize(at + width, b'0');
        bytes.extend_from_slice(&after);
        let facets = indexer(key, &bytes);
        Self {
            bytes,
            at,
            width,
            facets,
        }
    }

    /// Fills in the revision. The guess of its width is right except where it just grew.
    pub(super) fn seal(mut self, key: Key, revision: Revision) -> Arc<Object> {
        let width = digits(revision);
        if width != self.width {
            let after = self.bytes.split_off(self.at + self.width);
            self.bytes.resize(self.at + width, b'0');
            self.bytes.extend_from_slice(&after);
        }
        let mut rest = revision;
        for digit in self.bytes.iter_mut().skip(self.at).take(width).rev() {
            *digit = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
        Arc::new(Object {
            key,
            revision,
            body: Bytes::from(self.bytes),
            facets: self.facets,
        })
    }
}

fn digits(revision: Revision) -> usize {
    revision.checked_ilog10().map_or(1, |log| log as usize + 1)
}
