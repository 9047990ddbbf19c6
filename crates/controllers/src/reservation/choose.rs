//! One queue's choice among the nodes that it may have.

use std::collections::BTreeSet;

use basalt_api::quantity::ResourceList;

use super::ask::{Ask, Share};
use super::outlook::Outlooks;
use super::row::{asked, quantity};
use super::score::{Candidate, Figures, Problem, score, share_score};
use super::search::{pick, reach};
use super::site::{Family, Site};
use super::{Dimension, Dimensions};

/// A set moves only for so much more: nodes are not locked and unlocked for nothing.
const GAIN_MIN: f64 = 0.05;
/// What counts as more at all.
const GAIN_ANY: f64 = 1e-9;

/// By which of the two a set was chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Amounts.
    Resource,
    /// A share of the nodes.
    Share,
}

/// Why there is no set that serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lack {
    /// All nodes that the queue could ever have together offer less, by dimension: has, needs.
    Cluster(Vec<(String, i64, i64)>),
    /// The nodes that it may have now offer less, or there are too few of them.
    Free(Vec<(String, i64, i64)>),
    /// The share is less than one node of so many.
    Percentage(usize),
}

/// What was chosen: places in the order of names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The nodes.
    pub places: Vec<usize>,
    /// What they were chosen by.
    pub kind: Kind,
    /// Nothing serves: the nodes are what is left.
    pub lack: Option<Lack>,
}

/// What one queue chooses from.
pub struct View<'a> {
    /// What it asks for.
    pub ask: &'a Ask,
    /// Itself and all queues below it.
    pub family: &'a Family,
    /// Names of resources.
    pub dimensions: &'a Dimensions,
    /// All nodes in the order of their names.
    pub sites: &'a [&'a Site],
    /// What those nodes are to everybody who has nothing on them.
    pub outlooks: &'a Outlooks,
    /// Places of the nodes that could serve it, whoever holds them.
    pub admitted: &'a [usize],
    /// Places of those that it may have, and of what it cannot do without; in order.
    pub free: &'a [usize],
    /// Places of what the queues below it have chosen; in order.
    pub fixed: &'a [usize],
    /// Places that it holds and may keep; in order.
    pub held: &'a [usize],
    /// It held more, and has lost it.
    pub lost: bool,
    /// What was to be reached when they were chosen.
    pub held_target: &'a ResourceList,
}

/// One of the two questions, in numbers.
struct Question {
    problem: Problem,
    /// The place of each candidate.
    places: Vec<usize>,
    kind: Kind,
    count: usize,
}

impl Question {
    fn score(&self, set: &[usize]) -> f64 {
        match self.kind {
            Kind::Resource => score(&self.problem, set),
            Kind::Share => share_score(&self.problem, set),
        }
    }

    fn best(&self) -> Option<Vec<usize>> {
        match self.kind {
            Kind::Resource => reach(&self.problem),
            Kind::Share if self.problem.fixed.len() >= self.count => Some(self.problem.fixed.clone()),
            Kind::Share => pick(&self.problem, self.count),
        }
    }

    fn sum(&self, set: &[usize], of: impl Fn(&Candidate) -> &Figures) -> Vec<i64> {
        let mut sum = vec![0_i64; self.problem.target.len()];
        for candidate in set.iter().filter_map(|place| self.problem.candidates.get(*place)) {
            for (total, amount) in sum.iter_mut().zip(of(candidate)) {
                *total = total.saturating_add(*amount);
            }
        }
        sum
    }

    /// Whether the set is as large as it must be.
    fn serves(&self, set: &[usize]) -> bool {
        match self.kind {
            Kind::Resource => {
                let worth = self.sum(set, |candidate| &candidate.worth);
                worth.iter().zip(&self.problem.target).all(|(has, needs)| has >= needs)
            }
            Kind::Share => set.len() == self.count.max(self.problem.fixed.len()),
        }
    }

    /// Whether what is idle or used by the queue is enough as it is.
    fn is_met(&self, set: &[usize]) -> bool {
        let worth = self.sum(set, |candidate| &candidate.worth);
        let target = match self.kind {
            Kind::Resource => &self.problem.target,
            Kind::Share => &worth,
        };
        let used = self.sum(set, |candidate| &candidate.used);
        let idle = self.sum(set, |candidate| &candidate.idle);
        let has = used.iter().zip(&idle).map(|(used, idle)| used.saturating_add(*idle));
        has.zip(target).all(|(has, needs)| has >= *needs)
    }

    /// The set without what it can do without: what was taken over from queues below, or is too much since a node grew.
    /// Amounts give up a node only where that makes no worse set; the least useful nodes go first.
    fn trimmed(&self, set: &[usize]) -> Vec<usize> {
        let mut left = set.to_vec();
        let mut worth = self.sum(set, |candidate| &candidate.worth);
        let least = self.count.max(self.problem.fixed.len());
        for node in self.least_useful(set) {
            let gives = self.sum(&[node], |candidate| &candidate.worth);
            let rest: Vec<i64> = worth
                .iter()
                .zip(&gives)
                .map(|(all, one)| all.saturating_sub(*one))
                .collect();
            let spare = match self.kind {
                Kind::Resource => rest.iter().zip(&self.problem.target).all(|(has, needs)| has >= needs),
                Kind::Share => left.len() > least,
            };
            if !spare {
                continue;
            }
            let without: Vec<usize> = left.iter().copied().filter(|other| *other != node).collect();
            if self.kind == Kind::Share || self.score(&without) + GAIN_ANY >= self.score(&left) {
                (left, worth) = (without, rest);
            }
        }
        left
    }

    /// The nodes of a set that are not fixed: those first where the queue uses least and least is idle, then the largest.
    fn least_useful(&self, set: &[usize]) -> Vec<usize> {
        let movable = set
            .iter()
            .filter(|node| self.problem.fixed.binary_search(node).is_err());
        let mut nodes: Vec<(f64, Vec<i64>, usize)> = movable
            .map(|node| {
                let worth = self.sum(&[*node], |candidate| &candidate.worth);
                (share_score(&self.problem, &[*node]), worth, *node)
            })
            .collect();
        nodes.sort_by(|a, b| a.0.total_cmp(&b.0).then_with(|| (&b.1, b.2).cmp(&(&a.1, a.2))));
        nodes.into_iter().map(|(_, _, node)| node).collect()
    }

    /// What is left, and what replaces the rest: nobody is evicted anew where the old nodes still serve.
    fn mend(&self, held: &[usize]) -> Option<Vec<usize>> {
        let kept = self.trimmed(held);
        if self.serves(&kept) {
            return Some(kept);
        }
        let problem = Problem {
            fixed: kept,
            target: self.problem.target.clone(),
            candidates: self.problem.candidates.clone(),
        };
        let whole = match self.kind {
            Kind::Resource => reach(&problem),
            Kind::Share => pick(&problem, self.count),
        };
        whole.map(|set| self.trimmed(&set))
    }

    /// Candidates by place.
    fn candidates(&self, places: &[usize]) -> Vec<usize> {
        let find = |place: &usize| self.places.binary_search(place).ok();
        places.iter().filter_map(find).collect()
    }
}

/// Chooses. Nothing is held back here for the sake of others: see the round.
pub fn choose(view: &View<'_>) -> Choice {
    let resource = (!view.ask.resource.is_empty()).then(|| view.by_resource());
    let share = view.ask.share.as_ref().map(|share| view.by_share(share));
    match (resource, share) {
        (Some(one), None) | (None, Some(one)) => one,
        (Some(resource), Some(share)) if resource.lack.is_some() != share.lack.is_some() => {
            let (serves, lacks) = if resource.lack.is_none() {
                (resource, share)
            } else {
                (share, resource)
            };
            // The larger one cannot be had: the smaller one is no reason to let go of what is held for it. A share of
            // less than one node is never the larger one.
            let less = view.extent(&serves.places) + GAIN_ANY < view.extent(view.held);
            let counts = !matches!(lacks.lack, Some(Lack::Percentage(_)));
            if less && counts { lacks } else { serves }
        }
        (Some(resource), Some(share)) => {
            if view.extent(&share.places) > view.extent(&resource.places) + GAIN_ANY {
                share
            } else {
                resource
            }
        }
        (None, None) => Choice {
            places: Vec::new(),
            kind: Kind::Resource,
            lack: None,
        },
    }
}

impl View<'_> {
    fn find(&self, names: impl Iterator<Item = impl AsRef<str>>) -> Vec<Option<Dimension>> {
        self.dimensions.find_all(names)
    }

    fn question(&self, kind: Kind, dimensions: &[Option<Dimension>], target: Vec<i64>, places: Vec<usize>) -> Question {
        let outlook = self.outlooks.of(self.ask.evicts, dimensions);
        let figures = |place: &usize| {
            let known = outlook.filter(|_| !self.outlooks.is_on(self.family, *place));
            known.and_then(|known| known.get(*place).cloned()).unwrap_or_else(|| {
                let site = self.sites.get(*place);
                site.map_or_else(Candidate::default, |site| {
                    site.figures(self.family, self.ask.evicts, dimensions)
                })
            })
        };
        let problem = Problem {
            target,
            candidates: places.iter().map(figures).collect(),
            fixed: Vec::new(),
        };
        let mut question = Question {
            problem,
            places,
            kind,
            count: 0,
        };
        question.problem.fixed = question.candidates(self.fixed);
        question
    }

    fn by_resource(&self) -> Choice {
        let dimensions = self.find(self.ask.resource.iter().map(|(name, _)| name));
        let target: Vec<i64> = self.ask.resource.iter().map(|(_, amount)| *amount).collect();
        let question = self.question(Kind::Resource, &dimensions, target, self.free.to_vec());
        let same = self.held_target.len() == self.ask.resource.len()
            && self.ask.resource.iter().all(|(name, amount)| {
                let held = self.held_target.get(name);
                held.is_some_and(|held| asked(name, *held) == *amount)
            });
        let names = || self.ask.resource.iter().map(|(name, _)| name.clone());
        self.settle(&question, same, || {
            let offered = self.offered(&dimensions);
            let free: Vec<usize> = (0..question.places.len()).collect();
            let free = question.sum(&free, |candidate| &candidate.worth);
            let short = |has: &[i64]| -> Vec<(String, i64, i64)> {
                let each = names().zip(has).zip(&question.problem.target);
                each.filter(|((_, has), needs)| has < needs)
                    .map(|((name, has), needs)| (name, *has, *needs))
                    .collect()
            };
            match short(&offered) {
                lack if lack.is_empty() => Lack::Free(short(&free)),
                lack => Lack::Cluster(lack),
            }
        })
    }

    fn by_share(&self, share: &Share) -> Choice {
        let dimensions = self.find(share.dimensions.iter());
        let offers = |place: &&usize| {
            let offer = self.sites.get(**place).and_then(|site| site.offer.as_ref());
            offer.is_some_and(|offer| dimensions.iter().all(|dimension| offer.row.get(*dimension) > 0))
        };
        let all = self.admitted.iter().filter(offers).count();
        let count = share.value.floor_of(u64::try_from(all).unwrap_or(u64::MAX));
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        if count == 0 {
            return Choice {
                places: self.fixed.to_vec(),
                kind: Kind::Share,
                lack: Some(Lack::Percentage(all)),
            };
        }
        let fixed = |place: &&usize| self.fixed.binary_search(place).is_ok();
        let places = self.free.iter().filter(|place| offers(place) || fixed(place));
        let target = vec![0; dimensions.len()];
        let mut question = self.question(Kind::Share, &dimensions, target, places.copied().collect());
        question.count = count;
        // How many nodes a share comes to changes with every node that comes or goes: that is no other question.
        let same = self.held_target.keys().eq(share.dimensions.iter());
        self.settle(&question, same, || {
            let (has, needs) = (question.places.len(), count);
            let number = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
            Lack::Free(vec![("nodes".to_owned(), number(has), number(needs))])
        })
    }

    /// The best set, or the one that is held where that is good enough; `same`: it was chosen for what is asked for now.
    fn settle(&self, question: &Question, same: bool, lack: impl FnOnce() -> Lack) -> Choice {
        let held = question.candidates(self.held);
        let choice = |set: Vec<usize>, lack: Option<Lack>| Choice {
            places: set
                .iter()
                .filter_map(|candidate| question.places.get(*candidate).copied())
                .collect(),
            kind: question.kind,
            lack,
        };
        let kept: BTreeSet<usize> = held.iter().chain(&question.problem.fixed).copied().collect();
        let kept: Vec<usize> = kept.into_iter().collect();
        if let Some(mended) = (self.ask.evicts && same).then(|| question.mend(&kept)).flatten() {
            return choice(mended, None);
        }
        let Some(best) = question.best() else {
            return choice(kept, Some(lack()));
        };
        let complete = kept.len() == held.len();
        let held = question.trimmed(&held);
        let stands = same && !self.lost && complete && !held.is_empty() && question.serves(&held);
        if stands && !moves(question, &held, &best) {
            return choice(held, None);
        }
        choice(best, None)
    }

    /// What all nodes that could serve the queue offer.
    fn offered(&self, dimensions: &[Option<Dimension>]) -> Vec<i64> {
        let offers = |dimension: &Option<Dimension>| {
            let each = self
                .admitted
                .iter()
                .filter_map(|place| self.sites.get(*place)?.offer.as_ref());
            each.fold(0_i64, |sum, offer| sum.saturating_add(offer.row.get(*dimension)))
        };
        dimensions.iter().map(offers).collect()
    }

    /// How much of the cluster a set is: Σ allocatable / total over all dimensions that are asked for.
    fn extent(&self, places: &[usize]) -> f64 {
        let resource = self.ask.resource.iter().map(|(name, _)| name);
        let share = self.ask.share.iter().flat_map(|share| &share.dimensions);
        let names: BTreeSet<&String> = resource.chain(share).collect();
        let dimensions = self.find(names.into_iter());
        let totals = self.offered(&dimensions);
        let of_set = |dimension: &Option<Dimension>| {
            let each = places.iter().filter_map(|place| self.sites.get(*place)?.offer.as_ref());
            each.fold(0_i64, |sum, offer| sum.saturating_add(offer.row.get(*dimension)))
        };
        let each = dimensions.iter().zip(&totals).filter(|(_, total)| **total > 0);
        each.map(|(dimension, total)| of_set(dimension) as f64 / *total as f64)
            .sum()
    }
}

/// Whether a set that serves is given up for a better one. One that is ready is given up for much more, and never for
/// one that is not; one that waits is given up for much more, or for any more where that one is ready.
fn moves(question: &Question, held: &[usize], best: &[usize]) -> bool {
    let gain = question.score(best) - question.score(held);
    match (question.is_met(held), question.is_met(best)) {
        (true, false) => false,
        (false, true) => gain > GAIN_ANY,
        _ => gain >= GAIN_MIN,
    }
}

/// Amounts as people read them: `cpu 12 of 20`.
pub fn shortage(lack: &[(String, i64, i64)]) -> String {
    let each = lack.iter().map(|(name, has, needs)| {
        let amount = |number: i64| quantity(name, number);
        format!("{name} {} of {}", amount(*has), amount(*needs))
    });
    each.collect::<Vec<_>>().join(", ")
}
