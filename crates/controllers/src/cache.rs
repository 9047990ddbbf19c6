//! A cache of one kind, fed by a watch *and* by the answers to our own writes.
//!
//! Write-through means that the next decision sees what we just did, without waiting for the watch; resource
//! versions decide which of two reports is newer, and tombstones keep a late answer from reviving a deleted object.
//! What only an answer has told of is marked: if a whole report of the watch does not name it, it is gone.

use std::collections::BTreeMap;
use std::sync::Arc;

use basalt_api::NamespacedName;
use kube::{Resource, ResourceExt};

use crate::key::Uid;

/// Tombstones kept at most; beyond it the oldest half goes (by then every answer in flight has long arrived).
const TOMBSTONES_MAX: usize = 20_000;

/// Who told of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// The watch.
    Watch,
    /// The answer to a write of ours.
    Answer,
}

/// What a cache keeps of an object.
pub trait Entry {
    /// Which object.
    fn key(&self) -> Arc<NamespacedName>;
    /// Which incarnation.
    fn uid(&self) -> Uid;
    /// Its revision as a number; servers that use other forms make every report count as newer.
    fn revision(&self) -> Option<u64>;
    /// Whether its deletion has begun.
    fn is_ending(&self) -> bool;
}

impl<K: Resource> Entry for K {
    fn key(&self) -> Arc<NamespacedName> {
        Arc::new(NamespacedName::of(self))
    }

    fn uid(&self) -> Uid {
        Uid::from(self.meta().uid.as_deref().unwrap_or_default())
    }

    fn revision(&self) -> Option<u64> {
        self.resource_version()?.parse().ok()
    }

    fn is_ending(&self) -> bool {
        self.meta().deletion_timestamp.is_some()
    }
}

/// Objects of one kind by key.
#[derive(Debug)]
pub struct Cache<K> {
    /// Boxed, for a half-full node of the tree would waste much with large objects.
    objects: BTreeMap<Arc<NamespacedName>, Box<K>>,
    /// Objects that the watch has never shown, with their uid.
    unseen: BTreeMap<Arc<NamespacedName>, Uid>,
    /// Objects whose deletion the watch has shown, with their uid.
    ending: BTreeMap<Arc<NamespacedName>, Uid>,
    /// uid of a deleted incarnation → order of its deletion.
    buried: BTreeMap<Uid, u64>,
    burials: u64,
}

impl<K> Default for Cache<K> {
    fn default() -> Self {
        Self {
            objects: BTreeMap::new(),
            unseen: BTreeMap::new(),
            ending: BTreeMap::new(),
            buried: BTreeMap::new(),
            burials: 0,
        }
    }
}

impl<K: Entry> Cache<K> {
    /// Takes in `object` unless something newer is known; says whether it did.
    pub fn upsert(&mut self, object: K, origin: Origin) -> bool {
        let (key, uid) = (object.key(), object.uid());
        if self.buried.contains_key(&uid) {
            return false;
        }
        if origin == Origin::Watch {
            self.unseen.remove(&key);
            if object.is_ending() {
                self.ending.insert(Arc::clone(&key), uid.clone());
            }
        }
        let known = self.objects.get(&key);
        let outdated = known.is_some_and(|known| match (known.revision(), object.revision()) {
            (Some(known), Some(new)) => new <= known,
            _ => false,
        });
        if outdated {
            return false;
        }
        let same = known.is_some_and(|known| known.uid() == uid);
        if origin == Origin::Answer && !same {
            self.unseen.insert(Arc::clone(&key), uid);
        }
        self.objects.insert(key, Box::new(object));
        true
    }

    /// The objects that the watch has never shown, with their uids. Asked right after a whole report of the watch, these
    /// came and went unseen, or are so new that the watch is still to show them: both ways they may be forgotten.
    pub fn take_unseen(&mut self) -> Vec<(Arc<NamespacedName>, Uid)> {
        std::mem::take(&mut self.unseen).into_iter().collect()
    }

    /// Forgets incarnation `uid` of `key`; returns what was known of it.
    pub fn forget(&mut self, key: &NamespacedName, uid: &Uid) -> Option<K> {
        if self.objects.get(key).is_some_and(|known| known.uid() == *uid) {
            self.unseen.remove(key);
            self.ending.remove(key);
            return self.objects.remove(key).map(|object| *object);
        }
        None
    }

    /// Incarnation `uid` is gone for good: late reports of it do not count.
    pub fn bury(&mut self, uid: &Uid) {
        self.burials += 1;
        self.buried.insert(uid.clone(), self.burials);
        if self.buried.len() > TOMBSTONES_MAX {
            let keep_after = self.burials.saturating_sub(TOMBSTONES_MAX as u64 / 2);
            self.buried.retain(|_, order| *order > keep_after);
        }
    }

    /// The object of that key.
    pub fn get(&self, key: &NamespacedName) -> Option<&K> {
        self.objects.get(key).map(|object| &**object)
    }

    /// Whether the watch has shown that the object is being deleted: all that was written to this kind before that is
    /// known then. An answer may tell of the deletion long before the watch does.
    pub fn is_ending(&self, key: &NamespacedName) -> bool {
        let known = self.objects.get(key).map(|object| object.uid());
        known.is_some() && known.as_ref() == self.ending.get(key)
    }

    /// All objects in key order.
    pub fn iter(&self) -> impl Iterator<Item = (&NamespacedName, &K)> {
        self.objects.iter().map(|(key, object)| (&**key, &**object))
    }

    /// All keys in order.
    pub fn keys(&self) -> impl Iterator<Item = &NamespacedName> {
        self.objects.keys().map(|key| &**key)
    }

    /// The key under which an object of that name is known, to share it.
    pub fn shared_key(&self, key: &NamespacedName) -> Option<Arc<NamespacedName>> {
        self.objects.get_key_value(key).map(|(key, _)| Arc::clone(key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::ConfigMap;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    fn object(uid: &str, revision: &str) -> ConfigMap {
        let mut map = ConfigMap::default();
        map.metadata.name = Some("a".into());
        map.metadata.uid = Some(uid.into());
        map.metadata.resource_version = Some(revision.into());
        map
    }

    /// `+uid@rev` upserts from the watch, `*uid@rev` from an answer, `-uid` removes, `whole` ends a whole report; expected: `uid@rev` that is known at the end, or nothing.
    fn check(script: &str, expected: Option<&str>) {
        let mut cache = Cache::default();
        let key = NamespacedName::new("", "a");
        for word in script.split_whitespace() {
            if let Some((uid, revision)) = word.strip_prefix('+').and_then(|w| w.split_once('@')) {
                cache.upsert(object(uid, revision), Origin::Watch);
            } else if let Some((uid, revision)) = word.strip_prefix('*').and_then(|w| w.split_once('@')) {
                cache.upsert(object(uid, revision), Origin::Answer);
            } else if word == "whole" {
                for (key, uid) in cache.take_unseen() {
                    cache.forget(&key, &uid);
                }
            } else if let Some(uid) = word.strip_prefix('-') {
                cache.bury(&Uid::from(uid));
                cache.forget(&key, &Uid::from(uid));
            } else {
                panic!("unknown word {word}");
            }
        }
        let known = cache.get(&key).map(|o: &ConfigMap| {
            format!(
                "{}@{}",
                ResourceExt::uid(o).unwrap_or_default(),
                o.resource_version().unwrap_or_default()
            )
        });
        assert_eq!(known.as_deref(), expected, "{script}");
    }

    #[test]
    fn the_newest_report_wins_and_the_dead_stay_dead() {
        check("+u@5", Some("u@5"));
        check("+u@5 +u@4", Some("u@5"));
        check("+u@5 +u@10", Some("u@10"));
        check("+u@5 -u", None);
        check("+u@5 -u +u@6", None); // a late answer to our own write
        check("+u@5 -u +v@9", Some("v@9"));
        check("+u@5 +v@9 -u", Some("v@9")); // the old incarnation's end arrives late
    }

    #[test]
    fn what_the_watch_never_showed_is_gone_after_a_whole_report() {
        check("*u@5 whole", None);
        check("*u@5 +u@5 whole", Some("u@5"));
        check("+u@5 *u@6 whole", Some("u@6"));
        check("+u@5 *v@9 whole", None); // made anew, and gone again unseen
        check("*u@5 whole +u@5", Some("u@5")); // only late: nothing was buried
    }

    #[test]
    fn a_deletion_counts_once_the_watch_has_shown_it() {
        let key = NamespacedName::of(&object("u", "5"));
        let deleted = |uid, revision| {
            let mut object = object(uid, revision);
            object.metadata.deletion_timestamp = Some(Time(jiff::Timestamp::UNIX_EPOCH));
            object
        };
        let mut cache = Cache::default();
        cache.upsert(object("u", "5"), Origin::Watch);
        cache.upsert(deleted("u", "8"), Origin::Answer);
        assert!(!cache.is_ending(&key), "only an answer has told of it");
        assert!(!cache.upsert(object("u", "6"), Origin::Watch) && !cache.is_ending(&key));
        assert!(!cache.upsert(deleted("u", "7"), Origin::Watch), "an older report");
        assert!(cache.is_ending(&key), "but it is the watch's");
        cache.upsert(object("v", "9"), Origin::Answer);
        assert!(!cache.is_ending(&key), "that was another incarnation");
        cache.upsert(deleted("v", "10"), Origin::Watch);
        assert!(cache.is_ending(&key));
        cache.forget(&key, &Uid::from("v"));
        assert!(!cache.is_ending(&key) && cache.ending.is_empty());
    }

    #[test]
    fn tombstones_are_bounded() {
        let mut cache: Cache<ConfigMap> = Cache::default();
        for i in 0..3 * TOMBSTONES_MAX {
            cache.bury(&Uid::from(i.to_string().as_str()));
        }
        assert!(cache.buried.len() <= TOMBSTONES_MAX);
    }
}
