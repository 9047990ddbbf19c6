//! A plan, in the auditor's words.

use basalt_audit::{Decision, Eviction, Placement, Purpose, QueueReport};
use basalt_engine::facts;
use basalt_engine::plan::{self, Plan};

/// Translates a plan.
pub fn decision(plan: &Plan) -> Decision {
    let mut decision = Decision::default();
    for transaction in &plan.transactions {
        for bind in &transaction.binds {
            decision.binds.push(placement(&bind.pod, &bind.uid, &bind.node));
        }
        for wait in &transaction.pipelined {
            decision.pipelined.push(placement(&wait.pod, &wait.uid, &wait.node));
        }
        decision.evictions.extend(transaction.evictions.iter().map(eviction));
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

fn eviction(eviction: &plan::Eviction) -> Eviction {
    let purpose = match &eviction.purpose {
        plan::Purpose::Preempt { .. } => Purpose::Preempt,
        plan::Purpose::Reclaim { .. } => Purpose::Reclaim,
        plan::Purpose::GangPreempt { .. } => Purpose::GangPreempt,
        plan::Purpose::GangReclaim { .. } => Purpose::GangReclaim,
        plan::Purpose::Reservation { .. } => Purpose::Reservation,
        plan::Purpose::Shuffle => Purpose::Shuffle,
    };
    let beneficiary = match &eviction.purpose {
        plan::Purpose::Reservation { queue } => Some(queue),
        purpose => purpose.beneficiary(),
    };
    Eviction {
        pod: eviction.pod.to_string(),
        uid: eviction.uid.to_string(),
        purpose,
        beneficiary: beneficiary.map(ToString::to_string).unwrap_or_default(),
    }
}
