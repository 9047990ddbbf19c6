//! Rules that a newcomer can hold in the head, enforced: who may depend on whom, what pure crates leave alone,
//! how long files and functions may be, and that generated files are fresh.

mod architecture;
mod lexer;
mod purity;
mod source;
mod walks;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::generate;

/// Crates that decide and do nothing else: no async, no clock, no randomness, no sockets, no files.
const PURE: [&str; 6] = [
    "engine",
    "scheduler",
    "controllers",
    "admission",
    "apimachinery",
    "audit",
];

/// All findings about the workspace at `root`, sorted.
pub(crate) fn check(root: &Path) -> Result<Vec<String>> {
    let mut findings = generate::stale(root)?;
    findings.extend(architecture::check(root)?);
    findings.extend(purity::check(root)?);
    findings.extend(walks::check(root)?);
    for path in sources(root)? {
        let text =
            std::fs::read_to_string(root.join(&path)).with_context(|| format!("cannot read {}", path.display()))?;
        findings.extend(source::check(&path, &text));
    }
    findings.sort();
    Ok(findings)
}

/// Every Rust file of ours, as a path below the root.
fn sources(root: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut folders = vec![PathBuf::from("crates"), PathBuf::from("xtask")];
    while let Some(folder) = folders.pop() {
        let listing =
            std::fs::read_dir(root.join(&folder)).with_context(|| format!("cannot list {}", folder.display()))?;
        for entry in listing {
            let entry = entry?;
            let path = folder.join(entry.file_name());
            if entry.file_type()?.is_dir() {
                if entry.file_name() != "target" {
                    folders.push(path);
                }
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::{check, sources};

    #[test]
    fn the_workspace_is_tidy() {
        let findings = check(&crate::root()).expect("the rules can be checked");
        assert!(findings.is_empty(), "\n{}\n", findings.join("\n"));
    }

    #[test]
    fn sources_are_found_in_every_folder_but_target() {
        let folder = tempfile::tempdir().expect("a folder");
        for path in [
            "crates/a/src/lib.rs",
            "crates/a/tests/t.rs",
            "crates/a/target/x.rs",
            "xtask/src/main.rs",
            "crates/a/x.txt",
        ] {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().expect("a parent")).expect("made");
            std::fs::write(path, "").expect("written");
        }
        let found: Vec<String> = sources(folder.path())
            .expect("a list")
            .iter()
            .map(|path| path.display().to_string())
            .collect();
        assert_eq!(
            found,
            ["crates/a/src/lib.rs", "crates/a/tests/t.rs", "xtask/src/main.rs"]
        );
    }
}
