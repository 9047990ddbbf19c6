//! Classes: pods of one shape are filtered and scored once.

use std::ops::Index;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::table::{ClassId, Id};
use crate::facts::Constraints;
use crate::resources::{Amounts, PODS};

/// What makes two pods the same to every node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ClassKey {
    /// What a pod takes, `pods: 1` included; no zeros.
    pub request: Amounts,
    /// What a pod asks of its node.
    pub constraints: Arc<Constraints>,
}

/// A class of pods.
#[derive(Clone, Debug)]
pub(crate) struct Class {
    /// The shape.
    pub key: Arc<ClassKey>,
    /// Asks for nothing but a place.
    pub best_effort: bool,
    /// How many pods have this shape.
    pub mentions: u32,
}

/// All classes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Classes {
    by_key: FxHashMap<Arc<ClassKey>, ClassId>,
    items: Vec<Class>,
    free: Vec<ClassId>,
}

impl Classes {
    /// The class of a shape, made if needed, with one more mention.
    pub(crate) fn acquire(&mut self, mut request: Amounts, constraints: &Arc<Constraints>) -> ClassId {
        request = Amounts::from_pairs(request.iter().filter(|&(dim, _)| dim != PODS).chain([(PODS, 1)])).non_zero();
        let key = ClassKey {
            request,
            constraints: constraints.clone(),
        };
        if let Some(&id) = self.by_key.get(&key) {
            self.items[id.index()].mentions += 1;
            return id;
        }
        let key = Arc::new(key);
        let class = Class {
            best_effort: key.request.is_best_effort(),
            key: key.clone(),
            mentions: 1,
        };
        let id = if let Some(id) = self.free.pop() {
            self.items[id.index()] = class;
            id
        } else {
            self.items.push(class);
            ClassId::from_index(self.items.len() - 1)
        };
        self.by_key.insert(key, id);
        id
    }

    /// One mention less; true when that was the last one and the slot is free again.
    pub(crate) fn release(&mut self, id: ClassId) -> bool {
        let class = &mut self.items[id.index()];
        class.mentions -= 1;
        if class.mentions > 0 {
            return false;
        }
        self.by_key.remove(&class.key);
        self.free.push(id);
        true
    }

    /// How many classes are in use.
    pub(crate) fn count(&self) -> usize {
        self.by_key.len()
    }

    /// What a pod of this class takes.
    pub(crate) fn request(&self, id: ClassId) -> &Amounts {
        &self.items[id.index()].key.request
    }
}

impl Index<ClassId> for Classes {
    type Output = Class;
    fn index(&self, id: ClassId) -> &Class {
        &self.items[id.index()]
    }
}
