//! Plugins of a Job: their names, their arguments, and what is wrong with either.
//!
//! `spec.plugins` maps a plugin's name to the words of its arguments. [`read`] turns them into typed settings;
//! admission asks [`check`] what to refuse and what to warn of, and [`implied`] which plugins to add. What the
//! plugins do to pods is the job controller's.

mod settings;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use settings::Settings;
pub use settings::{
    Env, Flag, Folder, HOSTS_FOLDER, Hcclrank, Image, Mpi, Port, PrivateKey, Pytorch, Ray, SSH_FOLDER, Seconds, Ssh,
    Svc, Tensorflow,
};
use thiserror::Error;

use super::{Job, JobSpec, TaskSpec};

/// A plugin, in the order in which they act: `hcclrank` reads what `pytorch` sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Plugin {
    /// The pod's index in its environment.
    Env,
    /// Names for pods, a file of hosts, a network policy.
    Svc,
    /// Keys, so that pods can log in to each other.
    Ssh,
    /// Environment of torch.distributed.
    Pytorch,
    /// `TF_CONFIG`.
    Tensorflow,
    /// `MPI_HOST`.
    Mpi,
    /// Starts a Ray head and workers.
    Ray,
    /// The annotation `hccl/rankIndex`.
    Hcclrank,
}

impl Plugin {
    /// All, in the order in which they act.
    pub const ALL: [Self; 8] = [
        Self::Env,
        Self::Svc,
        Self::Ssh,
        Self::Pytorch,
        Self::Tensorflow,
        Self::Mpi,
        Self::Ray,
        Self::Hcclrank,
    ];

    /// The name in `spec.plugins`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Env => "env",
            Self::Svc => "svc",
            Self::Ssh => "ssh",
            Self::Pytorch => "pytorch",
            Self::Tensorflow => "tensorflow",
            Self::Mpi => "mpi",
            Self::Ray => "ray",
            Self::Hcclrank => "hcclrank",
        }
    }

    /// The plugin of this name.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|plugin| plugin.name() == name)
    }

    /// The arguments that it knows.
    pub const fn flags(self) -> &'static [Flag] {
        match self {
            Self::Env => Env::FLAGS,
            Self::Svc => Svc::FLAGS,
            Self::Ssh => Ssh::FLAGS,
            Self::Pytorch => Pytorch::FLAGS,
            Self::Tensorflow => Tensorflow::FLAGS,
            Self::Mpi => Mpi::FLAGS,
            Self::Ray => Ray::FLAGS,
            Self::Hcclrank => Hcclrank::FLAGS,
        }
    }

    /// Plugins without which it does not work.
    pub const fn needs(self) -> &'static [Self] {
        match self {
            Self::Pytorch | Self::Tensorflow | Self::Ray => &[Self::Svc],
            Self::Mpi => &[Self::Svc, Self::Ssh],
            Self::Env | Self::Svc | Self::Ssh | Self::Hcclrank => &[],
        }
    }
}

impl std::fmt::Display for Plugin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// One plugin with its settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Configured {
    /// See [`Plugin::Env`].
    Env(Env),
    /// See [`Plugin::Svc`].
    Svc(Svc),
    /// See [`Plugin::Ssh`].
    Ssh(Ssh),
    /// See [`Plugin::Pytorch`].
    Pytorch(Pytorch),
    /// See [`Plugin::Tensorflow`].
    Tensorflow(Tensorflow),
    /// See [`Plugin::Mpi`].
    Mpi(Mpi),
    /// See [`Plugin::Ray`].
    Ray(Ray),
    /// See [`Plugin::Hcclrank`].
    Hcclrank(Hcclrank),
}

impl Configured {
    fn read(plugin: Plugin, words: &[String], warnings: &mut Vec<PluginWarning>) -> Self {
        match plugin {
            Plugin::Env => Self::Env(settings::read(plugin, words, warnings)),
            Plugin::Svc => Self::Svc(settings::read(plugin, words, warnings)),
            Plugin::Ssh => Self::Ssh(settings::read(plugin, words, warnings)),
            Plugin::Pytorch => Self::Pytorch(settings::read(plugin, words, warnings)),
            Plugin::Tensorflow => Self::Tensorflow(settings::read(plugin, words, warnings)),
            Plugin::Mpi => Self::Mpi(settings::read(plugin, words, warnings)),
            Plugin::Ray => Self::Ray(settings::read(plugin, words, warnings)),
            Plugin::Hcclrank => Self::Hcclrank(settings::read(plugin, words, warnings)),
        }
    }

    /// Which plugin it is.
    pub const fn plugin(&self) -> Plugin {
        match self {
            Self::Env(_) => Plugin::Env,
            Self::Svc(_) => Plugin::Svc,
            Self::Ssh(_) => Plugin::Ssh,
            Self::Pytorch(_) => Plugin::Pytorch,
            Self::Tensorflow(_) => Plugin::Tensorflow,
            Self::Mpi(_) => Plugin::Mpi,
            Self::Ray(_) => Plugin::Ray,
            Self::Hcclrank(_) => Plugin::Hcclrank,
        }
    }
}

/// Why the plugins of a Job cannot work.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PluginError {
    /// Nobody knows that plugin.
    #[error("there is no plugin {name:?}; there are {}", known())]
    Unknown {
        /// What was asked for.
        name: String,
    },
    /// The plugin's leading task is missing.
    #[error("plugin {plugin} needs a task {task:?}; name the right one with --{argument}")]
    NoTask {
        /// The plugin.
        plugin: Plugin,
        /// The argument that names the task.
        argument: &'static str,
        /// The name that was looked for.
        task: String,
    },
    /// The job's name cannot be the name of a service.
    #[error("plugin {plugin} makes a Service of the job's name: {name:?} must be a DNS label (a-z, 0-9, -)")]
    NoHostName {
        /// The plugin.
        plugin: Plugin,
        /// The job's name.
        name: String,
    },
}

fn known() -> String {
    Plugin::ALL.map(Plugin::name).join(", ")
}

/// What is not taken into account, or will surprise. Values never show: one of them may be a private key.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PluginWarning {
    /// The plugin has no such argument.
    #[error("plugin {plugin} has no argument --{name}{}: it is ignored", plugin.known_flags())]
    UnknownArgument {
        /// The plugin.
        plugin: Plugin,
        /// The argument.
        name: String,
    },
    /// A word that belongs to no argument.
    #[error("plugin {plugin}: word {} is no argument and is ignored", position.saturating_add(1))]
    NoFlag {
        /// The plugin.
        plugin: Plugin,
        /// Which word, from 0.
        position: usize,
    },
    /// An argument whose value cannot be used.
    #[error("plugin {plugin}: --{argument} must be {must}: the default is used")]
    BadValue {
        /// The plugin.
        plugin: Plugin,
        /// The argument.
        argument: &'static str,
        /// What it must be.
        must: &'static str,
    },
    /// A task that the plugin looks for is missing, so it does less.
    #[error("plugin {plugin}: the job has no task {task:?} (--{argument}), so {effect}")]
    NoTask {
        /// The plugin.
        plugin: Plugin,
        /// The argument that names the task.
        argument: &'static str,
        /// The name that was looked for.
        task: String,
        /// What does not happen.
        effect: &'static str,
    },
    /// A container that the plugin looks for is missing.
    #[error("plugin {plugin}: task {task:?} has no container {container:?} (--{argument}), so nothing starts there")]
    NoContainer {
        /// The plugin.
        plugin: Plugin,
        /// The argument that names the container.
        argument: &'static str,
        /// The task.
        task: String,
        /// The name that was looked for.
        container: String,
    },
    /// All pods of a task carry one name.
    #[error("plugin {plugin}: task {task:?} sets a hostname, so its {replicas} pods share that name")]
    SharedHostname {
        /// The plugin.
        plugin: Plugin,
        /// The task.
        task: String,
        /// Its pods.
        replicas: i32,
    },
    /// One half of a pair of keys.
    #[error("plugin ssh: --ssh-private-key and --ssh-public-key belong together: {effect}")]
    HalfKey {
        /// What happens instead.
        effect: &'static str,
    },
    /// Users other than root cannot look into root's home.
    #[error("plugin ssh: with --no-root say where the keys go: --ssh-key-file-path=/home/USER/.ssh")]
    NoHome,
}

impl Plugin {
    fn known_flags(self) -> String {
        let names: Vec<String> = self.flags().iter().map(|flag| format!("--{}", flag.name)).collect();
        if names.is_empty() {
            String::new()
        } else {
            format!(" (it has {})", names.join(", "))
        }
    }
}

/// What `spec.plugins` says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// The plugins with their settings, in the order in which they act.
    pub plugins: Vec<Configured>,
    /// Why they cannot work; empty if they can.
    pub errors: Vec<PluginError>,
    /// What is ignored or will surprise.
    pub warnings: Vec<PluginWarning>,
}

/// Reads the plugins of a Job.
pub fn read(job: &Job) -> Reading {
    let asked = &job.spec.plugins;
    let mut reading = Reading::default();
    for name in asked.keys().filter(|name| Plugin::of_name(name).is_none()) {
        reading.errors.push(PluginError::Unknown { name: name.clone() });
    }
    for plugin in Plugin::ALL {
        if let Some(words) = asked.get(plugin.name()) {
            let configured = Configured::read(plugin, words, &mut reading.warnings);
            judge(job, &configured, &mut reading);
            reading.plugins.push(configured);
        }
    }
    reading
}

/// The folders that plugins mount in every container.
pub fn mounted(job: &Job) -> Vec<(Plugin, String)> {
    let folder = |configured: &Configured| match configured {
        Configured::Svc(_) => Some((Plugin::Svc, HOSTS_FOLDER.to_owned())),
        Configured::Ssh(ssh) => Some((Plugin::Ssh, ssh.key_file_path.path().to_owned())),
        _ => None,
    };
    read(job).plugins.iter().filter_map(folder).collect()
}

/// What admission has to say about the plugins of a Job: what to refuse, and what to warn of.
pub fn check(job: &Job) -> (Vec<PluginError>, Vec<PluginWarning>) {
    let Reading { errors, warnings, .. } = read(job);
    (errors, warnings)
}

/// Plugins that the given ones do not work without and that are not there yet, in the order in which they act.
/// Admission adds them, without arguments.
pub fn implied(plugins: &BTreeMap<String, Vec<String>>) -> Vec<Plugin> {
    let needed = |plugin: &Plugin| {
        plugins
            .keys()
            .filter_map(|name| Plugin::of_name(name))
            .any(|given| given.needs().contains(plugin))
    };
    Plugin::ALL
        .into_iter()
        .filter(|plugin| needed(plugin) && !plugins.contains_key(plugin.name()))
        .collect()
}

/// Compares settings with the job that they are for.
fn judge(job: &Job, configured: &Configured, reading: &mut Reading) {
    let spec = &job.spec;
    match configured {
        Configured::Svc(_) => judge_names(job, reading),
        Configured::Ssh(ssh) => judge_keys(ssh, reading),
        Configured::Pytorch(pytorch) => {
            let effect = "pods get no MASTER_ADDR, WORLD_SIZE or RANK";
            warn_of_task(spec, Plugin::Pytorch, "master", &pytorch.master, effect, reading);
        }
        Configured::Mpi(mpi) => {
            require_task(spec, Plugin::Mpi, "master", &mpi.master, reading);
            let effect = "the master gets no MPI_HOST";
            warn_of_task(spec, Plugin::Mpi, "worker", &mpi.worker, effect, reading);
        }
        Configured::Ray(ray) => judge_ray(spec, ray, reading),
        Configured::Env(_) | Configured::Tensorflow(_) | Configured::Hcclrank(_) => {}
    }
}

fn judge_names(job: &Job, reading: &mut Reading) {
    let plugin = Plugin::Svc;
    if let Some(name) = &job.metadata.name
        && !is_label(name)
    {
        let name = name.clone();
        reading.errors.push(PluginError::NoHostName { plugin, name });
    }
    for task in job.spec.tasks.iter().filter(|task| task.replicas > 1) {
        let hostname = task.template.spec.as_ref().and_then(|spec| spec.hostname.as_deref());
        if hostname.is_some_and(|hostname| !hostname.is_empty()) {
            reading.warnings.push(PluginWarning::SharedHostname {
                plugin,
                task: task.name.clone(),
                replicas: task.replicas,
            });
        }
    }
}

fn is_label(name: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = name.as_bytes();
    (1..=63).contains(&bytes.len())
        && bytes.iter().all(|byte| inner(*byte) || *byte == b'-')
        && bytes.first().copied().is_some_and(inner)
        && bytes.last().copied().is_some_and(inner)
}

fn judge_keys(ssh: &Ssh, reading: &mut Reading) {
    let effect = match (ssh.private_key.text().is_empty(), ssh.public_key.is_empty()) {
        (true, false) => Some("a new pair is made, and the public key is ignored"),
        (false, true) => Some("the public key is taken from the private one if that is in OpenSSH's format"),
        _ => None,
    };
    reading
        .warnings
        .extend(effect.map(|effect| PluginWarning::HalfKey { effect }));
    if ssh.no_root && ssh.key_file_path.path() == SSH_FOLDER {
        reading.warnings.push(PluginWarning::NoHome);
    }
}

fn judge_ray(spec: &JobSpec, ray: &Ray, reading: &mut Reading) {
    let plugin = Plugin::Ray;
    require_task(spec, plugin, "head", &ray.head, reading);
    let effect = "the head stays alone";
    warn_of_task(spec, plugin, "worker", &ray.worker, effect, reading);
    let containers = [
        (&ray.head, "headContainer", &ray.head_container),
        (&ray.worker, "workerContainer", &ray.worker_container),
    ];
    for (task, argument, container) in containers {
        if task_named(spec, task).is_some_and(|task| !has_container(task, container)) {
            reading.warnings.push(PluginWarning::NoContainer {
                plugin,
                argument,
                task: task.clone(),
                container: container.clone(),
            });
        }
    }
}

fn has_container(task: &TaskSpec, name: &str) -> bool {
    let spec = task.template.spec.as_ref();
    spec.is_some_and(|spec| spec.containers.iter().any(|container| container.name == name))
}

fn task_named<'a>(spec: &'a JobSpec, name: &str) -> Option<&'a TaskSpec> {
    spec.tasks.iter().find(|task| task.name == name)
}

fn require_task(spec: &JobSpec, plugin: Plugin, argument: &'static str, task: &str, reading: &mut Reading) {
    if task_named(spec, task).is_none() {
        reading.errors.push(PluginError::NoTask {
            plugin,
            argument,
            task: task.to_owned(),
        });
    }
}

fn warn_of_task(
    spec: &JobSpec,
    plugin: Plugin,
    argument: &'static str,
    task: &str,
    effect: &'static str,
    reading: &mut Reading,
) {
    if task_named(spec, task).is_none() {
        reading.warnings.push(PluginWarning::NoTask {
            plugin,
            argument,
            task: task.to_owned(),
            effect,
        });
    }
}
