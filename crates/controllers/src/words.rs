//! Texts, and other things, that many objects share, kept once.

use std::collections::BTreeSet;
use std::sync::Arc;

/// Things at which the first look for unused ones is worth it.
const UNUSED_MIN: usize = 1_024;

/// Things of one type, each once. Those that nobody uses any more are let go now and then.
#[derive(Debug)]
pub struct Pool<T: ?Sized> {
    known: BTreeSet<Arc<T>>,
    /// How many there were after the last clearing.
    cleared: usize,
}

/// Texts by what they say.
pub type Words = Pool<str>;

impl<T: ?Sized> Default for Pool<T> {
    fn default() -> Self {
        Self {
            known: BTreeSet::new(),
            cleared: 0,
        }
    }
}

impl Words {
    /// The one copy of `text`.
    pub fn share(&mut self, text: &str) -> Arc<str> {
        self.share_as(text, || Arc::from(text))
    }
}

impl<T: ?Sized + Ord> Pool<T> {
    /// The one copy of `thing`, made by `keep` if it is new.
    pub fn share_as(&mut self, thing: &T, keep: impl FnOnce() -> Arc<T>) -> Arc<T> {
        if let Some(known) = self.known.get(thing) {
            return Arc::clone(known);
        }
        if self.known.len() >= self.cleared.saturating_mul(2).max(UNUSED_MIN) {
            self.known.retain(|thing| Arc::strong_count(thing) > 1);
            self.cleared = self.known.len();
        }
        let kept = keep();
        self.known.insert(Arc::clone(&kept));
        kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_kept_once_and_let_go_when_unused() {
        let mut words = Words::default();
        let first = words.share("a");
        assert!(Arc::ptr_eq(&first, &words.share("a")));
        for i in 0..10 * UNUSED_MIN {
            words.share(&i.to_string());
        }
        assert!(words.known.len() <= UNUSED_MIN + 1, "{}", words.known.len());
        assert!(Arc::ptr_eq(&first, &words.share("a")));
    }
}
