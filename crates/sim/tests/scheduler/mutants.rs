//! Every check has been seen red: a bug is planted in the scheduler, and the auditor finds it.

use basalt_audit::Finding;
use basalt_sim::Owners;
use basalt_testkit::mutants::{Mutant, plant};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use serde_json::json;

use crate::generate::{Group, Locks, Node, Plot, Queue, crowded, crowded_with, locked, plot_with};
use crate::properties::cluster;

/// How many clusters are tried before a bug counts as not found: the rarest shows in one of thousands.
const PLOTS: usize = 20_000;
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
        cycle.findings.retain(|finding| finding.invariant.id() == invariant);
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
fn bugs_in_reserving_are_found() {
    let conf = "
actions: \"enqueue, allocate, reclaim, backfill\"
tiers:
- plugins: [{name: priority}, {name: gang}]
- plugins: [{name: predicates}, {name: capacity, enableHierarchy: true}, {name: node_reservation}]
";
    check(
        locked(conf),
        &[
            (Mutant::IgnoreLocks, "R1"),
            (Mutant::ObeyTopHolder, "R1"),
            (Mutant::IgnoreGuarantees, "I4"),
            (Mutant::EvictForBestEffort, "R2"),
            (Mutant::EvictForOwn, "R2"),
            (Mutant::EvictBeyondTarget, "R2"),
            (Mutant::TakeCritical, "R2"),
            (Mutant::TakePartOfIntruder, "I5"),
            (Mutant::TakeProtected, "I5"),
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

/// A cluster made by hand, for what random ones hardly ever show: one node, and queues that deserve so many cores.
fn by_hand(conf: &str, cpu: u32, deserved: &[u32], groups: Vec<Group>) -> Plot {
    let queue = |&deserved: &u32| Queue {
        parent: None,
        weight: 1,
        priority: 0,
        deserved: Some(deserved),
        guarantee: None,
        capability: None,
        reclaimable: true,
    };
    Plot {
        conf: conf.to_owned(),
        nodes: vec![Node {
            cpu,
            memory: 20,
            pods: 20,
            gpu: 0,
            oddity: "",
        }],
        queues: deserved.iter().map(queue).collect(),
        groups,
        budget: None,
        locks: Locks::default(),
    }
}

/// A group of a queue: so many pods of so many cores, which run already or do not.
fn group(queue: usize, (min, pods): (u32, u32), cpu: u32, runs: bool) -> Group {
    Group {
        queue,
        min,
        pods,
        running: if runs { pods } else { 0 },
        cpu,
        memory: 1,
        class: "",
        oddity: "",
    }
}

/// In this cluster the bug breaks this promise and no other; without the bug none is broken. The pods named are on their
/// way out.
fn check_by_hand(plot: &Plot, leaving: &[&str], mutant: Mutant, invariant: &str) {
    for (planted, expected) in [(Some(mutant), &[invariant][..]), (None, &[])] {
        let mut cluster = cluster(plot, 0);
        for mut pod in plot.objects() {
            if leaving.iter().any(|name| pod["metadata"]["name"] == *name) {
                pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
                cluster.put(pod).expect("a pod that can be read");
            }
        }
        plant(planted);
        let findings = cluster.cycle().findings;
        plant(None);
        let found: Vec<&str> = findings.iter().map(|finding| finding.invariant.id()).collect();
        assert_eq!(found, expected, "{planted:?}: {findings:#?}");
    }
}

#[test]
fn bugs_about_pods_that_leave_are_found() {
    let conf = "
actions: \"enqueue, allocate, backfill\"
tiers:
- plugins: [{name: priority}, {name: gang}]
- plugins: [{name: predicates}, {name: nodeorder}]
";
    let leaves = group(0, (1, 1), 2, true);
    let full = by_hand(conf, 2, &[2], vec![leaves.clone(), group(0, (1, 1), 2, false)]);
    check_by_hand(&full, &["g0-w-0"], Mutant::TakeLeavingRoom, "I1");
    // Who waits must be apart from pods of the second group.
    let shy = Group {
        oddity: "apart",
        ..group(0, (1, 1), 1, false)
    };
    let neighbours = by_hand(conf, 4, &[4], vec![shy, leaves]);
    check_by_hand(&neighbours, &["g1-w-0"], Mutant::MeetLeaving, "I13");
}

#[test]
fn a_gang_that_loses_more_than_its_surplus_is_found() {
    let conf = "
actions: \"enqueue, allocate, gangreclaim\"
tiers:
- plugins: [{name: priority}, {name: gang}]
- plugins: [{name: predicates}, {name: capacity}]
";
    let plot = by_hand(
        conf,
        4,
        &[1, 3],
        vec![group(0, (2, 4), 1, true), group(1, (3, 3), 1, false)],
    );
    check_by_hand(&plot, &[], Mutant::TakeBeyondSurplus, "I5");
}
