//! What Go's JSON decoder would say of an object of a built-in kind.

use super::{Additional, Id, Node, Schema, Type, values};
use basalt_api::quantity::Quantity;
use serde_json::Value;

impl Schema {
    /// The first value that does not fit the Go type of its field, in the decoder's words; none if all fit.
    /// Kubernetes answers such an object of a built-in kind with 400 rather than 422.
    pub fn decode_error(&self, object: &Value) -> Option<String> {
        self.misfit(self.root, object, &mut Vec::new(), "")
    }

    fn misfit<'a>(&'a self, id: Id, value: &'a Value, path: &mut Vec<&'a str>, owner: &str) -> Option<String> {
        let node = self.node(id);
        if value.is_null() || !node.go_type {
            return None;
        }
        if let Some(words) = special(node, value) {
            return Some(words);
        }
        if !fits(node, value) {
            let found = match value {
                Value::Bool(_) => "bool".to_owned(),
                Value::Number(number) if !number.is_f64() => "number".to_owned(),
                Value::Number(number) => format!("number {number}"),
                Value::String(_) => "string".to_owned(),
                Value::Array(_) => "array".to_owned(),
                Value::Object(_) | Value::Null => "object".to_owned(),
            };
            let wanted = self.go_type(node);
            let place = if path.is_empty() {
                "Go value".to_owned()
            } else {
                format!("Go struct field {owner}.{}", path.join("."))
            };
            return Some(format!("json: cannot unmarshal {found} into {place} of type {wanted}"));
        }
        let own = node.go_name.as_deref().and_then(|name| name.rsplit('.').next());
        let owner = own.unwrap_or(owner);
        match value {
            Value::Object(fields) => fields.iter().find_map(|(name, value)| {
                let (schema, named) = match (node.properties.get(name), node.additional) {
                    (Some(&property), _) => (property, true),
                    // Keys of maps are not part of Go's path.
                    (None, Additional::Schema(additional)) => (additional, false),
                    (None, _) => return None,
                };
                if named {
                    path.push(name);
                }
                let found = self.misfit(schema, value, path, owner);
                if named {
                    path.pop();
                }
                found
            }),
            Value::Array(items) => {
                let schema = node.items?;
                items.iter().find_map(|item| self.misfit(schema, item, path, owner))
            }
            _ => None,
        }
    }

    fn go_type(&self, node: &Node) -> String {
        if let Some(name) = &node.go_name {
            return name.to_string();
        }
        match (node.kind, node.format.as_deref()) {
            (Some(Type::Array), _) => format!(
                "[]{}",
                node.items.map_or_else(String::new, |id| self.go_type(self.node(id)))
            ),
            (Some(Type::Object), _) => match node.additional {
                Additional::Schema(id) => format!("map[string]{}", self.go_type(self.node(id))),
                _ => "map[string]interface {}".to_owned(),
            },
            (Some(Type::Boolean), _) => "bool".to_owned(),
            (Some(Type::Integer), Some("int32")) => "int32".to_owned(),
            (Some(Type::Integer), _) => "int64".to_owned(),
            (Some(Type::Number), _) => "float64".to_owned(),
            (Some(Type::String) | None, _) => "string".to_owned(),
        }
    }
}

fn fits(node: &Node, value: &Value) -> bool {
    if node.int_or_string {
        return value.is_string() || value.is_number();
    }
    match node.kind {
        None => true,
        Some(Type::Object) => value.is_object(),
        Some(Type::Array) => value.is_array(),
        Some(Type::String) => value.is_string(),
        Some(Type::Boolean) => value.is_boolean(),
        Some(Type::Number) => value.is_number(),
        Some(Type::Integer) => match (node.format.as_deref(), value.as_i64()) {
            (Some("int32"), Some(number)) => i32::try_from(number).is_ok(),
            (_, number) => number.is_some(),
        },
    }
}

/// Types that read themselves: quantities, times, bytes.
fn special(node: &Node, value: &Value) -> Option<String> {
    if node.quantity {
        let text = match value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let words = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
        return Quantity::parse(&text).is_err().then(|| words.to_owned());
    }
    let text = value.as_str()?;
    match node.format.as_deref()? {
        "date-time" if !values::has_format(text, "date-time") => Some(format!(
            "parsing time {text:?} as \"2006-01-02T15:04:05Z07:00\": cannot parse {text:?} as \"2006\""
        )),
        "byte" if !values::has_format(text, "byte") => {
            let legal = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
            let at = text.bytes().take_while(legal).count();
            Some(format!("illegal base64 data at input byte {at}"))
        }
        _ => None,
    }
}
