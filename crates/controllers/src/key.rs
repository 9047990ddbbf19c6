//! The uid of an object, in little memory.

/// The uid of an incarnation. The usual form, a UUID, needs no memory of its own.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uid(Form);

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Form {
    Uuid([u8; 16]),
    Text(Box<str>),
}

/// Bytes in each part of a UUID.
const PARTS: [usize; 5] = [4, 2, 2, 2, 6];

impl From<&str> for Uid {
    fn from(text: &str) -> Self {
        Self(uuid(text).map_or_else(|| Form::Text(text.into()), Form::Uuid))
    }
}

/// A UUID as it is always written: 32 small hexadecimal digits in five parts.
fn uuid(text: &str) -> Option<[u8; 16]> {
    let mut bytes = [0; 16];
    let mut places = bytes.iter_mut();
    let mut parts = text.split('-');
    for length in PARTS {
        let part = parts.next()?.as_bytes();
        if part.len() != 2 * length {
            return None;
        }
        for pair in part.chunks_exact(2) {
            let [high, low] = *pair else { return None };
            *places.next()? = digit(high)? << 4 | digit(low)?;
        }
    }
    parts.next().is_none().then_some(bytes)
}

const fn digit(letter: u8) -> Option<u8> {
    match letter {
        b'0'..=b'9' => Some(letter - b'0'),
        b'a'..=b'f' => Some(letter - b'a' + 10),
        _ => None,
    }
}

impl std::fmt::Display for Uid {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let bytes = match &self.0 {
            Form::Text(text) => return f.write_str(text),
            Form::Uuid(bytes) => bytes,
        };
        let mut rest = bytes.as_slice();
        for (place, length) in PARTS.into_iter().enumerate() {
            let (part, after) = rest.split_at(length.min(rest.len()));
            rest = after;
            if place > 0 {
                f.write_str("-")?;
            }
            for byte in part {
                write!(f, "{byte:02x}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uid_is_written_as_it_was_read() {
        let cases = [
            ("0f8fad5b-d9cb-469f-a165-70867728950e", true),
            ("0F8FAD5B-D9CB-469F-A165-70867728950E", false),
            ("0f8fad5b-d9cb-469f-a165-70867728950", false),
            ("0f8fad5b-d9cb-469f-a165-70867728950e-", false),
            ("0f8fad5bd9cb-469f-a165-70867728950e", false),
            ("0f8fad5b-d9cb-469f-a165-7086772895é", false),
            ("uid-1", false),
            ("", false),
        ];
        for (text, compact) in cases {
            let uid = Uid::from(text);
            assert_eq!(uid.to_string(), text);
            assert_eq!(matches!(uid.0, Form::Uuid(_)), compact, "{text}");
        }
        assert_eq!(size_of::<Uid>(), 24);
    }
}
