//! The long runs, whole: CI does a short slice of each.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// One run: what it is called, a variable of its environment, the arguments of cargo, divided by spaces.
type Run = (&'static str, Option<(&'static str, &'static str)>, &'static str);

const RUNS: [Run; 11] = [
    (
        "200 kills of the real server under load",
        Some(("BASALT_CRASH_KILLS", "200")),
        "test --release -p basalt --test it -- crash --nocapture",
    ),
    (
        "100 kills of the real server while real processes run on this machine",
        Some(("BASALT_LOCAL_KILLS", "100")),
        "test --release -p basalt --test it -- outlive --nocapture",
    ),
    (
        "on a real kube-apiserver: the leader is killed in the middle of 5,000 pods",
        Some(("BASALT_FAILOVER_PODS", "5000")),
        "xtask kube-test a_standby_goes_on_when_the_leader_is_killed",
    ),
    (
        "10,000 random clusters with the auditor watching: clean after every cycle, no evictions in circles",
        Some(("PROPTEST_CASES", "10000")),
        "test --release -p basalt-sim",
    ),
    (
        "1,000,000 mutated AdmissionReviews",
        Some(("BASALT_FUZZ_EXECUTIONS", "1000000")),
        "test --release -p basalt-admission --test cases -- mutated_reviews --nocapture",
    ),
    (
        "the state machine of queues: all sequences of up to 3 operations, a crash after every write",
        None,
        "run --release -p basalt-sim --example queues",
    ),
    (
        "the state machine of queues: 1,000,000 random sequences of 12 operations",
        None,
        "run --release -p basalt-sim --example queues -- --random 1000000 --seed 1000000000",
    ),
    (
        "jobs: every scenario with a crash after every write, and 2,000 random runs of each",
        None,
        "run --release -p basalt-sim --example jobs -- --random 2000",
    ),
    (
        "locked nodes: 20,000 random histories of 40 operations, every decision of the scheduler judged",
        None,
        "run --release -p basalt-sim --example reservations -- --histories 20000 --seed 1000000",
    ),
    (
        "reservations: 40 large clusters, the chosen nodes beside the best of a 20 s search each",
        None,
        "run --release -p basalt-sim --example nodes",
    ),
    (
        "property tests, 20,000 cases each",
        Some(("PROPTEST_CASES", "20000")),
        "test --release -p basalt-engine -p basalt-api -p basalt-admission -p basalt-audit -p basalt-controllers -p basalt-apiserver",
    ),
];

/// Runs everything; stops at the first failure.
pub(crate) fn run(root: &Path) -> Result<()> {
    for (name, variable, arguments) in RUNS {
        println!("== {name}");
        let status = Command::new(env!("CARGO"))
            .args(arguments.split(' '))
            .envs(variable)
            .current_dir(root)
            .status()
            .context("starting cargo")?;
        ensure!(status.success(), "{name} failed");
    }
    Ok(())
}
