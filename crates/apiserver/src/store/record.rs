//! The bytes of one batch in the log.
//!
//! ```text
//! batch        crc32c:u32 sequence:u64 oldest:u64 revision:u64 trimmed:u64 n:u32 carried*n m:u32 transaction*m
//! carried      revision:u64 key body                    an object that lived in an older batch
//! transaction  n:u32 event*n
//! event        kind:u8 revision:u64 previous:u64 key body      previous: 0 = there was none
//! key          string string string                     resource, namespace, name
//! body,string  length:u32 bytes
//! ```
//! Little-endian. The checksum is of all that follows it.

use std::sync::Arc;

use super::head::Transaction;
use super::model::{Event, EventKind, Key, Object, Revision};

/// The fixed part of the encoding of an object.
const OBJECT_OVERHEAD: u64 = 8 + 4 * 4;

/// What an object takes in the log.
pub(super) fn size(object: &Object) -> u64 {
    OBJECT_OVERHEAD + (object.key.len() + object.body.len()) as u64
}

/// What a batch says about the log as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) sequence: u64,
    /// The oldest batch that is still part of the log once this one is written.
    pub(super) oldest: u64,
    /// The newest revision given when this batch was closed.
    pub(super) revision: Revision,
    /// Batches with events up to here may be gone.
    pub(super) trimmed: Revision,
}

/// Encodes a batch into `out`, after whose every object `appended` may take off what it wants. The place of the checksum
/// is left empty.
pub(super) fn encode<E>(
    out: &mut Vec<u8>,
    header: Header,
    carried: &[Arc<Object>],
    transactions: &[Transaction],
    mut appended: impl FnMut(&mut Vec<u8>) -> Result<(), E>,
) -> Result<(), E> {
    out.extend_from_slice(&[0; 4]);
    for number in [header.sequence, header.oldest, header.revision, header.trimmed] {
        put_u64(out, number);
    }
    put_u32(out, carried.len());
    for object in carried {
        put_u64(out, object.revision);
        put_object(out, object);
        appended(out)?;
    }
    put_u32(out, transactions.len());
    for transaction in transactions {
        put_u32(out, transaction.events.len());
        for event in &transaction.events {
            put_event(out, event);
            appended(out)?;
        }
    }
    Ok(())
}

fn put_event(out: &mut Vec<u8>, event: &Event) {
    out.push(match event.kind {
        EventKind::Added => 1,
        EventKind::Modified => 2,
        EventKind::Deleted => 3,
    });
    put_u64(out, event.revision);
    put_u64(out, event.previous.as_ref().map_or(0, |object| object.revision));
    put_object(out, &event.object);
}

fn put_object(out: &mut Vec<u8>, object: &Object) {
    for part in [&object.key.resource, &object.key.namespace, &object.key.name] {
        put_bytes(out, part.as_bytes());
    }
    put_bytes(out, &object.body);
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_u32(out, bytes.len());
    out.extend_from_slice(bytes);
}

/// Lengths fit: [`super::Options::transaction_bytes_max`] is capped below 4 GiB.
fn put_u32(out: &mut Vec<u8>, number: usize) {
    out.extend_from_slice(&(number as u32).to_le_bytes());
}

fn put_u64(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(&number.to_le_bytes());
}

/// An object or the final state of one, as the log has it.
pub(super) struct Record<'a> {
    pub(super) revision: Revision,
    pub(super) resource: &'a str,
    pub(super) namespace: &'a str,
    pub(super) name: &'a str,
    pub(super) body: &'a [u8],
}

impl Record<'_> {
    /// Its key, with the parts that repeat shared through `intern`.
    pub(super) fn key(&self, mut intern: impl FnMut(&str) -> Arc<str>) -> Key {
        Key {
            resource: intern(self.resource),
            namespace: intern(self.namespace),
            name: Arc::from(self.name),
        }
    }
}

/// What the log tells, in order.
pub(super) trait Visitor {
    fn carried(&mut self, record: &Record<'_>) -> Result<(), String>;
    /// `previous` 0: there was none; `complete`: the revision of the last event of the transaction.
    fn event(
        &mut self,
        kind: EventKind,
        record: &Record<'_>,
        previous: Revision,
        complete: Revision,
    ) -> Result<(), String>;
}

/// Checks a batch's checksum and reads its header.
pub(super) fn header(bytes: &[u8]) -> Result<(Header, Reader<'_>), String> {
    let mut reader = Reader(bytes);
    let checksum = reader.u32()?;
    if crc32c::crc32c(reader.0) != checksum {
        return Err("the checksum does not fit".to_owned());
    }
    let header = Header {
        sequence: reader.u64()?,
        oldest: reader.u64()?,
        revision: reader.u64()?,
        trimmed: reader.u64()?,
    };
    Ok((header, reader))
}

/// Walks through the contents of a batch.
pub(super) fn walk(mut reader: Reader<'_>, visitor: &mut impl Visitor) -> Result<(), String> {
    for _ in 0..reader.u32()? {
        let revision = reader.u64()?;
        visitor.carried(&reader.record(revision)?)?;
    }
    for _ in 0..reader.u32()? {
        let count = reader.u32()?;
        let mut ahead = Reader(reader.0);
        let mut complete = 0;
        for _ in 0..count {
            complete = ahead.event()?.2.revision;
        }
        for _ in 0..count {
            let (kind, previous, record) = reader.event()?;
            visitor.event(kind, &record, previous, complete)?;
        }
    }
    if reader.0.is_empty() {
        Ok(())
    } else {
        Err(format!("{} bytes too many", reader.0.len()))
    }
}

/// Takes what was put, or says that it ended.
pub(super) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], String> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or("it ends too early")?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], String> {
        let (taken, rest) = self.0.split_first_chunk().ok_or("it ends too early")?;
        self.0 = rest;
        Ok(*taken)
    }

    fn u32(&mut self) -> Result<u32, String> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64, String> {
        self.array().map(u64::from_le_bytes)
    }

    fn bytes(&mut self) -> Result<&'a [u8], String> {
        let length = self.u32()? as usize;
        self.take(length)
    }

    fn text(&mut self) -> Result<&'a str, String> {
        std::str::from_utf8(self.bytes()?).map_err(|error| format!("a key is not UTF-8: {error}"))
    }

    fn record(&mut self, revision: Revision) -> Result<Record<'a>, String> {
        let (resource, namespace, name) = (self.text()?, self.text()?, self.text()?);
        Ok(Record {
            revision,
            resource,
            namespace,
            name,
            body: self.bytes()?,
        })
    }

    fn event(&mut self) -> Result<(EventKind, Revision, Record<'a>), String> {
        let kind = match self.array()? {
            [1] => EventKind::Added,
            [2] => EventKind::Modified,
            [3] => EventKind::Deleted,
            [other] => return Err(format!("an event of unknown kind {other}")),
        };
        let (revision, previous) = (self.u64()?, self.u64()?);
        Ok((kind, previous, self.record(revision)?))
    }
}
