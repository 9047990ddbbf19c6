//! What was measured, as a table or as JSON.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

use super::meters::{Requests, Used};
use super::run::{Mode, Run};
use super::tally::Writes;

/// Against the null binder; more needs an explanation.
const RATIO_LIMIT: f64 = 1.15;
/// Writes per pod that a batch system may need: create, bind, and now and then one more.
const WRITES_LIMIT: f64 = 2.1;

/// Times in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Times {
    count: usize,
    p50_ms: f64,
    p90_ms: f64,
    p99_ms: f64,
    max_ms: f64,
}

impl Times {
    fn of(mut times: Vec<Duration>) -> Self {
        times.sort_unstable();
        let at = |part: f64| {
            // The smallest time that this part of all is not above.
            let place = (times.len() as f64 * part).ceil() as usize;
            times.get(place.saturating_sub(1)).map_or(0.0, |time| millis(*time))
        };
        Self {
            count: times.len(),
            p50_ms: at(0.5),
            p90_ms: at(0.9),
            p99_ms: at(0.99),
            max_ms: at(1.0),
        }
    }
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    shape: String,
    mode: Mode,
    pods: u32,
    /// First create to last bind.
    total_ms: f64,
    /// First create to the last pod seen.
    created_ms: f64,
    pods_per_s: f64,
    create_to_bound: Times,
    /// Writes of pods that are not the kubelet's, per pod.
    writes_per_pod: f64,
    writes: Writes,
    processes: Vec<Used>,
    #[serde(skip_serializing_if = "Option::is_none")]
    requests: Option<Requests>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct OnePod {
    mode: Mode,
    create_to_bound: Times,
}

#[derive(Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Comparison {
    shape: String,
    null_ms: f64,
    full_ms: f64,
    ratio: f64,
    limit: f64,
}

/// All measurements.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    nodes: usize,
    runs: Vec<Row>,
    ratios: Vec<Comparison>,
    #[serde(rename = "onePod")]
    one_pod: Vec<OnePod>,
}

impl Report {
    pub(super) fn new(nodes: usize) -> Self {
        Self {
            nodes,
            runs: Vec::new(),
            ratios: Vec::new(),
            one_pod: Vec::new(),
        }
    }

    /// Adds a run, and brings the ratio of its shape up to date.
    pub(super) fn add(&mut self, run: Run) {
        let pods = run.shape.total();
        let writes = run.tally.writes;
        self.runs.push(Row {
            shape: run.shape.to_string(),
            mode: run.mode,
            pods,
            total_ms: millis(run.time),
            created_ms: millis(run.created),
            pods_per_s: f64::from(pods) / run.time.as_secs_f64(),
            create_to_bound: Times::of(run.latencies),
            writes_per_pod: writes.ours() as f64 / f64::from(pods),
            writes,
            processes: run.used.processes,
            requests: run.requests,
        });
        let times = self.runs.iter().map(|row| (row.shape.as_str(), row.mode, row.total_ms));
        self.ratios = ratios(times);
    }

    pub(super) fn add_one_pod(&mut self, mode: Mode, times: Vec<Duration>) {
        self.one_pod.push(OnePod {
            mode,
            create_to_bound: Times::of(times),
        });
    }

    /// Prints it all.
    pub(super) fn print(&self, json: bool) -> anyhow::Result<()> {
        if json {
            println!("{}", serde_json::to_string_pretty(self)?);
            return Ok(());
        }
        println!("{} nodes; times in milliseconds", self.nodes);
        if !self.runs.is_empty() {
            self.print_runs();
        }
        for ratio in &self.ratios {
            println!(
                "\n{}: {:.2} × the null binder's time (limit {:.2}): medians {:.0} and {:.0} ms",
                ratio.shape, ratio.ratio, ratio.limit, ratio.full_ms, ratio.null_ms
            );
        }
        for one in &self.one_pod {
            let times = one.create_to_bound;
            println!(
                "\none pod at a time, {}, {} jobs, create to bound: median {:.1}, p90 {:.1}, p99 {:.1}, max {:.1} ms",
                one.mode, times.count, times.p50_ms, times.p90_ms, times.p99_ms, times.max_ms
            );
        }
        Ok(())
    }

    fn print_runs(&self) {
        println!(
            "{:<10} {:<5} {:>9} {:>9} {:>8} {:>8} {:>8} {:>8} {:>8} {:>11}",
            "shape", "mode", "total", "made", "pods/s", "p50", "p90", "p99", "max", "writes/pod"
        );
        for row in &self.runs {
            let times = row.create_to_bound;
            let note = if row.writes_per_pod > WRITES_LIMIT {
                " > 2.1"
            } else {
                ""
            };
            println!(
                "{:<10} {:<5} {:>9.0} {:>9.0} {:>8.0} {:>8.0} {:>8.0} {:>8.0} {:>8.0} {:>11.2}{note}",
                row.shape,
                row.mode,
                row.total_ms,
                row.created_ms,
                row.pods_per_s,
                times.p50_ms,
                times.p90_ms,
                times.p99_ms,
                times.max_ms,
                row.writes_per_pod
            );
        }
        for row in &self.runs {
            println!("\n{}, {}", row.shape, row.mode);
            let Writes {
                create,
                bind,
                phase,
                other,
            } = &row.writes;
            println!("  writes of pods: {create} creates, {bind} binds, {phase} changes of phase");
            for (by, count) in other {
                println!("    {count} others by {by}");
            }
            for used in &row.processes {
                println!(
                    "  {} ({}): {:.2} s of CPU time, {:.0} MB now, {:.0} MB at most",
                    used.name, used.pid, used.cpu_s, used.rss_mb, used.rss_max_mb
                );
            }
            if let Some(requests) = &row.requests {
                println!("  requests, by the server's count: {}", words(requests));
            }
        }
    }
}

/// Writes, and whatever came often: watches and leases of others are noise.
fn words(requests: &Requests) -> String {
    let mut all: Vec<(&String, &u64)> = requests.iter().filter(|(_, count)| **count >= 10).collect();
    all.sort_by(|a, b| b.1.cmp(a.1).then(a.0.cmp(b.0)));
    let words: Vec<String> = all.iter().map(|(what, count)| format!("{count} {what}")).collect();
    if words.is_empty() {
        "few".to_owned()
    } else {
        words.join(", ")
    }
}

/// The ratio of the medians, for each shape that was measured in both ways.
fn ratios<'a>(times: impl Iterator<Item = (&'a str, Mode, f64)>) -> Vec<Comparison> {
    let mut shapes: Vec<&str> = Vec::new();
    let mut by_shape: BTreeMap<&str, [Vec<f64>; 2]> = BTreeMap::new();
    for (shape, mode, time) in times {
        if !shapes.contains(&shape) {
            shapes.push(shape);
        }
        let [null, full] = by_shape.entry(shape).or_default();
        if mode == Mode::Null { null } else { full }.push(time);
    }
    let ratio = |shape: &str| {
        let [null, full] = by_shape.get(shape)?;
        let (null_ms, full_ms) = (median(null)?, median(full)?);
        Some(Comparison {
            shape: shape.to_owned(),
            null_ms,
            full_ms,
            ratio: full_ms / null_ms,
            limit: RATIO_LIMIT,
        })
    };
    shapes.into_iter().filter_map(ratio).collect()
}

/// The middle one, or between the two in the middle.
fn median(times: &[f64]) -> Option<f64> {
    let mut times = times.to_vec();
    times.sort_by(f64::total_cmp);
    let (low, high) = (times.len().checked_sub(1)? / 2, times.len() / 2);
    Some(f64::midpoint(*times.get(low)?, *times.get(high)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_times_that_were_measured() {
        let check = |count: u64, expected: [f64; 4]| {
            let times = Times::of((1..=count).rev().map(Duration::from_millis).collect());
            let got = [times.p50_ms, times.p90_ms, times.p99_ms, times.max_ms];
            assert!(
                got.iter()
                    .zip(expected)
                    .all(|(got, expected)| (got - expected).abs() < 1e-9),
                "{count}: {got:?}"
            );
        };
        check(0, [0.0; 4]);
        check(1, [1.0; 4]);
        check(2, [1.0, 2.0, 2.0, 2.0]);
        check(100, [50.0, 90.0, 99.0, 100.0]);
    }

    #[test]
    fn ratios_are_those_of_medians_and_only_where_both_were_measured() {
        let check = |times: &[(&str, Mode, f64)], expected: &[(&str, f64)]| {
            let got = ratios(times.iter().copied());
            let got: Vec<(&str, f64)> = got.iter().map(|r| (r.shape.as_str(), r.ratio)).collect();
            assert_eq!(got, expected);
        };
        check(&[], &[]);
        check(&[("a", Mode::Null, 1.0)], &[]);
        check(
            &[("a", Mode::Null, 2.0), ("b", Mode::Full, 3.0), ("a", Mode::Full, 3.0)],
            &[("a", 1.5)],
        );
        let three = [1.0, 9.0, 2.0].map(|time| ("a", Mode::Null, time));
        let two = [3.0, 5.0].map(|time| ("a", Mode::Full, time));
        check(&[&three[..], &two[..]].concat(), &[("a", 2.0)]);
    }
}
