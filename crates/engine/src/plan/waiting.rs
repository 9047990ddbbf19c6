//! The list of all that waits: a hundred thousand groups, of which a cycle changes a few.

use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::Waiting;

/// A part of the list that is copied as a whole when one of its entries changes.
const CHUNK: usize = 512;

/// Groups that wait, sorted by key. They are kept in chunks, so that two lists that differ little share most of what they
/// hold, and a copy costs next to nothing.
#[derive(Clone, Debug, Default)]
pub struct WaitingList {
    /// None of them is empty.
    chunks: Vec<Arc<Vec<Arc<Waiting>>>>,
}

impl WaitingList {
    /// All of them, by key.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Waiting>> {
        self.chunks.iter().flat_map(|chunk| chunk.iter())
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.chunks.iter().map(|chunk| chunk.len()).sum()
    }

    /// Whether nobody waits.
    pub fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    /// What is known of a group.
    pub fn get(&self, key: &str) -> Option<&Arc<Waiting>> {
        let chunk = self.chunks.get(self.chunk_of(key))?;
        let at = chunk.binary_search_by(|known| (*known.pod_group).cmp(key)).ok()?;
        chunk.get(at)
    }

    /// Whether exactly this is in it.
    pub fn contains(&self, waiting: &Arc<Waiting>) -> bool {
        self.get(&waiting.pod_group) == Some(waiting)
    }

    /// The first chunk that reaches as far as a key; the number of chunks if none does.
    fn chunk_of(&self, key: &str) -> usize {
        self.chunks
            .partition_point(|chunk| chunk.last().is_some_and(|last| *last.pod_group < *key))
    }

    /// Puts in what is new of a group, or takes it out.
    pub(crate) fn set(&mut self, key: &str, new: Option<Arc<Waiting>>) {
        let reaching = self.chunk_of(key);
        // What comes after all others joins the last chunk.
        let place = reaching.min(self.chunks.len().saturating_sub(1));
        let Some(chunk) = self.chunks.get_mut(place) else {
            self.chunks.extend(new.map(|new| Arc::new(vec![new])));
            return;
        };
        match (chunk.binary_search_by(|known| (*known.pod_group).cmp(key)), new) {
            (Ok(at), Some(new)) => Arc::make_mut(chunk)[at] = new,
            (Ok(at), None) => drop(Arc::make_mut(chunk).remove(at)),
            (Err(at), Some(new)) => Arc::make_mut(chunk).insert(at, new),
            (Err(_), None) => return,
        }
        if chunk.is_empty() {
            self.chunks.remove(place);
        } else if chunk.len() > 2 * CHUNK {
            let upper = Arc::make_mut(chunk).split_off(CHUNK);
            self.chunks.insert(place + 1, Arc::new(upper));
        }
    }
}

impl PartialEq for WaitingList {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl FromIterator<Arc<Waiting>> for WaitingList {
    fn from_iter<I: IntoIterator<Item = Arc<Waiting>>>(all: I) -> Self {
        let mut list = Self::default();
        for waiting in all {
            list.set(&Arc::clone(&waiting.pod_group), Some(waiting));
        }
        list
    }
}

impl Serialize for WaitingList {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

impl<'de> Deserialize<'de> for WaitingList {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Vec::<Arc<Waiting>>::deserialize(deserializer)?.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn waiting(key: &str, pods: u32) -> Arc<Waiting> {
        Arc::new(Waiting {
            pod_group: key.into(),
            uid: "u".into(),
            pods,
            reasons: Arc::default(),
        })
    }

    proptest! {
        /// The list is a sorted map, and a copy that was taken before a change does not see it.
        #[test]
        fn the_list_is_a_sorted_map(steps in proptest::collection::vec((0u32..3000, proptest::option::of(0u32..3)), 0..6000)) {
            let (mut list, mut model) = (WaitingList::default(), BTreeMap::new());
            let half = steps.len() / 2;
            let mut copy = (list.clone(), model.clone());
            for (number, (key, pods)) in steps.into_iter().enumerate() {
                if number == half {
                    copy = (list.clone(), model.clone());
                }
                let key = format!("ns/g{key}");
                let new = pods.map(|pods| waiting(&key, pods));
                list.set(&key, new.clone());
                match new {
                    Some(new) => drop(model.insert(key.clone(), new)),
                    None => drop(model.remove(&key)),
                }
                prop_assert_eq!(list.get(&key), model.get(&key));
            }
            for (list, model) in [(list, model), copy] {
                prop_assert!(list.iter().eq(model.values()));
                prop_assert_eq!((list.len(), list.is_empty()), (model.len(), model.is_empty()));
                prop_assert!(list.chunks.iter().all(|chunk| (1..=2 * CHUNK).contains(&chunk.len())));
                let text = serde_json::to_string(&list).expect("JSON");
                let read: WaitingList = serde_json::from_str(&text).expect("JSON");
                prop_assert!(read == list);
            }
        }
    }
}
