//! Values that many objects share, each kept once for as long as anybody mentions it.

use std::hash::Hash;
use std::sync::Arc;

use rustc_hash::FxHashMap;

/// Shared values with small numbers; a number is used again once nobody mentions its value any more.
#[derive(Debug)]
pub struct Shared<K: ?Sized, V> {
    by_key: FxHashMap<Arc<K>, u32>,
    slots: Vec<Option<Slot<K, V>>>,
    free: Vec<u32>,
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
            free: self.free.clone(),
        }
    }
}

impl<K: ?Sized, V> Default for Shared<K, V> {
    fn default() -> Self {
        Shared {
            by_key: FxHashMap::default(),
            slots: Vec::new(),
            free: Vec::new(),
        }
    }
}

impl<K: Hash + Eq + ?Sized, V> Shared<K, V> {
    /// One more mention of a key that is known.
    pub(crate) fn mention(&mut self, key: &K) -> Option<u32> {
        let &id = self.by_key.get(key)?;
        if let Some(slot) = &mut self.slots[id as usize] {
            slot.mentions += 1;
        }
        Some(id)
    }

    /// A key that is new, with its first mention.
    pub(crate) fn add(&mut self, key: Arc<K>, value: V) -> u32 {
        let slot = Some(Slot {
            key: key.clone(),
            value,
            mentions: 1,
        });
        let id = if let Some(id) = self.free.pop() {
            self.slots[id as usize] = slot;
            id
        } else {
            self.slots.push(slot);
            (self.slots.len() - 1) as u32
        };
        self.by_key.insert(key, id);
        id
    }

    /// One mention less. The value, if that was the last one: its number is free again.
    pub(crate) fn release(&mut self, id: u32) -> Option<V> {
        let slot = self.slots.get_mut(id as usize)?;
        let known = slot.as_mut()?;
        known.mentions -= 1;
        if known.mentions > 0 {
            return None;
        }
        let gone = slot.take()?;
        self.by_key.remove(&gone.key);
        self.free.push(id);
        Some(gone.value)
    }

    /// The number of a key that is known.
    pub fn find(&self, key: &K) -> Option<u32> {
        self.by_key.get(key).copied()
    }

    /// What has this number.
    pub fn get(&self, id: u32) -> Option<&V> {
        Some(&self.slots.get(id as usize)?.as_ref()?.value)
    }

    /// The key that has this number.
    pub fn key(&self, id: u32) -> Option<&K> {
        Some(&self.slots.get(id as usize)?.as_ref()?.key)
    }

    pub(crate) fn get_mut(&mut self, id: u32) -> Option<&mut V> {
        Some(&mut self.slots.get_mut(id as usize)?.as_mut()?.value)
    }

    /// All numbers in use, with their keys and values.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &K, &V)> {
        let used = |(id, slot): (usize, &'_ Option<Slot<K, V>>)| slot.as_ref().map(|_| id);
        let ids = self.slots.iter().enumerate().filter_map(used);
        ids.filter_map(|id| Some((id as u32, self.key(id as u32)?, self.get(id as u32)?)))
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (u32, &K, &mut V)> {
        let slots = self.slots.iter_mut().enumerate();
        slots.filter_map(|(id, slot)| slot.as_mut().map(|slot| (id as u32, &*slot.key, &mut slot.value)))
    }

    /// Whether nothing is in use.
    pub fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }
}
