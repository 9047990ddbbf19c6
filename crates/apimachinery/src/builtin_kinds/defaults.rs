//! The defaults that Kubernetes sets and clients notice.

use crate::json::string_field;
use serde_json::{Map, Value, json};

type Fields = Map<String, Value>;

pub(super) fn apply(kind: &str, object: &mut Value) {
    let Some(object) = object.as_object_mut() else { return };
    // Clients of these kinds count on a spec, if an empty one.
    if matches!(
        kind,
        "Lease" | "Namespace" | "NetworkPolicy" | "Node" | "PodDisruptionBudget" | "ResourceQuota"
    ) {
        ensure(object, "spec");
    }
    match kind {
        "Pod" => {
            if let Some(spec) = inner(object, "spec") {
                pod_spec(spec);
            }
        }
        "PodTemplate" => {
            if let Some(spec) = inner(object, "template").and_then(|template| inner(template, "spec")) {
                pod_spec(spec);
            }
        }
        "Service" => service(ensure(object, "spec")),
        "Namespace" => namespace(object),
        "Secret" => secret(object),
        "PersistentVolume" => volume(object),
        "PersistentVolumeClaim" => claim(object),
        "StorageClass" => {
            set(object, "reclaimPolicy", "Delete");
            set(object, "volumeBindingMode", "Immediate");
        }
        "PriorityClass" => set(object, "preemptionPolicy", "PreemptLowerPriority"),
        "RoleBinding" | "ClusterRoleBinding" => role_binding(object),
        "NetworkPolicy" => network_policy(object),
        "Endpoints" => endpoints(object),
        "LimitRange" => limit_range(object),
        "CustomResourceDefinition" => custom_resource_definition(object),
        "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration" => webhooks(kind, object),
        _ => {}
    }
}

fn inner<'a>(object: &'a mut Fields, field: &str) -> Option<&'a mut Fields> {
    object.get_mut(field).and_then(Value::as_object_mut)
}

fn ensure<'a>(object: &'a mut Fields, field: &str) -> &'a mut Fields {
    let value = object.entry(field).or_insert(Value::Null);
    if !value.is_object() {
        *value = json!({});
    }
    match value {
        Value::Object(fields) => fields,
        _ => unreachable!("it was just made an object"),
    }
}

fn each<'a>(object: &'a mut Fields, field: &str) -> impl Iterator<Item = &'a mut Fields> {
    object
        .get_mut(field)
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
        .filter_map(Value::as_object_mut)
}

/// Sets a field that is absent, null or empty text.
fn set(object: &mut Fields, field: &str, value: impl Into<Value>) {
    let absent = match object.get(field) {
        None | Some(Value::Null) => true,
        Some(Value::String(text)) => text.is_empty(),
        Some(_) => false,
    };
    if absent {
        object.insert(field.to_owned(), value.into());
    }
}

pub(super) fn pod_spec(spec: &mut Fields) {
    set(spec, "restartPolicy", "Always");
    set(spec, "dnsPolicy", "ClusterFirst");
    set(spec, "terminationGracePeriodSeconds", 30);
    set(spec, "schedulerName", "default-scheduler");
    set(spec, "securityContext", json!({}));
    set(spec, "enableServiceLinks", true);
    if !string_field(spec, "serviceAccountName").is_empty() {
        let name = string_field(spec, "serviceAccountName").to_owned();
        set(spec, "serviceAccount", name);
    } else if !string_field(spec, "serviceAccount").is_empty() {
        let name = string_field(spec, "serviceAccount").to_owned();
        set(spec, "serviceAccountName", name);
    }
    let host_network = spec.get("hostNetwork") == Some(&Value::Bool(true));
    for field in ["containers", "initContainers", "ephemeralContainers"] {
        for each_container in each(spec, field) {
            container(each_container, host_network);
        }
    }
    for each_volume in each(spec, "volumes") {
        pod_volume(each_volume);
    }
    for constraint in each(spec, "topologySpreadConstraints") {
        set(constraint, "nodeAffinityPolicy", "Honor");
        set(constraint, "nodeTaintsPolicy", "Ignore");
    }
}

fn container(container: &mut Fields, host_network: bool) {
    let policy = if always_pulled(string_field(container, "image")) {
        "Always"
    } else {
        "IfNotPresent"
    };
    set(container, "imagePullPolicy", policy);
    set(container, "terminationMessagePath", "/dev/termination-log");
    set(container, "terminationMessagePolicy", "File");
    let resources = ensure(container, "resources");
    if let Some(limits) = resources.get("limits").and_then(Value::as_object).cloned() {
        let requests = ensure(resources, "requests");
        for (name, limit) in limits {
            requests.entry(name).or_insert(limit);
        }
    }
    for port in each(container, "ports") {
        set(port, "protocol", "TCP");
        if let (true, Some(number)) = (host_network, port.get("containerPort").cloned()) {
            set(port, "hostPort", number);
        }
    }
    for env in each(container, "env") {
        if let Some(reference) = inner(env, "valueFrom").and_then(|source| inner(source, "fieldRef")) {
            set(reference, "apiVersion", "v1");
        }
    }
    for name in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(found) = inner(container, name) {
            probe(found);
        }
    }
    for hook in ["postStart", "preStop"] {
        if let Some(found) = inner(container, "lifecycle").and_then(|lifecycle| inner(lifecycle, hook)) {
            http_get(found);
        }
    }
}

/// An image without a tag or digest, or with the tag `latest`, is always pulled.
fn always_pulled(image: &str) -> bool {
    if image.contains('@') {
        return false;
    }
    let last = image.rsplit('/').next().unwrap_or(image);
    last.rsplit_once(':').is_none_or(|(_, tag)| tag == "latest")
}

fn probe(probe: &mut Fields) {
    set(probe, "timeoutSeconds", 1);
    set(probe, "periodSeconds", 10);
    set(probe, "successThreshold", 1);
    set(probe, "failureThreshold", 3);
    http_get(probe);
    if let Some(grpc) = inner(probe, "grpc") {
        grpc.entry("service").or_insert_with(|| json!(""));
    }
}

fn http_get(handler: &mut Fields) {
    if let Some(get) = inner(handler, "httpGet") {
        set(get, "path", "/");
        set(get, "scheme", "HTTP");
    }
}

fn pod_volume(volume: &mut Fields) {
    if volume.keys().all(|key| key == "name") {
        volume.insert("emptyDir".to_owned(), json!({}));
    }
    for source in ["configMap", "secret", "downwardAPI", "projected"] {
        if let Some(found) = inner(volume, source) {
            set(found, "defaultMode", 0o644);
        }
    }
    if let Some(host_path) = inner(volume, "hostPath") {
        host_path.entry("type").or_insert_with(|| json!(""));
    }
    if let Some(projected) = inner(volume, "projected") {
        for source in each(projected, "sources") {
            if let Some(token) = inner(source, "serviceAccountToken") {
                set(token, "expirationSeconds", 3600);
            }
        }
    }
    if let Some(template) = inner(volume, "ephemeral").and_then(|found| inner(found, "volumeClaimTemplate"))
        && let Some(spec) = inner(template, "spec")
    {
        set(spec, "volumeMode", "Filesystem");
    }
}

fn service(spec: &mut Fields) {
    set(spec, "type", "ClusterIP");
    set(spec, "sessionAffinity", "None");
    if string_field(spec, "sessionAffinity") == "ClientIP" && !spec.contains_key("sessionAffinityConfig") {
        spec.insert(
            "sessionAffinityConfig".to_owned(),
            json!({ "clientIP": { "timeoutSeconds": 10800 } }),
        );
    }
    let kind = string_field(spec, "type").to_owned();
    if kind != "ExternalName" {
        set(spec, "internalTrafficPolicy", "Cluster");
        set(spec, "ipFamilies", json!(["IPv4"]));
        set(spec, "ipFamilyPolicy", "SingleStack");
    }
    if matches!(kind.as_str(), "NodePort" | "LoadBalancer") {
        set(spec, "externalTrafficPolicy", "Cluster");
    }
    if kind == "LoadBalancer" {
        set(spec, "allocateLoadBalancerNodePorts", true);
    }
    let cluster_ip = string_field(spec, "clusterIP").to_owned();
    if !cluster_ip.is_empty() {
        set(spec, "clusterIPs", json!([cluster_ip]));
    }
    for port in each(spec, "ports") {
        set(port, "protocol", "TCP");
        let number = port.get("port").cloned().unwrap_or(Value::Null);
        if matches!(port.get("targetPort"), None | Some(Value::Null)) || port.get("targetPort") == Some(&json!(0)) {
            port.insert("targetPort".to_owned(), number);
        }
    }
}

fn namespace(namespace: &mut Fields) {
    let name = namespace
        .get("metadata")
        .and_then(|meta| meta.get("name"))
        .and_then(Value::as_str);
    if let Some(name) = name.map(str::to_owned) {
        ensure(ensure(namespace, "metadata"), "labels").insert("kubernetes.io/metadata.name".to_owned(), json!(name));
    }
    let leaving = namespace
        .get("metadata")
        .is_some_and(|meta| meta.get("deletionTimestamp").is_some());
    if !leaving {
        set(ensure(namespace, "spec"), "finalizers", json!(["kubernetes"]));
        set(ensure(namespace, "status"), "phase", "Active");
    }
}

fn secret(secret: &mut Fields) {
    use base64::Engine as _;
    set(secret, "type", "Opaque");
    // `stringData` is write-only: it is stored, encoded, as `data`.
    if let Some(Value::Object(plain)) = secret.remove("stringData") {
        let data = ensure(secret, "data");
        for (key, value) in plain {
            let bytes = value.as_str().unwrap_or_default();
            data.insert(
                key,
                Value::from(base64::engine::general_purpose::STANDARD.encode(bytes)),
            );
        }
    }
}

fn volume(volume: &mut Fields) {
    let spec = ensure(volume, "spec");
    set(spec, "persistentVolumeReclaimPolicy", "Retain");
    set(spec, "volumeMode", "Filesystem");
    if let Some(host_path) = inner(spec, "hostPath") {
        host_path.entry("type").or_insert_with(|| json!(""));
    }
    set(ensure(volume, "status"), "phase", "Pending");
}

fn claim(claim: &mut Fields) {
    set(ensure(claim, "spec"), "volumeMode", "Filesystem");
    set(ensure(claim, "status"), "phase", "Pending");
}

fn role_binding(binding: &mut Fields) {
    if let Some(role) = inner(binding, "roleRef") {
        set(role, "apiGroup", "rbac.authorization.k8s.io");
    }
    for subject in each(binding, "subjects") {
        if matches!(string_field(subject, "kind"), "User" | "Group") {
            set(subject, "apiGroup", "rbac.authorization.k8s.io");
        }
    }
}

fn network_policy(policy: &mut Fields) {
    let spec = ensure(policy, "spec");
    for (field, _) in [("ingress", "from"), ("egress", "to")] {
        for rule in each(spec, field) {
            for port in each(rule, "ports") {
                set(port, "protocol", "TCP");
            }
        }
    }
    let mut types = vec!["Ingress"];
    if spec
        .get("egress")
        .and_then(Value::as_array)
        .is_some_and(|rules| !rules.is_empty())
    {
        types.push("Egress");
    }
    set(spec, "policyTypes", json!(types));
}

fn endpoints(endpoints: &mut Fields) {
    for subset in each(endpoints, "subsets") {
        for port in each(subset, "ports") {
            set(port, "protocol", "TCP");
        }
    }
}

/// Kubernetes fills `default` from `max`, and `defaultRequest` from `default` or `min`, for containers.
fn limit_range(range: &mut Fields) {
    let Some(spec) = inner(range, "spec") else { return };
    for item in each(spec, "limits").filter(|item| string_field(item, "type") == "Container") {
        let map = |item: &Fields, field: &str| item.get(field).and_then(Value::as_object).cloned().unwrap_or_default();
        let mut limits = map(item, "default");
        for (name, value) in map(item, "max") {
            limits.entry(name).or_insert(value);
        }
        let mut requests = map(item, "defaultRequest");
        for (name, value) in limits.clone().into_iter().chain(map(item, "min")) {
            requests.entry(name).or_insert(value);
        }
        for (field, values) in [("default", limits), ("defaultRequest", requests)] {
            if !values.is_empty() {
                item.insert(field.to_owned(), Value::Object(values));
            }
        }
    }
}

fn custom_resource_definition(definition: &mut Fields) {
    let Some(spec) = inner(definition, "spec") else { return };
    set(spec, "scope", "Namespaced");
    set(spec, "conversion", json!({ "strategy": "None" }));
    if let Some(names) = inner(spec, "names") {
        let kind = string_field(names, "kind").to_owned();
        if !kind.is_empty() {
            set(names, "singular", kind.to_lowercase());
            set(names, "listKind", format!("{kind}List"));
        }
    }
}

fn webhooks(kind: &str, configuration: &mut Fields) {
    for hook in each(configuration, "webhooks") {
        set(hook, "failurePolicy", "Fail");
        set(hook, "matchPolicy", "Equivalent");
        set(hook, "namespaceSelector", json!({}));
        set(hook, "objectSelector", json!({}));
        set(hook, "timeoutSeconds", 10);
        if kind == "MutatingWebhookConfiguration" {
            set(hook, "reinvocationPolicy", "Never");
        }
        for rule in each(hook, "rules") {
            set(rule, "scope", "*");
        }
        if let Some(service) = inner(hook, "clientConfig").and_then(|client| inner(client, "service")) {
            set(service, "port", 443);
        }
    }
}
