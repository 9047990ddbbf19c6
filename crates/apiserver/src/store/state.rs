//! The durable state as readers see it, and the recent history that watchers and exact lists read.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use super::model::{Compacted, Event, EventKind, FIRST_REVISION, Key, Listing, Object, Revision, Row};
use super::watch::Bell;

/// What an event costs in memory beyond its body and key: the event, the object, map nodes.
pub(super) const EVENT_OVERHEAD: usize = 256;

/// A resource, by the order in which they were first seen.
pub(super) type TableId = u32;

type Names = BTreeMap<Arc<str>, Row>;

/// Everything of one resource.
pub(super) struct Table {
    /// Namespace → name → object's row; no empty inner maps.
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

    fn insert(&mut self, key: &Key, row: Row) {
        if !self.objects.contains_key(&key.namespace) {
            self.objects.insert(Arc::clone(&key.namespace), Names::new());
        }
        if let Some(names) = self.objects.get_mut(&key.namespace)
            && names.insert(Arc::clone(&key.name), row).is_none()
        {
            self.count += 1;
        }
    }

    fn remove(&mut self, key: &Key) {
        let Some(names) = self.objects.get_mut(&key.namespace) else {
            return;
        };
        if names.remove(&key.name).is_some() {
            self.count -= 1;
        }
        if names.is_empty() {
            self.objects.remove(&key.namespace);
        }
    }

    /// The rows of all objects, or of one namespace's, in key order.
    fn rows(&self, namespace: Option<&str>) -> impl Iterator<Item = Row> {
        let (all, one) = match namespace {
            Some(namespace) => (None, self.objects.get(namespace)),
            None => (Some(&self.objects), None),
        };
        let all = all.into_iter().flat_map(BTreeMap::values);
        all.chain(one).flat_map(Names::values).copied()
    }

    /// The first event after `revision`.
    fn after(&self, revision: Revision) -> usize {
        self.history.partition_point(|event| event.revision <= revision)
    }
}

/// The objects by row. A change of one that is there already needs no search.
#[derive(Default)]
struct Rows(Vec<Place>);

/// Whose row it is or was last, and what it holds.
type Place = (TableId, Option<Arc<Object>>);

impl Rows {
    fn get(&self, row: Row) -> Option<&Arc<Object>> {
        self.0.get(row as usize)?.1.as_ref()
    }

    fn get_mut(&mut self, row: Row) -> Option<&mut Place> {
        self.0.get_mut(row as usize)
    }

    fn insert(&mut self, table: TableId, object: Arc<Object>) {
        let row = object.row as usize;
        if row >= self.0.len() {
            self.0.resize_with(row + 1, || (table, None));
        }
        self.0[row] = (table, Some(object));
    }
}

/// All tables at one revision.
pub(super) struct State {
    revision: Revision,
    /// Set by `compact`; a table's own floor can be higher.
    compacted: Revision,
    names: BTreeMap<Arc<str>, TableId>,
    /// By their ids.
    tables: Vec<Table>,
    rows: Rows,
    /// The table of each event kept, oldest first over all tables: who is forgotten next.
    order: VecDeque<TableId>,
    history_bytes: usize,
    history_bytes_max: usize,
}

impl State {
    pub(super) fn new(history_bytes_max: usize) -> Self {
        Self {
            revision: FIRST_REVISION,
            compacted: 0,
            names: BTreeMap::new(),
            tables: Vec::new(),
            rows: Rows::default(),
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
        let row = self.table(resource)?.objects.get(namespace)?.get(name)?;
        self.rows.get(*row)
    }

    /// A version, if it is the one that is visible.
    pub(super) fn version(&self, row: Row, revision: Revision) -> Option<Arc<Object>> {
        let object = self.rows.get(row)?;
        (object.revision == revision).then(|| Arc::clone(object))
    }

    /// All objects of all resources.
    pub(super) fn objects(&self) -> impl Iterator<Item = &Arc<Object>> {
        self.rows.0.iter().filter_map(|(_, object)| object.as_ref())
    }

    /// How many rows there are.
    pub(super) fn rows(&self) -> Row {
        self.rows.0.len() as Row
    }

    pub(super) fn counts(&self) -> impl Iterator<Item = (&Arc<str>, usize)> {
        self.names
            .iter()
            .map(|(resource, table)| (resource, self.tables[*table as usize].count))
            .filter(|(_, count)| *count > 0)
    }

    pub(super) fn list(&self, resource: &str, namespace: Option<&str>) -> Listing {
        Listing {
            revision: self.revision,
            objects: self
                .table(resource)
                .map_or_else(Vec::new, |table| self.listed(table, namespace)),
        }
    }

    fn listed(&self, table: &Table, namespace: Option<&str>) -> Vec<Arc<Object>> {
        let mut objects = Vec::with_capacity(if namespace.is_none() { table.count } else { 0 });
        objects.extend(table.rows(namespace).filter_map(|row| self.rows.get(row).cloned()));
        objects
    }

    fn table(&self, resource: &str) -> Option<&Table> {
        self.names.get(resource).map(|id| &self.tables[*id as usize])
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
        let Some(table) = self.table(resource) else {
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
        let mut objects = self.listed(table, namespace);
        if !undone.is_empty() {
            objects.retain(|object| !undone.contains_key(&(&*object.key.namespace, &*object.key.name)));
            objects.extend(undone.values().copied().flatten().cloned());
            objects.sort_by(|a, b| a.key.cmp(&b.key));
        }
        Ok(Listing { revision, objects })
    }

    /// Whether every change of `resource` after `revision` is known.
    pub(super) fn retained(&self, resource: &str, revision: Revision) -> Result<(), Compacted> {
        let forgotten = self.table(resource).map_or(0, |table| table.forgotten);
        since(revision, forgotten.max(self.compacted))
    }

    /// Up to `count` events after `revision`. A watch that has seen every event of its resource so far
    /// goes on, also when events of others have been compacted since.
    pub(super) fn events(&self, resource: &str, revision: Revision, count: usize) -> Result<Vec<Event>, Compacted> {
        let Some(table) = self.table(resource) else {
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

    /// The table of a resource, which need not have objects yet.
    pub(super) fn table_id(&mut self, resource: &Arc<str>) -> TableId {
        if let Some(id) = self.names.get(resource) {
            return *id;
        }
        let id = self.tables.len() as TableId;
        self.names.insert(Arc::clone(resource), id);
        self.tables.push(Table::new());
        id
    }

    /// The bell of a table.
    pub(super) fn bell(&self, table: TableId) -> &Arc<Bell> {
        &self.tables[table as usize].bell
    }

    /// Makes one change visible and says in which table. Whole transactions only, within one hold of the lock.
    pub(super) fn apply(&mut self, event: Event) -> TableId {
        self.revision = event.revision;
        let object = &event.object;
        let id = match (event.kind, self.rows.get_mut(object.row)) {
            (EventKind::Modified, Some((id, place))) => {
                *place = Some(Arc::clone(object));
                *id
            }
            (EventKind::Deleted, Some((id, place))) => {
                *place = None;
                let id = *id;
                self.tables[id as usize].remove(&object.key);
                id
            }
            _ => self.add(Arc::clone(object)),
        };
        self.history_bytes += cost(&event);
        self.tables[id as usize].history.push_back(event);
        self.order.push_back(id);
        while self.history_bytes > self.history_bytes_max && self.forget_oldest() {}
        id
    }

    fn add(&mut self, object: Arc<Object>) -> TableId {
        let id = self.table_id(&object.key.resource);
        self.tables[id as usize].insert(&object.key, object.row);
        self.rows.insert(id, object);
        id
    }

    /// Forgets the oldest event of all tables; false when there is none.
    fn forget_oldest(&mut self) -> bool {
        let Some(id) = self.order.pop_front() else {
            return false;
        };
        let table = &mut self.tables[id as usize];
        if let Some(event) = table.history.pop_front() {
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
        while let Some(id) = self.order.front() {
            let oldest = self.tables[*id as usize].history.front();
            if oldest.is_none_or(|event| event.revision > up_to) || !self.forget_oldest() {
                break;
            }
        }
    }

    /// Puts an object in place without an event: what replay found.
    pub(super) fn restore(&mut self, object: Arc<Object>) {
        self.add(object);
    }

    /// Puts an event in place whose effect is already there; replay has kept to the limit.
    pub(super) fn restore_event(&mut self, event: Event) {
        let id = self.table_id(&event.object.key.resource);
        self.history_bytes += cost(&event);
        self.tables[id as usize].history.push_back(event);
        self.order.push_back(id);
    }

    /// Sets what replay found about the whole.
    pub(super) fn restore_revisions(&mut self, revision: Revision, compacted: Revision) {
        self.revision = revision;
        self.compacted = compacted;
    }

    /// History of this resource is complete only above `floor`.
    pub(super) fn restore_floor(&mut self, resource: &Arc<str>, floor: Revision) {
        let id = self.table_id(resource);
        let table = &mut self.tables[id as usize];
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
