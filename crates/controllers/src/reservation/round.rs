//! One round: who chooses when, what each may choose from, and what of it may be written now.
//!
//! What is written moves in steps, each safe by itself: a node that somebody else still holds is not taken before that
//! is known to be over; a node is locked for the queue above before it is for the one below, and let go in the
//! opposite order. The next round, which the answers to the writes bring about, takes the next step.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use basalt_api::quantity::ResourceList;

use super::ask::{Ask, Rank, Zone};
use super::choose::{Choice, Kind, View, choose};
use super::outlook::Outlooks;
use super::report::{Decision, report};
use super::site::{Family, Site, Sites};

/// One queue that asks for nodes, or holds some.
#[derive(Clone, Debug)]
pub struct Bid {
    /// Its name.
    pub name: String,
    /// What it asks for; nothing: it lets go of what it holds.
    pub ask: Option<Ask>,
    /// Who chooses first.
    pub rank: Rank,
    /// Names of all queues above it.
    pub above: BTreeSet<String>,
    /// Itself and all queues below it.
    pub family: Family,
    /// Which nodes serve it.
    pub zone: Zone,
    /// The nodes that it holds, as they are written.
    pub held: Vec<String>,
    /// What they were chosen for.
    pub held_target: ResourceList,
    /// What was decided for it and is not known to be written yet. This stands until it is.
    pub pending: Option<(Vec<String>, Kind)>,
}

/// The nodes, by place.
struct Ground<'a> {
    names: Vec<&'a str>,
    sites: Vec<&'a Site>,
}

impl Ground<'_> {
    fn places(&self, names: &[String]) -> Vec<usize> {
        let find = |name: &String| self.names.binary_search(&name.as_str()).ok();
        let places: BTreeSet<usize> = names.iter().filter_map(find).collect();
        places.into_iter().collect()
    }
}

/// What is known of the bids while they are decided one after the other.
struct Round<'a> {
    bids: &'a [Bid],
    ground: Ground<'a>,
    sites: &'a Sites,
    outlooks: Outlooks,
    held: Vec<Vec<usize>>,
    pending: Vec<Option<Vec<usize>>>,
    /// By place: whose it is, by what is written or about to be.
    holders: Vec<Vec<usize>>,
    /// By place: whose it becomes in this round.
    takers: Vec<Vec<usize>>,
    /// By bid: those below it that ask, too.
    below: Vec<Vec<usize>>,
    choices: Vec<Option<Choice>>,
}

/// Decides for all bids, each decision in the place of its bid.
pub fn decide(bids: &[Bid], sites: &Sites) -> Vec<Decision> {
    let (names, places): (Vec<&Arc<str>>, Vec<&Site>) = sites.iter().filter(|(_, site)| site.offer.is_some()).unzip();
    let ground = Ground {
        names: names.into_iter().map(|name| &**name).collect(),
        sites: places,
    };
    let held: Vec<Vec<usize>> = bids.iter().map(|bid| ground.places(&bid.held)).collect();
    let pending: Vec<Option<Vec<usize>>> = bids
        .iter()
        .map(|bid| bid.pending.as_ref().map(|(nodes, _)| ground.places(nodes)))
        .collect();
    let mut holders: Vec<Vec<usize>> = vec![Vec::new(); ground.sites.len()];
    for (number, (held, pending)) in held.iter().zip(&pending).enumerate() {
        let both: BTreeSet<usize> = held.iter().chain(pending.iter().flatten()).copied().collect();
        for place in both {
            note(&mut holders, place, number);
        }
    }
    let asks = bids.iter().filter_map(|bid| bid.ask.as_ref());
    let outlooks = Outlooks::of_asks(asks, &ground.sites, &sites.dimensions);
    let takers = vec![Vec::new(); ground.sites.len()];
    let mut round = Round {
        bids,
        ground,
        sites,
        outlooks,
        held,
        pending,
        holders,
        takers,
        below: below(bids),
        choices: vec![None; bids.len()],
    };
    for number in round.order() {
        let choice = round.choice(number);
        for place in choice.iter().flat_map(|choice| &choice.places) {
            note(&mut round.takers, *place, number);
        }
        if let Some(slot) = round.choices.get_mut(number) {
            *slot = choice;
        }
    }
    (0..bids.len()).map(|number| round.decision(number)).collect()
}

/// A place is somebody's.
fn note(by_place: &mut [Vec<usize>], place: usize, number: usize) {
    if let Some(numbers) = by_place.get_mut(place) {
        numbers.push(number);
    }
}

/// By bid: those below it that ask, too.
fn below(bids: &[Bid]) -> Vec<Vec<usize>> {
    let numbers: BTreeMap<&str, usize> = bids.iter().enumerate().map(|(n, bid)| (bid.name.as_str(), n)).collect();
    let mut below = vec![Vec::new(); bids.len()];
    for (number, bid) in bids.iter().enumerate().filter(|(_, bid)| bid.ask.is_some()) {
        let above = bid.above.iter().filter_map(|name| numbers.get(name.as_str()));
        for above in above.filter(|above| **above != number) {
            if let Some(below) = below.get_mut(*above) {
                below.push(number);
            }
        }
    }
    below
}

impl Round<'_> {
    /// By rank, but everybody after those below.
    fn order(&self) -> Vec<usize> {
        let mut ranked: Vec<(usize, &Bid)> = self.bids.iter().enumerate().collect();
        ranked.sort_by(|(_, a), (_, b)| a.rank.cmp(&b.rank));
        let mut place = vec![0; self.bids.len()];
        for (at, (number, _)) in ranked.iter().enumerate() {
            if let Some(place) = place.get_mut(*number) {
                *place = at;
            }
        }
        let (mut order, mut seen) = (Vec::new(), vec![false; self.bids.len()]);
        for (number, _) in &ranked {
            // All that is below comes first, the deepest before the others; a tree that is tied into a cycle is in no order.
            let mut wave: Vec<usize> = self.below.get(*number).cloned().unwrap_or_default();
            let depth = |number: &usize| self.bids.get(*number).map_or(0, |bid| bid.above.len());
            wave.sort_by_key(|number| (std::cmp::Reverse(depth(number)), place.get(*number).copied()));
            wave.push(*number);
            for number in wave {
                if let Some(seen) = seen.get_mut(number).filter(|seen| !**seen) {
                    *seen = true;
                    order.push(number);
                }
            }
        }
        order
    }

    fn related(&self, one: usize, other: usize) -> bool {
        let (Some(a), Some(b)) = (self.bids.get(one), self.bids.get(other)) else {
            return false;
        };
        one == other || a.above.contains(&b.name) || b.above.contains(&a.name)
    }

    fn held_by(&self, number: usize) -> &[usize] {
        self.held.get(number).map_or(&[], Vec::as_slice)
    }

    /// Whether the queue may have a node that serves it.
    fn is_free(&self, number: usize, place: usize, family: &Family) -> bool {
        let others = |of: &[Vec<usize>]| {
            let list = of.get(place);
            list.is_some_and(|list| list.iter().any(|other| !self.related(number, *other)))
        };
        if others(&self.takers) {
            return false;
        }
        if self.held_by(number).binary_search(&place).is_ok() {
            return true;
        }
        let promised = self
            .ground
            .sites
            .get(place)
            .is_some_and(|site| site.is_promised(family));
        !promised && !others(&self.holders)
    }

    fn choice(&self, number: usize) -> Option<Choice> {
        let bid = self.bids.get(number)?;
        let ask = bid.ask.as_ref()?;
        if let (Some(pending), Some((_, kind))) = (self.pending.get(number)?, &bid.pending) {
            return Some(Choice {
                places: pending.clone(),
                kind: *kind,
                lack: None,
            });
        }
        let open = |site: &Site| {
            let offer = site.offer.as_ref();
            offer.is_some_and(|offer| offer.open && bid.zone.admits(offer.group.as_deref()))
        };
        let admitted: Vec<usize> = (0..self.ground.sites.len())
            .filter(|place| self.ground.sites.get(*place).is_some_and(|site| open(site)))
            .collect();
        let fixed: BTreeSet<usize> = self
            .below
            .get(number)?
            .iter()
            .filter_map(|below| self.choices.get(*below)?.as_ref())
            .flat_map(|choice| choice.places.iter().copied())
            .collect();
        let free: Vec<usize> = admitted
            .iter()
            .copied()
            .filter(|place| self.is_free(number, *place, &bid.family))
            .collect();
        let held: Vec<usize> = self
            .held_by(number)
            .iter()
            .copied()
            .filter(|place| free.binary_search(place).is_ok() || fixed.contains(place))
            .collect();
        let lost = held.len() < bid.held.len();
        let fixed: Vec<usize> = fixed.into_iter().collect();
        let mut free = free;
        free.extend(&fixed);
        free.sort_unstable();
        free.dedup();
        Some(choose(&View {
            ask,
            family: &bid.family,
            dimensions: &self.sites.dimensions,
            sites: &self.ground.sites,
            outlooks: &self.outlooks,
            admitted: &admitted,
            free: &free,
            fixed: &fixed,
            held: &held,
            lost,
            held_target: &bid.held_target,
        }))
    }

    /// What of a choice may be written now.
    fn step(&self, number: usize, choice: &Choice) -> Vec<usize> {
        let held = self.held_by(number);
        let bid = self.bids.get(number);
        let has = |places: &[usize], place: usize| places.binary_search(&place).is_ok();
        let above: Vec<usize> = (0..self.bids.len())
            .filter(|other| *other != number && self.below.get(*other).is_some_and(|below| below.contains(&number)))
            .filter(|other| self.bids.get(*other).is_some_and(|bid| bid.ask.is_some()))
            .collect();
        // A queue that came with a node of its own, from below another, brings it along: that one has to let go first.
        let is_others = |place: &usize| {
            let holders = self.holders.get(*place);
            holders.is_some_and(|holders| holders.iter().any(|other| !self.related(number, *other)))
        };
        let may_take = |place: &usize| {
            has(held, *place)
                || !is_others(place)
                    && above.iter().all(|other| {
                        let chosen = self.choices.get(*other).and_then(Option::as_ref);
                        has(self.held_by(*other), *place) && chosen.is_some_and(|choice| has(&choice.places, *place))
                    })
        };
        let must_keep = |place: &usize| {
            let below = bid.and_then(|_| self.below.get(number));
            below.into_iter().flatten().any(|below| {
                let pending = self.pending.get(*below).and_then(Option::as_ref);
                has(self.held_by(*below), *place) || pending.is_some_and(|pending| has(pending, *place))
            })
        };
        let taken = choice.places.iter().copied().filter(|place| may_take(place));
        let kept = held.iter().copied().filter(must_keep);
        let step: BTreeSet<usize> = taken.chain(kept).collect();
        step.into_iter().collect()
    }

    fn decision(&self, number: usize) -> Decision {
        let bid = self.bids.get(number);
        let choice = self.choices.get(number).and_then(Option::as_ref);
        let Some(((bid, ask), choice)) = bid.and_then(|bid| Some((bid, bid.ask.as_ref()?))).zip(choice) else {
            return Decision::default();
        };
        // What is about to be written is left as it is.
        let places = match self.pending.get(number).and_then(Option::as_ref) {
            Some(pending) => pending.clone(),
            None => self.step(number, choice),
        };
        let place = |place: usize| Some((*self.ground.names.get(place)?, *self.ground.sites.get(place)?));
        let nodes: Vec<(&str, &Site)> = places.iter().filter_map(|at| place(*at)).collect();
        report(ask, choice, &nodes, &bid.family, &self.sites.dimensions)
    }
}
