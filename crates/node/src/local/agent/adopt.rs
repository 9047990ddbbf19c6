//! Pods that were there before: folders at the start of a server, and pods whose shim has gone.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use rustix::fs::FlockOperation;
use serde_json::Value;
use tracing::{info, warn};

use super::super::folder::PodFolder;
use super::super::plan::{ContainerPlan, PodPlan, Restart};
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
    /// Processes of it do not go, or nobody can tell.
    Remains,
    /// The shim never began.
    Nothing(String),
}

/// A shim that takes longer to leave hangs in the kernel.
const LEAVING_MAX: Duration = Duration::from_secs(10);

/// The state of an earlier shim of the same pod.
const EARLIER: &str = "state.earlier.json";

/// How long until a pod is looked at again of which nobody knows yet what has become of it.
const SOON: Duration = Duration::from_millis(200);
const LATER: Duration = Duration::from_secs(1);

/// What a plan says, whatever its form; nothing if it cannot be understood.
fn words_of(folder: &PodFolder) -> io::Result<Value> {
    fs::read(folder.plan()).map(|text| serde_json::from_slice(&text).unwrap_or_default())
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
            let plan = words_of(&folder);
            let whole = matches!(&plan, Ok(plan) if plan["uid"] == *uid);
            let absent = matches!(&plan, Err(error) if error.kind() == io::ErrorKind::NotFound);
            if absent || (!whole && !is_held(&folder) && !folder.state().exists()) {
                // Half-written: nothing of it has ever run.
                if let Err(error) = fs::remove_dir_all(folder.path()) {
                    warn!(%error, uid, "a folder without a plan could not be removed");
                }
                continue;
            }
            if !whole {
                warn!(uid, error = ?plan.as_ref().err(), "a plan cannot be read; its pod is taken over as far as it is known");
            }
            self.adopt(&folder, &uid, &plan.unwrap_or_default());
        }
        if !self.pods.is_empty() {
            info!(pods = self.pods.len(), "pods of the server before this one");
        }
    }

    fn adopt(&mut self, folder: &PodFolder, uid: &str, plan: &Value) {
        let word = |key: &str| plan[key].as_str().unwrap_or_default();
        let mut pod = LocalPod::new(uid, word("namespace"), word("name"));
        if let Ok(address) = word("address").parse() {
            self.addresses.claim(address);
            pod.address = Some(address);
        }
        pod.hosts = fs::read_to_string(folder.hosts()).unwrap_or_default();
        pod.gpus = gpus_of(plan);
        pod.image_told = true;
        let written = fs::metadata(folder.plan()).and_then(|meta| meta.modified()).ok();
        pod.taken = written
            .and_then(|time| Timestamp::try_from(time).ok())
            .unwrap_or_else(Timestamp::now);
        let earlier = fs::read(folder.path().join(EARLIER)).ok();
        pod.earlier = earlier.and_then(|text| serde_json::from_slice(&text).ok());
        let mut state = read_state(folder);
        if let (Some(now), Some(earlier)) = (&state, &pod.earlier)
            && now.shim == earlier.shim
        {
            // The server was killed after it had kept the state and before it had put it away.
            put_away(folder);
            state = None;
        }
        let state = state.map(|state| pod.with_earlier(state));
        match state {
            Some(state) if state.over.is_some() => {
                pod.gpus.clear();
                pod.stage = Stage::Ended(Box::new(state));
            }
            state => pod.stage = Stage::Running(state.map(Box::new)),
        }
        let unsure = matches!(pod.stage, Stage::Running(_));
        self.pods.insert(uid.to_owned(), pod);
        if unsure {
            self.check_shim(uid);
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
        let wanted = match (self.leaving, self.shared.options.stop_pods) {
            (false, _) => pod.wanted(self.listed),
            (true, true) => Wanted::No,
            // The next server sees to it.
            (true, false) => Wanted::Unknown,
        };
        let folder = PodFolder::of(&self.shared.places.pods(), uid);
        match (left, wanted) {
            (Left::Shim, _) => {
                // It calls by itself; should it die before, somebody must notice.
                if pod.orders.is_none() {
                    self.look_later(uid, LATER);
                }
            }
            (Left::Remains, _) => self.look_later(uid, LATER),
            (Left::Again(_) | Left::Nothing(_), Wanted::Unknown) => self.look_later(uid, SOON),
            (Left::End(state), _) | (Left::Again(state), Wanted::No) => {
                keep(&folder, &folder.state(), &state);
                self.state_said(uid, *state);
            }
            (Left::Again(state), Wanted::Yes) => {
                // All runs so far, so that the next shim's count goes on from there.
                let whole = pod.with_earlier(*state);
                keep(&folder, &folder.path().join(EARLIER), &whole);
                put_away(&folder);
                pod.earlier = Some(Box::new(whole));
                self.start_shim(uid);
            }
            // Also the way of a pod whose server was killed between the plan and the shim.
            (Left::Nothing(_), Wanted::Yes) if pod.attempts == 0 => {
                pod.attempts = 1;
                self.start_shim(uid);
            }
            (Left::Nothing(why), Wanted::Yes | Wanted::No) => {
                pod.gpus.clear();
                pod.stage = Stage::Refused {
                    reason: "ShimFailed".to_owned(),
                    message: why,
                };
                self.look(uid);
                self.wake_waiting_for_gpus();
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
                self.look_later(uid, LATER);
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
fn gpus_of(plan: &Value) -> BTreeSet<String> {
    let containers = ["init", "containers"]
        .into_iter()
        .filter_map(|key| plan[key].as_array());
    let variables = containers.flatten().filter_map(|container| container["env"].as_array());
    variables
        .flatten()
        .filter(|variable| variable[0] == "CUDA_VISIBLE_DEVICES")
        .filter_map(|variable| variable[1].as_str())
        .flat_map(|gpus| gpus.split(','))
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
    let plan = match fs::read(folder.plan()) {
        Ok(text) => serde_json::from_slice::<PodPlan>(&text).ok(),
        Err(_) => return Left::Remains,
    };
    if let Err(error) = super::super::shim::sweep(&folder) {
        warn!(%error, uid, "what a killed shim left could not be ended");
        // Without a plan that can be understood it never could be; with one, nothing is started beside the old processes.
        if plan.is_some() {
            return Left::Remains;
        }
    }
    let lost = Box::new(lost(state));
    if plan.is_some_and(|plan| may_run_again(&plan, &lost)) {
        Left::Again(lost)
    } else {
        Left::End(lost)
    }
}

/// Whether containers that were killed with their shim are started again.
fn may_run_again(plan: &PodPlan, lost: &PodState) -> bool {
    let done = |container: &ContainerPlan| {
        let state = lost.containers.get(&container.name);
        matches!(state.map(|state| &state.now), Some(Now::Ended(ended)) if ended.exit_code == 0)
    };
    match plan.restart {
        Restart::Always => true,
        // A container that has done its work is not run once more; init containers prepare each time anew.
        Restart::OnFailure => !plan.containers.iter().any(done),
        Restart::Never => false,
    }
}

/// Writes a state as a whole.
fn keep(folder: &PodFolder, name: &Path, state: &PodState) {
    let draft = folder.path().join("state.draft");
    let text = serde_json::to_vec(state).map_err(io::Error::from);
    let kept = text
        .and_then(|text| fs::write(&draft, text))
        .and_then(|()| fs::rename(&draft, name));
    if let Err(error) = kept {
        warn!(%error, uid = state.uid, "the state of a killed shim could not be kept");
    }
}

/// The next shim begins without the state of the one before.
fn put_away(folder: &PodFolder) {
    match fs::remove_file(folder.state()) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            warn!(%error, folder = %folder.path().display(), "the state of a killed shim could not be put away");
        }
        _ => {}
    }
}

/// Whether a shim has the folder: it holds the lock on its plan. Where nobody can tell, it may.
fn is_held(folder: &PodFolder) -> bool {
    match fs::File::open(folder.plan()) {
        Ok(plan) => rustix::fs::flock(&plan, FlockOperation::NonBlockingLockShared).is_err(),
        Err(error) => error.kind() != io::ErrorKind::NotFound,
    }
}

/// Removes a pod's folder. A shim that has said its last word may still be leaving: nobody writes there once it has left.
pub(super) fn remove(folder: &PodFolder) -> io::Result<()> {
    let until = Instant::now() + LEAVING_MAX;
    while is_held(folder) && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(2));
    }
    match fs::remove_dir_all(folder.path()) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
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

/// Whether a pod is to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wanted {
    Yes,
    /// It was deleted, or its object is gone.
    No,
    /// Its object has not been listed yet.
    Unknown,
}

impl LocalPod {
    fn wanted(&self, listed: bool) -> Wanted {
        match &self.object {
            Some(_) if self.deleted() => Wanted::No,
            Some(_) => Wanted::Yes,
            None if listed => Wanted::No,
            None => Wanted::Unknown,
        }
    }

    /// Counts the runs under earlier shims in.
    pub(super) fn with_earlier(&self, mut state: PodState) -> PodState {
        for (name, before) in self.earlier.iter().flat_map(|earlier| &earlier.containers) {
            let Some(container) = state.containers.get_mut(name) else {
                continue;
            };
            let ended = match &before.now {
                Now::Ended(ended) => Some(ended),
                // It was to be started again.
                Now::Waiting { .. } | Now::Running { .. } => before.last.as_ref(),
            };
            if let Some(ended) = ended {
                container.restarts = container.restarts.saturating_add(before.restarts).saturating_add(1);
                if container.last.is_none() {
                    container.last = Some(ended.clone());
                }
            }
        }
        state
    }
}

#[cfg(test)]
mod tests;
