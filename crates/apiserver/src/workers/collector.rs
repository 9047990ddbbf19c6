//! Garbage collection: an object goes when the last of its owners is gone.
//!
//! Changes only say which objects to look at, through an index of who owns what. What happens to one is judged by its
//! newest stored state alone, and holds only for that state.

mod followers;
mod index;
mod judge;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use basalt_api::backoff::Backoff;
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::feed::Change;
use crate::http::{FOREGROUND, ORPHAN, Server, head};
use crate::store::{Key, Object};
use followers::{Followers, Seen};
use index::Index;
use judge::Court;

/// How many steps are on their way at the same time.
const WIDTH: usize = 256;
/// How many objects are looked at before others get their turn.
const TURN: usize = 256;
/// The delays before a failed step is repeated.
const RETRY: Backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(30));

/// Runs for as long as the server.
pub(super) async fn run(server: Server) {
    let mut kinds = server.inner.kinds_changed.subscribe();
    let (mut followers, mut seen) = Followers::new();
    followers.follow(&server);
    let mut collector = Collector {
        court: Court::new(server.clone()),
        touched: BTreeSet::new(),
        leaving: BTreeMap::new(),
        busy: HashMap::new(),
        steps: JoinSet::new(),
        room: Arc::new(Semaphore::new(WIDTH)),
    };
    let mut asked: Vec<(Key, String)> = Vec::new();
    loop {
        if asked.is_empty() && !collector.leaving.is_empty() && followers.all_listed() {
            asked = std::mem::take(&mut collector.leaving).into_iter().collect();
            followers.ask();
        }
        if !asked.is_empty() && followers.all_caught_up() {
            collector.settle(std::mem::take(&mut asked));
        }
        // Before everything has been listed, what depends on an object may just not be known yet.
        let may_look = followers.all_listed() && !collector.touched.is_empty();
        tokio::select! {
            changed = kinds.changed() => {
                if changed.is_err() {
                    return;
                }
                followers.follow(&server);
            }
            Some(seen) = seen.recv() => match seen {
                Seen::Changed(resource, Change::Listed) => followers.listed(&resource),
                Seen::Changed(resource, change) => collector.see(&resource, change),
                Seen::CaughtUp(resource, round) => followers.caught_up(&resource, round),
            },
            Some(done) = collector.steps.join_next(), if !collector.steps.is_empty() => {
                if let Ok(key) = done {
                    collector.finished(&key);
                }
            }
            () = tokio::task::yield_now(), if may_look => collector.look(),
        }
    }
}

struct Collector {
    court: Court,
    /// What is to be looked at.
    touched: BTreeSet<Key>,
    /// Owners that wait to be let go, and their uids. First every follower has to catch up: what was made before an owner
    /// was deleted may be told after it.
    leaving: BTreeMap<Key, String>,
    /// What a step is about, and whether it was touched since.
    busy: HashMap<Key, bool>,
    steps: JoinSet<Key>,
    room: Arc<Semaphore>,
}

impl Collector {
    fn index(&self) -> &Mutex<Index> {
        &self.court.index
    }

    fn see(&mut self, resource: &str, change: Change) {
        match change {
            Change::Present(object) => self.present(&object),
            Change::Gone(object) => {
                let uid = head(&object.body).uid;
                self.forget(&object.key);
                self.leaving.remove(&object.key);
                self.index().lock().unsettle(&uid);
                let dependents = self.index().lock().dependents(&uid);
                self.touched.extend(dependents);
            }
            // Owners may have gone unseen: everything that they owned is judged again.
            Change::Relisted => {
                let owned = self.index().lock().owned();
                let store = self.court.server.store();
                let vanished = |key: &&Key| &*key.resource == resource && store.get(key).is_none();
                let vanished: Vec<Key> = owned.iter().filter(vanished).cloned().collect();
                for key in vanished {
                    self.forget(&key);
                }
                self.touched.extend(owned);
            }
            Change::Listed => {}
        }
    }

    fn present(&mut self, object: &Object) {
        let found = head(&object.body);
        let key = &object.key;
        if !self.index().lock().knows(key, &found.owner_references) {
            self.forget(key);
            if !found.owner_references.is_empty() {
                self.index().lock().learn(key, found.owner_references.clone());
                self.touched.insert(key.clone());
            }
        }
        if found.deletion_timestamp.is_some() && (found.has_finalizer(FOREGROUND) || found.has_finalizer(ORPHAN)) {
            if self.index().lock().is_settled(&found.uid) {
                self.touched.insert(key.clone());
            } else {
                self.leaving.insert(key.clone(), found.uid.clone());
            }
            if found.has_finalizer(FOREGROUND) {
                let dependents = self.index().lock().dependents(&found.uid);
                self.touched.extend(dependents);
            }
        }
    }

    /// All that these owners had when their deletion began is known by now.
    fn settle(&mut self, owners: Vec<(Key, String)>) {
        for (key, uid) in owners {
            // One that is gone already would stay noted for ever.
            let found = self.court.server.store().get(&key);
            if found.is_some_and(|object| head(&object.body).uid == uid) {
                self.index().lock().settle(uid);
                self.touched.insert(key);
            }
        }
    }

    /// Takes an object out of the index; owners that waited for it, and for nothing else, may go now.
    fn forget(&mut self, key: &Key) {
        let owners = self.index().lock().forget(key);
        for owner in owners.iter() {
            if !self.index().lock().is_blocked(&owner.uid) {
                self.touched.extend(self.court.owner_key(key, owner));
            }
        }
    }

    /// Looks at some of what was touched, and starts steps where something is to be done.
    fn look(&mut self) {
        for _ in 0..TURN {
            let Some(key) = self.touched.pop_first() else { return };
            if let Some(again) = self.busy.get_mut(&key) {
                *again = true;
            } else if self.court.has_work(&key) {
                self.busy.insert(key.clone(), false);
                self.steps.spawn(step(self.court.clone(), self.room.clone(), key));
            }
        }
    }

    fn finished(&mut self, key: &Key) {
        if self.busy.remove(key) == Some(true) {
            self.touched.insert(key.clone());
        }
    }
}

/// Does what is to be done about an object, again and again until it succeeds.
async fn step(court: Court, room: Arc<Semaphore>, key: Key) -> Key {
    let mut backoff = RETRY;
    loop {
        let done = {
            let Ok(_permit) = room.acquire().await else { return key };
            court.attend(&key).await
        };
        match done {
            Ok(()) => return key,
            Err(error) => tracing::warn!(%error, %key, "garbage collection"),
        }
        tokio::time::sleep(backoff.next_delay()).await;
    }
}
