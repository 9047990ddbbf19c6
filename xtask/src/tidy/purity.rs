//! Whether clippy watches over the pure crates: each has the same list of bans, and turns its lints on.

use std::path::Path;

use anyhow::{Context, Result};

use super::PURE;

/// The first line of code of every pure crate. Tests may read files and clocks.
const LINTS: &str = "#![cfg_attr(not(test), warn(clippy::disallowed_methods, clippy::disallowed_types))]";

/// Bans that the list must contain, one of each sort.
const BANS: [&str; 12] = [
    "std::time::Instant",
    "std::time::SystemTime",
    "jiff::Timestamp::now",
    "jiff::Zoned::now",
    "std::fs::File",
    "std::fs::read",
    "std::net::TcpStream",
    "std::process::Command",
    "std::env::var",
    "std::thread::spawn",
    "std::hash::RandomState",
    "std::collections::HashMap",
];

/// Returns the findings about the workspace at `root`.
pub(crate) fn check(root: &Path) -> Result<Vec<String>> {
    let mut findings = Vec::new();
    let mut first: Option<String> = None;
    for name in PURE {
        let folder = root.join("crates").join(name);
        let read = |path: &str| {
            let path = folder.join(path);
            std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
        };
        let bans = read("clippy.toml")?;
        findings.extend(check_crate(name, &bans, &read("src/lib.rs")?));
        if first.get_or_insert_with(|| bans.clone()) != &bans {
            findings.push(format!("crates/{name}/clippy.toml: differs from that of {}", PURE[0]));
        }
    }
    Ok(findings)
}

fn check_crate(name: &str, bans: &str, library: &str) -> Vec<String> {
    let missing = BANS.into_iter().filter(|ban| !bans.contains(&format!("\"{ban}\"")));
    let mut findings: Vec<String> = missing
        .map(|ban| format!("crates/{name}/clippy.toml: does not ban {ban}"))
        .collect();
    if !library.lines().any(|line| line == LINTS) {
        findings.push(format!("crates/{name}/src/lib.rs: lacks `{LINTS}`"));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::{BANS, LINTS, check, check_crate};

    #[test]
    fn every_pure_crate_has_the_bans() {
        assert_eq!(
            check(&crate::root()).expect("the files are there"),
            Vec::<String>::new()
        );
    }

    #[test]
    fn a_missing_ban_and_a_missing_lint_are_found() {
        let all = BANS.map(|ban| format!("{{ path = \"{ban}\" }}")).join("\n");
        let library = format!("//! Docs.\n\n{LINTS}\n");
        assert_eq!(check_crate("a", &all, &library), Vec::<String>::new());
        assert_eq!(
            check_crate("a", &all.replace("std::fs::File", "x"), &library),
            ["crates/a/clippy.toml: does not ban std::fs::File"]
        );
        assert_eq!(check_crate("a", &all, "//! Docs.").len(), 1);
    }
}
