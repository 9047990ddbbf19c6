//! A plan, in the auditor's words.

use std::sync::Arc;

use basalt_audit::{Decision, Eviction, Placement, Purpose, QueueReport};
use basalt_engine::plan::{self, Plan};
use basalt_engine::{Conf, facts};

/// Translates a plan. The configuration tells whether whole gangs may be evicted.
pub fn decision(plan: &Plan, conf: &Conf) -> Decision {
    let mut decision = Decision::default();
    for transaction in &plan.transactions {
        for bind in &transaction.binds {
            decision.binds.push(placement(&bind.pod, &bind.uid, &bind.node));
        }
        for wait in &transaction.pipelined {
            decision.pipelined.push(placement(&wait.pod, &wait.uid, &wait.node));
        }
        decision
            .evictions
            .extend(transaction.evictions.iter().map(|one| eviction(one, conf)));
    }
    for queue in plan.queues.iter() {
        let amounts = |list: &facts::Resources| list.iter().map(|(name, amount)| (name.to_string(), *amount)).collect();
        let report = QueueReport {
            allocated: amounts(&queue.allocated),
            deserved: (!queue.deserved.is_empty()).then(|| amounts(&queue.deserved)),
        };
        decision.queues.insert(queue.name.to_string(), report);
    }
    decision
}

fn placement(pod: &str, uid: &str, node: &str) -> Placement {
    Placement {
        pod: pod.to_owned(),
        uid: uid.to_owned(),
        node: node.to_owned(),
    }
}

fn eviction(eviction: &plan::Eviction, conf: &Conf) -> Eviction {
    let (purpose, beneficiary) = match &eviction.purpose {
        plan::Purpose::Preempt { beneficiary } if conf.has_action("gangpreempt") => (Purpose::GangPreempt, beneficiary),
        plan::Purpose::Preempt { beneficiary } => (Purpose::Preempt, beneficiary),
        plan::Purpose::Reclaim { beneficiary } if conf.has_action("gangreclaim") => (Purpose::GangReclaim, beneficiary),
        plan::Purpose::Reclaim { beneficiary } => (Purpose::Reclaim, beneficiary),
        plan::Purpose::Shuffle => (Purpose::Shuffle, &Arc::default()),
    };
    Eviction {
        pod: eviction.pod.to_string(),
        uid: eviction.uid.to_string(),
        purpose,
        beneficiary: beneficiary.to_string(),
    }
}
