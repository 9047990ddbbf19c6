//! The durable state as readers see it, and the recent history that watchers and exact lists read.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use super::model::{Compacted, Event, EventKind, FIRST_REVISION, Listing, Object, Revision};
use super::watch::Bell;

/// What an event costs in memory beyond its body and key: the event, the object, map nodes.
pub(super) const EVENT_OVERHEAD: usize = 256;

type Names = BTreeMap<Arc<str>, Arc<Object>>;

/// Everything of one resource.
pub(super) struct Table {
    /// Namespace → name → object; no empty inner maps.
    objects: BTreeMap<Arc<str>, Names>,
    count: usize,
    /// Oldest first.
    history: VecDeque<Event>,
    /// The revision of the newest event that is no longer in `history`.
    forgotten: Revision,
    /// The end of that event's transaction.
    floor: Revision,
    /// Rings after every change of this resource, and of no other.
    bell: Arc<Bell>,
}

impl Table {
    fn new() -> Self {
        Self {
            objects: BTreeMap::new(),
            count: 0,
            history: VecDeque::new(),
            forgotten: 0,
            floor: 0,
            bell: Arc::new(Bell::new(())),
        }
    }

    fn get(&self, namespace: &str, name: &str) -> Option<&Arc<Object>> {
        self.objects.get(namespace)?.get(name)
    }

    fn insert(&mut self, object: Arc<Object>) {
        if !self.objects.contains_key(&object.key.namespace) {
            self.objects.insert(Arc::clone(&object.key.namespace), Names::new());
        }
        let Some(names) = self.objects.get_mut(&object.key.namespace) else {
            return;
        };
        if let Some(known) = names.get_mut(&object.key.name) {
            *known = object;
        } else {
            names.insert(Arc::clone(&object.key.name), object);
            self.count += 1;
        }
    }

    fn remove(&mut self, namespace: &str, name: &str) {
        let Some(names) = self.objects.get_mut(namespace) else {
            return;
        };
        if names.remove(name).is_some() {
            self.count -= 1;
        }
        if names.is_empty() {
            self.objects.remove(namespace);
        }
    }

    fn list(&self, namespace: Option<&str>) -> Vec<Arc<Object>> {
        let mut objects = Vec::with_capacity(if namespace.is_none() { self.count } else { 0 });
        match namespace {
            Some(namespace) => objects.extend(self.objects.get(namespace).into_iter().flat_map(Names::values).cloned()),
            None => objects.extend(self.objects.values().flat_map(Names::values).cloned()),
        }
        objects
    }

    /// The first event after `revision`.
    fn after(&self, revision: Revision) -> usize {
        self.history.partition_point(|event| event.revision <= revision)
    }
}

/// All tables at one revision.
pub(super) struct State {
    revision: Revision,
    /// Set by `compact`; a table's own floor can be higher.
    compacted: Revision,
    tables: BTreeMap<Arc<str>, Table>,
    /// The resource of each event kept, oldest first over all tables: who is forgotten next.
    order: VecDeque<Arc<str>>,
    history_bytes: usize,
    history_bytes_max: usize,
}

impl State {
    pub(super) fn new(history_bytes_max: usize) -> Self {
        Self {
            revision: FIRST_REVISION,
            compacted: 0,
            tables: BTreeMap::new(),
            order: VecDeque::new(),
            history_bytes: 0,
            history_bytes_max,
        }
    }

    pub(super) fn revision(&self) -> Revision {
        self.revision
    }

    pub(super) fn compacted(&self) -> Revision {
        self.compacted
    }

    pub(super) fn get(&self, resource: &str, namespace: &str, name: &str) -> Option<&Arc<Object>> {
        self.tables.get(resource)?.get(namespace, name)
    }

    pub(super) fn counts(&self) -> impl Iterator<Item = (&Arc<str>, usize)> {
        self.tables
            .iter()
            .filter(|(_, table)| table.count > 0)
            .map(|(resource, table)| (resource, table.count))
    }

    pub(super) fn list(&self, resource: &str, namespace: Option<&str>) -> Listing {
        let objects = self
            .tables
            .get(resource)
            .map_or_else(Vec::new, |table| table.list(namespace));
        Listing {
            revision: self.revision,
            objects,
        }
    }

    /// The state at an older revision: today's with later changes undone. A revision inside a
    /// transaction means the whole transaction, so that none is ever seen by half.
    pub(super) fn list_at(
        &self,
        resource: &str,
        namespace: Option<&str>,
        revision: Revision,
    ) -> Result<Listing, Compacted> {
        self.retained(resource, revision)?;
        let Some(table) = self.tables.get(resource) else {
            return Ok(Listing {
                revision: revision.min(self.revision),
                objects: Vec::new(),
            });
        };
        let last = table
            .after(revision)
            .checked_sub(1)
            .and_then(|at| table.history.get(at));
        let complete = last.map_or(table.floor, |event| event.complete);
        let revision = revision.max(complete).min(self.revision);
        // Oldest last, so that the oldest undone change decides what was there.
        let undone: BTreeMap<(&str, &str), Option<&Arc<Object>>> = (table.history.range(table.after(revision)..).rev())
            .map(|event| {
                (
                    (&*event.object.key.namespace, &*event.object.key.name),
                    event.previous.as_ref(),
                )
            })
            .filter(|((of, _), _)| namespace.is_none_or(|namespace| namespace == *of))
            .collect();
        let mut objects = table.list(namespace);
        if !undone.is_empty() {
            objects.retain(|object| !undone.contains_key(&(&*object.key.namespace, &*object.key.name)));
            objects.extend(undone.values().copied().flatten().cloned());
            objects.sort_by(|a, b| a.key.cmp(&b.key));
        }
        Ok(Listing { revision, objects })
    }

    /// Whether every change of `resource` after `revision` is known.
    pub(super) fn retained(&self, resource: &str, revision: Revision) -> Result<(), Compacted> {
        let forgotten = self.tables.get(resource).map_or(0, |table| table.forgotten);
        since(revision, forgotten.max(self.compacted))
    }

    /// Up to `count` events after `revision`. A watch that has seen every event of its resource so far
    /// goes on, also when events of others have been compacted since.
    pub(super) fn events(&self, resource: &str, revision: Revision, count: usize) -> Result<Vec<Event>, Compacted> {
        let Some(table) = self.tables.get(resource) else {
            return Ok(Vec::new());
        };
        since(revision, table.forgotten)?;
        Ok(table
            .history
            .range(table.after(revision)..)
            .take(count)
            .cloned()
            .collect())
    }

    /// The bell of a resource, which need not have objects yet.
    pub(super) fn bell(&mut self, resource: &str) -> &Arc<Bell> {
        &self.table(resource).bell
    }

    fn table(&mut self, resource: &str) -> &mut Table {
        self.tables.entry(Arc::from(resource)).or_insert_with(Table::new)
    }

    /// Makes one change visible. Whole transactions only, within one hold of the lock.
    pub(super) fn apply(&mut self, event: Event) {
        self.revision = event.revision;
        let key = event.object.key.clone();
        let table = self.tables.entry(Arc::clone(&key.resource)).or_insert_with(Table::new);
        match event.kind {
            EventKind::Added | EventKind::Modified => table.insert(Arc::clone(&event.object)),
            EventKind::Deleted => table.remove(&key.namespace, &key.name),
        }
        self.history_bytes += cost(&event);
        table.history.push_back(event);
        self.order.push_back(key.resource);
        while self.history_bytes > self.history_bytes_max && self.forget_oldest() {}
    }

    /// Forgets the oldest event of all tables; false when there is none.
    fn forget_oldest(&mut self) -> bool {
        let Some(resource) = self.order.pop_front() else {
            return false;
        };
        if let Some(table) = self.tables.get_mut(&resource)
            && let Some(event) = table.history.pop_front()
        {
            self.history_bytes = self.history_bytes.saturating_sub(cost(&event));
            // After a restart the floor can be above the oldest events: it never sinks.
            table.forgotten = table.forgotten.max(event.revision);
            table.floor = table.floor.max(event.complete);
        }
        true
    }

    pub(super) fn compact(&mut self, up_to: Revision) {
        let up_to = up_to.min(self.revision);
        self.compacted = self.compacted.max(up_to);
        while let Some(resource) = self.order.front() {
            let oldest = self.tables.get(resource).and_then(|table| table.history.front());
            if oldest.is_none_or(|event| event.revision > up_to) || !self.forget_oldest() {
                break;
            }
        }
    }

    /// Puts an object in place without an event: what replay found.
    pub(super) fn restore(&mut self, object: Arc<Object>) {
        let resource = Arc::clone(&object.key.resource);
        self.tables.entry(resource).or_insert_with(Table::new).insert(object);
    }

    /// Puts an event in place whose effect is already there; replay has kept to the limit.
    pub(super) fn restore_event(&mut self, event: Event) {
        let resource = Arc::clone(&event.object.key.resource);
        self.history_bytes += cost(&event);
        self.tables
            .entry(Arc::clone(&resource))
            .or_insert_with(Table::new)
            .history
            .push_back(event);
        self.order.push_back(resource);
    }

    /// Sets what replay found about the whole.
    pub(super) fn restore_revisions(&mut self, revision: Revision, compacted: Revision) {
        self.revision = revision;
        self.compacted = compacted;
    }

    /// History of this resource is complete only above `floor`.
    pub(super) fn restore_floor(&mut self, resource: &str, floor: Revision) {
        let table = self.table(resource);
        table.forgotten = floor;
        table.floor = floor;
    }
}

fn since(requested: Revision, oldest: Revision) -> Result<(), Compacted> {
    if requested < oldest {
        Err(Compacted { requested, oldest })
    } else {
        Ok(())
    }
}

fn cost(event: &Event) -> usize {
    event.object.body.len() + event.object.key.len() + EVENT_OVERHEAD
}
