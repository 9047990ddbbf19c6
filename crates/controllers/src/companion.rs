//! Objects beside the pods of Jobs: claims, Services, ConfigMaps, Secrets, NetworkPolicies. Only their metadata counts here, and
//! little of that: what they hold is told by a mark that whoever made them left.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use basalt_api::{Job, NamespacedName, names};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::cache::{Cache, Entry, Origin};
use crate::key::Uid;
use crate::object;

/// Kinds of companions, as on the wire.
pub const KINDS: [&str; 5] = [
    "PersistentVolumeClaim",
    "Service",
    "ConfigMap",
    "Secret",
    "NetworkPolicy",
];

/// What is kept of a companion.
#[derive(Clone, Debug)]
pub struct Companion {
    key: Arc<NamespacedName>,
    /// Which incarnation.
    pub uid: Uid,
    revision: Option<u64>,
    /// uid of its controller.
    pub owner: Option<Box<str>>,
    /// Name of the Job that controls it.
    pub job: Option<Box<str>>,
    /// What it holds, as a mark.
    pub mark: Option<Box<str>>,
    deleting: bool,
}

impl Companion {
    fn new(meta: &ObjectMeta) -> Self {
        let controller = object::controller(meta);
        let mark = meta.annotations.as_ref().and_then(|all| all.get(names::CONTENT));
        let revision = meta.resource_version.as_deref();
        Self {
            key: Arc::new(NamespacedName::new(
                meta.namespace.as_deref().unwrap_or_default(),
                meta.name.as_deref().unwrap_or_default(),
            )),
            uid: Uid::from(meta.uid.as_deref().unwrap_or_default()),
            revision: revision.and_then(|version| version.parse().ok()),
            owner: controller.map(|owner| owner.uid.as_str().into()),
            job: controller
                .filter(|owner| object::is_a::<Job>(owner))
                .map(|owner| owner.name.as_str().into()),
            mark: mark.map(|mark| mark.as_str().into()),
            deleting: meta.deletion_timestamp.is_some(),
        }
    }

    fn job_key(&self) -> Option<NamespacedName> {
        Some(self.key.in_same_namespace(self.job.as_deref()?))
    }
}

impl Entry for Companion {
    fn key(&self) -> Arc<NamespacedName> {
        Arc::clone(&self.key)
    }

    fn uid(&self) -> Uid {
        self.uid.clone()
    }

    fn revision(&self) -> Option<u64> {
        self.revision
    }

    fn is_ending(&self) -> bool {
        self.deleting
    }
}

/// Kind and key of a companion that is gone.
type Lost = (String, Arc<NamespacedName>);

/// All companions by kind.
#[derive(Debug, Default)]
pub struct Companions {
    of_kind: BTreeMap<String, Cache<Companion>>,
    /// What was lost, by the uid of its owner, until it is there again.
    bereft: BTreeMap<Box<str>, BTreeSet<Lost>>,
}

impl Companions {
    /// A companion of that kind and name.
    pub fn get(&self, kind: &str, key: &NamespacedName) -> Option<&Companion> {
        self.of_kind.get(kind)?.get(key)
    }

    /// Takes in an object; returns the Jobs that it is or was of.
    pub fn upsert(&mut self, kind: &str, meta: &ObjectMeta, origin: Origin) -> Vec<NamespacedName> {
        let cache = self.of_kind.entry(kind.to_owned()).or_default();
        let companion = Companion::new(meta);
        let (after, lost) = (companion.job_key(), (kind.to_owned(), companion.key()));
        let before = cache.get(&companion.key).and_then(Companion::job_key);
        if !cache.upsert(companion, origin) {
            return Vec::new();
        }
        self.bereft.retain(|_, all| {
            all.remove(&lost);
            !all.is_empty()
        });
        let before = before.filter(|before| after.as_ref() != Some(before));
        before.into_iter().chain(after).collect()
    }

    /// An object is gone; returns the Job that it was of.
    pub fn remove(&mut self, kind: &str, key: &NamespacedName, uid: &str) -> Option<NamespacedName> {
        let uid = Uid::from(uid);
        let cache = self.of_kind.entry(kind.to_owned()).or_default();
        cache.bury(&uid);
        let gone = cache.forget(key, &uid)?;
        let job = gone.job_key()?;
        self.note_loss(kind, gone);
        Some(job)
    }

    fn note_loss(&mut self, kind: &str, gone: Companion) {
        if let Some(owner) = gone.owner {
            let lost = (kind.to_owned(), gone.key);
            self.bereft.entry(owner).or_default().insert(lost);
        }
    }

    /// Whether an owner has lost something that is not there again.
    pub fn is_bereft(&self, owner: &str) -> bool {
        self.bereft.contains_key(owner)
    }

    /// An owner is gone, too.
    pub fn forget_owner(&mut self, owner: &str) {
        self.bereft.remove(owner);
    }

    /// Right after a whole report of the watch: forgets what it did not name; returns the Jobs that it was of.
    pub fn forget_unseen(&mut self, kind: &str) -> Vec<NamespacedName> {
        let cache = self.of_kind.entry(kind.to_owned()).or_default();
        let unseen = cache.take_unseen();
        let gone = unseen.iter().filter_map(|(key, uid)| cache.forget(key, uid));
        let gone: Vec<Companion> = gone.collect();
        let jobs = gone.iter().filter_map(Companion::job_key).collect();
        for companion in gone {
            self.note_loss(kind, companion);
        }
        jobs
    }
}
