//! Taking fake nodes away again, with all that is left of them.

use std::collections::HashSet;

use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, DeleteParams, ListParams, Preconditions};
use kube::{Client, ResourceExt};

use super::FAKE_SELECTOR;
use super::template::NodeTemplate;
use super::wire::{self, SlimPod};
use crate::NodeError;
use crate::lease::LEASES;

/// How many requests are on their way at once.
const IN_FLIGHT: usize = 64;

/// What [`remove_nodes`] did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Removed {
    /// Nodes that existed.
    pub nodes: usize,
    /// Pods that were bound to them.
    pub pods: usize,
}

/// Deletes the fake nodes of a template, whatever their number, then their Leases and the pods that were bound to them.
pub async fn remove_nodes(client: Client, template: &NodeTemplate) -> Result<Removed, NodeError> {
    let list_failed = |error| NodeError::List(Box::new(error));
    let nodes: Api<Node> = Api::all(client.clone());
    let fake = ListParams::default().labels(FAKE_SELECTOR);
    let found: Vec<(String, Option<String>)> = nodes
        .list_metadata(&fake)
        .await
        .map_err(list_failed)?
        .into_iter()
        .map(|node| (node.name_any(), node.uid()))
        .filter(|(name, _)| template.names(name))
        .collect();
    let leases: Api<Lease> = Api::namespaced(client.clone(), LEASES);
    stream::iter(&found)
        .map(async |(name, uid)| {
            let params = DeleteParams::default().preconditions(of(uid.clone()));
            let gone = nodes.delete(name, &params).await.map(drop);
            told(gone, || format!("node {name}"))?;
            let gone = leases.delete(name, &DeleteParams::default()).await.map(drop);
            told(gone, || format!("Lease {LEASES}/{name}"))
        })
        .buffer_unordered(IN_FLIGHT)
        .try_collect::<()>()
        .await?;
    // Only now: nothing can be bound to them any more.
    let names: HashSet<&str> = found.iter().map(|(name, _)| name.as_str()).collect();
    let pods: Api<SlimPod> = Api::all_with(client.clone(), &wire::pod_resource());
    let bound = pods
        .list(&ListParams::default().fields("spec.nodeName!="))
        .await
        .map_err(list_failed)?;
    let orphans: Vec<_> = bound
        .into_iter()
        .filter_map(wire::pod_facts)
        .filter(|facts| names.contains(facts.node.as_str()))
        .collect();
    stream::iter(&orphans)
        .map(async |pod| {
            let pods: Api<SlimPod> = Api::namespaced_with(client.clone(), &pod.namespace, &wire::pod_resource());
            let params = DeleteParams::default()
                .grace_period(0)
                .preconditions(of(Some(pod.uid.clone())));
            let gone = pods.delete(&pod.name, &params).await.map(drop);
            told(gone, || format!("pod {}/{}", pod.namespace, pod.name))
        })
        .buffer_unordered(IN_FLIGHT)
        .try_collect::<()>()
        .await?;
    Ok(Removed {
        nodes: found.len(),
        pods: orphans.len(),
    })
}

fn of(uid: Option<String>) -> Preconditions {
    Preconditions {
        uid,
        resource_version: None,
    }
}

/// What is gone, or another one of the same name by now, needs no deletion.
fn told(result: Result<(), kube::Error>, what: impl FnOnce() -> String) -> Result<(), NodeError> {
    match result {
        Ok(()) => Ok(()),
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(()),
        Err(source) => Err(NodeError::Delete {
            what: what(),
            source: Box::new(source),
        }),
    }
}
