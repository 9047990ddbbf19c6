//! The project's own scenarios: every file must pass.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use basalt_engine::scenario::{Scenario, Verdict};

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("the scenarios' folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "yaml") {
            files.push(path);
        }
    }
}

#[test]
fn own_scenarios_pass() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    let mut files = Vec::new();
    collect(&root, &mut files);
    files.sort();
    assert!(!files.is_empty(), "there are scenarios in {}", root.display());
    let mut failures = String::new();
    for file in files {
        let name = file.strip_prefix(&root).unwrap_or(&file).display();
        let text = std::fs::read_to_string(&file).expect("a readable file");
        match Scenario::parse(&text).map(|scenario| scenario.run(true).verdict) {
            Ok(Verdict::Passed) => {}
            Ok(Verdict::Failed(mismatches)) => {
                for mismatch in mismatches {
                    let _ = writeln!(failures, "{name}: {mismatch}");
                }
            }
            Ok(Verdict::NotSupported(what)) => {
                let _ = writeln!(failures, "{name}: not supported: {}", what.join("; "));
            }
            Err(error) => {
                let _ = writeln!(failures, "{name}: {error}");
            }
        }
    }
    assert!(failures.is_empty(), "\n{failures}");
}
