//! Every check has been seen red: a bug is planted in the scheduler, and the auditor finds it.

use basalt_audit::Finding;
use basalt_engine::mutants::{Mutant, plant};
use basalt_sim::Owners;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use crate::generate::{Plot, crowded, crowded_with, plot_with};
use crate::properties::cluster;

/// How many clusters are tried before a bug counts as not found.
const PLOTS: usize = 2_000;
const CYCLES: usize = 3;

/// The first cluster in which the auditor finds this promise broken.
fn look_for(plots: &BoxedStrategy<Plot>, invariant: &str, mutant: Mutant) -> Option<Plot> {
    let mut runner = TestRunner::deterministic();
    for _ in 0..PLOTS {
        let plot = plots.new_tree(&mut runner).expect("a cluster").current();
        plant(Some(mutant));
        let found = findings(&plot, invariant);
        plant(None);
        if !found.is_empty() {
            return Some(plot);
        }
    }
    None
}

/// What the auditor finds about this promise in the first cycle in which it finds anything.
fn findings(plot: &Plot, invariant: &str) -> Vec<Finding> {
    let mut cluster = cluster(plot, 0);
    for _ in 0..CYCLES {
        let mut cycle = cluster.cycle();
        cycle.findings.retain(|finding| finding.invariant == invariant);
        if !cycle.findings.is_empty() {
            return cycle.findings;
        }
        cluster
            .carry_out(&cycle.plan, Owners::LetGo)
            .expect("objects that can be read");
        if cycle.plan.is_idle() {
            break;
        }
    }
    Vec::new()
}

/// A planted bug is found; in the same cluster without the bug nothing is.
fn check(plots: impl Strategy<Value = Plot> + 'static, cases: &[(Mutant, &str)]) {
    let plots = plots.boxed();
    for &(mutant, invariant) in cases {
        let plot = look_for(&plots, invariant, mutant);
        let plot = plot.unwrap_or_else(|| panic!("{mutant:?} was not found as {invariant} in {PLOTS} clusters"));
        let found = findings(&plot, invariant);
        assert!(found.is_empty(), "{mutant:?}: without the bug {found:#?} in {plot:#?}");
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
        plot_with(Just(conf.to_owned())),
        &[
            (Mutant::IgnoreRoom, "I1"),
            (Mutant::IgnoreMinimum, "I2"),
            (Mutant::IgnoreTaskMinimum, "I2"),
            (Mutant::IgnoreTaints, "I13"),
            (Mutant::IgnoreCordon, "I13"),
            (Mutant::IgnoreAffinity, "I13"),
            (Mutant::IgnoreGates, "I13"),
            (Mutant::IgnorePorts, "I1"),
            (Mutant::IgnoreAntiAffinity, "I13"),
            (Mutant::IgnorePodAffinity, "I13"),
            (Mutant::BindTwice, "I7"),
            (Mutant::MiscountQueues, "I10"),
        ],
    );
}

#[test]
fn bugs_in_sharing_are_found() {
    let conf = "
actions: \"enqueue, allocate, backfill\"
tiers:
- plugins: [{name: priority}, {name: gang}]
- plugins: [{name: predicates}, {name: capacity, enableHierarchy: true}]
";
    check(
        plot_with(Just(conf.to_owned())),
        &[
            (Mutant::IgnoreCapability, "I3"),
            (Mutant::IgnoreAncestors, "I3"),
            (Mutant::IgnoreGuarantees, "I4"),
            (Mutant::MiscountDeserved, "I10"),
            (Mutant::ServeInnerQueues, "I3"),
        ],
    );
}

#[test]
fn bugs_in_reclaiming_are_found() {
    let conf = "
actions: \"enqueue, allocate, reclaim, backfill\"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}, {name: pdb}]
- plugins: [{name: predicates}, {name: capacity}]
";
    check(
        crowded(conf),
        &[
            (Mutant::TakeGuaranteed, "I4"),
            (Mutant::IgnoreDeserved, "I5"),
            (Mutant::ReclaimBeyondDue, "I5"),
            (Mutant::BreakGangs, "I5"),
            (Mutant::TakeProtected, "I5"),
            (Mutant::TakeCritical, "I5"),
            (Mutant::TakeUnreclaimable, "I5"),
            (Mutant::EvictForNothing, "I5"),
            (Mutant::EvictInVain, "I5"),
            (Mutant::IgnoreBudgets, "I5"),
        ],
    );
}

#[test]
fn bugs_in_preempting_are_found() {
    let conf = "
actions: \"enqueue, allocate, preempt\"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}]
- plugins: [{name: predicates}]
";
    let cases = [Mutant::IgnorePriority, Mutant::BreakGangs, Mutant::TakeProtected];
    check(crowded(conf), &cases.map(|mutant| (mutant, "I5")));
}

/// Bugs of every action on gangs and of the plain one beside it: each is judged by its own rules.
fn both_ways(actions: &str, cases: &[Mutant]) {
    let conf = format!(
        "
actions: \"enqueue, allocate, {actions}\"
tiers:
- plugins: [{{name: priority}}, {{name: gang}}, {{name: conformance}}]
- plugins: [{{name: predicates}}, {{name: capacity}}]
"
    );
    let cases: Vec<_> = cases.iter().map(|&mutant| (mutant, "I5")).collect();
    check(crowded(&conf), &cases);
}

#[test]
fn bugs_in_taking_gangs_are_found() {
    let gangs = [
        Mutant::TakePartOfGang,
        Mutant::TakeProtectedGroups,
        Mutant::LetNobodyOff,
    ];
    both_ways("gangreclaim", &[Mutant::IgnoreDeserved]);
    for actions in ["reclaim, gangreclaim", "preempt, gangpreempt"] {
        both_ways(actions, &gangs);
    }
}

#[test]
fn bugs_of_plain_actions_are_found_beside_gangs() {
    let plain = [Mutant::BreakGangs, Mutant::HuntEverywhere, Mutant::TakeProtected];
    for actions in ["reclaim, gangreclaim", "preempt, gangpreempt"] {
        both_ways(actions, &plain);
    }
    both_ways("reclaim", &[Mutant::MisnameAction]);
}

#[test]
fn bugs_about_neighbours_that_go_are_found() {
    let conf = "
actions: \"enqueue, reclaim, allocate\"
tiers:
- plugins: [{name: priority}, {name: gang}]
- plugins: [{name: predicates}, {name: capacity}]
";
    check(
        crowded_with(conf, &["", "", "", "apart", "together"]),
        &[(Mutant::JoinLeaving, "I13")],
    );
}
