//! Which printer a built-in kind has, and the rows of the small kinds.

use super::{
    Row,
    cells::{name, none_if_empty, object_age, pairs, plain, since, size},
    nodes, pods, storage,
};
use crate::json::{list_at, string_at};
use jiff::Timestamp;
use serde_json::Value;

/// The heads and the row function of a kind.
pub(super) fn of(api_version: &str, kind: &str) -> (&'static [&'static str], Row) {
    let group = api_version.rsplit_once('/').map_or("", |(group, _)| group);
    match (group, kind) {
        ("", "Pod") => (pods::HEADS, pods::row),
        ("", "Node") => (nodes::NODE_HEADS, nodes::node),
        ("", "Service") => (nodes::SERVICE_HEADS, nodes::service),
        ("", "Endpoints") => (nodes::ENDPOINTS_HEADS, nodes::endpoints),
        ("", "PersistentVolume") => (storage::VOLUME_HEADS, storage::volume),
        ("", "PersistentVolumeClaim") => (storage::CLAIM_HEADS, storage::claim),
        ("storage.k8s.io", "StorageClass") => (storage::CLASS_HEADS, storage::class),
        ("", "Namespace") => (&["Name!", "Status", "Age"], namespace),
        ("", "ConfigMap") => (&["Name!", "Data", "Age"], config_map),
        ("", "Secret") => (&["Name!", "Type", "Data#", "Age"], secret),
        ("", "ServiceAccount") => (&["Name!", "Secrets", "Age"], service_account),
        ("", "ResourceQuota") => (&["Name!", "Request", "Limit", "Age"], quota),
        ("" | "events.k8s.io", "Event") => (EVENT_HEADS, event),
        ("networking.k8s.io", "NetworkPolicy") => (&["Name!", "Pod-Selector", "Age"], network_policy),
        ("scheduling.k8s.io", "PriorityClass") => (
            &["Name!", "Value#", "Global-Default", "Age", "PreemptionPolicy"],
            priority_class,
        ),
        ("policy", "PodDisruptionBudget") => (
            &[
                "Name!",
                "Min Available",
                "Max Unavailable",
                "Allowed Disruptions#",
                "Age",
            ],
            disruption_budget,
        ),
        ("coordination.k8s.io", "Lease") => (&["Name!", "Holder", "Age"], lease),
        ("rbac.authorization.k8s.io", "RoleBinding" | "ClusterRoleBinding") => (
            &["Name!", "Role", "Age", "Users+", "Groups+", "ServiceAccounts+"],
            binding,
        ),
        ("rbac.authorization.k8s.io", "Role" | "ClusterRole")
        | ("", "LimitRange")
        | ("apiextensions.k8s.io", "CustomResourceDefinition") => (&["Name!", "Created At"], created_at),
        ("admissionregistration.k8s.io", _) => (&["Name!", "Webhooks#", "Age"], webhooks),
        _ => (&["Name!", "Age"], plain_object),
    }
}

fn plain_object(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![name(object), object_age(object, now)]
}

fn created_at(object: &Value, _: Timestamp) -> Vec<Value> {
    vec![
        name(object),
        Value::from(string_at(object, "/metadata/creationTimestamp")),
    ]
}

fn namespace(namespace: &Value, now: Timestamp) -> Vec<Value> {
    vec![
        name(namespace),
        Value::from(string_at(namespace, "/status/phase")),
        object_age(namespace, now),
    ]
}

fn config_map(map: &Value, now: Timestamp) -> Vec<Value> {
    let count = size(map, "/data") + size(map, "/binaryData");
    vec![name(map), Value::from(count.to_string()), object_age(map, now)]
}

fn secret(secret: &Value, now: Timestamp) -> Vec<Value> {
    let kind = string_at(secret, "/type");
    vec![
        name(secret),
        Value::from(kind),
        Value::from(size(secret, "/data")),
        object_age(secret, now),
    ]
}

fn service_account(account: &Value, now: Timestamp) -> Vec<Value> {
    vec![
        name(account),
        Value::from(size(account, "/secrets").to_string()),
        object_age(account, now),
    ]
}

fn quota(quota: &Value, now: Timestamp) -> Vec<Value> {
    let (mut requests, mut limits) = (Vec::new(), Vec::new());
    for (resource, hard) in quota
        .pointer("/status/hard")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
    {
        let used = quota
            .pointer("/status/used")
            .and_then(|used| used.get(resource))
            .map_or("0".to_owned(), plain);
        let target = if resource.starts_with("limits") {
            &mut limits
        } else {
            &mut requests
        };
        target.push(format!("{resource}: {used}/{}", plain(hard)));
    }
    vec![
        name(quota),
        Value::from(requests.join(", ")),
        Value::from(limits.join(", ")),
        object_age(quota, now),
    ]
}

const EVENT_HEADS: &[&str] = &[
    "Last Seen",
    "Type",
    "Reason",
    "Object",
    "Subobject+",
    "Source+",
    "Message",
    "First Seen+",
    "Count+",
    "Name!+",
];

/// Both forms of an event: that of the core group and that of events.k8s.io.
fn event(event: &Value, now: Timestamp) -> Vec<Value> {
    let either = |core: &'static str, new: &'static str| match string_at(event, core) {
        "" => string_at(event, new),
        found => found,
    };
    let created = either("/eventTime", "/metadata/creationTimestamp");
    let or_created = |time: &str| {
        if time.is_empty() {
            since(created, now)
        } else {
            since(time, now)
        }
    };
    let first = or_created(either("/firstTimestamp", "/deprecatedFirstTimestamp"));
    let series = string_at(event, "/series/lastObservedTime");
    let last_time = either("/lastTimestamp", "/deprecatedLastTimestamp");
    let last = if series.is_empty() {
        or_created(last_time)
    } else {
        since(series, now)
    };
    let count = ["/series/count", "/count", "/deprecatedCount"]
        .iter()
        .find_map(|pointer| {
            event
                .pointer(pointer)
                .and_then(Value::as_i64)
                .filter(|count| *count > 0)
        })
        .unwrap_or(1);
    let kind = either("/involvedObject/kind", "/regarding/kind").to_lowercase();
    let object = match either("/involvedObject/name", "/regarding/name") {
        "" => kind,
        found => format!("{kind}/{found}"),
    };
    let component = match either("/source/component", "/deprecatedSource/component") {
        "" => either("/reportingComponent", "/reportingController"),
        found => found,
    };
    let host = either("/source/host", "/deprecatedSource/host");
    let source = if host.is_empty() {
        component.to_owned()
    } else {
        format!("{component}, {host}")
    };
    vec![
        Value::from(last),
        Value::from(string_at(event, "/type")),
        Value::from(string_at(event, "/reason")),
        Value::from(object),
        Value::from(either("/involvedObject/fieldPath", "/regarding/fieldPath")),
        Value::from(source),
        Value::from(either("/message", "/note").trim()),
        Value::from(first),
        Value::from(count.to_string()),
        name(event),
    ]
}

fn network_policy(policy: &Value, now: Timestamp) -> Vec<Value> {
    vec![
        name(policy),
        pairs(policy.pointer("/spec/podSelector/matchLabels")),
        object_age(policy, now),
    ]
}

fn priority_class(class: &Value, now: Timestamp) -> Vec<Value> {
    let preemption = match string_at(class, "/preemptionPolicy") {
        "" => "PreemptLowerPriority",
        found => found,
    };
    vec![
        name(class),
        class.get("value").cloned().unwrap_or_else(|| Value::from(0)),
        Value::from(class.get("globalDefault").and_then(Value::as_bool).unwrap_or_default()),
        object_age(class, now),
        Value::from(preemption),
    ]
}

fn disruption_budget(budget: &Value, now: Timestamp) -> Vec<Value> {
    let or_na = |pointer: &str| Value::from(budget.pointer(pointer).map_or("N/A".to_owned(), plain));
    vec![
        name(budget),
        or_na("/spec/minAvailable"),
        or_na("/spec/maxUnavailable"),
        budget
            .pointer("/status/disruptionsAllowed")
            .cloned()
            .unwrap_or_else(|| Value::from(0)),
        object_age(budget, now),
    ]
}

fn lease(lease: &Value, now: Timestamp) -> Vec<Value> {
    vec![
        name(lease),
        Value::from(string_at(lease, "/spec/holderIdentity")),
        object_age(lease, now),
    ]
}

fn binding(binding: &Value, now: Timestamp) -> Vec<Value> {
    let role = format!(
        "{}/{}",
        string_at(binding, "/roleRef/kind"),
        string_at(binding, "/roleRef/name")
    );
    let subjects = |kind: &str| {
        let of_kind = list_at(binding, "/subjects")
            .iter()
            .filter(|subject| string_at(subject, "/kind") == kind);
        let words = of_kind.map(|subject| match string_at(subject, "/namespace") {
            "" => string_at(subject, "/name").to_owned(),
            namespace => format!("{namespace}/{}", string_at(subject, "/name")),
        });
        Value::from(words.collect::<Vec<_>>().join(", "))
    };
    vec![
        name(binding),
        none_if_empty(&role),
        object_age(binding, now),
        subjects("User"),
        subjects("Group"),
        subjects("ServiceAccount"),
    ]
}

fn webhooks(configuration: &Value, now: Timestamp) -> Vec<Value> {
    vec![
        name(configuration),
        Value::from(size(configuration, "/webhooks")),
        object_age(configuration, now),
    ]
}
