//! Who is near whom: labels that selectors look at, the ties of pods, and where nodes are.
//!
//! A selector that some pod's ties mention is a *mark*: every pod that it selects wears it. A term that a pod holds
//! against (or for) others is a mark, too: its holders wear it, and pods that it is about *meet* it. The ledger counts
//! for each mark how many pods on each node wear it; everything about neighbours follows from these counts.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::shared::Shared;
use super::table::{Id, NodeId};
use crate::facts::{ClaimFacts, Labels, NodeRequirement, PodSelector, PodTerm, StorageFacts, Ties, VolumeFacts};

/// A number of something shared; none: the pod has nothing of that kind.
pub(crate) const NOTHING: u32 = u32::MAX;

/// A few numbers.
pub(crate) type Numbers = SmallVec<[u32; 2]>;

/// How a pod holds a term.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Hold {
    /// It must not be near such pods.
    Apart,
    /// It must be near such pods.
    Near,
    /// It would rather be near such pods (or, negative, not).
    Wish(i32),
}

/// What a mark says of a pod that wears it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum MarkKey {
    /// All of these select it.
    Selected(Vec<PodSelector>),
    /// It holds this term.
    Holds(PodTerm, Hold),
    /// It mounts this claim.
    Mounts(Arc<str>),
}

/// A mark's record.
#[derive(Clone, Debug)]
pub(crate) struct Mark {
    /// For a term: the topology.
    pub topology: u32,
}

/// Namespace and labels of a pod: all that selectors look at. The key is a text, `namespace`, then key and value of
/// each label, with a zero byte between.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tag {
    /// Marks of selectors that select such pods.
    pub wears: Numbers,
    /// Marks of terms that are about such pods.
    pub meets: Numbers,
}

/// The ties of a pod, with the marks and topologies that they mean.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bonds {
    /// Marks of the terms that it holds and of the claims that it mounts.
    pub holds: Numbers,
    /// The mark of pods that all its `near` terms select, and the topologies of the terms.
    pub near: Option<(u32, Numbers)>,
    /// For each `apart` term: mark and topology.
    pub apart: SmallVec<[(u32, u32); 2]>,
    /// For each wish: mark, topology, weight.
    pub wishes: SmallVec<[(u32, u32, i32); 1]>,
    /// For each spread: mark and topology.
    pub spread: SmallVec<[(u32, u32); 1]>,
}

/// Where nodes are by one label: nodes with the same number are one place.
#[derive(Clone, Debug, Default)]
pub(crate) struct Topology {
    by_node: Vec<u32>,
    values: FxHashMap<Arc<str>, u32>,
}

impl Topology {
    /// The place of a node; none: it lacks the label.
    pub(crate) fn place(&self, node: NodeId) -> Option<u32> {
        self.by_node
            .get(node.index())
            .copied()
            .filter(|&place| place != NOTHING)
    }

    /// No place has this number or a larger one.
    pub(crate) fn places(&self) -> usize {
        self.values.len()
    }

    pub(crate) fn put(&mut self, node: NodeId, value: Option<&Arc<str>>) {
        if self.by_node.len() <= node.index() {
            self.by_node.resize(node.index() + 1, NOTHING);
        }
        let next = self.values.len() as u32;
        self.by_node[node.index()] = match value {
            Some(value) => *self.values.entry(value.clone()).or_insert(next),
            None => NOTHING,
        };
    }
}

/// An image that some nodes have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Image {
    /// Its size.
    pub bytes: i64,
    /// How many nodes have it.
    pub nodes: u32,
    /// When that changed last.
    pub version: u64,
}

/// All of it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Places {
    /// Namespaces and labels of pods.
    pub tags: Shared<str, Tag>,
    /// Ties of pods.
    pub ties: Shared<Ties, Bonds>,
    /// Marks.
    pub marks: Shared<MarkKey, Mark>,
    /// Topologies, by label.
    pub topologies: Shared<str, Topology>,
    /// Labels of namespaces, by name, with the uid.
    pub namespaces: BTreeMap<Arc<str>, (Arc<str>, Labels)>,
    /// Claims, by key.
    pub claims: BTreeMap<Arc<str>, ClaimFacts>,
    /// Volumes, by name.
    pub volumes: BTreeMap<Arc<str>, VolumeFacts>,
    /// Storage classes, by name.
    pub storage: BTreeMap<Arc<str>, StorageFacts>,
    /// Images on nodes, by name.
    pub images: FxHashMap<Arc<str>, Image>,
    /// Grows with every change of images.
    pub images_version: u64,
    /// How many nodes have more than one taint that pods would rather not bear.
    pub shy_nodes: u32,
}

/// The text that stands for a namespace and labels.
pub(crate) fn tag_text(namespace: &str, labels: &Labels) -> String {
    let mut text = String::with_capacity(namespace.len() + labels.len() * 32);
    text.push_str(namespace);
    for (key, value) in labels {
        for part in [key, value] {
            text.push('\0');
            text.push_str(part);
        }
    }
    text
}

/// A label's value in such a text.
fn tag_label<'a>(tag: &'a str, key: &str) -> Option<&'a str> {
    let mut parts = tag.split('\0').skip(1);
    while let (Some(name), Some(value)) = (parts.next(), parts.next()) {
        if name == key {
            return Some(value);
        }
    }
    None
}

impl Places {
    /// Whether a selector selects pods with this tag.
    pub(crate) fn selects(&self, selector: &PodSelector, tag: &str) -> bool {
        let Some(labels) = &selector.labels else { return false };
        let namespace = tag.split('\0').next().unwrap_or("");
        let by_labels = |wanted: &Vec<NodeRequirement>| {
            let labels = self.namespaces.get(namespace).map(|(_, labels)| labels);
            let value = |key: &str| labels.and_then(|labels| labels.get(key)).map(|value| &**value);
            wanted
                .iter()
                .all(|requirement| requirement.holds(value(&requirement.key)))
        };
        let by_name = || selector.namespaces.iter().any(|name| **name == *namespace);
        (by_name() || selector.namespace_labels.as_ref().is_some_and(by_labels))
            && labels
                .iter()
                .all(|requirement| requirement.holds(tag_label(tag, &requirement.key)))
    }

    /// Whether pods with this tag wear the mark (of a selector), or meet it (of a term).
    pub(crate) fn concerns(&self, mark: &MarkKey, tag: &str) -> bool {
        match mark {
            MarkKey::Selected(selectors) => selectors.iter().all(|selector| self.selects(selector, tag)),
            MarkKey::Holds(term, _) => self.selects(&term.pods, tag),
            MarkKey::Mounts(_) => false,
        }
    }

    /// What a tag wears and meets, of all marks.
    pub(crate) fn read_tag(&self, text: &str) -> Tag {
        let mut tag = Tag::default();
        for (id, key, _) in self.marks.iter() {
            if self.concerns(key, text) {
                match key {
                    MarkKey::Selected(_) => tag.wears.push(id),
                    MarkKey::Holds(..) | MarkKey::Mounts(_) => tag.meets.push(id),
                }
            }
        }
        tag
    }

    /// The marks that a pod with this tag and these ties wears.
    pub(crate) fn worn(&self, tag: u32, ties: u32) -> impl Iterator<Item = u32> {
        let wears = self.tags.get(tag).map(|tag| tag.wears.as_slice());
        let holds = self.ties.get(ties).map(|bonds| bonds.holds.as_slice());
        let both = [wears, holds].into_iter().flatten();
        both.flatten().copied()
    }
}
