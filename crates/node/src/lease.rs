//! The Lease that says that somebody serves a node.

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use kube::Client;
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

/// The namespace of these Leases.
pub(crate) const LEASES: &str = "kube-node-lease";
const LEASE_SECONDS: i32 = 40;

/// Says that somebody serves the node of this name. With its uid, a Lease that has to be made belongs to it and goes with it.
pub(crate) async fn renew(client: &Client, node: &str, uid: Option<&str>) -> Result<(), kube::Error> {
    let leases: Api<Lease> = Api::namespaced(client.clone(), LEASES);
    let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string();
    let spec = json!({"holderIdentity": node, "leaseDurationSeconds": LEASE_SECONDS, "renewTime": now});
    let patch = Patch::Merge(json!({"spec": spec}));
    match leases.patch_metadata(node, &PatchParams::default(), &patch).await {
        Err(kube::Error::Api(status)) if status.code == 404 => {
            let lease = json!({"metadata": metadata(node, uid), "spec": spec});
            let lease: Lease = serde_json::from_value(lease).map_err(kube::Error::SerdeError)?;
            leases.create(&PostParams::default(), &lease).await.map(drop)
        }
        other => other.map(drop),
    }
}

fn metadata(node: &str, uid: Option<&str>) -> Value {
    let mut metadata = json!({"name": node, "namespace": LEASES});
    if let Some(uid) = uid {
        metadata["ownerReferences"] = json!([{"apiVersion": "v1", "kind": "Node", "name": node, "uid": uid}]);
    }
    metadata
}
