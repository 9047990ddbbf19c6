//! What a shim says about its pod.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// Everything that happened, as of the last change; each is whole, so that the last one is enough.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodState {
    /// Whose state it is.
    pub uid: String,
    /// Grows with every change.
    pub sequence: u64,
    /// The shim itself.
    pub shim: ProcessId,
    /// By name; init containers too.
    pub containers: BTreeMap<String, ContainerState>,
    /// Whether all init containers have ended well (sidecars: have started).
    pub initialized: bool,
    /// Set with the last change: nothing runs any more and nothing will.
    pub over: Option<Over>,
}

/// A process that cannot be mistaken for another that got its number later.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProcessId {
    /// Its number.
    pub pid: u32,
    /// Its start, in clock ticks after boot (field 22 of `/proc/PID/stat`).
    pub started: u64,
    /// Which boot (`/proc/sys/kernel/random/boot_id`).
    pub boot: String,
}

/// How the pod ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Over {
    /// Whether every container ended well.
    pub succeeded: bool,
    /// `DeadlineExceeded`, or empty.
    pub reason: String,
    /// In words.
    pub message: String,
}

/// One container.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ContainerState {
    /// What it does now.
    pub now: Now,
    /// How the run before ended.
    pub last: Option<Ended>,
    /// How often it was started again; the present run's log is `<runs>.log`.
    pub restarts: u32,
    /// Whether its readiness probe (if any) says so, while it runs.
    pub ready: bool,
    /// Whether its startup probe (if any) has succeeded, while it runs.
    pub started: bool,
}

/// What a container does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Now {
    /// Not yet, or not again yet.
    Waiting {
        /// `PodInitializing`, `ContainerCreating`, `CrashLoopBackOff`, `RunContainerError`, …
        reason: String,
        /// In words.
        message: String,
    },
    /// It runs.
    Running {
        /// Its first process.
        process: ProcessId,
        /// Since when.
        since: Timestamp,
    },
    /// It has ended.
    Ended(Ended),
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Ended {
    /// 128 + signal if it was killed; 127 and 126 if it could not be run.
    pub exit_code: i32,
    /// The signal.
    pub signal: Option<i32>,
    /// `Completed`, `Error`, `OOMKilled`, `ContainerCannotRun`, `StartError`, …
    pub reason: String,
    /// The termination message, or why it could not run.
    pub message: String,
    /// When it began.
    pub began: Timestamp,
    /// When it ended.
    pub ended: Timestamp,
}
