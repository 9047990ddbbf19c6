//! The stored objects that rules look at, indexed so that one decision costs a few steps up the tree
//! and never a walk over everything.

mod holders;
mod nodes;
mod tree;

use std::collections::BTreeSet;
use std::sync::Arc;

use basalt_api::json::{annotation, string_at};
use basalt_api::names;
use serde_json::Value;

use holders::Holders;
pub(crate) use holders::job_owners;
pub use holders::lone_pod_queue;
use nodes::Nodes;
pub(crate) use tree::{Measure, Tally, Tree, parent_of};

// Resources as storage names them.
const QUEUES: &str = "queues.scheduling.volcano.sh";
const JOBS: &str = "jobs.batch.volcano.sh";
const GROUPS: &str = "podgroups.scheduling.volcano.sh";
const PODS: &str = "pods";
const NODES: &str = "nodes";
const NAMESPACES: &str = "namespaces";

/// What is stored, as far as rules care. Whoever decides keeps it up to date: with each object that
/// was stored ([`View::put`]) or removed ([`View::remove`]), in any order between objects.
#[derive(Clone, Debug, Default)]
pub struct View {
    tree: Tree,
    holders: Holders,
    nodes: Nodes,
    /// Queue that a namespace names for those who name none, by namespace.
    namespaces: std::collections::BTreeMap<String, String>,
}

impl View {
    /// The resources that a view is made of.
    pub const RESOURCES: [&str; 6] = [QUEUES, JOBS, GROUPS, PODS, NODES, NAMESPACES];

    /// Takes in an object as it is now stored; other resources than [`View::RESOURCES`] are ignored.
    pub fn put(&mut self, resource: &str, object: &Arc<Value>) {
        match resource {
            QUEUES => self.tree.put(object),
            JOBS => self.holders.put_job(object),
            GROUPS => self.holders.put_group(object),
            PODS => self.holders.put_pod(object),
            NODES => self.nodes.put(object),
            NAMESPACES => self.put_namespace(object),
            _ => {}
        }
    }

    /// Forgets an object.
    pub fn remove(&mut self, resource: &str, namespace: &str, name: &str) {
        match resource {
            QUEUES => self.tree.remove(name),
            JOBS => self.holders.remove_job(namespace, name),
            GROUPS => self.holders.remove_group(namespace, name),
            PODS => self.holders.remove_pod(namespace, name),
            NODES => self.nodes.remove(name),
            NAMESPACES => drop(self.namespaces.remove(name)),
            _ => {}
        }
    }

    /// Forgets every object of a resource that is not among `listed` (namespace and name).
    pub fn retain(&mut self, resource: &str, listed: &BTreeSet<(String, String)>) {
        let known: Vec<(String, String)> = match resource {
            QUEUES => self.tree.names().map(|name| (String::new(), name.to_owned())).collect(),
            JOBS => self.holders.jobs().cloned().collect(),
            GROUPS => self.holders.groups().cloned().collect(),
            PODS => self.holders.pods().cloned().collect(),
            NODES => self
                .nodes
                .names()
                .map(|name| (String::new(), name.to_owned()))
                .collect(),
            NAMESPACES => self
                .namespaces
                .keys()
                .map(|name| (String::new(), name.clone()))
                .collect(),
            _ => Vec::new(),
        };
        for (namespace, name) in known.iter().filter(|key| !listed.contains(key)) {
            self.remove(resource, namespace, name);
        }
    }

    fn put_namespace(&mut self, object: &Value) {
        let name = string_at(object, "/metadata/name");
        match annotation(object, names::QUEUE_NAME) {
            "" => drop(self.namespaces.remove(name)),
            queue => drop(self.namespaces.insert(name.to_owned(), queue.to_owned())),
        }
    }

    /// One stored queue.
    pub(crate) fn queue(&self, name: &str) -> Option<&Value> {
        self.tree.get(name)
    }

    /// The tree of queues.
    pub(crate) fn tree(&self) -> &Tree {
        &self.tree
    }

    /// Jobs, PodGroups and lone pods.
    pub(crate) fn holders(&self) -> &Holders {
        &self.holders
    }

    /// What all nodes offer of a dimension, in billionths; none while there are no nodes.
    pub(crate) fn cluster_total(&self, dimension: &str) -> Option<i128> {
        self.nodes.total(dimension)
    }

    /// The queue that a namespace names; empty where it names none.
    pub(crate) fn namespace_queue(&self, namespace: &str) -> &str {
        self.namespaces.get(namespace).map_or("", String::as_str)
    }
}
