//! Evictions: each pod once at a time, and what people read about them.

use std::collections::BTreeSet;
use std::sync::Arc;

use basalt_api::EventType;
use basalt_engine::Engine;
use basalt_engine::plan::{Eviction, Purpose};

use crate::command::{CommandOutbox, SchedulerCommand, SchedulingMetric, pod_group_ref, pod_ref};
use crate::input::EvictionOutcome;

/// The pods that are being evicted, by uid.
#[derive(Debug, Default)]
pub(crate) struct EvictionsInFlight {
    uids: BTreeSet<Arc<str>>,
}

impl EvictionsInFlight {
    /// Asks for an eviction, unless that very pod is being evicted already.
    pub(crate) fn start(&mut self, eviction: &Eviction, outbox: &mut CommandOutbox) {
        if self.uids.insert(Arc::clone(&eviction.uid)) {
            outbox.push(SchedulerCommand::Evict {
                message: describe_purpose(&eviction.purpose),
                eviction: Box::new(eviction.clone()),
            });
        }
    }

    /// Takes note of an answer: a pod that surely stays is told to the engine, and people read about both ends.
    pub(crate) fn answer(
        &mut self,
        eviction: &Eviction,
        outcome: &EvictionOutcome,
        engine: &mut Engine,
        outbox: &mut CommandOutbox,
    ) {
        self.uids.remove(&eviction.uid);
        outbox.record_metric(SchedulingMetric::EvictionAnswered {
            action: eviction.purpose.action(),
            result: outcome.label(),
        });
        let purpose = describe_purpose(&eviction.purpose);
        let target = pod_ref(&eviction.pod);
        match outcome {
            EvictionOutcome::Evicted => {
                if let Some(group) = engine.pod(&eviction.pod).and_then(basalt_engine::PodView::group) {
                    let message = format!("Pod {} was {purpose}", eviction.pod);
                    outbox.record_event(
                        pod_group_ref(group.key()),
                        group.uid(),
                        "Evict",
                        message,
                        EventType::Normal,
                    );
                }
                let message = format!("Pod was {purpose}");
                outbox.record_event(target, &eviction.uid, "Evict", message, EventType::Warning);
            }
            EvictionOutcome::Blocked(refusal) | EvictionOutcome::Failed(refusal) => {
                let message = format!("Pod was to be {purpose}, which was refused: {refusal}");
                outbox.record_event(target, &eviction.uid, "EvictionRefused", message, EventType::Warning);
                engine.evict_failed(&eviction.pod, &eviction.uid);
            }
            // The room stays promised until the watch shows that the pod is gone, or the promise expires.
            EvictionOutcome::Unknown(_) => {}
        }
    }
}

/// Returns one sentence on why a pod has to go.
fn describe_purpose(purpose: &Purpose) -> String {
    let why = match purpose {
        Purpose::Preempt { beneficiary } | Purpose::GangPreempt { beneficiary } => {
            format!("PodGroup {beneficiary} goes first")
        }
        Purpose::Reclaim { beneficiary } | Purpose::GangReclaim { beneficiary } => {
            format!("the queue of PodGroup {beneficiary} takes back what it deserves")
        }
        Purpose::Reservation { queue } => {
            format!("its node is locked for queue {queue:?}, whose guarantee is to be met")
        }
        Purpose::Shuffle => "a policy wants it elsewhere".to_owned(),
    };
    format!("evicted because of {}: {why}", purpose.action())
}

#[cfg(test)]
mod tests {
    use basalt_engine::facts::PodPhase;

    use super::*;
    use crate::test_cluster;

    fn eviction(uid: &str) -> Eviction {
        Eviction {
            pod: "a/p-0".into(),
            uid: uid.into(),
            node: "n".into(),
            purpose: Purpose::Shuffle,
        }
    }

    #[test]
    fn a_pod_is_evicted_once_at_a_time() {
        let (mut evictions, mut outbox) = (EvictionsInFlight::default(), CommandOutbox::default());
        let mut engine = test_cluster::engine(1, &[]);
        for uid in ["1", "1", "2"] {
            evictions.start(&eviction(uid), &mut outbox);
        }
        assert_eq!(outbox.take().len(), 2);
        evictions.answer(&eviction("1"), &EvictionOutcome::Evicted, &mut engine, &mut outbox);
        outbox.take();
        evictions.start(&eviction("1"), &mut outbox);
        assert_eq!(outbox.take().len(), 1);
    }

    /// An eviction has this outcome: does the engine believe that the pod stays, and leave it in peace?
    fn check_outcome(outcome: EvictionOutcome, expected: bool) {
        let mut pod = test_cluster::pod(0, Some("n"));
        pod.phase = PodPhase::Running;
        let mut engine = test_cluster::engine(1, &[pod]);
        let (mut evictions, mut outbox) = (EvictionsInFlight::default(), CommandOutbox::default());
        evictions.answer(&eviction("u0"), &outcome, &mut engine, &mut outbox);
        let pod = engine.pod("a/p-0").expect("the pod is known");
        assert_eq!(pod.is_in_eviction_backoff(), expected, "{outcome:?}");
    }

    #[test]
    fn only_an_eviction_that_surely_failed_is_taken_back() {
        check_outcome(EvictionOutcome::Evicted, false);
        check_outcome(EvictionOutcome::Unknown("no answer".to_owned()), false);
        check_outcome(EvictionOutcome::Blocked("a budget".to_owned()), true);
        check_outcome(EvictionOutcome::Failed("no".to_owned()), true);
    }
}
