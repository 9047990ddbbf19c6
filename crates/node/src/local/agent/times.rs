//! When a pod is looked at again.

use std::time::Duration;

use super::pods::Stage;
use super::{Agent, Message};

/// The first wait for something that is expected soon.
pub(super) const RETRY_FIRST: Duration = Duration::from_millis(100);

impl Agent {
    /// Tries again what could not be started.
    pub(super) fn wake(&mut self, uid: &str) {
        if let Some(pod) = self.pods.get_mut(uid)
            && matches!(pod.stage, Stage::Waiting { .. })
            && !pod.sent
            && !pod.deleted()
        {
            pod.stage = Stage::New;
            self.look(uid);
        } else {
            self.look_later(uid, RETRY_FIRST);
        }
    }

    /// Looks again after a while; a look that comes earlier anyway is enough, for it sees to everything.
    pub(super) fn look_later(&mut self, uid: &str, wait: Duration) {
        let Some(pod) = self.pods.get_mut(uid) else { return };
        let at = tokio::time::Instant::now() + wait;
        if pod.next_look.is_some_and(|next| next <= at) {
            return;
        }
        pod.next_look = Some(at);
        pod.look_number = pod.look_number.wrapping_add(1);
        let (messages, uid, number) = (self.messages.clone(), uid.to_owned(), pod.look_number);
        tokio::spawn(async move {
            tokio::time::sleep_until(at).await;
            let _ = messages.send(Message::Look { uid, number });
        });
    }

    pub(super) fn time_came(&mut self, uid: &str, number: u64) {
        if let Some(pod) = self.pods.get_mut(uid)
            && pod.look_number == number
        {
            pod.next_look = None;
            self.look_again(uid);
        }
    }

    /// A time has come: whatever waits is tried again.
    fn look_again(&mut self, uid: &str) {
        let leaving = self.leaving;
        let Some(pod) = self.pods.get_mut(uid) else { return };
        match pod.stage {
            Stage::Waiting { .. } if leaving => {}
            // The answer comes first.
            Stage::Waiting { .. } if pod.sent => return self.look_later(uid, RETRY_FIRST),
            Stage::Waiting { .. } if !pod.deleted() && pod.object.is_some() => pod.stage = Stage::New,
            Stage::Running(_) if pod.orders.is_none() => self.check_shim(uid),
            _ => {}
        }
        self.look(uid);
    }
}
