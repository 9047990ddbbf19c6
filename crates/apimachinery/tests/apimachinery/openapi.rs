//! OpenAPI documents: what `kubectl` looks for is there.

use basalt_apimachinery::openapi::{ResourceDoc, compiled, document, is_builtin, schema_of};
use serde_json::{Value, json};

fn resource(kind: &str, plural: &str, namespaced: bool, schema: Option<Value>) -> ResourceDoc {
    let verbs = [
        "create",
        "delete",
        "deletecollection",
        "get",
        "list",
        "patch",
        "update",
        "watch",
    ];
    ResourceDoc {
        kind: kind.to_owned(),
        plural: plural.to_owned(),
        namespaced,
        schema,
        verbs: verbs.map(str::to_owned).to_vec(),
        subresources: vec!["status".to_owned()],
    }
}

fn references(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            found.extend(fields.get("$ref").and_then(Value::as_str).map(str::to_owned));
            fields.values().for_each(|value| references(value, found));
        }
        Value::Array(items) => items.iter().for_each(|item| references(item, found)),
        _ => {}
    }
}

fn check_whole(document: &Value) {
    let mut found = Vec::new();
    references(document, &mut found);
    assert!(!found.is_empty());
    for reference in found {
        let pointer = reference.trim_start_matches('#');
        assert!(document.pointer(pointer).is_some(), "{reference} leads nowhere");
    }
}

#[test]
fn the_core_group_has_a_document() {
    let document = document(
        "v1",
        &[
            resource("Pod", "pods", true, None),
            resource("Node", "nodes", false, None),
        ],
    );
    check_whole(&document);
    let patch = &document["paths"]["/api/v1/namespaces/{namespace}/pods/{name}"]["patch"];
    assert_eq!(
        patch["x-kubernetes-group-version-kind"],
        json!({ "group": "", "version": "v1", "kind": "Pod" })
    );
    let names: Vec<&Value> = patch["parameters"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|each| &each["name"])
        .collect();
    assert_eq!(names, ["dryRun", "fieldManager", "fieldValidation", "force"]);
    assert!(document["paths"]["/api/v1/nodes/{name}"]["put"].is_object());
    assert!(document["paths"]["/api/v1/pods"]["get"].is_object());
    assert!(document["paths"]["/api/v1/nodes/{name}/status"]["patch"].is_object());
    let schemas = &document["components"]["schemas"];
    let pod = &schemas["io.k8s.api.core.v1.Pod"];
    assert_eq!(
        pod["x-kubernetes-group-version-kind"],
        json!([{ "group": "", "version": "v1", "kind": "Pod" }])
    );
    let containers = &schemas["io.k8s.api.core.v1.PodSpec"]["properties"]["containers"];
    assert_eq!(containers["x-kubernetes-patch-merge-key"], "name");
    assert_eq!(containers["x-kubernetes-patch-strategy"], "merge");
    let finalizers = &schemas["io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"]["properties"]["finalizers"];
    assert_eq!(finalizers["x-kubernetes-patch-strategy"], "merge");
    assert_eq!(finalizers.get("x-kubernetes-patch-merge-key"), None);
}

#[test]
fn custom_groups_have_documents() {
    let schema = json!({ "type": "object", "properties": { "spec": { "type": "object", "description": "What is wanted.",
        "properties": { "weight": { "type": "integer" } } } } });
    let document = document(
        "scheduling.volcano.sh/v1beta1",
        &[resource("Queue", "queues", false, Some(schema))],
    );
    check_whole(&document);
    let queue = &document["components"]["schemas"]["sh.volcano.scheduling.v1beta1.Queue"];
    assert_eq!(queue["properties"]["spec"]["properties"]["weight"]["type"], "integer");
    assert_eq!(queue["properties"]["kind"]["type"], "string");
    let gvk = json!({ "group": "scheduling.volcano.sh", "version": "v1beta1", "kind": "Queue" });
    let path = &document["paths"]["/apis/scheduling.volcano.sh/v1beta1/queues/{name}"];
    assert_eq!(path["patch"]["x-kubernetes-group-version-kind"], gvk);
    assert_eq!(path["get"]["x-kubernetes-group-version-kind"], gvk);
}

#[test]
fn built_in_kinds_are_known() {
    for (api_version, kind) in [
        ("v1", "Pod"),
        ("policy/v1", "Eviction"),
        ("storage.k8s.io/v1", "StorageClass"),
    ] {
        assert!(is_builtin(api_version, kind));
        assert!(compiled(api_version, kind).is_some());
        let schema = schema_of(api_version, kind).expect("a schema");
        assert!(schema["$defs"].is_object());
    }
    assert!(!is_builtin("apps/v1", "Deployment"));
    assert!(schema_of("v2", "Pod").is_none());
}
