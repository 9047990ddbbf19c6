//! `Pod.status`, made of what a shim says.

use std::net::Ipv4Addr;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, Pod};
use serde_json::{Map, Value, json};

use super::state::{ContainerState, Ended, Now, PodState};

/// How a pod stands.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Stand<'a> {
    /// Its shim has not started.
    Waiting {
        /// What the containers wait for.
        reason: &'a str,
        /// In words.
        message: &'a str,
    },
    /// It will never run here.
    Refused {
        /// Why, in one word.
        reason: &'a str,
        /// In words.
        message: &'a str,
    },
    /// What its shim said last.
    Told(&'a PodState),
}

/// All that a status is made of.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Picture<'a> {
    pub(crate) pod: &'a Pod,
    pub(crate) address: Option<Ipv4Addr>,
    pub(crate) host: Ipv4Addr,
    /// When the node took the pod.
    pub(crate) taken: Timestamp,
    pub(crate) stand: Stand<'a>,
    /// The status before this one: conditions that did not change keep their time.
    pub(crate) before: &'a Value,
}

impl Picture<'_> {
    /// The status, as a strategic merge patch of `status`.
    pub(crate) fn status(&self, now: Timestamp) -> Value {
        let mut status = json!({
            "phase": self.phase(),
            "startTime": seconds(self.taken),
            "hostIP": self.host.to_string(),
            "hostIPs": [{"ip": self.host.to_string()}],
            "qosClass": quality(self.pod),
            "conditions": self.conditions(now),
        });
        if let Some(address) = self.address {
            status["podIP"] = json!(address.to_string());
            status["podIPs"] = json!([{"ip": address.to_string()}]);
        }
        let told = match self.stand {
            Stand::Refused { reason, message } => Some((reason, message)),
            Stand::Told(state) => state
                .over
                .as_ref()
                .map(|over| (over.reason.as_str(), over.message.as_str())),
            Stand::Waiting { .. } => None,
        };
        if let Some((reason, message)) = told {
            for (key, text) in [("reason", reason), ("message", message)] {
                if !text.is_empty() {
                    status[key] = json!(text);
                }
            }
        }
        if !matches!(self.stand, Stand::Refused { .. }) {
            let (init, main) = containers_of(self.pod);
            status["containerStatuses"] = main.iter().map(|c| self.container(c, false)).collect();
            if !init.is_empty() {
                status["initContainerStatuses"] = init.iter().map(|c| self.container(c, true)).collect();
            }
        }
        status
    }

    /// The phase.
    pub(crate) fn phase(&self) -> &'static str {
        match self.stand {
            Stand::Waiting { .. } => "Pending",
            Stand::Refused { .. } => "Failed",
            Stand::Told(state) => match &state.over {
                Some(over) if over.succeeded => "Succeeded",
                Some(_) => "Failed",
                None if state.initialized && self.all_have_begun(state) => "Running",
                None => "Pending",
            },
        }
    }

    fn all_have_begun(&self, state: &PodState) -> bool {
        let (_, main) = containers_of(self.pod);
        main.iter().all(|c| {
            state
                .containers
                .get(&c.name)
                .is_some_and(|s| !matches!(s.now, Now::Waiting { .. }) || s.last.is_some() || s.restarts > 0)
        })
    }

    /// Whether all containers are ready (and the gates open).
    pub(crate) fn ready(&self) -> bool {
        self.containers_ready() && self.gates_open()
    }

    fn containers_ready(&self) -> bool {
        let Stand::Told(state) = self.stand else { return false };
        let (init, main) = containers_of(self.pod);
        let sidecars = init.iter().filter(|c| is_sidecar(c));
        state.over.is_none()
            && state.initialized
            && main
                .iter()
                .chain(sidecars)
                .all(|c| state.containers.get(&c.name).is_some_and(|s| s.ready && is_running(s)))
    }

    /// `readinessGates`: conditions that others set.
    fn gates_open(&self) -> bool {
        let gates = self.pod.spec.as_ref().and_then(|s| s.readiness_gates.as_ref());
        let conditions = self.pod.status.as_ref().and_then(|s| s.conditions.as_ref());
        gates.into_iter().flatten().all(|gate| {
            conditions
                .into_iter()
                .flatten()
                .any(|c| c.type_ == gate.condition_type && c.status == "True")
        })
    }

    fn conditions(&self, now: Timestamp) -> Value {
        let (initialized, over) = match self.stand {
            Stand::Told(state) => (state.initialized, state.over.as_ref().map(|o| o.succeeded)),
            Stand::Refused { .. } => (false, Some(false)),
            Stand::Waiting { .. } => (no_init(self.pod), None),
        };
        let begun = matches!(self.stand, Stand::Told(_)) && over.is_none();
        let containers_ready = self.containers_ready();
        let why = match over {
            Some(true) => "PodCompleted",
            Some(false) => "PodFailed",
            None => "ContainersNotReady",
        };
        let gates_open = self.gates_open();
        let initialized_why = match (initialized, over) {
            (true, Some(true)) => Some("PodCompleted"),
            (true, _) => None,
            (false, _) => Some("ContainersNotInitialized"),
        };
        let not_ready_why = if containers_ready {
            "ReadinessGatesNotReady"
        } else {
            why
        };
        let ready = containers_ready && gates_open;
        json!([
            self.condition("PodReadyToStartContainers", begun, None, now),
            self.condition("Initialized", initialized, initialized_why, now),
            self.condition("Ready", ready, (!ready).then_some(not_ready_why), now),
            self.condition(
                "ContainersReady",
                containers_ready,
                (!containers_ready).then_some(why),
                now
            ),
            self.condition("PodScheduled", true, None, now),
        ])
    }

    fn condition(&self, kind: &str, holds: bool, reason: Option<&str>, now: Timestamp) -> Value {
        let status = if holds { "True" } else { "False" };
        let before = self.before.get("conditions").and_then(Value::as_array);
        let since = before
            .into_iter()
            .flatten()
            .find(|c| c.get("type").and_then(Value::as_str) == Some(kind))
            .filter(|c| c.get("status").and_then(Value::as_str) == Some(status))
            .and_then(|c| c.get("lastTransitionTime"))
            .filter(|time| time.is_string())
            .cloned()
            .unwrap_or_else(|| json!(seconds(now)));
        json!({"type": kind, "status": status, "reason": reason, "lastTransitionTime": since})
    }

    fn container(&self, container: &Container, init: bool) -> Value {
        let uid = self.pod.metadata.uid.as_deref().unwrap_or_default();
        let mut entry = json!({
            "name": container.name,
            "image": container.image.as_deref().unwrap_or_default(),
            "imageID": "",
            "ready": false,
            "started": false,
            "restartCount": 0,
            "lastState": {},
        });
        let told = match self.stand {
            Stand::Told(state) => state.containers.get(&container.name),
            _ => None,
        };
        let Some(told) = told else {
            entry["state"] = match self.stand {
                Stand::Waiting { reason, message } if !init => waiting(reason, message),
                _ => waiting("PodInitializing", ""),
            };
            return entry;
        };
        let id = |run: u32| format!("basalt://{uid}/{}/{run}", container.name);
        let own = id(told.restarts);
        entry["restartCount"] = json!(told.restarts);
        match &told.now {
            Now::Waiting { reason, message } => entry["state"] = waiting(reason, message),
            Now::Running { since, .. } => {
                entry["state"] = json!({"running": {"startedAt": seconds(*since)}});
                entry["ready"] = json!(told.ready);
                entry["started"] = json!(told.started);
                entry["containerID"] = json!(own);
            }
            Now::Ended(ended) => {
                entry["state"] = terminated(ended, &own);
                // As in Kubernetes, an init container that ended well is ready.
                entry["ready"] = json!(init && ended.exit_code == 0);
                entry["containerID"] = json!(own);
            }
        }
        if let Some(last) = &told.last {
            // While it waits to be started again, the run that is counted next has not begun.
            let run = match told.now {
                Now::Waiting { .. } => told.restarts,
                _ => told.restarts.saturating_sub(1),
            };
            let last_id = id(run);
            entry["lastState"] = terminated(last, &last_id);
            if entry.get("containerID").is_none() {
                entry["containerID"] = json!(last_id);
            }
        }
        entry
    }
}

fn is_running(state: &ContainerState) -> bool {
    matches!(state.now, Now::Running { .. })
}

/// An init container that goes on beside the others.
pub(crate) fn is_sidecar(container: &Container) -> bool {
    container.restart_policy.as_deref() == Some("Always")
}

/// Init containers, and the others.
pub(crate) fn containers_of(pod: &Pod) -> (&[Container], &[Container]) {
    let spec = pod.spec.as_ref();
    let init = spec.and_then(|s| s.init_containers.as_deref()).unwrap_or_default();
    (init, spec.map(|s| s.containers.as_slice()).unwrap_or_default())
}

fn no_init(pod: &Pod) -> bool {
    containers_of(pod).0.is_empty()
}

fn waiting(reason: &str, message: &str) -> Value {
    let mut told = Map::new();
    told.insert("reason".to_owned(), json!(reason));
    if !message.is_empty() {
        told.insert("message".to_owned(), json!(message));
    }
    json!({"waiting": told})
}

fn terminated(ended: &Ended, id: &str) -> Value {
    let mut told = json!({
        "exitCode": ended.exit_code,
        "reason": ended.reason,
        "startedAt": seconds(ended.began),
        "finishedAt": seconds(ended.ended),
        "containerID": id,
    });
    if let Some(signal) = ended.signal {
        told["signal"] = json!(signal);
    }
    if !ended.message.is_empty() {
        told["message"] = json!(ended.message);
    }
    json!({"terminated": told})
}

/// Kubernetes' time format: whole seconds.
pub(crate) fn seconds(at: Timestamp) -> String {
    Timestamp::from_second(at.as_second()).unwrap_or(at).to_string()
}

/// `qosClass`.
fn quality(pod: &Pod) -> &'static str {
    let (init, main) = containers_of(pod);
    let mut any = false;
    let mut guaranteed = true;
    for container in init.iter().chain(main) {
        let of = |map: Option<
            &std::collections::BTreeMap<String, k8s_openapi::apimachinery::pkg::api::resource::Quantity>,
        >,
                  key: &str| {
            map.and_then(|m| m.get(key))
                .and_then(|q| basalt_api::quantity::Quantity::parse(&q.0).ok())
                .filter(|q| !q.is_zero())
        };
        let resources = container.resources.as_ref();
        for key in ["cpu", "memory"] {
            let limit = of(resources.and_then(|r| r.limits.as_ref()), key);
            let request = of(resources.and_then(|r| r.requests.as_ref()), key);
            any |= limit.is_some() || request.is_some();
            guaranteed &= limit.is_some() && (request.is_none() || request == limit);
        }
    }
    match (any, guaranteed) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}

#[cfg(test)]
mod tests;
