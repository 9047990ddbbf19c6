//! Objects as rows of a `meta.k8s.io/v1` Table, as `kubectl get` prints them.

mod cells;
mod jsonpath;
mod nodes;
mod pods;
mod printers;
mod storage;

pub use cells::age;
pub use jsonpath::{JsonPath, JsonPathError};

use jiff::Timestamp;
use serde_json::{Map, Value, json};

/// A column's head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Title, e.g. `Status`.
    pub name: String,
    /// `string`, `integer`, `number`, `boolean` or `date`.
    pub kind: String,
    /// Hint for clients: `name` marks the name.
    pub format: String,
    /// What the column shows.
    pub description: String,
    /// Above 0 only shown by `-o wide`.
    pub priority: i64,
}

/// How much of the object a row carries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Include {
    /// Its metadata, as PartialObjectMetadata.
    #[default]
    Metadata,
    /// All of it.
    Object,
    /// Nothing.
    None,
}

impl Include {
    /// Reads the `includeObject` query parameter.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "" | "Metadata" => Some(Self::Metadata),
            "Object" => Some(Self::Object),
            "None" => Some(Self::None),
            _ => None,
        }
    }
}

type Row = fn(&Value, Timestamp) -> Vec<Value>;

#[derive(Clone, Debug)]
enum Cells {
    Builtin(Row),
    Custom(Vec<(JsonPath, String)>),
}

/// How the objects of one kind become rows.
#[derive(Clone, Debug)]
pub struct Printer {
    columns: Vec<Column>,
    cells: Cells,
}

impl Printer {
    /// The printer of a built-in kind; name and age for kinds without one of their own.
    pub fn builtin(api_version: &str, kind: &str) -> Self {
        let (heads, row) = printers::of(api_version, kind);
        let columns = heads.iter().map(|head| column(head)).collect();
        Self {
            columns,
            cells: Cells::Builtin(row),
        }
    }

    /// The printer of a custom resource, from the `additionalPrinterColumns` of its version (null or absent: age only).
    pub fn custom(columns: &Value) -> Result<Self, JsonPathError> {
        let given = columns.as_array().map(Vec::as_slice).unwrap_or_default();
        let age = [json!({ "name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp" })];
        let given = if given.is_empty() { &age } else { given };
        let mut heads = vec![column("Name!")];
        let mut paths = Vec::new();
        for entry in given {
            let text = |field: &str| entry.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
            paths.push((JsonPath::parse(&text("jsonPath"))?, text("type")));
            heads.push(Column {
                name: text("name"),
                kind: text("type"),
                format: text("format"),
                description: text("description"),
                priority: entry.get("priority").and_then(Value::as_i64).unwrap_or_default(),
            });
        }
        Ok(Self {
            columns: heads,
            cells: Cells::Custom(paths),
        })
    }

    /// The heads, in order.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// The cells of one object.
    pub fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        match &self.cells {
            Cells::Builtin(row) => row(object, now),
            Cells::Custom(paths) => {
                let name = crate::json::string_at(object, "/metadata/name");
                let rest = paths
                    .iter()
                    .map(|(path, kind)| cells::custom(&path.find(object), kind, now));
                std::iter::once(Value::from(name)).chain(rest).collect()
            }
        }
    }

    /// One row.
    pub fn row(&self, object: &Value, now: Timestamp, include: Include) -> Value {
        let mut row = json!({ "cells": self.cells(object, now) });
        let conditions = match &self.cells {
            Cells::Builtin(_) if object.get("kind").and_then(Value::as_str) == Some("Pod") => pods::conditions(object),
            _ => None,
        };
        if let Some(conditions) = conditions {
            row["conditions"] = conditions;
        }
        match include {
            Include::None => {}
            Include::Object => row["object"] = object.clone(),
            Include::Metadata => {
                let metadata = object.get("metadata").cloned().unwrap_or_else(|| json!({}));
                row["object"] =
                    json!({ "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata });
            }
        }
        row
    }

    fn definitions(&self) -> Vec<Value> {
        let head = |column: &Column| {
            json!({
                "name": column.name,
                "type": column.kind,
                "format": column.format,
                "description": column.description,
                "priority": column.priority,
            })
        };
        self.columns.iter().map(head).collect()
    }
}

/// A Table of objects. `list_metadata` is the metadata of the list (or `{resourceVersion}` of the single object).
/// Heads are left out where `heads` is false: in a watch only the first event carries them.
pub fn render<'a>(
    printer: &Printer,
    list_metadata: Map<String, Value>,
    objects: impl IntoIterator<Item = &'a Value>,
    now: Timestamp,
    include: Include,
    heads: bool,
) -> Value {
    let rows: Vec<Value> = objects
        .into_iter()
        .map(|object| printer.row(object, now, include))
        .collect();
    let definitions = if heads {
        Value::from(printer.definitions())
    } else {
        Value::Null
    };
    json!({
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": list_metadata,
        "columnDefinitions": definitions,
        "rows": rows,
    })
}

/// Reads a short head: `Title`, then `!` for the name, `#` for an integer, `+` for "only when wide".
fn column(head: &str) -> Column {
    let name = head.trim_end_matches(['!', '#', '+']);
    let marks = &head[name.len()..];
    Column {
        name: name.to_owned(),
        kind: if marks.contains('#') { "integer" } else { "string" }.to_owned(),
        format: if marks.contains('!') { "name" } else { "" }.to_owned(),
        description: String::new(),
        priority: i64::from(marks.contains('+')),
    }
}
