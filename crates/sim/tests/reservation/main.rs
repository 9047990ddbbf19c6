//! Locks hold whatever goes wrong, and what breaks them is seen. More of it runs in release: `cargo run --release -p
//! basalt-sim --example reservations`.

use basalt_audit::Rules;
use basalt_engine::Conf;
use basalt_engine::conf::EMBEDDED;
use basalt_sim::Snapshot;
use basalt_sim::reservation::{Stream, histories, run_seed, run_stream, small_cluster};
use basalt_testkit::mutants::{Mutant, plant};

fn scene() -> (Conf, Rules, Snapshot) {
    let conf = Conf::embedded();
    let small = small_cluster(&conf).expect("a small cluster comes to rest");
    (conf, basalt_sim::rules(EMBEDDED).expect("rules"), small)
}

#[test]
fn locks_hold_in_random_histories() {
    let (conf, rules, small) = scene();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let (ran, failures) = histories(&conf, &rules, &small, 0, 60, threads);
    println!("{ran}");
    if let Some(failure) = failures.first() {
        panic!("{} histories failed, one of them:\n{failure}", failures.len());
    }
    assert!(ran.steps > 50_000 && ran.locked > 1_000 && ran.judged > 1_000, "{ran}");
}

#[test]
fn the_same_seed_does_the_same() {
    let (conf, rules, small) = scene();
    let log = |_| run_seed(&conf, &rules, &small, 5, true).2;
    let [first, second] = [0, 1].map(log);
    assert!(first.lines().count() > 100 && first == second);
}

/// A bug is planted in the scheduler; the same history without it is clean.
#[test]
fn planted_bugs_are_found() {
    let (conf, rules, small) = scene();
    for (mutant, expected) in [
        (Mutant::IgnoreLocks, "R1"),
        (Mutant::ObeyTopHolder, "R1"),
        (Mutant::EvictForBestEffort, "R2"),
    ] {
        let found = (0..300).find(|seed| {
            plant(Some(mutant));
            let (_, failure, _) = run_seed(&conf, &rules, &small, *seed, false);
            plant(None);
            let hit = |finding: &String| finding.starts_with(expected);
            failure.is_some_and(|failure| failure.findings.iter().any(hit))
        });
        let seed = found.unwrap_or_else(|| panic!("{mutant:?} was not found as {expected}"));
        println!("{mutant:?} was found as {expected} with seed {seed}");
        let (_, failure, _) = run_seed(&conf, &rules, &small, seed, false);
        assert!(failure.is_none(), "{mutant:?}: without it {failure:?}");
    }
}

/// The gang starts when the small jobs that ran when it came have ended; without locked nodes it does not start at all.
#[test]
fn a_gang_beside_a_stream_of_small_jobs_starts_with_a_reservation_only() {
    let conf = Conf::embedded();
    for reserved in [false, true] {
        let stream = Stream {
            reserved,
            before: 700,
            after: 900,
            seed: 3,
        };
        let curve = run_stream(&conf, stream).expect("time passes");
        assert!(curve.remaining > 300 && curve.finished > 20, "{curve:?}");
        let in_time = curve.started.is_some_and(|started| started <= curve.remaining + 20);
        assert_eq!(in_time, reserved, "{curve:?}");
        assert_eq!(curve.started.is_some(), reserved, "{curve:?}");
    }
}
