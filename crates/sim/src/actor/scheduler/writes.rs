//! The requests of a scheduler that wait for their turn.

use std::collections::BTreeMap;
use std::sync::Arc;

use basalt_api::{Change, ObjectRef};
use basalt_engine::plan::{Bind, Eviction, Transaction, split_key};
use basalt_scheduler::{EvictionOutcome, FailedBind, StatusWrite, StatusWriteOutcome, StatusWriter};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use crate::actor::controllers::request;
use crate::actor::is_lost;
use crate::api::{Answer, Api, Key, Kind, Request};
use basalt_api::json::string_at;

/// How the scheduler binds the pods of a transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BindMode {
    /// As one request that is carried out whole or not at all, as the embedded API server can.
    #[default]
    Gang,
    /// As one request for each pod, as on Kubernetes.
    Single,
}

impl BindMode {
    /// Returns the mode of the history of a seed.
    pub fn of_seed(seed: u64) -> Self {
        if seed.is_multiple_of(2) {
            Self::Gang
        } else {
            Self::Single
        }
    }
}

/// A transaction whose binds are not all answered.
#[derive(Debug)]
pub(super) struct OpenTransaction {
    pub(super) transaction: Box<Transaction>,
    unanswered: usize,
    pub(super) failed: Vec<FailedBind>,
}

/// A request that waits for its turn.
#[derive(Debug)]
pub(super) enum QueuedRequest {
    /// The binds of a transaction, by its number, that are one request.
    Bind(u64, Vec<Bind>),
    /// The read of a pod whose bind met a conflict, perhaps with an earlier bind whose answer was lost.
    ReadPod(u64, Bind, String),
    Evict(Box<Eviction>),
    Delete(Change),
}

impl QueuedRequest {
    /// Returns the request; reads are answered by the driver.
    pub(super) fn request(&self) -> Option<Request> {
        match self {
            Self::Bind(_, binds) => Some(binding(binds)),
            Self::ReadPod(..) => None,
            Self::Evict(eviction) => {
                let (namespace, name) = split_key(&eviction.pod);
                Some(Request::Delete {
                    key: Key::new(Kind::Pod, namespace, name),
                    uid: Some(eviction.uid.to_string()),
                    revision: None,
                    grace: None,
                })
            }
            Self::Delete(change) => Some(request(change)),
        }
    }
}

fn binding(binds: &[Bind]) -> Request {
    let namespace = binds.first().map_or("", |bind| split_key(&bind.pod).0);
    let binds = binds.iter().map(|bind| {
        let (_, name) = split_key(&bind.pod);
        (name.to_owned(), bind.uid.to_string(), bind.node.to_string())
    });
    Request::Bind {
        namespace: namespace.to_owned(),
        binds: binds.collect(),
    }
}

/// Returns what the answer to an eviction means.
pub(super) fn eviction_outcome(answer: &Answer) -> EvictionOutcome {
    match answer {
        Ok(_) => EvictionOutcome::Evicted,
        Err(refusal) if matches!(refusal.code, 404 | 409) => EvictionOutcome::Evicted,
        Err(refusal) if is_lost(answer) => EvictionOutcome::Unknown(refusal.message.clone()),
        Err(refusal) => EvictionOutcome::Failed(refusal.message.clone()),
    }
}

/// The transactions that are being bound.
#[derive(Debug, Default)]
pub(super) struct OpenTransactions {
    open: BTreeMap<u64, OpenTransaction>,
    last: u64,
}

impl OpenTransactions {
    /// Takes on a transaction; returns its requests.
    pub(super) fn start(&mut self, transaction: Box<Transaction>, mode: BindMode) -> Vec<QueuedRequest> {
        self.last += 1;
        let number = self.last;
        let binds = transaction.binds.clone();
        let requests: Vec<QueuedRequest> = match mode {
            BindMode::Gang => vec![QueuedRequest::Bind(number, binds)],
            BindMode::Single => {
                let single = |bind| QueuedRequest::Bind(number, vec![bind]);
                binds.into_iter().map(single).collect()
            }
        };
        let unanswered = requests.len();
        let open = OpenTransaction {
            transaction,
            unanswered,
            failed: Vec::new(),
        };
        self.open.insert(number, open);
        requests
    }

    /// Takes note of an answer to one request; returns the transaction when all of its requests are answered.
    pub(super) fn answer(&mut self, number: u64, failed: Vec<FailedBind>) -> Option<OpenTransaction> {
        let open = self.open.get_mut(&number)?;
        open.failed.extend(failed);
        open.unanswered = open.unanswered.saturating_sub(1);
        if open.unanswered > 0 {
            return None;
        }
        self.open.remove(&number)
    }
}

/// Returns the binds of one request that failed by its answer.
pub(super) fn failed_binds(binds: &[Bind], answer: &Answer) -> Vec<FailedBind> {
    let Err(refusal) = answer else { return Vec::new() };
    let failed = |bind: &Bind| FailedBind {
        bind: bind.clone(),
        message: refusal.message.clone(),
        is_certain: !is_lost(answer),
    };
    binds.iter().map(failed).collect()
}

/// Returns whether a bind that met a conflict failed, by what the pod says.
pub(super) fn after_conflict(api: &Api, bind: &Bind, message: String) -> Vec<FailedBind> {
    let (namespace, name) = split_key(&bind.pod);
    let pod = api.get(&Key::new(Kind::Pod, namespace, name));
    let pod = pod.filter(|pod| string_at(pod, "/metadata/uid") == &*bind.uid);
    if pod.is_some_and(|pod| string_at(pod, "/spec/nodeName") == &*bind.node) {
        return Vec::new();
    }
    vec![FailedBind {
        bind: bind.clone(),
        message,
        is_certain: true,
    }]
}

/// The statuses and events that are not written yet; a newer one replaces an earlier one for the same object.
#[derive(Debug, Default)]
pub(super) struct StatusQueue {
    statuses: BTreeMap<(StatusWriter, ObjectRef), (Timestamp, StatusWrite)>,
    events: BTreeMap<ObjectRef, Change>,
}

/// A status or an event that was sent.
#[derive(Debug)]
pub(super) enum SentWrite {
    Status(Box<StatusWrite>),
    Event,
}

impl StatusQueue {
    pub(super) fn write(&mut self, write: StatusWrite, now: Timestamp) {
        let delay = SignedDuration::try_from(write.delay).unwrap_or_default();
        let due = now.saturating_add(delay).unwrap_or(now);
        let key = (write.writer, write.target.clone());
        let due = self.statuses.get(&key).map_or(due, |(sooner, _)| due.min(*sooner));
        self.statuses.insert(key, (due, write));
    }

    pub(super) fn record_event(&mut self, target: ObjectRef, event: Change) {
        self.events.insert(target, event);
    }

    /// Drops the conditions of pods that have not been sent.
    pub(super) fn cancel_conditions(&mut self, pods: Vec<ObjectRef>) {
        for pod in pods {
            self.statuses.remove(&(StatusWriter::PodConditions, pod));
        }
    }

    /// Returns when the next status may be written.
    pub(super) fn next_due(&self) -> Option<Timestamp> {
        self.statuses.values().map(|(due, _)| *due).min()
    }

    /// Takes the next write: a status that is due, or else an event.
    pub(super) fn take(&mut self, now: Timestamp) -> Option<(SentWrite, Request)> {
        let due = self.statuses.iter().find(|(_, (due, _))| *due <= now);
        if let Some(key) = due.map(|(key, _)| key.clone()) {
            let (_, write) = self.statuses.remove(&key)?;
            let request = request(&write.change);
            return Some((SentWrite::Status(Box::new(write)), request));
        }
        let (_, event) = self.events.pop_first()?;
        Some((SentWrite::Event, request(&event)))
    }

    /// Queues a write again whose answer was lost, unless there is a newer one.
    pub(super) fn retry(&mut self, write: StatusWrite, now: Timestamp) {
        let key = (write.writer, write.target.clone());
        self.statuses.entry(key).or_insert((now, write));
    }
}

/// Returns what the answer to a status write means; none if it was lost.
pub(super) fn status_outcome(answer: &Answer) -> Option<StatusWriteOutcome> {
    let version = |object: &Arc<Value>| string_at(object, "/metadata/resourceVersion").parse().ok();
    match answer {
        Ok(object) => Some(StatusWriteOutcome::Written {
            resource_version: version(object),
        }),
        Err(_) if is_lost(answer) => None,
        Err(_) => Some(StatusWriteOutcome::Rejected),
    }
}
