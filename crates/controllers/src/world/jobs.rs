//! What Jobs need to know besides their pods: Commands, what is beside the pods, and pods that vanished.

use basalt_api::{Command, Job, NamespacedName, names};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::{Work, World};
use crate::cache::Origin;
use crate::commands::Addressee;
use crate::job::{self, JobView};
use crate::key::Uid;
use crate::pod::PodRecord;

/// The key of a Command's addressee in the index: names of queues have no slash, keys of Jobs have one.
fn address(addressee: &Addressee) -> String {
    match addressee {
        Addressee::Queue(name) => name.clone(),
        Addressee::Job(key) => key.to_string(),
    }
}

/// Claims that a Job finds, not makes.
fn named_claims(job: &Job) -> impl Iterator<Item = String> {
    let namespace = job.metadata.namespace.clone().unwrap_or_default();
    let named = job
        .spec
        .volumes
        .iter()
        .filter(|volume| !volume.volume_claim_name.is_empty());
    named.map(move |volume| format!("{namespace}/{}", volume.volume_claim_name))
}

impl World {
    /// What the job controller looks at.
    pub fn job_view(&self, key: &NamespacedName) -> Option<JobView<'_>> {
        let job = self.jobs.get(key)?;
        let uid = job.metadata.uid.as_deref().unwrap_or_default();
        let group = key.in_same_namespace(&names::job_pod_group(&key.name, uid));
        let group = self.groups.get(&group);
        let own = self.pods_of_owner.of(uid).filter_map(|pod| self.pods.get(pod));
        let mut pods: Vec<&PodRecord> = own.collect();
        let complete = i64::try_from(pods.len()).is_ok_and(|own| own >= job.total_replicas());
        if !complete && group.is_some_and(job::is_let_in) {
            pods.extend(self.strangers(key, job));
        }
        let lost = self.lost.get(uid).into_iter().flatten();
        Some(JobView {
            pods,
            lost: lost.collect(),
            unconfirmed: !self.confirmed.contains(uid),
            commands: self.commands_to(&key.to_string()),
            beside: Some(&self.companions),
            bereft: self.companions.is_bereft(uid),
            entropy: self.entropy,
            ..JobView::of(job, group, &self.priorities)
        })
    }

    /// Pods of others that hold names which the Job wants, as far as it could make pods now.
    fn strangers(&self, key: &NamespacedName, job: &Job) -> Vec<&PodRecord> {
        let mut strangers = Vec::new();
        let mut free = job::CREATES_MAX;
        for task in &job.spec.tasks {
            for index in 0..u32::try_from(task.replicas).unwrap_or(0) {
                let name = key.in_same_namespace(&names::job_pod(&key.name, &task.name, index));
                match self.pods.get(&name) {
                    Some(pod) if pod.owner.as_deref() == job.metadata.uid.as_deref() => {}
                    Some(pod) => strangers.push(pod),
                    None if free == 0 => return strangers,
                    None => free -= 1,
                }
            }
        }
        strangers
    }

    /// Jobs of others that may have waited for the name of a pod that goes.
    pub(super) fn heirs(&self, pod: &NamespacedName) -> Vec<Work> {
        let owner = self.pods.get(pod).and_then(|pod| pod.owner.as_deref());
        let dashes = pod.name.match_indices('-').filter_map(|(at, _)| pod.name.get(..at));
        let keys = dashes.map(|name| NamespacedName::new(&pod.namespace, name));
        let of_others = keys.filter(|key| {
            let job = self.jobs.get(key);
            job.is_some_and(|job| job.metadata.uid.as_deref() != owner)
        });
        of_others.map(Work::Job).collect()
    }

    /// The Commands to an address.
    pub(super) fn commands_to(&self, address: &str) -> Vec<&Command> {
        let keys = self.commands_of.of(address);
        keys.filter_map(|key| self.commands.get(key)).collect()
    }

    /// Notes what follows from a Job that was just taken in.
    pub(super) fn note_job(&mut self, key: &NamespacedName, origin: Origin) {
        let Some(job) = self.jobs.get(key) else { return };
        let uid = job.metadata.uid.as_deref().unwrap_or_default();
        if origin == Origin::Answer {
            self.confirmed.insert(uid.to_owned());
        }
        for claim in named_claims(job) {
            self.jobs_of_claim.add(&claim, key);
        }
        if let Some(lost) = self.lost.get_mut(uid) {
            lost.retain(|pod| job::is_loss(job, pod));
            if lost.is_empty() {
                self.lost.remove(uid);
            }
        }
    }

    /// Forgets what followed from a Job; returns who has to be looked at for its sake.
    pub(super) fn unnote_job(&mut self, key: &NamespacedName, job: &Job) -> Option<Work> {
        let uid = job.metadata.uid.as_deref().unwrap_or_default();
        self.confirmed.remove(uid);
        self.companions.forget_owner(uid);
        self.lost.remove(uid);
        for claim in named_claims(job) {
            self.jobs_of_claim.remove(&claim, key);
        }
        (self.commands_of.count(&key.to_string()) > 0).then(|| Work::Job(key.clone()))
    }

    /// Notes that a pod is gone, if its Job minds.
    pub(super) fn note_loss(&mut self, key: &NamespacedName, uid: &Uid) {
        let Some(pod) = self.pods.get(key).filter(|pod| pod.uid == *uid) else {
            return;
        };
        let job = pod.job_key().and_then(|key| self.jobs.get(&key));
        let Some((job, owner)) = job.zip(pod.owner.as_deref()) else {
            return;
        };
        if job.metadata.uid.as_deref() == Some(owner) && job::is_loss(job, pod) {
            let (owner, pod) = (owner.to_owned(), pod.clone());
            self.lost.entry(owner).or_default().push(pod);
        }
    }

    /// A pod that runs again is not lost any more.
    pub(super) fn note_return(&mut self, pod: &PodRecord) {
        let lost = pod.owner.as_deref().and_then(|owner| self.lost.get_mut(owner));
        if let Some(lost) = lost.filter(|_| pod.ready) {
            lost.retain(|gone| gone.key != pod.key);
        }
    }

    /// Takes in a Command.
    pub fn upsert_command(&mut self, command: Command, origin: Origin) -> Vec<Work> {
        let key = NamespacedName::of(&command);
        let before = self.commands.get(&key).and_then(Addressee::of);
        let addressee = Addressee::of(&command);
        if !self.commands.upsert(command, origin) {
            return Vec::new();
        }
        if let Some(before) = before {
            self.commands_of.remove(&address(&before), &key);
        }
        if let Some(addressee) = &addressee {
            self.commands_of.add(&address(addressee), &key);
        }
        let work = addressee.map(|addressee| match addressee {
            Addressee::Queue(name) => Work::Commands(name),
            Addressee::Job(key) => Work::Job(key),
        });
        work.into_iter().collect()
    }

    /// A Command is gone.
    pub fn remove_command(&mut self, key: &NamespacedName, uid: &str) -> Vec<Work> {
        let uid = Uid::from(uid);
        self.commands.bury(&uid);
        if let Some(addressee) = self.commands.forget(key, &uid).as_ref().and_then(Addressee::of) {
            self.commands_of.remove(&address(&addressee), key);
        }
        Vec::new()
    }

    /// Takes in an object beside the pods, of one of [`crate::companion::KINDS`].
    pub fn upsert_companion(&mut self, kind: &str, meta: &ObjectMeta, origin: Origin) -> Vec<Work> {
        let of = self.companions.upsert(kind, meta, origin);
        let mut work: Vec<Work> = of.into_iter().map(Work::Job).collect();
        let name = meta.name.as_deref().unwrap_or_default();
        let claim = format!("{}/{name}", meta.namespace.as_deref().unwrap_or_default());
        if kind == "PersistentVolumeClaim" {
            work.extend(self.jobs_of_claim.of(&claim).cloned().map(Work::Job));
        }
        work
    }

    /// An object beside the pods is gone.
    pub fn remove_companion(&mut self, kind: &str, key: &NamespacedName, uid: &str) -> Vec<Work> {
        let of = self.companions.remove(kind, key, uid);
        of.map(Work::Job).into_iter().collect()
    }

    /// Right after a whole report of the watch: forgets companions that it did not name.
    pub fn forget_unseen_companions(&mut self, kind: &str) -> Vec<Work> {
        let of = self.companions.forget_unseen(kind);
        of.into_iter().map(Work::Job).collect()
    }
}
