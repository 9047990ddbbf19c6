//! Random concurrent histories: many writers, watchers and readers at once, checked afterwards (and
//! readers meanwhile) on what a single history must look like.

#[path = "support/store.rs"]
mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use basalt_apiserver::store::{
    Backend, CommitError, Event, EventKind, Expect, FIRST_REVISION, Key, Object, Options, Revision, Store,
};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use support::{delete, options, put, value};

const WRITERS: u64 = 24;
const TRANSACTIONS: u64 = 40;

fn key(name: &str) -> Key {
    Key::new("pods", "default", name)
}

/// Two objects that are only ever written together, with the same value.
fn pair(index: u64) -> [Key; 2] {
    [key(&format!("pair-{index}-a")), key(&format!("pair-{index}-b"))]
}

/// What a writer did: the revision of each acknowledged transaction, and how often it counted.
#[derive(Default)]
struct Done {
    acknowledged: Vec<Revision>,
    counted: u64,
}

async fn write(store: Store, writer: u64) -> Done {
    let mut random = StdRng::seed_from_u64(writer);
    let mut done = Done::default();
    for turn in 0..TRANSACTIONS {
        let text = format!("{writer}-{turn}");
        let commit = match random.random_range(0..4) {
            0 => {
                let [a, b] = pair(random.random_range(0..4));
                store
                    .commit(vec![put(&a, Expect::Any, &text), put(&b, Expect::Any, &text)])
                    .await
            }
            1 => {
                // Both or none: a writer in between makes the second condition fail.
                let [a, b] = pair(random.random_range(0..4));
                store
                    .commit(vec![delete(&a, Expect::Present), delete(&b, Expect::Present)])
                    .await
            }
            2 => count(&store, &mut done).await,
            _ => {
                store
                    .commit(vec![put(&key(&format!("own-{writer}")), Expect::Any, &text)])
                    .await
            }
        };
        match commit {
            Ok(commit) => {
                for object in &commit.objects {
                    let visible = store.get(&object.key).map_or(0, |now| now.revision);
                    let gone = object.body.ends_with(br#""gone"}"#);
                    assert!(
                        gone || visible == 0 || visible >= object.revision,
                        "an acknowledged write is not visible"
                    );
                }
                done.acknowledged
                    .extend(commit.objects.iter().map(|object| object.revision));
            }
            Err(CommitError::Conflict { .. }) => {}
            Err(other) => panic!("{other}"),
        }
    }
    done
}

/// A read-modify-write on the head, as controllers do it.
async fn count(store: &Store, done: &mut Done) -> Result<basalt_apiserver::store::Commit, CommitError> {
    let counter = key("counter");
    let (expect, next) = match store.head(&counter) {
        Some(object) => (
            Expect::Revision(object.revision),
            value(&object).parse::<u64>().unwrap() + 1,
        ),
        None => (Expect::Absent, 1),
    };
    let commit = store.commit(vec![put(&counter, expect, &next.to_string())]).await?;
    done.counted += 1;
    Ok(commit)
}

/// Lists until it is told to stop; no list may show half a transaction.
async fn read(store: Store, stop: Arc<std::sync::atomic::AtomicBool>) {
    let mut last = FIRST_REVISION;
    while !stop.load(std::sync::atomic::Ordering::Relaxed) {
        let now = store.list("pods", None);
        check_pairs(&now.objects);
        assert!(now.revision >= last, "the revision went back");
        let middle = last + (now.revision - last) / 2;
        if let Ok(then) = store.list_at("pods", None, middle) {
            check_pairs(&then.objects);
        }
        last = now.revision;
        tokio::task::yield_now().await;
    }
}

fn check_pairs(objects: &[Arc<Object>]) {
    assert!(objects.is_sorted_by(|a, b| a.key < b.key));
    let values: BTreeMap<&str, String> = objects
        .iter()
        .map(|object| (&*object.key.name, value(object)))
        .collect();
    for [a, b] in (0..4).map(pair) {
        assert_eq!(values.get(&*a.name), values.get(&*b.name), "half a transaction");
    }
}

/// Collects events up to a revision.
async fn watch(store: Store, until: tokio::sync::watch::Receiver<Option<Revision>>) -> Vec<Event> {
    let mut watch = store.watch("pods", FIRST_REVISION).unwrap();
    let mut until = until;
    let mut events = Vec::new();
    loop {
        let end = *until.borrow_and_update();
        if end.is_some_and(|end| events.last().is_some_and(|event: &Event| event.revision >= end)) {
            return events;
        }
        tokio::select! {
            next = watch.next() => events.extend(next.unwrap()),
            changed = until.changed(), if end.is_none() => changed.unwrap(),
        }
    }
}

/// One history: revisions grow one by one, and each event follows from the state before it.
fn check_history(events: &[Event], done: &[Done], store: &Store) {
    let mut state: BTreeMap<Key, Arc<Object>> = BTreeMap::new();
    let mut revision = FIRST_REVISION;
    for event in events {
        revision += 1;
        assert_eq!((event.revision, event.object.revision), (revision, revision));
        let before = match event.kind {
            EventKind::Deleted => state.remove(&event.object.key),
            _ => state.insert(event.object.key.clone(), Arc::clone(&event.object)),
        };
        assert_eq!(before.is_some(), event.kind != EventKind::Added);
        assert_eq!(before, event.previous);
    }
    assert_eq!(store.revision(), revision);
    assert_eq!(
        store.list("pods", None).objects,
        state.values().cloned().collect::<Vec<_>>()
    );
    let acknowledged: Vec<Revision> = done.iter().flat_map(|done| done.acknowledged.iter().copied()).collect();
    let unique: BTreeSet<Revision> = acknowledged.iter().copied().collect();
    assert_eq!(unique.len(), acknowledged.len(), "a revision was given twice");
    assert_eq!(
        unique,
        events.iter().map(|event| event.revision).collect(),
        "acknowledged and seen differ"
    );
    let counted: u64 = done.iter().map(|done| done.counted).sum();
    let counter = store
        .get(&key("counter"))
        .map_or(0, |object| value(&object).parse().unwrap());
    assert_eq!(counter, counted, "an increment was lost");
}

async fn history(options: Options) {
    let store = Store::open(options.clone()).unwrap();
    let (end, until) = tokio::sync::watch::channel(None);
    let watchers: Vec<_> = (0..4)
        .map(|_| tokio::spawn(watch(store.clone(), until.clone())))
        .collect();
    let stop = Arc::default();
    let reader = tokio::spawn(read(store.clone(), Arc::clone(&stop)));
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| tokio::spawn(write(store.clone(), writer)))
        .collect();
    let mut done = Vec::new();
    for writer in writers {
        done.push(writer.await.unwrap());
    }
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    reader.await.unwrap();
    end.send(Some(store.revision())).unwrap();
    for watcher in watchers {
        check_history(&watcher.await.unwrap(), &done, &store);
    }
    if options.backend != Backend::Memory {
        let before = store.list("pods", None);
        store.close();
        drop(store);
        let again = Store::open(options).unwrap();
        assert_eq!(again.list("pods", None).objects, before.objects);
        assert_eq!(again.revision(), before.revision);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn in_memory() {
    history(options(Backend::Memory)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn on_disk() {
    let folder = tempfile::tempdir().unwrap();
    history(options(Backend::Disk(folder.path().join("store")))).await;
}

/// The log is reclaimed all the time, and writers wait for room.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn on_disk_with_tight_limits() {
    let folder = tempfile::tempdir().unwrap();
    let options = options(Backend::Disk(folder.path().join("store")));
    history(Options {
        log_bytes_floor: 0,
        pending_bytes_max: 4096,
        ..options
    })
    .await;
}

/// A store that is dropped in mid-flight: what was acknowledged is there, the rest whole or not at all.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn dropped_in_mid_flight() {
    let folder = tempfile::tempdir().unwrap();
    let options = options(Backend::Disk(folder.path().join("store")));
    let store = Store::open(options.clone()).unwrap();
    let flights: Vec<_> = (0..200)
        .map(|index| {
            let store = store.clone();
            tokio::spawn(async move {
                let [a, b] = pair(index);
                let commit = store
                    .commit(vec![put(&a, Expect::Absent, "x"), put(&b, Expect::Absent, "x")])
                    .await;
                if index == 100 {
                    store.close();
                }
                commit
            })
        })
        .collect();
    drop(store);
    let mut outcomes = Vec::new();
    for flight in flights {
        outcomes.push(flight.await.unwrap());
    }
    let again = Store::open(options).unwrap();
    for (index, outcome) in (0..).zip(outcomes) {
        let there = pair(index).map(|key| again.get(&key).is_some());
        match outcome {
            Ok(_) => assert_eq!(there, [true, true]),
            Err(CommitError::Closed) => assert_eq!(there, [false, false]),
            Err(other) => panic!("{other}"),
        }
    }
}
