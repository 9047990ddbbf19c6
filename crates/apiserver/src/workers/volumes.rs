//! Claims of the default storage class are bound to made-up volumes; a volume goes with its claim.

use basalt_apimachinery::json::{string_at, value_at};
use serde_json::{Value, json};

use super::feed::{Change, Feed};
use super::{change, is_gone};
use crate::http::{ApiResult, Call, DeleteOptions, Server, delete_one, head, insert};
use crate::store::{Key, Object};

/// Runs for as long as the server.
pub(super) async fn run(server: Server) {
    let mut claims = Feed::new(server.store(), "persistentvolumeclaims");
    loop {
        let done = match claims.next().await {
            Change::Present(claim) => bind(&server, &claim).await,
            Change::Gone(claim) => remove(&server, &claim).await,
            Change::Relisted | Change::Listed => Ok(()),
        };
        match done {
            Err(error) if !is_gone(&error) => tracing::warn!(%error, "cannot bind a volume"),
            _ => {}
        }
    }
}

fn volume_name(claim: &Object) -> String {
    format!("pvc-{}", head(&claim.body).uid)
}

async fn bind(server: &Server, object: &Object) -> ApiResult<()> {
    let claim: Value = serde_json::from_slice(&object.body).unwrap_or_default();
    let class = string_at(&claim, "/spec/storageClassName");
    let is_ours = class.is_empty() || is_made_up(server, class);
    let bound = string_at(&claim, "/status/phase") == "Bound";
    let elsewhere = string_at(&claim, "/spec/volumeName");
    let name = volume_name(object);
    if !is_ours
        || bound
        || !(elsewhere.is_empty() || elsewhere == name)
        || head(&object.body).deletion_timestamp.is_some()
    {
        return Ok(());
    }
    let registry = server.registry();
    let (Some(volumes), Some(claims)) = (
        registry.find("", "v1", "persistentvolumes"),
        registry.find("", "v1", "persistentvolumeclaims"),
    ) else {
        return Ok(());
    };
    let storage = value_at(&claim, "/spec/resources/requests/storage")
        .cloned()
        .unwrap_or_else(|| json!("1Gi"));
    let modes = value_at(&claim, "/spec/accessModes")
        .cloned()
        .unwrap_or_else(|| json!(["ReadWriteOnce"]));
    let volume = json!({
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": storage}, "accessModes": modes, "persistentVolumeReclaimPolicy": "Delete",
            "storageClassName": class, "hostPath": {"path": format!("/var/lib/basalt/volumes/{name}")},
            "claimRef": {"kind": "PersistentVolumeClaim", "apiVersion": "v1", "namespace": &*object.key.namespace,
                "name": &*object.key.name, "uid": head(&object.body).uid},
        },
    });
    match insert(&Call::internal(server, volumes, "", ""), volume).await {
        Err(error) if error.reason != "AlreadyExists" => return Err(error),
        _ => {}
    }
    let uid = head(&object.body).uid;
    let Some(volume_uid) = volume_of(server, &name, &uid) else {
        return Ok(());
    };
    let volume_call = Call::internal(server, volumes, "", &name);
    let status = |call: Call| Call {
        sub: Some(crate::http::Sub::Status),
        ..call
    };
    change(&status(volume_call), &volume_uid, |volume| {
        volume["status"]["phase"] = "Bound".into();
    })
    .await?;
    let claim_call = || Call::internal(server, claims, &object.key.namespace, &object.key.name);
    change(&claim_call(), &uid, |claim| {
        claim["spec"]["volumeName"] = name.as_str().into();
    })
    .await?;
    change(&status(claim_call()), &uid, |claim| {
        claim["status"] = json!({"phase": "Bound", "accessModes": modes, "capacity": {"storage": storage}});
    })
    .await
}

/// The uid of the volume of that name, if it is the claim's.
fn volume_of(server: &Server, name: &str, claim_uid: &str) -> Option<String> {
    let found = server.store().head(&Key::new("persistentvolumes", "", name))?;
    let volume: Value = serde_json::from_slice(&found.body).ok()?;
    let ours = string_at(&volume, "/spec/claimRef/uid") == claim_uid;
    ours.then(|| string_at(&volume, "/metadata/uid").to_owned())
}

/// Whether volumes of the class are made up here.
fn is_made_up(server: &Server, class: &str) -> bool {
    let found = server
        .store()
        .get(&Key::new("storageclasses.storage.k8s.io", "", class));
    let class = found.and_then(|class| serde_json::from_slice::<Value>(&class.body).ok());
    class.is_some_and(|class| string_at(&class, "/provisioner").starts_with("basalt.sh/"))
}

async fn remove(server: &Server, claim: &Object) -> ApiResult<()> {
    let registry = server.registry();
    let Some(volumes) = registry.find("", "v1", "persistentvolumes") else {
        return Ok(());
    };
    let name = volume_name(claim);
    let Some(uid) = volume_of(server, &name, &head(&claim.body).uid) else {
        return Ok(());
    };
    let options = DeleteOptions {
        uid: Some(uid),
        ..DeleteOptions::default()
    };
    let call = Call::internal(server, volumes, "", &name);
    delete_one(&call, &name, &options, &mut Vec::new()).await.map(drop)
}
