//! What fake nodes look like, and making many of them.

use std::collections::{BTreeMap, BTreeSet};

use basalt_api::backoff::Backoff;
use basalt_api::names::FAKE_NODE;
use basalt_api::quantity::Quantity;
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};
use std::net::Ipv4Addr;
use std::time::Duration;

use super::facts::NodeFacts;
use super::wire::{self, SlimNode};
use super::{FAKE_SELECTOR, status};
use crate::NodeError;

/// How many nodes are created at once.
const CREATES_IN_FLIGHT: usize = 64;
/// How often a create is tried again where the server is busy.
const CREATE_RETRIES: u32 = 6;
/// The delays between these attempts.
const RETRY: Backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(10));
/// Enough for any test of scale; more is a slip of the finger.
pub const NODES_MAX: u32 = 1_000_000;

/// The resources of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Size(BTreeMap<String, String>);

impl Size {
    /// A size from quantities as Kubernetes writes them, in canonical form.
    pub fn new(cpu: &str, memory: &str, gpu: Option<&str>) -> Result<Self, NodeError> {
        let mut resources = Self::default().0;
        let gpu = gpu.map(|gpu| ("nvidia.com/gpu", gpu));
        for (dimension, value) in [("cpu", cpu), ("memory", memory)].into_iter().chain(gpu) {
            let quantity = quantity(dimension, value)?;
            if dimension == "nvidia.com/gpu" && quantity == "0" {
                continue;
            }
            resources.insert(dimension.to_owned(), quantity);
        }
        Ok(Self(resources))
    }

    /// Dimension and quantity.
    pub fn resources(&self) -> &BTreeMap<String, String> {
        &self.0
    }
}

impl Default for Size {
    /// 16 cores, 64 GiB, 110 pods.
    fn default() -> Self {
        let pairs = [
            ("cpu", "16"),
            ("ephemeral-storage", "256Gi"),
            ("memory", "64Gi"),
            ("pods", "110"),
        ];
        Self(pairs.into_iter().map(|(k, v)| (k.to_owned(), v.to_owned())).collect())
    }
}

fn quantity(dimension: &str, value: &str) -> Result<String, NodeError> {
    let refuse = |why: String| NodeError::Quantity {
        dimension: dimension.to_owned(),
        value: value.to_owned(),
        why,
    };
    let quantity = Quantity::parse(value).map_err(|e| refuse(e.to_string()))?;
    if quantity.milli().map_err(|e| refuse(e.to_string()))? < 0 {
        return Err(refuse("it is negative".to_owned()));
    }
    Ok(quantity.to_string())
}

/// The manifest that all created nodes follow.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeTemplate {
    name: String,
    manifest: Value,
}

impl NodeTemplate {
    /// Nodes `node-0`, `node-1`, … of one size.
    pub fn of_size(size: &Size) -> Self {
        let manifest = json!({
            "apiVersion": "v1", "kind": "Node", "metadata": {},
            "status": {"allocatable": size.resources(), "capacity": size.resources()},
        });
        Self {
            name: "node".to_owned(),
            manifest,
        }
    }

    /// Nodes after a Node manifest: its labels, annotations, taints, allocatable and capacity are kept and its name (`node` if
    /// it has none) gets `-0`, `-1`, … appended. What its status leaves open is filled from `size`.
    pub fn from_yaml(text: &str, size: &Size) -> Result<Self, NodeError> {
        let mut manifest: Value =
            serde_saphyr::from_str(text).map_err(|e| NodeError::Template(format!("not a YAML document: {e}")))?;
        let kind = (manifest["apiVersion"].as_str(), manifest["kind"].as_str());
        if kind != (Some("v1"), Some("Node")) {
            return Err(NodeError::Template("apiVersion must be v1 and kind Node".to_owned()));
        }
        let typed: Node = serde_json::from_value(manifest.clone()).map_err(|e| NodeError::Template(e.to_string()))?;
        let status = typed.status.unwrap_or_default();
        for (dimension, value) in status.allocatable.iter().chain(&status.capacity).flatten() {
            quantity(dimension, &value.0)?;
        }
        let given = [&status.allocatable, &status.capacity]
            .into_iter()
            .find_map(|r| r.as_ref().filter(|r| !r.is_empty()));
        let mut resources = size.resources().clone();
        resources.extend(given.into_iter().flatten().map(|(k, v)| (k.clone(), v.0.clone())));
        for field in ["allocatable", "capacity"] {
            let slot = &mut manifest["status"][field];
            if slot.as_object().is_none_or(serde_json::Map::is_empty) {
                *slot = json!(resources);
            }
        }
        let name = typed.metadata.name.unwrap_or_else(|| "node".to_owned());
        Ok(Self { name, manifest })
    }

    /// The name of node `index`.
    pub fn name_of(&self, index: u32) -> String {
        format!("{}-{index}", self.name)
    }

    /// Whether a node of this name may be one of these.
    pub fn names(&self, name: &str) -> bool {
        name.strip_prefix(&self.name)
            .and_then(|rest| rest.strip_prefix('-'))
            .is_some_and(|index| !index.is_empty() && index.bytes().all(|b| b.is_ascii_digit()))
    }

    /// Node `index`, Ready.
    pub fn node(&self, index: u32, now: jiff::Timestamp) -> Result<Node, NodeError> {
        let name = self.name_of(index);
        let mut manifest = self.manifest.clone();
        let metadata = &mut manifest["metadata"];
        metadata["name"] = json!(name);
        for (label, value) in status::node_labels(&name)
            .into_iter()
            .chain([(FAKE_NODE, "true".to_owned())])
        {
            metadata["labels"][label] = json!(value);
        }
        let resources =
            |field: &str| serde_json::from_value(self.manifest["status"][field].clone()).unwrap_or_default();
        let facts = NodeFacts {
            name,
            capacity: resources("capacity"),
            allocatable: resources("allocatable"),
            ..NodeFacts::default()
        };
        // 172.16.0.1 is node 0's: the block has room for 2^20 - 1 nodes.
        let address = Ipv4Addr::from(u32::from(Ipv4Addr::new(172, 16, 0, 1)).saturating_add(index));
        manifest["status"] =
            status::node_status(&facts, address, &Size::default(), now.as_millisecond())["status"].take();
        serde_json::from_value(manifest).map_err(|e| NodeError::Template(e.to_string()))
    }
}

/// What [`create_nodes`] did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Created {
    /// Nodes that were missing and now exist.
    pub created: u32,
    /// Nodes that existed and were left as they were.
    pub kept: u32,
}

/// Makes sure that nodes 0 to `count` - 1 of a template exist; existing ones are kept as they are.
pub async fn create_nodes(client: Client, count: u32, template: &NodeTemplate) -> Result<Created, NodeError> {
    if count > NODES_MAX {
        return Err(NodeError::Template(format!(
            "{count} nodes are more than the {NODES_MAX} that are supported"
        )));
    }
    let nodes: Api<Node> = Api::all(client);
    let known = nodes
        .list_metadata(&ListParams::default())
        .await
        .map_err(|e| NodeError::List(Box::new(e)))?;
    let known: BTreeSet<String> = known.into_iter().map(|n| n.name_any()).collect();
    let now = jiff::Timestamp::now();
    let missing = (0..count).filter(|index| !known.contains(&template.name_of(*index)));
    let created = stream::iter(missing)
        .map(|index| create(&nodes, template.node(index, now)))
        .buffer_unordered(CREATES_IN_FLIGHT)
        .try_fold(0_u32, async |sum, new: bool| Ok(sum + u32::from(new)))
        .await?;
    Ok(Created {
        created,
        kept: count - created,
    })
}

/// How many of the nodes 0 to `count` - 1 of a template are not Ready, or tainted as if they were not.
pub async fn nodes_not_ready(client: Client, count: u32, template: &NodeTemplate) -> Result<usize, NodeError> {
    let nodes: Api<SlimNode> = Api::all_with(client, &wire::node_resource());
    let all = nodes
        .list(&ListParams::default().labels(FAKE_SELECTOR))
        .await
        .map_err(|e| NodeError::List(Box::new(e)))?;
    let ready: BTreeSet<String> = all
        .into_iter()
        .filter_map(wire::node_facts)
        .filter(NodeFacts::complete)
        .map(|facts| facts.name)
        .collect();
    Ok((0..count)
        .filter(|index| !ready.contains(&template.name_of(*index)))
        .count())
}

/// Creates one node; `false` if somebody else was faster.
async fn create(nodes: &Api<Node>, node: Result<Node, NodeError>) -> Result<bool, NodeError> {
    let node = node?;
    let name = node.name_any();
    let refuse = |source| NodeError::Create {
        name: name.clone(),
        source: Box::new(source),
    };
    let mut made = nodes.create(&PostParams::default(), &node).await;
    let mut backoff = RETRY;
    for _ in 0..CREATE_RETRIES {
        let busy = matches!(&made, Err(kube::Error::Api(status)) if matches!(status.code, 429 | 503 | 504));
        if !busy {
            break;
        }
        tokio::time::sleep(backoff.next_delay()).await;
        made = nodes.create(&PostParams::default(), &node).await;
    }
    let made = match made {
        Ok(made) => made,
        Err(kube::Error::Api(status)) if status.code == 409 => return Ok(false),
        Err(error) => return Err(refuse(error)),
    };
    // Kubernetes keeps the status that a node is registered with; a server that does not gets it once more.
    if made.status.and_then(|s| s.allocatable).is_none_or(|a| a.is_empty()) {
        let patch = json!({"status": node.status});
        nodes
            .patch_status(&name, &PatchParams::default(), &Patch::Strategic(patch))
            .await
            .map_err(refuse)?;
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> jiff::Timestamp {
        jiff::Timestamp::from_second(1_700_000_000).unwrap()
    }

    #[test]
    fn sizes_are_canonical_quantities() {
        let size = Size::new("1.5", "0.5Gi", Some("8")).unwrap();
        let got: Vec<(&str, &str)> = size.0.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        let rest = [("memory", "512Mi"), ("nvidia.com/gpu", "8"), ("pods", "110")];
        assert_eq!(got[..2], [("cpu", "1500m"), ("ephemeral-storage", "256Gi")]);
        assert_eq!(got[2..], rest);
        assert!(
            !Size::new("1", "1Gi", Some("0"))
                .unwrap()
                .0
                .contains_key("nvidia.com/gpu")
        );
        for (cpu, memory) in [("2c", "1Gi"), ("-1", "1Gi"), ("1", ""), ("1", "1GB")] {
            assert!(Size::new(cpu, memory, None).is_err(), "{cpu} {memory}");
        }
    }

    #[test]
    fn a_node_of_a_size_is_ready_and_labelled() {
        let node = NodeTemplate::of_size(&Size::default()).node(3, now()).unwrap();
        assert_eq!(node.name_any(), "node-3");
        assert_eq!(node.labels()[FAKE_NODE], "true");
        assert_eq!(node.labels()["kubernetes.io/hostname"], "node-3");
        let status = node.status.unwrap();
        assert_eq!(status.allocatable.unwrap()["cpu"].0, "16");
        assert!(
            status
                .conditions
                .unwrap()
                .iter()
                .any(|c| c.type_ == "Ready" && c.status == "True")
        );
        assert_eq!(status.addresses.unwrap()[0].address, "172.16.0.4");
    }

    #[test]
    fn a_template_keeps_what_it_says() {
        let yaml = "apiVersion: v1\nkind: Node\nmetadata:\n  name: gpu\n  labels: {zone: a}\nspec:\n  taints: [{key: gpu, effect: NoSchedule}]\nstatus:\n  allocatable: {cpu: 64, nvidia.com/gpu: '8'}\n";
        let node = NodeTemplate::from_yaml(yaml, &Size::default())
            .unwrap()
            .node(0, now())
            .unwrap();
        assert_eq!(node.name_any(), "gpu-0");
        assert_eq!(node.labels()["zone"], "a");
        assert_eq!(node.labels()[FAKE_NODE], "true");
        assert_eq!(node.spec.unwrap().taints.unwrap()[0].key, "gpu");
        let status = node.status.unwrap();
        assert_eq!(status.allocatable.as_ref().unwrap()["cpu"].0, "64");
        assert_eq!(status.capacity.unwrap()["nvidia.com/gpu"].0, "8");
    }

    #[test]
    fn a_template_knows_its_nodes_by_name() {
        let template = NodeTemplate::of_size(&Size::default());
        for (name, its) in [
            ("node-0", true),
            ("node-123", true),
            ("node-", false),
            ("node-1a", false),
            ("nodes-1", false),
            ("a-node-1", false),
        ] {
            assert_eq!(template.names(name), its, "{name}");
        }
    }

    #[test]
    fn a_bad_template_is_refused() {
        for (yaml, why) in [
            ("kind: Pod\napiVersion: v1\n", "apiVersion must be v1 and kind Node"),
            (": :\n  - [", "not a YAML document"),
            (
                "apiVersion: v1\nkind: Node\nmetadata: {}\nstatus: {allocatable: {cpu: 2c}}\n",
                "not a quantity",
            ),
            ("apiVersion: v1\nkind: Node\nmetadata: {labels: 3}\n", "node template"),
        ] {
            let error = NodeTemplate::from_yaml(yaml, &Size::default()).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }
}
