//! The fields of a pod that its processes may ask for: the downward API.

use basalt_api::quantity::{Format, Quantity};
use k8s_openapi::api::core::v1::{Container, Pod, ResourceFieldSelector};

use super::trouble::Trouble;

/// What the pod object itself does not say yet when its plan is made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Surroundings {
    /// The pod's own address.
    pub(crate) address: String,
    /// The node's address.
    pub(crate) host_address: String,
    /// What the node can give: stands in for a limit that is not set.
    pub(crate) cpu: Quantity,
    /// The same, memory.
    pub(crate) memory: Quantity,
    /// The same, disk.
    pub(crate) storage: Quantity,
}

/// The value of a `fieldRef`; absent for a field that does not exist.
pub(crate) fn field(pod: &Pod, around: &Surroundings, path: &str) -> Option<String> {
    let meta = &pod.metadata;
    let spec = pod.spec.as_ref();
    if let Some((map, key)) = subscript(path) {
        let values = match map {
            "metadata.labels" => &meta.labels,
            "metadata.annotations" => &meta.annotations,
            _ => return None,
        };
        return Some(values.as_ref().and_then(|v| v.get(key)).cloned().unwrap_or_default());
    }
    Some(match path {
        "metadata.name" => meta.name.clone().unwrap_or_default(),
        "metadata.namespace" => meta.namespace.clone().unwrap_or_default(),
        "metadata.uid" => meta.uid.clone().unwrap_or_default(),
        "metadata.labels" => lines(meta.labels.as_ref()),
        "metadata.annotations" => lines(meta.annotations.as_ref()),
        "spec.nodeName" => spec.and_then(|s| s.node_name.clone()).unwrap_or_default(),
        "spec.serviceAccountName" => spec
            .and_then(|s| s.service_account_name.clone())
            .unwrap_or_else(|| "default".to_owned()),
        "status.hostIP" | "status.hostIPs" => around.host_address.clone(),
        "status.podIP" | "status.podIPs" => around.address.clone(),
        _ => return None,
    })
}

/// `metadata.labels['a']` is `a` of `metadata.labels`.
fn subscript(path: &str) -> Option<(&str, &str)> {
    let (map, rest) = path.split_once('[')?;
    let key = rest.strip_suffix(']')?;
    let quoted = |q: char| key.strip_prefix(q).and_then(|k| k.strip_suffix(q));
    Some((map, quoted('\'').or_else(|| quoted('"')).unwrap_or(key)))
}

/// A map as Kubernetes writes it into a file: `key="value"` a line, quotes and such escaped.
fn lines(map: Option<&std::collections::BTreeMap<String, String>>) -> String {
    let lines: Vec<String> = map
        .into_iter()
        .flatten()
        .map(|(key, value)| format!("{key}={value:?}"))
        .collect();
    lines.join("\n")
}

/// The value of a `resourceFieldRef` in a container.
pub(crate) fn resource(
    container: &Container,
    around: &Surroundings,
    selector: &ResourceFieldSelector,
) -> Result<String, Trouble> {
    let wrong = |why: String| Trouble::refused("InvalidResourceField", format!("container {}: {why}", container.name));
    let (kind, name) = selector
        .resource
        .split_once('.')
        .ok_or_else(|| wrong(format!("resourceFieldRef {:?} is none", selector.resource)))?;
    let parse = |text: &str| Quantity::parse(text).map_err(|error| wrong(error.to_string()));
    let given = |map: Option<&std::collections::BTreeMap<String, _>>| {
        map.and_then(|m| m.get(name))
            .map(|q: &k8s_openapi::apimachinery::pkg::api::resource::Quantity| parse(&q.0))
            .transpose()
    };
    let resources = container.resources.as_ref();
    let limit = given(resources.and_then(|r| r.limits.as_ref()))?;
    let whole = match name {
        "cpu" => around.cpu,
        "memory" => around.memory,
        "ephemeral-storage" => around.storage,
        _ => Quantity::ZERO,
    };
    let value = match kind {
        "limits" => limit.unwrap_or(whole),
        "requests" => given(resources.and_then(|r| r.requests.as_ref()))?
            .or(limit)
            .unwrap_or(Quantity::ZERO),
        _ => return Err(wrong(format!("resourceFieldRef {:?} is none", selector.resource))),
    };
    let divisor = match &selector.divisor {
        Some(divisor) => Some(parse(&divisor.0)?).filter(|d| !d.is_zero()),
        None => None,
    }
    .unwrap_or(Quantity::from_units(1, Format::DecimalSi));
    Ok(divided(value, divisor).to_string())
}

/// Rounded up, as Kubernetes does.
fn divided(value: Quantity, divisor: Quantity) -> i128 {
    let (value, divisor) = (value.nano().max(0), divisor.nano().max(1));
    value.div_euclid(divisor) + i128::from(value.rem_euclid(divisor) != 0)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use serde_json::{Value, json};

    pub(crate) fn around() -> Surroundings {
        Surroundings {
            address: "127.64.0.9".to_owned(),
            host_address: "127.0.0.1".to_owned(),
            cpu: Quantity::from_units(4, Format::DecimalSi),
            memory: Quantity::from_units(8 << 30, Format::BinarySi),
            storage: Quantity::from_units(100, Format::BinarySi),
        }
    }

    #[test]
    fn fields_of_a_pod() {
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {"name": "p", "namespace": "n", "uid": "u", "labels": {"a": "1", "b/c": "x\"y"}, "annotations": {"k": "v"}},
            "spec": {"nodeName": "m", "serviceAccountName": "s", "containers": []},
        }))
        .unwrap();
        let check = |path: &str, expected: Option<&str>| {
            assert_eq!(field(&pod, &around(), path).as_deref(), expected, "{path}");
        };
        check("metadata.name", Some("p"));
        check("metadata.namespace", Some("n"));
        check("metadata.uid", Some("u"));
        check("metadata.labels", Some("a=\"1\"\nb/c=\"x\\\"y\""));
        check("metadata.labels['b/c']", Some("x\"y"));
        check("metadata.labels['none']", Some(""));
        check("metadata.annotations['k']", Some("v"));
        check("metadata.annotations[\"k\"]", Some("v"));
        check("metadata.finalizers['k']", None);
        check("spec.nodeName", Some("m"));
        check("spec.serviceAccountName", Some("s"));
        check("status.podIP", Some("127.64.0.9"));
        check("status.podIPs", Some("127.64.0.9"));
        check("status.hostIP", Some("127.0.0.1"));
        check("status.phase", None);
    }

    #[test]
    fn resources_of_a_container() {
        let check = |resources: Value, resource_name: &str, divisor: Option<&str>, expected: Option<&str>| {
            let container: Container = serde_json::from_value(json!({"name": "c", "resources": resources})).unwrap();
            let selector: ResourceFieldSelector =
                serde_json::from_value(json!({"resource": resource_name, "divisor": divisor})).unwrap();
            let found = resource(&container, &around(), &selector).ok();
            assert_eq!(found.as_deref(), expected, "{resources} {resource_name} {divisor:?}");
        };
        let some = json!({"limits": {"cpu": "1500m", "memory": "64Mi"}, "requests": {"cpu": "250m"}});
        check(some.clone(), "limits.cpu", None, Some("2"));
        check(some.clone(), "limits.cpu", Some("1m"), Some("1500"));
        check(some.clone(), "requests.cpu", Some("1m"), Some("250"));
        check(some.clone(), "requests.memory", Some("1Mi"), Some("64"));
        check(some.clone(), "limits.memory", Some("0"), Some("67108864"));
        check(some.clone(), "limits.gpu", None, Some("0"));
        check(some.clone(), "memory", None, None);
        check(some, "wishes.cpu", None, None);
        check(json!({}), "limits.cpu", None, Some("4"));
        check(json!({}), "limits.memory", Some("1Gi"), Some("8"));
        check(json!({}), "requests.cpu", None, Some("0"));
        check(json!({"limits": {"cpu": "no"}}), "limits.cpu", None, None);
    }
}
