//! Filling in the defaults of a schema.

use super::{Additional, Id, Schema};
use basalt_api::quantity::Quantity;
use serde_json::Value;

impl Schema {
    /// Sets every absent field that has a default, also inside of defaults, and writes quantities of Kubernetes' own types
    /// in canonical form.
    pub fn default(&self, object: &mut Value) {
        self.default_node(self.root, object);
    }

    fn default_node(&self, id: Id, value: &mut Value) {
        let node = self.node(id);
        if node.quantity {
            canonical(value);
        }
        match value {
            Value::Object(fields) => {
                for (name, &property) in &node.properties {
                    let schema = self.node(property);
                    if let Some(default) = &schema.default {
                        // A null that the schema does not allow counts as absent where there is a default.
                        let absent = fields.get(name).is_none_or(|found| found.is_null() && !schema.nullable);
                        if absent {
                            fields.insert(name.clone(), default.clone());
                        }
                    }
                    if let Some(found) = fields.get_mut(name) {
                        self.default_node(property, found);
                    }
                }
                if let Additional::Schema(additional) = node.additional {
                    let schema = self.node(additional);
                    for (_, found) in fields
                        .iter_mut()
                        .filter(|(name, _)| !node.properties.contains_key(*name))
                    {
                        if let (true, false, Some(default)) = (found.is_null(), schema.nullable, &schema.default) {
                            *found = default.clone();
                        }
                        self.default_node(additional, found);
                    }
                }
            }
            Value::Array(items) => {
                if let Some(item_schema) = node.items {
                    for item in items {
                        self.default_node(item_schema, item);
                    }
                }
            }
            _ => {}
        }
    }
}

/// `0.5` and `500m` are the same quantity, and stored the same.
fn canonical(value: &mut Value) {
    let parsed = match &*value {
        Value::String(text) => Quantity::parse(text),
        Value::Number(number) => Quantity::parse(&number.to_string()),
        _ => return,
    };
    if let Ok(quantity) = parsed {
        *value = Value::String(quantity.to_string());
    }
}
