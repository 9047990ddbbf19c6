//! What holds for every cluster and every configuration.

use std::collections::BTreeMap;

use basalt_sim::{Cluster, Cycle, Owners};
use proptest::prelude::*;
use proptest::strategy::Union;
use proptest::test_runner::RngSeed;

use crate::generate::{Plot, locked, plot};

/// How many cases a property has; `PROPTEST_CASES` asks for more.
pub(crate) fn cases(few: u32) -> ProptestConfig {
    let number = |name| std::env::var(name).ok().and_then(|word| word.parse::<u64>().ok());
    ProptestConfig {
        cases: number("PROPTEST_CASES").map_or(few, |asked| u32::try_from(asked).unwrap_or(u32::MAX)),
        rng_seed: RngSeed::Fixed(number("PROPTEST_RNG_SEED").unwrap_or(0)),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

pub(crate) fn cluster(plot: &Plot, seed: u64) -> Cluster {
    let mut cluster = Cluster::new(&plot.conf, seed).expect("a configuration");
    for object in plot.objects() {
        cluster.put(object).expect("an object that can be read");
    }
    cluster
}

/// Runs cycles until nothing more happens; panics if that takes too long or the auditor finds something.
fn settle(plot: &Plot, owners: Owners, cycles: usize) -> Result<Vec<Cycle>, TestCaseError> {
    let mut cluster = cluster(plot, 0);
    let mut past = Vec::new();
    for _ in 0..cycles {
        let cycle = cluster.cycle();
        prop_assert!(
            cycle.findings.is_empty(),
            "cycle {}: {:#?}\n{:#?}",
            past.len(),
            cycle.findings,
            cycle.decision
        );
        cluster
            .carry_out(&cycle.plan, owners)
            .expect("objects that can be read");
        let quiet = cycle.plan.is_idle();
        past.push(cycle);
        if quiet {
            return Ok(past);
        }
    }
    let last: Vec<_> = past.iter().rev().take(3).map(|cycle| &cycle.decision).collect();
    Err(TestCaseError::fail(format!("never comes to rest: {last:#?}")))
}

proptest! {
    #![proptest_config(cases(400))]

    /// Binds run, evicted pods are gone: the auditor is content after every cycle, and the cluster comes to rest.
    #[test]
    fn the_auditor_finds_nothing(plot in plot()) {
        settle(&plot, Owners::LetGo, 40)?;
    }

    /// Owners make evicted pods again; nobody else does anything: no circles, and the cluster comes to rest.
    #[test]
    fn evictions_do_not_go_round_in_circles(plot in plot()) {
        settle(&plot, Owners::MakeAgain, 60)?;
    }
}

/// Clusters with locked nodes whose configuration lists the action `reserve` at some place.
fn reserving() -> impl Strategy<Value = Plot> {
    let places = [
        "reserve, enqueue, allocate, reclaim, backfill",
        "enqueue, reserve, allocate, reclaim, backfill",
        "enqueue, allocate, reserve, reclaim, backfill",
        "enqueue, allocate, reclaim, backfill, reserve",
    ];
    let plots = places.map(|actions| {
        let conf = format!(
            "
actions: \"{actions}\"
tiers:
- plugins: [{{name: priority}}, {{name: gang}}, {{name: conformance}}, {{name: pdb}}]
- plugins: [{{name: predicates}}, {{name: capacity, enableHierarchy: true}}, {{name: node_reservation}}]
"
        );
        locked(&conf).boxed()
    });
    Union::new(plots)
}

proptest! {
    #![proptest_config(cases(200))]

    /// Evictions for guarantees keep all promises wherever they stand among the actions.
    #[test]
    fn the_auditor_finds_nothing_wherever_reserve_is_listed(plot in reserving()) {
        settle(&plot, Owners::LetGo, 40)?;
    }
}

/// Everything that a cluster decides until it comes to rest, written down.
fn written(plot: &Plot, seed: u64) -> String {
    let mut cluster = cluster(plot, seed);
    let mut lines = String::new();
    for _ in 0..10 {
        let cycle = cluster.cycle();
        lines.push_str(&serde_json::to_string(&cycle.plan).expect("plain data"));
        lines.push('\n');
        cluster
            .carry_out(&cycle.plan, Owners::MakeAgain)
            .expect("objects that can be read");
        if cycle.plan.is_idle() {
            break;
        }
    }
    lines
}

/// What queues are said to deserve, by queue and dimension.
fn deserved(plot: &Plot) -> BTreeMap<(String, String), i64> {
    let report = cluster(plot, 0).cycle().decision.queues;
    let each = report.into_iter().flat_map(|(queue, report)| {
        let deserved = report.deserved.unwrap_or_default().into_iter();
        deserved.map(move |(dim, amount)| ((queue.clone(), dim), amount))
    });
    each.collect()
}

proptest! {
    #![proptest_config(cases(100))]

    /// The same input and seed give the same bytes, in this thread and in others at the same time.
    #[test]
    fn the_same_input_gives_the_same_bytes(plot in plot(), seed in 0..5_u64) {
        let expected = written(&plot, seed);
        std::thread::scope(|scope| {
            let runs: Vec<_> = (0..3).map(|_| scope.spawn(|| written(&plot, seed))).collect();
            for run in runs {
                assert_eq!(run.join().expect("no panic"), expected);
            }
        });
    }

    /// Who is guaranteed more does not deserve less.
    #[test]
    fn a_larger_guarantee_never_lowers_what_is_deserved(plot in plot(), at in 0..4_usize, more in 1..4_u32) {
        let at = at % plot.queues.len();
        let mut raised = plot.clone();
        raised.queues[at].guarantee = Some(plot.queues[at].guarantee.unwrap_or(0) + more);
        let (before, after) = (deserved(&plot), deserved(&raised));
        for ((queue, dim), amount) in before.into_iter().filter(|((queue, _), _)| *queue == format!("q{at}")) {
            let now = after.get(&(queue.clone(), dim.clone())).copied().unwrap_or(0);
            prop_assert!(now >= amount, "{queue} deserved {amount} {dim}, and {now} with a larger guarantee");
        }
    }
}
