//! What the world knows for the sake of reservations, and the round that decides from it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use basalt_api::quantity::{Quantity, ResourceList};
use basalt_api::queue::{Affinity, Guarantee, QueueState, Reservation};
use basalt_api::slim::{Node, Pod, request};
use basalt_api::{NamespacedName, Queue, names};
use jiff::SignedDuration;

use super::objects::{queue_named, queue_of_lone};
use super::{Work, World};
use crate::change::Outcome;
use crate::object;
use crate::pod::PodRecord;
use crate::podgroup;
use crate::queue::RESERVATION_MET;
use crate::reservation::ask::{Ask, GroupRules, Zone, rank};
use crate::reservation::report::{Decision, Stand};
use crate::reservation::round::{Bid, decide};
use crate::reservation::site::{Bond, Footprint, Sites, Stay};
use crate::words::Pool;

/// Changes that come together are one.
const DEBOUNCE: SignedDuration = SignedDuration::from_millis(150);
/// A round looks at every node for every queue that reserves, so it waits the longer, the more that is.
const EACH_LOOK: SignedDuration = SignedDuration::from_micros(5);
/// Time between two rounds in which nothing happened that somebody waits for, unless told otherwise.
const PERIOD: SignedDuration = SignedDuration::from_secs(5);

/// What the scheduler's configuration says about locks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// The arguments of `nodegroup`, where that is in it.
    pub groups: Option<GroupRules>,
}

/// One queue's reservation, for those who count.
#[derive(Clone, Copy, Debug)]
pub struct Reserved<'a> {
    /// The queue.
    pub queue: &'a str,
    /// What is written.
    pub reservation: &'a Reservation,
    /// How long the last wait until all was there took.
    pub seconds_to_met: Option<f64>,
}

/// All that is kept for reservations.
#[derive(Debug)]
pub(super) struct Reserving {
    /// Nothing: there are no locks.
    rules: Option<Rules>,
    period: SignedDuration,
    sites: Sites,
    footprints: Pool<Footprint>,
    /// Names of nodes, as records of pods share them.
    names: Pool<String>,
    /// Queues that ask for nodes, or say that they hold some.
    interested: BTreeSet<String>,
    decisions: BTreeMap<String, Decision>,
    /// Something has changed since the last round …
    stale: bool,
    /// … that somebody waits for.
    urgent: bool,
    /// Nodes on which pods of others are waited for.
    waiting: BTreeSet<String>,
    seconds_to_met: BTreeMap<String, f64>,
}

impl Default for Reserving {
    fn default() -> Self {
        Self {
            rules: None,
            period: PERIOD,
            sites: Sites::default(),
            footprints: Pool::default(),
            names: Pool::default(),
            interested: BTreeSet::new(),
            decisions: BTreeMap::new(),
            stale: false,
            urgent: false,
            waiting: BTreeSet::new(),
            seconds_to_met: BTreeMap::new(),
        }
    }
}

/// What of a queue matters to locks, its own or others'.
#[derive(Debug, PartialEq)]
pub(super) struct Stake {
    uid: Option<String>,
    parent: String,
    closes: bool,
    state: Option<QueueState>,
    priority: i32,
    affinity: Option<Affinity>,
    guarantee: Guarantee,
    deleting: bool,
    held: Option<(Vec<String>, ResourceList)>,
    /// Whether all was there, and since when that is so or not.
    met: Option<(bool, jiff::Timestamp)>,
}

/// The nodes that are written; nothing where there is no reservation at all.
pub(super) fn written_nodes(queue: &Queue) -> Option<&[String]> {
    let reservation = queue.status.as_ref()?.reservation.as_ref()?;
    Some(&reservation.nodes)
}

fn bond(pod: &Pod, ours: bool) -> Bond {
    let daemon = object::controller(&pod.metadata).is_some_and(|owner| owner.kind == "DaemonSet");
    if daemon || !ours || pod.annotation(names::MIRROR_POD).is_some() {
        return Bond::Hard;
    }
    let class = pod.spec.priority_class_name.as_str();
    let system = pod.metadata.namespace.as_deref() == Some("kube-system")
        || matches!(class, names::SYSTEM_CLUSTER_CRITICAL | names::SYSTEM_NODE_CRITICAL);
    if system || !pod.is_preemptable() {
        Bond::Firm
    } else {
        Bond::Soft
    }
}

impl Reserving {
    /// How long a round may wait.
    pub(super) fn pause(&self) -> SignedDuration {
        if self.urgent {
            let looks = self.sites.len().saturating_mul(self.interested.len());
            let cost = i32::try_from(looks).map_or(self.period, |looks| EACH_LOOK.saturating_mul(looks));
            DEBOUNCE.max(cost).min(self.period)
        } else {
            self.period
        }
    }

    /// Something has changed.
    fn stir(&mut self, urgent: bool) -> Option<Work> {
        if self.interested.is_empty() {
            return None;
        }
        self.stale = true;
        self.urgent |= urgent;
        Some(Work::Reservation)
    }

    pub(super) fn set_node(&mut self, name: &str, node: Option<&Node>) -> Option<Work> {
        self.sites.set_node(name, node).then(|| self.stir(true)).flatten()
    }

    /// The node that a pod stands on, or is nominated for.
    pub(super) fn node(&mut self, pod: &Pod) -> Option<Arc<String>> {
        let named = [&pod.spec.node_name, &pod.status.nominated_node_name];
        let node = named.into_iter().find(|name| !name.is_empty())?;
        Some(self.names.share_as(node, || Arc::new(node.clone())))
    }

    /// What a pod takes from the node that it is bound to.
    pub(super) fn footprint(&mut self, pod: &Pod, schedulers: &BTreeSet<String>) -> Option<Arc<Footprint>> {
        if pod.spec.node_name.is_empty() || pod.is_finished() {
            return None;
        }
        let mut list = request(&pod.spec);
        list.insert(
            names::PODS.to_owned(),
            Quantity::from_units(1, basalt_api::quantity::Format::DecimalSi),
        );
        let footprint = Footprint {
            row: self.sites.dimensions.row(&list, false),
            bond: bond(pod, podgroup::is_ours(pod, schedulers)),
        };
        Some(self.footprints.share_as(&footprint, || Arc::new(footprint.clone())))
    }

    pub(super) fn decision(&self, queue: &str) -> Option<&Decision> {
        self.decisions.get(queue)
    }
}

impl World {
    /// Locks exist from now on, by these rules, or no longer.
    pub fn set_reserving(&mut self, rules: Option<Rules>) -> Vec<Work> {
        if self.reserving.rules == rules {
            return Vec::new();
        }
        self.reserving.rules = rules;
        let names: Vec<Arc<str>> = self.queues.keys().map(|key| Arc::clone(&key.name)).collect();
        for name in names {
            self.note_interest(&name);
        }
        self.reserving.stir(true).into_iter().collect()
    }

    /// The longest time between two rounds while things change.
    #[must_use]
    pub fn with_relock_period(mut self, period: SignedDuration) -> Self {
        self.reserving.period = period;
        self
    }

    /// All reservations that are written.
    pub fn reservations(&self) -> impl Iterator<Item = Reserved<'_>> {
        self.reserving.interested.iter().filter_map(|name| {
            Some(Reserved {
                queue: name,
                reservation: self.queue(name)?.status.as_ref()?.reservation.as_ref()?,
                seconds_to_met: self.reserving.seconds_to_met.get(name).copied(),
            })
        })
    }

    /// What of a queue matters to locks.
    pub(super) fn stake(&self, name: &str) -> Option<Stake> {
        let queue = self.queue(name)?;
        let status = queue.status.as_ref();
        let met = status.and_then(|status| {
            let mut conditions = status.conditions.iter();
            let condition = conditions.find(|condition| condition.type_ == RESERVATION_MET)?;
            Some((condition.status == "True", condition.last_transition_time.0))
        });
        let held = status.and_then(|status| status.reservation.as_ref());
        Some(Stake {
            uid: queue.metadata.uid.clone(),
            parent: queue.spec.parent.clone(),
            closes: queue.wants_closed(),
            state: status.and_then(|status| status.state),
            priority: queue.spec.priority,
            affinity: queue.spec.affinity.clone(),
            guarantee: queue.spec.guarantee.clone(),
            deleting: queue.metadata.deletion_timestamp.is_some(),
            held: held.map(|held| (held.nodes.clone(), held.target.clone())),
            met,
        })
    }

    /// A queue was taken in, or is gone; `before` is what was at stake then.
    pub(super) fn restake(&mut self, name: &str, before: Option<Stake>) -> Option<Work> {
        let after = self.stake(name);
        if before == after {
            return None;
        }
        let met = |stake: &Option<Stake>| stake.as_ref().and_then(|stake| stake.met);
        if let ((Some((false, since)), Some((true, now))), false) = ((met(&before), met(&after)), after.is_none()) {
            let took = now.duration_since(since).as_secs_f64();
            self.reserving.seconds_to_met.insert(name.to_owned(), took);
        }
        // The first word on it is that all is there. A queue that is new to us may have waited before.
        if let (Some(Stake { met: None, .. }), Some((true, _))) = (&before, met(&after)) {
            self.reserving.seconds_to_met.insert(name.to_owned(), 0.0);
        }
        // Another incarnation holds nothing that was decided for this one. Nor is what was decided for one place in the tree
        // written in another: such a write names the version that it was decided on.
        let place = |stake: &Option<Stake>| stake.as_ref().map(|stake| (stake.uid.clone(), stake.parent.clone()));
        if place(&before) != place(&after) {
            self.reserving.decisions.remove(name);
        }
        let was = !self.reserving.interested.is_empty();
        self.note_interest(name);
        if was && self.reserving.interested.is_empty() {
            self.reserving.stale = true;
            return Some(Work::Reservation);
        }
        self.reserving.stir(true)
    }

    fn note_interest(&mut self, name: &str) {
        let on = self.reserving.rules.is_some();
        let interested = self.queue(name).is_some_and(|queue| {
            let status = queue.status.as_ref();
            let told = status.is_some_and(|status| {
                let told = |condition: &k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition| {
                    condition.type_ == RESERVATION_MET
                };
                status.reservation.is_some() || status.conditions.iter().any(told)
            });
            // A write may be on its way: until it is known to have come, or to be undone, its nodes are not for others.
            let decided = self.reserving.decisions.get(name);
            let written = written_nodes(queue);
            let on_its_way = decided.is_some_and(|decision| decision.nodes() != written);
            told || on_its_way || (on && Ask::of(&queue.spec.guarantee).is_some())
        });
        if interested {
            self.reserving.interested.insert(name.to_owned());
        } else {
            self.reserving.interested.remove(name);
            self.reserving.seconds_to_met.remove(name);
        }
    }

    /// Where a pod stands; nothing while nobody wants to know.
    pub(super) fn stay(&self, key: &NamespacedName) -> Option<Stay> {
        if !self.reserving.sites.is_counting() {
            return None;
        }
        self.pods.get(key).and_then(|pod| self.stay_of(pod))
    }

    fn stay_of(&self, pod: &PodRecord) -> Option<Stay> {
        if pod.is_finished() {
            return None;
        }
        let node = Arc::clone(pod.node.as_ref()?);
        let group = pod.group_key().and_then(|key| self.groups.get(&key));
        let queue = match group {
            _ if !pod.ours => None,
            Some(group) => Some(queue_named(&group.spec.queue)),
            None => queue_of_lone(pod).map(str::to_owned),
        };
        let bound = match (&pod.footprint, pod.bound) {
            (Some(footprint), true) => {
                let kept = group.is_some_and(|group| group.preemptable() == Some(false));
                let bond = if kept {
                    footprint.bond.max(Bond::Firm)
                } else {
                    footprint.bond
                };
                Some((Arc::clone(footprint), bond, pod.deleting))
            }
            (None, true) => return None,
            (_, false) => None,
        };
        Some(Stay {
            node,
            queue: queue.map(Arc::from),
            bound,
        })
    }

    /// A pod has changed; `before` is where it stood.
    pub(super) fn move_pod(&mut self, before: Option<Stay>, key: &NamespacedName) -> Option<Work> {
        let after = self.stay(key);
        if before == after {
            return None;
        }
        let reserving = &mut self.reserving;
        if let Some(before) = &before {
            reserving.sites.change(before, false);
        }
        if let Some(after) = &after {
            reserving.sites.change(after, true);
        }
        let left = before.is_some_and(|stay| stay.bound.is_some() && reserving.waiting.contains(&*stay.node));
        reserving.stir(left)
    }

    /// Where the pods of a group stand.
    pub(super) fn stays_in(&self, group: &NamespacedName) -> Vec<(NamespacedName, Option<Stay>)> {
        if !self.reserving.sites.is_counting() {
            return Vec::new();
        }
        let pods = self.pods_in(group).into_iter();
        pods.map(|key| {
            let stay = self.stay(&key);
            (key, stay)
        })
        .collect()
    }

    /// Pods may belong to another queue now.
    pub(super) fn move_pods(&mut self, before: Vec<(NamespacedName, Option<Stay>)>) -> Option<Work> {
        let moved = before.into_iter().map(|(key, stay)| self.move_pod(stay, &key));
        moved.fold(None, Option::or)
    }

    /// One round: decides what is locked for whom, if anything has changed since the last one.
    pub(super) fn relock(&mut self) -> Outcome {
        if !std::mem::take(&mut self.reserving.stale) {
            return Outcome::default();
        }
        self.reserving.urgent = false;
        let wanted = self.reserving.interested.iter().any(|name| self.ask(name).is_some());
        if wanted != self.reserving.sites.is_counting() {
            // Whoever counts needs all else that is known.
            let mut sites = std::mem::take(&mut self.reserving.sites);
            sites.count(wanted.then(|| self.pods.iter().filter_map(|(_, pod)| self.stay_of(pod))));
            self.reserving.sites = sites;
        }
        let bids: Vec<Bid> = self
            .reserving
            .interested
            .iter()
            .filter_map(|name| self.bid(name))
            .collect();
        let decisions = decide(&bids, &self.reserving.sites);
        Outcome {
            queues: self.take_in_decisions(&bids, decisions),
            ..Outcome::default()
        }
    }

    /// What a queue asks for, if it may.
    fn ask(&self, name: &str) -> Option<Ask> {
        self.reserving.rules?;
        let queue = self.queue(name)?;
        let state = queue.status.as_ref().and_then(|status| status.state);
        let closed = state == Some(QueueState::Closed) && self.tree.closed_by(name).is_some();
        let gone = closed || queue.metadata.deletion_timestamp.is_some();
        (!gone).then(|| Ask::of(&queue.spec.guarantee)).flatten()
    }

    fn bid(&self, name: &str) -> Option<Bid> {
        let queue = self.queue(name)?;
        let mut family = BTreeSet::from([name.to_owned()]);
        self.tree.descend(name, &mut family);
        let written = queue.status.as_ref().and_then(|status| status.reservation.as_ref());
        let decided = self.reserving.decisions.get(name);
        let pending = decided.filter(|decision| decision.nodes() != written_nodes(queue));
        let pending = pending.map(|decision| (decision.nodes().unwrap_or_default().to_vec(), decision.kind()));
        Some(Bid {
            name: name.to_owned(),
            ask: self.ask(name),
            rank: rank(queue),
            above: self.tree.upwards(name).skip(1).map(str::to_owned).collect(),
            family: self.reserving.sites.family(family.iter().map(String::as_str)),
            zone: self.zone(name),
            held: written.map(|held| held.nodes.clone()).unwrap_or_default(),
            held_target: written.map(|held| held.target.clone()).unwrap_or_default(),
            pending,
        })
    }

    fn zone(&self, name: &str) -> Zone {
        let groups = self.reserving.rules.and_then(|rules| rules.groups);
        let reach = if groups.is_some_and(|rules| rules.hierarchy) {
            usize::MAX
        } else {
            1
        };
        let mut chain = self.tree.upwards(name).take(reach);
        let affinity = chain.find_map(|name| self.queue(name)?.spec.affinity.as_ref());
        Zone::of(groups, affinity)
    }

    /// Keeps what was decided; returns the queues for which it is new.
    fn take_in_decisions(&mut self, bids: &[Bid], decisions: Vec<Decision>) -> Vec<String> {
        let mut changed = Vec::new();
        for (bid, decision) in bids.iter().zip(decisions) {
            // What is about to be written must not be changed on its way: others count on it.
            if bid.pending.is_none() && self.reserving.decisions.get(&bid.name) != Some(&decision) {
                self.reserving.decisions.insert(bid.name.clone(), decision);
                changed.push(bid.name.clone());
            }
        }
        let Reserving {
            decisions,
            interested,
            waiting,
            ..
        } = &mut self.reserving;
        decisions.retain(|name, _| interested.contains(name));
        let unmet = decisions.values().filter(|decision| {
            let stand = decision.outlook.as_ref().map(|outlook| outlook.stand);
            matches!(stand, Some(Stand::WaitingForPods | Stand::Evicting))
        });
        *waiting = unmet
            .flat_map(|decision| decision.nodes().unwrap_or_default().iter().cloned())
            .collect();
        changed
    }
}
