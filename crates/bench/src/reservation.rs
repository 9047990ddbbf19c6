//! `basalt-bench reservation`: how long it takes to choose the nodes of all queues that reserve some.

mod round;

use std::time::Instant;

use anyhow::Context;
use basalt_controllers::reservation::{Candidate, Problem, reach, score};
use serde::Serialize;

/// What a round may take.
const LIMIT_MS: f64 = 100.0;

/// How long a round takes that chooses the nodes of every reserving queue, on one core: the search alone, for each queue
/// the best set among all nodes that the ones before it left; and the whole round of the controllers, from the objects
/// that they know to the decision of every queue.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
In one cluster the nodes are of a few kinds, in the other no two are the same; in both a part is in use by the queue,
a part by others, by four pods a node. Each queue asks for the same part of the cluster, together for --share of it.

Examples:
  basalt-bench reservation
  basalt-bench reservation --nodes 1000 --queues 5 --dimensions 2 -o json")]
pub struct ReservationOptions {
    /// Nodes
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    nodes: u32,
    /// Queues that reserve nodes
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    queues: u32,
    /// Resources that each of them asks for: cpu, memory, pods, GPUs
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=4))]
    dimensions: u8,
    /// The part of the cluster that all queues ask for together
    #[arg(long, default_value_t = 0.5)]
    share: f64,
    /// How often a round is measured
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    rounds: u32,
    /// Output: table or json
    #[arg(short, long, default_value = "table", value_parser = ["table", "json"])]
    output: String,
}

/// One cluster's figures.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Line {
    cluster: &'static str,
    nodes: u32,
    queues: u32,
    dimensions: u8,
    /// The median of the search in all queues of a round.
    search_ms: f64,
    slowest_search_ms: f64,
    /// The median whole round that chooses everything, with all pods counted anew.
    first_round_ms: f64,
    /// The median whole round after a node has changed, with everything held already.
    next_round_ms: f64,
    /// The slowest queue of all rounds.
    slowest_queue_ms: f64,
    limit_ms: f64,
    /// How many nodes were chosen in a round, and for how many queues.
    chosen: usize,
    served: usize,
    /// The mean score of the chosen sets.
    score: f64,
}

/// Runs the measurement and prints it.
pub fn run(options: ReservationOptions) -> anyhow::Result<()> {
    anyhow::ensure!(
        (0.0..=1.0).contains(&options.share),
        "--share is a part of the cluster: between 0 and 1"
    );
    let lines = [("few kinds", true), ("all different", false)];
    let lines: Vec<Line> = lines
        .into_iter()
        .map(|(cluster, few)| measure(&options, cluster, few))
        .collect::<anyhow::Result<_>>()?;
    if options.output == "json" {
        println!("{}", serde_json::to_string_pretty(&lines)?);
        return Ok(());
    }
    println!(
        "{} queues choose among {} nodes, {} resources, one core; limit of a round {LIMIT_MS:.0} ms",
        options.queues, options.nodes, options.dimensions
    );
    for line in lines {
        println!(
            "  {:<14} first round {:>7.2} ms   next {:>7.2} ms   search alone {:>7.2} ms (slowest {:.2}; a queue {:.2})   {} nodes for {} queues, mean score {:.3}",
            line.cluster,
            line.first_round_ms,
            line.next_round_ms,
            line.search_ms,
            line.slowest_search_ms,
            line.slowest_queue_ms,
            line.chosen,
            line.served,
            line.score
        );
    }
    Ok(())
}

fn measure(options: &ReservationOptions, cluster: &'static str, few: bool) -> anyhow::Result<Line> {
    let nodes: Vec<Candidate> = (0..options.nodes)
        .map(|number| node(number, options.dimensions, few))
        .collect();
    let target = target(&nodes, options);
    let (mut rounds, mut slowest_queue_ms, mut chosen) = (Vec::new(), 0.0f64, Vec::new());
    for _ in 0..options.rounds {
        chosen.clear();
        let mut left = nodes.clone();
        let mut round_ms = 0.0;
        for queue in 0..options.queues {
            let problem = Problem {
                target: target.clone(),
                candidates: left.iter().map(|node| seen_by(queue, node)).collect(),
                fixed: Vec::new(),
            };
            let begun = Instant::now();
            let set = reach(&problem);
            let queue_ms = begun.elapsed().as_secs_f64() * 1e3;
            round_ms += queue_ms;
            slowest_queue_ms = slowest_queue_ms.max(queue_ms);
            let Some(set) = set else { continue };
            chosen.push((set.len(), score(&problem, &set)));
            let mut places = 0..;
            left.retain(|_| places.next().is_some_and(|place| set.binary_search(&place).is_err()));
        }
        rounds.push(round_ms);
    }
    let (mut firsts, mut nexts) = (Vec::new(), Vec::new());
    for _ in 0..options.rounds {
        let (first, next) = round::measure(&nodes, options.queues, &target)?;
        firsts.push(first);
        nexts.push(next);
    }
    Ok(Line {
        cluster,
        nodes: options.nodes,
        queues: options.queues,
        dimensions: options.dimensions,
        search_ms: median(&mut rounds)?,
        slowest_search_ms: rounds.last().copied().unwrap_or_default(),
        first_round_ms: median(&mut firsts)?,
        next_round_ms: median(&mut nexts)?,
        slowest_queue_ms,
        limit_ms: LIMIT_MS,
        chosen: chosen.iter().map(|(nodes, _)| nodes).sum(),
        served: chosen.len(),
        score: chosen.iter().map(|(_, score)| score).sum::<f64>() / chosen.len().max(1) as f64,
    })
}

/// Sorts them, too.
fn median(times: &mut [f64]) -> anyhow::Result<f64> {
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().context("no round was measured")
}

/// What each queue asks for: its part of all.
fn target(nodes: &[Candidate], options: &ReservationOptions) -> Vec<i64> {
    let total = |dimension: usize| nodes.iter().filter_map(|node| node.worth.get(dimension)).sum::<i64>() as f64;
    let part = options.share / f64::from(options.queues);
    let dimensions = usize::from(options.dimensions);
    (0..dimensions)
        .map(|dimension| (total(dimension) * part) as i64)
        .collect()
}

/// A number that looks random, below 1,000.
fn scattered(number: u32, of: u32) -> i64 {
    let mixed = (u64::from(number) << 32 | u64::from(of))
        .wrapping_add(1)
        .wrapping_mul(0x9E37_79B9_7F4A_7C15);
    ((mixed ^ mixed >> 29).wrapping_mul(0xBF58_476D_1CE4_E5B9) >> 40).cast_signed() % 1000
}

/// A node: one of six kinds (with GPUs or without), or with a little less of everything, as no other node has it.
/// What is idle is a quarter, a half, three quarters or all of it; or any part.
fn node(number: u32, dimensions: u8, few: bool) -> Candidate {
    const KINDS: [[i64; 4]; 6] = [
        [16_000, 64 << 30, 110, 0],
        [32_000, 128 << 30, 110, 0],
        [64_000, 256 << 30, 250, 0],
        [96_000, 768 << 30, 250, 4],
        [128_000, 1 << 40, 250, 8],
        [48_000, 384 << 30, 110, 2],
    ];
    let kind = KINDS
        .get(scattered(number, 1) as usize % KINDS.len())
        .copied()
        .unwrap_or_default();
    let parts = if few {
        scattered(number, 2) / 250 * 250 + 250
    } else {
        scattered(number, 2)
    };
    let part = |amount: i64, thousandths: i64| (i128::from(amount) * i128::from(thousandths) / 1000) as i64;
    let mut node = Candidate::default();
    for (dimension, amount) in (10..).zip(kind.into_iter().take(usize::from(dimensions))) {
        let worth = if few {
            amount
        } else {
            amount - part(amount, scattered(number, dimension) / 8)
        };
        node.worth.push(worth);
        node.used.push(part(worth, 1000 - parts));
        node.idle.push(part(worth, parts));
    }
    node
}

/// The node as a queue sees it: what is in use is its own on one node of fifty.
fn seen_by(queue: u32, node: &Candidate) -> Candidate {
    let mut node = node.clone();
    let mark = node
        .worth
        .iter()
        .chain(&node.idle)
        .fold(u64::from(queue), |mark, amount| {
            (mark ^ *amount as u64)
                .wrapping_mul(0x9E37_79B9_7F4A_7C15)
                .rotate_left(31)
        });
    if mark % 50 != 0 {
        node.used.fill(0);
    }
    node
}
