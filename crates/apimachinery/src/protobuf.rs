//! Protobuf request bodies of Kubernetes clients, decoded to the JSON objects they stand for.
//!
//! Table-driven: `proto/*.txt` list the messages. Go clients since 1.32 send built-in kinds this way.

mod convert;
mod table;
mod wire;

use super::schema::{DEPTH_MAX as JSON_DEPTH_MAX, deeper_than};
use serde_json::{Map, Value};
use table::{Field, Message, Presence, Shape};
use wire::{Reader, Wire};

/// The four bytes that begin every body.
pub const MAGIC: &[u8; 4] = b"k8s\0";

/// Messages of real kinds nest less deeply than this.
const DEPTH_MAX: usize = 32;

/// Why a body cannot be decoded (status 400; 415 for a kind that has no table).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProtoError {
    /// The first four bytes are wrong.
    #[error("provided data does not appear to be a protobuf message, expected prefix \"k8s\\x00\"")]
    Magic,
    /// The bytes end inside of a value.
    #[error("unexpected EOF")]
    Truncated,
    /// A number is longer than 64 bits.
    #[error("proto: integer overflow")]
    Overflow,
    /// A tag has field number 0 or an unknown wire type.
    #[error("proto: illegal tag {0}")]
    Tag(u64),
    /// A field has another wire type than its message says.
    #[error("proto: wrong wireType for field {0}")]
    WireType(String),
    /// Text is not UTF-8.
    #[error("proto: field {0} contains invalid UTF-8")]
    Utf8(String),
    /// A value is out of range or, embedded JSON, malformed.
    #[error("proto: field {0} is malformed: {1}")]
    Value(String, String),
    /// Messages nest too deeply.
    #[error("proto: nested too deeply")]
    TooDeep,
    /// The body is compressed or in another encoding.
    #[error("unable to decode content encoding {0:?}")]
    Encoding(String),
    /// No message is known for the kind.
    #[error("no protobuf message is known for {kind:?} in version {api_version:?}")]
    UnknownKind {
        /// The apiVersion that the body names.
        api_version: String,
        /// The kind that the body names.
        kind: String,
    },
}

/// Decodes a body: `k8s\0`, then a `runtime.Unknown` that names the kind and holds the object.
pub fn decode(body: &[u8]) -> Result<Value, ProtoError> {
    let envelope = body.strip_prefix(MAGIC).ok_or(ProtoError::Magic)?;
    let (mut api_version, mut kind) = (String::new(), String::new());
    let mut raw: &[u8] = &[];
    let mut reader = Reader::new(envelope);
    while let Some((number, value)) = reader.next()? {
        match (number, value) {
            (1, Wire::Bytes(meta)) => {
                let mut fields = Reader::new(meta);
                while let Some((number, value)) = fields.next()? {
                    match (number, value) {
                        (1, Wire::Bytes(text)) => api_version = convert::text(text, "apiVersion")?,
                        (2, Wire::Bytes(text)) => kind = convert::text(text, "kind")?,
                        _ => {}
                    }
                }
            }
            (2, Wire::Bytes(bytes)) => raw = bytes,
            (3, Wire::Bytes(encoding)) if !encoding.is_empty() => {
                return Err(ProtoError::Encoding(convert::text(encoding, "contentEncoding")?));
            }
            _ => {}
        }
    }
    let Some(message) = table::of_kind(&api_version, &kind) else {
        return Err(ProtoError::UnknownKind { api_version, kind });
    };
    let mut object = Map::new();
    object.insert("apiVersion".to_owned(), Value::String(api_version));
    object.insert("kind".to_owned(), Value::String(kind));
    fill(message, raw, &mut object, 0)?;
    let object = Value::Object(object);
    // Embedded JSON may nest as deeply as a whole object, and sits deeper.
    if deeper_than(&object, JSON_DEPTH_MAX) {
        return Err(ProtoError::TooDeep);
    }
    Ok(object)
}

/// Adds the fields of an encoded message to an object.
fn fill(message: &Message, bytes: &[u8], object: &mut Map<String, Value>, depth: usize) -> Result<(), ProtoError> {
    if depth > DEPTH_MAX {
        return Err(ProtoError::TooDeep);
    }
    let mut reader = Reader::new(bytes);
    while let Some((number, value)) = reader.next()? {
        // Fields that are newer than the table are skipped, as Kubernetes does.
        let Some(field) = message.field(number) else { continue };
        match (field.shape, value) {
            (Shape::Inline, Wire::Bytes(inner)) => {
                if let Some(message) = table::message(field.kind) {
                    fill(message, inner, object, depth + 1)?;
                }
            }
            (Shape::One, value) => {
                let value = one(field, value, depth)?;
                let shown = match field.presence {
                    Presence::UnlessZero => !is_zero(&value),
                    Presence::AsItIs | Presence::Always => !value.is_null(),
                };
                if shown {
                    object.insert(field.name.to_owned(), value);
                }
            }
            (Shape::List, value) => {
                let items = object.entry(field.name).or_insert_with(|| Value::Array(Vec::new()));
                if let Value::Array(items) = items {
                    list(field, value, items, depth)?;
                }
            }
            (Shape::Map, Wire::Bytes(entry)) => {
                let (key, value) = pair(field, entry, depth)?;
                let map = object.entry(field.name).or_insert_with(|| Value::Object(Map::new()));
                if let Value::Object(map) = map {
                    map.insert(key, value);
                }
            }
            (Shape::Inline | Shape::Map, _) => return Err(ProtoError::WireType(field.name.to_owned())),
        }
    }
    Ok(())
}

/// A value of a field's type.
fn one(field: &Field, value: Wire<'_>, depth: usize) -> Result<Value, ProtoError> {
    if let Some(simple) = convert::simple(field, value)? {
        return Ok(simple);
    }
    let Wire::Bytes(bytes) = value else {
        return Err(ProtoError::WireType(field.name.to_owned()));
    };
    let mut inner = Map::new();
    if let Some(message) = table::message(field.kind) {
        fill(message, bytes, &mut inner, depth + 1)?;
    }
    Ok(Value::Object(inner))
}

/// One item, or several numbers packed into one value.
fn list(field: &Field, value: Wire<'_>, items: &mut Vec<Value>, depth: usize) -> Result<(), ProtoError> {
    match value {
        Wire::Bytes(packed) if matches!(field.kind, "i32" | "i64" | "b") => {
            let mut reader = Reader::new(packed);
            while !reader.is_empty() {
                items.extend(convert::simple(field, Wire::Varint(reader.varint()?))?);
            }
        }
        value => items.push(one(field, value, depth)?),
    }
    Ok(())
}

/// An entry of a map: field 1 is the key, field 2 the value.
fn pair(field: &Field, entry: &[u8], depth: usize) -> Result<(String, Value), ProtoError> {
    let mut key = String::new();
    let mut value = one(field, zero(field), depth)?;
    let mut reader = Reader::new(entry);
    while let Some((number, found)) = reader.next()? {
        match (number, found) {
            (1, Wire::Bytes(text)) => key = convert::text(text, field.name)?,
            (2, found) => value = one(field, found, depth)?,
            _ => {}
        }
    }
    Ok((key, value))
}

fn zero(field: &Field) -> Wire<'static> {
    if matches!(field.kind, "i32" | "i64" | "b") {
        Wire::Varint(0)
    } else {
        Wire::Bytes(&[])
    }
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Bool(true) => false,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
    }
}
