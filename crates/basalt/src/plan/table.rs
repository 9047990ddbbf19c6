//! A plan for people.

use std::fmt::Write as _;

use basalt_api::quantity::ResourceList;
use basalt_engine::offline::PlanReport;

/// What is bound where, who has to go, what waits and why, and the queues.
pub(super) fn render(report: &PlanReport) -> String {
    let mut text = String::new();
    let pairs = |pairs: &std::collections::BTreeMap<_, _>| -> Vec<Vec<String>> {
        let cells = |(pod, node): (&std::sync::Arc<str>, &std::sync::Arc<str>)| vec![pod.to_string(), node.to_string()];
        pairs.iter().map(cells).collect()
    };
    section(&mut text, "BOUND", &["POD", "NODE"], &pairs(&report.binds));
    let evicted = report.evicted_by.iter();
    let evicted: Vec<Vec<String>> = evicted
        .map(|(pod, action)| vec![pod.to_string(), (*action).to_owned()])
        .collect();
    section(&mut text, "EVICTED", &["POD", "ACTION"], &evicted);
    section(
        &mut text,
        "WAITING ON A NODE",
        &["POD", "NODE"],
        &pairs(&report.pipelined),
    );
    let mut waiting = Vec::new();
    for (name, group) in &report.pod_groups {
        for reason in &group.reasons {
            waiting.push(vec![
                name.to_string(),
                reason.code.as_str().to_owned(),
                reason.message(),
            ]);
        }
    }
    section(&mut text, "WAITING", &["PODGROUP", "REASON", "WHY"], &waiting);
    let groups: Vec<Vec<String>> = report
        .pod_groups
        .iter()
        .map(|(name, group)| {
            let phase = group.phase.map_or_else(|| "-".to_owned(), |phase| format!("{phase:?}"));
            vec![name.to_string(), phase]
        })
        .collect();
    section(&mut text, "POD GROUPS", &["PODGROUP", "PHASE"], &groups);
    let queues: Vec<Vec<String>> = report
        .queues
        .iter()
        .map(|(name, queue)| {
            let share = format!("{:.6}", queue.share);
            vec![name.to_string(), list(&queue.deserved), list(&queue.allocated), share]
        })
        .collect();
    section(
        &mut text,
        "QUEUES",
        &["QUEUE", "DESERVED", "ALLOCATED", "SHARE"],
        &queues,
    );
    text
}

fn list(resources: &ResourceList) -> String {
    if resources.is_empty() {
        return "-".to_owned();
    }
    let parts: Vec<String> = resources
        .iter()
        .map(|(name, amount)| format!("{name} {amount}"))
        .collect();
    parts.join(", ")
}

/// A headline and columns as wide as their widest cell. Nothing for no rows.
fn section(text: &mut String, title: &str, heads: &[&str], rows: &[Vec<String>]) {
    if rows.is_empty() {
        return;
    }
    if !text.is_empty() {
        text.push('\n');
    }
    let _ = writeln!(text, "{title} ({})", rows.len());
    let heads: Vec<String> = heads.iter().map(|&head| head.to_owned()).collect();
    let all = || std::iter::once(&heads).chain(rows);
    let widths: Vec<usize> = (0..heads.len())
        .map(|column| {
            all()
                .filter_map(|row| row.get(column))
                .map(|cell| cell.chars().count())
                .max()
                .unwrap_or(0)
        })
        .collect();
    for row in all() {
        let mut line = String::from("  ");
        for (cell, width) in row.iter().zip(&widths) {
            let _ = write!(line, "{cell:<width$}  ");
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
}
