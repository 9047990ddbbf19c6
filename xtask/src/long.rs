//! The long runs, whole: CI does a short slice of each.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// One run: what it is called, its environment, the arguments of cargo.
struct Run {
    name: &'static str,
    environment: &'static [(&'static str, &'static str)],
    cargo: &'static [&'static str],
}

const RUNS: &[Run] = &[
    Run {
        name: "200 kills of the real server under load",
        environment: &[("BASALT_CRASH_KILLS", "200")],
        cargo: &[
            "test",
            "--release",
            "-p",
            "basalt",
            "--test",
            "it",
            "--",
            "crash",
            "--nocapture",
        ],
    },
    Run {
        name: "10,000 random clusters with the auditor watching: clean after every cycle, no evictions in circles",
        environment: &[("PROPTEST_CASES", "10000")],
        cargo: &["test", "--release", "-p", "basalt-sim"],
    },
    Run {
        name: "1,000,000 mutated AdmissionReviews",
        environment: &[("BASALT_FUZZ_EXECUTIONS", "1000000")],
        cargo: &[
            "test",
            "--release",
            "-p",
            "basalt-admission",
            "--test",
            "cases",
            "--",
            "mutated_reviews",
            "--nocapture",
        ],
    },
    Run {
        name: "the state machine of queues: all sequences of up to 3 operations, a crash after every write",
        environment: &[],
        cargo: &["run", "--release", "-p", "basalt-sim", "--example", "queues"],
    },
    Run {
        name: "the state machine of queues: 1,000,000 random sequences of 12 operations",
        environment: &[],
        cargo: &[
            "run",
            "--release",
            "-p",
            "basalt-sim",
            "--example",
            "queues",
            "--",
            "--random",
            "1000000",
            "--seed",
            "1000000000",
        ],
    },
    Run {
        name: "jobs: every scenario with a crash after every write, and 2,000 random runs of each",
        environment: &[],
        cargo: &[
            "run",
            "--release",
            "-p",
            "basalt-sim",
            "--example",
            "jobs",
            "--",
            "--random",
            "2000",
        ],
    },
    Run {
        name: "locked nodes: 20,000 random histories of 40 operations, every decision of the scheduler judged",
        environment: &[],
        cargo: &[
            "run",
            "--release",
            "-p",
            "basalt-sim",
            "--example",
            "reservations",
            "--",
            "--histories",
            "20000",
            "--seed",
            "1000000",
        ],
    },
    Run {
        name: "reservations: 40 large clusters, the chosen nodes beside the best of a 20 s search each",
        environment: &[],
        cargo: &["run", "--release", "-p", "basalt-sim", "--example", "nodes"],
    },
    Run {
        name: "property tests, 20,000 cases each",
        environment: &[("PROPTEST_CASES", "20000")],
        cargo: &[
            "test",
            "--release",
            "-p",
            "basalt-engine",
            "-p",
            "basalt-api",
            "-p",
            "basalt-admission",
            "-p",
            "basalt-audit",
            "-p",
            "basalt-controllers",
            "-p",
            "basalt-apiserver",
        ],
    },
];

/// Runs everything; stops at the first failure.
pub(crate) fn run(root: &Path) -> Result<()> {
    for run in RUNS {
        println!("== {}", run.name);
        let status = Command::new(env!("CARGO"))
            .args(run.cargo)
            .envs(run.environment.iter().copied())
            .current_dir(root)
            .status()
            .context("starting cargo")?;
        ensure!(status.success(), "{} failed", run.name);
    }
    Ok(())
}
