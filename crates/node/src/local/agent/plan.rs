//! A bound pod as a plan for its shim.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::PathBuf;

use basalt_api::quantity::Quantity;
use k8s_openapi::api::core::v1::{Container, ExecAction, HTTPGetAction, LifecycleHandler, Pod, Probe as WireProbe};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::super::environment::{self, Sources, Variables};
use super::super::fields::Surroundings;
use super::super::plan::{Action, ContainerPlan, Isolation, Limits, PodPlan, Probe, Restart, User, View};
use super::super::status::{containers_of, is_sidecar};
use super::super::trouble::Trouble;
use super::super::volumes::{self, Laid, Users};
use super::users::{self, Powers};

/// The form of plans.
const VERSION: u32 = 1;
const GRACE_SECONDS: u32 = 30;
const MESSAGE_PATH: &str = "/dev/termination-log";

/// What is the same for all containers of a pod.
pub(crate) struct Making<'a> {
    pub(crate) pod: &'a Pod,
    pub(crate) uid: &'a str,
    pub(crate) socket: PathBuf,
    pub(crate) address: Ipv4Addr,
    pub(crate) around: &'a Surroundings,
    pub(crate) sources: &'a Sources,
    pub(crate) laid: &'a BTreeMap<String, Laid>,
    pub(crate) users: Users,
    pub(crate) powers: Powers,
    pub(crate) isolation: Isolation,
    pub(crate) backoff_ms: (u64, u64),
    /// What processes find in `CUDA_VISIBLE_DEVICES`: the GPUs given, by container.
    pub(crate) gpus: &'a BTreeMap<String, Vec<String>>,
    pub(crate) taken: jiff::Timestamp,
}

impl Making<'_> {
    /// The plan.
    pub(crate) fn plan(self) -> Result<PodPlan, Trouble> {
        let pod = self.pod;
        let (init, main) = containers_of(pod);
        let init: Vec<ContainerPlan> = init.iter().map(|c| self.container(c)).collect::<Result<_, _>>()?;
        let containers: Vec<ContainerPlan> = main.iter().map(|c| self.container(c)).collect::<Result<_, _>>()?;
        if self.isolation.view == View::Shared && init.iter().chain(&containers).any(|c| !c.mounts.is_empty()) {
            return Err(Trouble::refused(
                "VolumesNotPossible",
                "this machine lets nobody mount: volumes cannot be shown at their paths".to_owned(),
            ));
        }
        let spec = pod.spec.as_ref();
        let deadline = spec
            .and_then(|s| s.active_deadline_seconds)
            .and_then(|limit| self.taken.checked_add(jiff::SignedDuration::from_secs(limit)).ok());
        Ok(PodPlan {
            version: VERSION,
            uid: self.uid.to_owned(),
            namespace: pod.metadata.namespace.clone().unwrap_or_default(),
            name: pod.metadata.name.clone().unwrap_or_default(),
            socket: self.socket.clone(),
            hostname: hostname_of(pod),
            address: self.address,
            restart: restart_of(pod),
            deadline,
            grace_seconds: grace_of(pod),
            limits: limits_of_pod(&init, &containers),
            init,
            containers,
            isolation: self.isolation.clone(),
            backoff_ms: self.backoff_ms,
        })
    }

    fn container(&self, container: &Container) -> Result<ContainerPlan, Trouble> {
        let user = users::user_of(self.pod, container, self.powers)?;
        let variables = self.variables(container, user.as_ref())?;
        let command = command_of(container, &variables)?;
        let probe = |wire: Option<&WireProbe>| self.probe(container, wire);
        let lifecycle = container.lifecycle.as_ref();
        let hook = |wire: Option<&LifecycleHandler>| wire.map(|hook| self.hook(container, hook)).transpose();
        let mut plan = ContainerPlan {
            name: container.name.clone(),
            command,
            env: Vec::new(),
            working_folder: container
                .working_dir
                .clone()
                .filter(|d| !d.is_empty())
                .map(PathBuf::from),
            user,
            limits: limits_of(container)?,
            mounts: volumes::mounts(container, self.laid, &variables, self.users)?,
            message_path: message_path_of(container)?,
            message_from_log: container.termination_message_policy.as_deref() == Some("FallbackToLogsOnError"),
            sidecar: is_sidecar(container),
            startup: probe(container.startup_probe.as_ref())?,
            liveness: probe(container.liveness_probe.as_ref())?,
            readiness: probe(container.readiness_probe.as_ref())?,
            post_start: hook(lifecycle.and_then(|l| l.post_start.as_ref()))?,
            pre_stop: hook(lifecycle.and_then(|l| l.pre_stop.as_ref()))?,
        };
        plan.env = variables.into_list();
        Ok(plan)
    }

    fn variables(&self, container: &Container, user: Option<&User>) -> Result<Variables, Trouble> {
        let home = users::home_of(user.map_or(self.powers.own, |user| user.uid));
        let standard = [("HOME", home), ("HOSTNAME", hostname_of(self.pod))];
        let mut all = environment::variables(self.pod, container, self.around, self.sources, standard)?;
        // Last, so that nobody gets hold of a GPU by naming it.
        let given = self
            .gpus
            .get(&container.name)
            .map(|gpus| gpus.join(","))
            .unwrap_or_default();
        all.set("CUDA_VISIBLE_DEVICES", given.clone());
        all.set(
            "NVIDIA_VISIBLE_DEVICES",
            if given.is_empty() { "void".to_owned() } else { given },
        );
        Ok(all)
    }

    fn probe(&self, container: &Container, wire: Option<&WireProbe>) -> Result<Option<Probe>, Trouble> {
        let Some(wire) = wire else { return Ok(None) };
        let number = |value: Option<i32>, least: u32, usual: u32| match value {
            Some(value) if value > 0 => u32::try_from(value).unwrap_or(usual).max(least),
            _ => usual,
        };
        let action = if let Some(exec) = &wire.exec {
            exec_action(exec)
        } else if let Some(get) = &wire.http_get {
            self.http_action(container, get)?
        } else if let Some(tcp) = &wire.tcp_socket {
            Action::Tcp {
                host: self.host(tcp.host.as_deref()),
                port: port_of(container, &tcp.port)?,
            }
        } else {
            return Err(unsupported(container, "a probe that is not exec, httpGet or tcpSocket"));
        };
        Ok(Some(Probe {
            action,
            initial_delay_seconds: number(wire.initial_delay_seconds, 0, 0),
            period_seconds: number(wire.period_seconds, 1, 10),
            timeout_seconds: number(wire.timeout_seconds, 1, 1),
            success_threshold: number(wire.success_threshold, 1, 1),
            failure_threshold: number(wire.failure_threshold, 1, 3),
            grace_seconds: wire
                .termination_grace_period_seconds
                .map(|s| u32::try_from(s.max(0)).unwrap_or(u32::MAX)),
        }))
    }

    fn hook(&self, container: &Container, hook: &LifecycleHandler) -> Result<Action, Trouble> {
        if let Some(exec) = &hook.exec {
            Ok(exec_action(exec))
        } else if let Some(get) = &hook.http_get {
            self.http_action(container, get)
        } else if let Some(sleep) = &hook.sleep {
            Ok(Action::Sleep(u32::try_from(sleep.seconds.max(0)).unwrap_or(u32::MAX)))
        } else {
            Err(unsupported(container, "a hook that is not exec, httpGet or sleep"))
        }
    }

    fn http_action(&self, container: &Container, get: &HTTPGetAction) -> Result<Action, Trouble> {
        let path = get.path.as_deref().unwrap_or("/");
        let headers = get.http_headers.iter().flatten();
        Ok(Action::Http {
            host: self.host(get.host.as_deref()),
            port: port_of(container, &get.port)?,
            path: if path.starts_with('/') {
                path.to_owned()
            } else {
                format!("/{path}")
            },
            tls: get
                .scheme
                .as_deref()
                .is_some_and(|scheme| scheme.eq_ignore_ascii_case("https")),
            headers: headers.map(|h| (h.name.clone(), h.value.clone())).collect(),
        })
    }

    fn host(&self, asked: Option<&str>) -> String {
        let own = || self.address.to_string();
        asked.filter(|host| !host.is_empty()).map_or_else(own, str::to_owned)
    }
}

fn exec_action(exec: &ExecAction) -> Action {
    Action::Exec(exec.command.clone().unwrap_or_default())
}

fn unsupported(container: &Container, what: &str) -> Trouble {
    Trouble::refused("Unsupported", format!("container {}: {what}", container.name))
}

fn command_of(container: &Container, variables: &Variables) -> Result<Vec<String>, Trouble> {
    let words = |list: Option<&Vec<String>>| -> Vec<String> {
        list.into_iter().flatten().map(|word| variables.expand(word)).collect()
    };
    let mut command = words(container.command.as_ref());
    if command.first().is_none_or(String::is_empty) {
        let message = format!(
            "container {} has no command: this node runs programs of the machine and pulls no image, so it cannot know \
             the command of {:?}; state one in `command`",
            container.name,
            container.image.as_deref().unwrap_or_default()
        );
        return Err(Trouble::refused("NoCommand", message));
    }
    command.extend(words(container.args.as_ref()));
    if command.iter().any(|word| word.contains('\0')) {
        return Err(unsupported(container, "a command with a zero byte"));
    }
    Ok(command)
}

fn port_of(container: &Container, port: &IntOrString) -> Result<u16, Trouble> {
    let number = match port {
        IntOrString::Int(number) => Some(*number),
        IntOrString::String(name) => {
            let named = container
                .ports
                .iter()
                .flatten()
                .find(|p| p.name.as_deref() == Some(name));
            named.map(|p| p.container_port).or_else(|| name.parse().ok())
        }
    };
    number
        .and_then(|number| u16::try_from(number).ok())
        .filter(|number| *number > 0)
        .ok_or_else(|| unsupported(container, "a port that is neither a number nor the name of one"))
}

/// `spec.restartPolicy`.
pub(crate) fn restart_of(pod: &Pod) -> Restart {
    match pod.spec.as_ref().and_then(|s| s.restart_policy.as_deref()) {
        Some("Never") => Restart::Never,
        Some("OnFailure") => Restart::OnFailure,
        _ => Restart::Always,
    }
}

/// The grace period that the pod states.
pub(crate) fn grace_of(pod: &Pod) -> u32 {
    let stated = pod.spec.as_ref().and_then(|s| s.termination_grace_period_seconds);
    stated.map_or(GRACE_SECONDS, |s| u32::try_from(s.max(0)).unwrap_or(u32::MAX))
}

/// The host name that the processes see.
pub(crate) fn hostname_of(pod: &Pod) -> String {
    let stated = pod
        .spec
        .as_ref()
        .and_then(|s| s.hostname.clone())
        .filter(|h| !h.is_empty());
    let mut name = stated.or_else(|| pod.metadata.name.clone()).unwrap_or_default();
    // As Kubernetes does: Linux takes 64 bytes, a label has 63.
    name.truncate(
        (0..=63.min(name.len()))
            .rev()
            .find(|&at| name.is_char_boundary(at))
            .unwrap_or(0),
    );
    name.trim_end_matches(['-', '.']).to_owned()
}

fn message_path_of(container: &Container) -> Result<PathBuf, Trouble> {
    let path = PathBuf::from(container.termination_message_path.as_deref().unwrap_or(MESSAGE_PATH));
    if volumes::is_kernels(&path) {
        let what = format!("{} is the kernel's: no terminationMessagePath", path.display());
        return Err(unsupported(container, &what));
    }
    Ok(path)
}

fn limits_of(container: &Container) -> Result<Limits, Trouble> {
    let resources = container.resources.as_ref();
    let of = |limit: bool, key: &str| {
        let map = resources.and_then(|r| if limit { r.limits.as_ref() } else { r.requests.as_ref() });
        let text = map.and_then(|m| m.get(key)).map(|q| q.0.as_str());
        let parsed = text.map(Quantity::parse).transpose();
        parsed
            .map_err(|error| unsupported(container, &error.to_string()))
            .map(|quantity| quantity.filter(|q| !q.is_zero() && !q.is_negative()))
    };
    let milli = |q: Quantity| q.milli().ok().and_then(|n| u64::try_from(n).ok());
    let units = |q: Quantity| q.units().ok().and_then(|n| u64::try_from(n).ok());
    let cpu_limit = of(true, "cpu")?.and_then(milli);
    Ok(Limits {
        cpu_millis: cpu_limit,
        memory_bytes: of(true, "memory")?.and_then(units),
        processes: None,
        cpu_request_millis: of(false, "cpu")?.and_then(milli).or(cpu_limit),
    })
}

/// The most that the pod uses at a time: its containers and sidecars, or an init container and the sidecars before it. It has a
/// bound where all that run have one.
fn limits_of_pod(init: &[ContainerPlan], containers: &[ContainerPlan]) -> Limits {
    let sum = |of: fn(&Limits) -> Option<u64>| {
        let mut beside = 0_u64;
        let mut most = 0_u64;
        for container in init {
            let with = beside.saturating_add(of(&container.limits)?);
            if container.sidecar {
                beside = with;
            }
            most = most.max(with);
        }
        let together = containers
            .iter()
            .try_fold(beside, |sum, c| Some(sum.saturating_add(of(&c.limits)?)))?;
        Some(together.max(most))
    };
    Limits {
        cpu_millis: sum(|l| l.cpu_millis),
        memory_bytes: sum(|l| l.memory_bytes),
        processes: Some(PROCESSES_MAX),
        cpu_request_millis: sum(|l| Some(l.cpu_request_millis.unwrap_or(0))).filter(|sum| *sum > 0),
    }
}

/// No pod takes all process numbers of the machine.
const PROCESSES_MAX: u64 = 16_384;

#[cfg(test)]
mod tests;
