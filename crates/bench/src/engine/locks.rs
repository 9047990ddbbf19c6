//! What locks cost: the same shape without and with nodes that are locked for queues, in turn.

use std::collections::BTreeSet;
use std::io::Write;

use basalt_engine::Conf;
use basalt_testkit::workload::GangWorkload;
use serde::Serialize;

use super::{EngineOptions, audit, conf, decide, incremental, quantile, workload};

/// One side.
#[derive(Clone, Debug, Default, Serialize)]
struct Side {
    decide_ms: f64,
    cycle_p50_ms: f64,
    cycle_p99_ms: f64,
    bound: usize,
    audit_findings: usize,
}

/// Both, and how much more the second takes, in percent.
#[derive(Clone, Debug, Serialize)]
struct Cost {
    without: Side,
    with: Side,
    decide_more_percent: f64,
    cycle_p50_more_percent: f64,
}

/// Measures, and prints the result.
pub(super) fn run(options: &EngineOptions, percent: u8) -> anyhow::Result<()> {
    let plain = workload(options);
    let locked = GangWorkload {
        locked: usize::from(percent),
        ..plain
    };
    let texts = [false, true].map(|locks| conf(options.depth, None, locks));
    let sides = [(plain, &texts[0]), (locked, &texts[1])];
    let mut times = [Vec::new(), Vec::new()];
    let mut cycles = [Vec::new(), Vec::new()];
    let mut figures = [Side::default(), Side::default()];
    for round in 0..options.runs {
        // Who is first has the colder machine: they take turns.
        for at in [round % 2, 1 - round % 2] {
            let (workload, text) = sides[at];
            let (engine, plan) = decide(&Conf::parse(text)?, workload.events(), &mut times[at]);
            figures[at].bound = plan.binds().count();
            if round == 0 {
                let rules = basalt_sim::rules(text)?;
                figures[at].audit_findings = audit::findings(workload.events(), &BTreeSet::new(), &plan, &rules);
            }
            cycles[at].extend(incremental::measure(engine, &plan, &workload, options));
        }
    }
    for at in [0, 1] {
        figures[at].decide_ms = quantile(&mut times[at], 0.5);
        figures[at].cycle_p50_ms = quantile(&mut cycles[at], 0.5);
        figures[at].cycle_p99_ms = quantile(&mut cycles[at], 0.99);
    }
    let more = |of: fn(&Side) -> f64| (of(&figures[1]) / of(&figures[0]) - 1.0) * 100.0;
    let (decide_more_percent, cycle_p50_more_percent) = (more(|side| side.decide_ms), more(|side| side.cycle_p50_ms));
    let [without, with] = figures;
    let cost = Cost {
        without,
        with,
        decide_more_percent,
        cycle_p50_more_percent,
    };
    print(&cost, &options.output)
}

fn print(cost: &Cost, output: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    if output == "json" {
        writeln!(out, "{}", serde_json::to_string_pretty(cost)?)?;
        return Ok(());
    }
    writeln!(out, "{:<16} {:>14} {:>14}", "", "without locks", "with locks")?;
    let mut row = |name: &str, of: &dyn Fn(&Side) -> String, more: Option<f64>| {
        let more = more.map_or_else(String::new, |more| format!("{more:+.1} %"));
        let (without, with) = (of(&cost.without), of(&cost.with));
        writeln!(out, "{name:<16} {without:>14} {with:>14} {more:>10}")
    };
    let decide = &|side: &Side| format!("{:.2}", side.decide_ms);
    row("decide_ms", decide, Some(cost.decide_more_percent))?;
    let cycle = &|side: &Side| format!("{:.2}", side.cycle_p50_ms);
    row("cycle_p50_ms", cycle, Some(cost.cycle_p50_more_percent))?;
    row("cycle_p99_ms", &|side| format!("{:.2}", side.cycle_p99_ms), None)?;
    row("bound", &|side| side.bound.to_string(), None)?;
    row("audit_findings", &|side| side.audit_findings.to_string(), None)?;
    Ok(())
}
