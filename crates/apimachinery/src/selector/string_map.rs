//! A small, immutable map of strings: a hundred thousand objects have labels, and most labels are short.

/// A map from string to string, sorted by key, kept as one text and its offsets: two allocations, whatever its size.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CompactStringMap {
    /// The keys and values, one after the other.
    text: Box<str>,
    /// The end of each key and each value in `text`.
    ends: Box<[u32]>,
}

impl CompactStringMap {
    /// Returns the value of a key.
    #[inline]
    pub fn get(&self, key: &str) -> Option<&str> {
        self.iter().find(|(known, _)| *known == key).map(|(_, value)| value)
    }

    /// Returns the pairs of key and value, in the order of their keys.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        let mut start = 0;
        let mut next = move |end: u32| {
            let piece = self.text.get(start..end as usize).unwrap_or_default();
            start = end as usize;
            piece
        };
        self.ends.chunks_exact(2).map(move |ends| match ends {
            [key, value] => (next(*key), next(*value)),
            _ => ("", ""), // pieces of two have two
        })
    }
}

/// Builds a map from pairs that are sorted by key already. Pairs beyond four gigabytes of text are left out.
impl<K: AsRef<str>, V: AsRef<str>> FromIterator<(K, V)> for CompactStringMap {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(pairs: I) -> Self {
        let (mut text, mut ends) = (String::new(), Vec::new());
        for (key, value) in pairs {
            let key_end = text.len() + key.as_ref().len();
            let value_end = key_end + value.as_ref().len();
            let (Ok(key_end), Ok(value_end)) = (u32::try_from(key_end), u32::try_from(value_end)) else {
                break;
            };
            text.push_str(key.as_ref());
            text.push_str(value.as_ref());
            ends.extend([key_end, value_end]);
        }
        Self {
            text: text.into(),
            ends: ends.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_in_comes_out() {
        for pairs in [
            vec![],
            vec![("", "")],
            vec![("a", "")],
            vec![("a", "1"), ("ab", "\0"), ("b", "ß"), ("c", "1")],
        ] {
            let kept: CompactStringMap = pairs.iter().copied().collect();
            assert_eq!(kept.iter().collect::<Vec<_>>(), pairs);
            for (key, value) in &pairs {
                assert_eq!(kept.get(key), Some(*value));
            }
            assert_eq!(kept.get("absent"), None);
        }
    }
}
