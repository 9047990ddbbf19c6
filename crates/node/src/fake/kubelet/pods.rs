//! The pods of the fake kubelet.

use super::{
    Action, FakeKubelet, Millis, Moment, NEVER, Outcome, Phase, Pod, PodFacts, PodRef, Subject, Turn, Value, Verb, Want,
};
use std::net::Ipv4Addr;
use std::sync::Arc;

impl FakeKubelet {
    pub(super) fn pod_applied(&mut self, now: Millis, facts: PodFacts) {
        let slot = match self.by_uid.get(facts.uid.as_str()) {
            Some(&slot) => slot,
            None => self.pod_added(now, &facts),
        };
        self.pod_changed(now, slot, facts);
        self.look(now, Subject::Pod(slot));
    }

    fn pod_added(&mut self, now: Millis, facts: &PodFacts) -> usize {
        let node = self.node_slot(now, &facts.node);
        let uid: Arc<str> = facts.uid.as_str().into();
        let slot = self.pods.insert(Pod {
            namespace: self.namespaces.take(facts.namespace.as_str()),
            name: facts.name.as_str().into(),
            uid: Arc::clone(&uid),
            shape: self.shapes.take(facts.shape.clone()),
            node,
            address: None,
            phase: Phase::Pending,
            removed: false,
            verb: None,
            restarts: 0,
            scheduled: facts.scheduled.unwrap_or(now),
            started: NEVER,
            run_started: NEVER,
            stop_at: NEVER,
            turn: Turn::new(self.pods_round),
        });
        self.by_uid.insert(uid, slot);
        if let Some(node) = self.nodes.get_mut(node) {
            node.pods.insert(slot);
        }
        slot
    }

    /// Merges what the server shows into what is known. A watch can be behind our own writes, so nothing goes back.
    fn pod_changed(&mut self, now: Millis, slot: usize, facts: PodFacts) {
        let Some(pod) = self.pods.get_mut(slot) else { return };
        pod.turn.listed = self.pods_round;
        if *pod.shape != facts.shape {
            let shape = self.shapes.take(facts.shape);
            self.shapes.give(std::mem::replace(&mut pod.shape, shape));
        }
        if facts.phase > pod.phase {
            pod.phase = facts.phase;
        }
        if pod.phase >= Phase::Running && pod.started == NEVER {
            pod.started = facts.started.unwrap_or(now);
            pod.run_started = facts.run_started.unwrap_or(pod.started);
        }
        if facts.restarts > pod.restarts {
            pod.restarts = facts.restarts;
            pod.run_started = facts.run_started.unwrap_or(now);
        }
        if let (None, Some(address)) = (pod.address, facts.address) {
            pod.address = Some(address);
            self.pod_addresses.claim(address);
        }
        pod.stop_at = facts
            .deleted
            .map_or(pod.stop_at, |asked| asked.saturating_add(pod.shape.stop_time));
    }

    pub(super) fn pod_gone(&mut self, uid: &str) {
        let Some(slot) = self.by_uid.remove(uid) else { return };
        let Some(pod) = self.pods.try_remove(slot) else { return };
        self.shapes.give(pod.shape);
        self.namespaces.give(pod.namespace);
        if let Some(address) = pod.address {
            self.pod_addresses.give(address);
        }
        if let Some(node) = self.nodes.get_mut(pod.node) {
            node.pods.remove(&slot);
        }
        self.forget_if_unused(pod.node);
    }

    pub(super) fn pods_listed(&mut self, now: Millis) {
        let round = self.pods_round;
        let gone: Vec<Arc<str>> = self
            .pods
            .iter()
            .filter(|(_, p)| p.turn.listed != round)
            .map(|(_, p)| Arc::clone(&p.uid))
            .collect();
        for uid in gone {
            self.pod_gone(&uid);
        }
        if !self.pods_listed {
            self.pods_listed = true;
            self.look_at_all(now);
        }
    }

    pub(super) fn act_on_pod(&mut self, now: Millis, slot: usize) -> Option<Action> {
        let Want::Do(verb) = self.want(Subject::Pod(slot), now) else {
            return None;
        };
        let host = self.host_of(slot);
        let pod = self.pods.get_mut(slot)?;
        pod.verb = Some(verb);
        pod.turn.sent = true;
        let target = PodRef {
            namespace: Arc::clone(&pod.namespace),
            name: pod.name.to_string(),
            uid: Arc::clone(&pod.uid),
        };
        if verb == Verb::Remove {
            return Some(Action::DeletePod(target));
        }
        if pod.started == NEVER {
            // Kept over tries, so that a start whose answer was lost is not another start.
            pod.started = now;
            pod.run_started = now;
        }
        let address = *pod.address.get_or_insert_with(|| self.pod_addresses.take());
        let warnings = if verb == Verb::Start {
            pod.shape.warnings.clone()
        } else {
            Vec::new()
        };
        Some(Action::PatchPod {
            pod: target,
            patch: patch(pod, verb, now, address, host),
            warnings,
        })
    }

    fn host_of(&self, slot: usize) -> Ipv4Addr {
        let node = self.pods.get(slot).and_then(|pod| self.nodes.get(pod.node));
        node.and_then(|n| n.address).unwrap_or(Ipv4Addr::UNSPECIFIED)
    }

    pub(super) fn pod_done(&mut self, now: Millis, uid: &str, outcome: Outcome) {
        let Some(&slot) = self.by_uid.get(uid) else { return };
        let Some(pod) = self.pods.get_mut(slot) else { return };
        pod.turn.sent = false;
        let verb = pod.verb.take();
        match outcome {
            Outcome::Gone => return self.pod_gone(uid),
            Outcome::Failed => pod.turn.retry(now),
            Outcome::Done => {
                pod.turn.attempts = 0;
                match verb {
                    Some(Verb::Start) => pod.phase = pod.phase.max(Phase::Running),
                    Some(Verb::Finish(_)) => pod.phase = Phase::Finished,
                    Some(Verb::Remove) => pod.removed = true,
                    // The watch may have told us before the answer did.
                    Some(Verb::Restart(count)) if count > pod.restarts => {
                        pod.restarts = count;
                        pod.run_started = now;
                    }
                    Some(Verb::Restart(_)) | None => {}
                }
            }
        }
        self.look(now, Subject::Pod(slot));
    }
}

fn patch(pod: &Pod, verb: Verb, now: Millis, address: Ipv4Addr, host: Ipv4Addr) -> Value {
    let (end, _) = pod.ending();
    let mut moment = Moment {
        uid: &pod.uid,
        shape: &pod.shape,
        address,
        host,
        scheduled: pod.scheduled,
        started: pod.started,
        run_started: pod.run_started,
        restarts: pod.restarts,
    };
    match verb {
        Verb::Finish(ending) => moment.finished(ending, end.min(now)),
        Verb::Restart(count) => {
            let exit = pod.run_started.saturating_add(pod.shape.run_time.unwrap_or(0)).min(now);
            moment.run_started = now;
            moment.restarts = count;
            moment.running(Some((pod.run_started, exit)))
        }
        Verb::Start | Verb::Remove => moment.running(None),
    }
}
