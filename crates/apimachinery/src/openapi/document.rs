//! One OpenAPI v3 document per group-version.

use super::{DEFINITIONS, bare_definition, builtin, reach, select};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

/// One resource of a document.
#[derive(Clone, Debug)]
pub struct ResourceDoc {
    /// The kind, e.g. `Queue`.
    pub kind: String,
    /// The name in paths, e.g. `queues`.
    pub plural: String,
    /// Whether objects live in namespaces.
    pub namespaced: bool,
    /// The `openAPIV3Schema` of a custom resource; none for built-in kinds.
    pub schema: Option<Value>,
    /// Verbs as in discovery: `get`, `list`, `create`, `update`, `patch`, `delete`, `deletecollection`, `watch`.
    pub verbs: Vec<String>,
    /// Subresources that can be read and patched, e.g. `status`.
    pub subresources: Vec<String>,
}

const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
const LIST_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta";
const DELETE_OPTIONS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions";
const STATUS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Status";

/// The document of a group-version (`v1`, `scheduling.volcano.sh/v1beta1`).
pub fn document(group_version: &str, resources: &[ResourceDoc]) -> Value {
    let (group, version) = group_version.rsplit_once('/').unwrap_or(("", group_version));
    let base = if group.is_empty() {
        format!("/api/{version}")
    } else {
        format!("/apis/{group}/{version}")
    };
    let mut paths = Map::new();
    let mut schemas = Map::new();
    let mut names: BTreeSet<String> = [DELETE_OPTIONS, STATUS].map(str::to_owned).into();
    for resource in resources {
        let gvk = json!({ "group": group, "version": version, "kind": resource.kind });
        let name = definition_name(group_version, group, version, resource);
        if let Some(schema) = &resource.schema {
            schemas.insert(name.clone(), custom_schema(schema, &gvk));
        } else {
            names.insert(name.clone());
        }
        schemas.insert(format!("{name}List"), list_schema(&name, &resource.kind, &gvk));
        let list = format!("{name}List");
        add_paths(
            &mut paths,
            &base,
            &Place {
                resource,
                name: &name,
                list,
                gvk: &gvk,
            },
        );
    }
    for name in names.clone() {
        if let Some(found) = bare_definition(&name) {
            reach(found, &mut names);
        }
    }
    for schema in schemas.values() {
        reach(schema, &mut names);
    }
    schemas.append(&mut select(&names));
    json!({
        "openapi": "3.0.0",
        "info": { "title": "Kubernetes", "version": "v1.37.0" },
        "paths": paths,
        "components": { "schemas": schemas },
    })
}

fn definition_name(group_version: &str, group: &str, version: &str, resource: &ResourceDoc) -> String {
    match builtin(group_version, &resource.kind) {
        Some(builtin) if resource.schema.is_none() => builtin.definition.clone(),
        _ => {
            let reversed: Vec<&str> = group.split('.').rev().collect();
            format!("{}.{version}.{}", reversed.join("."), resource.kind)
        }
    }
}

fn reference(name: &str) -> Value {
    json!({ "$ref": format!("{DEFINITIONS}{name}") })
}

fn custom_schema(schema: &Value, gvk: &Value) -> Value {
    let mut schema = schema.clone();
    let Some(fields) = schema.as_object_mut() else {
        return schema;
    };
    fields.entry("type").or_insert_with(|| json!("object"));
    fields.insert("x-kubernetes-group-version-kind".to_owned(), json!([gvk]));
    let properties = fields.entry("properties").or_insert_with(|| json!({}));
    if let Some(properties) = properties.as_object_mut() {
        let about = [
            ("apiVersion", "Version of the schema of this object."),
            ("kind", "Kind of this object."),
        ];
        for (name, words) in about {
            properties.insert(name.to_owned(), json!({ "type": "string", "description": words }));
        }
        let words = "Standard object's metadata.";
        properties.insert(
            "metadata".to_owned(),
            json!({ "description": words, "allOf": [reference(OBJECT_META)] }),
        );
    }
    schema
}

fn list_schema(item: &str, kind: &str, gvk: &Value) -> Value {
    let mut gvk = gvk.clone();
    gvk["kind"] = json!(format!("{kind}List"));
    json!({
        "description": format!("{kind}List is a list of {kind}"),
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": { "type": "string" },
            "kind": { "type": "string" },
            "metadata": { "allOf": [reference(LIST_META)] },
            "items": { "type": "array", "items": reference(item) },
        },
        "x-kubernetes-group-version-kind": [gvk],
    })
}

fn query(name: &str, words: &str) -> Value {
    json!({ "name": name, "in": "query", "description": words, "schema": { "type": "string", "uniqueItems": true } })
}

fn write_parameters() -> Vec<Value> {
    vec![
        query("dryRun", "With the value All nothing is persisted."),
        query("fieldManager", "Name of the actor that makes the change."),
        query(
            "fieldValidation",
            "What to do about unknown and duplicate fields: Ignore, Warn or Strict.",
        ),
        query(
            "force",
            "With server-side apply: take over fields that other managers own.",
        ),
    ]
}

fn path_parameters(named: bool, namespaced: bool) -> Vec<Value> {
    let parameter =
        |name: &str| json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string" } });
    let mut found = Vec::new();
    if named {
        found.push(parameter("name"));
    }
    if namespaced {
        found.push(parameter("namespace"));
    }
    found
}

/// A resource and how its schemas are called in the document.
struct Place<'a> {
    resource: &'a ResourceDoc,
    name: &'a str,
    list: String,
    gvk: &'a Value,
}

impl Place<'_> {
    /// The HTTP method of a verb, and the operation behind it.
    fn operation(&self, verb: &str) -> (&'static str, Value) {
        let write = write_parameters;
        let body = |name: &str| json_body(&reference(name));
        let (method, action, request, answer, parameters) = match verb {
            "list" => ("get", "list", None, self.list.as_str(), Vec::new()),
            "create" => ("post", "post", Some(body(self.name)), self.name, write()),
            "deletecollection" => ("delete", "deletecollection", None, STATUS, Vec::new()),
            "update" => ("put", "put", Some(body(self.name)), self.name, write()),
            "patch" => ("patch", "patch", Some(patch_body(self.resource)), self.name, write()),
            "delete" => ("delete", "delete", Some(body(DELETE_OPTIONS)), STATUS, Vec::new()),
            _ => ("get", "get", None, self.name, Vec::new()),
        };
        let ok = json!({ "description": "OK", "content": { "application/json": { "schema": reference(answer) } } });
        let mut value = json!({
            "description": format!("{verb} {}", self.resource.kind),
            "operationId": format!("{verb}{}", self.resource.kind),
            "parameters": parameters,
            "responses": { "200": ok },
            "x-kubernetes-action": action,
            "x-kubernetes-group-version-kind": self.gvk,
        });
        if let Some(request) = request {
            value["requestBody"] = request;
        }
        (method, value)
    }

    /// What can be done at one path; `parameters` are those of the path itself.
    fn path(&self, verbs: &[&str], parameters: Vec<Value>) -> Value {
        let mut item = Map::new();
        for verb in verbs {
            let (method, operation) = self.operation(verb);
            item.insert(method.to_owned(), operation);
        }
        if !parameters.is_empty() {
            item.insert("parameters".to_owned(), Value::from(parameters));
        }
        Value::Object(item)
    }
}

fn json_body(schema: &Value) -> Value {
    json!({ "required": true, "content": { "application/json": { "schema": schema } } })
}

/// Strategic merge is for built-in kinds: kubectl reads from here which patch it may send.
fn patch_body(resource: &ResourceDoc) -> Value {
    let mut types = vec![
        "application/apply-patch+yaml",
        "application/json-patch+json",
        "application/merge-patch+json",
    ];
    if resource.schema.is_none() {
        types.push("application/strategic-merge-patch+json");
    }
    let content: Map<String, Value> = types
        .into_iter()
        .map(|name| (name.to_owned(), json!({ "schema": { "type": "object" } })))
        .collect();
    json!({ "required": true, "content": content })
}

fn add_paths(paths: &mut Map<String, Value>, base: &str, place: &Place<'_>) {
    let resource = place.resource;
    let served = |verbs: &[&'static str]| -> Vec<&'static str> {
        let has = |verb: &&&str| resource.verbs.iter().any(|have| have == **verb);
        verbs.iter().filter(has).copied().collect()
    };
    let (plural, namespaced) = (&resource.plural, resource.namespaced);
    let everywhere = format!("{base}/{plural}");
    let collection = if namespaced {
        format!("{base}/namespaces/{{namespace}}/{plural}")
    } else {
        everywhere.clone()
    };
    if namespaced {
        paths.insert(everywhere, place.path(&served(&["list"]), Vec::new()));
    }
    let many = place.path(
        &served(&["list", "create", "deletecollection"]),
        path_parameters(false, namespaced),
    );
    let one = place.path(
        &served(&["get", "update", "patch", "delete"]),
        path_parameters(true, namespaced),
    );
    for subresource in &resource.subresources {
        let item = place.path(&["get", "update", "patch"], path_parameters(true, namespaced));
        paths.insert(format!("{collection}/{{name}}/{subresource}"), item);
    }
    paths.insert(format!("{collection}/{{name}}"), one);
    paths.insert(collection, many);
}
