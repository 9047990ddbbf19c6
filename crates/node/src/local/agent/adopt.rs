//! Pods that were there before: folders at the start of a server, and pods whose shim has gone.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use jiff::Timestamp;
use rustix::fs::FlockOperation;
use tracing::{info, warn};

use super::super::folder::PodFolder;
use super::super::plan::{PodPlan, Restart};
use super::super::state::{Ended, Now, Over, PodState};
use super::pods::{LocalPod, Stage};
use super::{Agent, Message, Shared, read_state};

/// What is left of a pod whose shim does not answer.
#[derive(Debug)]
pub(super) enum Left {
    /// The shim is there and will call.
    Shim,
    /// Nothing runs any more.
    End(Box<PodState>),
    /// The shim was killed and its containers with it; they may be started again.
    Again(Box<PodState>),
    /// The shim never began.
    Nothing(String),
}

/// A shim that takes longer to leave hangs in the kernel.
const LEAVING_MAX: std::time::Duration = std::time::Duration::from_secs(10);

/// The state of an earlier shim of the same pod.
const EARLIER: &str = "state.earlier.json";

fn read_plan(folder: &PodFolder) -> Option<PodPlan> {
    serde_json::from_slice(&fs::read(folder.plan()).ok()?).ok()
}

impl Agent {
    /// Takes over what the server before this one left.
    pub(super) fn adopt_all(&mut self) {
        let pods = self.shared.places.pods();
        let Ok(entries) = fs::read_dir(&pods) else { return };
        for entry in entries.flatten() {
            let Ok(uid) = entry.file_name().into_string() else {
                continue;
            };
            let folder = PodFolder::of(&pods, &uid);
            if let Some(plan) = read_plan(&folder).filter(|plan| plan.uid == uid) {
                self.adopt(&folder, plan);
            } else if let Err(error) = fs::remove_dir_all(folder.path()) {
                // Half-written: nothing of it has ever run.
                warn!(%error, uid, "a folder without a plan could not be removed");
            }
        }
        if !self.pods.is_empty() {
            info!(pods = self.pods.len(), "pods of the server before this one");
        }
    }

    fn adopt(&mut self, folder: &PodFolder, plan: PodPlan) {
        let mut pod = LocalPod::new(&plan.uid, &plan.namespace, &plan.name);
        self.addresses.claim(plan.address);
        pod.address = Some(plan.address);
        pod.hosts = fs::read_to_string(folder.hosts()).unwrap_or_default();
        pod.gpus = gpus_of(&plan);
        pod.image_told = true;
        let written = fs::metadata(folder.plan()).and_then(|meta| meta.modified()).ok();
        pod.taken = written
            .and_then(|time| Timestamp::try_from(time).ok())
            .unwrap_or_else(Timestamp::now);
        let earlier = fs::read(folder.path().join(EARLIER)).ok();
        pod.earlier = earlier.and_then(|text| serde_json::from_slice(&text).ok());
        let uid = plan.uid;
        let state = read_state(folder).map(|state| pod.with_earlier(state));
        match state {
            Some(state) if state.over.is_some() => {
                pod.gpus.clear();
                pod.stage = Stage::Ended(Box::new(state));
            }
            state => pod.stage = Stage::Running(state.map(Box::new)),
        }
        let unsure = matches!(pod.stage, Stage::Running(_));
        self.pods.insert(uid.clone(), pod);
        if unsure {
            self.check_shim(&uid);
        }
    }

    /// Finds out what has become of a shim that does not answer.
    pub(super) fn check_shim(&mut self, uid: &str) {
        let Some(pod) = self.pods.get_mut(uid) else { return };
        // A shim of our own tells by its end.
        if !matches!(pod.stage, Stage::Running(_)) || pod.child.is_some() || pod.checking {
            return;
        }
        pod.checking = true;
        let (shared, messages, uid) = (Arc::clone(&self.shared), self.messages.clone(), uid.to_owned());
        tokio::task::spawn_blocking(move || {
            let left = what_is_left(&shared, &uid);
            let _ = messages.send(Message::Recovered { uid, left });
        });
    }

    pub(super) fn recovered(&mut self, uid: &str, left: Left) {
        let Some(pod) = self.pods.get_mut(uid) else { return };
        pod.checking = false;
        if !matches!(pod.stage, Stage::Running(_)) {
            return;
        }
        match left {
            Left::Shim => {
                // It calls by itself; should it die before, somebody must notice.
                if pod.orders.is_none() {
                    self.look_later(uid, std::time::Duration::from_secs(1));
                }
            }
            Left::End(state) => self.state_said(uid, *state),
            Left::Again(state) => {
                pod.earlier = Some(state);
                self.start_shim(uid);
            }
            Left::Nothing(why) => {
                if pod.object.is_none() && !self.listed {
                    // Whether it is still wanted is not known yet.
                    self.look_later(uid, std::time::Duration::from_millis(200));
                } else if pod.attempts == 0 {
                    // Also the way of a pod whose server was killed between the plan and the shim.
                    pod.attempts = 1;
                    self.start_shim(uid);
                } else {
                    pod.gpus.clear();
                    pod.stage = Stage::Refused {
                        reason: "ShimFailed".to_owned(),
                        message: why,
                    };
                    self.look(uid);
                }
            }
        }
    }

    /// A shim that we started has ended.
    pub(super) fn shim_exited(&mut self, uid: &str, child: u64) {
        if let Some(pod) = self.pods.get_mut(uid)
            && pod.child == Some(child)
        {
            pod.child = None;
            self.check_shim(uid);
        }
    }

    /// Starts the shim of a folder that is complete.
    fn start_shim(&mut self, uid: &str) {
        let folder = PodFolder::of(&self.shared.places.pods(), uid);
        match super::super::shim::start(&self.shared.options.program, &folder) {
            Ok(child) => {
                self.children += 1;
                let number = self.children;
                if let Some(pod) = self.pods.get_mut(uid) {
                    pod.child = Some(number);
                }
                self.watch_child(uid, number, child);
            }
            Err(error) => {
                warn!(%error, uid, "the pod's shim cannot be started; trying again");
                self.look_later(uid, std::time::Duration::from_secs(1));
            }
        }
    }

    /// Notices when a shim that we started ends.
    fn watch_child(&self, uid: &str, number: u64, mut child: tokio::process::Child) {
        let (messages, uid) = (self.messages.clone(), uid.to_owned());
        tokio::spawn(async move {
            let _ = child.wait().await;
            let _ = messages.send(Message::Exited { uid, child: number });
        });
    }
}

/// GPUs that a plan gave away.
fn gpus_of(plan: &PodPlan) -> BTreeSet<String> {
    let variables = plan
        .init
        .iter()
        .chain(&plan.containers)
        .flat_map(|container| &container.env);
    variables
        .filter(|(name, _)| name == "CUDA_VISIBLE_DEVICES")
        .flat_map(|(_, value)| value.split(','))
        .filter(|gpu| !gpu.is_empty())
        .map(str::to_owned)
        .collect()
}

fn what_is_left(shared: &Shared, uid: &str) -> Left {
    let folder = PodFolder::of(&shared.places.pods(), uid);
    let Some(state) = read_state(&folder) else {
        if is_held(&folder) {
            return Left::Shim;
        }
        let complaints = fs::read_to_string(folder.complaints()).unwrap_or_default();
        let last = complaints.lines().last().unwrap_or("it said nothing");
        return Left::Nothing(format!("the pod's shim did not begin: {last}"));
    };
    if state.over.is_some() {
        return Left::End(Box::new(state));
    }
    if state.shim.alive() || is_held(&folder) {
        return Left::Shim;
    }
    if let Err(error) = super::super::shim::sweep(&folder) {
        warn!(%error, uid, "what a killed shim left could not be ended");
    }
    let lost = lost(state);
    let restart = read_plan(&folder).map_or(Restart::Never, |plan| plan.restart);
    let done =
        |container: &super::super::state::ContainerState| matches!(&container.now, Now::Ended(e) if e.exit_code == 0);
    let again = match restart {
        Restart::Always => true,
        // A container that has done its work is not run once more.
        Restart::OnFailure => !lost.containers.values().any(done),
        Restart::Never => false,
    };
    let write = |name: &Path, state: &PodState| {
        let text = serde_json::to_vec(state).unwrap_or_default();
        let draft = folder.path().join("state.draft");
        fs::write(&draft, text).and_then(|()| fs::rename(&draft, name))
    };
    let kept = if again {
        write(&folder.path().join(EARLIER), &lost).and_then(|()| fs::remove_file(folder.state()))
    } else {
        write(&folder.state(), &lost)
    };
    if let Err(error) = kept {
        warn!(%error, uid, "the state of a killed shim could not be kept");
    }
    if again {
        Left::Again(Box::new(lost))
    } else {
        Left::End(Box::new(lost))
    }
}

/// Whether a shim has the folder: it holds the lock on its plan.
fn is_held(folder: &PodFolder) -> bool {
    let Ok(plan) = fs::File::open(folder.plan()) else {
        return false;
    };
    rustix::fs::flock(&plan, FlockOperation::NonBlockingLockShared).is_err()
}

/// Removes a pod's folder. A shim that has said its last word may still be leaving: nobody writes there once it has left.
pub(super) fn remove(folder: &PodFolder) -> std::io::Result<()> {
    let until = std::time::Instant::now() + LEAVING_MAX;
    while is_held(folder) && std::time::Instant::now() < until {
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    match fs::remove_dir_all(folder.path()) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// The state that a killed shim's pod has ended in.
fn lost(mut state: PodState) -> PodState {
    const WHY: &str = "the pod's shim was killed, and its containers with it";
    let now = Timestamp::now();
    for container in state.containers.values_mut() {
        let began = match &container.now {
            Now::Running { since, .. } => *since,
            Now::Waiting { .. } | Now::Ended(_) => continue,
        };
        container.now = Now::Ended(Ended {
            exit_code: 137,
            signal: Some(9),
            reason: "ContainerStatusUnknown".to_owned(),
            message: WHY.to_owned(),
            began,
            ended: now,
        });
        container.ready = false;
        container.started = false;
    }
    state.sequence = state.sequence.saturating_add(1);
    state.over = Some(Over {
        succeeded: false,
        reason: "ShimLost".to_owned(),
        message: WHY.to_owned(),
    });
    state
}

impl LocalPod {
    /// Counts the runs under earlier shims in.
    pub(super) fn with_earlier(&self, mut state: PodState) -> PodState {
        for (name, before) in self.earlier.iter().flat_map(|earlier| &earlier.containers) {
            let Some(container) = state.containers.get_mut(name) else {
                continue;
            };
            if let Now::Ended(ended) = &before.now {
                container.restarts = container.restarts.saturating_add(before.restarts).saturating_add(1);
                if container.last.is_none() {
                    container.last = Some(ended.clone());
                }
            }
        }
        state
    }
}
