//! Reservations, tried: `reservations [--histories N] [--seed S] [--replay S] [--picture FILE]`.
//!
//! Random histories with the auditor watching; with `--replay` the log of one of them; with `--picture` the curves of a gang
//! beside a stream of small jobs, with nodes locked for it and without, as an SVG.

use std::fmt::Write as _;
use std::process::ExitCode;
use std::time::Instant;

use basalt_engine::Conf;
use basalt_engine::conf::EMBEDDED;
use basalt_sim::reservation::{Curve, Stream, histories, run_seed, run_stream, small_cluster};

/// Many small worlds are made and dropped: half of the time goes into memory with the system's allocator.
#[global_allocator]
static MEMORY: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<bool, Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let word = |name: &str| -> Option<&String> {
        let at = arguments.iter().position(|argument| argument == name)?;
        arguments.get(at + 1)
    };
    let number = |name: &str| word(name).and_then(|word| word.parse::<u64>().ok());
    let conf = Conf::embedded();
    if let Some(file) = word("--picture") {
        return picture(&conf, file);
    }
    let (rules, small) = (basalt_sim::rules(EMBEDDED)?, small_cluster(&conf)?);
    if let Some(seed) = number("--replay") {
        let (ran, failure, log) = run_seed(&conf, &rules, &small, seed, true);
        print!("{log}");
        println!("{ran}");
        if let Some(failure) = &failure {
            println!("after: {}", failure.path.join("; "));
            failure.findings.iter().for_each(|finding| println!("  {finding}"));
        }
        return Ok(failure.is_none());
    }
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let begun = Instant::now();
    let count = number("--histories").unwrap_or(100);
    let (ran, failures) = histories(&conf, &rules, &small, number("--seed").unwrap_or(0), count, threads);
    let seconds = begun.elapsed().as_secs_f64();
    println!("{ran}, {} failed, in {seconds:.1} s", failures.len());
    for failure in failures.iter().take(5) {
        println!("{failure}");
    }
    Ok(failures.is_empty() && ran.locked > 0)
}

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 400.0;
const MARGIN: f64 = 60.0;

fn picture(conf: &Conf, file: &str) -> Result<bool, Box<dyn std::error::Error>> {
    let stream = |reserved| Stream {
        reserved,
        before: 1_800,
        after: 3_600,
        seed: 7,
    };
    let (without, with) = (run_stream(conf, stream(false))?, run_stream(conf, stream(true))?);
    for (name, curve) in [("without", &without), ("with", &with)] {
        let most = curve.points.iter().map(|(_, nodes)| *nodes).max().unwrap_or(0);
        println!(
            "{name} a reservation: started after {:?} s; small jobs ran {} s more; most nodes at once {most}; {} small jobs ended",
            curve.started, curve.remaining, curve.finished
        );
    }
    std::fs::write(file, draw(&without, &with))?;
    let in_time = with.started.is_some_and(|started| started <= with.remaining + 20);
    Ok(in_time && without.started.is_none())
}

/// Nodes that the gang has or could have, over the minutes since it came.
fn draw(without: &Curve, with: &Curve) -> String {
    let end = without.points.last().map_or(1, |(at, _)| *at).max(1);
    let x = |at: i64| MARGIN + at as f64 / end as f64 * (WIDTH - 1.5 * MARGIN);
    let y = |nodes: usize| HEIGHT - MARGIN - nodes as f64 / 80.0 * (HEIGHT - 2.0 * MARGIN);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" font-size=\"13\">\n\
         <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"white\"/>\n\
         <text x=\"{MARGIN}\" y=\"28\" font-size=\"15\">A gang of 64 nodes beside an endless stream of one-node jobs (80 nodes)</text>\n"
    );
    let line = |from: (f64, f64), to: (f64, f64), look: &str, svg: &mut String| {
        let _ = writeln!(
            svg,
            "<line x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\" {look}/>",
            from.0, from.1, to.0, to.1
        );
    };
    for nodes in [0, 16, 32, 48, 64, 80] {
        let look = if nodes == 64 {
            "stroke=\"#999\" stroke-dasharray=\"4 4\""
        } else {
            "stroke=\"#ddd\""
        };
        line((x(0), y(nodes)), (x(end), y(nodes)), look, &mut svg);
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{nodes}</text>",
            x(0) - 8.0,
            y(nodes) + 4.0
        );
    }
    for minutes in (0..=end / 60).step_by(10) {
        let at = x(minutes * 60);
        let _ = writeln!(
            svg,
            "<text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{minutes} min</text>",
            y(0) + 20.0
        );
    }
    let bound = x(with.remaining.min(end));
    line(
        (bound, y(0)),
        (bound, y(80)),
        "stroke=\"#999\" stroke-dasharray=\"2 4\"",
        &mut svg,
    );
    let _ = writeln!(
        svg,
        "<text x=\"{:.1}\" y=\"{:.1}\" fill=\"#666\">the last small job of before ends</text>",
        bound + 6.0,
        y(4)
    );
    for (curve, colour, name, at) in [
        (with, "#1f5fa8", "with a reservation", 70),
        (without, "#b5482a", "without", 8),
    ] {
        let points: Vec<String> = curve
            .points
            .iter()
            .map(|(at, nodes)| format!("{:.1},{:.1}", x(*at), y(*nodes)))
            .collect();
        let _ = writeln!(
            svg,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>",
            points.join(" ")
        );
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\" fill=\"{colour}\">{name}</text>",
            x(end),
            y(at)
        );
    }
    let _ = writeln!(
        svg,
        "<text x=\"{MARGIN}\" y=\"{:.1}\" fill=\"#666\">nodes that the gang has or could have</text>",
        y(80) - 10.0
    );
    svg.push_str("</svg>\n");
    svg
}
