//! Schemas of Kubernetes' own types inside ours: written out in full (a CRD may not refer elsewhere), without
//! prose, with quantities as int-or-string and with the five fields of embedded metadata that survive pruning.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{ObjectReference, PersistentVolumeClaimSpec, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector, ObjectMeta, OwnerReference};
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Map, Value, json};

use crate::quantity;

/// Pattern of a DNS-1123 subdomain.
pub(crate) const DNS_SUBDOMAIN: &str = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$";
/// Pattern of a DNS-1123 subdomain, or nothing at all.
pub(crate) const DNS_SUBDOMAIN_OR_EMPTY: &str = r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*)?$";
/// Pattern of a DNS-1123 label, or nothing at all.
pub(crate) const DNS_LABEL_OR_EMPTY: &str = r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?$";

/// For `#[schemars(schema_with = …)]`: stands for a type of k8s-openapi, by name, until [`fill`] writes it out.
/// Written out at once, the derive's transforms would walk every pod template many times over.
pub(crate) fn k8s<T: JsonSchema>(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "object", "title": T::schema_name() })
}

/// The same for a list.
pub(crate) fn k8s_list<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "array", "items": k8s::<T>(generator) })
}

/// For a point in time.
pub(crate) fn time(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "format": "date-time" })
}

/// The Kubernetes types that ours contain, and everything that those refer to.
pub(crate) fn definitions() -> Map<String, Value> {
    let mut generator = SchemaSettings::openapi3().into_generator();
    generator.subschema_for::<PodTemplateSpec>();
    generator.subschema_for::<PersistentVolumeClaimSpec>();
    generator.subschema_for::<ObjectReference>();
    generator.subschema_for::<ObjectMeta>();
    generator.subschema_for::<OwnerReference>();
    generator.subschema_for::<LabelSelector>();
    generator.subschema_for::<Condition>();
    generator.take_definitions(false)
}

/// Writes out what [`k8s`] left a name for.
pub(crate) fn fill(schema: &mut Value, definitions: &Map<String, Value>) {
    let Value::Object(fields) = schema else { return };
    if let Some(Value::String(name)) = fields.remove("title")
        && let Value::Object(expanded) = named(&name, definitions, &mut BTreeSet::new())
    {
        // What the field says of itself, such as its description, stays.
        fields.extend(expanded);
        return;
    }
    for_each_child(fields, |child| fill(child, definitions));
}

/// Replaces references by what they refer to. `open` holds the names on the way down: a type that contains
/// itself ends in an object that keeps whatever it is given.
fn expand(schema: &Value, definitions: &Map<String, Value>, open: &mut BTreeSet<String>) -> Value {
    let Value::Object(fields) = schema else {
        return schema.clone();
    };
    if let Some(name) = fields
        .get("$ref")
        .and_then(Value::as_str)
        .and_then(|path| path.rsplit('/').next())
    {
        return named(name, definitions, open);
    }
    let mut out = Map::new();
    for (key, value) in fields {
        let value = match (key.as_str(), value) {
            // Prose would make up nine tenths of the CRD.
            ("description" | "title", Value::String(_)) => continue,
            ("properties", Value::Object(properties)) => properties
                .iter()
                .map(|(name, property)| (name.clone(), expand(property, definitions, open)))
                .collect::<Map<_, _>>()
                .into(),
            ("items" | "additionalProperties", nested) => expand(nested, definitions, open),
            (_, plain) => plain.clone(),
        };
        out.insert(key.clone(), value);
    }
    Value::Object(out)
}

fn named(name: &str, definitions: &Map<String, Value>, open: &mut BTreeSet<String>) -> Value {
    if name.ends_with(".api.resource.Quantity") {
        return json!({ "x-kubernetes-int-or-string": true, "pattern": quantity::PATTERN, "maxLength": quantity::TEXT_MAX });
    }
    if name.ends_with(".util.intstr.IntOrString") {
        return json!({ "x-kubernetes-int-or-string": true });
    }
    if name.ends_with(".meta.v1.ObjectMeta") {
        return embedded_metadata();
    }
    if !open.insert(name.to_owned()) {
        return json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    }
    let mut expanded = definitions
        .get(name)
        .map_or(Value::Null, |definition| expand(definition, definitions, open));
    open.remove(name);
    mark(name, &mut expanded);
    expanded
}

/// Lists of Kubernetes' types whose items have an identity, by type, field and the item's keys. Server-side apply
/// merges them item by item, and no two items may have the same keys; other lists are taken as a whole.
const LIST_MAPS: [(&str, &str, &[&str]); 18] = [
    ("PodSpec", "containers", &["name"]),
    ("PodSpec", "initContainers", &["name"]),
    ("PodSpec", "ephemeralContainers", &["name"]),
    ("PodSpec", "volumes", &["name"]),
    ("PodSpec", "imagePullSecrets", &["name"]),
    ("PodSpec", "hostAliases", &["ip"]),
    ("PodSpec", "schedulingGates", &["name"]),
    ("PodSpec", "resourceClaims", &["name"]),
    (
        "PodSpec",
        "topologySpreadConstraints",
        &["topologyKey", "whenUnsatisfiable"],
    ),
    ("Container", "env", &["name"]),
    ("Container", "ports", &["containerPort", "protocol"]),
    ("Container", "volumeMounts", &["mountPath"]),
    ("Container", "volumeDevices", &["devicePath"]),
    ("EphemeralContainer", "env", &["name"]),
    ("EphemeralContainer", "ports", &["containerPort", "protocol"]),
    ("EphemeralContainer", "volumeMounts", &["mountPath"]),
    ("EphemeralContainer", "volumeDevices", &["devicePath"]),
    ("ResourceRequirements", "claims", &["name"]),
];

/// Keys of such items that need not be given, and what they are then.
const KEY_DEFAULTS: [(&str, &str, &str); 1] = [("ContainerPort", "protocol", "TCP")];

/// Types that server-side apply takes as a whole.
const ATOMIC: [&str; 11] = [
    "ConfigMapKeySelector",
    "LabelSelector",
    "LocalObjectReference",
    "NodeSelector",
    "NodeSelectorTerm",
    "ObjectFieldSelector",
    "ObjectReference",
    "OwnerReference",
    "ResourceFieldSelector",
    "SecretKeySelector",
    "TypedLocalObjectReference",
];

/// Types whose name may be left out for historical reasons; k8s-openapi demands it.
const NAME_OPTIONAL: [&str; 8] = [
    "ConfigMapEnvSource",
    "ConfigMapKeySelector",
    "ConfigMapProjection",
    "ConfigMapVolumeSource",
    "LocalObjectReference",
    "SecretEnvSource",
    "SecretKeySelector",
    "SecretProjection",
];

/// Adds what Kubernetes' own schema says about merging and bounds, which k8s-openapi leaves out.
fn mark(name: &str, schema: &mut Value) {
    let name = name.rsplit('.').next().unwrap_or(name);
    if NAME_OPTIONAL.contains(&name) {
        let required = schema["required"].as_array().into_iter().flatten();
        let required: Vec<Value> = required.filter(|field| *field != "name").cloned().collect();
        schema["required"] = if required.is_empty() {
            Value::Null
        } else {
            json!(required)
        };
        schema["properties"]["name"]["default"] = json!("");
    }
    if name == "Condition" {
        let fields = &mut schema["properties"];
        fields["status"]["enum"] = json!(["True", "False", "Unknown"]);
        fields["type"]["maxLength"] = json!(316);
        fields["reason"]["minLength"] = json!(1);
        fields["reason"]["maxLength"] = json!(1024);
        fields["message"]["maxLength"] = json!(32768);
        fields["observedGeneration"]["minimum"] = json!(0);
    }
    if ATOMIC.contains(&name) {
        schema["x-kubernetes-map-type"] = json!("atomic");
    }
    for (_, field, keys) in LIST_MAPS.iter().filter(|(owner, _, _)| *owner == name) {
        if let Some(list) = schema.pointer_mut(&format!("/properties/{field}")) {
            list["x-kubernetes-list-type"] = json!("map");
            list["x-kubernetes-list-map-keys"] = json!(keys);
        }
    }
    for (_, field, default) in KEY_DEFAULTS.iter().filter(|(owner, _, _)| *owner == name) {
        if let Some(property) = schema.pointer_mut(&format!("/properties/{field}")) {
            property["default"] = json!(default);
        }
    }
}

/// Metadata inside a template.
fn embedded_metadata() -> Value {
    let text_map = json!({ "type": "object", "additionalProperties": { "type": "string" } });
    json!({
        "type": "object",
        "properties": {
            "annotations": text_map,
            "finalizers": { "type": "array", "items": { "type": "string" } },
            "labels": text_map,
            "name": { "type": "string" },
            "namespace": { "type": "string" },
        }
    })
}

/// For a patch of a JobSpec: the same fields, with none of its own demanded and none filled in.
pub(crate) fn partial_job_spec(generator: &mut SchemaGenerator) -> Schema {
    let mut schema = <crate::job::JobSpec as JsonSchema>::json_schema(generator).to_value();
    relax(&mut schema);
    Schema::try_from(schema).unwrap_or_default()
}

/// Takes `default`, `required` and `minItems` out of a schema and all schemas inside.
fn relax(schema: &mut Value) {
    let Value::Object(fields) = schema else { return };
    for keyword in ["default", "required", "minItems"] {
        fields.remove(keyword);
    }
    for_each_child(fields, relax);
}

/// Calls `visit` on every schema directly inside this one.
pub(crate) fn for_each_child(fields: &mut Map<String, Value>, mut visit: impl FnMut(&mut Value)) {
    if let Some(Value::Object(properties)) = fields.get_mut("properties") {
        properties.values_mut().for_each(&mut visit);
    }
    for keyword in ["items", "additionalProperties"] {
        if let Some(nested) = fields.get_mut(keyword) {
            visit(nested);
        }
    }
}

/// For enums: the field that holds the word says what it is for.
pub(crate) fn undescribed(schema: &mut Schema) {
    schema.remove("description");
}
