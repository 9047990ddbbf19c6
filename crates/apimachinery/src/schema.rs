//! Structural schemas: compiled once from OpenAPI v3 JSON, then used to default, prune and validate objects.
//!
//! The compiled form is an arena: `$ref`s become indices, so recursive types cost nothing.

mod compile;
mod decode;
mod defaults;
mod path;
mod prune;
mod strict_json;
mod structural;
mod validate;
mod values;

pub use strict_json::{DEPTH_MAX, JsonError, deeper_than, strict_json};
pub use structural::structural_errors;
pub use values::make_whole;

use regex::Regex;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Why a schema cannot be compiled.
#[derive(Debug, thiserror::Error)]
pub enum SchemaError {
    /// The schema, or a part of it, is not an object.
    #[error("{path}: a schema must be an object")]
    NotAnObject {
        /// Where in the schema.
        path: String,
    },
    /// A reference leads nowhere.
    #[error("{path}: unresolved reference {reference:?}")]
    Reference {
        /// Where in the schema.
        path: String,
        /// The reference.
        reference: String,
    },
    /// A pattern is no regular expression.
    #[error("{path}: bad pattern: {source}")]
    Pattern {
        /// Where in the schema.
        path: String,
        /// What the regular expression compiler says.
        source: Box<regex::Error>,
    },
    /// The schema nests deeper than any real one.
    #[error("{path}: the schema is nested too deeply")]
    TooDeep {
        /// Where in the schema.
        path: String,
    },
}

type Id = usize;

/// Where a schema comes from: the rules differ a little.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    /// A CustomResourceDefinition: structural, `null` only where `nullable`.
    Custom,
    /// A Go type of Kubernetes: `null` means absent, objects without properties hold anything.
    Builtin,
}

/// A compiled schema of one kind.
#[derive(Debug)]
pub struct Schema {
    nodes: Vec<Node>,
    root: Id,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Type {
    Object,
    Array,
    String,
    Integer,
    Number,
    Boolean,
}

impl Type {
    fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "object" => Self::Object,
            "array" => Self::Array,
            "string" => Self::String,
            "integer" => Self::Integer,
            "number" => Self::Number,
            "boolean" => Self::Boolean,
            _ => return None,
        })
    }

    fn name(self) -> &'static str {
        match self {
            Self::Object => "object",
            Self::Array => "array",
            Self::String => "string",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Boolean => "boolean",
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Additional {
    /// Other properties are unknown.
    #[default]
    Unspecified,
    /// Other properties may hold anything.
    Anything,
    /// Other properties follow a schema.
    Schema(Id),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum ListType {
    #[default]
    Atomic,
    Set,
    Map,
}

#[derive(Debug, Default)]
struct Node {
    /// Part of a Go type of Kubernetes rather than of a custom schema.
    go_type: bool,
    /// The name of that Go type, e.g. `v1.Pod`.
    go_name: Option<Box<str>>,
    /// A Kubernetes quantity.
    quantity: bool,
    kind: Option<Type>,
    nullable: bool,
    int_or_string: bool,
    preserve_unknown: bool,
    embedded_resource: bool,
    properties: BTreeMap<String, Id>,
    required: Vec<String>,
    additional: Additional,
    items: Option<Id>,
    allowed: Vec<Value>,
    default: Option<Value>,
    list_type: ListType,
    list_keys: Vec<String>,
    format: Option<String>,
    limits: Limits,
    all_of: Vec<Id>,
    any_of: Vec<Id>,
    one_of: Vec<Id>,
    not: Option<Id>,
}

#[derive(Debug, Default)]
struct Limits {
    minimum: Option<(f64, bool)>,
    maximum: Option<(f64, bool)>,
    multiple_of: Option<f64>,
    min_length: Option<u64>,
    max_length: Option<u64>,
    min_items: Option<u64>,
    max_items: Option<u64>,
    min_properties: Option<u64>,
    max_properties: Option<u64>,
    unique_items: bool,
    pattern: Option<Regex>,
}

impl Schema {
    /// Compiles the `openAPIV3Schema` of a CustomResourceDefinition.
    pub fn compile(schema: &Value) -> Result<Self, SchemaError> {
        compile::compile(schema)
    }

    /// Compiles the schema of a built-in kind: a named one of these definitions.
    pub(super) fn compile_builtin_definition(
        definitions: &Map<String, Value>,
        name: &str,
    ) -> Result<Self, SchemaError> {
        compile::compile_definition(definitions, name)
    }

    fn node(&self, id: Id) -> &Node {
        &self.nodes[id]
    }
}
