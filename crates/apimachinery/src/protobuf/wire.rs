//! The protobuf wire format: tags and values, nothing of their meaning.

use super::ProtoError;

/// One encoded value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Wire<'a> {
    Varint(u64),
    Fixed64(u64),
    Fixed32,
    Bytes(&'a [u8]),
}

/// Reads fields one after the other.
pub(super) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(super) fn new(rest: &'a [u8]) -> Self {
        Self { rest }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], ProtoError> {
        let (taken, rest) = self.rest.split_at_checked(count).ok_or(ProtoError::Truncated)?;
        self.rest = rest;
        Ok(taken)
    }

    pub(super) fn varint(&mut self) -> Result<u64, ProtoError> {
        let mut value = 0_u64;
        for shift in (0..70).step_by(7) {
            let byte = *self.take(1)?.first().ok_or(ProtoError::Truncated)?;
            let bits = u64::from(byte & 0x7f);
            // The tenth byte has room for one bit only.
            if shift == 63 && bits > 1 {
                return Err(ProtoError::Overflow);
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(ProtoError::Overflow)
    }

    /// The next field's number and value, none at the end.
    pub(super) fn next(&mut self) -> Result<Option<(u32, Wire<'a>)>, ProtoError> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let tag = self.varint()?;
        let number = u32::try_from(tag >> 3)
            .ok()
            .filter(|number| *number > 0)
            .ok_or(ProtoError::Tag(tag))?;
        let value = match tag & 7 {
            0 => Wire::Varint(self.varint()?),
            1 => Wire::Fixed64(
                self.take(8)?
                    .iter()
                    .rev()
                    .fold(0, |value, byte| value << 8 | u64::from(*byte)),
            ),
            2 => {
                let length = usize::try_from(self.varint()?).map_err(|_| ProtoError::Truncated)?;
                Wire::Bytes(self.take(length)?)
            }
            5 => {
                self.take(4)?;
                Wire::Fixed32
            }
            _ => return Err(ProtoError::Tag(tag)),
        };
        Ok(Some((number, value)))
    }
}
