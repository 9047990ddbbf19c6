//! Addresses of pods, and how much of them fits where.
//!
//! A job of 10,000 pods has lists of half a megabyte. Sizes are computed, not measured: a list is made only where
//! it fits, however many replicas somebody asks for.

use basalt_api::job::TaskSpec;
use basalt_api::job::plugins::{Configured, Plugin};
use basalt_api::{Job, names};

/// Longest `NAME=value` that Linux takes in an environment, its end included (`MAX_ARG_STRLEN`).
const ENV_MAX: u64 = 128 * 1024;
/// All that a ConfigMap may hold is 1 MiB; the rest is for its keys.
pub(super) const FILES_MAX: u64 = 1_000_000;
/// Longest list that stands in each pod as text; beyond it pods refer to the ConfigMap, so that all pods of a job
/// together stay linear in their number.
const TEXT_MAX: u64 = 8 * 1024;

/// The addresses of a task's pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Hosts {
    /// What stands before the index; the whole name where the template fixes it.
    before: String,
    /// What stands after it.
    domain: String,
    /// How many there are.
    count: u32,
    /// The template's hostname, which all pods share.
    fixed: bool,
}

impl Hosts {
    fn of(job: &str, task: &TaskSpec) -> Self {
        let spec = task.template.spec.as_ref();
        let text = |text: Option<&String>| text.filter(|text| !text.is_empty()).cloned();
        let hostname = text(spec.and_then(|spec| spec.hostname.as_ref()));
        let domain = text(spec.and_then(|spec| spec.subdomain.as_ref())).unwrap_or_else(|| job.to_owned());
        let replicas = u32::try_from(task.replicas).unwrap_or(0);
        Self {
            fixed: hostname.is_some(),
            count: if hostname.is_some() { replicas.min(1) } else { replicas },
            before: hostname.unwrap_or_else(|| format!("{job}-{}-", task.name)),
            domain,
        }
    }

    /// How many addresses there are: one, if the template fixes the hostname.
    pub(super) const fn count(&self) -> u32 {
        self.count
    }

    /// The hostname of a pod.
    pub(super) fn name(&self, index: u32) -> String {
        if self.fixed {
            self.before.clone()
        } else {
            format!("{}{index}", self.before)
        }
    }

    /// Where a pod can be reached from the job's namespace.
    pub(super) fn address(&self, index: u32) -> String {
        format!("{}.{}", self.name(index), self.domain)
    }

    /// The domain of the addresses.
    pub(super) fn domain(&self) -> &str {
        &self.domain
    }

    /// What all hostnames begin with, unless there is only one.
    pub(super) fn prefix(&self) -> Option<&str> {
        (!self.fixed).then_some(self.before.as_str())
    }

    /// All addresses.
    pub(super) fn addresses(&self) -> impl Iterator<Item = String> {
        (0..self.count).map(|index| self.address(index))
    }

    /// All addresses in one text.
    pub(super) fn join(&self, separator: &str) -> String {
        let mut text = String::new();
        for address in self.addresses() {
            if !text.is_empty() {
                text.push_str(separator);
            }
            text.push_str(&address);
        }
        text
    }

    /// Bytes of all hostnames.
    pub(super) fn name_bytes(&self) -> u64 {
        let digits = if self.fixed { 0 } else { digits(self.count) };
        digits.saturating_add(u64::from(self.count).saturating_mul(self.before.len() as u64))
    }

    /// Bytes of all addresses with `extra` bytes beside each; at least as many as the text has.
    pub(super) fn bytes(&self, extra: usize) -> u64 {
        let each = (1 + self.domain.len()).saturating_add(extra) as u64;
        self.name_bytes()
            .saturating_add(u64::from(self.count).saturating_mul(each))
    }
}

/// Digits of all numbers below `count`.
fn digits(count: u32) -> u64 {
    let count = u64::from(count);
    let mut total = count;
    let mut power: u64 = 10;
    while power < count {
        total += count - power;
        power *= 10;
    }
    total
}

/// The hosts of a task, and where their list is.
#[derive(Clone, Debug)]
pub(super) struct TaskHosts {
    /// The task's name.
    pub(super) task: String,
    /// Its addresses.
    pub(super) hosts: Hosts,
    /// Whether the list is a file: it is, unless the ConfigMap is full.
    pub(super) in_file: bool,
    /// Whether the list is a variable too.
    pub(super) in_env: bool,
}

impl TaskHosts {
    /// Name of the file.
    pub(super) fn file(&self) -> String {
        format!("{}.host", self.task.replace('-', "_"))
    }

    /// Name of the variable with the list.
    pub(super) fn hosts_variable(&self) -> String {
        format!("VC_{}_HOSTS", self.word())
    }

    /// Name of the variable with the number.
    pub(super) fn count_variable(&self) -> String {
        format!("VC_{}_NUM", self.word())
    }

    fn word(&self) -> String {
        self.task.replace('-', "_").to_uppercase()
    }
}

/// How a pod gets a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Way<T> {
    /// As text.
    Text(T),
    /// From the ConfigMap.
    Reference,
    /// Not in the environment: it is too long, or there is no ConfigMap.
    None,
}

/// The pods of a job as they see each other.
#[derive(Clone, Debug)]
pub(super) struct Gang {
    /// The job's name.
    pub(super) job: String,
    /// Its namespace.
    pub(super) namespace: String,
    /// Its tasks.
    pub(super) tasks: Vec<TaskHosts>,
    /// Whether there is a ConfigMap.
    has_files: bool,
    /// What is left of it.
    room: u64,
}

impl Gang {
    /// The gang of a job. Files come first, then the environment, task by task as long as there is room.
    pub(super) fn of(job: &Job, plugins: &[Configured]) -> Self {
        let name = job.metadata.name.clone().unwrap_or_default();
        let tasks = job.spec.tasks.iter().map(|task| TaskHosts {
            hosts: Hosts::of(&name, task),
            task: task.name.clone(),
            in_file: false,
            in_env: false,
        });
        let mut tasks: Vec<TaskHosts> = tasks.collect();
        let numbers: u64 = tasks.iter().map(|task| (task.count_variable().len() + 10) as u64).sum();
        let mut room = FILES_MAX.saturating_sub(numbers);
        for task in &mut tasks {
            task.in_file = take(&mut room, task.hosts.bytes(1).saturating_add(task.file().len() as u64));
        }
        for task in &mut tasks {
            let bytes = task.hosts.bytes(1).saturating_add(task.hosts_variable().len() as u64);
            task.in_env = fits_env(bytes) && take(&mut room, bytes);
        }
        Self {
            job: name,
            namespace: job.metadata.namespace.clone().unwrap_or_default(),
            tasks,
            has_files: plugins.iter().any(|configured| configured.plugin() == Plugin::Svc),
            room,
        }
    }

    /// The task of this name.
    pub(super) fn task(&self, name: &str) -> Option<&TaskHosts> {
        self.tasks.iter().find(|task| task.task == name)
    }

    /// Name of the ConfigMap with the lists.
    pub(super) fn files(&self) -> String {
        format!("{}-svc", self.job)
    }

    /// The name of a pod.
    pub(super) fn pod(&self, task: &TaskSpec, index: u32) -> String {
        names::job_pod(&self.job, &task.name, index)
    }

    /// How the pods get a task's list under a name of a plugin's own.
    pub(super) fn way_of(&self, task: &TaskHosts) -> Way<String> {
        match task.hosts.bytes(1) {
            bytes if bytes <= TEXT_MAX => Way::Text(task.hosts.join(",")),
            _ if self.has_files && task.in_env => Way::Reference,
            _ => Way::None,
        }
    }

    /// How the pods get something of `bytes` bytes that is not in the ConfigMap yet.
    pub(super) fn way_of_bytes(&self, bytes: u64) -> Way<()> {
        match bytes {
            bytes if bytes <= TEXT_MAX => Way::Text(()),
            bytes if self.has_files && fits_env(bytes) && bytes <= self.room => Way::Reference,
            _ => Way::None,
        }
    }
}

/// Whether a variable of these bytes, its name among them, can be in an environment.
const fn fits_env(bytes: u64) -> bool {
    // The sign between name and value, and the end.
    bytes.saturating_add(2) <= ENV_MAX
}

fn take(room: &mut u64, bytes: u64) -> bool {
    let left = room.checked_sub(bytes);
    *room = left.unwrap_or(*room);
    left.is_some()
}

#[cfg(test)]
mod tests {
    use super::{Hosts, digits};

    #[test]
    fn sizes_are_computed_as_they_are() {
        for count in [0, 1, 2, 9, 10, 11, 99, 100, 101, 1_000, 1_001, 12_345] {
            let written: u64 = (0..count).map(|index: u32| index.to_string().len() as u64).sum();
            assert_eq!(digits(count), written, "{count}");
            let hosts = Hosts {
                before: "job-task-".to_owned(),
                domain: "job".to_owned(),
                count,
                fixed: false,
            };
            let text = hosts.join(",").len() as u64;
            assert_eq!(hosts.bytes(1), text + u64::from(count > 0), "{count}");
        }
        assert!(digits(u32::MAX) > u64::from(u32::MAX) * 9);
    }
}
