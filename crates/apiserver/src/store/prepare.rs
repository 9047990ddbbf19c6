//! The part of a commit that needs no lock: bodies are indexed before the revision is known; its digits are
//! then filled in place.

use std::sync::Arc;

use smallvec::SmallVec;

use super::model::{Draft, Expect, Facets, Indexer, Key, Object, Revision, Row, Write};

/// A [`Write`] whose body is ready but for the digits of its revision.
pub(super) enum Step {
    Put { key: Key, expect: Expect, body: Body },
    Delete { key: Key, expect: Expect, last: Body },
    Check { key: Key, expect: Expect },
}

/// The steps of a transaction; most have one.
pub(super) type Steps = SmallVec<[Step; 1]>;

/// Prepares a transaction.
pub(super) fn steps(writes: Vec<Write>, indexer: Indexer) -> Steps {
    let prepare = |write| match write {
        Write::Put { key, expect, draft } => {
            let body = Body::new(&key, draft, indexer);
            Step::Put { key, expect, body }
        }
        Write::Delete { key, expect, last } => {
            let last = Body::new(&key, last, indexer);
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
            sum.saturating_add(key.len()).saturating_add(body.draft.bytes().len())
        }
        Step::Check { key, .. } => sum.saturating_add(key.len()),
    })
}

/// A complete body but for its revision, and its facets.
pub(super) struct Body {
    draft: Draft,
    facets: Facets,
}

impl Body {
    fn new(key: &Key, draft: Draft, indexer: Indexer) -> Self {
        let facets = indexer(key, draft.bytes());
        Self { draft, facets }
    }

    /// The version that this becomes.
    pub(super) fn seal(self, key: Key, revision: Revision, row: Row) -> Arc<Object> {
        Arc::new(Object {
            key,
            revision,
            body: self.draft.seal(revision),
            facets: self.facets,
            row,
        })
    }
}
