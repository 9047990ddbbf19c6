//! Strategic merge patch: a merge patch that knows which lists merge by a key.
//!
//! Types come from the OpenAPI definitions of the built-in kinds, merge keys from [`merge_keys`].

use super::{PatchError, merge_keys};
use crate::openapi;
use serde_json::{Map, Value};

const DIRECTIVE: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_PRIMITIVES: &str = "$deleteFromPrimitiveList/";
const SET_ORDER: &str = "$setElementOrder/";

type Fields = Map<String, Value>;

/// Applies a strategic merge patch to an object of a built-in kind.
pub fn strategic(kind: &str, current: &Value, patch: &Value) -> Result<Value, PatchError> {
    let definition = openapi::definition_of_kind(kind).ok_or(PatchError::NotStrategic)?;
    let (Some(current), Some(patch)) = (current.as_object(), patch.as_object()) else {
        return Err(PatchError::Malformed(
            "json: a strategic merge patch must be an object".to_owned(),
        ));
    };
    merge_fields(Shape::named(definition), current.clone(), patch.clone()).map(Value::Object)
}

fn refuse<T>(words: impl Into<String>) -> Result<T, PatchError> {
    Err(PatchError::Unprocessable(words.into()))
}

/// What is known of the type at one place; nothing inside of maps of plain values and raw JSON.
#[derive(Clone, Copy)]
struct Shape {
    type_name: &'static str,
    schema: Option<&'static Value>,
}

impl Shape {
    fn named(definition: &'static str) -> Self {
        let type_name = definition.rsplit('.').next().unwrap_or(definition);
        Self {
            type_name,
            schema: openapi::bare_definition(definition),
        }
    }

    fn of(schema: Option<&'static Value>) -> Self {
        let reference = schema.and_then(|schema| {
            schema
                .get("$ref")
                .or_else(|| schema.get("allOf")?.get(0)?.get("$ref"))
                .and_then(Value::as_str)
        });
        match reference.and_then(|path| path.strip_prefix(openapi::DEFINITIONS)) {
            Some(definition) => Self::named(definition),
            None => Self { type_name: "", schema },
        }
    }

    fn field_schema(self, name: &str) -> Option<&'static Value> {
        let schema = self.schema?;
        schema
            .get("properties")
            .and_then(|all| all.get(name))
            .or_else(|| schema.get("additionalProperties"))
    }

    fn field(self, name: &str) -> Self {
        Self::of(self.field_schema(name))
    }

    fn items_of_field(self, name: &str) -> Self {
        Self::of(self.field_schema(name).and_then(|schema| schema.get("items")))
    }

    fn rule(self, name: &str) -> Option<merge_keys::Rule> {
        merge_keys::rule(self.type_name, name)
    }
}

fn merge_fields(shape: Shape, mut current: Fields, mut patch: Fields) -> Result<Fields, PatchError> {
    match patch.remove(DIRECTIVE) {
        None => {}
        Some(Value::String(word)) if word == "replace" => return Ok(clean(patch)),
        Some(Value::String(word)) if word == "delete" => return Ok(Fields::new()),
        Some(Value::String(word)) if word == "merge" => {}
        Some(other) => return refuse(format!("Unknown patch type: {other} in map")),
    }
    retain_keys(&mut current, &mut patch)?;
    merge_ordered_lists(shape, &mut current, &mut patch)?;
    for (name, value) in patch {
        if let Some(list) = name.strip_prefix(DELETE_PRIMITIVES) {
            delete_primitives(&mut current, list, &value)?;
            continue;
        }
        let Some(existing) = current.get_mut(&name) else {
            if !value.is_null() {
                current.insert(name, clean_value(value));
            }
            continue;
        };
        match (existing, value) {
            (_, Value::Null) => {
                current.remove(&name);
            }
            (Value::Object(existing), Value::Object(value)) => {
                let merged = if shape.rule(&name).is_some_and(|rule| rule.replaces()) {
                    clean(value)
                } else {
                    merge_fields(shape.field(&name), std::mem::take(existing), value)?
                };
                *existing = merged;
            }
            (Value::Array(existing), Value::Array(value)) => {
                let items = std::mem::take(existing);
                *existing = merge_list(shape, &name, items, value)?;
            }
            (existing, value) => *existing = clean_value(value),
        }
    }
    Ok(current)
}

/// `$retainKeys` lists the only keys that stay (one-of structures such as volume sources).
fn retain_keys(current: &mut Fields, patch: &mut Fields) -> Result<(), PatchError> {
    let Some(keys) = patch.remove(RETAIN_KEYS) else {
        return Ok(());
    };
    let Value::Array(keys) = keys else {
        return refuse("$retainKeys must be a list");
    };
    let kept: Vec<&str> = keys.iter().filter_map(Value::as_str).collect();
    if let Some(stray) = patch
        .keys()
        .find(|key| !key.starts_with('$') && !kept.contains(&key.as_str()))
    {
        return refuse(format!(
            "$retainKeys does not contain all fields of the patch: {stray} is missing"
        ));
    }
    current.retain(|key, _| kept.contains(&key.as_str()));
    Ok(())
}

fn delete_primitives(current: &mut Fields, list: &str, gone: &Value) -> Result<(), PatchError> {
    let Some(gone) = gone.as_array() else {
        return refuse(format!("{DELETE_PRIMITIVES}{list} must be a list"));
    };
    if let Some(Value::Array(items)) = current.get_mut(list) {
        items.retain(|item| !gone.contains(item));
    }
    Ok(())
}

/// Lists that come with `$setElementOrder/NAME`: merge, then put into that order.
fn merge_ordered_lists(shape: Shape, current: &mut Fields, patch: &mut Fields) -> Result<(), PatchError> {
    let names: Vec<String> = patch
        .keys()
        .filter_map(|key| key.strip_prefix(SET_ORDER))
        .map(str::to_owned)
        .collect();
    for name in names {
        let Some(Value::Array(order)) = patch.remove(&format!("{SET_ORDER}{name}")) else {
            return refuse(format!("{SET_ORDER}{name} must be a list"));
        };
        if let Some(gone) = patch.remove(&format!("{DELETE_PRIMITIVES}{name}")) {
            delete_primitives(current, &name, &gone)?;
        }
        let key = shape.rule(&name).and_then(|rule| rule.key);
        let existing = match current.get(&name) {
            Some(Value::Array(items)) => items.clone(),
            _ => Vec::new(),
        };
        let wanted = match patch.remove(&name) {
            None => None,
            Some(Value::Array(items)) => Some(items),
            Some(Value::Null) => {
                current.remove(&name);
                continue;
            }
            Some(_) => return refuse(format!("{name} must be a list")),
        };
        let replaced = wanted.as_deref().is_some_and(replaces_list);
        if let Some(wanted) = &wanted {
            check_order(&name, wanted, &order, key)?;
        }
        let merged = match wanted {
            Some(wanted) => merge_list(shape, &name, existing.clone(), wanted)?,
            None => existing.clone(),
        };
        if merged.is_empty() && !current.contains_key(&name) {
            continue;
        }
        let ordered = if replaced {
            merged
        } else {
            reorder(merged, &order, &existing, key)
        };
        current.insert(name, Value::Array(ordered));
    }
    Ok(())
}

fn replaces_list(items: &[Value]) -> bool {
    items
        .iter()
        .any(|item| item.get(DIRECTIVE).and_then(Value::as_str) == Some("replace"))
}

/// The patch's own items must come in the order that the directive says.
fn check_order(name: &str, wanted: &[Value], order: &[Value], key: Option<&str>) -> Result<(), PatchError> {
    let mut next = 0;
    for item in wanted.iter().filter(|item| item.get(DIRECTIVE).is_none()) {
        let Some(ahead) = order.iter().skip(next).position(|entry| same(entry, item, key)) else {
            let (list, order) = (Value::from(wanted.to_vec()), Value::from(order.to_vec()));
            return refuse(format!(
                "The order in patch list:\n{list}\n doesn't match {SET_ORDER}{name} list:\n{order}\n"
            ));
        };
        next += ahead + 1;
    }
    Ok(())
}

/// Whether two items are the same one: by their key, or as plain values.
fn same(left: &Value, right: &Value, key: Option<&str>) -> bool {
    match key {
        None => left == right,
        Some(key) => matches!((left.get(key), right.get(key)), (Some(left), Some(right)) if left == right),
    }
}

fn position(list: &[Value], item: &Value, key: Option<&str>) -> Option<usize> {
    list.iter().position(|entry| same(entry, item, key))
}

fn merge_list(shape: Shape, name: &str, current: Vec<Value>, patch: Vec<Value>) -> Result<Vec<Value>, PatchError> {
    let Some(rule) = shape.rule(name).filter(merge_keys::Rule::merges) else {
        return Ok(clean_list(patch));
    };
    let Some(key) = rule.key else {
        let mut merged = current.clone();
        for item in &patch {
            if !merged.contains(item) {
                merged.push(item.clone());
            }
        }
        return Ok(reorder(merged, &patch, &current, None));
    };
    let item_shape = shape.items_of_field(name);
    let replace = replaces_list(&patch);
    let mut merged = if replace { Vec::new() } else { current.clone() };
    let mut order = Vec::new();
    for item in patch {
        let Value::Object(fields) = item else {
            return refuse(format!("{name}: items must be objects that have the merge key {key}"));
        };
        match fields.get(DIRECTIVE).and_then(Value::as_str) {
            Some("replace") => continue,
            Some("delete") => {
                let gone = Value::Object(fields);
                if gone.get(key).is_none() {
                    return refuse(format!("map: {gone} does not contain declared merge key: {key}"));
                }
                merged.retain(|entry| !same(entry, &gone, Some(key)));
                continue;
            }
            _ => {}
        }
        let item = Value::Object(fields);
        if item.get(key).is_none() {
            return refuse(format!("map: {item} does not contain declared merge key: {key}"));
        }
        order.push(item.clone());
        match position(&merged, &item, Some(key)).and_then(|at| merged.get_mut(at)) {
            Some(existing) => *existing = merge_item(item_shape, existing, item)?,
            None => merged.push(clean_value(item)),
        }
    }
    Ok(if replace {
        merged
    } else {
        reorder(merged, &order, &current, Some(key))
    })
}

fn merge_item(shape: Shape, existing: &Value, patch: Value) -> Result<Value, PatchError> {
    match (existing, patch) {
        (Value::Object(existing), Value::Object(patch)) => {
            merge_fields(shape, existing.clone(), patch).map(Value::Object)
        }
        (_, patch) => Ok(clean_value(patch)),
    }
}

/// Puts items that `order` names into that order, and weaves the others in where they stood among their neighbours.
fn reorder(merged: Vec<Value>, order: &[Value], before: &[Value], key: Option<&str>) -> Vec<Value> {
    let (mut named, mut others): (Vec<Value>, Vec<Value>) = merged
        .into_iter()
        .partition(|item| position(order, item, key).is_some());
    named.sort_by_key(|item| position(order, item, key));
    others.sort_by_key(|item| position(before, item, key).unwrap_or(usize::MAX));
    let mut woven = Vec::with_capacity(named.len() + others.len());
    let (mut named, mut others) = (named.into_iter().peekable(), others.into_iter().peekable());
    loop {
        let other_first = match (others.peek(), named.peek()) {
            (None, None) => return woven,
            (Some(_), None) => true,
            (None, Some(_)) => false,
            (Some(other), Some(item)) => {
                matches!((position(before, other, key), position(before, item, key)), (Some(left), Some(right)) if left < right)
            }
        };
        woven.extend(if other_first { others.next() } else { named.next() });
    }
}

/// What a patch adds as new must not carry nulls or directives into the object.
fn clean_value(value: Value) -> Value {
    match value {
        Value::Object(fields) => Value::Object(clean(fields)),
        Value::Array(items) => Value::Array(clean_list(items)),
        plain => plain,
    }
}

fn clean(fields: Fields) -> Fields {
    let directive = |name: &str| {
        name == DIRECTIVE || name == RETAIN_KEYS || name.starts_with(SET_ORDER) || name.starts_with(DELETE_PRIMITIVES)
    };
    let kept = fields
        .into_iter()
        .filter(|(name, value)| !value.is_null() && !directive(name));
    kept.map(|(name, value)| (name, clean_value(value))).collect()
}

fn clean_list(items: Vec<Value>) -> Vec<Value> {
    let gone = |item: &Value| {
        let only_directive = item.as_object().is_some_and(|fields| fields.len() == 1);
        match item.get(DIRECTIVE).and_then(Value::as_str) {
            Some("delete") => true,
            Some(_) => only_directive,
            None => false,
        }
    };
    items.into_iter().filter(|item| !gone(item)).map(clean_value).collect()
}
