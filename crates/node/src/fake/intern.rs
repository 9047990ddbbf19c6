//! One copy of equal values: the pods of a job share their shape, those of a namespace its name.

use std::collections::HashSet;
use std::hash::Hash;
use std::sync::Arc;

/// A set of shared values, each dropped with its last user.
#[derive(Debug)]
pub(crate) struct Interner<T: ?Sized>(HashSet<Arc<T>>);

impl<T: ?Sized> Default for Interner<T> {
    fn default() -> Self {
        Self(HashSet::new())
    }
}

impl<T: ?Sized + Eq + Hash> Interner<T> {
    /// The one copy of `value`.
    pub(crate) fn take(&mut self, value: impl Into<Arc<T>>) -> Arc<T> {
        let value = value.into();
        if let Some(known) = self.0.get(&*value) {
            return Arc::clone(known);
        }
        self.0.insert(Arc::clone(&value));
        value
    }

    /// Gives a value back; the last one out frees it.
    pub(crate) fn give(&mut self, value: Arc<T>) {
        // Two owners left: the set and the caller.
        if Arc::strong_count(&value) <= 2 {
            self.0.remove(&*value);
        }
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}
