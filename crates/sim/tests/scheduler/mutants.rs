//! Every check has been seen red: a bug is planted in the scheduler, and the auditor finds it.

use basalt_engine::mutants::{Mutant, plant};
use basalt_sim::Owners;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use crate::generate::{Plot, plot_with};
use crate::properties::cluster;

/// How many clusters are tried before a bug counts as not found.
const PLOTS: usize = 4_000;
const CYCLES: usize = 6;

/// The first cluster in which the auditor finds this promise broken.
fn look_for(conf: &str, invariant: &str, mutant: Option<Mutant>) -> Option<Plot> {
    let mut runner = TestRunner::deterministic();
    let plots = plot_with(Just(conf.to_owned()));
    for _ in 0..PLOTS {
        let plot = plots.new_tree(&mut runner).expect("a cluster").current();
        plant(mutant);
        let broken = is_broken(&plot, invariant);
        plant(None);
        if broken {
            return Some(plot);
        }
    }
    None
}

fn is_broken(plot: &Plot, invariant: &str) -> bool {
    let mut cluster = cluster(plot, 0);
    for _ in 0..CYCLES {
        let cycle = cluster.cycle();
        if cycle.findings.iter().any(|finding| finding.invariant == invariant) {
            return true;
        }
        cluster
            .carry_out(&cycle.plan, Owners::LetGo)
            .expect("objects that can be read");
        if cycle.plan.is_idle() {
            return false;
        }
    }
    false
}

/// A planted bug is found; in the same cluster without the bug nothing is.
fn check(conf: &str, cases: &[(Mutant, &str)]) {
    for &(mutant, invariant) in cases {
        let plot = look_for(conf, invariant, Some(mutant));
        let plot = plot.unwrap_or_else(|| panic!("{mutant:?} was not found as {invariant} in {PLOTS} clusters"));
        assert!(
            !is_broken(&plot, invariant),
            "{mutant:?}: {invariant} without the bug in {plot:#?}"
        );
    }
}

#[test]
fn bugs_in_placing_are_found() {
    let conf = "
actions: \"enqueue, allocate, backfill\"
tiers:
- plugins: [{name: priority}, {name: gang}]
- plugins: [{name: predicates}, {name: nodeorder}]
";
    check(
        conf,
        &[
            (Mutant::IgnoreRoom, "I1"),
            (Mutant::IgnoreMinimum, "I2"),
            (Mutant::IgnoreTaskMinimum, "I2"),
            (Mutant::IgnoreTaints, "I13"),
            (Mutant::IgnoreCordon, "I13"),
            (Mutant::IgnoreAffinity, "I13"),
            (Mutant::IgnoreGates, "I13"),
            (Mutant::BindTwice, "I7"),
            (Mutant::MiscountQueues, "I10"),
        ],
    );
}
