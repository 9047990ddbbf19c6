//! Sets of nodes: what they score, and that the best one is found.

use basalt_controllers::reservation::{Candidate, Problem, pick, reach, score, share_score};
use proptest::prelude::*;

/// A node: worth, used, idle, each with one number per dimension.
fn node(worth: &[i64], used: &[i64], idle: &[i64]) -> Candidate {
    Candidate {
        worth: worth.into(),
        used: used.into(),
        idle: idle.into(),
    }
}

fn idle(worth: &[i64]) -> Candidate {
    node(worth, &vec![0; worth.len()], worth)
}

fn problem(target: &[i64], candidates: Vec<Candidate>, fixed: &[usize]) -> Problem {
    Problem {
        target: target.to_vec(),
        candidates,
        fixed: fixed.to_vec(),
    }
}

#[test]
fn the_formula() {
    let check = |name: &str, problem: Problem, set: &[usize], expected: f64| {
        let found = score(&problem, set);
        assert!((found - expected).abs() < 1e-12, "{name}: {found}, not {expected}");
    };
    let four = |amount: i64| vec![idle(&[amount]); 4];
    check(
        "an exact fit of idle nodes",
        problem(&[20], four(10), &[]),
        &[0, 1],
        0.40 + 0.15 * (2.0 / 3.0) + 0.10,
    );
    check(
        "one node of one",
        problem(&[10], vec![idle(&[10])], &[]),
        &[0],
        0.40 + 0.15 + 0.10,
    );
    check(
        "half of the room wasted",
        problem(&[20], four(10), &[]),
        &[0, 1, 2],
        0.20 + 0.15 / 3.0 + 0.10,
    );
    check("everything", problem(&[20], four(10), &[]), &[0, 1, 2, 3], 0.10);
    check(
        "everything is asked for",
        problem(&[40], four(10), &[]),
        &[0, 1, 2, 3],
        0.40 + 0.10,
    );
    let used = vec![node(&[10], &[10], &[0]), node(&[10], &[5], &[1])];
    check("used", problem(&[10], used.clone(), &[]), &[0], 0.40 + 0.35 + 0.15);
    check(
        "used and idle in part",
        problem(&[10], used, &[]),
        &[1],
        0.40 + 0.35 * 0.5 + 0.15 + 0.10 * 0.1,
    );
    let two = vec![node(&[10, 4], &[5, 0], &[5, 2]), node(&[10, 0], &[0, 0], &[0, 0])];
    check(
        "means over dimensions",
        problem(&[5, 2], two.clone(), &[]),
        &[0],
        0.40 * (1.0 - f64::midpoint(5.0 / 15.0, 1.0)) + 0.35 * 0.25 + 0.15 + 0.10 * 0.5,
    );
    check(
        "nothing has the dimension",
        problem(&[0, 0], vec![idle(&[1, 0]); 2], &[]),
        &[0],
        0.40 * 0.75 + 0.15 + 0.05,
    );
    check(
        "nothing is worth anything",
        problem(&[0], vec![idle(&[0]); 2], &[]),
        &[0],
        0.40 + 0.15,
    );
    check("no dimension", problem(&[], vec![idle(&[]); 3], &[]), &[1], 0.55);
    check("no node", problem(&[], vec![], &[]), &[], 0.55);
    let odd = vec![node(&[-5], &[3], &[3]), node(&[5], &[-3], &[9]), node(&[5], &[], &[])];
    check(
        "negative, too much, missing",
        problem(&[5], odd, &[]),
        &[0, 1],
        0.40 + 0.15 / 2.0 + 0.10,
    );
    let plain = problem(&[5, 2], two, &[]);
    assert!((share_score(&plain, &[0]) - (0.35 * 0.25 + 0.15 + 0.10 * 0.5)).abs() < 1e-12);
}

#[test]
fn the_best_set() {
    let check = |name: &str, problem: Problem, expected: Option<&[usize]>| {
        assert_eq!(reach(&problem).as_deref(), expected, "{name}");
    };
    let four = || vec![idle(&[10]); 4];
    check(
        "names decide between equal nodes",
        problem(&[20], four(), &[]),
        Some(&[0, 1]),
    );
    check("what is fixed stays", problem(&[20], four(), &[3]), Some(&[0, 3]));
    check(
        "what is fixed is enough",
        problem(&[20], four(), &[3, 1]),
        Some(&[1, 3]),
    );
    check(
        "a place twice, and one that is not there",
        problem(&[20], four(), &[3, 3, 9]),
        Some(&[0, 3]),
    );
    check("out of reach", problem(&[41], four(), &[]), None);
    check("all of it", problem(&[40], four(), &[]), Some(&[0, 1, 2, 3]));
    check("nothing is asked for", problem(&[0], four(), &[2]), Some(&[2]));
    check("no dimension", problem(&[], four(), &[]), Some(&[]));
    check("no node", problem(&[1], vec![], &[]), None);
    check(
        "a dimension that nobody has",
        problem(&[1, 1], vec![idle(&[5, 0]); 3], &[]),
        None,
    );
    let mixed = vec![idle(&[10]), idle(&[5]), idle(&[5]), idle(&[20])];
    check("one node that fits", problem(&[20], mixed, &[]), Some(&[3]));
    let used = vec![idle(&[10]), node(&[10], &[10], &[0]), idle(&[10])];
    check("where the queue is", problem(&[10], used, &[]), Some(&[1]));
    let large = vec![idle(&[i64::MAX]), idle(&[i64::MAX - 1]), idle(&[1]), idle(&[i64::MAX])];
    check(
        "exact where sums leave 64 bits",
        problem(&[i64::MAX], large, &[]),
        Some(&[0]),
    );
}

#[test]
fn the_best_set_of_a_number() {
    let check = |name: &str, problem: Problem, count: usize, expected: Option<&[usize]>| {
        assert_eq!(pick(&problem, count).as_deref(), expected, "{name}");
    };
    let four = || vec![idle(&[10]); 4];
    check("names decide", problem(&[0], four(), &[]), 2, Some(&[0, 1]));
    check("none", problem(&[0], four(), &[]), 0, Some(&[]));
    check("all", problem(&[0], four(), &[]), 4, Some(&[0, 1, 2, 3]));
    check("more than there are", problem(&[0], four(), &[]), 5, None);
    check("fewer than are fixed", problem(&[0], four(), &[1, 2]), 1, None);
    check(
        "the target does not matter",
        problem(&[99], four(), &[2]),
        2,
        Some(&[0, 2]),
    );
    let used = vec![node(&[10], &[0], &[9]), node(&[10], &[9], &[0]), idle(&[10])];
    check("used before idle", problem(&[0], used, &[]), 2, Some(&[1, 2]));
}

/// All sets that contain the fixed nodes, and the first of the best of them.
fn brute(problem: &Problem, allowed: impl Fn(&[usize]) -> bool, value: impl Fn(&[usize]) -> f64) -> Option<Vec<usize>> {
    let sets = (0u32..1 << problem.candidates.len()).map(|bits| {
        let inside = |place: &usize| bits & (1 << place) != 0;
        (0..problem.candidates.len()).filter(inside).collect::<Vec<_>>()
    });
    let allowed = |set: &Vec<usize>| problem.fixed.iter().all(|place| set.contains(place)) && allowed(set);
    let rated: Vec<(f64, Vec<usize>)> = sets.filter(allowed).map(|set| (value(&set), set)).collect();
    let highest = rated.iter().map(|(value, _)| *value).fold(f64::NEG_INFINITY, f64::max);
    let best = rated.into_iter().filter(|(value, _)| *value > highest - 1e-12);
    best.map(|(_, set)| set).min_by_key(|set| (set.len(), set.clone()))
}

/// Whether a set has what is asked for.
fn enough(problem: &Problem, set: &[usize]) -> bool {
    problem.target.iter().enumerate().all(|(dimension, &target)| {
        let worth = |&place: &usize| i128::from(problem.candidates[place].worth[dimension].max(0));
        set.iter().map(worth).sum::<i128>() >= i128::from(target)
    })
}

/// Amounts of one dimension: worth, and inside it used and idle.
fn amounts(largest: i64) -> impl Strategy<Value = (i64, i64, i64)> {
    (0..=largest, 0..=100i64, 0..=100i64).prop_map(|(worth, used, idle)| {
        let part = |whole: i64, percent: i64| (i128::from(whole) * i128::from(percent) / 100) as i64;
        let used = part(worth, used);
        (worth, used, part(worth - used, idle))
    })
}

/// Small problems; small numbers and equal nodes make many ties.
fn problems() -> impl Strategy<Value = Problem> {
    let sizes = (
        1..=3usize,
        1..=11usize,
        prop_oneof![Just(3), Just(1000), Just(1 << 40), Just(i64::MAX)],
    );
    let inside = |(dimensions, nodes, largest): (usize, usize, i64)| {
        let node = prop::collection::vec(amounts(largest), dimensions).prop_map(|amounts| Candidate {
            worth: amounts.iter().map(|amount| amount.0).collect(),
            used: amounts.iter().map(|amount| amount.1).collect(),
            idle: amounts.iter().map(|amount| amount.2).collect(),
        });
        let kinds = prop::collection::vec(node, nodes);
        let which = prop::collection::vec(any::<prop::sample::Index>(), nodes);
        let shares = prop::collection::vec(0..=105i128, dimensions);
        (
            kinds,
            any::<bool>(),
            which,
            shares,
            prop::collection::vec(0..nodes, 0..=2),
        )
    };
    sizes
        .prop_flat_map(inside)
        .prop_map(|(kinds, repeat, which, shares, fixed)| {
            let again = || {
                which
                    .iter()
                    .map(|index| index.get(&kinds[..kinds.len().min(3)]).clone())
                    .collect()
            };
            let candidates: Vec<Candidate> = if repeat { again() } else { kinds.clone() };
            let target = shares.iter().enumerate().map(|(dimension, share)| {
                let total: i128 = candidates.iter().map(|node| i128::from(node.worth[dimension])).sum();
                i64::try_from(total * share / 100).unwrap_or(i64::MAX)
            });
            Problem {
                target: target.collect(),
                candidates,
                fixed,
            }
        })
}

/// A larger problem: nodes that all differ, a part of them in use.
fn large(seed: u64, nodes: usize, dimensions: usize, percent: i128) -> Problem {
    let mut state = seed;
    let mut below = |limit: i64| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33).cast_signed() % limit
    };
    let mut candidate = || {
        let mut node = Candidate::default();
        let (mine, free) = (below(4) == 0, below(101));
        for _ in 0..dimensions {
            let worth = 100 + below(1_000_000);
            node.worth.push(worth);
            node.used.push(if mine { worth * (100 - free) / 100 } else { 0 });
            node.idle.push(worth * free / 100);
        }
        node
    };
    let candidates: Vec<Candidate> = (0..nodes).map(|_| candidate()).collect();
    let total = |dimension: usize| {
        candidates
            .iter()
            .map(|node| i128::from(node.worth[dimension]))
            .sum::<i128>()
    };
    let target = (0..dimensions)
        .map(|dimension| (total(dimension) * percent / 100) as i64)
        .collect();
    Problem {
        target,
        candidates,
        fixed: vec![nodes / 2],
    }
}

/// The best of some plain guesses: nodes by what is used, or by what is idle, or by name, until it is enough.
fn plain_guess(problem: &Problem) -> f64 {
    let orders: [fn(&Candidate) -> i64; 3] = [|node| -node.used[0], |node| -node.idle[0], |_| 0];
    let value = |key: fn(&Candidate) -> i64| {
        let mut order: Vec<usize> = (0..problem.candidates.len()).collect();
        order.sort_by_key(|&place| (!problem.fixed.contains(&place), key(&problem.candidates[place])));
        let count = (0..=order.len()).find(|&count| enough(problem, &order[..count]) && count > 0);
        score(problem, &order[..count.expect("all nodes are enough")])
    };
    orders.into_iter().map(value).fold(0.0, f64::max)
}

#[test]
fn large_problems() {
    let shapes = [
        (40, 1, 5),
        (40, 3, 95),
        (120, 2, 30),
        (120, 4, 70),
        (300, 3, 1),
        (3_000, 2, 10),
    ];
    for (seed, (nodes, dimensions, percent)) in (1..).zip(shapes) {
        let problem = large(seed, nodes, dimensions, percent);
        let name = format!("{nodes} nodes, {dimensions} dimensions, {percent} %");
        let set = reach(&problem).expect(&name);
        assert!(set.is_sorted_by(|one, other| one < other), "{name}: sorted");
        assert!(set.contains(&(nodes / 2)) && enough(&problem, &set), "{name}: enough");
        assert_eq!(reach(&problem), Some(set.clone()), "{name}: always the same");
        let (found, plain) = (score(&problem, &set), plain_guess(&problem));
        assert!(found >= plain, "{name}: {found} is worse than {plain}");
        let alone = |&place: &usize| {
            let less: Vec<usize> = set.iter().copied().filter(|&other| other != place).collect();
            place != nodes / 2 && enough(&problem, &less) && score(&problem, &less) > found + 1e-12
        };
        assert!(nodes > 300 || !set.iter().any(alone), "{name}: a node is not needed");
        let count = set.len();
        let picked = pick(&problem, count).expect(&name);
        assert_eq!(
            (picked.len(), picked.contains(&(nodes / 2))),
            (count, true),
            "{name}: picked"
        );
        assert!(
            share_score(&problem, &picked) >= share_score(&problem, &set),
            "{name}: the number is enough"
        );
    }
}

#[test]
fn large_numbers() {
    let huge = |mut problem: Problem| {
        let amounts = problem
            .candidates
            .iter_mut()
            .flat_map(|node| [&mut node.worth, &mut node.used, &mut node.idle]);
        amounts
            .flatten()
            .chain(&mut problem.target)
            .for_each(|amount| *amount *= 1 << 36);
        problem
    };
    let problem = large(9, 80, 2, 40);
    let (set, same) = (
        reach(&problem).expect("a set"),
        reach(&huge(problem.clone())).expect("a set"),
    );
    assert!(enough(&problem, &same) && (score(&problem, &set) - score(&problem, &same)).abs() < 1e-3);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn no_set_that_is_enough_scores_higher(problem in problems()) {
        prop_assume!(problem.target.iter().any(|&target| target > 0));
        let expected = brute(&problem, |set| enough(&problem, set), |set| score(&problem, set));
        prop_assert_eq!(reach(&problem), expected);
    }

    #[test]
    fn no_set_of_as_many_scores_higher(problem in problems(), count in 0..=12usize) {
        let expected = brute(&problem, |set| set.len() == count, |set| share_score(&problem, set));
        prop_assert_eq!(pick(&problem, count), expected);
    }

    #[test]
    fn the_order_of_the_nodes_does_not_change_the_score(problem in problems(), turn in 0..11usize) {
        let mut turned = problem.clone();
        let nodes = problem.candidates.len();
        turned.candidates.rotate_left(turn % nodes);
        turned.fixed = problem.fixed.iter().map(|place| (place + nodes - turn % nodes) % nodes).collect();
        let value = |problem: &Problem| reach(problem).map(|set| score(problem, &set));
        match (value(&problem), value(&turned)) {
            (Some(one), Some(other)) => prop_assert!((one - other).abs() < 1e-12),
            (one, other) => prop_assert_eq!(one, other),
        }
    }
}
