//! This machine's Node object, and the Lease that says that somebody serves it.

use std::collections::BTreeMap;

use basalt_api::names::FAKE_NODE;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Taint};
use kube::Client;
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::super::status::seconds;
use super::{Machine, Pressure, Reserve, bytes, millis};
use crate::lease;

/// Label of nodes that are the machine of a server.
pub(crate) const LOCAL_NODE: &str = "basalt.sh/local";
/// Keeps pods away while the disk is nearly full.
const DISK_PRESSURE: &str = "node.kubernetes.io/disk-pressure";
/// Where pods can reach the machine, and the machine itself.
pub(crate) const HOST_ADDRESS: std::net::Ipv4Addr = std::net::Ipv4Addr::LOCALHOST;

/// All that the Node says.
#[derive(Debug, Clone)]
pub(crate) struct Registration {
    pub(crate) machine: Machine,
    pub(crate) reserve: Reserve,
    pub(crate) pods_max: u32,
}

impl Registration {
    fn labels(&self) -> BTreeMap<String, String> {
        let arch = match std::env::consts::ARCH {
            "x86_64" => "amd64",
            "aarch64" => "arm64",
            other => other,
        };
        let mut labels = self.machine.gpus.labels();
        for (key, value) in [
            ("kubernetes.io/hostname", self.machine.name.as_str()),
            ("kubernetes.io/os", "linux"),
            ("kubernetes.io/arch", arch),
            ("node-role.kubernetes.io/worker", ""),
            (LOCAL_NODE, "true"),
        ] {
            labels.insert(key.to_owned(), value.to_owned());
        }
        labels
    }

    /// What pods can have of each resource.
    pub(crate) fn allocatable(&self) -> BTreeMap<String, String> {
        let machine = &self.machine;
        self.resources(
            machine.cpu_millis.saturating_sub(self.reserve.cpu_millis),
            machine.memory_bytes.saturating_sub(self.reserve.memory_bytes),
            // A tenth stays free, as in Kubernetes.
            machine.disk_bytes / 10 * 9,
        )
    }

    fn resources(&self, cpu: u64, memory: u64, disk: u64) -> BTreeMap<String, String> {
        let mut all = BTreeMap::from([
            ("cpu".to_owned(), millis(cpu).to_string()),
            ("memory".to_owned(), bytes(memory).to_string()),
            ("ephemeral-storage".to_owned(), bytes(disk).to_string()),
            ("pods".to_owned(), self.pods_max.to_string()),
        ]);
        let gpus = self.machine.gpus.devices.len();
        if gpus > 0 {
            all.insert(super::super::gpu::RESOURCE.to_owned(), gpus.to_string());
        }
        all
    }

    fn status(&self, pressure: Pressure, before: Option<&Node>, now: Timestamp) -> Value {
        let machine = &self.machine;
        let word = |path: &str| {
            std::fs::read_to_string(path)
                .map(|text| text.trim().to_owned())
                .unwrap_or_default()
        };
        json!({
            "capacity": self.resources(machine.cpu_millis, machine.memory_bytes, machine.disk_bytes),
            "allocatable": self.allocatable(),
            "conditions": conditions(pressure, before, now),
            "addresses": [
                {"type": "InternalIP", "address": HOST_ADDRESS.to_string()},
                {"type": "Hostname", "address": machine.name},
            ],
            "nodeInfo": {
                "machineID": word("/etc/machine-id"),
                "systemUUID": word("/etc/machine-id"),
                "bootID": word("/proc/sys/kernel/random/boot_id"),
                "kernelVersion": word("/proc/sys/kernel/osrelease"),
                "osImage": os_image(),
                "containerRuntimeVersion": concat!("basalt://", env!("CARGO_PKG_VERSION")),
                "kubeletVersion": concat!("v", env!("CARGO_PKG_VERSION"), "-basalt"),
                "kubeProxyVersion": "",
                "operatingSystem": "linux",
                "architecture": self.labels().remove("kubernetes.io/arch"),
            },
        })
    }

    /// Makes the Node, or brings it up to date.
    pub(crate) async fn write(&self, client: &Client, pressure: Pressure) -> Result<(), kube::Error> {
        let nodes: Api<Node> = Api::all(client.clone());
        let name = self.machine.name.as_str();
        let before = nodes.get_opt(name).await?;
        let mut labels: BTreeMap<String, Value> = self.labels().into_iter().map(|(k, v)| (k, json!(v))).collect();
        if let Some(node) = &before {
            // What the machine has no more, and what it is not.
            let stale = node.metadata.labels.iter().flat_map(BTreeMap::keys);
            for key in stale.filter(|key| key.starts_with("nvidia.com/") || *key == FAKE_NODE) {
                labels.entry(key.clone()).or_insert(Value::Null);
            }
            let mut patch = json!({"metadata": {"labels": labels}});
            if let Some(taints) = changed_taints(pressure, node.spec.as_ref().and_then(|spec| spec.taints.as_deref())) {
                patch["spec"] = json!({"taints": taints});
            }
            nodes.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await?;
        } else {
            let node = json!({
                "apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels},
                "spec": {"taints": changed_taints(pressure, None)},
            });
            let node: Node = serde_json::from_value(node).map_err(kube::Error::SerdeError)?;
            nodes.create(&PostParams::default(), &node).await?;
        }
        let status = json!({"status": self.status(pressure, before.as_ref(), Timestamp::now())});
        nodes
            .patch_status(name, &PatchParams::default(), &Patch::Merge(status))
            .await?;
        Ok(())
    }

    /// Says that somebody serves the node.
    pub(crate) async fn renew(&self, client: &Client) -> Result<(), kube::Error> {
        lease::renew(client, &self.machine.name, None).await
    }
}

/// Nodes of machines that nobody serves now (all but the one that is) say so: nothing is bound to them until somebody does.
pub async fn retire(client: &Client, served: Option<&str>) -> Result<(), kube::Error> {
    let nodes: Api<Node> = Api::all(client.clone());
    for node in nodes.list(&ListParams::default().labels(LOCAL_NODE)).await? {
        let Some(name) = node.metadata.name.as_deref().filter(|name| Some(*name) != served) else {
            continue;
        };
        let now = seconds(Timestamp::now());
        let condition = json!({
            "type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown",
            "message": "this machine is not a node now (basalt up --local makes it one)",
            "lastHeartbeatTime": now, "lastTransitionTime": now,
        });
        let patch = Patch::Strategic(json!({"status": {"conditions": [condition]}}));
        nodes.patch_status(name, &PatchParams::default(), &patch).await?;
    }
    Ok(())
}

/// The node's taints with the one of a full disk, or without it; absent: as they are.
fn changed_taints(pressure: Pressure, before: Option<&[Taint]>) -> Option<Vec<Taint>> {
    let before = before.unwrap_or_default();
    let ours = |taint: &Taint| taint.key == DISK_PRESSURE && taint.effect == "NoSchedule";
    let mut taints: Vec<Taint> = before.iter().filter(|taint| !ours(taint)).cloned().collect();
    let was = taints.len() < before.len();
    if pressure.disk {
        taints.push(Taint {
            key: DISK_PRESSURE.to_owned(),
            effect: "NoSchedule".to_owned(),
            ..Taint::default()
        });
    }
    (was != pressure.disk).then_some(taints)
}

fn os_image() -> String {
    let text = std::fs::read_to_string("/etc/os-release").unwrap_or_default();
    text.lines()
        .find_map(|line| line.strip_prefix("PRETTY_NAME="))
        .map(|name| name.trim_matches('"').to_owned())
        .unwrap_or_default()
}

fn conditions(pressure: Pressure, before: Option<&Node>, now: Timestamp) -> Vec<Value> {
    let old = before.and_then(|n| n.status.as_ref()?.conditions.as_ref());
    let rows = [
        (
            "MemoryPressure",
            pressure.memory,
            "KubeletHasInsufficientMemory",
            "KubeletHasSufficientMemory",
        ),
        (
            "DiskPressure",
            pressure.disk,
            "KubeletHasDiskPressure",
            "KubeletHasNoDiskPressure",
        ),
        (
            "PIDPressure",
            false,
            "KubeletHasInsufficientPID",
            "KubeletHasSufficientPID",
        ),
        ("Ready", true, "KubeletReady", "KubeletNotReady"),
    ];
    rows.into_iter()
        .map(|(kind, holds, yes, no)| {
            let status = if holds { "True" } else { "False" };
            let since = old
                .into_iter()
                .flatten()
                .find(|c| c.type_ == kind && c.status == status)
                .and_then(|c| c.last_transition_time.as_ref())
                .map_or(now, |time| time.0);
            json!({
                "type": kind, "status": status, "reason": if holds { yes } else { no },
                "message": if kind == "Ready" { "this machine runs pods as processes" } else { "" },
                "lastHeartbeatTime": seconds(now), "lastTransitionTime": seconds(since),
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_keeps_pods_away() {
        let check = |before: &[&str], disk: bool, expected: Option<&[&str]>| {
            let taint = |key: &&str| Taint {
                key: (*key).to_owned(),
                effect: "NoSchedule".to_owned(),
                ..Taint::default()
            };
            let taints: Vec<Taint> = before.iter().map(taint).collect();
            let pressure = Pressure { memory: false, disk };
            let found = changed_taints(pressure, Some(&taints));
            let expected: Option<Vec<Taint>> = expected.map(|keys| keys.iter().map(taint).collect());
            assert_eq!(found, expected, "{before:?} {disk}");
        };
        check(&[], false, None);
        check(&[], true, Some(&[DISK_PRESSURE]));
        check(&["own"], true, Some(&["own", DISK_PRESSURE]));
        check(&["own", DISK_PRESSURE], true, None);
        check(&[DISK_PRESSURE, "own"], false, Some(&["own"]));
        check(&[DISK_PRESSURE], false, Some(&[]));
    }
}
