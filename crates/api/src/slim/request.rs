//! What a pod takes from its node, as Kubernetes counts it.

use crate::quantity::{Quantity, ResourceList};

use super::pod::{Container, PodSpec, Resources};

/// The effective request: the larger of what runs together and what any init container needs at its time
/// (sidecars that started before it included), plus overhead. Requests that are not given follow the limits.
pub fn request(spec: &PodSpec) -> ResourceList {
    total(spec, |resources| {
        let mut requests = resources.requests.clone();
        for (name, limit) in &resources.limits {
            requests.entry(name.clone()).or_insert(*limit);
        }
        requests
    })
}

/// The same for limits. A resource that some container does not limit is as small as the others make it.
pub fn limit(spec: &PodSpec) -> ResourceList {
    total(spec, |resources| resources.limits.clone())
}

fn total(spec: &PodSpec, of: impl Fn(&Resources) -> ResourceList) -> ResourceList {
    let mut together = ResourceList::new();
    for container in &spec.containers {
        add(&mut together, &of(&container.resources));
    }
    let mut sidecars = ResourceList::new();
    let mut starting = ResourceList::new();
    for container in &spec.init_containers {
        let own = of(&container.resources);
        if Container::is_sidecar(container) {
            add(&mut together, &own);
            add(&mut sidecars, &own);
            raise(&mut starting, &sidecars);
        } else {
            let mut at_its_time = sidecars.clone();
            add(&mut at_its_time, &own);
            raise(&mut starting, &at_its_time);
        }
    }
    raise(&mut together, &starting);
    if let Some(resources) = &spec.resources {
        // What the pod says of itself as a whole replaces the sum of its containers.
        for (name, amount) in of(resources).into_iter().filter(|(name, _)| is_pod_level(name)) {
            together.insert(name, amount);
        }
    }
    add(&mut together, &spec.overhead);
    together
}

/// Resources that can be given to a pod as a whole.
fn is_pod_level(name: &str) -> bool {
    name == "cpu" || name == "memory" || name.starts_with("hugepages-")
}

fn add(sum: &mut ResourceList, other: &ResourceList) {
    for (name, amount) in other {
        let entry = sum.entry(name.clone()).or_insert(Quantity::ZERO);
        *entry = entry.saturating_add(*amount);
    }
}

fn raise(most: &mut ResourceList, other: &ResourceList) {
    for (name, amount) in other {
        let entry = most.entry(name.clone()).or_insert(*amount);
        *entry = (*entry).max(*amount);
    }
}
