//! What pods ask of nodes, added up.

use std::collections::BTreeMap;

use basalt_api::Quantity;
use basalt_api::json::string_at;
use serde_json::Value;

use crate::resources::amount;

/// Amounts by resource.
pub(super) type Amounts = BTreeMap<String, Quantity>;

/// What is on one node.
#[derive(Debug, Default)]
pub(super) struct Load<'a> {
    /// Pods that have not ended.
    pub(super) pods: Vec<&'a Value>,
    /// What they ask for in all.
    pub(super) used: Amounts,
}

/// What is on each node.
pub(super) fn loads(pods: &[Value]) -> BTreeMap<&str, Load<'_>> {
    let mut loads: BTreeMap<&str, Load<'_>> = BTreeMap::new();
    for pod in pods {
        let node = string_at(pod, "/spec/nodeName");
        if !node.is_empty() && !matches!(string_at(pod, "/status/phase"), "Succeeded" | "Failed") {
            let load = loads.entry(node).or_default();
            load.pods.push(pod);
            add(&mut load.used, &request(pod));
        }
    }
    loads
}

/// What a pod takes: its containers and sidecars together, or one init container with the sidecars before it, whichever
/// is more; and its overhead.
fn request(pod: &Value) -> Amounts {
    let spec = &pod["spec"];
    let containers = |key: &str| spec[key].as_array().into_iter().flatten();
    let (mut together, mut peak) = (Amounts::new(), Amounts::new());
    for container in containers("initContainers") {
        let mut need = together.clone();
        add(&mut need, &of(&container["resources"]));
        if string_at(container, "/restartPolicy") == "Always" {
            together.clone_from(&need);
        }
        raise(&mut peak, &need);
    }
    for container in containers("containers") {
        add(&mut together, &of(&container["resources"]));
    }
    raise(&mut peak, &together);
    peak.extend(of(&spec["resources"]));
    add(&mut peak, &list(&spec["overhead"]));
    peak
}

/// Requests; a limit without a request counts as one.
fn of(resources: &Value) -> Amounts {
    let mut need = list(&resources["limits"]);
    need.extend(list(&resources["requests"]));
    need
}

fn list(list: &Value) -> Amounts {
    let names = list.as_object().into_iter().flat_map(serde_json::Map::keys);
    names
        .filter_map(|name| Some((name.clone(), amount(list, name)?)))
        .collect()
}

fn add(sum: &mut Amounts, more: &Amounts) {
    for (name, amount) in more {
        let total = sum.get(name).map_or(*amount, |sum| sum.saturating_add(*amount));
        sum.insert(name.clone(), total);
    }
}

fn raise(peak: &mut Amounts, other: &Amounts) {
    for (name, amount) in other {
        let most = peak.get(name).map_or(*amount, |most| *most.max(amount));
        peak.insert(name.clone(), most);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_a_pod_takes() {
        let check = |spec: Value, expected: &str| {
            let used = request(&json!({"spec": spec}));
            let used: Vec<String> = used.iter().map(|(name, amount)| format!("{name}={amount}")).collect();
            assert_eq!(used.join(","), expected);
        };
        let cpu = |amount: &str| json!({"resources": {"requests": {"cpu": amount}}});
        let mut sidecar = cpu("1");
        sidecar["restartPolicy"] = json!("Always");
        check(json!({}), "");
        check(json!("odd"), "");
        check(json!({"containers": [cpu("500m"), cpu("1")]}), "cpu=1500m");
        check(
            json!({"containers": [{"resources": {"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "1"}}}]}),
            "cpu=1,memory=1Gi",
        );
        check(json!({"containers": [cpu("1")], "initContainers": [cpu("3")]}), "cpu=3");
        check(
            json!({"containers": [cpu("2")], "initContainers": [sidecar, cpu("1")]}),
            "cpu=3",
        );
        check(
            json!({"containers": [cpu("2")], "overhead": {"cpu": "250m"}}),
            "cpu=2250m",
        );
        check(
            json!({"containers": [cpu("2")], "resources": {"requests": {"cpu": "1"}}}),
            "cpu=1",
        );
    }
}
