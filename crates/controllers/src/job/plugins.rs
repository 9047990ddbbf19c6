//! Plugins of a Job: what they do to its pods, and the objects that they want beside them.
//!
//! The border is small, and everything behind it is pure:
//!
//! 1. [`Plugins::of`] reads `spec.plugins`. It costs O(tasks); call it once per look at a job.
//! 2. [`Plugins::shape`] adds to the template of a task what all its pods have in common: once per task.
//! 3. [`Plugins::stamp`] adds what depends on the index, to each pod made from that template.
//! 4. [`Plugins::wanted`] are the objects beside the pods: create those that are missing *before* the pods.
//!    The rest of the job's life is the same call again: that is `on_job_add` and `on_job_update` in one. After
//!    a change of replicas, [`Wanted::update`] is the patch that the stored object needs.
//! 5. [`Plugins::controlled`] goes into `status.controlledResources`.
//!
//! There is no `on_job_delete`: the job owns what is wanted, and it goes with the job. It stays over restarts, so that
//! pods which survive one still share their key and their names.
//!
//! Plugins act in a fixed order, that of [`Plugin::ALL`]; in Volcano it is random. Where a pod has an
//! environment variable of that name already, the plugin's value replaces it; hostname, subdomain, volumes, mounts, ports
//! and the rank of `hcclrank` are left as the user wrote them.

mod edit;
mod env;
mod hcclrank;
mod hosts;
mod mpi;
mod pytorch;
mod ray;
mod ssh;
mod svc;
mod tensorflow;

use std::collections::BTreeMap;
use std::sync::Arc;

use basalt_api::job::TaskSpec;
use basalt_api::job::plugins::{Configured, Plugin, PluginError, read};
use basalt_api::{Job, ObjectRef, names};
use k8s_openapi::api::core::v1::{PodSpec, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::object;
use hosts::Gang;
use tensorflow::Cluster;

/// An object that a plugin wants beside the pods.
#[derive(Clone, Debug, PartialEq)]
pub struct Wanted {
    /// Who wants it.
    pub plugin: Plugin,
    /// Where it goes.
    pub target: ObjectRef,
    /// The complete object, owned by the job: to create it where it is missing. An object of that name with another
    /// owner is somebody else's: leave it alone and say so.
    pub object: Value,
    /// A merge patch with the part that follows the job's spec; nothing for an object that is written once. It needs
    /// no knowledge of the stored object: what must go is in it as null.
    pub follows: Option<Value>,
}

impl Wanted {
    /// The merge patch that an object stored with this annotation [`names::CONTENT`] needs, if any.
    pub fn update(&self, mark: Option<&str>) -> Option<&Value> {
        let follows = self.follows.as_ref()?;
        (follows["metadata"]["annotations"][names::CONTENT].as_str() != mark).then_some(follows)
    }

    /// An object that is written once.
    fn once(plugin: Plugin, target: ObjectRef, object: Value) -> Self {
        Self {
            plugin,
            target,
            object,
            follows: None,
        }
    }

    /// An object whose `data` follows the spec with these keys; those with null are taken away.
    fn following(plugin: Plugin, target: ObjectRef, mut object: Value, data: Value) -> Self {
        let digest = Sha256::digest(data.to_string());
        let mark = digest
            .iter()
            .take(8)
            .fold(0, |mark: u64, byte| (mark << 8) | u64::from(*byte));
        let annotations = json!({names::CONTENT: format!("{mark:016x}")});
        object["metadata"]["annotations"] = annotations.clone();
        Self {
            plugin,
            target,
            object,
            follows: Some(json!({"metadata": {"annotations": annotations}, "data": data})),
        }
    }
}

/// One plugin at work on one job.
trait Act: std::fmt::Debug + Send + Sync {
    /// Adds what all pods of a task have in common.
    fn shape(&self, _task: &TaskSpec, _pod: &mut PodSpec) {}

    /// Adds what depends on the pod's index.
    fn stamp(&self, _task: &TaskSpec, _index: u32, _pod: &mut Value) {}

    /// Objects beside the pods.
    fn wanted(&self, _job: &Job, _entropy: &[u8; 32]) -> Vec<Wanted> {
        Vec::new()
    }
}

/// The plugins of one job.
#[derive(Debug, Default)]
pub struct Plugins {
    acts: Vec<(Plugin, Box<dyn Act>)>,
}

impl Plugins {
    /// Reads the plugins of a job. Arguments that cannot be used have their default, as admission has warned.
    pub fn of(job: &Job) -> Result<Self, PluginError> {
        let reading = read(job);
        if let Some(error) = reading.errors.into_iter().next() {
            return Err(error);
        }
        let gang = Arc::new(Gang::of(job, &reading.plugins));
        let cluster = reading.plugins.iter().find_map(|configured| match configured {
            Configured::Tensorflow(settings) => Some(Arc::new(Cluster::new(settings.clone(), Arc::clone(&gang)))),
            _ => None,
        });
        let acts = reading.plugins.into_iter().filter_map(|configured| {
            let plugin = configured.plugin();
            Some((plugin, act(configured, job, &gang, cluster.as_ref())?))
        });
        Ok(Self { acts: acts.collect() })
    }

    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.acts.is_empty()
    }

    /// Adds to the template of a task what all its pods have in common: once per task.
    pub fn shape(&self, task: &TaskSpec, template: &mut PodTemplateSpec) {
        let pod = template.spec.get_or_insert_default();
        for (_, act) in &self.acts {
            act.shape(task, pod);
        }
    }

    /// Adds to pod `index` of a task what is its own. The pod was made from the shaped template.
    pub fn stamp(&self, task: &TaskSpec, index: u32, pod: &mut Value) {
        for (_, act) in &self.acts {
            act.stamp(task, index, pod);
        }
    }

    /// The objects beside the pods, with all that is in them now. `entropy` is 32 bytes that nobody can guess, and may be
    /// the same for all jobs and calls of a process: each job gets its own key from it, by its uid.
    pub fn wanted(&self, job: &Job, entropy: [u8; 32]) -> Vec<Wanted> {
        let wanted = |(_, act): &(Plugin, Box<dyn Act>)| act.wanted(job, &entropy);
        self.acts.iter().flat_map(wanted).collect()
    }

    /// The plugins' entries in `status.controlledResources`; `hcclrank` has none, as in Volcano.
    pub fn controlled(&self) -> BTreeMap<String, String> {
        let plugins = self.acts.iter().map(|(plugin, _)| *plugin);
        plugins
            .filter(|plugin| *plugin != Plugin::Hcclrank)
            .map(|plugin| (format!("plugin-{plugin}"), plugin.to_string()))
            .collect()
    }
}

fn act(configured: Configured, job: &Job, gang: &Arc<Gang>, cluster: Option<&Arc<Cluster>>) -> Option<Box<dyn Act>> {
    let gang = Arc::clone(gang);
    let cluster = cluster.map(Arc::clone);
    Some(match configured {
        Configured::Env(_) => Box::new(env::IndexEnv),
        Configured::Svc(settings) => Box::new(svc::Names::new(settings, gang, cluster)),
        Configured::Ssh(settings) => Box::new(ssh::Keys::new(settings, gang)),
        Configured::Pytorch(settings) => Box::new(pytorch::Ranks::new(settings, job, &gang)),
        Configured::Tensorflow(_) => Box::new(tensorflow::TfConfig::new(cluster?)),
        Configured::Mpi(settings) => Box::new(mpi::HostList::new(settings, &gang)),
        Configured::Ray(settings) => Box::new(ray::HeadAndWorkers::new(settings, gang)),
        Configured::Hcclrank(settings) => Box::new(hcclrank::RankIndex::new(settings, job)),
    })
}

/// The metadata of an object that a job owns.
fn owned(job: &Job, target: &ObjectRef) -> ObjectMeta {
    let label = (
        names::JOB_NAME.to_owned(),
        job.metadata.name.clone().unwrap_or_default(),
    );
    ObjectMeta {
        name: Some(target.name.to_string()),
        namespace: Some(target.namespace.to_string()).filter(|namespace| !namespace.is_empty()),
        labels: Some(BTreeMap::from([label])),
        owner_references: object::owned_by(job),
        ..ObjectMeta::default()
    }
}

/// All replicas of the tasks of this name.
fn replicas(job: &Job, task: &str) -> u32 {
    let named = job.spec.tasks.iter().filter(|other| other.name == task);
    named
        .map(|task| u32::try_from(task.replicas).unwrap_or(0))
        .fold(0, u32::saturating_add)
}
