//! Garbage collection: an object goes when the last of its owners is gone.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::{AbortHandle, JoinSet};

use super::feed::{Change, Feed};
use super::{change, is_gone, release};
use crate::face::{
    ApiResult, Call, DeleteOptions, FOREGROUND, Head, ORPHAN, Owner, Propagation, Server, Verbs, delete_one, head,
};
use crate::store::{Key, Object};

/// How many deletions are on their way at the same time.
const WIDTH: usize = 256;
/// How often a failed step is tried, and the wait before the first repetition.
const TRIES: u32 = 6;
const WAIT: Duration = Duration::from_millis(100);

/// Events never own or are owned, and there are many of them.
const IGNORED: &str = "events";

/// Runs for as long as the server.
pub(super) async fn run(server: Server) {
    let (sender, mut changes) = mpsc::unbounded_channel();
    let mut kinds = server.inner.kinds_changed.subscribe();
    let mut followers = Followers {
        sender,
        running: BTreeMap::new(),
        tasks: JoinSet::new(),
    };
    followers.follow(&server);
    let mut collector = Collector {
        server,
        dependents: HashMap::new(),
        owners: HashMap::new(),
        steps: JoinSet::new(),
        room: Arc::new(Semaphore::new(WIDTH)),
    };
    loop {
        tokio::select! {
            changed = kinds.changed() => {
                if changed.is_err() {
                    return;
                }
                followers.follow(&collector.server);
            }
            Some((resource, change)) = changes.recv() => collector.see(&resource, change),
            Some(_) = collector.steps.join_next(), if !collector.steps.is_empty() => {}
        }
    }
}

type Seen = (Arc<str>, Change);

/// One task per resource that forwards its changes.
struct Followers {
    sender: mpsc::UnboundedSender<Seen>,
    running: BTreeMap<Arc<str>, AbortHandle>,
    tasks: JoinSet<()>,
}

impl Followers {
    fn follow(&mut self, server: &Server) {
        let registry = server.registry();
        let stored = registry
            .kinds()
            .filter(|kind| kind.verbs == Verbs::All && &*kind.resource != IGNORED);
        let wanted: BTreeSet<Arc<str>> = stored.map(|kind| kind.resource.clone()).collect();
        self.running.retain(|resource, task| {
            let keep = wanted.contains(resource);
            if !keep {
                task.abort();
            }
            keep
        });
        for resource in wanted {
            self.running.entry(resource.clone()).or_insert_with(|| {
                let sender = self.sender.clone();
                let mut feed = Feed::new(server.store(), &resource);
                self.tasks.spawn(async move {
                    loop {
                        let change = feed.next().await;
                        if sender.send((resource.clone(), change)).is_err() {
                            return;
                        }
                    }
                })
            });
        }
    }
}

/// Who owns what, as far as objects with owners go.
struct Collector {
    server: Server,
    dependents: HashMap<String, BTreeSet<Key>>,
    owners: HashMap<Key, Vec<Owner>>,
    steps: JoinSet<()>,
    room: Arc<Semaphore>,
}

impl Collector {
    fn see(&mut self, resource: &str, change: Change) {
        match change {
            Change::Present(object) => self.present(&object),
            Change::Gone(object) => self.gone(&object),
            // Owners may have gone unseen: everything that they owned is judged again.
            Change::Relisted => {
                let store = self.server.store();
                let vanished = |key: &&Key| &*key.resource == resource && store.get(key).is_none();
                let vanished: Vec<Key> = self.owners.keys().filter(vanished).cloned().collect();
                for key in vanished {
                    self.forget(&key);
                }
                let all: Vec<Key> = self.owners.keys().cloned().collect();
                for key in all {
                    self.judge(&key);
                }
            }
        }
    }

    fn present(&mut self, object: &Object) {
        let head = head(&object.body);
        let key = &object.key;
        let known = self.owners.get(key).map(Vec::as_slice).unwrap_or_default();
        let same = known.len() == head.owner_references.len()
            && known.iter().zip(&head.owner_references).all(|(a, b)| a.uid == b.uid);
        if !same {
            self.forget(key);
            for owner in &head.owner_references {
                self.dependents
                    .entry(owner.uid.clone())
                    .or_default()
                    .insert(key.clone());
            }
            if !head.owner_references.is_empty() {
                self.owners.insert(key.clone(), head.owner_references.clone());
                self.judge(key);
            }
        }
        if head.deletion_timestamp.is_some() {
            if head.finalizers.iter().any(|finalizer| finalizer == FOREGROUND) {
                self.foreground(key, &head);
            }
            if head.finalizers.iter().any(|finalizer| finalizer == ORPHAN) {
                self.orphan(key, &head);
            }
        }
    }

    fn gone(&mut self, object: &Object) {
        let uid = head(&object.body).uid;
        let owners = self.forget(&object.key);
        for key in self.dependents.get(&uid).cloned().unwrap_or_default() {
            self.judge(&key);
        }
        // An owner may have waited for this one.
        for owner in owners {
            if let Some(found) = self.find(&object.key, &owner) {
                let owner = head(&found.body);
                if owner.deletion_timestamp.is_some() && owner.finalizers.iter().any(|name| name == FOREGROUND) {
                    self.foreground(&found.key, &owner);
                }
            }
        }
    }

    fn forget(&mut self, key: &Key) -> Vec<Owner> {
        let owners = self.owners.remove(key).unwrap_or_default();
        for owner in &owners {
            if let Some(keys) = self.dependents.get_mut(&owner.uid) {
                keys.remove(key);
                if keys.is_empty() {
                    self.dependents.remove(&owner.uid);
                }
            }
        }
        owners
    }

    /// The owner itself, if it is still there: same name and same uid.
    fn find(&self, dependent: &Key, owner: &Owner) -> Option<Arc<Object>> {
        let key = self.owner_key(dependent, owner)?;
        let object = self.server.store().head(&key)?;
        (head(&object.body).uid == owner.uid).then_some(object)
    }

    fn owner_key(&self, dependent: &Key, owner: &Owner) -> Option<Key> {
        let group = owner.api_version.rsplit_once('/').map_or("", |(group, _)| group);
        let registry = self.server.registry();
        let kind = registry.by_kind(group, &owner.kind)?;
        let namespace = if kind.namespaced {
            dependent.namespace.clone()
        } else {
            "".into()
        };
        Some(Key {
            resource: kind.resource.clone(),
            namespace,
            name: owner.name.as_str().into(),
        })
    }

    /// Deletes an object whose owners are all gone; drops references to the gone ones of several.
    fn judge(&mut self, key: &Key) {
        let Some(owners) = self.owners.get(key) else { return };
        // An owner of a kind that is not served may well be alive somewhere: it keeps what it owns.
        let is_live = |owner: &Owner| self.owner_key(key, owner).is_none() || self.find(key, owner).is_some();
        let (live, dead): (Vec<Owner>, Vec<Owner>) = owners.iter().cloned().partition(is_live);
        if dead.is_empty() {
            return;
        }
        if live.is_empty() {
            self.delete(key.clone(), Propagation::Background);
        } else {
            self.disown(key.clone(), dead.into_iter().map(|owner| owner.uid).collect());
        }
    }

    /// Deletes the dependents of an owner that waits for them, and lets it go when none is left that it waits for.
    fn foreground(&mut self, key: &Key, owner: &Head) {
        let mut waits = false;
        for dependent in self.dependents.get(&owner.uid).cloned().unwrap_or_default() {
            let owners = self.owners.get(&dependent).cloned().unwrap_or_default();
            let reference = owners.iter().find(|found| found.uid == owner.uid);
            waits |= reference.is_some_and(|found| found.block_owner_deletion == Some(true));
            let others = owners.iter().filter(|found| found.uid != owner.uid);
            if others.clone().next().is_some() && others.clone().any(|other| self.find(&dependent, other).is_some()) {
                self.disown(dependent, vec![owner.uid.clone()]);
            } else {
                self.delete(dependent, Propagation::Foreground);
            }
        }
        if !waits {
            self.release(key.clone(), FOREGROUND);
        }
    }

    /// Takes the references to an owner off its dependents, then lets it go.
    fn orphan(&mut self, key: &Key, owner: &Head) {
        let dependents = self.dependents.get(&owner.uid).cloned().unwrap_or_default();
        if dependents.is_empty() {
            self.release(key.clone(), ORPHAN);
            return;
        }
        let calls: Vec<Call> = dependents.iter().filter_map(|dependent| self.call(dependent)).collect();
        let (own, uid) = (self.call(key), owner.uid.clone());
        self.step(move || {
            let (calls, own, uid) = (
                calls.iter().map(Call::copy).collect::<Vec<_>>(),
                own.as_ref().map(Call::copy),
                uid.clone(),
            );
            async move {
                for call in &calls {
                    disown(call, std::slice::from_ref(&uid)).await?;
                }
                match &own {
                    Some(own) => release(own, ORPHAN).await,
                    None => Ok(()),
                }
            }
        });
    }

    fn call(&self, key: &Key) -> Option<Call> {
        let registry = self.server.registry();
        let kind = registry.by_resource(&key.resource)?;
        Some(Call::internal(&self.server, kind, &key.namespace, &key.name))
    }

    fn delete(&mut self, key: Key, propagation: Propagation) {
        let Some(object) = self.server.store().get(&key) else {
            return;
        };
        let Some(call) = self.call(&key) else { return };
        let found = head(&object.body);
        if found.deletion_timestamp.is_some() {
            return;
        }
        // Nothing hangs on most objects: they need not wait for anybody.
        let leaf = !self.dependents.contains_key(&found.uid);
        let propagation = if leaf { None } else { Some(propagation) };
        let options = DeleteOptions {
            uid: Some(found.uid),
            propagation,
            ..DeleteOptions::default()
        };
        self.step(move || {
            let (call, options) = (call.copy(), options.clone());
            async move { delete_one(&call, &call.name, &options, &mut Vec::new()).await.map(drop) }
        });
    }

    fn disown(&mut self, key: Key, uids: Vec<String>) {
        let Some(call) = self.call(&key) else { return };
        self.step(move || {
            let (call, uids) = (call.copy(), uids.clone());
            async move { disown(&call, &uids).await }
        });
    }

    fn release(&mut self, key: Key, finalizer: &'static str) {
        let Some(call) = self.call(&key) else { return };
        self.step(move || {
            let call = call.copy();
            async move { release(&call, finalizer).await }
        });
    }

    /// Does a step beside the loop, and again for a while if it fails.
    fn step<F: Future<Output = ApiResult<()>> + Send>(&mut self, make: impl Fn() -> F + Send + 'static) {
        let room = self.room.clone();
        self.steps.spawn(async move {
            let mut wait = WAIT;
            for _ in 0..TRIES {
                let Ok(_permit) = room.acquire().await else { return };
                match make().await {
                    Ok(()) => return,
                    Err(error) if is_gone(&error) => return,
                    Err(error) => tracing::warn!(%error, "garbage collection"),
                }
                tokio::time::sleep(wait).await;
                wait = wait.saturating_mul(2);
            }
        });
    }
}

async fn disown(call: &Call, uids: &[String]) -> ApiResult<()> {
    change(call, |object| {
        if let Some(Value::Array(owners)) = object.pointer_mut("/metadata/ownerReferences") {
            owners.retain(|owner| {
                !uids
                    .iter()
                    .any(|uid| owner.get("uid") == Some(&Value::from(uid.as_str())))
            });
        }
    })
    .await
}
