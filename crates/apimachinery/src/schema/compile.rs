//! From OpenAPI v3 JSON to the arena.

use super::{Additional, Id, Limits, ListType, Node, Origin, Schema, SchemaError, Type, path::Path};
use crate::openapi;
use regex::Regex;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Deeper nesting than this is no real schema.
const DEPTH_MAX: usize = 200;

/// Types that hold any JSON although their published schema says "object".
const ANY_JSON: [&str; 4] = [
    ".JSON",
    ".JSONSchemaPropsOrArray",
    ".JSONSchemaPropsOrBool",
    ".JSONSchemaPropsOrStringArray",
];

struct Compiler<'a> {
    definitions: Option<&'a Map<String, Value>>,
    nodes: Vec<Node>,
    by_reference: BTreeMap<&'a str, Id>,
    origin: Origin,
}

pub(super) fn compile(schema: &Value) -> Result<Schema, SchemaError> {
    let definitions = schema.get("$defs").and_then(Value::as_object);
    let mut compiler = Compiler {
        definitions,
        nodes: Vec::new(),
        by_reference: BTreeMap::new(),
        origin: Origin::Custom,
    };
    let root = compiler.node(schema, &Path::Root, 0)?;
    let mut compiled = Schema {
        nodes: compiler.nodes,
        root,
    };
    let meta = graft_object_meta(&mut compiled)?;
    let resources: Vec<Id> = (0..compiled.nodes.len())
        .filter(|&id| id == root || compiled.nodes[id].embedded_resource)
        .collect();
    for id in resources {
        add_resource_fields(&mut compiled, id, meta);
    }
    Ok(compiled)
}

pub(super) fn compile_definition(definitions: &Map<String, Value>, name: &str) -> Result<Schema, SchemaError> {
    let (nodes, by_reference) = (Vec::new(), BTreeMap::new());
    let mut compiler = Compiler {
        definitions: Some(definitions),
        nodes,
        by_reference,
        origin: Origin::Builtin,
    };
    let root = compiler.referenced(name, &Path::Root, 0)?;
    Ok(Schema {
        nodes: compiler.nodes,
        root,
    })
}

/// Every custom resource has Kubernetes' metadata, whatever its own schema says of it.
fn graft_object_meta(schema: &mut Schema) -> Result<Id, SchemaError> {
    let definition = openapi::definition("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta");
    let mut compiler = Compiler {
        definitions: definition.get("$defs").and_then(Value::as_object),
        nodes: std::mem::take(&mut schema.nodes),
        by_reference: BTreeMap::new(),
        origin: Origin::Builtin,
    };
    let meta = compiler.node(&definition, &Path::Field(&Path::Root, "metadata"), 0);
    schema.nodes = compiler.nodes;
    meta
}

fn add_resource_fields(schema: &mut Schema, id: Id, meta: Id) {
    let text = schema.nodes.len();
    schema.nodes.push(Node {
        kind: Some(Type::String),
        ..Node::default()
    });
    let node = &mut schema.nodes[id];
    node.properties.entry("apiVersion".to_owned()).or_insert(text);
    node.properties.entry("kind".to_owned()).or_insert(text);
    node.properties.insert("metadata".to_owned(), meta);
}

impl<'a> Compiler<'a> {
    fn node(&mut self, schema: &'a Value, path: &Path<'_>, depth: usize) -> Result<Id, SchemaError> {
        if depth > DEPTH_MAX {
            return Err(SchemaError::TooDeep { path: path.to_string() });
        }
        let Some(object) = schema.as_object() else {
            return Err(SchemaError::NotAnObject { path: path.to_string() });
        };
        if let Some(reference) = reference(object) {
            return self.referenced(reference, path, depth);
        }
        let id = self.reserve();
        self.fill(id, object, path, depth)?;
        Ok(id)
    }

    fn reserve(&mut self) -> Id {
        self.nodes.push(Node::default());
        self.nodes.len() - 1
    }

    fn referenced(&mut self, reference: &'a str, path: &Path<'_>, depth: usize) -> Result<Id, SchemaError> {
        let name = reference.rsplit('/').next().unwrap_or(reference);
        if let Some(&id) = self.by_reference.get(name) {
            return Ok(id);
        }
        let unresolved = || SchemaError::Reference {
            path: path.to_string(),
            reference: reference.to_owned(),
        };
        let target = self.definitions.and_then(|all| all.get(name)).ok_or_else(unresolved)?;
        let object = target.as_object().ok_or_else(unresolved)?;
        let id = self.reserve();
        self.by_reference.insert(name, id);
        if ANY_JSON.iter().any(|suffix| name.ends_with(suffix)) {
            self.nodes[id].preserve_unknown = true;
            self.nodes[id].go_type = true;
        } else {
            self.fill(id, object, path, depth + 1)?;
            self.nodes[id].quantity = name.ends_with(".api.resource.Quantity");
            self.nodes[id].go_name = go_name(name);
        }
        Ok(id)
    }

    fn fill(
        &mut self,
        id: Id,
        object: &'a Map<String, Value>,
        path: &Path<'_>,
        depth: usize,
    ) -> Result<(), SchemaError> {
        let flag = |name: &str| object.get(name).and_then(Value::as_bool).unwrap_or_default();
        let text = |name: &str| object.get(name).and_then(Value::as_str);
        let mut node = Node {
            go_type: self.origin == Origin::Builtin,
            kind: text("type").and_then(Type::parse),
            nullable: flag("nullable"),
            int_or_string: flag("x-kubernetes-int-or-string"),
            preserve_unknown: flag("x-kubernetes-preserve-unknown-fields"),
            embedded_resource: flag("x-kubernetes-embedded-resource"),
            required: strings(object.get("required")),
            allowed: object
                .get("enum")
                .and_then(Value::as_array)
                .cloned()
                .unwrap_or_default(),
            default: object.get("default").cloned(),
            list_type: match text("x-kubernetes-list-type") {
                Some("set") => ListType::Set,
                Some("map") => ListType::Map,
                _ => ListType::Atomic,
            },
            list_keys: strings(object.get("x-kubernetes-list-map-keys")),
            format: text("format").map(str::to_owned),
            limits: limits(object, path)?,
            ..Node::default()
        };
        for (name, property) in object
            .get("properties")
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
        {
            let property = self.node(property, &Path::Field(path, name), depth + 1)?;
            node.properties.insert(name.clone(), property);
        }
        node.additional = match object.get("additionalProperties") {
            None | Some(Value::Bool(false)) => Additional::Unspecified,
            Some(Value::Bool(true)) => Additional::Anything,
            Some(schema) => Additional::Schema(self.node(schema, &Path::Field(path, "*"), depth + 1)?),
        };
        if let Some(items) = object.get("items") {
            node.items = Some(self.node(items, &Path::Field(path, "items"), depth + 1)?);
        }
        if self.origin == Origin::Builtin {
            // Go types restrict nothing beyond their shape; alternatives in their schemas are for readers.
            let shapeless = node.properties.is_empty() && node.additional == Additional::Unspecified;
            node.preserve_unknown |= node.kind == Some(Type::Object) && shapeless;
            self.nodes[id] = node;
            return Ok(());
        }
        node.all_of = self.several(object, "allOf", path, depth)?;
        node.any_of = self.several(object, "anyOf", path, depth)?;
        node.one_of = self.several(object, "oneOf", path, depth)?;
        if let Some(not) = object.get("not") {
            node.not = Some(self.node(not, path, depth + 1)?);
        }
        self.nodes[id] = node;
        Ok(())
    }

    fn several(
        &mut self,
        object: &'a Map<String, Value>,
        name: &str,
        path: &Path<'_>,
        depth: usize,
    ) -> Result<Vec<Id>, SchemaError> {
        let parts = object.get(name).and_then(Value::as_array).into_iter().flatten();
        parts.map(|part| self.node(part, path, depth + 1)).collect()
    }
}

/// A plain `$ref`, or the `allOf: [{$ref}]` that Kubernetes writes to give a reference a description.
fn reference(object: &Map<String, Value>) -> Option<&str> {
    if let Some(reference) = object.get("$ref") {
        return reference.as_str();
    }
    match object.get("allOf").and_then(Value::as_array).map(Vec::as_slice) {
        Some([only]) if !object.contains_key("type") && !object.contains_key("properties") => {
            only.get("$ref").and_then(Value::as_str)
        }
        _ => None,
    }
}

/// `io.k8s.api.core.v1.Pod` is `v1.Pod` in Go.
fn go_name(definition: &str) -> Option<Box<str>> {
    let dot = definition.rmatch_indices('.').nth(1)?.0;
    definition.get(dot + 1..).map(Into::into)
}

fn strings(list: Option<&Value>) -> Vec<String> {
    let items = list.and_then(Value::as_array).into_iter().flatten();
    items.filter_map(|item| item.as_str().map(str::to_owned)).collect()
}

fn limits(object: &Map<String, Value>, path: &Path<'_>) -> Result<Limits, SchemaError> {
    let count = |name: &str| object.get(name).and_then(Value::as_u64);
    let number = |name: &str| object.get(name).and_then(Value::as_f64);
    let flag = |name: &str| object.get(name).and_then(Value::as_bool).unwrap_or_default();
    let pattern = match object.get("pattern").and_then(Value::as_str) {
        None | Some("") => None,
        Some(text) => Some(Regex::new(text).map_err(|source| SchemaError::Pattern {
            path: path.to_string(),
            source: Box::new(source),
        })?),
    };
    Ok(Limits {
        minimum: number("minimum").map(|limit| (limit, flag("exclusiveMinimum"))),
        maximum: number("maximum").map(|limit| (limit, flag("exclusiveMaximum"))),
        multiple_of: number("multipleOf").filter(|factor| *factor > 0.0),
        min_length: count("minLength"),
        max_length: count("maxLength"),
        min_items: count("minItems"),
        max_items: count("maxItems"),
        min_properties: count("minProperties"),
        max_properties: count("maxProperties"),
        unique_items: flag("uniqueItems"),
        pattern,
    })
}
