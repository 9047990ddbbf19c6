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
        add_paths(&mut paths, &base, resource, &name, &gvk);
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

struct Operation<'a> {
    action: &'a str,
    verb: &'a str,
    body: Option<Value>,
    answer: &'a str,
    parameters: Vec<Value>,
}

fn operation(operation: Operation<'_>, resource: &ResourceDoc, gvk: &Value) -> Value {
    let ok =
        json!({ "description": "OK", "content": { "application/json": { "schema": reference(operation.answer) } } });
    let mut value = json!({
        "description": format!("{} {}", operation.verb, resource.kind),
        "operationId": format!("{}{}", operation.verb, resource.kind),
        "parameters": operation.parameters,
        "responses": { "200": ok },
        "x-kubernetes-action": operation.action,
        "x-kubernetes-group-version-kind": gvk,
    });
    if let Some(body) = operation.body {
        value["requestBody"] = body;
    }
    value
}

fn json_body(name: &str) -> Value {
    json!({ "required": true, "content": { "application/json": { "schema": reference(name) } } })
}

fn patch_body() -> Value {
    let schema = json!({ "schema": { "type": "object" } });
    json!({ "required": true, "content": {
        "application/apply-patch+yaml": schema,
        "application/json-patch+json": schema,
        "application/merge-patch+json": schema,
        "application/strategic-merge-patch+json": schema,
    } })
}

fn add_paths(paths: &mut Map<String, Value>, base: &str, resource: &ResourceDoc, name: &str, gvk: &Value) {
    let has = |verb: &str| resource.verbs.iter().any(|have| have == verb);
    let plural = &resource.plural;
    let collection = if resource.namespaced {
        format!("{base}/namespaces/{{namespace}}/{plural}")
    } else {
        format!("{base}/{plural}")
    };
    let list = format!("{name}List");
    let add = |item: &mut Map<String, Value>, method: &str, wanted: Operation<'_>| {
        item.insert(method.to_owned(), operation(wanted, resource, gvk));
    };
    let with = |action, verb, body, answer, parameters| Operation {
        action,
        verb,
        body,
        answer,
        parameters,
    };

    let mut many = Map::new();
    if has("list") {
        add(&mut many, "get", with("list", "list", None, &list, Vec::new()));
    }
    if has("create") {
        add(
            &mut many,
            "post",
            with("post", "create", Some(json_body(name)), name, write_parameters()),
        );
    }
    if has("deletecollection") {
        add(
            &mut many,
            "delete",
            with("deletecollection", "deletecollection", None, STATUS, Vec::new()),
        );
    }
    many.insert(
        "parameters".to_owned(),
        Value::from(path_parameters(false, resource.namespaced)),
    );
    if resource.namespaced && has("list") {
        let mut all = Map::new();
        add(
            &mut all,
            "get",
            with("list", "listForAllNamespaces", None, &list, Vec::new()),
        );
        paths.insert(format!("{base}/{plural}"), Value::Object(all));
    }

    let mut one = Map::new();
    if has("get") {
        add(&mut one, "get", with("get", "read", None, name, Vec::new()));
    }
    if has("update") {
        add(
            &mut one,
            "put",
            with("put", "replace", Some(json_body(name)), name, write_parameters()),
        );
    }
    if has("patch") {
        let mut parameters = write_parameters();
        parameters.push(query("force", "Take over fields that other managers own."));
        add(
            &mut one,
            "patch",
            with("patch", "patch", Some(patch_body()), name, parameters),
        );
    }
    if has("delete") {
        add(
            &mut one,
            "delete",
            with("delete", "delete", Some(json_body(DELETE_OPTIONS)), STATUS, Vec::new()),
        );
    }
    one.insert(
        "parameters".to_owned(),
        Value::from(path_parameters(true, resource.namespaced)),
    );
    for subresource in &resource.subresources {
        let mut sub = Map::new();
        add(&mut sub, "get", with("get", "read", None, name, Vec::new()));
        add(
            &mut sub,
            "put",
            with("put", "replace", Some(json_body(name)), name, write_parameters()),
        );
        add(
            &mut sub,
            "patch",
            with("patch", "patch", Some(patch_body()), name, write_parameters()),
        );
        sub.insert(
            "parameters".to_owned(),
            Value::from(path_parameters(true, resource.namespaced)),
        );
        paths.insert(format!("{collection}/{{name}}/{subresource}"), Value::Object(sub));
    }
    paths.insert(collection.clone(), Value::Object(many));
    paths.insert(format!("{collection}/{{name}}"), Value::Object(one));
}
