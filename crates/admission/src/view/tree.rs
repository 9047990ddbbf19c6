//! The tree of queues, with what rules ask about a subtree added up at its top.
//!
//! Each queue is counted in its parent with a few numbers ([`Measure`]). A change recounts the queue
//! and then each ancestor, so it costs the depth of the tree, and a question costs one look. A parent's
//! sums are always exactly those of what its children were counted with. In a stored cycle the numbers
//! mean nothing, but recounting ends, and once the cycle is untied they are right again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use basalt_api::json::{string_at, value_or_null};
use basalt_api::names;
use serde_json::Value;

use crate::quantities::{amounts, shares};

/// Steps of a walk towards the root; more means a cycle that was stored by other means.
pub(crate) const WALK_MAX: usize = 64;

/// The parent of a queue: `root` where none is written, empty for `root` itself.
pub(crate) fn parent_of(queue: &Value) -> &str {
    match (string_at(queue, "/metadata/name"), string_at(queue, "/spec/parent")) {
        (names::ROOT_QUEUE, _) => "",
        (_, "") => names::ROOT_QUEUE,
        (_, parent) => parent,
    }
}

/// What is counted from the leaves upwards.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Measure {
    /// Deserved of a dimension: the queue's own, else the sum of its children's.
    Deserved(Arc<str>),
    /// Guarantee of a dimension: the queue's own, else the sum of its children's.
    Guarantee(Arc<str>),
    /// The part of a guarantee that is written as a share of the cluster, in billionths: it weighs what the nodes
    /// offer at the time. Set wherever [`Measure::Guarantee`] is.
    Share(Arc<str>),
    /// Queues that write both an amount and a share of a dimension, by the two: only the larger counts, and which
    /// that is depends on what the nodes offer. So they are counted in both measures above, and here.
    Either(Arc<str>, i128, i128),
    /// Capability of a dimension: the queue's own, else the largest of its children's.
    Capability(Arc<str>),
    /// Queues of the subtree whose status is not Closed.
    Unclosed,
    /// Levels of the subtree, its top included.
    Levels,
}

impl Measure {
    /// Where a queue writes it, as a pointer; empty for what is only counted.
    pub(crate) fn list(&self) -> &'static str {
        match self {
            Self::Deserved(_) => "/spec/deserved",
            Self::Guarantee(_) => "/spec/guarantee/resource",
            Self::Capability(_) => "/spec/capability",
            Self::Share(_) | Self::Either(..) | Self::Unclosed | Self::Levels => "",
        }
    }

    /// What a subtree counts for: its top's own number and those of the children together.
    fn together(&self, counts: &Counts, children: Option<&Tally>) -> Option<i128> {
        let own = counts.get(self).copied();
        let sum = children.map(|tally| tally.sum);
        let largest = children.and_then(Tally::largest).map(|(amount, _)| amount);
        match self {
            Self::Deserved(_) | Self::Guarantee(_) | Self::Share(_) => own.or(sum),
            Self::Either(dimension, ..) if counts.contains_key(&Self::Share(dimension.clone())) => own,
            Self::Either(..) => sum,
            Self::Capability(_) => own.or(largest),
            Self::Unclosed => Some(own.unwrap_or_default().wrapping_add(sum.unwrap_or_default())),
            Self::Levels => Some(own.unwrap_or_default().wrapping_add(largest.unwrap_or_default())),
        }
    }
}

/// The measures of one queue.
type Counts = BTreeMap<Measure, i128>;

/// One measure of all children of a queue.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    /// All together.
    pub(crate) sum: i128,
    ranked: BTreeSet<(i128, Arc<str>)>,
}

impl Tally {
    /// The largest, and whose it is.
    pub(crate) fn largest(&self) -> Option<(i128, &str)> {
        self.ranked.last().map(|(amount, name)| (*amount, &**name))
    }
}

#[derive(Clone, Debug)]
struct Entry {
    object: Arc<Value>,
    parent: Arc<str>,
    own: Counts,
    /// What the parent's tallies hold of this queue.
    counted: Counts,
}

/// What is below a queue, whether or not the queue itself exists.
#[derive(Clone, Debug, Default)]
struct Below {
    children: BTreeSet<Arc<str>>,
    tallies: BTreeMap<Measure, Tally>,
}

/// All queues.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tree {
    queues: BTreeMap<Arc<str>, Entry>,
    below: BTreeMap<Arc<str>, Below>,
}

fn own_counts(queue: &Value) -> Counts {
    let mut own = Counts::from([(Measure::Levels, 1)]);
    if string_at(queue, "/status/state") != "Closed" {
        own.insert(Measure::Unclosed, 1);
    }
    let lists: [fn(Arc<str>) -> Measure; 3] = [Measure::Deserved, Measure::Guarantee, Measure::Capability];
    for measure in lists {
        let list = measure(Arc::from("")).list();
        for (dimension, amount) in amounts(value_or_null(queue, list)) {
            own.insert(measure(dimension.into()), amount.nano());
        }
    }
    // Whoever guarantees a dimension either way sets it both ways: nothing of its children shines through.
    let guaranteed = amounts(value_or_null(queue, "/spec/guarantee/resource")).map(|(dimension, _)| (dimension, 0));
    for (dimension, share) in guaranteed.chain(shares(queue)) {
        own.entry(Measure::Guarantee(dimension.into())).or_insert(0);
        let written = own.entry(Measure::Share(dimension.into())).or_insert(0);
        *written = share.max(*written);
    }
    for (dimension, amount) in amounts(value_or_null(queue, "/spec/guarantee/resource")) {
        let share = own.get(&Measure::Share(dimension.into())).copied().unwrap_or_default();
        if share > 0 && amount.nano() > 0 {
            own.insert(Measure::Either(dimension.into(), amount.nano(), share), 1);
        }
    }
    own
}

impl Tree {
    pub(super) fn put(&mut self, object: &Arc<Value>) {
        let name: Arc<str> = string_at(object, "/metadata/name").into();
        let parent: Arc<str> = parent_of(object).into();
        let stays = self.queues.get(&name).is_some_and(|known| known.parent == parent);
        if !stays {
            self.remove(&name);
        }
        let counted = self.queues.remove(&name).map(|known| known.counted).unwrap_or_default();
        if !parent.is_empty() {
            let below = self.below.entry(parent.clone()).or_default();
            below.children.insert(name.clone());
        }
        let entry = Entry {
            object: object.clone(),
            parent,
            own: own_counts(object),
            counted,
        };
        self.queues.insert(name.clone(), entry);
        self.recount(name);
    }

    pub(super) fn remove(&mut self, name: &str) {
        let Some(entry) = self.queues.remove(name) else { return };
        let name: Arc<str> = name.into();
        if let Some(below) = self.below.get_mut(&entry.parent) {
            below.children.remove(&name);
            below.exchange(&name, &entry.counted, &Counts::new());
            if below.children.is_empty() {
                self.below.remove(&entry.parent);
            }
        }
        self.recount(entry.parent);
    }

    /// Counts a queue anew in its parent, and so on upwards. It always goes on to the top, also past
    /// a queue whose numbers did not change: a cycle that was untied has left others to be counted.
    fn recount(&mut self, start: Arc<str>) {
        let mut here = start;
        for _ in 0..WALK_MAX {
            let Some(entry) = self.queues.get(&here) else { return };
            let now = self.together(&here, &entry.own);
            let parent = entry.parent.clone();
            let Some(entry) = self.queues.get_mut(&here) else {
                return;
            };
            if parent.is_empty() {
                return;
            }
            if entry.counted != now {
                let before = std::mem::replace(&mut entry.counted, now);
                let below = self.below.entry(parent.clone()).or_default();
                below.exchange(&here, &before, &entry.counted);
            }
            here = parent;
        }
    }

    fn together(&self, name: &str, own: &Counts) -> Counts {
        let none = BTreeMap::new();
        let tallies = self.below.get(name).map_or(&none, |below| &below.tallies);
        let measures = own.keys().chain(tallies.keys());
        measures
            .filter_map(|measure| {
                let amount = measure.together(own, tallies.get(measure))?;
                Some((measure.clone(), amount))
            })
            .collect()
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.queues.keys().map(|name| &**name)
    }

    pub(super) fn get(&self, name: &str) -> Option<&Value> {
        self.queues.get(name).map(|entry| &*entry.object)
    }

    /// The names of the queues directly below.
    pub(crate) fn children(&self, name: &str) -> impl ExactSizeIterator<Item = &str> {
        static NONE: BTreeSet<Arc<str>> = BTreeSet::new();
        let children = self.below.get(name).map_or(&NONE, |below| &below.children);
        children.iter().map(|child| &**child)
    }

    /// One measure of all children of a queue.
    pub(crate) fn tally(&self, name: &str, measure: &Measure) -> Option<&Tally> {
        self.below.get(name)?.tallies.get(measure)
    }

    /// The amounts and shares of a dimension that queues below write both, and how many write these two.
    pub(crate) fn either(&self, name: &str, dimension: &str) -> impl Iterator<Item = (i128, i128, i128)> {
        let range = |bound: i128| Measure::Either(dimension.into(), bound, bound);
        let tallies = self.below.get(name).map(|below| &below.tallies);
        let found = tallies
            .into_iter()
            .flat_map(move |tallies| tallies.range(range(i128::MIN)..=range(i128::MAX)));
        found.filter_map(|(measure, tally)| match measure {
            Measure::Either(_, amount, share) => Some((*amount, *share, tally.sum)),
            _ => None,
        })
    }

    /// The measures of which the children of a queue have any.
    pub(crate) fn measures(&self, name: &str) -> impl Iterator<Item = &Measure> {
        self.below.get(name).into_iter().flat_map(|below| below.tallies.keys())
    }

    /// What the queue itself sets of a measure.
    pub(crate) fn own(&self, name: &str, measure: &Measure) -> Option<i128> {
        self.queues.get(name)?.own.get(measure).copied()
    }

    /// Whether the way up from a stored queue leads back to it. What is counted below it means nothing then.
    pub(crate) fn is_tied(&self, name: &str) -> bool {
        let parent = self.queues.get(name).map_or("", |entry| &entry.parent);
        self.upwards(parent).contains(&name)
    }

    /// Names from `start` upwards, without `root`; ends early at a missing queue or a stored cycle.
    pub(crate) fn upwards<'a>(&'a self, start: &'a str) -> Vec<&'a str> {
        let mut path: Vec<&str> = Vec::new();
        let mut here = start;
        while !here.is_empty() && here != names::ROOT_QUEUE && path.len() < WALK_MAX && !path.contains(&here) {
            path.push(here);
            here = self.queues.get(here).map_or("", |entry| &entry.parent);
        }
        path
    }
}

impl Below {
    /// Replaces what a child was counted with. Sums wrap by intent: what goes in comes out again,
    /// whatever a cycle has made of it in between.
    fn exchange(&mut self, child: &Arc<str>, before: &Counts, now: &Counts) {
        for (measure, amount) in before {
            if let Some(tally) = self.tallies.get_mut(measure) {
                tally.sum = tally.sum.wrapping_sub(*amount);
                tally.ranked.remove(&(*amount, child.clone()));
                if tally.ranked.is_empty() {
                    self.tallies.remove(measure);
                }
            }
        }
        for (measure, amount) in now {
            let tally = self.tallies.entry(measure.clone()).or_default();
            tally.sum = tally.sum.wrapping_add(*amount);
            tally.ranked.insert((*amount, child.clone()));
        }
    }
}
