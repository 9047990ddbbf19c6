//! The world's accounts before a decision, and what the decision changes.

use std::collections::BTreeMap;

use super::{Decision, Eviction, Placement};
use crate::amounts::Amounts;
use crate::world::{Pod, Stand, World};
use crate::{Finding, Invariant};

/// What pods of one group count for it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Members {
    pub all: i64,
    pub roles: BTreeMap<String, i64>,
}

impl Members {
    fn add(&mut self, pod: &Pod, by: i64) {
        self.all += by;
        *self.roles.entry(pod.role.clone()).or_default() += by;
    }

    pub(crate) fn role(&self, role: &str) -> i64 {
        self.roles.get(role).copied().unwrap_or(0)
    }
}

/// A placement that the decision makes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Placed {
    pub pod: usize,
    pub node: usize,
    /// It takes place now; else when others have left.
    pub now: bool,
}

/// An eviction that the decision makes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Evicted<'a> {
    pub pod: usize,
    /// None: the node is lost, and the pod goes with the rest of its gang.
    pub node: Option<usize>,
    pub entry: &'a Eviction,
    /// The group that gets the room.
    pub beneficiary: Option<usize>,
}

/// The accounts.
pub(crate) struct Books<'a> {
    pub world: &'a World,
    pub placed: Vec<Placed>,
    pub evicted: Vec<Evicted<'a>>,
    /// By pod: its group.
    pub group: Vec<Option<usize>>,
    /// By group: its placements, as indices of `placed`.
    by_group: BTreeMap<usize, Vec<usize>>,
    /// By pod: it is evicted.
    pub goes: Vec<bool>,
    /// By node: what pods on it take now, leaving ones included.
    pub taken: Vec<Amounts>,
    /// By node: what pods take that stay.
    pub stays: Vec<Amounts>,
    /// By group: its queue.
    pub queue: Vec<Option<usize>>,
    /// By group: pods that count as ready before the decision.
    pub ready: Vec<Members>,
    /// By group: of those, pods that have ended.
    pub ended: Vec<i64>,
    /// By group: pods that the decision binds, holds a place for, and evicts.
    pub bound: Vec<Members>,
    pub awaited: Vec<Members>,
    pub lost: Vec<Members>,
    /// By queue, with all below: what it has before, and what the decision binds and evicts.
    pub had: Vec<Amounts>,
    pub gains: Vec<Amounts>,
    pub losses: Vec<Amounts>,
    /// By queue, without those below: what it has before, and what the decision binds and evicts.
    pub own_had: Vec<Amounts>,
    pub own_gains: Vec<Amounts>,
    pub own_losses: Vec<Amounts>,
    /// By queue, without those below: what nodes are being cleared for, from before or by this decision.
    pub own_hopes: Vec<Amounts>,
    /// By queue: itself and the queues above.
    pub chains: Vec<Vec<usize>>,
}

impl<'a> Books<'a> {
    /// Opens the books. Decisions about pods and nodes that do not exist are findings, and left out.
    pub(crate) fn open(world: &'a World, decision: &'a Decision, findings: &mut Vec<Finding>) -> Self {
        let (groups, queues) = (world.groups.len(), world.queues.len());
        let mut books = Self {
            world,
            placed: Vec::new(),
            evicted: Vec::new(),
            group: world.pods.iter().map(|pod| world.group_of(pod)).collect(),
            by_group: BTreeMap::new(),
            goes: vec![false; world.pods.len()],
            taken: vec![Amounts::default(); world.nodes.len()],
            stays: vec![Amounts::default(); world.nodes.len()],
            queue: (0..groups).map(|group| world.queue_of(group)).collect(),
            ready: vec![Members::default(); groups],
            ended: vec![0; groups],
            bound: vec![Members::default(); groups],
            awaited: vec![Members::default(); groups],
            lost: vec![Members::default(); groups],
            had: vec![Amounts::default(); queues],
            gains: vec![Amounts::default(); queues],
            losses: vec![Amounts::default(); queues],
            own_had: vec![Amounts::default(); queues],
            own_gains: vec![Amounts::default(); queues],
            own_losses: vec![Amounts::default(); queues],
            own_hopes: vec![Amounts::default(); queues],
            chains: (0..queues).map(|queue| world.chain(queue)).collect(),
        };
        books.evictions(decision, findings);
        books.before();
        let mut given = vec![false; world.pods.len()];
        books.placements(&decision.binds, true, &mut given, findings);
        books.placements(&decision.pipelined, false, &mut given, findings);
        books
    }

    /// The queues that pay for a pod: its own, and all above.
    pub(crate) fn payers(&self, pod: usize) -> &[usize] {
        let queue = self.group[pod].and_then(|group| self.queue[group]);
        queue.map_or(&[], |queue| &self.chains[queue])
    }

    /// Puts a pod on the accounts of its queue and of all above.
    fn pay(&mut self, pod: usize, accounts: impl Fn(&mut Self) -> (&mut Vec<Amounts>, &mut Vec<Amounts>)) {
        let request = &self.world.pods[pod].shape.request;
        let payers = self.payers(pod).to_vec();
        let (all, own) = accounts(self);
        if let Some(&first) = payers.first() {
            own[first].take(request);
        }
        for queue in payers {
            all[queue].take(request);
        }
    }

    fn before(&mut self) {
        let world = self.world;
        for (at, pod) in world.pods.iter().enumerate() {
            let request = &pod.shape.request;
            let node = pod.node.as_ref().and_then(|node| world.node_ids.get(node));
            if let Some(&node) = node.filter(|_| pod.takes_room()) {
                self.taken[node].take(request);
                if pod.stand != Stand::Leaving && !self.goes[at] {
                    self.stays[node].take(request);
                }
            }
            if let Some(group) = self.group[at]
                && (pod.is_placed() || pod.stand == Stand::Succeeded)
            {
                self.ready[group].add(pod, 1);
                self.ended[group] += i64::from(pod.stand == Stand::Succeeded);
            }
            if let Some(&own) = self.payers(at).first()
                && pod.stand == Stand::Waits
                && pod.nominated.is_some()
            {
                self.own_hopes[own].take(request);
            }
            if pod.is_placed() {
                self.pay(at, |books| (&mut books.had, &mut books.own_had));
            }
        }
    }

    fn evictions(&mut self, decision: &'a Decision, findings: &mut Vec<Finding>) {
        let world = self.world;
        for entry in &decision.evictions {
            let mut found = |message: &str| {
                findings.push(Finding::on(
                    Invariant::PermittedEvictions,
                    format!("Pod {}", entry.pod),
                    message.to_owned(),
                ));
            };
            let Some(&pod) = world.pod_ids.get(&entry.pod) else {
                found("is evicted and does not exist");
                continue;
            };
            let record = &world.pods[pod];
            let node = record.node.as_ref().and_then(|node| world.node_ids.get(node));
            let node = node.copied();
            if !record.is_placed() {
                found("is evicted and is on no node, or on its way out already");
                continue;
            }
            if !entry.uid.is_empty() && entry.uid != record.uid {
                found("is evicted by the uid of another pod");
            }
            if std::mem::replace(&mut self.goes[pod], true) {
                found("is evicted twice");
                continue;
            }
            if let Some(group) = self.group[pod] {
                self.lost[group].add(record, 1);
            }
            self.pay(pod, |books| (&mut books.losses, &mut books.own_losses));
            let beneficiary = world.group_ids.get(&entry.beneficiary).copied();
            self.evicted.push(Evicted {
                pod,
                node,
                entry,
                beneficiary,
            });
        }
    }

    fn placements(&mut self, list: &[Placement], now: bool, given: &mut [bool], findings: &mut Vec<Finding>) {
        let world = self.world;
        for entry in list {
            let mut found =
                |message: String| findings.push(Finding::on(Invariant::OneBind, format!("Pod {}", entry.pod), message));
            let (pod, node) = (world.pod_ids.get(&entry.pod), world.node_ids.get(&entry.node));
            let (Some(&pod), Some(&node)) = (pod, node) else {
                found(format!(
                    "gets the node {:?}, and one of both does not exist",
                    entry.node
                ));
                continue;
            };
            let record = &world.pods[pod];
            if record.stand != Stand::Waits {
                found(format!("gets the node {} and does not wait for one", entry.node));
                continue;
            }
            if !entry.uid.is_empty() && entry.uid != record.uid {
                found(format!("gets the node {} by the uid of another pod", entry.node));
            }
            if std::mem::replace(&mut given[pod], true) {
                found(format!("gets a node twice; the second is {}", entry.node));
                continue;
            }
            if let Some(group) = self.group[pod] {
                let members = if now { &mut self.bound } else { &mut self.awaited };
                members[group].add(record, 1);
                self.by_group.entry(group).or_default().push(self.placed.len());
            }
            self.placed.push(Placed { pod, node, now });
            if now {
                self.pay(pod, |books| (&mut books.gains, &mut books.own_gains));
            } else if let Some(&own) = self.payers(pod).first().filter(|_| record.nominated.is_none()) {
                self.own_hopes[own].take(&record.shape.request);
            }
        }
    }

    /// What a queue has when the decision is carried out.
    pub(crate) fn after(&self, queue: usize) -> Amounts {
        let mut sum = self.had[queue].clone();
        sum.add(&self.gains[queue]);
        for (dim, amount) in self.losses[queue].iter() {
            sum.grow(dim, -amount);
        }
        sum
    }

    /// What a queue has after the decision, without those below.
    pub(crate) fn own_after(&self, queue: usize) -> Amounts {
        let mut sum = self.own_had[queue].clone();
        sum.add(&self.own_gains[queue]);
        for (dim, amount) in self.own_losses[queue].iter() {
            sum.grow(dim, -amount);
        }
        sum
    }

    /// Placements of a group.
    pub(crate) fn placements_of(&self, group: usize) -> impl Iterator<Item = &Placed> {
        let list = self.by_group.get(&group);
        list.into_iter().flatten().map(|&at| &self.placed[at])
    }
}
