//! Who owns what, as far as objects with owners go.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use crate::http::Owner;
use crate::store::Key;

/// What an owner has: each dependent, and whether the owner waits for it when it is deleted in the foreground.
#[derive(Default)]
struct Owned {
    keys: BTreeMap<Key, bool>,
    blocking: usize,
    /// The owners of the dependent that came last: the next one has the same, as a rule, and shares them.
    example: Arc<[Owner]>,
}

/// The owners of every object that has some, and the other way round by the owner's uid.
#[derive(Default)]
pub(super) struct Index {
    owners: HashMap<Key, Arc<[Owner]>>,
    dependents: HashMap<String, Owned>,
    /// Uids of objects that are being deleted, and of which all dependents from before that are known.
    settled: HashSet<String>,
}

impl Index {
    /// Whether the object is known with just these owners.
    pub(super) fn knows(&self, key: &Key, owners: &[Owner]) -> bool {
        self.owners.get(key).map(AsRef::as_ref).unwrap_or_default() == owners
    }

    /// Takes in an object that is not known.
    pub(super) fn learn(&mut self, key: &Key, owners: Vec<Owner>) {
        let owners = self.shared(owners);
        for owner in owners.iter() {
            let owned = self.dependents.entry(owner.uid.clone()).or_default();
            let blocks = owner.block_owner_deletion == Some(true);
            let before = owned.keys.get(key).copied().unwrap_or_default();
            owned.keys.insert(key.clone(), before || blocks);
            owned.blocking += usize::from(blocks && !before);
            owned.example = Arc::clone(&owners);
        }
        self.owners.insert(key.clone(), owners);
    }

    /// The pods of one job have the same owners: a hundred thousand copies of them add up.
    fn shared(&self, owners: Vec<Owner>) -> Arc<[Owner]> {
        let sibling = owners.first().and_then(|owner| self.dependents.get(&owner.uid));
        match sibling.map(|owned| &owned.example) {
            Some(example) if **example == *owners => Arc::clone(example),
            _ => owners.into(),
        }
    }

    /// Drops an object, and says who owned it.
    pub(super) fn forget(&mut self, key: &Key) -> Arc<[Owner]> {
        let owners = self.owners.remove(key).unwrap_or_default();
        for owner in owners.iter() {
            let Some(owned) = self.dependents.get_mut(&owner.uid) else {
                continue;
            };
            if owned.keys.remove(key) == Some(true) {
                owned.blocking = owned.blocking.saturating_sub(1);
            }
            if owned.keys.is_empty() {
                self.dependents.remove(&owner.uid);
            }
        }
        owners
    }

    /// Every object that has owners.
    pub(super) fn owned(&self) -> Vec<Key> {
        self.owners.keys().cloned().collect()
    }

    /// What the object with that uid owns.
    pub(super) fn dependents(&self, uid: &str) -> Vec<Key> {
        let owned = self.dependents.get(uid);
        owned
            .map(|owned| owned.keys.keys().cloned().collect())
            .unwrap_or_default()
    }

    /// Notes that all dependents of an object that is being deleted are known.
    pub(super) fn settle(&mut self, uid: String) {
        self.settled.insert(uid);
    }

    pub(super) fn unsettle(&mut self, uid: &str) {
        self.settled.remove(uid);
    }

    /// Whether all dependents of an object that is being deleted are known.
    pub(super) fn is_settled(&self, uid: &str) -> bool {
        self.settled.contains(uid)
    }

    /// Whether the object with that uid owns anything.
    pub(super) fn is_owner(&self, uid: &str) -> bool {
        self.dependents.contains_key(uid)
    }

    /// Whether the object with that uid has to wait for any of its dependents.
    pub(super) fn is_blocked(&self, uid: &str) -> bool {
        self.dependents.get(uid).is_some_and(|owned| owned.blocking > 0)
    }
}
