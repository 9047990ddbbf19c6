//! Keys by what they belong to.

use std::collections::{BTreeMap, BTreeSet};

use crate::key::ObjectKey;

/// Keys by what they belong to.
#[derive(Debug, Default)]
pub(super) struct Index(BTreeMap<String, BTreeSet<ObjectKey>>);

impl Index {
    pub(super) fn add(&mut self, owner: &str, key: &ObjectKey) {
        self.0.entry(owner.to_owned()).or_default().insert(key.clone());
    }

    pub(super) fn remove(&mut self, owner: &str, key: &ObjectKey) {
        if let Some(keys) = self.0.get_mut(owner) {
            keys.remove(key);
            if keys.is_empty() {
                self.0.remove(owner);
            }
        }
    }

    pub(super) fn of(&self, owner: &str) -> impl Iterator<Item = &ObjectKey> {
        self.0.get(owner).into_iter().flatten()
    }

    pub(super) fn count(&self, owner: &str) -> usize {
        self.0.get(owner).map_or(0, BTreeSet::len)
    }
}
