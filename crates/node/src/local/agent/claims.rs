//! Claims of this machine: a claim that names no class, or ours, is a folder, and bound at once.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use serde_json::json;
use tracing::warn;

use super::{Agent, Shared};

/// The class of claims that are folders here.
const CLASS: &str = "basalt-local";

impl Agent {
    /// Binds a claim that came, or lets go of the volume of one that went.
    pub(super) fn bind_claim(&self, namespace: &str, name: &str) {
        let (shared, namespace, name) = (Arc::clone(&self.shared), namespace.to_owned(), name.to_owned());
        tokio::spawn(async move {
            if let Err(error) = bind(&shared, &namespace, &name).await {
                warn!(%error, namespace, name, "a claim could not be bound; its next change tries again");
            }
        });
    }
}

async fn bind(shared: &Shared, namespace: &str, name: &str) -> Result<(), kube::Error> {
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(shared.client.clone(), namespace);
    let volumes: Api<PersistentVolume> = Api::all(shared.client.clone());
    let Some(claim) = claims.get_opt(name).await? else {
        return release(&volumes, namespace, name).await;
    };
    let spec = claim.spec.clone().unwrap_or_default();
    let ours = matches!(spec.storage_class_name.as_deref(), None | Some("" | CLASS));
    let phase = claim.status.as_ref().and_then(|status| status.phase.as_deref());
    let (Some(uid), true) = (&claim.metadata.uid, ours) else {
        return Ok(());
    };
    let volume_name = format!("pvc-{uid}");
    let own = spec
        .volume_name
        .as_deref()
        .is_none_or(|of| of.is_empty() || of == volume_name);
    if phase == Some("Bound") || !own || claim.metadata.deletion_timestamp.is_some() {
        return Ok(());
    }
    let capacity = spec.resources.as_ref().and_then(|resources| resources.requests.clone());
    let path = shared.places.claims().join(namespace).join(name);
    let volume = json!({
        "apiVersion": "v1", "kind": "PersistentVolume",
        "metadata": {"name": volume_name, "labels": {CLAIM: "true"}},
        "spec": {
            "capacity": capacity, "accessModes": spec.access_modes, "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": spec.storage_class_name.as_deref().unwrap_or_default(),
            "hostPath": {"path": path, "type": "DirectoryOrCreate"},
            "claimRef": {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": namespace, "name": name, "uid": uid},
        },
    });
    let volume: PersistentVolume = serde_json::from_value(volume).map_err(kube::Error::SerdeError)?;
    match volumes.create(&PostParams::default(), &volume).await {
        Err(kube::Error::Api(status)) if status.code == 409 => {}
        other => {
            other?;
        }
    }
    let params = PatchParams::default();
    let patch = json!({"metadata": {"uid": uid}, "spec": {"volumeName": volume_name}});
    claims.patch(name, &params, &Patch::Merge(patch)).await?;
    let status = json!({"metadata": {"uid": uid}, "status": {"phase": "Bound", "accessModes": spec.access_modes, "capacity": capacity}});
    claims.patch_status(name, &params, &Patch::Merge(status)).await?;
    let status = json!({"status": {"phase": "Bound"}});
    volumes
        .patch_status(&volume_name, &params, &Patch::Merge(status))
        .await?;
    Ok(())
}

/// Label of volumes that are folders of claims.
const CLAIM: &str = "basalt.sh/claim-folder";

/// The claim is gone: its volume goes, its folder stays.
async fn release(volumes: &Api<PersistentVolume>, namespace: &str, name: &str) -> Result<(), kube::Error> {
    let ours = kube::api::ListParams::default().labels(CLAIM);
    for volume in volumes.list(&ours).await? {
        let of = volume.spec.as_ref().and_then(|spec| spec.claim_ref.as_ref());
        let same = of.is_some_and(|of| of.namespace.as_deref() == Some(namespace) && of.name.as_deref() == Some(name));
        if let (true, Some(volume)) = (same, &volume.metadata.name) {
            volumes.delete(volume, &DeleteParams::default()).await?;
        }
    }
    Ok(())
}
