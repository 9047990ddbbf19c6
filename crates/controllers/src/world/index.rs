//! Keys by what they belong to.

use std::collections::{BTreeMap, BTreeSet};

use basalt_api::NamespacedName;

/// Keys by what they belong to.
#[derive(Debug)]
pub(super) struct Index<K = NamespacedName>(BTreeMap<String, BTreeSet<K>>);

impl<K> Default for Index<K> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<K: Ord + Clone> Index<K> {
    pub(super) fn add(&mut self, owner: &str, key: &K) {
        match self.0.get_mut(owner) {
            Some(keys) => drop(keys.insert(key.clone())),
            None => drop(self.0.insert(owner.to_owned(), BTreeSet::from([key.clone()]))),
        }
    }

    pub(super) fn remove(&mut self, owner: &str, key: &K) {
        if let Some(keys) = self.0.get_mut(owner) {
            keys.remove(key);
            if keys.is_empty() {
                self.0.remove(owner);
            }
        }
    }

    pub(super) fn of(&self, owner: &str) -> impl Iterator<Item = &K> {
        self.0.get(owner).into_iter().flatten()
    }

    pub(super) fn count(&self, owner: &str) -> usize {
        self.0.get(owner).map_or(0, BTreeSet::len)
    }
}
