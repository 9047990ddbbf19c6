//! A binary heap whose order is asked for at each step, because it lives in the cluster's state.

use std::cmp::Ordering;

/// The smallest item is on top. What is added at the start is sorted once and costs one comparison to pop; only what
/// comes later is kept as a heap.
#[derive(Clone, Debug)]
pub(super) struct Heap<T> {
    /// Sorted, the smallest last.
    start: Vec<T>,
    /// A binary heap.
    later: Vec<T>,
}

impl<T> Default for Heap<T> {
    fn default() -> Self {
        Heap {
            start: Vec::new(),
            later: Vec::new(),
        }
    }
}

impl<T> Heap<T> {
    /// Adds an item without ordering; [`Heap::order`] must follow before anything else.
    pub(super) fn add(&mut self, item: T) {
        self.start.push(item);
    }

    /// Orders everything. The order must be total, so that it does not matter in which order items were added.
    pub(super) fn order(&mut self, compare: impl Fn(&T, &T) -> Ordering) {
        self.start.sort_by(|a, b| compare(b, a));
    }

    pub(super) fn push(&mut self, item: T, compare: impl Fn(&T, &T) -> Ordering) {
        let heap = &mut self.later;
        heap.push(item);
        let mut at = heap.len() - 1;
        while at > 0 {
            let parent = (at - 1) / 2;
            if compare(&heap[at], &heap[parent]).is_ge() {
                break;
            }
            heap.swap(at, parent);
            at = parent;
        }
    }

    pub(super) fn pop(&mut self, compare: impl Fn(&T, &T) -> Ordering) -> Option<T> {
        match (self.start.last(), self.later.first()) {
            (Some(start), Some(later)) if compare(later, start).is_lt() => self.pop_later(compare),
            (Some(_), _) => self.start.pop(),
            (None, _) => self.pop_later(compare),
        }
    }

    /// Takes the smallest item after looking at all: for orders in which one item's turn moves others. Of equal items
    /// any may come, so the order must be total.
    pub(super) fn pop_least(&mut self, compare: impl Fn(&T, &T) -> Ordering) -> Option<T> {
        self.start.append(&mut self.later);
        let least = (0..self.start.len()).min_by(|&a, &b| compare(&self.start[a], &self.start[b]))?;
        Some(self.start.swap_remove(least))
    }

    fn pop_later(&mut self, compare: impl Fn(&T, &T) -> Ordering) -> Option<T> {
        let heap = &mut self.later;
        if heap.is_empty() {
            return None;
        }
        let top = heap.swap_remove(0);
        let mut at = 0;
        loop {
            let mut least = at;
            for child in [2 * at + 1, 2 * at + 2] {
                if child < heap.len() && compare(&heap[child], &heap[least]).is_lt() {
                    least = child;
                }
            }
            if least == at {
                return Some(top);
            }
            heap.swap(at, least);
            at = least;
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.start.is_empty() && self.later.is_empty()
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
