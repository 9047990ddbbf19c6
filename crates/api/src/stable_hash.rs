//! A hash that stays the same across compilers, machines and versions: the only kind that may reach an object, a name
//! or a file. The standard library's hashers promise nothing of the sort.

use std::io;

/// 64-bit FNV-1a over the bytes that are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StableHash(u64);

impl Default for StableHash {
    fn default() -> Self {
        Self::with_basis(0xcbf2_9ce4_8422_2325)
    }
}

impl StableHash {
    /// A hash that begins with another basis, for a second hash of the same bytes.
    pub const fn with_basis(basis: u64) -> Self {
        Self(basis)
    }

    /// Returns the hash of a list of texts; where one ends and the next begins counts too.
    pub fn of_texts(texts: &[&str]) -> u64 {
        let mut hash = Self::default();
        for text in texts {
            hash.update(text.as_bytes());
            // No text contains this byte.
            hash.update(&[0xff]);
        }
        hash.value()
    }

    /// Adds bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    /// Returns the hash of the bytes so far.
    pub const fn value(self) -> u64 {
        self.0
    }
}

/// Lets serializers write into the hash without a copy of their text.
impl io::Write for StableHash {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The vectors of the FNV authors.
    #[test]
    fn agrees_with_the_published_vectors() {
        for (text, expected) in [
            ("", 0xcbf2_9ce4_8422_2325),
            ("a", 0xaf63_dc4c_8601_ec8c),
            ("foobar", 0x8594_4171_f739_67e8),
        ] {
            let mut hash = StableHash::default();
            hash.update(text.as_bytes());
            assert_eq!(hash.value(), expected, "{text}");
        }
    }

    #[test]
    fn the_border_between_texts_counts() {
        assert_ne!(StableHash::of_texts(&["ab", "c"]), StableHash::of_texts(&["a", "bc"]));
        assert_ne!(StableHash::of_texts(&["ab"]), StableHash::of_texts(&["ab", ""]));
    }
}
