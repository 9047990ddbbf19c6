//! The nodes that the controllers choose for a reservation are the best that there are, as far as anybody can tell. All of
//! the large cases, with a longer search, run in release: `cargo run --release -p basalt-sim --example nodes`.

use basalt_audit::oracle::{Aim, Case, long_search};
use basalt_sim::nodes::{LARGE, choose, large, small};

const SMALL: u64 = 2_000;

/// What is wrong with a choice; the score that it reaches.
fn judge(case: &Case) -> Result<Option<f64>, String> {
    let Some(nodes) = choose(case) else {
        return Ok(None);
    };
    match case.score(&nodes) {
        Some(score) => Ok(Some(score)),
        None => Err(format!("{nodes:?} do not suffice")),
    }
}

#[test]
fn small_cases_are_solved_exactly() {
    let (mut solved, mut counted, mut fixed) = (0, 0, 0);
    for seed in 0..SMALL {
        let case = small(seed);
        let best = case.best().map(|found| found.score);
        match (judge(&case), best) {
            (Ok(Some(score)), Some(best)) if (score - best).abs() < 1e-9 => solved += 1,
            (Ok(None), None) => {}
            (found, best) => panic!("case {seed}: {found:?}, the best is {best:?}: {case:?}"),
        }
        counted += u32::from(matches!(case.aim, Aim::Count(_)));
        fixed += u32::from(!case.fixed.is_empty());
    }
    println!("{solved} of {SMALL} can be solved, {counted} by number, {fixed} around others");
    assert!(solved > 1_200 && counted > 300 && fixed > 200);
}

/// The comparison would notice: who takes nodes as they come until it is enough is rarely right, and who leaves one out of the best
/// set has too little.
#[test]
fn worse_choices_are_found_out() {
    let (mut worse, mut short) = (0, 0);
    for case in (0..200).map(small).filter(|case| case.fixed.is_empty()) {
        let Some(best) = case.best() else { continue };
        let mut first = (1..=case.places.len()).map(|count| (0..count).collect::<Vec<_>>());
        let greedy = first.find_map(|nodes| case.score(&nodes));
        worse += u32::from(greedy.is_some_and(|score| score < best.score - 1e-9));
        let exact = matches!(&case.aim, Aim::Amount(_)) && best.nodes.len() > 1;
        short += u32::from(
            exact
                && best
                    .nodes
                    .split_last()
                    .is_some_and(|(_, rest)| case.score(rest).is_none()),
        );
    }
    assert!(worse > 50 && short > 30, "{worse} worse, {short} short");
}

#[test]
fn large_cases_are_solved_well() {
    for number in [2, 8 + 10, 9 + 20] {
        assert!(number < LARGE);
        let (title, case) = large(number);
        let mut stretches = 100;
        let best = long_search(&case, 1, || {
            stretches -= 1;
            stretches > 0
        });
        let best = best.expect("a set that suffices").score;
        let score = judge(&case).expect("a set that suffices").expect("a set");
        assert!(score > 0.98 * best, "{title}: {score}, a search finds {best}");
    }
}
