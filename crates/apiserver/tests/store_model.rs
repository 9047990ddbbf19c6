//! Random histories, checked step by step against a model that is nothing but the list of all
//! changes ever made.

#[path = "support/store.rs"]
mod support;

use std::collections::BTreeMap;

use basalt_apiserver::store::{
    Backend, CommitError, Compacted, Event, EventKind, Expect, FIRST_REVISION, Key, Listing, Options, Revision, Store,
    Watch, Write,
};
use proptest::prelude::*;
use support::{check, commit, delete, options, put, value};

const RESOURCES: [&str; 2] = ["pods", "queues.scheduling.volcano.sh"];

/// Few keys, so that histories meet: two resources, two namespaces, three names.
fn key(index: u8) -> Key {
    let index = usize::from(index % 12);
    Key::new(
        RESOURCES[index % 2],
        ["default", "other"][index / 2 % 2],
        ["a", "b", "c"][index / 4],
    )
}

#[derive(Clone, Debug)]
struct Step {
    action: u8,
    key: u8,
    /// 0 any, 1 absent, 2 present, 3 the current revision, 4 a wrong one.
    expect: u8,
    value: u16,
}

#[derive(Clone, Debug)]
enum Act {
    Commit(Vec<Step>),
    /// Starts a watch this far back, in percent of all history.
    Watch(u8, u8),
    ListAt(u8, u8),
    Compact(u8),
    Reopen,
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let expect = prop_oneof![6 => Just(0u8), 1 => Just(1u8), 1 => Just(2u8), 3 => Just(3u8), 1 => Just(4u8)];
    let step = (0..8u8, any::<u8>(), expect, any::<u16>()).prop_map(|(action, key, expect, value)| Step {
        action,
        key,
        expect,
        value,
    });
    let act = prop_oneof![
        12 => proptest::collection::vec(step, 1..5).prop_map(Act::Commit),
        2 => (any::<u8>(), 0..=100u8).prop_map(|(resource, back)| Act::Watch(resource, back)),
        2 => (any::<u8>(), 0..=100u8).prop_map(|(resource, back)| Act::ListAt(resource, back)),
        1 => (60..=100u8).prop_map(Act::Compact),
        1 => Just(Act::Reopen),
    ];
    proptest::collection::vec(act, 1..60)
}

#[derive(Clone, Debug)]
struct Change {
    revision: Revision,
    complete: Revision,
    key: Key,
    /// `None`: deleted.
    value: Option<String>,
}

fn write(step: &Step, key: &Key, expect: Expect) -> Write {
    match step.action {
        0 => check(key, expect),
        1 | 2 => delete(key, expect),
        _ => put(key, expect, &step.value.to_string()),
    }
}

/// The whole truth.
#[derive(Default)]
struct Model {
    changes: Vec<Change>,
    compacted: Revision,
}

impl Model {
    fn revision(&self) -> Revision {
        self.changes.last().map_or(FIRST_REVISION, |change| change.revision)
    }

    fn at(&self, revision: Revision) -> BTreeMap<Key, (Revision, String)> {
        let mut state = BTreeMap::new();
        for change in self.changes.iter().take_while(|change| change.revision <= revision) {
            match &change.value {
                Some(value) => state.insert(change.key.clone(), (change.revision, value.clone())),
                None => state.remove(&change.key),
            };
        }
        state
    }

    /// The revision `percent` of the way through history.
    fn percent(&self, percent: u8) -> Revision {
        FIRST_REVISION + (self.revision() - FIRST_REVISION) * u64::from(percent) / 100
    }

    /// What the transaction does, and what it makes of the store's answer.
    fn commit(&mut self, store: &Store, steps: &[Step]) {
        let mut state = self.at(self.revision());
        let (mut writes, mut changes, mut refused) = (Vec::new(), Vec::new(), None);
        let mut revision = self.revision();
        for step in steps {
            let key = key(step.key);
            let found = state.get(&key).map(|(revision, _)| *revision);
            let expect = match step.expect {
                0 => Expect::Any,
                1 => Expect::Absent,
                2 => Expect::Present,
                3 => found.map_or(Expect::Absent, Expect::Revision),
                _ => Expect::Revision(found.unwrap_or(0) + 1),
            };
            let removes = step.action == 1 || step.action == 2;
            if refused.is_none() && (!expect.holds(found) || (removes && found.is_none())) {
                refused = Some((key.clone(), found));
            }
            writes.push(write(step, &key, expect));
            if step.action != 0 {
                revision += 1;
                let value = (!removes).then(|| step.value.to_string());
                match &value {
                    Some(value) => state.insert(key.clone(), (revision, value.clone())),
                    None => state.remove(&key),
                };
                changes.push(Change {
                    revision,
                    complete: 0,
                    key,
                    value,
                });
            }
        }
        match (commit(store, writes), refused) {
            (Ok(commit), None) => {
                assert_eq!((commit.revision, commit.objects.len()), (revision, steps.len()));
                self.changes.extend(changes.into_iter().map(|change| Change {
                    complete: revision,
                    ..change
                }));
            }
            (Err(CommitError::Conflict { key, found, .. }), Some(refused)) => assert_eq!((key, found), refused),
            (answer, refused) => panic!("{answer:?}, but the model says {refused:?}"),
        }
    }

    fn check_listing(&self, resource: &str, namespace: Option<&str>, listing: &Listing) {
        let expected: Vec<_> = (self.at(listing.revision).into_iter())
            .filter(|(key, _)| &*key.resource == resource && namespace.is_none_or(|n| n == &*key.namespace))
            .map(|(key, (revision, value))| (key, revision, value))
            .collect();
        let found: Vec<_> = listing
            .objects
            .iter()
            .map(|object| (object.key.clone(), object.revision, value(object)))
            .collect();
        assert_eq!(found, expected);
    }

    fn check_event(&self, event: &Event, change: &Change) {
        assert_eq!((event.revision, event.complete), (change.revision, change.complete));
        assert_eq!(
            (&event.object.key, event.object.revision),
            (&change.key, change.revision)
        );
        assert_eq!(value(&event.object), change.value.as_deref().unwrap_or("gone"));
        let before = self.at(change.revision - 1).remove(&change.key);
        assert_eq!(
            event.previous.as_ref().map(|object| (object.revision, value(object))),
            before
        );
        let kind = match (&change.value, before) {
            (None, _) => EventKind::Deleted,
            (Some(_), Some(_)) => EventKind::Modified,
            (Some(_), None) => EventKind::Added,
        };
        assert_eq!(event.kind, kind);
    }
}

/// A watcher and what it has seen.
struct Watcher {
    resource: &'static str,
    seen: Revision,
    watch: Watch,
}

/// One store under test.
struct Run {
    model: Model,
    store: Store,
    options: Options,
    watchers: Vec<Watcher>,
    /// Limits are so small that history may be lost at any time.
    forgetful: bool,
}

impl Run {
    fn new(options: Options, forgetful: bool) -> Self {
        let store = Store::open(options.clone()).unwrap();
        Self {
            model: Model::default(),
            store,
            options,
            watchers: Vec::new(),
            forgetful,
        }
    }

    fn all(&mut self, acts: &[Act]) {
        for act in acts {
            self.act(act);
        }
    }

    fn act(&mut self, act: &Act) {
        match act {
            Act::Commit(steps) => self.model.commit(&self.store, steps),
            Act::Watch(resource, percent) => {
                self.watch(RESOURCES[usize::from(*resource) % 2], self.model.percent(*percent));
            }
            Act::ListAt(resource, percent) => {
                self.list_at(RESOURCES[usize::from(*resource) % 2], self.model.percent(*percent));
            }
            Act::Compact(percent) => {
                // Watchers that have not read this far lose it; here all have.
                self.drain();
                let up_to = self.model.percent(*percent);
                self.model.compacted = self.model.compacted.max(up_to);
                self.store.compact(up_to);
            }
            Act::Reopen if self.options.backend != Backend::Memory => self.reopen(),
            Act::Reopen => {}
        }
        self.drain();
        assert_eq!(self.store.revision(), self.model.revision());
        for resource in RESOURCES {
            self.model
                .check_listing(resource, None, &self.store.list(resource, None));
            self.model
                .check_listing(resource, Some("other"), &self.store.list(resource, Some("other")));
        }
        for index in 0..12 {
            let key = key(index);
            assert_eq!(self.store.get(&key), self.store.head(&key));
            let found = self.store.get(&key).map(|object| (object.revision, value(&object)));
            assert_eq!(found, self.model.at(self.model.revision()).remove(&key));
        }
    }

    /// Losing history is right where it was compacted, or where the limits are small.
    fn lost(&self, lost: Compacted, at: Revision) {
        assert!(self.forgetful || at < self.model.compacted, "{lost:?}");
        assert!(lost.requested == at && lost.oldest > at, "{lost:?} at {at}");
        assert!(lost.oldest <= self.model.revision(), "{lost:?}");
    }

    fn watch(&mut self, resource: &'static str, seen: Revision) {
        match self.store.watch(resource, seen) {
            Ok(watch) => self.watchers.push(Watcher { resource, seen, watch }),
            Err(lost) => self.lost(lost, seen),
        }
    }

    fn list_at(&self, resource: &str, revision: Revision) {
        match self.store.list_at(resource, None, revision) {
            Ok(listing) => {
                assert!(listing.revision >= revision);
                self.model.check_listing(resource, None, &listing);
                let inside =
                    |change: &&Change| change.revision <= listing.revision && &*change.key.resource == resource;
                let last = self.model.changes.iter().rev().find(inside);
                assert!(
                    last.is_none_or(|change| change.complete <= listing.revision),
                    "half a transaction"
                );
            }
            Err(lost) => self.lost(lost, revision),
        }
    }

    /// Every watcher sees every later change of its resource, once and in order.
    fn drain(&mut self) {
        let watchers = std::mem::take(&mut self.watchers);
        for mut watcher in watchers {
            let kept = loop {
                match watcher.watch.ready() {
                    Ok(events) if events.is_empty() => break true,
                    Ok(events) => {
                        for event in &events {
                            let next = (self.model.changes.iter())
                                .find(|c| c.revision > watcher.seen && &*c.key.resource == watcher.resource);
                            self.model
                                .check_event(event, next.expect("an event that the model does not know"));
                            watcher.seen = event.revision;
                        }
                    }
                    Err(lost) => {
                        self.lost(lost, watcher.seen);
                        break false;
                    }
                }
            };
            if kept {
                let missed = (self.model.changes.iter())
                    .find(|c| c.revision > watcher.seen && &*c.key.resource == watcher.resource);
                assert!(missed.is_none(), "missed {missed:?}");
                assert_eq!(watcher.watch.progress(), self.model.revision().max(watcher.seen));
                self.watchers.push(watcher);
            }
        }
    }

    /// Everything is as it was; watchers resume where they were, or hear that they cannot.
    fn reopen(&mut self) {
        self.store.close();
        self.store = Store::open(self.options.clone()).unwrap();
        for watcher in std::mem::take(&mut self.watchers) {
            self.watch(watcher.resource, watcher.seen);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn memory(acts in acts()) {
        let mut run = Run::new(options(Backend::Memory), false);
        run.all(&acts);
    }

    #[test]
    fn memory_with_little_history(acts in acts()) {
        let mut run = Run::new(Options { history_bytes_max: 2048, ..options(Backend::Memory) }, true);
        run.all(&acts);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn disk(acts in acts()) {
        let folder = tempfile::tempdir().unwrap();
        let mut run = Run::new(options(Backend::Disk(folder.path().join("store"))), false);
        run.all(&acts);
    }

    /// The log is reclaimed all the time.
    #[test]
    fn disk_with_short_log(acts in acts()) {
        let folder = tempfile::tempdir().unwrap();
        let options = options(Backend::Disk(folder.path().join("store")));
        let mut run = Run::new(Options { history_bytes_max: 8192, log_bytes_floor: 0, ..options }, true);
        run.all(&acts);
        run.act(&Act::Reopen);
    }
}

/// After a restart the floor of history can lie above events that are still kept; forgetting those must not lower it.
#[test]
fn the_floor_of_history_never_sinks() {
    let commit = |steps: &[(u8, u8, u8, u16)]| {
        Act::Commit(
            steps
                .iter()
                .map(|&(action, key, expect, value)| Step {
                    action,
                    key,
                    expect,
                    value,
                })
                .collect(),
        )
    };
    let acts = [
        commit(&[(0, 0, 0, 0)]),
        commit(&[(3, 7, 0, 0)]),
        commit(&[(3, 27, 0, 0), (3, 14, 3, 0), (3, 84, 3, 0), (3, 64, 0, 0)]),
        commit(&[(3, 126, 0, 1423), (4, 18, 3, 50493)]),
        commit(&[(6, 13, 3, 61640)]),
        commit(&[(2, 84, 0, 60520), (6, 226, 0, 19854)]),
        commit(&[(7, 93, 3, 56048), (6, 7, 3, 50695)]),
        commit(&[(2, 127, 3, 913)]),
        Act::Reopen,
        commit(&[(3, 54, 0, 14585), (5, 100, 0, 9870)]),
        commit(&[(5, 89, 0, 40834)]),
        commit(&[
            (2, 17, 0, 2123),
            (6, 124, 0, 12689),
            (6, 183, 3, 18734),
            (1, 234, 0, 889),
        ]),
        commit(&[
            (0, 225, 0, 1432),
            (2, 34, 2, 49711),
            (7, 167, 3, 65072),
            (5, 192, 3, 23794),
        ]),
        commit(&[(5, 203, 0, 62752), (4, 170, 0, 24242), (6, 72, 3, 31688)]),
        commit(&[
            (4, 83, 0, 51828),
            (5, 221, 0, 974),
            (7, 30, 0, 21630),
            (4, 97, 2, 12233),
        ]),
        commit(&[(5, 243, 0, 636), (7, 235, 0, 15914)]),
        Act::ListAt(46, 25),
    ];
    let folder = tempfile::tempdir().unwrap();
    let options = options(Backend::Disk(folder.path().join("store")));
    let mut run = Run::new(
        Options {
            history_bytes_max: 8192,
            log_bytes_floor: 0,
            ..options
        },
        true,
    );
    run.all(&acts);
}
