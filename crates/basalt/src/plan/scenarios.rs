//! `basalt plan --scenario`: which scenarios pass.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use basalt_engine::scenario::{Mismatch, Scenario, Verdict};
use serde_json::{Value, json};

use super::PlanOptions;
use super::departures::Departures;

/// A folder in a folder in a folder: deeper than this nobody keeps scenarios.
const DEPTH_MAX: usize = 8;

/// A file and how it ended.
struct Run {
    file: PathBuf,
    result: RunResult,
    notes: Vec<Mismatch>,
}

enum RunResult {
    Passed,
    Failed(Vec<String>),
    NotSupported(Vec<String>),
    /// Listed as a departure, and it is one.
    Departed,
}

/// Runs all files; 0 all passed, 1 one failed, 3 none failed but some are not supported.
pub(super) fn main(options: &PlanOptions) -> anyhow::Result<ExitCode> {
    let departures = options.departures.as_deref().map(Departures::read).transpose()?;
    let departures = departures.unwrap_or_default();
    let mut files = Vec::new();
    for path in &options.scenario {
        collect(path, 0, &mut files)?;
    }
    if files.is_empty() {
        bail!("there is no .yaml file to run");
    }
    let runs: Vec<Run> = files
        .into_iter()
        .map(|file| run(file, !options.lenient, &departures))
        .collect();
    if options.output == "json" {
        print_json(&runs)?;
    } else {
        print_lines(&runs);
    }
    let any = |wanted: fn(&RunResult) -> bool| runs.iter().any(|run| wanted(&run.result));
    Ok(if any(|result| matches!(result, RunResult::Failed(_))) {
        ExitCode::FAILURE
    } else if any(|result| matches!(result, RunResult::NotSupported(_))) {
        ExitCode::from(3)
    } else {
        ExitCode::SUCCESS
    })
}

/// The scenario files of a folder and of all folders in it, by name.
fn collect(path: &Path, depth: usize, files: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    let place = || format!("cannot read {}", path.display());
    if !std::fs::metadata(path).with_context(place)?.is_dir() {
        files.push(path.to_owned());
        return Ok(());
    }
    if depth > DEPTH_MAX {
        bail!("{} is too deep", path.display());
    }
    let mut entries = Vec::new();
    for entry in std::fs::read_dir(path).with_context(place)? {
        entries.push(entry.with_context(place)?.path());
    }
    entries.sort();
    for entry in entries {
        let is_yaml = entry.extension().is_some_and(|extension| extension == "yaml");
        if is_yaml || entry.is_dir() {
            collect(&entry, depth + 1, files)?;
        }
    }
    Ok(())
}

fn run(file: PathBuf, strict: bool, departures: &Departures) -> Run {
    let text = std::fs::read_to_string(&file).map_err(|error| error.to_string());
    let outcome = text
        .and_then(|text| Scenario::parse(&text).map_err(|error| error.to_string()))
        .map(|scenario| scenario.run(strict));
    let (verdict, notes) = match outcome {
        Ok(outcome) => (Ok(outcome.verdict), outcome.notes),
        Err(error) => (Err(error), Vec::new()),
    };
    let listed = departures.has(&file);
    let result = match verdict {
        Ok(Verdict::Passed) if listed => RunResult::Failed(vec![
            "it passes, but is listed as a departure: take it off the list".to_owned(),
        ]),
        Ok(Verdict::Passed) => RunResult::Passed,
        Ok(Verdict::Failed(_)) if listed => RunResult::Departed,
        Ok(Verdict::Failed(mismatches)) => RunResult::Failed(mismatches.iter().flat_map(diff).collect()),
        Ok(Verdict::NotSupported(what)) => RunResult::NotSupported(what),
        Err(error) => RunResult::Failed(vec![error]),
    };
    Run { file, result, notes }
}

/// Expected and seen; of two mappings or lists only the entries that differ.
fn diff(mismatch: &Mismatch) -> Vec<String> {
    let mut lines = vec![format!("{}:", mismatch.key)];
    match (&mismatch.expected, &mismatch.seen) {
        (Value::Object(expected), Value::Object(seen)) => {
            let none = |key: &str, value: &Value| value == 0 && !seen.contains_key(key);
            let missing = expected
                .iter()
                .filter(|(key, value)| seen.get(*key) != Some(value) && !none(key, value));
            lines.extend(missing.map(|(key, value)| format!("  - {key}: {value}")));
            let extra = seen.iter().filter(|(key, value)| expected.get(*key) != Some(value));
            lines.extend(extra.map(|(key, value)| format!("  + {key}: {value}")));
        }
        (Value::Array(expected), Value::Array(seen)) => {
            let missing = expected.iter().filter(|item| !seen.contains(item));
            lines.extend(missing.map(|item| format!("  - {item}")));
            let extra = seen.iter().filter(|item| !expected.contains(item));
            lines.extend(extra.map(|item| format!("  + {item}")));
        }
        (expected, seen) => {
            lines.push(format!("  - {expected}"));
            lines.push(format!("  + {seen}"));
        }
    }
    lines
}

fn print_lines(runs: &[Run]) {
    let mut totals = [0_usize; 4];
    for run in runs {
        let file = run.file.display();
        let (word, details) = match &run.result {
            RunResult::Passed => (0, &[][..]),
            RunResult::Failed(why) => (1, why.as_slice()),
            RunResult::NotSupported(what) => (2, what.as_slice()),
            RunResult::Departed => (3, &[][..]),
        };
        totals[word] += 1;
        println!("{:<14} {file}", ["pass", "FAIL", "not supported", "departure"][word]);
        for line in details {
            println!("                 {line}");
        }
        let quiet = matches!(run.result, RunResult::NotSupported(_) | RunResult::Departed);
        for note in run.notes.iter().filter(|_| !quiet) {
            println!("                 note: {note}");
        }
    }
    let [passed, failed, lacking, departed] = totals;
    println!(
        "\n{passed} passed, {failed} failed, {lacking} not supported, {departed} departures, {} in all",
        runs.len()
    );
}

fn print_json(runs: &[Run]) -> anyhow::Result<()> {
    let entries: Vec<Value> = runs
        .iter()
        .map(|run| {
            let (result, details) = match &run.result {
                RunResult::Passed => ("pass", &[][..]),
                RunResult::Failed(why) => ("fail", why.as_slice()),
                RunResult::NotSupported(what) => ("notSupported", what.as_slice()),
                RunResult::Departed => ("departure", &[][..]),
            };
            json!({"file": run.file, "result": result, "details": details, "notes": run.notes})
        })
        .collect();
    let count = |word: &str| entries.iter().filter(|entry| entry["result"] == word).count();
    let report = json!({
        "passed": count("pass"), "failed": count("fail"),
        "notSupported": count("notSupported"), "departures": count("departure"),
        "scenarios": entries,
    });
    println!("{}", serde_json::to_string_pretty(&report)?);
    Ok(())
}
