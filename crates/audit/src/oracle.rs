//! Which nodes a reservation should lock, found the hard way: every set is looked at where that can be done, and a long
//! search guesses where it cannot. Slow on purpose; what chooses nodes for real is held against it.

mod long;

pub use long::long_search;

/// Weights of the four terms: little excess, much in use by the queue, few nodes, much idle.
const EXCESS: f64 = 0.40;
const USED: f64 = 0.35;
const FEW: f64 = 0.15;
const IDLE: f64 = 0.10;

/// Scores closer than this are the same.
const SAME: f64 = 1e-12;

/// A node that can be chosen. Amounts are by dimension, in the order of the case.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// What it can give: allocatable without what cannot be moved.
    pub worth: Vec<i64>,
    /// What the queue has on it.
    pub used: Vec<i64>,
    /// What nobody has.
    pub idle: Vec<i64>,
}

/// What a set of nodes has to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Aim {
    /// Its worth reaches an amount in every dimension.
    Amount(Vec<i64>),
    /// It has so many nodes.
    Count(usize),
}

/// A queue that wants nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    /// What the set has to do.
    pub aim: Aim,
    /// The nodes to choose from.
    pub places: Vec<Place>,
    /// Those that are part of every set: what queues below hold.
    pub fixed: Vec<usize>,
}

/// A set of nodes and its score.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// Between 0 and 1.
    pub score: f64,
    /// The nodes, in order.
    pub nodes: Vec<usize>,
}

impl Found {
    /// Whether it is to be preferred: a higher score, then fewer nodes, then the first in order.
    fn beats(&self, other: &Found) -> bool {
        let gain = self.score - other.score;
        if gain.abs() > SAME {
            return gain > 0.0;
        }
        (self.nodes.len(), &self.nodes) < (other.nodes.len(), &other.nodes)
    }
}

/// Sums over a set of nodes.
#[derive(Clone, Debug)]
struct Sums {
    count: usize,
    worth: Vec<i64>,
    used: Vec<i64>,
    idle: Vec<i64>,
}

impl Sums {
    fn nothing(dims: usize) -> Self {
        Self {
            count: 0,
            worth: vec![0; dims],
            used: vec![0; dims],
            idle: vec![0; dims],
        }
    }

    fn add(&mut self, place: &Place) {
        self.count += 1;
        for (sum, part) in [
            (&mut self.worth, &place.worth),
            (&mut self.used, &place.used),
            (&mut self.idle, &place.idle),
        ] {
            sum.iter_mut()
                .zip(part)
                .for_each(|(sum, part)| *sum = sum.saturating_add(*part));
        }
    }

    fn remove(&mut self, place: &Place) {
        self.count -= 1;
        for (sum, part) in [
            (&mut self.worth, &place.worth),
            (&mut self.used, &place.used),
            (&mut self.idle, &place.idle),
        ] {
            sum.iter_mut()
                .zip(part)
                .for_each(|(sum, part)| *sum = sum.saturating_sub(*part));
        }
    }
}

/// A part of a whole; nothing of nothing is nothing.
#[expect(
    clippy::cast_precision_loss,
    reason = "amounts are far below 2^52, and a score is no account"
)]
fn ratio(part: i64, whole: i64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0.0), |(sum, count), value| (sum + value, count + 1.0));
    if count == 0.0 { 0.0 } else { sum / count }
}

/// A case, with what stays the same for all its sets.
struct Judge<'a> {
    case: &'a Case,
    total: Vec<i64>,
}

impl<'a> Judge<'a> {
    fn new(case: &'a Case) -> Self {
        let mut sums = Sums::nothing(case.dims());
        case.places.iter().for_each(|place| sums.add(place));
        Self {
            case,
            total: sums.worth,
        }
    }

    /// Whether a set does what it has to.
    fn suffices(&self, sums: &Sums) -> bool {
        match &self.case.aim {
            Aim::Amount(target) => sums.worth.iter().zip(target).all(|(have, need)| have >= need),
            Aim::Count(count) => sums.count == (*count).max(self.case.fixed.len()),
        }
    }

    /// The score by the formula; a set that does not suffice has no excess, and is judged by what it lacks besides.
    fn score(&self, sums: &Sums) -> f64 {
        let excess = match &self.case.aim {
            Aim::Amount(target) => {
                let parts = sums.worth.iter().zip(target).zip(&self.total);
                EXCESS * (1.0 - mean(parts.map(|((sum, target), total)| ratio((sum - target).max(0), total - target))))
            }
            Aim::Count(_) => 0.0,
        };
        let share = |part: &[i64]| mean(part.iter().zip(&sums.worth).map(|(part, sum)| ratio(*part, *sum)));
        let all = i64::try_from(self.case.places.len()).unwrap_or(i64::MAX);
        let count = i64::try_from(sums.count).unwrap_or(i64::MAX);
        let few = 1.0 - ratio(count - 1, all - 1);
        excess + USED * share(&sums.used) + FEW * few + IDLE * share(&sums.idle)
    }
}

impl Case {
    fn dims(&self) -> usize {
        self.places.first().map_or(0, |place| place.worth.len())
    }

    /// The score of a set; none if it does not do what it has to.
    pub fn score(&self, nodes: &[usize]) -> Option<f64> {
        let judge = Judge::new(self);
        let mut sums = Sums::nothing(self.dims());
        for &node in nodes {
            sums.add(self.places.get(node)?);
        }
        let whole = self.fixed.iter().all(|fixed| nodes.contains(fixed));
        (whole && judge.suffices(&sums)).then(|| judge.score(&sums))
    }

    /// The best of all sets, by looking at each of them: for a few nodes only. None: no set suffices.
    pub fn best(&self) -> Option<Found> {
        let mut search = Brute {
            judge: Judge::new(self),
            chosen: Vec::new(),
            best: None,
        };
        search.try_from(0, &mut Sums::nothing(self.dims()));
        search.best
    }
}

/// All sets, one after the other.
struct Brute<'a> {
    judge: Judge<'a>,
    chosen: Vec<usize>,
    best: Option<Found>,
}

impl Brute<'_> {
    fn try_from(&mut self, node: usize, sums: &mut Sums) {
        let Some(place) = self.judge.case.places.get(node) else {
            if !self.chosen.is_empty() && self.judge.suffices(sums) {
                self.keep(self.judge.score(sums));
            }
            return;
        };
        self.chosen.push(node);
        sums.add(place);
        self.try_from(node + 1, sums);
        let place = &self.judge.case.places[node];
        sums.remove(place);
        self.chosen.pop();
        if !self.judge.case.fixed.contains(&node) {
            self.try_from(node + 1, sums);
        }
    }

    fn keep(&mut self, score: f64) {
        if self.best.as_ref().is_some_and(|best| score < best.score - SAME) {
            return;
        }
        let found = Found {
            score,
            nodes: self.chosen.clone(),
        };
        if self.best.as_ref().is_none_or(|best| found.beats(best)) {
            self.best = Some(found);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Aim, Case, Place, long_search};

    fn place(worth: &[i64], used: &[i64], idle: &[i64]) -> Place {
        let [worth, used, idle] = [worth, used, idle].map(<[i64]>::to_vec);
        Place { worth, used, idle }
    }

    #[track_caller]
    fn check(aim: Aim, places: &[(i64, i64, i64)], fixed: &[usize], expected: Option<(&[usize], f64)>) {
        let places = places.iter().map(|&(w, u, i)| place(&[w], &[u], &[i])).collect();
        let fixed = fixed.to_vec();
        let case = Case { aim, places, fixed };
        let best = case.best();
        let found = best.as_ref().map(|found| (found.nodes.as_slice(), found.score));
        match (found, expected) {
            (None, None) => {}
            (Some((nodes, score)), Some((wanted, worth))) => {
                assert_eq!(nodes, wanted);
                assert!((score - worth).abs() < 1e-9, "{score} instead of {worth}");
                assert_eq!(case.score(nodes), Some(score));
            }
            other => panic!("{other:?}"),
        }
        let mut steps = 20;
        let guess = long_search(&case, 7, || {
            steps -= 1;
            steps > 0
        });
        let scores = (guess.map(|found| found.score), best.map(|found| found.score));
        match scores {
            (Some(guess), Some(best)) => assert!((guess - best).abs() < 1e-9, "{guess} instead of {best}"),
            other => assert_eq!(other, (None, None)),
        }
    }

    /// By hand, from the formula.
    #[test]
    fn the_best_of_a_few() {
        let amount = |target: i64| Aim::Amount(vec![target]);
        let even = [(4, 0, 4), (4, 0, 4), (4, 0, 4)];
        // An exact fit of one idle node: 0.4 + 0 + 0.15 + 0.1.
        check(amount(4), &even, &[], Some((&[0], 0.65)));
        // Two nodes, exact: the third term is a half.
        check(amount(8), &even, &[], Some((&[0, 1], 0.4 + 0.075 + 0.1)));
        // Eight for five of twelve: an excess of 3/7.
        check(amount(5), &even, &[], Some((&[0, 1], 0.4 * 4.0 / 7.0 + 0.075 + 0.1)));
        // All of it: the excess is nothing of nothing, and no term for few nodes is left.
        check(amount(12), &even, &[], Some((&[0, 1, 2], 0.5)));
        check(amount(13), &even, &[], None);
        // What the queue uses weighs more than what is idle.
        check(
            amount(4),
            &[(4, 0, 4), (4, 3, 1)],
            &[],
            Some((&[1], 0.4 + 0.35 * 0.75 + 0.15 + 0.025)),
        );
        // A lone candidate has the whole of the third term.
        check(amount(2), &[(4, 0, 0)], &[], Some((&[0], 0.15)));
        // What is fixed is part of it, and the rest grows around it.
        check(
            amount(8),
            &[(4, 0, 4), (4, 0, 4), (4, 0, 0)],
            &[2],
            Some((&[0, 2], 0.4 + 0.075 + 0.05)),
        );
    }

    #[test]
    fn so_many_nodes() {
        let nodes = [(4, 0, 4), (8, 4, 4), (4, 0, 0), (8, 0, 8)];
        check(Aim::Count(1), &nodes, &[], Some((&[1], 0.175 + 0.15 + 0.05)));
        check(
            Aim::Count(2),
            &nodes,
            &[],
            Some((&[0, 1], 0.35 / 3.0 + 0.1 + 0.1 * 2.0 / 3.0)),
        );
        check(
            Aim::Count(4),
            &nodes,
            &[],
            Some((&[0, 1, 2, 3], 0.35 / 6.0 + 0.1 * 2.0 / 3.0)),
        );
        check(Aim::Count(5), &nodes, &[], None);
        check(Aim::Count(1), &nodes, &[2], Some((&[2], 0.15)));
        check(Aim::Count(1), &nodes, &[0, 2], Some((&[0, 2], 0.1 + 0.05)));
    }

    #[test]
    fn a_set_that_does_not_suffice_has_no_score() {
        let places = vec![place(&[4, 1], &[0, 0], &[4, 1]), place(&[4, 0], &[0, 0], &[4, 0])];
        let aim = Aim::Amount(vec![4, 1]);
        let fixed = vec![];
        let case = Case { aim, places, fixed };
        assert_eq!(case.score(&[1]), None);
        assert!(case.score(&[0]).is_some());
        assert_eq!(case.score(&[2]), None);
        let held = Case { fixed: vec![1], ..case };
        assert_eq!(held.score(&[0]), None);
        assert!(held.score(&[0, 1]).is_some());
    }
}
