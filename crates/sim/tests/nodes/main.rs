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
