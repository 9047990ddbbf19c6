use super::check;

/// A sound installation, as small as it can be.
const SOUND: &str = r"
# Source: a comment alone is no object
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: queues
  labels: {app.kubernetes.io/name: basalt}
  annotations: {helm.sh/resource-policy: keep}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: sa, namespace: ours, labels: {app.kubernetes.io/name: basalt}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: conf, namespace: ours, labels: {app.kubernetes.io/name: basalt}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: role, namespace: ours, labels: {app.kubernetes.io/name: basalt}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: role, namespace: ours, labels: {app.kubernetes.io/name: basalt}}
roleRef: {kind: Role, name: role}
subjects: [{kind: ServiceAccount, name: sa, namespace: ours}]
---
apiVersion: v1
kind: Service
metadata: {name: hook, namespace: ours, labels: {app.kubernetes.io/name: basalt}}
spec: {selector: {part: a}, ports: [{port: 443, targetPort: webhook}]}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: hook, labels: {app.kubernetes.io/name: basalt}}
webhooks: [{clientConfig: {service: {name: hook, namespace: ours}}}]
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: d, namespace: ours, labels: {app.kubernetes.io/name: basalt}}
spec:
  template:
    metadata: {labels: {part: a, other: b}}
    spec:
      serviceAccountName: sa
      enableServiceLinks: false
      securityContext: {runAsNonRoot: true, seccompProfile: {type: RuntimeDefault}}
      containers:
      - ports: [{name: webhook, containerPort: 8443}]
        resources: {requests: {cpu: 1, memory: 1}, limits: {memory: 1}}
        securityContext: {allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: {drop: [ALL]}}
      volumes: [{name: v, configMap: {name: conf}}]
";

/// With `from` replaced by `to`, this is found.
fn spoilt(from: &str, to: &str, expected: &[&str]) {
    assert!(SOUND.contains(from), "{from}");
    let findings = check(&SOUND.replacen(from, to, 1)).expect("objects");
    assert_eq!(findings, expected, "{from} -> {to}");
}

#[test]
fn a_sound_chart_has_no_findings() {
    assert_eq!(check(SOUND).expect("objects"), Vec::<String>::new());
}

#[test]
fn what_is_wrong_with_an_object_is_found() {
    spoilt(
        "helm.sh/resource-policy: keep",
        "a: b",
        &["CustomResourceDefinition queues: would go with the release, and its objects"],
    );
    let namespace = "has a namespace where it should have none, or none where it should";
    spoilt(
        "name: conf, namespace: ours",
        "name: conf",
        &[&format!("ConfigMap conf: {namespace}")],
    );
    spoilt(
        "{name: hook, labels",
        "{name: hook, namespace: ours, labels",
        &[&format!("ValidatingWebhookConfiguration hook: {namespace}")],
    );
    spoilt(
        "{name: d, namespace: ours, labels: {app.kubernetes.io/name: basalt}}",
        "{name: d, namespace: ours}",
        &["Deployment d: has not our labels"],
    );
    spoilt(
        "kind: ConfigMap\nmetadata: {name: conf",
        "kind: ServiceAccount\nmetadata: {name: sa",
        &[
            "ServiceAccount sa: is there twice",
            "Deployment d: there is no ConfigMap conf",
        ],
    );
}

#[test]
fn what_is_wrong_with_a_pod_is_found() {
    for (from, to, path) in [
        (
            "runAsNonRoot: true",
            "runAsNonRoot: false",
            "/securityContext/runAsNonRoot is not true",
        ),
        (
            "RuntimeDefault",
            "Unconfined",
            "/securityContext/seccompProfile/type is not \"RuntimeDefault\"",
        ),
        ("enableServiceLinks: false", "a: b", "/enableServiceLinks is not false"),
        (
            "allowPrivilegeEscalation: false, ",
            "",
            "/securityContext/allowPrivilegeEscalation is not false",
        ),
        (
            "readOnlyRootFilesystem: true, ",
            "",
            "/securityContext/readOnlyRootFilesystem is not true",
        ),
        (
            "drop: [ALL]",
            "drop: []",
            "/securityContext/capabilities/drop is not [\"ALL\"]",
        ),
        (
            "limits: {memory: 1}",
            "limits: {}",
            "/resources/limits/memory is missing",
        ),
    ] {
        spoilt(from, to, &[&format!("Deployment d: {path}")]);
    }
}

#[test]
fn what_points_to_nothing_is_found() {
    spoilt(
        "serviceAccountName: sa",
        "serviceAccountName: sb",
        &["Deployment d: there is no ServiceAccount sb"],
    );
    spoilt(
        "configMap: {name: conf}",
        "configMap: {name: c}",
        &["Deployment d: there is no ConfigMap c"],
    );
    spoilt(
        "kind: Role, name: role",
        "kind: Role, name: rule",
        &["RoleBinding role: there is no Role rule"],
    );
    spoilt(
        "kind: ServiceAccount, name: sa",
        "kind: ServiceAccount, name: s",
        &["RoleBinding role: there is no ServiceAccount s"],
    );
    spoilt(
        "service: {name: hook",
        "service: {name: hock",
        &["ValidatingWebhookConfiguration hook: there is no Service hock"],
    );
    spoilt(
        "selector: {part: a}",
        "selector: {part: b}",
        &["Service hook: selects no pods, or not those ports"],
    );
    spoilt(
        "targetPort: webhook",
        "targetPort: web",
        &["Service hook: selects no pods, or not those ports"],
    );
}

#[test]
fn what_is_no_yaml_is_an_error() {
    assert!(check("a: [").is_err());
}
