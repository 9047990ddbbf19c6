//! What holds for every cluster and every configuration.

use basalt_sim::{Cluster, Cycle, Owners};
use proptest::prelude::*;

use crate::generate::{Plot, plot};

/// How many cases a property has; `PROPTEST_CASES` asks for more.
fn cases(few: u32) -> ProptestConfig {
    let asked = std::env::var("PROPTEST_CASES").ok().and_then(|word| word.parse().ok());
    ProptestConfig {
        cases: asked.unwrap_or(few),
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
