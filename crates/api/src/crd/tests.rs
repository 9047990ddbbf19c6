use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde_json::{Value, json};

use super::{all, files};

/// All definitions as JSON, by plural name.
static DEFINITIONS: LazyLock<BTreeMap<String, Value>> = LazyLock::new(|| {
    let named = |definition| {
        (
            definition_name(&definition),
            serde_json::to_value(definition).expect("json"),
        )
    };
    all().into_iter().map(named).collect()
});

fn definition_name(definition: &super::CustomResourceDefinition) -> String {
    definition.spec.names.plural.clone()
}

fn definition(plural: &str) -> &'static Value {
    DEFINITIONS.get(plural).unwrap_or_else(|| panic!("no {plural}"))
}

fn schema(plural: &str) -> &'static Value {
    &definition(plural)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
}

/// The schema at a path such as `spec.tasks[].template`; `{}` goes into a map.
fn at(root: &Value, path: &str) -> Value {
    let mut schema = root;
    for part in path.split('.') {
        let name = part.trim_end_matches("[]").trim_end_matches("{}");
        schema = &schema["properties"][name];
        if part.ends_with("[]") {
            schema = &schema["items"];
        }
        if part.ends_with("{}") {
            schema = &schema["additionalProperties"];
        }
    }
    assert!(schema.is_object(), "nothing at {path}");
    schema.clone()
}

/// plural, kind, group and version, scope, short names, subresources
const NAMES: &str = "
queues          Queue         scheduling.volcano.sh/v1beta1  Cluster     q,queue-v1beta1      status
podgroups       PodGroup      scheduling.volcano.sh/v1beta1  Namespaced  pg,podgroup-v1beta1  empty
jobs            Job           batch.volcano.sh/v1alpha1      Namespaced  vcjob,vj             status
commands        Command       bus.volcano.sh/v1alpha1        Namespaced  -                    -
cronjobs        CronJob       batch.volcano.sh/v1alpha1      Namespaced  cronvcjob,cronvj     status
jobflows        JobFlow       flow.volcano.sh/v1alpha1       Namespaced  jf                   status
jobtemplates    JobTemplate   flow.volcano.sh/v1alpha1       Namespaced  jt                   status
numatopologies  Numatopology  nodeinfo.volcano.sh/v1alpha1   Cluster     numatopo             -
hypernodes      HyperNode     topology.volcano.sh/v1alpha1   Cluster     hn                   status
nodeshards      NodeShard     shard.volcano.sh/v1alpha1      Cluster     nsh                  status
";

#[test]
fn names_are_volcanos() {
    for line in NAMES.trim().lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [plural, kind, api_version, scope, short, subresources] = words[..] else {
            panic!("{line}")
        };
        let (group, version) = api_version.split_once('/').expect("a version");
        let short: Vec<&str> = short.split(',').filter(|name| *name != "-").collect();
        let definition = definition(plural);
        let names = &definition["spec"]["names"];
        assert_eq!(definition["metadata"]["name"], json!(format!("{plural}.{group}")));
        assert_eq!(definition["spec"]["group"], json!(group));
        assert_eq!(definition["spec"]["scope"], json!(scope));
        assert_eq!(names["kind"], json!(kind));
        assert_eq!(names["singular"], json!(kind.to_lowercase()));
        assert_eq!(names["listKind"], json!(format!("{kind}List")));
        assert_eq!(
            names["shortNames"],
            if short.is_empty() { Value::Null } else { json!(short) }
        );
        let served = &definition["spec"]["versions"][0];
        assert_eq!(served["name"], json!(version));
        let expected = match subresources {
            "status" => json!({ "status": {} }),
            "empty" => json!({}),
            _ => Value::Null,
        };
        assert_eq!(served["subresources"], expected, "{plural}");
    }
    assert_eq!(NAMES.trim().lines().count(), all().len());
}

/// Checks that the schema at `path` has these keywords with these values.
fn check(plural: &str, path: &str, keywords: &Value) {
    let found = at(schema(plural), path);
    for (keyword, value) in keywords.as_object().expect("keywords") {
        let same = match (found[keyword].as_f64(), value.as_f64()) {
            (Some(found), Some(value)) => (found - value).abs() < f64::EPSILON,
            _ => found[keyword] == *value,
        };
        assert!(same, "{plural} {path} {keyword}: {} instead of {value}", found[keyword]);
    }
}

#[test]
fn queues_are_validated() {
    let check = |path: &str, keywords: Value| check("queues", path, &keywords);
    let none = Value::Null;
    check("spec", json!({ "default": {}, "required": none }));
    check(
        "spec.weight",
        json!({ "type": "integer", "format": "int32", "default": 1, "minimum": 1, "maximum": 65535 }),
    );
    check("spec.state", json!({ "enum": ["Open", "Closed"], "default": none }));
    check("spec.parent", json!({ "maxLength": 253, "default": none }));
    check("spec.priority", json!({ "minimum": 0 }));
    check(
        "spec.dequeueStrategy",
        json!({ "enum": ["fifo", "traverse"], "default": "traverse" }),
    );
    check("spec.reclaimable", json!({ "type": "boolean", "default": none }));
    check("spec.type", json!({ "maxLength": 253 }));
    check(
        "spec.capability{}",
        json!({ "x-kubernetes-int-or-string": true, "pattern": crate::quantity::PATTERN, "type": none }),
    );
    check("spec.deserved{}", json!({ "x-kubernetes-int-or-string": true }));
    check(
        "spec.guarantee.resource{}",
        json!({ "x-kubernetes-int-or-string": true }),
    );
    check(
        "spec.guarantee.policy",
        json!({ "enum": ["Best-Effort", "Guaranteed"], "default": none }),
    );
    check(
        "spec.guarantee.percentage",
        json!({ "required": ["dimensions", "value"] }),
    );
    check(
        "spec.guarantee.percentage.value",
        json!({ "type": "number", "minimum": 0, "maximum": 1, "default": none }),
    );
    check(
        "spec.guarantee.percentage.dimensions",
        json!({ "minItems": 1, "default": none }),
    );
    check(
        "spec.affinity.nodeGroupAffinity.requiredDuringSchedulingIgnoredDuringExecution[]",
        json!({ "type": "string" }),
    );
    check(
        "spec.extendClusters[].capacity{}",
        json!({ "x-kubernetes-int-or-string": true }),
    );
    check(
        "status.state",
        json!({ "enum": ["Open", "Closed", "Closing", "Unknown"] }),
    );
    for counter in [
        "unknown",
        "pending",
        "running",
        "inqueue",
        "completed",
        "failed",
        "aborted",
    ] {
        check(
            &format!("status.{counter}"),
            json!({ "type": "integer", "minimum": 0, "default": none }),
        );
    }
    check("status.reservation.nodes[]", json!({ "type": "string" }));
    for amounts in ["resource", "used", "target"] {
        check(
            &format!("status.reservation.{amounts}{{}}"),
            json!({ "x-kubernetes-int-or-string": true }),
        );
    }
    check(
        "status.reservation.waitingFor",
        json!({ "type": "integer", "minimum": 0, "default": none }),
    );
    check(
        "status.conditions",
        json!({ "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"] }),
    );
}

#[test]
fn pod_groups_are_validated() {
    let check = |path: &str, keywords: Value| check("podgroups", path, &keywords);
    check("spec.minMember", json!({ "type": "integer", "minimum": 0 }));
    check("spec.minTaskMember{}", json!({ "type": "integer" }));
    check("spec.queue", json!({ "default": "default", "maxLength": 253 }));
    check("spec.priorityClassName", json!({ "maxLength": 253 }));
    check(
        "spec.networkTopology.mode",
        json!({ "enum": ["hard", "soft"], "default": "hard" }),
    );
    check("spec.networkTopology.highestTierAllowed", json!({ "minimum": 0 }));
    check("spec.networkTopology.highestTierName", json!({ "maxLength": 253 }));
    check("spec.subGroupPolicy[].name", json!({ "maxLength": 253 }));
    check(
        "spec.subGroupPolicy[].subGroupSize",
        json!({ "minimum": 1, "default": 1 }),
    );
    check(
        "spec.subGroupPolicy[].minSubGroups",
        json!({ "minimum": 0, "default": 0 }),
    );
    check(
        "spec.subGroupPolicy[].matchLabelKeys",
        json!({ "x-kubernetes-list-type": "atomic" }),
    );
    check(
        "status.phase",
        json!({ "enum": ["Pending", "Running", "Inqueue", "Completed", "Unknown"] }),
    );
    check("status.conditions[].transitionID", json!({ "type": "string" }));
    check(
        "status.conditions[].lastTransitionTime",
        json!({ "type": "string", "format": "date-time" }),
    );
    check("status.running", json!({ "minimum": 0 }));
    check("status.reasons[]", json!({ "required": ["code"] }));
    check("status.reasons[].need", json!({ "x-kubernetes-int-or-string": true }));
    check("status.reasons[].nodes{}", json!({ "type": "integer" }));
}

#[test]
fn jobs_are_validated() {
    let check = |path: &str, keywords: Value| check("jobs", path, &keywords);
    let none = Value::Null;
    check("spec.schedulerName", json!({ "maxLength": 63 }));
    check("spec.minAvailable", json!({ "minimum": 0 }));
    check("spec.tasks", json!({ "minItems": 1 }));
    check("spec.queue", json!({ "default": "default", "maxLength": 253 }));
    check("spec.maxRetry", json!({ "default": 3, "minimum": 0 }));
    check("spec.ttlSecondsAfterFinished", json!({ "minimum": 0, "default": none }));
    check("spec.minSuccess", json!({ "minimum": 1 }));
    check("spec.priorityClassName", json!({ "maxLength": 253 }));
    check(
        "spec.runningEstimate",
        json!({ "type": "string", "pattern": crate::duration::PATTERN }),
    );
    check("spec.plugins{}", json!({ "type": "array" }));
    check("spec.volumes[]", json!({ "required": ["mountPath"] }));
    check(
        "spec.volumes[].mountPath",
        json!({ "minLength": 1, "pattern": "^[^:]+$", "default": none }),
    );
    check(
        "spec.volumes[].volumeClaim.resources.requests{}",
        json!({ "x-kubernetes-int-or-string": true }),
    );
    check("spec.tasks[].name", json!({ "maxLength": 63 }));
    check("spec.tasks[].replicas", json!({ "minimum": 0, "default": none }));
    check("spec.tasks[].minAvailable", json!({ "minimum": 0, "default": none }));
    check(
        "spec.tasks[].topologyPolicy",
        json!({ "enum": ["none", "best-effort", "restricted", "single-numa-node"] }),
    );
    check("spec.tasks[].dependsOn.iteration", json!({ "enum": ["any", "all"] }));
    check(
        "spec.tasks[].partitionPolicy",
        json!({ "required": ["partitionSize", "totalPartitions"] }),
    );
    check(
        "spec.tasks[].partitionPolicy.totalPartitions",
        json!({ "minimum": 1, "default": none }),
    );
    check(
        "spec.tasks[].partitionPolicy.minPartitions",
        json!({ "minimum": 0, "default": 0 }),
    );
    check("spec.policies[].action", json!({ "type": "string", "enum": none }));
    check(
        "spec.policies[].exitCode",
        json!({ "type": "integer", "format": "int32" }),
    );
    let events = at(schema("jobs"), "spec.policies[].event")["enum"].clone();
    assert_eq!(events.as_array().map(Vec::len), Some(11));
    check("status.state.phase", json!({ "type": "string" }));
    assert_eq!(
        at(schema("jobs"), "status.state.phase")["enum"]
            .as_array()
            .map(Vec::len),
        Some(10)
    );
    check("status.conditions[]", json!({ "required": ["status"] }));
    check("status.taskStatusCount{}.phase{}", json!({ "type": "integer" }));
    check("status.controlledResources{}", json!({ "type": "string" }));
}

#[test]
fn other_kinds_are_validated() {
    check(
        "commands",
        "target",
        &json!({ "required": ["apiVersion", "kind", "name", "uid"] }),
    );
    check("commands", "action", &json!({ "type": "string" }));
    check("cronjobs", "spec", &json!({ "required": ["jobTemplate", "schedule"] }));
    check(
        "cronjobs",
        "spec.concurrencyPolicy",
        &json!({ "enum": ["Allow", "Forbid", "Replace"], "default": "Allow" }),
    );
    check("cronjobs", "spec.suspend", &json!({ "default": false }));
    check(
        "cronjobs",
        "spec.successfulJobsHistoryLimit",
        &json!({ "default": 3, "minimum": 0 }),
    );
    check(
        "cronjobs",
        "spec.failedJobsHistoryLimit",
        &json!({ "default": 1, "minimum": 0 }),
    );
    check(
        "cronjobs",
        "spec.startingDeadlineSeconds",
        &json!({ "minimum": 0, "format": "int64" }),
    );
    check("cronjobs", "spec.jobTemplate.spec.tasks", &json!({ "minItems": 1 }));
    check("jobflows", "spec.flows[]", &json!({ "required": ["name"] }));
    check(
        "jobflows",
        "spec.flows[].dependsOn.probe.httpGetList[].port",
        &json!({ "minimum": 0, "maximum": 65535 }),
    );
    check(
        "jobflows",
        "spec.flows[].dependsOn.probe.tcpSocketList[]",
        &json!({ "required": ["port"] }),
    );
    check(
        "jobflows",
        "spec.flows[].patch.jobSpec.queue",
        &json!({ "default": null, "maxLength": 253 }),
    );
    check(
        "jobflows",
        "spec.jobRetainPolicy",
        &json!({ "enum": ["retain", "delete"] }),
    );
    check("jobflows", "status.unKnowJobs[]", &json!({ "type": "string" }));
    check(
        "jobtemplates",
        "spec.tasks[].template.spec",
        &json!({ "required": ["containers"] }),
    );
    check(
        "jobtemplates",
        "status.jobDependsOnList[]",
        &json!({ "type": "string" }),
    );
    check("hypernodes", "spec", &json!({ "required": ["tier"] }));
    check("hypernodes", "spec.tier", &json!({ "minimum": 0, "default": null }));
    check("hypernodes", "spec.members", &json!({ "minItems": 1 }));
    check(
        "hypernodes",
        "spec.members[].type",
        &json!({ "enum": ["Node", "HyperNode"], "default": null }),
    );
    check(
        "hypernodes",
        "spec.members[].selector.exactMatch.name",
        &json!({ "minLength": 1, "maxLength": 253 }),
    );
    let rules = at(schema("hypernodes"), "spec.members[].selector")["x-kubernetes-validations"].clone();
    assert_eq!(rules.as_array().map(Vec::len), Some(2));
    check("nodeshards", "spec", &json!({ "required": ["nodesDesired"] }));
    check("numatopologies", "spec.cpuDetail{}.numa", &json!({ "minimum": 0 }));
    check(
        "numatopologies",
        "spec.numares{}.capacity",
        &json!({ "type": "integer" }),
    );
}

#[test]
fn templates_hold_a_whole_pod_and_little_metadata() {
    let template = at(schema("jobs"), "spec.tasks[].template");
    let metadata = at(&template, "metadata");
    let kept: Vec<&String> = metadata["properties"].as_object().expect("fields").keys().collect();
    assert_eq!(kept, ["annotations", "finalizers", "labels", "name", "namespace"]);
    let spec = at(&template, "spec");
    assert_eq!(spec["required"], json!(["containers"]));
    assert!(spec["properties"].as_object().is_some_and(|fields| fields.len() >= 40));
    let quantity = at(&spec, "containers[].resources.limits{}");
    assert_eq!(
        quantity,
        json!({ "x-kubernetes-int-or-string": true, "pattern": crate::quantity::PATTERN, "maxLength": 1024 })
    );
    let port = at(&spec, "containers[].livenessProbe.httpGet.port");
    assert_eq!(port, json!({ "x-kubernetes-int-or-string": true }));
    assert!(!serde_json::to_string(&spec).expect("json").contains("\"description\""));
}

/// Walks every schema and collects what Kubernetes' structural rules forbid, and what we do not want.
fn faults(schema: &Value, path: &str, found: &mut Vec<String>) {
    let Some(fields) = schema.as_object() else {
        found.push(format!("{path}: not an object"));
        return;
    };
    let forbidden = [
        "$ref",
        "$defs",
        "definitions",
        "anyOf",
        "oneOf",
        "allOf",
        "not",
        "nullable",
        "x-kubernetes-preserve-unknown-fields",
    ];
    for keyword in forbidden.iter().filter(|keyword| fields.contains_key(**keyword)) {
        found.push(format!("{path}: {keyword}"));
    }
    let open = fields.get("x-kubernetes-int-or-string") == Some(&json!(true));
    if open == fields.contains_key("type") {
        found.push(format!("{path}: needs a type, or to be int-or-string"));
    }
    if fields.contains_key("properties") && fields.contains_key("additionalProperties") {
        found.push(format!("{path}: properties and additionalProperties"));
    }
    if let Some(default) = fields.get("default").filter(|default| default.is_null()) {
        found.push(format!("{path}: default {default}"));
    }
    let properties = fields.get("properties").and_then(Value::as_object);
    for name in fields
        .get("required")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
    {
        match properties.and_then(|properties| properties.get(name)) {
            None => found.push(format!("{path}: requires {name}, which it does not have")),
            Some(property) if property.get("default").is_some() => {
                found.push(format!("{path}.{name}: required with default"));
            }
            Some(_) => {}
        }
    }
    if let Some(keys) = fields.get("x-kubernetes-list-map-keys").and_then(Value::as_array) {
        found.extend(key_faults(&fields["items"], keys, path));
    }
    for (name, property) in properties.into_iter().flatten() {
        faults(property, &format!("{path}.{name}"), found);
    }
    for keyword in ["items", "additionalProperties"] {
        if let Some(nested) = fields.get(keyword) {
            faults(nested, &format!("{path}.{keyword}"), found);
        }
    }
}

/// Kubernetes demands that a key of a list is required of its items, or has a default.
fn key_faults(items: &Value, keys: &[Value], path: &str) -> Vec<String> {
    let required = items["required"].as_array().cloned().unwrap_or_default();
    let lax = |key: &&Value| {
        let property = &items["properties"][key.as_str().unwrap_or_default()];
        !property.is_object() || (!required.contains(key) && property.get("default").is_none())
    };
    keys.iter()
        .filter(lax)
        .map(|key| format!("{path}: key {key} may be absent"))
        .collect()
}

#[test]
fn lists_with_keys_are_merged_by_item() {
    let spec = at(schema("jobs"), "spec.tasks[].template.spec");
    let check = |path: &str, keys: &[&str]| {
        let list = at(&spec, path);
        assert_eq!(list["x-kubernetes-list-type"], json!("map"), "{path}");
        assert_eq!(list["x-kubernetes-list-map-keys"], json!(keys), "{path}");
    };
    check("containers", &["name"]);
    check("volumes", &["name"]);
    check("containers[].env", &["name"]);
    check("containers[].ports", &["containerPort", "protocol"]);
    check("topologySpreadConstraints", &["topologyKey", "whenUnsatisfiable"]);
    assert_eq!(at(&spec, "containers[].ports[].protocol")["default"], json!("TCP"));
    let secret = at(&spec, "containers[].envFrom[].secretRef");
    assert_eq!(secret["properties"]["name"]["default"], json!(""));
    let condition = at(schema("queues"), "status.conditions[]");
    assert_eq!(
        condition["properties"]["status"]["enum"],
        json!(["True", "False", "Unknown"])
    );
    assert_eq!(
        at(schema("podgroups"), "spec.subGroupPolicy[].labelSelector")["x-kubernetes-map-type"],
        json!("atomic")
    );
}

#[test]
fn schemas_are_structural() {
    for plural in DEFINITIONS.keys() {
        let mut found = Vec::new();
        faults(schema(plural), plural, &mut found);
        assert_eq!(found, Vec::<String>::new());
    }
}

#[test]
fn files_are_yaml_that_reads_back_and_fits_an_annotation() {
    let all = all();
    let files = files().expect("yaml");
    assert_eq!(files.len(), all.len());
    for (definition, (name, content)) in all.iter().zip(&files) {
        assert_eq!(
            *name,
            format!("{}_{}.yaml", definition.spec.group, definition.spec.names.plural)
        );
        let read: Value = serde_saphyr::from_str(content).expect("yaml");
        let read: k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition =
            serde_json::from_value(read).expect("a definition");
        assert_eq!(read, *definition);
        // `kubectl apply` keeps a copy in an annotation of at most 256 KiB.
        let compact = serde_json::to_string(definition).expect("json").len();
        assert!(compact < 200_000, "{name}: {compact} bytes");
    }
}
