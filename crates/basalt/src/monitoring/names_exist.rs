//! Alerts, dashboard and documentation name numbers and labels that exist.

use std::collections::{BTreeMap, BTreeSet};

use basalt_runtime::controllers::Numbers;
use basalt_runtime::scheduler;
use basalt_webhook as webhook;

/// By series, the names of its labels.
type Series = BTreeMap<String, BTreeSet<String>>;

/// What is served at `/metrics`, all parts together.
fn series() -> Series {
    // Of who leads only a process with a Lease has numbers.
    let leader = "basalt_leader{lease=\"volcano\"} 1\n".to_owned();
    let pages = [
        scheduler::example_page(),
        Numbers::example().encode(),
        webhook::example_page(),
        leader,
    ];
    let mut series = Series::new();
    for line in pages
        .iter()
        .flat_map(|page| page.lines())
        .filter(|line| !line.starts_with('#'))
    {
        let name = line.split(['{', ' ']).next().unwrap_or_default();
        let labels = line.split_once('{').map_or("", |(_, rest)| rest);
        let labels = labels
            .split(',')
            .filter_map(|label| Some(label.split_once('=')?.0.to_owned()));
        series.entry(name.to_owned()).or_default().extend(labels);
    }
    series
}

fn read(path: &str) -> String {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    std::fs::read_to_string(format!("{root}/{path}")).expect("a file of the repository")
}

/// The words of a text that are names of ours.
fn names(text: &str) -> BTreeSet<&str> {
    let words = text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    words
        .filter(|word| word.starts_with("volcano_") || word.starts_with("basalt_"))
        .collect()
}

/// The labels that an expression or a legend asks for: `by (a, b)`, `{{a}}`, `$labels.a`, `a="…"`.
fn labels(text: &str) -> BTreeSet<&str> {
    let after = |mark: &'static str, end: &'static [char]| {
        let parts = text.split(mark).skip(1);
        parts.filter_map(move |part| part.split(end).next())
    };
    let grouped = after("by (", &[')']).flat_map(|list| list.split(", "));
    let shown = after("{{", &['}']).filter(|word| !word.starts_with(' '));
    let of_alert = after("$labels.", &[' ', '}']);
    let matched = text
        .split("=~\"")
        .chain(text.split("=\""))
        .filter_map(|part| part.rsplit(['{', ',', ' ']).next());
    let matched = matched.filter(|word| text.contains(&format!("{word}=")));
    let all = grouped.chain(shown).chain(of_alert).chain(matched);
    // Those that Prometheus itself adds.
    all.filter(|label| !label.is_empty() && !["le", "pod"].contains(label))
        .collect()
}

/// What `text` names and `series` has not.
fn unknown(text: &str, series: &Series) -> Vec<String> {
    let named = names(text);
    let missing = named.iter().filter(|name| !series.contains_key(**name));
    let known: BTreeSet<&String> = named.iter().filter_map(|name| series.get(*name)).flatten().collect();
    let labels = labels(text);
    let unlabelled = labels.iter().filter(|label| !known.contains(&(**label).to_owned()));
    missing.chain(unlabelled).map(|word| (*word).to_owned()).collect()
}

#[test]
fn what_is_unknown_is_found() {
    let series = series();
    let check = |text: &str, expected: &[&str]| assert_eq!(unknown(text, &series), expected, "{text}");
    check("max(basalt_ready) < 1", &[]);
    check("max(basalt_redy) < 1", &["basalt_redy"]);
    check(
        "sum by (le, action) (rate(volcano_action_scheduling_latency_milliseconds_bucket[5m]))",
        &[],
    );
    check(
        "sum by (acton) (rate(volcano_action_scheduling_latency_milliseconds_bucket[5m]))",
        &["acton"],
    );
    check("basalt_queue_reserved {{queue}} {{dimension}}", &["dimension"]);
    check("volcano_schedule_attempts_total{result=\"error\"} $labels.result", &[]);
    check("volcano_schedule_attempts_total{outcome=\"error\"}", &["outcome"]);
    check("volcano_queue_share{queue=~\"$queue\"}", &["queue"]);
    check(
        "basalt_evictions_total fails for {{ $labels.purpose }}, {{ $value }}",
        &[],
    );
}

#[test]
fn alerts_and_dashboard_ask_for_what_is_there() {
    let series = series();
    let alerts = read("charts/basalt/files/alerts.yaml");
    let alerts: Vec<&str> = alerts.split("- alert: ").skip(1).collect();
    assert!(alerts.len() >= 10, "{}", alerts.len());
    let dashboard: serde_json::Value = serde_json::from_str(&read("charts/basalt/files/dashboard.json")).expect("JSON");
    let panels = dashboard["panels"].as_array().expect("panels");
    let targets = panels.iter().filter_map(|panel| panel["targets"].as_array()).flatten();
    let targets: Vec<String> = targets
        .map(|target| {
            format!(
                "{} {}",
                target["expr"].as_str().unwrap_or_default(),
                target["legendFormat"]
            )
        })
        .collect();
    assert!(targets.len() >= 20, "{}", targets.len());
    for text in alerts.into_iter().chain(targets.iter().map(String::as_str)) {
        assert_eq!(unknown(text, &series), Vec::<String>::new(), "{text}");
    }
}

#[test]
fn the_documentation_names_what_is_there() {
    let series = series();
    let text = read("docs/monitoring.md");
    for name in names(&text) {
        let is_histogram = series.contains_key(&format!("{name}_count"));
        let is_beginning = name.ends_with('_') && series.keys().any(|known| known.starts_with(name));
        assert!(series.contains_key(name) || is_histogram || is_beginning, "{name}");
    }
}
