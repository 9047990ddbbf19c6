//! Nodes and what stands on them: sums that every pod's coming and going moves by a difference.

use std::collections::BTreeMap;
use std::sync::Arc;

use basalt_api::names;
use basalt_api::slim::Node;

use super::Candidate;
use super::row::{Dimension, Dimensions, Row};

/// Taints by which the cluster itself says that a node is not fit for work.
const SICK: [&str; 8] = [
    "node.kubernetes.io/not-ready",
    "node.kubernetes.io/unreachable",
    "node.kubernetes.io/unschedulable",
    "node.kubernetes.io/memory-pressure",
    "node.kubernetes.io/disk-pressure",
    "node.kubernetes.io/pid-pressure",
    "node.kubernetes.io/network-unavailable",
    "node.kubernetes.io/out-of-service",
];

/// How a pod can be moved out of the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Bond {
    /// It ends by itself, or may be evicted.
    Soft,
    /// It ends by itself and is never evicted.
    Firm,
    /// It stays: daemons, static pods, and pods of other schedulers.
    Hard,
}

/// What one pod takes from its node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Footprint {
    /// What it asks for, itself counted under `pods`.
    pub row: Row,
    /// How it can be moved, as far as it says itself.
    pub bond: Bond,
}

/// A queue as a small number; see [`Sites::queue`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct QueueNumber(u32);

impl QueueNumber {
    /// No queue's.
    pub const NONE: Self = Self(0);

    fn place(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

/// Which queues are meant, by number.
#[derive(Clone, Debug, Default)]
pub struct Family(Vec<bool>);

impl Family {
    /// Whether `queue` is one of them.
    pub fn has(&self, queue: QueueNumber) -> bool {
        self.0.get(queue.place()).copied().unwrap_or(false)
    }
}

/// Where a pod stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stay {
    /// The node.
    pub node: Arc<String>,
    /// The queue that it belongs to.
    pub queue: Option<Arc<str>>,
    /// Bound, with what it takes, how it can be moved (its group may have a say) and whether it is leaving; or, without,
    /// the node is being cleared for it.
    pub bound: Option<(Arc<Footprint>, Bond, bool)>,
}

/// What a node offers, and to whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    /// What pods can have.
    pub row: Row,
    /// Ready, schedulable, and without a taint that says the contrary.
    pub open: bool,
    /// Its node group.
    pub group: Option<String>,
}

/// What the pods of one queue take on one node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Load {
    rows: [Row; 3],
    counts: [u32; 3],
    leaving: [u32; 3],
    /// What those that are leaving take.
    freed: Row,
    /// Pods for which the node is being cleared.
    coming: u32,
}

/// A node with what stands on it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Site {
    /// What is known of the node itself.
    pub offer: Option<Offer>,
    /// In the order of the queues' numbers.
    loads: Vec<(QueueNumber, Load)>,
}

/// What a node holds for a queue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Holding {
    /// What pods can have, without what cannot be moved out of the way.
    pub worth: Row,
    /// What the queue's own pods take.
    pub used: Row,
    /// What nobody takes.
    pub idle: Row,
    /// Pods of others that can be moved.
    pub foreign: u32,
    /// Those of them that are not leaving.
    pub staying: u32,
    /// What becomes idle by itself: pods of others that are leaving take it.
    pub freed: Row,
}

impl Site {
    /// What the node holds for the queues of `family`. What can be moved depends on whether pods may be evicted.
    pub fn holding(&self, family: &Family, evicts: bool) -> Holding {
        let Some(offer) = &self.offer else {
            return Holding::default();
        };
        let mut holding = Holding {
            worth: offer.row.clone(),
            idle: offer.row.clone(),
            ..Holding::default()
        };
        for (queue, load) in &self.loads {
            let own = family.has(*queue);
            if !own {
                holding.freed.add(&load.freed);
            }
            for (bond, row) in [Bond::Soft, Bond::Firm, Bond::Hard].into_iter().zip(&load.rows) {
                holding.idle.subtract(row);
                let movable = bond == Bond::Soft || (bond == Bond::Firm && !evicts);
                let place = bond as usize;
                if own {
                    holding.used.add(row);
                } else if movable {
                    let count = load.counts.get(place).copied().unwrap_or(0);
                    let leaving = load.leaving.get(place).copied().unwrap_or(0);
                    holding.foreign = holding.foreign.saturating_add(count);
                    holding.staying = holding.staying.saturating_add(count.saturating_sub(leaving));
                } else {
                    holding.worth.subtract(row);
                }
            }
        }
        holding.worth = holding.worth.not_negative();
        holding.idle = holding.idle.not_negative();
        holding
    }

    /// Worth, used and idle in some dimensions only: what is asked of every node in every round.
    pub fn figures(&self, family: &Family, evicts: bool, dimensions: &[Option<Dimension>]) -> Candidate {
        let mut figures = Candidate::default();
        for dimension in dimensions {
            let offered = self.offer.as_ref().map_or(0, |offer| offer.row.get(*dimension));
            let (mut worth, mut used, mut idle) = (offered, 0_i64, offered);
            for (queue, load) in &self.loads {
                let [soft, firm, hard] = load.rows.each_ref().map(|row| row.get(*dimension));
                let all = soft.saturating_add(firm).saturating_add(hard);
                idle = idle.saturating_sub(all);
                if family.has(*queue) {
                    used = used.saturating_add(all);
                } else {
                    let stuck = if evicts { firm.saturating_add(hard) } else { hard };
                    worth = worth.saturating_sub(stuck);
                }
            }
            let worth = worth.max(0);
            figures.worth.push(worth);
            figures.used.push(used.clamp(0, worth));
            figures.idle.push(idle.clamp(0, worth));
        }
        figures
    }

    /// Whether the node is being cleared for a pod of a queue outside `family`.
    pub fn is_promised(&self, family: &Family) -> bool {
        self.loads
            .iter()
            .any(|(queue, load)| load.coming > 0 && !family.has(*queue))
    }

    /// The queues whose pods stand on it, or are to.
    pub fn queues(&self) -> impl Iterator<Item = QueueNumber> {
        self.loads.iter().map(|(queue, _)| *queue)
    }

    fn change(&mut self, queue: QueueNumber, stay: &Stay, enter: bool) {
        let place = match self.loads.binary_search_by_key(&queue, |load| load.0) {
            Ok(place) => place,
            Err(place) => {
                self.loads.insert(place, (queue, Load::default()));
                place
            }
        };
        let Some((_, load)) = self.loads.get_mut(place) else {
            return;
        };
        let step = |count: &mut u32| {
            *count = if enter {
                count.saturating_add(1)
            } else {
                count.saturating_sub(1)
            };
        };
        match &stay.bound {
            None => step(&mut load.coming),
            Some((footprint, bond, leaving)) => {
                let bond = *bond as usize;
                if let Some(row) = load.rows.get_mut(bond) {
                    if enter {
                        row.add(&footprint.row);
                    } else {
                        row.subtract(&footprint.row);
                    }
                }
                load.counts.get_mut(bond).map(step);
                if *leaving {
                    load.leaving.get_mut(bond).map(step);
                    if enter {
                        load.freed.add(&footprint.row);
                    } else {
                        load.freed.subtract(&footprint.row);
                    }
                }
            }
        }
        if *load == Load::default() {
            self.loads.remove(place);
        }
    }
}

/// All nodes, and the names that their sums go by.
#[derive(Clone, Debug, Default)]
pub struct Sites {
    /// Names of resources.
    pub dimensions: Dimensions,
    by_name: BTreeMap<Arc<str>, Site>,
    queues: BTreeMap<Arc<str>, QueueNumber>,
    /// Pods are counted.
    counting: bool,
}

impl Sites {
    /// Takes in what is known of a node, or that it is gone; says whether that is news.
    pub fn set_node(&mut self, name: &str, node: Option<&Node>) -> bool {
        let offer = node.map(|node| self.offer(node));
        let known = self.by_name.get(name).and_then(|site| site.offer.as_ref());
        if known == offer.as_ref() {
            return false;
        }
        if offer.is_none() && self.by_name.get(name).is_some_and(|site| site.loads.is_empty()) {
            self.by_name.remove(name);
        } else {
            self.by_name.entry(name.into()).or_default().offer = offer;
        }
        true
    }

    fn offer(&mut self, node: &Node) -> Offer {
        // A node that says nothing of being ready counts as ready, as it does for the scheduler.
        let conditions = &node.status.conditions;
        let lost = conditions
            .iter()
            .any(|condition| condition.condition_type == "Ready" && condition.status != "True");
        // Whether pods stand a taint that people gave is the pods' matter: queues of GPU work tolerate that of GPU nodes.
        let tainted = node.spec.taints.iter().any(|taint| {
            let keeps_away = matches!(taint.effect.as_str(), "NoSchedule" | "NoExecute");
            keeps_away && SICK.contains(&taint.key.as_str())
        });
        Offer {
            row: self.dimensions.row(node.offers(), true),
            open: !lost && !node.spec.unschedulable && !tainted,
            group: node.label(names::NODEGROUP_NAME).map(str::to_owned),
        }
    }

    /// Whether pods are counted.
    pub const fn is_counting(&self) -> bool {
        self.counting
    }

    /// Counts these pods from now on, or none.
    pub fn count(&mut self, stays: Option<impl Iterator<Item = Stay>>) {
        self.by_name.retain(|_, site| {
            site.loads = Vec::new();
            site.offer.is_some()
        });
        self.queues = BTreeMap::new();
        self.counting = stays.is_some();
        for stay in stays.into_iter().flatten() {
            self.change(&stay, true);
        }
    }

    /// A pod comes to where it stands, or goes.
    pub fn change(&mut self, stay: &Stay, enter: bool) {
        if !self.counting {
            return;
        }
        let queue = match &stay.queue {
            Some(queue) => self.number(queue),
            None => QueueNumber::NONE,
        };
        let node = stay.node.as_str();
        match self.by_name.get_mut(node) {
            Some(site) => site.change(queue, stay, enter),
            None => self.by_name.entry(node.into()).or_default().change(queue, stay, enter),
        }
        let empty = |site: &Site| site.offer.is_none() && site.loads.is_empty();
        if !enter && self.by_name.get(node).is_some_and(empty) {
            self.by_name.remove(node);
        }
    }

    fn number(&mut self, queue: &Arc<str>) -> QueueNumber {
        if let Some(number) = self.queues.get(queue) {
            return *number;
        }
        let next = u32::try_from(self.queues.len().saturating_add(1)).unwrap_or(u32::MAX);
        self.queues.insert(Arc::clone(queue), QueueNumber(next));
        QueueNumber(next)
    }

    /// The numbers of some queues.
    pub fn family<'a>(&self, queues: impl Iterator<Item = &'a str>) -> Family {
        let mut family = vec![false; self.queues.len().saturating_add(1)];
        for number in queues.filter_map(|queue| self.queues.get(queue)) {
            if let Some(place) = family.get_mut(number.place()) {
                *place = true;
            }
        }
        Family(family)
    }

    /// How many nodes are known.
    pub fn len(&self) -> usize {
        self.by_name.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// All nodes by name.
    pub fn iter(&self) -> impl Iterator<Item = (&Arc<str>, &Site)> {
        self.by_name.iter()
    }
}
