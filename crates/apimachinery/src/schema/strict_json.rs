//! JSON text to a value, remembering duplicate fields and refusing text that nests too deeply.

use super::path::Path;
use serde::de::{DeserializeSeed, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use std::{cell::RefCell, fmt};

/// As deep as lists and objects may nest in an object that is stored: text that nests deeper is not read again.
pub const DEPTH_MAX: usize = 126;

/// More of them help nobody, and text can hold very many: naming each would cost more than reading it.
const DUPLICATES_MAX: usize = 100;

/// Why text is no JSON that we accept (status 400).
#[derive(Debug, thiserror::Error)]
pub enum JsonError {
    /// Objects or lists nest deeper than 128 levels.
    #[error("json: exceeded max depth")]
    TooDeep,
    /// Anything else.
    #[error("json: {0}")]
    Malformed(String),
}

/// Reads JSON and lists the paths of fields that are there more than once (the last one wins).
/// Under Strict each is an error: `duplicate field "PATH"`.
pub fn strict_json(text: &[u8]) -> Result<(Value, Vec<String>), JsonError> {
    let duplicates = RefCell::new(Duplicates {
        paths: Vec::new(),
        left: DUPLICATES_MAX,
    });
    let mut reader = serde_json::Deserializer::from_slice(text);
    let seed = Seed {
        path: Path::Root,
        duplicates: &duplicates,
    };
    let value = seed.deserialize(&mut reader).map_err(error)?;
    reader.end().map_err(error)?;
    Ok((value, duplicates.into_inner().paths))
}

fn error(error: serde_json::Error) -> JsonError {
    let text = error.to_string();
    if text.starts_with("recursion limit exceeded") {
        JsonError::TooDeep
    } else {
        JsonError::Malformed(text)
    }
}

/// What was found twice.
struct Duplicates {
    paths: Vec<String>,
    /// How many more are looked at.
    left: usize,
}

impl Duplicates {
    fn found(&mut self, path: &Path<'_>) {
        let Some(left) = self.left.checked_sub(1) else { return };
        self.left = left;
        let path = path.to_string();
        if !self.paths.contains(&path) {
            self.paths.push(path);
        }
    }
}

struct Seed<'a> {
    path: Path<'a>,
    duplicates: &'a RefCell<Duplicates>,
}

impl<'de> DeserializeSeed<'de> for Seed<'_> {
    type Value = Value;

    fn deserialize<D: serde::Deserializer<'de>>(self, reader: D) -> Result<Value, D::Error> {
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Seed<'_> {
    type Value = Value;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("any JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value)
            .map(Value::Number)
            .ok_or_else(|| E::custom("number out of range"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = {
            let path = Path::Item(&self.path, list.len());
            items.next_element_seed(Seed {
                path,
                duplicates: self.duplicates,
            })?
        } {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut fields = Map::new();
        while let Some(name) = entries.next_key::<String>()? {
            let path = Path::Field(&self.path, &name);
            let value = entries.next_value_seed(Seed {
                path,
                duplicates: self.duplicates,
            })?;
            if fields.contains_key(&name) {
                let mut duplicates = self.duplicates.try_borrow_mut().map_err(A::Error::custom)?;
                duplicates.found(&path);
            }
            fields.insert(name, value);
        }
        Ok(Value::Object(fields))
    }
}

/// Whether lists and objects nest more than `levels` deep; never looks deeper.
pub fn deeper_than(value: &Value, levels: usize) -> bool {
    let rest = levels.checked_sub(1);
    let inside = |item: &Value| rest.is_none_or(|rest| deeper_than(item, rest));
    match value {
        Value::Array(items) => rest.is_none() || items.iter().any(inside),
        Value::Object(fields) => rest.is_none() || fields.values().any(inside),
        _ => false,
    }
}
