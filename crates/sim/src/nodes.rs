//! Cases of nodes to choose for a reservation: made up, chosen from by the controllers, and known to the auditor's oracle.

use basalt_audit::oracle::{Aim, Case, Place};
use basalt_controllers::reservation::{Candidate, Problem, pick, reach};

use crate::Whim;

/// How many large cases there are.
pub const LARGE: usize = 40;

/// The set that the controllers choose.
pub fn choose(case: &Case) -> Option<Vec<usize>> {
    let candidate = |place: &Place| Candidate {
        worth: place.worth.as_slice().into(),
        used: place.used.as_slice().into(),
        idle: place.idle.as_slice().into(),
    };
    let mut problem = Problem {
        target: Vec::new(),
        candidates: case.places.iter().map(candidate).collect(),
        fixed: case.fixed.clone(),
    };
    match &case.aim {
        Aim::Amount(target) => {
            problem.target.clone_from(target);
            reach(&problem)
        }
        Aim::Count(count) => {
            // Amounts say only which dimensions there are.
            problem.target = vec![0; case.places.first().map_or(0, |place| place.worth.len())];
            pick(&problem, *count)
        }
    }
}

/// A part of an amount.
fn part(amount: i64, whim: &mut Whim, percent: usize) -> i64 {
    let share = i64::try_from(whim.below(percent + 1)).unwrap_or(0);
    amount.saturating_mul(share) / 100
}

/// A node of a size: the queue uses up to so many percent of it, and others up to so many.
fn place(worth: Vec<i64>, whim: &mut Whim, used: usize, others: usize) -> Place {
    let used: Vec<i64> = worth.iter().map(|&amount| part(amount, whim, used)).collect();
    let idle = |(&worth, &used): (&i64, &i64)| worth - used - part(worth - used, whim, others);
    let idle = worth.iter().zip(&used).map(idle).collect();
    Place { worth, used, idle }
}

/// The worth of some nodes together.
fn total(places: &[Place], dim: usize) -> i64 {
    places.iter().filter_map(|place| place.worth.get(dim)).sum()
}

/// A case with up to 16 nodes: from all alike to all different, with and without what queues below hold.
pub fn small(seed: u64) -> Case {
    let mut whim = Whim::seeded(seed);
    let dims = 1 + whim.below(3);
    let count = 1 + whim.below(16);
    let sizes = [1, 2, 3, 50][whim.below(4)];
    let unit = [1, 4, 1_000, 1 << 30][whim.below(4)];
    let (used, others) = ([0, 30, 100][whim.below(3)], [0, 50, 100][whim.below(3)]);
    let mut places = Vec::new();
    for _ in 0..count {
        // Now and then a node has none of something.
        let worth = (0..dims).map(|_| {
            let size = i64::try_from(whim.below(sizes) + 1).unwrap_or(1);
            if whim.below(20) == 0 { 0 } else { size * unit }
        });
        let worth = worth.collect();
        places.push(place(worth, &mut whim, used, others));
    }
    let mut fixed: Vec<usize> = (0..count).filter(|_| whim.below(8) == 0).collect();
    if whim.below(3) > 0 {
        fixed.clear();
    }
    let aim = if whim.below(4) == 0 {
        Aim::Count((1 + whim.below(count)).max(fixed.len()))
    } else {
        // From almost nothing to a little more than there is; exactly what some nodes have, often.
        let exact: Vec<usize> = (0..count).filter(|_| whim.below(2) == 0).collect();
        let percent = 1 + whim.below(110);
        let is_exact = whim.below(2) == 0;
        let target = |dim: usize| {
            let all = total(&places, dim);
            let some = exact.iter().filter_map(|&at| places.get(at)?.worth.get(dim)).sum();
            let share = all.saturating_mul(i64::try_from(percent).unwrap_or(1)) / 100;
            if is_exact { some } else { share }
        };
        let mut target: Vec<i64> = (0..dims).map(target).collect();
        if target.iter().all(|amount| *amount == 0) {
            target[0] = 1;
        }
        Aim::Amount(target)
    };
    Case { aim, places, fixed }
}

/// A kind of large cluster.
struct Kind {
    title: &'static str,
    /// How large nodes are: one of these in each dimension, times a unit; none: anything up to 64.
    sizes: &'static [i64],
    /// Up to so many percent of a node are in use by the queue, on one node in so many.
    used: usize,
    one_in: usize,
    /// Up to so many percent of the rest are in use by others.
    others: usize,
    /// What is asked for, in percent of all.
    target: i64,
    /// By number of nodes instead.
    by_count: bool,
    /// One node in so many is held by a queue below; none: 0.
    fixed: usize,
    /// One node in so many has none of the last dimension; none: 0.
    lacking: usize,
}

const KINDS: [Kind; 10] = [
    kind("all alike, busy", &[16], 20, 10, 100, 20),
    kind("three sizes", &[8, 16, 64], 50, 10, 80, 20),
    kind("all different", &[], 50, 10, 80, 20),
    kind("all different, half of it", &[], 100, 4, 100, 50),
    kind("all different, almost all", &[], 20, 3, 60, 90),
    kind("all different, very little", &[], 50, 20, 100, 2),
    kind("awkward sizes", &[7, 11, 13, 17, 19, 23], 0, 1, 90, 15),
    Kind {
        lacking: 5,
        ..kind("few have the last dimension", &[8, 16, 32], 60, 8, 90, 10)
    },
    Kind {
        fixed: 12,
        ..kind("around what children hold", &[], 80, 6, 70, 30)
    },
    Kind {
        by_count: true,
        ..kind("a percentage of the nodes", &[], 80, 5, 100, 20)
    },
];

const fn kind(
    title: &'static str,
    sizes: &'static [i64],
    used: usize,
    one_in: usize,
    others: usize,
    target: i64,
) -> Kind {
    Kind {
        title,
        sizes,
        used,
        one_in,
        others,
        target,
        by_count: false,
        fixed: 0,
        lacking: 0,
    }
}

/// One of the large cases, and what it is called: ten kinds of clusters with 100, 200, 500 and 1,000 nodes and one to four
/// dimensions.
pub fn large(number: usize) -> (String, Case) {
    let kind = &KINDS[number % KINDS.len()];
    let size = number / KINDS.len() % 4;
    let (count, dims) = ([100, 200, 500, 1_000][size], 1 + (number + size) % 4);
    let mut whim = Whim::seeded(u64::try_from(number).unwrap_or(0) + 1);
    let mut places = Vec::new();
    for _ in 0..count {
        let poor = kind.lacking > 0 && whim.below(kind.lacking) > 0;
        let worth = (0..dims).map(|dim| {
            let size = match kind.sizes.get(whim.below(kind.sizes.len().max(1))) {
                Some(size) => *size,
                None => i64::try_from(whim.below(64) + 1).unwrap_or(1),
            };
            let unit = [1_000, 1 << 30, 1, 1][dim];
            if poor && dims > 1 && dim + 1 == dims {
                0
            } else {
                size * unit
            }
        });
        let worth = worth.collect();
        let used = if whim.below(kind.one_in) == 0 { kind.used } else { 0 };
        places.push(place(worth, &mut whim, used, kind.others));
    }
    let fixed: Vec<usize> = (0..count)
        .filter(|_| kind.fixed > 0 && whim.below(kind.fixed) == 0)
        .collect();
    let share = |whole: i64| whole.saturating_mul(kind.target) / 100;
    let aim = if kind.by_count {
        Aim::Count(
            usize::try_from(share(i64::try_from(count).unwrap_or(0)))
                .unwrap_or(1)
                .max(1),
        )
    } else {
        Aim::Amount((0..dims).map(|dim| share(total(&places, dim))).collect())
    };
    let title = format!("{}, {count} nodes, {dims} dimensions", kind.title);
    (title, Case { aim, places, fixed })
}
