//! Files that are made from the code, and whether they are fresh.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// Folder of the CustomResourceDefinitions, below the root.
const CRDS: &str = "charts/basalt/crds";

/// Every generated file: path below the root, and content.
fn files() -> Result<BTreeMap<PathBuf, String>> {
    let definitions = basalt_api::crd::files().context("cannot print the CustomResourceDefinitions")?;
    Ok(definitions
        .into_iter()
        .map(|(name, content)| (Path::new(CRDS).join(name), content))
        .collect())
}

/// Writes all generated files, and removes those that are no longer generated.
pub(crate) fn write(root: &Path) -> Result<()> {
    let files = files()?;
    for path in leftovers(root, &files)? {
        std::fs::remove_file(root.join(&path)).with_context(|| format!("cannot remove {}", path.display()))?;
    }
    for (path, content) in &files {
        let path = root.join(path);
        let folder = path.parent().unwrap_or(root);
        std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        std::fs::write(&path, content).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// Findings about generated files that are missing, old or left over.
pub(crate) fn stale(root: &Path) -> Result<Vec<String>> {
    let files = files()?;
    let mut findings = Vec::new();
    for (path, content) in &files {
        let found = std::fs::read_to_string(root.join(path)).ok();
        if found.as_ref() != Some(content) {
            let state = if found.is_none() { "missing" } else { "stale" };
            findings.push(format!("{}: {state}; run `cargo xtask gen`", path.display()));
        }
    }
    for path in leftovers(root, &files)? {
        findings.push(format!(
            "{}: no longer generated; run `cargo xtask gen`",
            path.display()
        ));
    }
    Ok(findings)
}

/// Files in the generated folder that nothing generates any more.
fn leftovers(root: &Path, files: &BTreeMap<PathBuf, String>) -> Result<Vec<PathBuf>> {
    let folder = root.join(CRDS);
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    let mut left = Vec::new();
    for entry in std::fs::read_dir(&folder).with_context(|| format!("cannot list {}", folder.display()))? {
        let path = Path::new(CRDS).join(entry?.file_name());
        if !files.contains_key(&path) {
            left.push(path);
        }
    }
    left.sort();
    Ok(left)
}

#[cfg(test)]
mod tests {
    use super::{CRDS, stale, write};

    #[test]
    fn finds_missing_stale_and_left_over_files() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path();
        let missing = stale(root).expect("a list");
        assert!(
            missing.len() >= 10 && missing.iter().all(|finding| finding.contains("missing")),
            "{missing:?}"
        );

        write(root).expect("written");
        assert_eq!(stale(root).expect("a list"), Vec::<String>::new());

        let queue = root.join(CRDS).join("scheduling.volcano.sh_queues.yaml");
        std::fs::write(&queue, "edited by hand").expect("written");
        std::fs::write(root.join(CRDS).join("old.yaml"), "").expect("written");
        let findings = stale(root).expect("a list");
        assert_eq!(findings.len(), 2, "{findings:?}");
        assert!(
            findings.iter().any(|finding| finding.contains("queues.yaml: stale")),
            "{findings:?}"
        );
        assert!(
            findings
                .iter()
                .any(|finding| finding.contains("old.yaml: no longer generated")),
            "{findings:?}"
        );

        write(root).expect("written again");
        assert_eq!(stale(root).expect("a list"), Vec::<String>::new());
    }
}
