//! Single values: what is on the wire to what JSON shows.

use super::{ProtoError, Reader, Wire, table::Field};
use crate::schema::strict_json;
use base64::Engine as _;
use jiff::Timestamp;
use serde_json::Value;

pub(super) fn text(bytes: &[u8], field: &str) -> Result<String, ProtoError> {
    String::from_utf8(bytes.to_vec()).map_err(|_| ProtoError::Utf8(field.to_owned()))
}

/// A value of a simple type; none if the type is a message.
pub(super) fn simple(field: &Field, value: Wire<'_>) -> Result<Option<Value>, ProtoError> {
    let found = match (field.kind, value) {
        ("b", Wire::Varint(number)) => Value::Bool(number != 0),
        // A 32 bit number is sent sign-extended to 64 bits; cutting it is what Go does.
        ("i32", Wire::Varint(number)) => Value::from(number as i32),
        ("i64", Wire::Varint(number)) => Value::from(number.cast_signed()),
        ("d", Wire::Fixed64(bits)) => {
            let number = serde_json::Number::from_f64(f64::from_bits(bits));
            number.map_or_else(
                || malformed(field, "not a finite number"),
                |number| Ok(Value::Number(number)),
            )?
        }
        ("s", Wire::Bytes(bytes)) => Value::String(text(bytes, field.name)?),
        ("y", Wire::Bytes(bytes)) => Value::String(base64::engine::general_purpose::STANDARD.encode(bytes)),
        ("time" | "microtime", Wire::Bytes(bytes)) => time(field, bytes)?,
        ("quantity", Wire::Bytes(bytes)) => Value::String(first_text(field, bytes)?),
        ("intstr", Wire::Bytes(bytes)) => int_or_string(field, bytes)?,
        ("raw", Wire::Bytes(bytes)) => embedded_json(field, bytes)?,
        ("words", Wire::Bytes(bytes)) => words(field, bytes)?,
        ("b" | "i32" | "i64" | "d" | "s" | "y" | "time" | "microtime" | "quantity" | "intstr" | "raw" | "words", _) => {
            return Err(ProtoError::WireType(field.name.to_owned()));
        }
        _ => return Ok(None),
    };
    Ok(Some(found))
}

fn malformed<T>(field: &Field, why: impl ToString) -> Result<T, ProtoError> {
    Err(ProtoError::Value(field.name.to_owned(), why.to_string()))
}

/// Seconds and nanoseconds; an empty message is no time.
fn time(field: &Field, bytes: &[u8]) -> Result<Value, ProtoError> {
    if bytes.is_empty() {
        return Ok(Value::Null);
    }
    let (mut seconds, mut nanos) = (0, 0);
    let mut reader = Reader::new(bytes);
    while let Some(found) = reader.next()? {
        match found {
            (1, Wire::Varint(number)) => seconds = number.cast_signed(),
            (2, Wire::Varint(number)) => nanos = number as i32,
            _ => {}
        }
    }
    // Times have whole seconds in JSON, micro times six digits.
    let nanos = if field.kind == "time" { 0 } else { nanos / 1000 * 1000 };
    let Ok(time) = Timestamp::new(seconds, nanos) else {
        return malformed(field, "time out of range");
    };
    let form = if field.kind == "time" {
        "%Y-%m-%dT%H:%M:%SZ"
    } else {
        "%Y-%m-%dT%H:%M:%S.%6fZ"
    };
    Ok(Value::String(time.strftime(form).to_string()))
}

/// The text in field 1.
fn first_text(field: &Field, bytes: &[u8]) -> Result<String, ProtoError> {
    let mut found = String::new();
    let mut reader = Reader::new(bytes);
    while let Some((number, value)) = reader.next()? {
        if let (1, Wire::Bytes(bytes)) = (number, value) {
            found = text(bytes, field.name)?;
        }
    }
    Ok(found)
}

fn int_or_string(field: &Field, bytes: &[u8]) -> Result<Value, ProtoError> {
    let (mut is_text, mut number, mut word) = (false, 0, String::new());
    let mut reader = Reader::new(bytes);
    while let Some(found) = reader.next()? {
        match found {
            (1, Wire::Varint(kind)) => is_text = kind == 1,
            (2, Wire::Varint(found)) => number = found as i32,
            (3, Wire::Bytes(bytes)) => word = text(bytes, field.name)?,
            _ => {}
        }
    }
    Ok(if is_text {
        Value::String(word)
    } else {
        Value::from(number)
    })
}

fn embedded_json(field: &Field, bytes: &[u8]) -> Result<Value, ProtoError> {
    let mut raw: &[u8] = &[];
    let mut reader = Reader::new(bytes);
    while let Some((number, value)) = reader.next()? {
        if let (1, Wire::Bytes(bytes)) = (number, value) {
            raw = bytes;
        }
    }
    if raw.is_empty() {
        return Ok(Value::Null);
    }
    strict_json(raw)
        .map(|(value, _)| value)
        .or_else(|error| malformed(field, error))
}

fn words(field: &Field, bytes: &[u8]) -> Result<Value, ProtoError> {
    let mut found = Vec::new();
    let mut reader = Reader::new(bytes);
    while let Some((number, value)) = reader.next()? {
        if let (1, Wire::Bytes(bytes)) = (number, value) {
            found.push(Value::String(text(bytes, field.name)?));
        }
    }
    Ok(Value::Array(found))
}
