//! The job controller, tried: `jobs [--random N] [--only NAME] [--stride N]`.
//!
//! All scenarios with a crash after every write, of three kinds; then N random runs of each, in which anything goes wrong.

use std::process::ExitCode;
use std::time::Instant;

use basalt_engine::Conf;
use basalt_sim::jobs::{Extent, explore, scenarios};

/// Many small worlds are made and dropped: half of the time goes into memory with the system's allocator.
#[global_allocator]
static MEMORY: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let value = |name: &str| {
        let at = arguments.iter().position(|argument| argument == name)?;
        arguments.get(at + 1)
    };
    let number = |name: &str| value(name).and_then(|text| text.parse::<u64>().ok());
    let mut scenarios = match scenarios() {
        Ok(scenarios) => scenarios,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    };
    if let Some(name) = value("--only") {
        scenarios.retain(|scenario| scenario.name == *name);
    }
    let extent = Extent {
        stride: number("--stride").unwrap_or(1),
        random: number("--random").unwrap_or(0),
        threads: std::thread::available_parallelism().map_or(1, usize::from),
    };
    let begun = Instant::now();
    let (tried, failures) = explore(&Conf::embedded(), &scenarios, extent);
    let seconds = begun.elapsed().as_secs_f64();
    println!("{tried}, {} failed, in {seconds:.1} s", failures.len());
    for failure in failures.iter().take(5) {
        eprintln!("{failure}");
    }
    if failures.is_empty() && tried.scenarios > 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
