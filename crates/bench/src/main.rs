//! The `basalt-bench` binary.

use std::process::ExitCode;

use basalt_bench::Bench;
use basalt_node::local::shim;
use basalt_runtime::logging::{self, LogFlags};
use clap::Parser;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Measure this machine or a cluster, each figure beside its limit or its peer
#[derive(Debug, Parser)]
#[command(name = "basalt-bench", version, about, disable_help_subcommand = true)]
struct BenchCommandLine {
    #[command(flatten)]
    log: LogFlags,
    #[command(subcommand)]
    bench: Bench,
}

fn main() -> ExitCode {
    // The measurements of this machine's pods start the pods' shim, which is this program under another word.
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().is_some_and(|word| word == shim::WORD) {
        return shim::main(arguments);
    }
    let line = BenchCommandLine::parse();
    if let Err(error) = logging::start(&line.log) {
        eprintln!("error: {error}");
        return ExitCode::from(2);
    }
    match line.bench.run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
