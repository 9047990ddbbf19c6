//! A typed view of an object that keeps what the type does not know.

use std::borrow::Cow;
use std::ops::{Deref, DerefMut};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

#[cfg(test)]
mod tests;

/// A `T` and the JSON that it was read from. Written back, only what was changed in the `T` is changed in the
/// JSON: unknown fields, spellings such as `1000m`, and fields that `T` would leave out all stay as they were.
#[derive(Clone, Debug)]
pub struct Preserved<T> {
    typed: T,
    /// `typed` as it was read, in `T`'s own words: what is equal to it now was not touched.
    read: Value,
    raw: Value,
}

impl<T: Serialize + DeserializeOwned> Preserved<T> {
    /// Reads a `T` out of `raw`, and keeps both.
    pub fn new(raw: Value) -> Result<Self, serde_json::Error> {
        let typed = T::deserialize(&raw)?;
        let read = serde_json::to_value(&typed)?;
        Ok(Self { typed, read, raw })
    }
}

impl<T: Serialize> Preserved<T> {
    /// The JSON with the changes that were made to the typed view.
    pub fn to_value(&self) -> Result<Value, serde_json::Error> {
        let now = serde_json::to_value(&self.typed)?;
        Ok(carry(Some(&self.raw), &self.read, now))
    }

    /// The changes as a JSON merge patch; `None` if there are none.
    pub fn merge_patch(&self) -> Result<Option<Value>, serde_json::Error> {
        Ok(merge_patch(&self.raw, &self.to_value()?))
    }
}

impl<T> Preserved<T> {
    /// The JSON as it was read.
    pub const fn raw(&self) -> &Value {
        &self.raw
    }

    /// The typed view alone; what it does not know is lost.
    pub fn into_typed(self) -> T {
        self.typed
    }
}

impl<T> Deref for Preserved<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.typed
    }
}

impl<T> DerefMut for Preserved<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.typed
    }
}

impl<T: Serialize> Serialize for Preserved<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.to_value()
            .map_err(serde::ser::Error::custom)?
            .serialize(serializer)
    }
}

impl<'de, T: Serialize + DeserializeOwned> Deserialize<'de> for Preserved<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::new(Value::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

/// The preserving view works with `kube::Api` and watchers like the type inside.
impl<T: kube::Resource> kube::Resource for Preserved<T> {
    type DynamicType = T::DynamicType;
    type Scope = T::Scope;

    fn kind(dynamic: &T::DynamicType) -> Cow<'_, str> {
        T::kind(dynamic)
    }

    fn group(dynamic: &T::DynamicType) -> Cow<'_, str> {
        T::group(dynamic)
    }

    fn version(dynamic: &T::DynamicType) -> Cow<'_, str> {
        T::version(dynamic)
    }

    fn plural(dynamic: &T::DynamicType) -> Cow<'_, str> {
        T::plural(dynamic)
    }

    fn meta(&self) -> &ObjectMeta {
        self.typed.meta()
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        self.typed.meta_mut()
    }
}

/// Carries the step from `read` to `now` over to `raw`.
fn carry(raw: Option<&Value>, read: &Value, now: Value) -> Value {
    let Some(raw) = raw else { return now };
    if *read == now {
        return raw.clone();
    }
    match (raw, read, now) {
        (Value::Object(raw), Value::Object(read), Value::Object(now)) => carry_fields(raw, read, now).into(),
        (Value::Array(raw), Value::Array(read), Value::Array(now)) if raw.len() == read.len() => {
            carry_items(raw, read, now).into()
        }
        (_, _, now) => now,
    }
}

fn carry_fields(raw: &Map<String, Value>, read: &Map<String, Value>, now: Map<String, Value>) -> Map<String, Value> {
    let mut out = raw.clone();
    out.retain(|name, _| now.contains_key(name) || !read.contains_key(name));
    for (name, value) in now {
        match read.get(&name) {
            Some(read) => {
                let value = carry(raw.get(&name), read, value);
                // A default that `T` fills in on reading was not written by anyone.
                if raw.contains_key(&name) || *read != value {
                    out.insert(name, value);
                }
            }
            None => {
                out.insert(name, value);
            }
        }
    }
    out
}

/// Items keep what is unknown about them if they are found again: untouched, under the same name, or, in a list
/// of unchanged length without names, in the same place.
fn carry_items(raw: &[Value], read: &[Value], now: Vec<Value>) -> Vec<Value> {
    let same_length = read.len() == now.len();
    let mut used = vec![false; read.len()];
    let mut origin: Vec<Option<usize>> = Vec::with_capacity(now.len());
    for (place, item) in now.iter().enumerate() {
        let untouched = |index: usize| read.get(index) == Some(item) && !used.get(index).copied().unwrap_or(true);
        let found = if untouched(place) {
            Some(place)
        } else {
            (0..read.len()).find(|index| untouched(*index))
        };
        claim(&mut used, found);
        origin.push(found);
    }
    for (place, item) in now.iter().enumerate() {
        if origin.get(place).is_some_and(Option::is_some) {
            continue;
        }
        let free = |index: usize| !used.get(index).copied().unwrap_or(true);
        let found = match name_of(item) {
            Some(name) => {
                (0..read.len()).find(|index| free(*index) && read.get(*index).and_then(name_of) == Some(name))
            }
            None if same_length && free(place) => Some(place),
            None => None,
        };
        claim(&mut used, found);
        if let Some(slot) = origin.get_mut(place) {
            *slot = found;
        }
    }
    let carried = now.into_iter().zip(origin).map(|(item, origin)| {
        let before = origin.and_then(|index| Some((raw.get(index)?, read.get(index)?)));
        match before {
            Some((raw, read)) => carry(Some(raw), read, item),
            None => item,
        }
    });
    carried.collect()
}

fn claim(used: &mut [bool], index: Option<usize>) {
    if let Some(slot) = index.and_then(|index| used.get_mut(index)) {
        *slot = true;
    }
}

/// What tells an item of a list from the others, in the order in which Kubernetes' lists use them.
fn name_of(item: &Value) -> Option<&str> {
    ["uid", "name", "type", "key", "mountPath"]
        .iter()
        .find_map(|field| item.get(field)?.as_str())
}

/// The JSON merge patch that turns `from` into `to`; `None` if they are equal.
pub fn merge_patch(from: &Value, to: &Value) -> Option<Value> {
    if from == to {
        return None;
    }
    let (Value::Object(from), Value::Object(to)) = (from, to) else {
        return Some(to.clone());
    };
    let mut patch = Map::new();
    for name in from.keys().filter(|name| !to.contains_key(*name)) {
        patch.insert(name.clone(), Value::Null);
    }
    for (name, value) in to {
        let change = match from.get(name) {
            Some(old) => merge_patch(old, value),
            None => Some(value.clone()),
        };
        if let Some(change) = change {
            patch.insert(name.clone(), change);
        }
    }
    Some(patch.into())
}
