//! A binary heap whose order is asked for at each step, because it lives in the cluster's state.

use std::cmp::Ordering;

/// The smallest item is on top.
#[derive(Clone, Debug)]
pub(super) struct Heap<T> {
    items: Vec<T>,
}

impl<T> Default for Heap<T> {
    fn default() -> Self {
        Heap { items: Vec::new() }
    }
}

impl<T> Heap<T> {
    /// Adds an item without ordering; [`Heap::order`] must follow before anything else.
    pub(super) fn add(&mut self, item: T) {
        self.items.push(item);
    }

    /// Orders everything. The order must be total, so that it does not matter in which order items were added.
    pub(super) fn order(&mut self, compare: impl Fn(&T, &T) -> Ordering) {
        self.items.sort_by(compare);
    }

    pub(super) fn push(&mut self, item: T, compare: impl Fn(&T, &T) -> Ordering) {
        self.items.push(item);
        let mut at = self.items.len() - 1;
        while at > 0 {
            let parent = (at - 1) / 2;
            if compare(&self.items[at], &self.items[parent]).is_ge() {
                break;
            }
            self.items.swap(at, parent);
            at = parent;
        }
    }

    pub(super) fn pop(&mut self, compare: impl Fn(&T, &T) -> Ordering) -> Option<T> {
        if self.items.is_empty() {
            return None;
        }
        let top = self.items.swap_remove(0);
        let mut at = 0;
        loop {
            let (left, right) = (2 * at + 1, 2 * at + 2);
            let mut least = at;
            for child in [left, right] {
                if child < self.items.len() && compare(&self.items[child], &self.items[least]).is_lt() {
                    least = child;
                }
            }
            if least == at {
                return Some(top);
            }
            self.items.swap(at, least);
            at = least;
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::Heap;

    proptest! {
        #[test]
        fn pops_in_order(first in prop::collection::vec(0u32..50, 0..40), later in prop::collection::vec(0u32..50, 0..20)) {
            let mut heap = Heap::default();
            for &item in &first { heap.add(item); }
            heap.order(Ord::cmp);
            for &item in &later { heap.push(item, Ord::cmp); }
            let mut expected = [first, later].concat();
            expected.sort_unstable();
            let popped: Vec<u32> = std::iter::from_fn(|| heap.pop(Ord::cmp)).collect();
            prop_assert_eq!(popped, expected);
        }
    }
}
