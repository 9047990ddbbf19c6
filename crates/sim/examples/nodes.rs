//! How good the nodes are that are chosen for reservations: 40 large cases beside a long search.
//! `nodes [--seconds S] [--only N]`.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use basalt_audit::oracle::long_search;
use basalt_sim::nodes::{LARGE, choose, large};

/// What a choice must reach of the best that is found.
const ENOUGH: f64 = 0.98;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |name: &str| -> Option<u64> {
        let at = arguments.iter().position(|argument| argument == name)?;
        arguments.get(at + 1)?.parse().ok()
    };
    let limit = Duration::from_secs(number("--seconds").unwrap_or(20));
    let only = number("--only").and_then(|only| usize::try_from(only).ok());
    println!(
        "| case | chosen in ms | score | best of {} s | ratio |",
        limit.as_secs()
    );
    println!("|---|---|---|---|---|");
    let (mut worst, mut short) = (f64::INFINITY, 0);
    for at in (0..LARGE).filter(|at| only.is_none_or(|only| only == *at)) {
        let (title, case) = large(at);
        let begun = Instant::now();
        let nodes = choose(&case);
        let took = begun.elapsed().as_secs_f64() * 1e3;
        let score = nodes.and_then(|nodes| case.score(&nodes));
        let begun = Instant::now();
        let best = long_search(&case, 1, || begun.elapsed() < limit).map(|found| found.score);
        let ratio = match (score, best) {
            (Some(score), Some(best)) => score / best,
            (Some(_), None) => 1.0,
            (None, _) => 0.0,
        };
        worst = worst.min(ratio);
        short += u32::from(ratio < ENOUGH);
        let show = |score: Option<f64>| score.map_or("none".to_owned(), |score| format!("{score:.6}"));
        println!(
            "| {title} | {took:.1} | {} | {} | {ratio:.4} |",
            show(score),
            show(best)
        );
    }
    println!("\nthe worst ratio is {worst:.4}; {short} are below {ENOUGH}");
    if short == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
