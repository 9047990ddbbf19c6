//! The tree of queues: who stands under whom, what the children of a queue add up to, and what is wrong.
//!
//! Everything about the children of a queue is a sum that a child's change moves by a difference.

use std::collections::{BTreeMap, BTreeSet};

use basalt_api::{Queue, names};

use super::amounts::{Amounts, amounts, subtract, sum_up};
use crate::queue::hierarchy::{Damage, Excess, Field, Overcommit};

/// What the tree knows of one queue.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Link {
    parent: Option<String>,
    /// Its own spec asks for it, and so for all below it, to be closed.
    closes: bool,
    /// Closed, and empty: it holds up nobody.
    settled: bool,
    created_ms: i64,
    /// What it sets.
    amounts: [Amounts; 2],
    /// What its parent counts it with: what it leaves unset is the sum of what is below it.
    counted: [Amounts; 2],
}

impl Link {
    fn of(queue: &Queue, settled: bool) -> Self {
        let root = queue.metadata.name.as_deref() == Some(names::ROOT_QUEUE);
        let created = queue.metadata.creation_timestamp.as_ref();
        Self {
            parent: queue.parent().map(str::to_owned),
            // The root cannot be closed, whatever was written into it.
            closes: queue.wants_closed() && !root,
            settled,
            created_ms: created.map_or(0, |time| time.0.as_millisecond()),
            amounts: Field::ALL.map(|field| amounts(field.of(&queue.spec))),
            counted: Default::default(),
        }
    }
}

/// What stands under one name, whether that queue exists or not.
#[derive(Debug, Default)]
struct Below {
    children: BTreeSet<String>,
    unsettled: usize,
    sums: [Amounts; 2],
    overcommit: Option<Overcommit>,
    /// The children that it lets wait.
    waiting: BTreeSet<String>,
}

/// All queues by name.
#[derive(Debug, Default)]
pub(super) struct Tree {
    links: BTreeMap<String, Link>,
    below: BTreeMap<String, Below>,
}

impl Tree {
    /// Takes in a queue, or forgets it; returns the queues for which something is different now.
    pub(super) fn set(&mut self, name: &str, queue: Option<(&Queue, bool)>) -> BTreeSet<String> {
        let new = queue.map(|(queue, settled)| {
            let mut link = Link::of(queue, settled);
            link.counted = self.together(name, &link.amounts);
            link
        });
        let old = self.links.get(name).cloned();
        let mut touched = BTreeSet::from([name.to_owned()]);
        if old == new {
            return touched;
        }
        let place = |link: &Option<Link>| link.as_ref().map(|link| (link.parent.clone(), link.closes));
        if place(&old) != place(&new) {
            self.descend(name, &mut touched);
        }
        if let Some(link) = &old {
            self.unlink(name, link);
        }
        if let Some(link) = &new {
            self.link(name, link);
        }
        let weight = |link: &Option<Link>| {
            let link = link.as_ref()?;
            Some((link.parent.clone(), link.created_ms, link.amounts.clone()))
        };
        let heavier = weight(&old) != weight(&new);
        let parents: BTreeSet<String> = [&old, &new]
            .into_iter()
            .filter_map(|link| link.as_ref()?.parent.clone())
            .collect();
        match new {
            Some(link) => drop(self.links.insert(name.to_owned(), link)),
            None => drop(self.links.remove(name)),
        }
        if heavier {
            for start in parents.iter().map(String::as_str).chain([name]) {
                self.rise(start, &mut touched);
            }
        }
        for parent in &parents {
            if self.below.get(parent).is_some_and(|below| below.children.is_empty()) {
                self.below.remove(parent);
            }
        }
        touched.extend(parents);
        touched
    }

    /// Notes whether a queue is closed and empty; true if that is new to its parent.
    pub(super) fn settle(&mut self, name: &str, settled: bool) -> bool {
        let Some(link) = self.links.get_mut(name).filter(|link| link.settled != settled) else {
            return false;
        };
        link.settled = settled;
        if let Some(below) = link.parent.as_ref().and_then(|parent| self.below.get_mut(parent)) {
            below.unsettled = if settled {
                below.unsettled.saturating_sub(1)
            } else {
                below.unsettled.saturating_add(1)
            };
        }
        true
    }

    fn link(&mut self, name: &str, link: &Link) {
        let Some(parent) = &link.parent else { return };
        let below = self.below.entry(parent.clone()).or_default();
        below.children.insert(name.to_owned());
        below.unsettled += usize::from(!link.settled);
        for (sum, amounts) in below.sums.iter_mut().zip(&link.counted) {
            sum_up(sum, amounts);
        }
    }

    fn unlink(&mut self, name: &str, link: &Link) {
        let Some(parent) = &link.parent else { return };
        let Some(below) = self.below.get_mut(parent) else {
            return;
        };
        below.children.remove(name);
        below.unsettled = below.unsettled.saturating_sub(usize::from(!link.settled));
        for (sum, amounts) in below.sums.iter_mut().zip(&link.counted) {
            subtract(sum, amounts);
        }
    }

    /// Everything under a queue, each once, however the tree is tied.
    pub(super) fn descend(&self, name: &str, into: &mut BTreeSet<String>) {
        let mut open = vec![name.to_owned()];
        while let Some(here) = open.pop() {
            for child in self.children(&here) {
                if into.insert(child.to_owned()) {
                    open.push(child.to_owned());
                }
            }
        }
    }

    /// What a queue counts for: what it sets, and in the dimensions that it leaves unset the sum of its children.
    fn together(&self, name: &str, own: &[Amounts; 2]) -> [Amounts; 2] {
        let mut counted = self.below.get(name).map(|below| below.sums.clone()).unwrap_or_default();
        for (counted, own) in counted.iter_mut().zip(own) {
            counted.extend(own.iter().map(|(dimension, amount)| (dimension.clone(), *amount)));
        }
        counted
    }

    /// Weighs a queue and all above it anew. It goes on to the top, also past one whose numbers did not change: a cycle
    /// that was untied has left others to be counted. In a cycle it goes round once.
    fn rise(&mut self, start: &str, touched: &mut BTreeSet<String>) {
        let mut passed = BTreeSet::new();
        let mut here = start.to_owned();
        while passed.insert(here.clone()) {
            self.weigh(&here, touched);
            let Some(amounts) = self.links.get(&here).map(|link| &link.amounts) else {
                return;
            };
            let now = self.together(&here, amounts);
            let Some(link) = self.links.get_mut(&here) else { return };
            let before = std::mem::replace(&mut link.counted, now.clone());
            let Some(parent) = link.parent.clone() else { return };
            if let Some(below) = self.below.get_mut(&parent) {
                for (sum, (before, now)) in below.sums.iter_mut().zip(before.iter().zip(&now)) {
                    subtract(sum, before);
                    sum_up(sum, now);
                }
            }
            here = parent;
        }
    }

    /// Finds out anew which children of a queue ask for too much. Only then are the children looked at one by one.
    fn weigh(&mut self, parent: &str, touched: &mut BTreeSet<String>) {
        let found = self.overcommitted(parent);
        let Some(below) = self.below.get_mut(parent) else {
            return;
        };
        if below.overcommit == found {
            return;
        }
        let after: BTreeSet<String> = found.iter().flat_map(|over| over.waiting.clone()).collect();
        let before = std::mem::replace(&mut below.waiting, after.clone());
        below.overcommit = found;
        touched.insert(parent.to_owned());
        for child in before.union(&after) {
            touched.insert(child.clone());
            self.descend(child, touched);
        }
    }

    /// The youngest children, as many as have to wait until the rest together ask for no more than their parent has;
    /// the same ones that the scheduler lets wait. What the parent does not set is not exceeded.
    fn overcommitted(&self, parent: &str) -> Option<Overcommit> {
        let below = self.below.get(parent).filter(|_| parent != names::ROOT_QUEUE)?;
        let limits = &self.links.get(parent)?.amounts;
        let excesses: Vec<Excess> = excesses(&below.sums, limits).collect();
        let first = excesses.first()?.clone();
        let mut left: Vec<(&str, &Link)> = self
            .children(parent)
            .filter_map(|child| Some((child, self.links.get(child)?)))
            .collect();
        left.sort_by_key(|(name, link)| (link.created_ms, *name));
        let mut waiting = Vec::new();
        for (index, limits) in limits.iter().enumerate() {
            for (dimension, most) in limits {
                let asks = |link: &Link| {
                    link.counted
                        .get(index)
                        .and_then(|amounts| amounts.get(dimension))
                        .copied()
                        .unwrap_or(0)
                };
                let mut sum = left
                    .iter()
                    .fold(0_i128, |sum, (_, link)| sum.saturating_add(asks(link)));
                for at in (0..left.len()).rev() {
                    let Some((child, link)) = left.get(at).copied().filter(|(_, link)| asks(link) > 0) else {
                        continue;
                    };
                    if sum <= *most {
                        break;
                    }
                    sum = sum.saturating_sub(asks(link));
                    left.remove(at);
                    waiting.push(child.to_owned());
                }
            }
        }
        Some(Overcommit { excess: first, waiting })
    }

    /// By how much the children of a queue ask for more than `limit` has, if they do.
    pub(super) fn excess_over(&self, parent: &str, limit: &Amounts) -> Option<Excess> {
        let below = self.below.get(parent)?;
        let limit_of = |sum: &Amounts| -> Amounts {
            let each = sum
                .keys()
                .map(|name| (name.clone(), limit.get(name).copied().unwrap_or(0)));
            each.collect()
        };
        let limits = [limit_of(&below.sums[0]), limit_of(&below.sums[1])];
        excesses(&below.sums, &limits).next()
    }

    /// The queues right below one.
    pub(super) fn children(&self, name: &str) -> impl Iterator<Item = &str> {
        let below = self.below.get(name);
        below.into_iter().flat_map(|below| &below.children).map(String::as_str)
    }

    /// How many there are, and how many of them are not closed and empty.
    pub(super) fn counts(&self, name: &str) -> (usize, usize) {
        self.below
            .get(name)
            .map_or((0, 0), |below| (below.children.len(), below.unsettled))
    }

    /// What is wrong with the children of a queue.
    pub(super) fn overcommit(&self, name: &str) -> Option<&Overcommit> {
        self.below.get(name)?.overcommit.as_ref()
    }

    /// The queue and those above it, upwards; ends before a name that is missing, or seen already.
    fn chain<'a>(&'a self, name: &'a str) -> Vec<(&'a str, &'a Link)> {
        let mut chain: Vec<(&str, &Link)> = Vec::new();
        let mut seen = BTreeSet::new();
        let mut here = Some(name);
        while let Some((name, link)) = here.and_then(|name| Some((name, self.links.get(name)?))) {
            if !seen.insert(name) {
                break;
            }
            chain.push((name, link));
            here = link.parent.as_deref();
        }
        chain
    }

    /// The names of a queue and of those above it, upwards.
    pub(super) fn upwards<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.chain(name).into_iter().map(|(name, _)| name)
    }

    /// The nearest queue, itself or above, whose spec asks for this one to be closed.
    pub(super) fn closed_by<'a>(&'a self, name: &'a str) -> Option<&'a str> {
        let chain = self.chain(name);
        chain.iter().find(|(_, link)| link.closes).map(|(name, _)| *name)
    }

    /// Why the work of a queue waits because of where it stands.
    pub(super) fn damage(&self, name: &str) -> Option<Damage> {
        let chain = self.chain(name);
        let (last, link) = chain.last()?;
        if let Some(next) = link.parent.as_deref() {
            if let Some(start) = chain.iter().position(|(name, _)| *name == next) {
                let path = chain.iter().skip(start).map(|(name, _)| (*name).to_owned());
                return Some(Damage::Cycle { path: path.collect() });
            }
            if next != names::ROOT_QUEUE {
                return Some(Damage::ParentMissing {
                    queue: (*last).to_owned(),
                    parent: next.to_owned(),
                });
            }
        }
        chain.iter().find_map(|(name, link)| {
            let parent = link.parent.as_deref()?;
            let below = self.below.get(parent).filter(|below| below.waiting.contains(*name))?;
            Some(Damage::Overcommitted {
                queue: (*name).to_owned(),
                parent: parent.to_owned(),
                excess: below.overcommit.as_ref()?.excess.clone(),
            })
        })
    }
}

/// Where sums pass their limits, in a fixed order.
fn excesses<'a>(sums: &'a [Amounts; 2], limits: &'a [Amounts; 2]) -> impl Iterator<Item = Excess> + 'a {
    let each = Field::ALL.into_iter().zip(sums.iter().zip(limits));
    each.flat_map(|(field, (sums, limits))| {
        limits.iter().filter_map(move |(dimension, most)| {
            let sum = sums.get(dimension).copied().unwrap_or(0);
            (sum > *most).then(|| Excess::new(field, dimension, sum, *most))
        })
    })
}
