//! The state machine of queues, tried: `queues [--random N] [--seed S] [--depth D] [--replay S] [--api N]`.
//!
//! Without arguments all sequences of up to three operations; with `--random` so many random ones; with `--replay` the log
//! of one of them; with `--api` so many writes to the API in memory, to see how fast it is.

use std::process::ExitCode;
use std::time::Instant;

use basalt_engine::Conf;
use basalt_sim::queues::{Failure, empty_cluster, explore, random, run_seed};
use basalt_sim::{Api, Key, Kind, Request, Snapshot};
use serde_json::json;

/// Many small worlds are made and dropped: half of the time goes into memory with the system's allocator.
#[global_allocator]
static MEMORY: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |name: &str| -> Option<u64> {
        let at = arguments.iter().position(|argument| argument == name)?;
        arguments.get(at + 1)?.parse().ok()
    };
    let conf = Conf::embedded();
    let empty = match empty_cluster(&conf) {
        Ok(empty) => empty,
        Err(stuck) => {
            eprintln!("{stuck}");
            return ExitCode::FAILURE;
        }
    };
    if let Some(seed) = number("--replay") {
        let (ran, failure, log) = run_seed(&conf, &empty, seed, true);
        print!("{log}");
        println!("{ran}");
        return report(failure.as_slice(), false);
    }
    if let Some(count) = number("--api") {
        return api(&empty, count);
    }
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let begun = Instant::now();
    let failures = if let Some(count) = number("--random") {
        let first = number("--seed").unwrap_or(0);
        let (ran, failures) = random(&conf, &empty, first, count, threads);
        println!(
            "{ran}, {} failed, in {:.1} s",
            failures.len(),
            begun.elapsed().as_secs_f64()
        );
        failures
    } else {
        let depth = number("--depth").unwrap_or(3) as usize;
        let (explored, failures) = explore(&conf, depth, depth, threads);
        println!(
            "{explored}, {} failed, in {:.1} s",
            failures.len(),
            begun.elapsed().as_secs_f64()
        );
        failures
    };
    report(&failures, true)
}

/// Writes to the API in memory, every other one through admission.
fn api(empty: &Snapshot, count: u64) -> ExitCode {
    let mut api = Api::resumed(empty);
    let key = Key::new(Kind::Queue, "", "default");
    let begun = Instant::now();
    for number in 0..count {
        let merge = if number % 2 == 0 {
            json!({"status": {"pending": number}})
        } else {
            json!({"spec": {"weight": number % 1000 + 1}})
        };
        let request = Request::Patch {
            key: key.clone(),
            status: number % 2 == 0,
            merge,
        };
        if let Err(refusal) = api.handle(&request) {
            eprintln!("{refusal}");
            return ExitCode::FAILURE;
        }
        api.take_news();
    }
    println!("{:.0} writes a second", count as f64 / begun.elapsed().as_secs_f64());
    ExitCode::SUCCESS
}

fn report(failures: &[Failure], with_log: bool) -> ExitCode {
    for failure in failures.iter().take(5) {
        eprintln!("after: {}", failure.path.join("; "));
        for finding in &failure.findings {
            eprintln!("  {finding}");
        }
        if with_log {
            eprint!("{}", failure.log);
        }
    }
    if failures.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
