//! Texts that many objects share, kept once.

use std::collections::BTreeSet;
use std::sync::Arc;

/// Words at which the first look for unused ones is worth it.
const UNUSED_MIN: usize = 1_024;

/// Texts by what they say. Those that nobody uses any more are let go now and then.
#[derive(Debug, Default)]
pub struct Words {
    known: BTreeSet<Arc<str>>,
    /// How many there were after the last clearing.
    cleared: usize,
}

impl Words {
    /// The one copy of `text`.
    pub fn share(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.known.get(text) {
            return Arc::clone(known);
        }
        if self.known.len() >= self.cleared.saturating_mul(2).max(UNUSED_MIN) {
            self.known.retain(|word| Arc::strong_count(word) > 1);
            self.cleared = self.known.len();
        }
        let word: Arc<str> = text.into();
        self.known.insert(Arc::clone(&word));
        word
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
