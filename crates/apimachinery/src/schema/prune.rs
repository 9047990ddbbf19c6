//! Removing fields that a schema does not know.

use super::{Additional, Id, Schema, path::Path};
use serde_json::Value;

impl Schema {
    /// Removes unknown fields and returns their paths, sorted. Under Strict each is an error: `unknown field "PATH"`.
    pub fn prune(&self, object: &mut Value) -> Vec<String> {
        let mut unknown = Vec::new();
        self.prune_node(self.root, object, &Path::Root, &mut unknown);
        unknown.sort();
        unknown
    }

    fn prune_node(&self, id: Id, value: &mut Value, path: &Path<'_>, unknown: &mut Vec<String>) {
        let node = self.node(id);
        match value {
            Value::Object(fields) => {
                if node.go_type {
                    // Go decodes null as "not given".
                    fields.retain(|name, found| !(found.is_null() && node.properties.contains_key(name)));
                }
                fields.retain(|name, found| {
                    if let Some(&property) = node.properties.get(name) {
                        self.prune_node(property, found, &Path::Field(path, name), unknown);
                        return true;
                    }
                    match node.additional {
                        Additional::Schema(schema) => self.prune_node(schema, found, &Path::Field(path, name), unknown),
                        Additional::Unspecified if !node.preserve_unknown => {
                            unknown.push(path.child(name));
                            return false;
                        }
                        Additional::Anything | Additional::Unspecified => {}
                    }
                    true
                });
            }
            Value::Array(items) => {
                if let Some(schema) = node.items {
                    for (position, item) in items.iter_mut().enumerate() {
                        self.prune_node(schema, item, &Path::Item(path, position), unknown);
                    }
                }
            }
            _ => {}
        }
    }
}
