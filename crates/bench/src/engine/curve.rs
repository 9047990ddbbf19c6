//! The time of a decision over the number of pods, at the same number of nodes.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::Context;

use super::{EngineOptions, measure};

const SIZES: [usize; 7] = [1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000];
const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 420.0;
const MARGIN: f64 = 64.0;

/// One measured size.
struct Point {
    pods: usize,
    milliseconds: f64,
}

/// Measures every size, prints a table and draws it.
pub(super) fn run(options: &EngineOptions, path: &Path) -> anyhow::Result<()> {
    let mut points = Vec::new();
    println!("| pods | decided in | pods/s | µs a pod |\n|---|---|---|---|");
    for pods in SIZES {
        let size = EngineOptions {
            jobs: (pods / options.pods_per_job).max(1),
            cycles: 0,
            ..options.clone()
        };
        let figures = measure(&size)?;
        let (milliseconds, bound) = (figures.decide_ms, figures.bound);
        let each = milliseconds * 1e3 / bound.max(1) as f64;
        println!(
            "| {bound} | {milliseconds:.2} ms | {:.0} | {each:.2} |",
            figures.pods_per_s
        );
        anyhow::ensure!(
            figures.audit_findings == 0,
            "the audit found {} faults",
            figures.audit_findings
        );
        points.push(Point {
            pods: bound.max(1),
            milliseconds,
        });
    }
    std::fs::write(path, draw(options.nodes, &points)).with_context(|| format!("cannot write {}", path.display()))
}

/// Both axes grow by tens; the grey line is where twice the pods take twice the time.
fn draw(nodes: usize, points: &[Point]) -> String {
    let decades = |value: f64| value.max(1e-3).log10();
    let (left, right) = (3.0, 6.0);
    let times = || points.iter().map(|point| decades(point.milliseconds));
    let low = times().fold(f64::INFINITY, f64::min).floor().min(0.0);
    let high = times().fold(f64::NEG_INFINITY, f64::max).ceil().max(low + 1.0);
    let x = |value: f64| MARGIN + (value - left) / (right - left) * (WIDTH - 1.5 * MARGIN);
    let y = |value: f64| HEIGHT - MARGIN - (value - low) / (high - low) * (HEIGHT - 1.8 * MARGIN);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" font-size=\"13\">\n\
         <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"white\"/>\n\
         <text x=\"{MARGIN}\" y=\"28\" font-size=\"15\">Time to decide on all pods, {nodes} nodes, one core</text>\n"
    );
    for decade in left as i32..=right as i32 {
        let (at, top, bottom) = (x(f64::from(decade)), y(high), y(low));
        let label = 10_u64.pow(decade.unsigned_abs());
        let _ = writeln!(
            svg,
            "<line x1=\"{at:.1}\" y1=\"{top:.1}\" x2=\"{at:.1}\" y2=\"{bottom:.1}\" stroke=\"#ddd\"/>"
        );
        let _ = writeln!(
            svg,
            "<text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{label} pods</text>",
            bottom + 20.0
        );
    }
    for decade in low as i32..=high as i32 {
        let at = y(f64::from(decade));
        let _ = writeln!(
            svg,
            "<line x1=\"{:.1}\" y1=\"{at:.1}\" x2=\"{:.1}\" y2=\"{at:.1}\" stroke=\"#ddd\"/>",
            x(left),
            x(right)
        );
        let label = 10_f64.powi(decade);
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{label} ms</text>",
            x(left) - 8.0,
            at + 4.0
        );
    }
    if let Some(last) = points.last() {
        let (pods, time) = (decades(last.pods as f64), decades(last.milliseconds));
        let begin = (left, time - (pods - left));
        let begin = if begin.1 < low {
            (left + low - begin.1, low)
        } else {
            begin
        };
        let _ = writeln!(
            svg,
            "<line x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\" stroke=\"#999\" stroke-dasharray=\"4 4\"/>",
            x(begin.0),
            y(begin.1),
            x(pods),
            y(time)
        );
    }
    let line: Vec<String> = points
        .iter()
        .map(|point| {
            format!(
                "{:.1},{:.1}",
                x(decades(point.pods as f64)),
                y(decades(point.milliseconds))
            )
        })
        .collect();
    let _ = writeln!(
        svg,
        "<polyline points=\"{}\" fill=\"none\" stroke=\"#1f5fa8\" stroke-width=\"2\"/>",
        line.join(" ")
    );
    for at in &line {
        let (cx, cy) = at.split_once(',').unwrap_or_default();
        let _ = writeln!(svg, "<circle cx=\"{cx}\" cy=\"{cy}\" r=\"3.5\" fill=\"#1f5fa8\"/>");
    }
    svg.push_str("</svg>\n");
    svg
}
