//! What ties pods to each other: marks come with the first pod that mentions them and go with the last.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::is_meant;
use crate::facts::{ClaimFacts, Labels, NamespaceFacts, PodTerm, StorageFacts, Taint, TaintEffect, Ties, VolumeFacts};
use crate::model::{Bonds, Hold, Mark, MarkKey, NOTHING, NodeId, Topology, tag_text};
use crate::session::State;

impl State {
    /// The tag of a pod.
    pub(super) fn acquire_tag(&mut self, pod: &str, labels: &Labels) -> u32 {
        let namespace = pod.split('/').next().unwrap_or("");
        let text = tag_text(namespace, labels);
        let places = &mut self.model.places;
        if let Some(id) = places.tags.mention(text.as_str()) {
            return id;
        }
        let tag = places.read_tag(&text);
        places.tags.add(Arc::from(text), tag)
    }

    pub(super) fn release_tag(&mut self, tag: u32) {
        self.model.places.tags.release(tag);
    }

    /// The ties of a pod, with the marks that they mean.
    pub(super) fn acquire_ties(&mut self, ties: &Arc<Ties>) -> u32 {
        if **ties == Ties::default() {
            return NOTHING;
        }
        if let Some(id) = self.model.places.ties.mention(ties) {
            return id;
        }
        let mut bonds = Bonds::default();
        if !ties.near.is_empty() {
            let selectors = ties.near.iter().map(|term| term.pods.clone()).collect();
            let mark = self.acquire_mark(MarkKey::Selected(selectors), NOTHING);
            let topologies = ties.near.iter().map(|term| self.acquire_topology(&term.topology));
            bonds.near = Some((mark, topologies.collect()));
        }
        for term in &ties.apart {
            let found = self.acquire_selected(term);
            bonds.apart.push(found);
        }
        for (weight, term) in &ties.wishes {
            let (mark, topology) = self.acquire_selected(term);
            bonds.wishes.push((mark, topology, *weight));
        }
        for spread in &ties.spread {
            let found = self.acquire_selected(&spread.term);
            bonds.spread.push(found);
        }
        let apart = ties.apart.iter().map(|term| (term, Hold::Apart));
        let near = ties.near.iter().map(|term| (term, Hold::Near));
        let wishes = ties.wishes.iter().map(|(weight, term)| (term, Hold::Wish(*weight)));
        for (term, hold) in apart.chain(near).chain(wishes) {
            let topology = self.acquire_topology(&term.topology);
            let mark = self.acquire_mark(MarkKey::Holds(term.clone(), hold), topology);
            bonds.holds.push(mark);
        }
        for claim in &ties.claims {
            let mark = self.acquire_mark(MarkKey::Mounts(claim.clone()), NOTHING);
            bonds.holds.push(mark);
        }
        self.model.places.ties.add(ties.clone(), bonds)
    }

    fn acquire_selected(&mut self, term: &PodTerm) -> (u32, u32) {
        let topology = self.acquire_topology(&term.topology);
        (
            self.acquire_mark(MarkKey::Selected(vec![term.pods.clone()]), NOTHING),
            topology,
        )
    }

    pub(super) fn release_ties(&mut self, ties: u32) {
        let Some(bonds) = self.model.places.ties.release(ties) else {
            return;
        };
        let held = bonds.holds.iter().filter_map(|&mark| self.model.places.marks.get(mark));
        let mut topologies: Vec<u32> = held
            .map(|mark| mark.topology)
            .filter(|&topology| topology != NOTHING)
            .collect();
        let mut marks: Vec<u32> = bonds.holds.to_vec();
        if let Some((mark, places)) = bonds.near {
            marks.push(mark);
            topologies.extend(places);
        }
        let pairs = bonds.apart.iter().chain(&bonds.spread).copied();
        for (mark, topology) in pairs.chain(bonds.wishes.iter().map(|&(mark, topology, _)| (mark, topology))) {
            marks.push(mark);
            topologies.push(topology);
        }
        for mark in marks {
            self.release_mark(mark);
        }
        for topology in topologies {
            self.model.places.topologies.release(topology);
        }
    }

    fn acquire_topology(&mut self, label: &Arc<str>) -> u32 {
        if let Some(id) = self.model.places.topologies.mention(label) {
            return id;
        }
        let mut topology = Topology::default();
        for node in self.model.nodes.ids() {
            topology.put(node, self.model.nodes[node].labels.get(label));
        }
        self.model.places.topologies.add(label.clone(), topology)
    }

    /// A mark. One that is new is put on all pods that should wear it.
    fn acquire_mark(&mut self, key: MarkKey, topology: u32) -> u32 {
        let places = &mut self.model.places;
        if let Some(id) = places.marks.mention(&key) {
            return id;
        }
        let tags: Vec<u32> = places
            .tags
            .iter()
            .filter(|&(_, text, _)| places.concerns(&key, text))
            .map(|(tag, ..)| tag)
            .collect();
        let selects = matches!(key, MarkKey::Selected(_));
        let mark = places.marks.add(Arc::new(key), Mark { topology });
        for &tag in &tags {
            if let Some(tag) = places.tags.get_mut(tag) {
                if selects { &mut tag.wears } else { &mut tag.meets }.push(mark);
            }
        }
        if selects && !tags.is_empty() {
            self.ledger.recount_mark(&self.model, mark);
        }
        if !selects && !tags.is_empty() {
            // Where pods may go depends on their labels now.
            self.dissolve_crowds();
        }
        mark
    }

    fn release_mark(&mut self, mark: u32) {
        let places = &mut self.model.places;
        if places.marks.release(mark).is_none() {
            return;
        }
        for (_, _, tag) in places.tags.iter_mut() {
            tag.wears.retain(|worn| *worn != mark);
            tag.meets.retain(|met| *met != mark);
        }
        self.ledger.forget_mark(mark);
    }

    /// Where a node is, by its labels of the moment.
    pub(super) fn locate(&mut self, node: NodeId) {
        let labels = &self.model.nodes[node].labels;
        for (_, label, topology) in self.model.places.topologies.iter_mut() {
            topology.put(node, labels.get(label));
        }
    }

    /// Counts a node whose taints pods would rather not bear.
    pub(super) fn count_taints(&mut self, node: NodeId, enter: bool) {
        let shy = |taint: &&Taint| taint.effect == TaintEffect::PreferNoSchedule;
        if self.model.nodes[node].taints.iter().filter(shy).count() > 1 {
            let count = &mut self.model.places.shy_nodes;
            *count = if enter { *count + 1 } else { count.saturating_sub(1) };
        }
    }

    /// Gives a node other images.
    pub(super) fn set_images(&mut self, node: NodeId, images: &BTreeMap<Arc<str>, i64>) {
        let record = &mut self.model.nodes[node];
        if record.images == *images {
            return;
        }
        let before = std::mem::replace(&mut record.images, images.clone());
        let gone = before.keys().filter(|name| !images.contains_key(*name));
        let come = images.iter().filter(|(name, _)| !before.contains_key(*name));
        let places = &mut self.model.places;
        for name in gone {
            places.images_version += 1;
            if let Some(image) = places.images.get_mut(name) {
                image.nodes = image.nodes.saturating_sub(1);
                image.version = places.images_version;
                if image.nodes == 0 {
                    places.images.remove(name);
                }
            }
        }
        for (name, &bytes) in come {
            places.images_version += 1;
            let image = places.images.entry(name.clone()).or_default();
            image.nodes += 1;
            image.version = places.images_version;
            image.bytes = image.bytes.max(bytes);
        }
    }

    /// Works out again who wears what, after namespaces changed.
    fn remark(&mut self) {
        let places = &mut self.model.places;
        let by_labels = |key: &MarkKey| match key {
            MarkKey::Selected(selectors) => selectors.iter().any(|selector| selector.namespace_labels.is_some()),
            MarkKey::Holds(term, _) => term.pods.namespace_labels.is_some(),
            MarkKey::Mounts(_) => false,
        };
        if !places.marks.iter().any(|(_, key, _)| by_labels(key)) {
            return;
        }
        let tags: Vec<(u32, crate::model::Tag)> = places
            .tags
            .iter()
            .map(|(id, text, _)| (id, places.read_tag(text)))
            .collect();
        for (id, tag) in tags {
            if let Some(known) = places.tags.get_mut(id) {
                *known = tag;
            }
        }
        self.ledger.recount_marks(&self.model);
        self.dissolve_crowds();
        self.ease();
    }

    pub(super) fn upsert_namespace(&mut self, facts: &NamespaceFacts) {
        let entry = (facts.uid.clone(), facts.labels.clone());
        let before = self.model.places.namespaces.insert(facts.name.clone(), entry);
        if before.is_none_or(|(_, labels)| labels != facts.labels) {
            self.remark();
        }
    }

    pub(super) fn namespace_gone(&mut self, name: &str, uid: Option<&str>) {
        let known = self.model.places.namespaces.get(name);
        if known.is_some_and(|(known, _)| is_meant(uid, known)) {
            self.model.places.namespaces.remove(name);
            self.remark();
        }
    }

    pub(super) fn upsert_claim(&mut self, facts: &ClaimFacts) {
        let claims = &mut self.model.places.claims;
        if claims.insert(facts.key.clone(), facts.clone()).as_ref() != Some(facts) {
            self.ease();
        }
    }

    pub(super) fn claim_gone(&mut self, key: &str, uid: Option<&str>) {
        let claims = &mut self.model.places.claims;
        if claims.get(key).is_some_and(|known| is_meant(uid, &known.uid)) {
            claims.remove(key);
            self.ease();
        }
    }

    pub(super) fn upsert_volume(&mut self, facts: &VolumeFacts) {
        let volumes = &mut self.model.places.volumes;
        if volumes.insert(facts.name.clone(), facts.clone()).as_ref() != Some(facts) {
            self.ease();
        }
    }

    pub(super) fn volume_gone(&mut self, name: &str, uid: Option<&str>) {
        let volumes = &mut self.model.places.volumes;
        if volumes.get(name).is_some_and(|known| is_meant(uid, &known.uid)) {
            volumes.remove(name);
            self.ease();
        }
    }

    pub(super) fn upsert_storage(&mut self, facts: &StorageFacts) {
        let storage = &mut self.model.places.storage;
        if storage.insert(facts.name.clone(), facts.clone()).as_ref() != Some(facts) {
            self.ease();
        }
    }

    pub(super) fn storage_gone(&mut self, name: &str, uid: Option<&str>) {
        let storage = &mut self.model.places.storage;
        if storage.get(name).is_some_and(|known| is_meant(uid, &known.uid)) {
            storage.remove(name);
            self.ease();
        }
    }
}
