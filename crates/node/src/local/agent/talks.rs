//! What shims say, and what they are told.

use jiff::Timestamp;
use tokio::sync::mpsc::UnboundedSender;

use super::super::state::PodState;
use super::super::talk::{FromShim, ToShim};
use super::Agent;
use super::pods::{LocalPod, Stage};
use crate::events::Note;

impl Agent {
    pub(super) fn shim_called(&mut self, uid: &str, number: u64, orders: UnboundedSender<ToShim>) {
        let stops = self.stops_pods();
        let Some(pod) = self.pods.get_mut(uid) else {
            // Nobody knows it, and its folder is not there: it has nothing to run.
            let _ = orders.send(ToShim::Stop { grace_seconds: 0 });
            return;
        };
        pod.orders = Some((number, orders));
        pod.stopped = None;
        if stops {
            pod.say_last_stop();
        }
    }

    pub(super) fn shim_said(&mut self, uid: &str, what: FromShim) {
        match what {
            FromShim::State(state) => self.state_said(uid, *state),
            FromShim::Told {
                warning,
                reason,
                message,
            } => {
                if let Some(pod) = self.pods.get(uid) {
                    let note = Note {
                        warning,
                        reason,
                        message,
                    };
                    self.note(pod, note);
                }
            }
        }
    }

    pub(super) fn state_said(&mut self, uid: &str, state: PodState) {
        let Some(pod) = self.pods.get_mut(uid) else { return };
        if !matches!(pod.stage, Stage::Preparing | Stage::Running(_)) {
            return;
        }
        let state = Box::new(pod.with_earlier(state));
        let ready_before = pod.neighbour().map(|n| n.ready);
        if state.over.is_some() {
            pod.gpus.clear();
            pod.stage = Stage::Ended(state);
        } else {
            pod.stage = Stage::Running(Some(state));
        }
        if pod.neighbour().map(|n| n.ready) != ready_before || pod.refresh_again {
            self.renamed.insert(pod.namespace.clone());
        }
        let ended = matches!(pod.stage, Stage::Ended(_));
        if pod.refresh_again {
            self.refresh(uid);
        }
        self.look(uid);
        if ended {
            self.wake_waiting_for_gpus();
        }
    }

    /// Pods that wait for GPUs of pods that were ending.
    pub(super) fn wake_waiting_for_gpus(&mut self) {
        let waiting = |pod: &&LocalPod| pod.waits_for_gpu && matches!(pod.stage, Stage::Waiting { .. });
        let uids: Vec<String> = self.pods.values().filter(waiting).map(|pod| pod.uid.clone()).collect();
        for uid in uids {
            self.wake(&uid);
        }
    }

    pub(super) fn shim_hung_up(&mut self, uid: &str, number: u64) {
        let Some(pod) = self.pods.get_mut(uid) else { return };
        if pod.orders.as_ref().is_some_and(|(of, _)| *of == number) {
            pod.orders = None;
            self.check_shim(uid);
        }
    }

    /// Tells the shim to end its pod, unless it knows.
    pub(super) fn say_stop(&mut self, uid: &str) {
        let Some(pod) = self.pods.get_mut(uid) else { return };
        let Some(grace_seconds) = pod.grace(Timestamp::now()) else {
            return;
        };
        if pod.stopped.is_some_and(|before| before <= grace_seconds) {
            return;
        }
        if let Some((_, orders)) = &pod.orders
            && orders.send(ToShim::Stop { grace_seconds }).is_ok()
        {
            pod.stopped = Some(grace_seconds);
        }
    }
}
