//! A pod, slim.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Affinity, Toleration, TopologySpreadConstraint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use serde::{Deserialize, Serialize};

use crate::names;
use crate::quantity::ResourceList;
use crate::wire::{or_default, unset};

/// A pod.
#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq)]
#[serde(default)]
pub struct Pod {
    /// Name, labels, annotations, owners.
    #[serde(deserialize_with = "super::metadata")]
    pub metadata: ObjectMeta,
    /// What it needs.
    #[serde(deserialize_with = "or_default")]
    pub spec: PodSpec,
    /// How it is.
    #[serde(deserialize_with = "or_default")]
    pub status: PodStatus,
    /// See [`Pod::keep_annotations`].
    #[serde(skip)]
    kept: Box<[(&'static str, Box<str>)]>,
}

/// What a pod needs.
#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct PodSpec {
    /// The node that it is bound to.
    #[serde(skip_serializing_if = "unset", deserialize_with = "or_default")]
    pub node_name: String,
    /// The scheduler that serves it.
    #[serde(skip_serializing_if = "unset", deserialize_with = "or_default")]
    pub scheduler_name: String,
    /// Containers.
    #[serde(skip_serializing_if = "unset", deserialize_with = "or_default")]
    pub containers: Vec<Container>,
    /// Containers that run first; with `restartPolicy: Always`, beside the others.
    #[serde(skip_serializing_if = "unset", deserialize_with = "or_default")]
    pub init_containers: Vec<Container>,
    /// Resources of the pod as a whole.
    #[serde(skip_serializing_if = "unset")]
    pub resources: Option<Resources>,
    /// What the runtime takes for itself.
    #[serde(skip_serializing_if = "unset", deserialize_with = "or_default")]
    pub overhead: ResourceList,
    /// Resolved priority.
    #[serde(skip_serializing_if = "unset")]
    pub priority: Option<i32>,
    /// Name of the priority class.
    #[serde(skip_serializing_if = "unset", deserialize_with = "or_default")]
    pub priority_class_name: String,
    /// `Never` keeps it from evicting others.
    #[serde(skip_serializing_if = "unset", deserialize_with = "or_default")]
    pub preemption_policy: String,
    /// Labels that its node must have.
    #[serde(skip_serializing_if = "unset", deserialize_with = "or_default")]
    pub node_selector: BTreeMap<String, String>,
    /// Nodes and pods that it wants or avoids.
    #[serde(skip_serializing_if = "unset")]
    pub affinity: Option<Box<Affinity>>,
    /// Taints that it bears.
    #[serde(skip_serializing_if = "unset", deserialize_with = "or_default")]
    pub tolerations: Vec<Toleration>,
    /// How evenly it wants to be spread.
    #[serde(skip_serializing_if = "unset", deserialize_with = "or_default")]
    pub topology_spread_constraints: Vec<TopologySpreadConstraint>,
    /// What holds it back.
    #[serde(skip_serializing_if = "unset", deserialize_with = "or_default")]
    pub scheduling_gates: Vec<SchedulingGate>,
    /// Volumes, for their claims.
    #[serde(skip_serializing_if = "unset", deserialize_with = "or_default")]
    pub volumes: Vec<Volume>,
    /// Time to stop.
    #[serde(skip_serializing_if = "unset")]
    pub termination_grace_period_seconds: Option<i64>,
    /// What happens when a container ends.
    #[serde(skip_serializing_if = "unset", deserialize_with = "or_default")]
    pub restart_policy: String,
    /// Uses its node's network.
    #[serde(skip_serializing_if = "unset", deserialize_with = "or_default")]
    pub host_network: bool,
}

/// A container, for what it takes.
#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub struct Container {
    /// Its name.
    #[serde(skip_serializing_if = "unset", deserialize_with = "or_default")]
    pub name: String,
    /// Its image.
    #[serde(skip_serializing_if = "unset", deserialize_with = "or_default")]
    pub image: String,
    /// What it takes.
    #[serde(skip_serializing_if = "unset", deserialize_with = "or_default")]
    pub resources: Resources,
    /// Its ports; those with a host port bind the node's.
    #[serde(skip_serializing_if = "unset", deserialize_with = "or_default")]
    pub ports: Vec<HostPort>,
    /// `Always` on an init container makes it a sidecar.
    #[serde(skip_serializing_if = "unset", deserialize_with = "or_default")]
    pub restart_policy: String,
}

impl Container {
    /// Whether this init container runs beside the others.
    pub fn is_sidecar(&self) -> bool {
        self.restart_policy == "Always"
    }
}

/// Requests and limits.
#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub struct Resources {
    /// What is set aside.
    #[serde(skip_serializing_if = "unset", deserialize_with = "or_default")]
    pub requests: ResourceList,
    /// What is never exceeded.
    #[serde(skip_serializing_if = "unset", deserialize_with = "or_default")]
    pub limits: ResourceList,
}

/// A port of a container.
#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq, Eq, PartialOrd, Ord)]
#[serde(rename_all = "camelCase", default)]
pub struct HostPort {
    /// The node's port; 0 for none.
    #[serde(skip_serializing_if = "unset", deserialize_with = "or_default")]
    pub host_port: i32,
    /// The node's address; empty for all.
    #[serde(skip_serializing_if = "unset", rename = "hostIP", deserialize_with = "or_default")]
    pub host_ip: String,
    /// Empty is TCP.
    #[serde(skip_serializing_if = "unset", deserialize_with = "or_default")]
    pub protocol: String,
    /// The container's port.
    #[serde(skip_serializing_if = "unset", deserialize_with = "or_default")]
    pub container_port: i32,
}

/// A gate that someone has to lift.
#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq, Eq)]
#[serde(default)]
pub struct SchedulingGate {
    /// Its name.
    pub name: String,
}

/// A volume, for its claim.
#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub struct Volume {
    /// Its name.
    #[serde(skip_serializing_if = "unset", deserialize_with = "or_default")]
    pub name: String,
    /// The claim that it uses.
    #[serde(skip_serializing_if = "unset")]
    pub persistent_volume_claim: Option<ClaimSource>,
    /// The claim is made for the pod, under the name `<pod>-<volume>`.
    #[serde(skip_serializing_if = "unset")]
    pub ephemeral: Option<Ephemeral>,
}

/// A claim by name.
#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub struct ClaimSource {
    /// Name of the claim.
    pub claim_name: String,
}

/// Marks a volume whose claim is made for the pod; the template is of no interest here.
#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq, Eq)]
#[serde(default)]
pub struct Ephemeral {}

/// How a pod is.
#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct PodStatus {
    /// Its phase.
    #[serde(skip_serializing_if = "unset")]
    pub phase: Option<PodPhase>,
    /// Its conditions.
    #[serde(skip_serializing_if = "unset", deserialize_with = "or_default")]
    pub conditions: Vec<PodCondition>,
    /// Its containers.
    #[serde(skip_serializing_if = "unset", deserialize_with = "or_default")]
    pub container_statuses: Vec<ContainerStatus>,
    /// Its init containers.
    #[serde(skip_serializing_if = "unset", deserialize_with = "or_default")]
    pub init_container_statuses: Vec<ContainerStatus>,
    /// The node where room is being made for it.
    #[serde(skip_serializing_if = "unset", deserialize_with = "or_default")]
    pub nominated_node_name: String,
    /// Why it is so, in one word.
    #[serde(skip_serializing_if = "unset", deserialize_with = "or_default")]
    pub reason: String,
    /// When it was taken up by its node.
    #[serde(skip_serializing_if = "unset")]
    pub start_time: Option<Time>,
}

/// Phase of a pod.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PodPhase {
    /// Waits for a node, or for its containers to start.
    Pending,
    /// Runs.
    Running,
    /// Ended well.
    Succeeded,
    /// Ended badly.
    Failed,
    /// Its node does not answer.
    #[serde(other)]
    Unknown,
}

/// A condition of a pod.
#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub struct PodCondition {
    /// What it is about.
    #[serde(rename = "type")]
    pub condition_type: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// Why, in one word.
    #[serde(skip_serializing_if = "unset", deserialize_with = "or_default")]
    pub reason: String,
    /// Why, in one sentence.
    #[serde(skip_serializing_if = "unset", deserialize_with = "or_default")]
    pub message: String,
    /// When it changed.
    #[serde(skip_serializing_if = "unset")]
    pub last_transition_time: Option<Time>,
}

/// How a container is.
#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerStatus {
    /// Its name.
    #[serde(skip_serializing_if = "unset", deserialize_with = "or_default")]
    pub name: String,
    /// Whether it serves.
    #[serde(skip_serializing_if = "unset", deserialize_with = "or_default")]
    pub ready: bool,
    /// How often it was restarted.
    #[serde(skip_serializing_if = "unset", deserialize_with = "or_default")]
    pub restart_count: i32,
    /// Now.
    #[serde(skip_serializing_if = "unset", deserialize_with = "or_default")]
    pub state: ContainerState,
    /// Before the last restart.
    #[serde(skip_serializing_if = "unset", deserialize_with = "or_default")]
    pub last_state: ContainerState,
}

/// State of a container, for how it ended.
#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerState {
    /// It has ended.
    #[serde(skip_serializing_if = "unset")]
    pub terminated: Option<Terminated>,
}

/// How a container ended.
#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct Terminated {
    /// Its exit code.
    pub exit_code: i32,
    /// Why, in one word.
    #[serde(skip_serializing_if = "unset", deserialize_with = "or_default")]
    pub reason: String,
    /// When.
    #[serde(skip_serializing_if = "unset")]
    pub finished_at: Option<Time>,
}

impl PodSpec {
    /// Reads the slim spec out of a full one, such as a template's.
    pub fn from_full(full: &k8s_openapi::api::core::v1::PodSpec) -> Result<Self, serde_json::Error> {
        serde_json::from_value(serde_json::to_value(full)?)
    }

    /// Ports of the node that the pod takes.
    pub fn host_ports(&self) -> impl Iterator<Item = &HostPort> {
        let sidecars = self.init_containers.iter().filter(|container| container.is_sidecar());
        let ports = self
            .containers
            .iter()
            .chain(sidecars)
            .flat_map(|container| &container.ports);
        ports.filter(|port| port.host_port > 0)
    }
}

impl Pod {
    /// Its phase; a pod that nobody has looked at is Pending.
    pub fn phase(&self) -> PodPhase {
        self.status.phase.unwrap_or(PodPhase::Pending)
    }

    /// Whether it has ended.
    pub fn is_finished(&self) -> bool {
        matches!(self.phase(), PodPhase::Succeeded | PodPhase::Failed)
    }

    /// Whether it is being deleted.
    pub const fn is_deleting(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }

    /// An annotation.
    pub fn annotation(&self, key: &str) -> Option<&str> {
        let known = self.metadata.annotations.as_ref().and_then(|all| all.get(key));
        let kept = || self.kept.iter().find(|(name, _)| *name == key);
        known.map(String::as_str).or_else(|| kept().map(|(_, value)| &**value))
    }

    /// Lets go of all annotations but those named, which [`Pod::annotation`] still finds: a map of two entries takes
    /// half a kilobyte, which adds up where a hundred thousand pods are kept.
    pub fn keep_annotations(&mut self, names: &[&'static str]) {
        let value = |name: &&'static str| Some((*name, self.annotation(name)?.into()));
        self.kept = names.iter().filter_map(value).collect();
        self.metadata.annotations = None;
    }

    /// A label.
    pub fn label(&self, key: &str) -> Option<&str> {
        self.metadata.labels.as_ref()?.get(key).map(String::as_str)
    }

    /// Whether it may be evicted for others: it may unless it says otherwise, in an annotation or else a label.
    pub fn is_preemptable(&self) -> bool {
        let said = self.annotation(names::PREEMPTABLE);
        said.or_else(|| self.label(names::PREEMPTABLE))
            .is_none_or(names::says_yes)
    }

    /// Name of its PodGroup.
    pub fn pod_group(&self) -> Option<&str> {
        self.annotation(names::GROUP_NAME)
            .or_else(|| self.annotation(names::GROUP_NAME_ALIAS))
    }

    /// The first exit code other than 0, or 0 if all containers that ended did so well.
    pub fn exit_code(&self) -> Option<i32> {
        let ended = |status: &ContainerStatus| Some(status.state.terminated.as_ref()?.exit_code);
        let mut codes = self.status.container_statuses.iter().filter_map(ended);
        let first = codes.next()?;
        Some(if first == 0 {
            codes.find(|code| *code != 0).unwrap_or(0)
        } else {
            first
        })
    }

    /// Names of the claims that it mounts.
    pub fn claims(&self) -> Vec<String> {
        let pod = self.metadata.name.as_deref().unwrap_or_default();
        let claim = |volume: &Volume| match (&volume.persistent_volume_claim, &volume.ephemeral) {
            (Some(source), _) => Some(source.claim_name.clone()),
            (None, Some(_)) => Some(format!("{pod}-{}", volume.name)),
            (None, None) => None,
        };
        self.spec.volumes.iter().filter_map(claim).collect()
    }
}
