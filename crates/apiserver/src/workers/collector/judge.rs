//! What is to be done about one object, by its newest stored state.

use std::sync::Arc;

use futures::{StreamExt, TryStreamExt, stream};
use parking_lot::Mutex;
use serde_json::Value;

use super::index::Index;
use crate::http::{
    ApiError, ApiResult, Call, DeleteOptions, FOREGROUND, Head, ORPHAN, Owner, Propagation, Server, delete_one, head,
};
use crate::store::Key;
use crate::workers::{change, is_gone, release};

/// How many dependents are let go at the same time.
const WIDTH: usize = 64;
/// How often an object that changes meanwhile is judged anew before it has to wait.
const TRIES: usize = 8;

/// How an owner stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// It is there; or of a kind that is not served here, and may well be alive somewhere.
    Alive,
    /// It is being deleted and waits for its dependents.
    Waiting,
    /// It is not there.
    Gone,
}

/// What is to be done about an object.
enum Verdict {
    /// Nothing.
    Keep,
    /// It goes; those that it owns first, if so told.
    Delete { foreground: bool },
    /// It stays, without the owners of these uids.
    Disown(Vec<String>),
    /// Its deletion need not wait for its dependents any more.
    Release,
    /// Its dependents lose it as owner, then it goes.
    Orphan,
}

/// Judges, and does what was found.
#[derive(Clone)]
pub(super) struct Court {
    pub(super) server: Server,
    pub(super) index: Arc<Mutex<Index>>,
}

impl Court {
    pub(super) fn new(server: Server) -> Court {
        Court {
            server,
            index: Arc::default(),
        }
    }

    /// Where an owner is kept. None for a kind that is not served, and for one that this dependent cannot refer to: an
    /// object without a namespace says nothing about the namespace of its owner.
    pub(super) fn owner_key(&self, dependent: &Key, owner: &Owner) -> Option<Key> {
        let group = owner.api_version.rsplit_once('/').map_or("", |(group, _)| group);
        let registry = self.server.registry();
        let kind = registry.by_kind(group, &owner.kind)?;
        if kind.namespaced && dependent.namespace.is_empty() {
            return None;
        }
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

    fn standing(&self, dependent: &Key, owner: &Owner) -> Standing {
        let Some(key) = self.owner_key(dependent, owner) else {
            return Standing::Alive;
        };
        let found = self.server.store().head(&key).map(|object| head(&object.body));
        match found.filter(|found| found.uid == owner.uid) {
            None => Standing::Gone,
            Some(found) if found.deletion_timestamp.is_some() && found.has_finalizer(FOREGROUND) => Standing::Waiting,
            Some(_) => Standing::Alive,
        }
    }

    fn judge(&self, key: &Key, found: &Head) -> Verdict {
        if found.deletion_timestamp.is_some() {
            let index = self.index.lock();
            return if !index.is_settled(&found.uid) {
                Verdict::Keep
            } else if found.has_finalizer(ORPHAN) {
                Verdict::Orphan
            } else if found.has_finalizer(FOREGROUND) && !index.is_blocked(&found.uid) {
                Verdict::Release
            } else {
                Verdict::Keep
            };
        }
        let owners = &found.owner_references;
        let standings: Vec<Standing> = owners.iter().map(|owner| self.standing(key, owner)).collect();
        let is = |wanted: Standing| standings.contains(&wanted);
        if !is(Standing::Gone) && !is(Standing::Waiting) {
            return Verdict::Keep;
        }
        if is(Standing::Alive) {
            let lost = owners
                .iter()
                .zip(&standings)
                .filter(|(_, standing)| **standing != Standing::Alive);
            return Verdict::Disown(lost.map(|(owner, _)| owner.uid.clone()).collect());
        }
        // Nothing hangs on most objects: they need not wait for anybody.
        let foreground = is(Standing::Waiting) && self.index.lock().is_owner(&found.uid);
        Verdict::Delete { foreground }
    }

    /// Whether there is anything to do about the object.
    pub(super) fn has_work(&self, key: &Key) -> bool {
        let found = self.server.store().head(key).map(|object| head(&object.body));
        found.is_some_and(|found| !matches!(self.judge(key, &found), Verdict::Keep))
    }

    /// Judges the object and does what was found; anew when it changed in between.
    pub(super) async fn attend(&self, key: &Key) -> ApiResult<()> {
        let mut last = None;
        for _ in 0..TRIES {
            let Some(object) = self.server.store().head(key) else {
                return Ok(());
            };
            let Some(call) = self.call(key) else { return Ok(()) };
            let found = head(&object.body);
            let done = match self.judge(key, &found) {
                Verdict::Keep => Ok(()),
                Verdict::Release => release(&call, &found.uid, FOREGROUND).await,
                Verdict::Orphan => self.orphan(&call, &found.uid).await,
                Verdict::Disown(uids) => disown(&call, &found.uid, &uids).await,
                Verdict::Delete { foreground } => {
                    let options = DeleteOptions {
                        uid: Some(found.uid),
                        revision: Some(object.revision.to_string()),
                        propagation: foreground.then_some(Propagation::Foreground),
                        ..DeleteOptions::default()
                    };
                    delete_one(&call, &call.name, &options, &mut Vec::new()).await.map(drop)
                }
            };
            match done {
                Err(error) if is_gone(&error) => last = Some(error),
                done => return done,
            }
        }
        last.map_or(Ok(()), Err::<(), ApiError>)
    }

    fn call(&self, key: &Key) -> Option<Call> {
        let registry = self.server.registry();
        let kind = registry.by_resource(&key.resource)?;
        Some(Call::internal(&self.server, kind, &key.namespace, &key.name))
    }

    /// Takes the references to an owner off its dependents, then lets it go.
    async fn orphan(&self, owner: &Call, uid: &str) -> ApiResult<()> {
        let dependents = self.index.lock().dependents(uid);
        stream::iter(dependents)
            .map(Ok)
            .try_for_each_concurrent(WIDTH, |key| async move {
                let found = self.server.store().head(&key).map(|object| head(&object.body));
                match (found, self.call(&key)) {
                    (Some(found), Some(call)) => disown(&call, &found.uid, &[uid.to_owned()]).await,
                    _ => Ok(()),
                }
            })
            .await?;
        release(owner, uid, ORPHAN).await
    }
}

/// Takes the owners of these uids off an object.
async fn disown(call: &Call, uid: &str, owners: &[String]) -> ApiResult<()> {
    change(call, uid, |object| {
        if let Some(Value::Array(references)) = object.pointer_mut("/metadata/ownerReferences") {
            references.retain(|reference| {
                let uid = reference.get("uid").and_then(Value::as_str);
                !uid.is_some_and(|uid| owners.iter().any(|owner| owner == uid))
            });
        }
    })
    .await
}
