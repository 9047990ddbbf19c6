//! One pod of this machine, as the agent knows it.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use serde_json::Value;
use tokio::sync::mpsc::UnboundedSender;

use super::super::hosts::Neighbour;
use super::super::machine::register::HOST_ADDRESS;
use super::super::state::{Now, PodState};
use super::super::status::{Picture, Stand};
use super::super::talk::ToShim;
use super::plan::hostname_of;

/// How far a pod is.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Stage {
    /// To be started.
    New,
    /// Its folder is being filled.
    Preparing,
    /// Something is not there yet.
    Waiting { reason: &'static str, message: String },
    /// It will never run here.
    Refused { reason: String, message: String },
    /// Its shim was started; what it said last.
    Running(Option<Box<PodState>>),
    /// Nothing of it runs any more.
    Ended(Box<PodState>),
    /// It ended before this server began, and nothing but the object is left.
    Finished,
    /// Its folder is being removed.
    Removing,
}

/// One pod.
#[derive(Debug)]
pub(super) struct LocalPod {
    pub(super) uid: String,
    pub(super) namespace: String,
    pub(super) name: String,
    /// The object; absent: not listed yet, or gone.
    pub(super) object: Option<Arc<Pod>>,
    pub(super) listed: u32,
    pub(super) stage: Stage,
    pub(super) address: Option<Ipv4Addr>,
    pub(super) taken: Timestamp,
    /// The line to its shim, and the number of the call.
    pub(super) orders: Option<(u64, UnboundedSender<ToShim>)>,
    /// The shim that this server started and that has not ended, by number.
    pub(super) child: Option<u64>,
    /// What has become of its shim is being found out.
    pub(super) checking: bool,
    /// The grace with which the shim was told to stop, on this line.
    pub(super) stopped: Option<u32>,
    /// Whether the deletion was seen as it happened, so that the whole grace period is left.
    pub(super) deletion_seen: bool,
    /// The last status that the server took, or that is on its way.
    pub(super) shown: Value,
    /// A request about it is on its way.
    pub(super) sent: bool,
    /// The server took the final delete.
    pub(super) removed: bool,
    pub(super) attempts: u32,
    /// When it is looked at again, and the number of that look: one that came in between has replaced others.
    pub(super) next_look: Option<tokio::time::Instant>,
    pub(super) look_number: u64,
    /// Whether it waits for GPUs of pods that are ending.
    pub(super) waits_for_gpu: bool,
    pub(super) gpus: BTreeSet<String>,
    pub(super) hosts: String,
    pub(super) image_told: bool,
    /// Its volumes are being brought up to date; and once more after that.
    pub(super) refreshing: bool,
    pub(super) refresh_again: bool,
    /// Runs of its containers under shims before this one.
    pub(super) earlier: Option<Box<PodState>>,
}

impl LocalPod {
    pub(super) fn new(uid: &str, namespace: &str, name: &str) -> Self {
        Self {
            uid: uid.to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            object: None,
            listed: 0,
            stage: Stage::New,
            address: None,
            taken: Timestamp::now(),
            orders: None,
            child: None,
            checking: false,
            stopped: None,
            deletion_seen: false,
            shown: Value::Null,
            sent: false,
            removed: false,
            attempts: 0,
            next_look: None,
            look_number: 0,
            waits_for_gpu: false,
            gpus: BTreeSet::new(),
            hosts: String::new(),
            image_told: false,
            refreshing: false,
            refresh_again: false,
            earlier: None,
        }
    }

    /// Whether the object says that it ended.
    pub(super) fn object_ended(&self) -> bool {
        let phase = self.object.as_ref().and_then(|p| p.status.as_ref()?.phase.as_deref());
        matches!(phase, Some("Succeeded" | "Failed"))
    }

    /// Whether somebody deleted it.
    pub(super) fn deleted(&self) -> bool {
        self.object
            .as_ref()
            .is_some_and(|p| p.metadata.deletion_timestamp.is_some())
    }

    /// How long it may still be here, running or waiting (`activeDeadlineSeconds`).
    pub(super) fn time_left(&self, now: Timestamp) -> Option<Duration> {
        let limit = self.object.as_ref()?.spec.as_ref()?.active_deadline_seconds?;
        let used = now.duration_since(self.taken);
        let left = jiff::SignedDuration::from_secs(limit).saturating_sub(used);
        Some(Duration::try_from(left).unwrap_or(Duration::ZERO))
    }

    /// How long it may take to end, if it is to end.
    pub(super) fn grace(&self, now: Timestamp) -> Option<u32> {
        let Some(object) = &self.object else { return Some(0) };
        let at = object.metadata.deletion_timestamp.as_ref()?;
        let grace = object
            .metadata
            .deletion_grace_period_seconds
            .unwrap_or(0)
            .clamp(0, i64::from(u32::MAX));
        let left = at.0.as_second().saturating_sub(now.as_second());
        let seconds = if self.deletion_seen {
            grace
        } else {
            left.clamp(grace.min(1), grace)
        };
        u32::try_from(seconds).ok()
    }

    /// Whether it uses the machine: it holds its resources until nothing runs any more.
    pub(super) fn active(&self) -> bool {
        matches!(self.stage, Stage::Preparing | Stage::Running(_))
    }

    /// What it looks like now, if that is worth a write.
    pub(super) fn picture<'a>(&'a self, pod: &'a Pod) -> Option<Picture<'a>> {
        let stand = match &self.stage {
            Stage::Waiting { reason, message } => Stand::Waiting { reason, message },
            Stage::Refused { reason, message } => Stand::Refused { reason, message },
            Stage::Running(Some(state)) if !only_begins(state) => Stand::Told(state),
            Stage::Ended(state) => Stand::Told(state),
            _ => return None,
        };
        Some(Picture {
            pod,
            address: self.address,
            host: HOST_ADDRESS,
            taken: self.taken,
            stand,
            before: &self.shown,
        })
    }

    /// The status, if the server does not know it yet.
    pub(super) fn unshown(&self, now: Timestamp) -> Option<Value> {
        let pod = self.object.as_ref()?;
        let status = self.picture(pod)?.status(now);
        (status != self.shown).then_some(status)
    }

    /// How others see it; absent while it has no address or has ended.
    pub(super) fn neighbour(&self) -> Option<Neighbour> {
        if !matches!(self.stage, Stage::Preparing | Stage::Running(_)) {
            return None;
        }
        let pod = self.object.as_ref()?;
        let subdomain = pod
            .spec
            .as_ref()
            .and_then(|s| s.subdomain.clone())
            .filter(|s| !s.is_empty());
        Some(Neighbour {
            hostname: hostname_of(pod),
            subdomain,
            labels: pod.metadata.labels.clone().unwrap_or_default(),
            address: self.address?,
            ready: self.picture(pod).is_some_and(|picture| picture.ready()),
        })
    }
}

/// A shim that has just begun says nothing that the object does not say already: `Pending`.
fn only_begins(state: &PodState) -> bool {
    state.over.is_none()
        && state.containers.values().all(|container| {
            container.last.is_none()
                && container.restarts == 0
                && matches!(&container.now, Now::Waiting { reason, .. } if reason == "ContainerCreating" || reason == "PodInitializing")
        })
}
