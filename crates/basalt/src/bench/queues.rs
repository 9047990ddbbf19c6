//! `basalt bench queues`: 10,000 queues, and what steering them takes.

mod admission;

use serde::Serialize;

/// What 10,000 queues cost.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  basalt bench queues                    every admission decision about 10,000 queues, beside the limit of 2 ms
  basalt bench queues --queues 1000 -o json")]
pub struct QueuesOptions {
    /// How many queues there are
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(10..=1_000_000))]
    queues: u32,
    /// How often each decision is measured
    #[arg(long, default_value_t = 2_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    times: u32,
    /// Output: table or json
    #[arg(short, long, default_value = "table", value_parser = ["table", "json"])]
    output: String,
}

/// Everything that is measured.
#[derive(Debug, Serialize)]
struct Report {
    queues: u32,
    admission: Vec<admission::Line>,
}

/// Runs the measurements and prints them.
pub async fn run(options: QueuesOptions) -> anyhow::Result<()> {
    let report = Report {
        queues: options.queues,
        admission: admission::measure(options.queues, options.times).await?,
    };
    if options.output == "json" {
        println!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        println!("{} queues", report.queues);
        admission::print(&report.admission);
    }
    Ok(())
}
