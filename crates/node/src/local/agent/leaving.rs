//! The end of the agent: what is on its way is finished, and pods end if that is wanted.

use std::time::Duration;

use tokio::sync::mpsc::UnboundedReceiver;

use super::super::talk::ToShim;
use super::pods::LocalPod;
use super::{Agent, Message, plan};

/// How long a shutdown waits for requests on their way.
pub(super) const FINISH_MAX: Duration = Duration::from_secs(2);
/// How long pods that are to end with the server are waited for, beyond their grace.
const STOP_MAX: Duration = Duration::from_secs(40);

impl Agent {
    /// Finishes what is on its way; ends the pods if that is wanted.
    pub(super) async fn leave(&mut self, inbox: &mut UnboundedReceiver<Message>) {
        self.leaving = true;
        let mut limit = FINISH_MAX;
        if self.stops_pods() {
            limit = STOP_MAX;
            for pod in self.pods.values().filter(|pod| pod.active()) {
                limit = limit.max(Duration::from_secs(u64::from(pod.last_grace())) + STOP_MAX);
                // Who has no line yet is told as soon as it calls.
                pod.say_last_stop();
            }
        }
        let until = tokio::time::Instant::now() + limit;
        while self.is_busy() {
            match tokio::time::timeout_at(until, inbox.recv()).await {
                Ok(Some(message)) => self.heard(message),
                _ => break,
            }
        }
    }

    /// Whether pods are ended now, for the server leaves.
    pub(super) fn stops_pods(&self) -> bool {
        self.leaving && self.shared.options.stop_pods
    }

    fn is_busy(&self) -> bool {
        let stops = self.stops_pods();
        self.pods.values().any(|pod| pod.sent || (stops && pod.active()))
    }
}

impl LocalPod {
    fn last_grace(&self) -> u32 {
        self.object.as_deref().map_or(0, plan::grace_of)
    }

    /// Tells its shim that the pod ends with the server.
    pub(super) fn say_last_stop(&self) {
        if let Some((_, orders)) = &self.orders {
            let grace_seconds = self.last_grace();
            let _ = orders.send(ToShim::Stop { grace_seconds });
        }
    }
}
