//! Values that many objects share, each kept once for as long as anybody mentions it.

use std::hash::Hash;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use slab::Slab;

/// Shared values with small numbers; a number is used again once nobody mentions its value any more.
#[derive(Debug)]
pub(crate) struct Shared<K: ?Sized, V> {
    by_key: FxHashMap<Arc<K>, u32>,
    slots: Slab<Slot<K, V>>,
}

#[derive(Debug)]
struct Slot<K: ?Sized, V> {
    key: Arc<K>,
    value: V,
    mentions: u32,
}

// Derived, these would ask for keys that can be cloned; the keys are shared.
impl<K: ?Sized, V: Clone> Clone for Slot<K, V> {
    fn clone(&self) -> Self {
        Slot {
            key: self.key.clone(),
            value: self.value.clone(),
            mentions: self.mentions,
        }
    }
}

impl<K: ?Sized, V: Clone> Clone for Shared<K, V> {
    fn clone(&self) -> Self {
        Shared {
            by_key: self.by_key.clone(),
            slots: self.slots.clone(),
        }
    }
}

impl<K: ?Sized, V> Default for Shared<K, V> {
    fn default() -> Self {
        Shared {
            by_key: FxHashMap::default(),
            slots: Slab::new(),
        }
    }
}

impl<K: Hash + Eq + ?Sized, V> Shared<K, V> {
    /// One more mention of a key that is known.
    pub(crate) fn mention(&mut self, key: &K) -> Option<u32> {
        let &id = self.by_key.get(key)?;
        self.slots.get_mut(id as usize)?.mentions += 1;
        Some(id)
    }

    /// A key that is new, with its first mention.
    pub(crate) fn add(&mut self, key: Arc<K>, value: V) -> u32 {
        let slot = Slot {
            key: key.clone(),
            value,
            mentions: 1,
        };
        let id = self.slots.insert(slot) as u32;
        self.by_key.insert(key, id);
        id
    }

    /// One mention less. The value, if that was the last one: its number is free again.
    pub(crate) fn release(&mut self, id: u32) -> Option<V> {
        let known = self.slots.get_mut(id as usize)?;
        known.mentions -= 1;
        if known.mentions > 0 {
            return None;
        }
        let gone = self.slots.try_remove(id as usize)?;
        self.by_key.remove(&gone.key);
        Some(gone.value)
    }

    /// The number of a key that is known.
    pub(crate) fn find(&self, key: &K) -> Option<u32> {
        self.by_key.get(key).copied()
    }

    /// What has this number.
    pub(crate) fn get(&self, id: u32) -> Option<&V> {
        Some(&self.slots.get(id as usize)?.value)
    }

    /// The key that has this number.
    pub(crate) fn key(&self, id: u32) -> Option<&K> {
        Some(&self.slots.get(id as usize)?.key)
    }

    pub(crate) fn get_mut(&mut self, id: u32) -> Option<&mut V> {
        Some(&mut self.slots.get_mut(id as usize)?.value)
    }

    /// All numbers in use, with their keys and values.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &K, &V)> {
        let slots = self.slots.iter();
        slots.map(|(id, slot)| (id as u32, &*slot.key, &slot.value))
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (u32, &K, &mut V)> {
        let slots = self.slots.iter_mut();
        slots.map(|(id, slot)| (id as u32, &*slot.key, &mut slot.value))
    }

    /// Whether nothing is in use.
    pub(crate) fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }
}
