//! Keeps the hosts files of all pods as they should be.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use tracing::warn;

use super::super::folder::PodFolder;
use super::super::hosts::{self, NamedService, Neighbour};
use super::pods::{LocalPod, Stage};
use super::{Agent, Message};

/// `hostAliases`.
fn aliases(pod: &Pod) -> Vec<(String, Vec<String>)> {
    let stated = pod.spec.as_ref().and_then(|s| s.host_aliases.as_ref());
    let clean = |text: &str| !text.is_empty() && !text.contains(char::is_whitespace);
    stated
        .into_iter()
        .flatten()
        .filter(|alias| clean(&alias.ip))
        .map(|alias| {
            let names = alias.hostnames.iter().flatten().filter(|name| clean(name));
            (alias.ip.clone(), names.cloned().collect())
        })
        .collect()
}

impl LocalPod {
    /// Its hosts file.
    pub(super) fn names(&self, shared: &str) -> Option<String> {
        let object = self.object.as_ref()?;
        let own = super::plan::hostname_of(object);
        Some(hosts::whole(&own, self.address?, &aliases(object), shared))
    }
}

impl Agent {
    /// The lines that pods of a namespace share.
    pub(super) fn shared_names(&self, namespace: &str) -> String {
        let mut pods: Vec<Neighbour> = self
            .pods
            .values()
            .filter(|pod| pod.namespace == namespace)
            .filter_map(LocalPod::neighbour)
            .collect();
        pods.sort_by_key(|pod| pod.address);
        let services: Vec<NamedService> = self
            .services
            .range((namespace.to_owned(), String::new())..)
            .take_while(|((of, _), _)| of == namespace)
            .map(|(_, service)| service.clone())
            .collect();
        hosts::shared(namespace, &pods, &services)
    }

    /// Writes the files that are behind; while that is under way, changes are collected.
    pub(super) fn write_names(&mut self) {
        if self.naming || self.renamed.is_empty() {
            return;
        }
        let mut writes = Vec::new();
        for namespace in std::mem::take(&mut self.renamed) {
            let shared = self.shared_names(&namespace);
            let uids: Vec<String> = self
                .pods
                .values()
                .filter(|pod| pod.namespace == namespace)
                .map(|pod| pod.uid.clone())
                .collect();
            for uid in uids {
                let Some(text) = self.pods.get(&uid).and_then(|pod| pod.names(&shared)) else {
                    continue;
                };
                let Some(pod) = self.pods.get_mut(&uid) else { continue };
                // While the folder is being filled the file is another's.
                if pod.stage == Stage::Preparing {
                    self.renamed.insert(namespace.clone());
                } else if matches!(pod.stage, Stage::Running(_)) && pod.hosts != text {
                    pod.hosts.clone_from(&text);
                    writes.push((PodFolder::of(&self.shared.places.pods(), &uid), text));
                }
            }
        }
        if writes.is_empty() {
            return;
        }
        self.naming = true;
        let messages = self.messages.clone();
        let shared = Arc::clone(&self.shared);
        tokio::task::spawn_blocking(move || {
            for (folder, text) in writes {
                if let Err(error) = hosts::write(&folder.hosts(), &text) {
                    warn!(%error, pods = %shared.places.pods().display(), "a hosts file could not be written");
                }
            }
            let _ = messages.send(Message::HostsWritten);
        });
    }
}
