//! Runs scenario files and says which pass. `cargo run -p basalt-engine --example scenarios -- FILE|FOLDER…`

use std::path::{Path, PathBuf};

use basalt_engine::scenario::{Scenario, Verdict};

fn main() {
    let mut files = Vec::new();
    for path in std::env::args().skip(1) {
        collect(Path::new(&path), &mut files);
    }
    files.sort();
    let mut totals = [0; 4];
    for file in &files {
        let name = file.display();
        let text = std::fs::read_to_string(file).unwrap_or_default();
        let outcome = match Scenario::parse(&text) {
            Ok(scenario) => scenario.run(true),
            Err(error) => {
                totals[3] += 1;
                println!("ERROR {name}: {error}");
                continue;
            }
        };
        match outcome.verdict {
            Verdict::Passed => {
                totals[0] += 1;
                println!("pass  {name}");
            }
            Verdict::Failed(mismatches) => {
                totals[1] += 1;
                println!("FAIL  {name}");
                for mismatch in mismatches {
                    println!("        {mismatch}");
                }
            }
            Verdict::NotSupported(what) => {
                totals[2] += 1;
                println!("lack  {name}: {}", what.join("; "));
            }
        }
        for note in outcome.notes {
            println!("        note: {note}");
        }
    }
    let [passed, failed, lacking, broken] = totals;
    println!("{passed} passed, {failed} failed, {lacking} not supported, {broken} unreadable");
}

fn collect(path: &Path, files: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(path) else {
        return files.push(path.to_owned());
    };
    for entry in entries.flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|ext| ext == "yaml") {
            files.push(path);
        }
    }
}
