//! Dense ids, and the table that gives every named object a slot.

use std::marker::PhantomData;
use std::ops::{Index, IndexMut};
use std::sync::Arc;

use rustc_hash::FxHashMap;

/// A dense index into a table.
pub(crate) trait Id: Copy + Eq {
    /// From a slot number.
    fn from_index(index: usize) -> Self;
    /// The slot number.
    fn index(self) -> usize;
}

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub(crate) struct $name(pub(crate) u32);

        impl Id for $name {
            fn from_index(index: usize) -> Self {
                $name(index as u32)
            }
            fn index(self) -> usize {
                self.0 as usize
            }
        }
    )*};
}

macro_rules! ids_or_none {
    ($($name:ident)*) => {$(
        impl $name {
            /// "No such object", in columns where that is common.
            pub(crate) const NONE: $name = $name(u32::MAX);

            /// Whether this names an object.
            pub(crate) fn is_some(self) -> bool {
                self != Self::NONE
            }
        }
    )*};
}

ids! {
    /// A node.
    NodeId
    /// A pod.
    TaskId
    /// A pod group.
    JobId
    /// A queue.
    QueueId
    /// A namespace.
    NamespaceId
    /// A class: pods of one shape.
    ClassId
    /// A crowd: jobs that wait alike.
    CrowdId
}

ids_or_none! { NodeId JobId QueueId NamespaceId ClassId CrowdId }

/// Named objects in slots. A slot is made when its name is first mentioned, by the object itself or by another one that
/// refers to it, and is used again once nobody mentions it any more: so references never dangle.
///
/// This is not a `slab::Slab`: a promise may hold the id of a slot that was given back, reads it, and sees by the uid that
/// it is another object; and columns are read in the innermost loops, where the slab's check of each slot would be paid.
#[derive(Clone, Debug)]
pub(crate) struct Table<I, T> {
    by_name: FxHashMap<Arc<str>, u32>,
    names: Vec<Arc<str>>,
    items: Vec<T>,
    free: Vec<u32>,
    id: PhantomData<I>,
}

impl<I, T> Default for Table<I, T> {
    fn default() -> Self {
        Table {
            by_name: FxHashMap::default(),
            names: Vec::new(),
            items: Vec::new(),
            free: Vec::new(),
            id: PhantomData,
        }
    }
}

impl<I: Id, T: Default> Table<I, T> {
    /// The slot of a name, if it has one.
    pub(crate) fn find(&self, name: &str) -> Option<I> {
        self.by_name.get(name).map(|&slot| I::from_index(slot as usize))
    }

    /// The slot of a name, made if needed.
    pub(crate) fn intern(&mut self, name: &Arc<str>) -> I {
        if let Some(id) = self.find(name) {
            return id;
        }
        let slot = self.free.pop().unwrap_or_else(|| {
            self.items.push(T::default());
            self.names.push(name.clone());
            (self.items.len() - 1) as u32
        });
        self.names[slot as usize] = name.clone();
        self.by_name.insert(name.clone(), slot);
        I::from_index(slot as usize)
    }

    /// Gives the slot back; one that is free already stays so.
    pub(crate) fn release(&mut self, id: I) {
        let name = std::mem::take(&mut self.names[id.index()]);
        if name.is_empty() {
            return;
        }
        self.by_name.remove(&name);
        self.items[id.index()] = T::default();
        self.free.push(id.index() as u32);
    }

    /// The name of a slot.
    pub(crate) fn name(&self, id: I) -> &Arc<str> {
        &self.names[id.index()]
    }

    /// How many slots there are, used or not: the number of rows that columns need.
    pub(crate) fn slots(&self) -> usize {
        self.items.len()
    }

    /// How many slots are in use.
    pub(crate) fn count(&self) -> usize {
        self.by_name.len()
    }

    /// The slots in use, in slot order. That order depends on history: sort before anything of it reaches a plan.
    pub(crate) fn ids(&self) -> impl Iterator<Item = I> + '_ {
        let used = |&slot: &usize| !self.names[slot].is_empty();
        (0..self.items.len()).filter(used).map(I::from_index)
    }
}

impl<I: Id, T> Index<I> for Table<I, T> {
    type Output = T;
    fn index(&self, id: I) -> &T {
        &self.items[id.index()]
    }
}

impl<I: Id, T> IndexMut<I> for Table<I, T> {
    fn index_mut(&mut self, id: I) -> &mut T {
        &mut self.items[id.index()]
    }
}
