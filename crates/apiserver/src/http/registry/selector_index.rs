//! The labels and fields that selectors match, computed by the store at each write.

use basalt_apimachinery::selector::facets;

use crate::store::{Facets, Key};

/// The indexer for `store::Options`: labels and selectable fields of an object.
pub fn index(key: &Key, body: &[u8]) -> Facets {
    let (labels, fields) = facets(&key.resource, body);
    Facets { labels, fields }
}
