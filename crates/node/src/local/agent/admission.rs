//! Whether a pod that was bound fits: the scheduler's word is checked where it counts.

use std::collections::BTreeSet;

use basalt_api::quantity::Quantity;
use k8s_openapi::api::core::v1::Pod;

use super::super::gpu;
use super::super::status::{containers_of, is_sidecar};
use super::super::trouble::Trouble;
use super::Agent;
use super::pods::Stage;

/// The event of a pod that waits for GPUs of pods that are ending.
pub(super) const WAITING_FOR_GPU: &str = "WaitingForGPU";

/// What a pod asks for of a resource: its containers together, or its largest init container with the sidecars before it.
pub(super) fn request(pod: &Pod, resource: &str) -> Quantity {
    let (init, main) = containers_of(pod);
    let of = |container: &k8s_openapi::api::core::v1::Container| {
        let resources = container.resources.as_ref();
        let requested = resources.and_then(|r| r.requests.as_ref()?.get(resource));
        requested
            .or_else(|| resources.and_then(|r| r.limits.as_ref()?.get(resource)))
            .and_then(|q| Quantity::parse(&q.0).ok())
            .unwrap_or(Quantity::ZERO)
    };
    let mut beside = Quantity::ZERO;
    let mut most = Quantity::ZERO;
    for container in init {
        let with = beside.saturating_add(of(container));
        if is_sidecar(container) {
            beside = with;
        }
        most = most.max(with);
    }
    main.iter().map(of).fold(beside, Quantity::saturating_add).max(most)
}

impl Agent {
    /// Whether the machine has room for this pod beside the others.
    pub(super) fn room_for(&self, uid: &str, pod: &Pod) -> Result<(), Trouble> {
        if self.pressure.disk {
            let message = "the disk of the node's data folder is nearly full".to_owned();
            // It may be over soon, and the taint keeps further pods away.
            return Err(Trouble::Waits {
                waiting: "ContainerCreating",
                event: "NodeHasDiskPressure",
                message,
            });
        }
        let others: Vec<&Pod> = self
            .pods
            .values()
            .filter(|other| other.uid != uid && other.active())
            // One whose object is gone is being ended: the scheduler has given its room away already.
            .filter_map(|other| other.object.as_deref())
            .collect();
        if others.len() >= self.shared.options.pods_max as usize {
            return Err(Trouble::refused(
                "OutOfpods",
                format!("the node runs {} pods already", others.len()),
            ));
        }
        for (resource, reason) in [
            ("cpu", "OutOfcpu"),
            ("memory", "OutOfmemory"),
            (gpu::RESOURCE, "OutOfnvidia.com/gpu"),
        ] {
            let wanted = request(pod, resource);
            let used = others
                .iter()
                .map(|other| request(other, resource))
                .fold(Quantity::ZERO, Quantity::saturating_add);
            let all = self.shared.allocatable(resource);
            if !wanted.is_zero() && wanted.saturating_add(used) > all {
                let message = format!(
                    "Node didn't have enough resource: {resource}, requested: {wanted}, used: {used}, capacity: {all}"
                );
                return Err(Trouble::refused(reason, message));
            }
        }
        Ok(())
    }

    /// GPUs for a pod, of those that nobody holds.
    pub(super) fn allot_gpus(&self, pod: &Pod) -> Result<std::collections::BTreeMap<String, Vec<String>>, Trouble> {
        let all: Vec<String> = self
            .shared
            .registration
            .machine
            .gpus
            .devices
            .iter()
            .map(|gpu| gpu.uuid.clone())
            .collect();
        let taken: BTreeSet<String> = self
            .pods
            .values()
            .flat_map(|other| other.gpus.iter().cloned())
            .collect();
        gpu::allot(pod, &all, &taken).ok_or_else(|| {
            let ending = self.pods.values().any(|other| {
                !other.gpus.is_empty()
                    && (other.deleted() || other.object.is_none())
                    && matches!(other.stage, Stage::Running(_) | Stage::Preparing)
            });
            let message = format!(
                "{} of {} GPUs are held{}",
                taken.len(),
                all.len(),
                if ending { " by pods that are ending" } else { "" }
            );
            if ending {
                Trouble::Waits {
                    waiting: "ContainerCreating",
                    event: WAITING_FOR_GPU,
                    message,
                }
            } else {
                Trouble::refused("OutOfnvidia.com/gpu", message)
            }
        })
    }
}
