//! GPUs: found through the driver, given to one pod at a time.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::Pod;
use nvml_wrapper::Nvml;

use super::status::{containers_of, is_sidecar};

/// The resource that they are asked for by.
pub(crate) const RESOURCE: &str = "nvidia.com/gpu";

/// A GPU of this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gpu {
    /// What CUDA knows it by.
    pub uuid: String,
    /// Its model.
    pub product: String,
    /// Bytes.
    pub memory: u64,
}

/// All GPUs, and what is said about them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Gpus {
    /// In the driver's order.
    pub devices: Vec<Gpu>,
    /// CUDA's version that the driver knows, `major.minor`.
    pub cuda: String,
    /// The driver's version.
    pub driver: String,
}

impl Gpus {
    /// Asks the driver; a machine without one has no GPUs.
    pub fn find() -> Self {
        let nvml = match Nvml::init() {
            Ok(nvml) => nvml,
            Err(error) => {
                tracing::debug!(%error, "no GPUs: the driver's library does not answer");
                return Self::default();
            }
        };
        let count = nvml.device_count().unwrap_or(0);
        let devices = (0..count)
            .filter_map(|index| {
                match nvml.device_by_index(index).and_then(|d| {
                    Ok(Gpu {
                        uuid: d.uuid()?,
                        product: d.name()?,
                        memory: d.memory_info().map_or(0, |m| m.total),
                    })
                }) {
                    Ok(gpu) => Some(gpu),
                    Err(error) => {
                        tracing::warn!(index, %error, "a GPU does not answer and is left out");
                        None
                    }
                }
            })
            .collect();
        let cuda = nvml.sys_cuda_driver_version().unwrap_or(0);
        Self {
            devices,
            cuda: format!("{}.{}", cuda / 1000, cuda % 1000 / 10),
            driver: nvml.sys_driver_version().unwrap_or_default(),
        }
    }

    /// What the node's labels say about them.
    pub(crate) fn labels(&self) -> BTreeMap<String, String> {
        let Some(first) = self.devices.first() else {
            return BTreeMap::new();
        };
        let (major, minor) = self.cuda.split_once('.').unwrap_or((&self.cuda, "0"));
        [
            ("nvidia.com/gpu.present", "true".to_owned()),
            ("nvidia.com/gpu.product", label_value(&first.product)),
            ("nvidia.com/gpu.memory", (first.memory >> 20).to_string()),
            ("nvidia.com/gpu.count", self.devices.len().to_string()),
            ("nvidia.com/cuda.runtime.major", major.to_owned()),
            ("nvidia.com/cuda.runtime.minor", minor.to_owned()),
            ("nvidia.com/cuda.driver-version.full", label_value(&self.driver)),
        ]
        .into_iter()
        .map(|(key, value)| (key.to_owned(), value))
        .collect()
    }
}

/// A text as a label can hold it.
fn label_value(text: &str) -> String {
    let word: String = text
        .chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() || "-_.".contains(c) {
                c
            } else {
                '-'
            }
        })
        .take(63)
        .collect();
    word.trim_matches(|c: char| !c.is_ascii_alphanumeric()).to_owned()
}

/// How many GPUs each container asks for.
pub(crate) fn wanted(pod: &Pod) -> BTreeMap<String, usize> {
    let (init, main) = containers_of(pod);
    init.iter()
        .chain(main)
        .filter_map(|container| {
            let resources = container.resources.as_ref()?;
            let stated = |map: Option<&BTreeMap<String, k8s_openapi::apimachinery::pkg::api::resource::Quantity>>| {
                map.and_then(|m| m.get(RESOURCE)).and_then(|q| {
                    let units = basalt_api::quantity::Quantity::parse(&q.0).ok()?.units().ok()?;
                    usize::try_from(units).ok()
                })
            };
            let count = stated(resources.limits.as_ref()).or_else(|| stated(resources.requests.as_ref()))?;
            (count > 0).then(|| (container.name.clone(), count))
        })
        .collect()
}

/// GPUs for the containers of one pod, of those that are free; absent if there are too few.
///
/// Containers that run side by side get different ones; init containers, which run before, take of the pod's own.
pub(crate) fn allot(pod: &Pod, all: &[String], taken: &BTreeSet<String>) -> Option<BTreeMap<String, Vec<String>>> {
    let wanted = wanted(pod);
    let count = |name: &str| wanted.get(name).copied().unwrap_or(0);
    let (init, main) = containers_of(pod);
    let lasting: Vec<&str> = main
        .iter()
        .chain(init.iter().filter(|c| is_sidecar(c)))
        .map(|c| c.name.as_str())
        .collect();
    let passing: Vec<&str> = init
        .iter()
        .filter(|c| !is_sidecar(c))
        .map(|c| c.name.as_str())
        .collect();
    let together: usize = lasting.iter().map(|name| count(name)).sum();
    let most = passing.iter().map(|name| count(name)).max().unwrap_or(0).max(together);
    let own: Vec<String> = all
        .iter()
        .filter(|gpu| !taken.contains(*gpu))
        .take(most)
        .cloned()
        .collect();
    if own.len() < most {
        return None;
    }
    let mut given = BTreeMap::new();
    let mut rest = own.iter();
    for name in lasting.into_iter().filter(|name| count(name) > 0) {
        given.insert(name.to_owned(), rest.by_ref().take(count(name)).cloned().collect());
    }
    for name in passing.into_iter().filter(|name| count(name) > 0) {
        given.insert(name.to_owned(), own.iter().take(count(name)).cloned().collect());
    }
    Some(given)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pod(init: &[(&str, u64, bool)], main: &[(&str, u64)]) -> Pod {
        let container = |name: &str, gpus: u64, sidecar: bool| json!({"name": name, "restartPolicy": sidecar.then_some("Always"), "resources": {"limits": {RESOURCE: gpus.to_string()}}});
        let init: Vec<_> = init.iter().map(|(n, g, s)| container(n, *g, *s)).collect();
        let main: Vec<_> = main.iter().map(|(n, g)| container(n, *g, false)).collect();
        serde_json::from_value(json!({"spec": {"initContainers": init, "containers": main}})).unwrap()
    }

    #[test]
    fn gpus_are_given_once() {
        let all: Vec<String> = ["a", "b", "c", "d"].map(str::to_owned).into();
        let check = |pod: Pod, taken: &[&str], expected: Option<&[(&str, &[&str])]>| {
            let taken = taken.iter().map(|g| (*g).to_owned()).collect();
            let expected: Option<BTreeMap<String, Vec<String>>> = expected.map(|list| {
                list.iter()
                    .map(|(name, gpus)| ((*name).to_owned(), gpus.iter().map(|g| (*g).to_owned()).collect()))
                    .collect()
            });
            assert_eq!(allot(&pod, &all, &taken), expected);
        };
        check(pod(&[], &[("m", 0)]), &[], Some(&[]));
        check(pod(&[], &[("m", 2)]), &[], Some(&[("m", &["a", "b"])]));
        check(pod(&[], &[("m", 2)]), &["a", "c"], Some(&[("m", &["b", "d"])]));
        check(pod(&[], &[("m", 2)]), &["a", "b", "c"], None);
        check(
            pod(&[], &[("m", 1), ("n", 2)]),
            &["a"],
            Some(&[("m", &["b"]), ("n", &["c", "d"])]),
        );
        check(
            pod(&[("i", 2, false)], &[("m", 1)]),
            &[],
            Some(&[("i", &["a", "b"]), ("m", &["a"])]),
        );
        check(
            pod(&[("s", 1, true)], &[("m", 1)]),
            &[],
            Some(&[("m", &["a"]), ("s", &["b"])]),
        );
        check(pod(&[], &[("m", 5)]), &[], None);
    }

    proptest::proptest! {
        #[test]
        fn never_one_gpu_to_two(requests in proptest::collection::vec((0_u64..4, 0_u64..4, proptest::bool::ANY), 1..30)) {
            let all: Vec<String> = (0..8).map(|n| n.to_string()).collect();
            let mut held: Vec<BTreeSet<String>> = Vec::new();
            for (main, other, ends) in requests {
                let taken: BTreeSet<String> = held.iter().flatten().cloned().collect();
                if let Some(given) = allot(&pod(&[("i", other, false)], &[("m", main), ("n", other)]), &all, &taken) {
                    proptest::prop_assert!(given.values().flatten().all(|gpu| !taken.contains(gpu)));
                    let (m, n) = (given.get("m").cloned().unwrap_or_default(), given.get("n").cloned().unwrap_or_default());
                    proptest::prop_assert!(m.iter().all(|gpu| !n.contains(gpu)));
                    proptest::prop_assert_eq!((m.len() as u64, n.len() as u64), (main, other));
                    held.push(given.into_values().flatten().collect());
                }
                if ends {
                    held.pop();
                }
            }
        }
    }

    #[test]
    fn labels_hold_what_labels_can() {
        let check = |text: &str, expected: &str| assert_eq!(label_value(text), expected, "{text}");
        check("NVIDIA H200", "NVIDIA-H200");
        check("(odd) name!", "odd--name");
        check("580.95.05", "580.95.05");
        check(&"x".repeat(80), &"x".repeat(63));
    }
}
