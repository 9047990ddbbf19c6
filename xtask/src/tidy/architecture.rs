//! Who may depend on whom.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use cargo_metadata::{DependencyKind, MetadataCommand};

use super::PURE;

/// Our crates, and which of ours each may build on. `xtask` and tests may use more.
const ALLOWED: &[(&str, &[&str])] = &[
    ("basalt-api", &[]),
    ("basalt-engine", &["basalt-api"]),
    ("basalt-scheduler", &["basalt-api", "basalt-engine"]),
    ("basalt-controllers", &["basalt-api"]),
    ("basalt-admission", &["basalt-api"]),
    ("basalt-audit", &["basalt-api"]),
    ("basalt-apimachinery", &["basalt-api"]),
    (
        "basalt-apiserver",
        &["basalt-api", "basalt-apimachinery", "basalt-admission"],
    ),
    ("basalt-node", &["basalt-api"]),
    (
        "basalt-runtime",
        &[
            "basalt-api",
            "basalt-engine",
            "basalt-scheduler",
            "basalt-controllers",
            "basalt-audit",
        ],
    ),
    (
        "basalt-webhook",
        &["basalt-api", "basalt-admission", "basalt-apiserver", "basalt-runtime"],
    ),
    (
        "basalt-sim",
        &[
            "basalt-api",
            "basalt-engine",
            "basalt-scheduler",
            "basalt-controllers",
            "basalt-admission",
            "basalt-audit",
        ],
    ),
    ("basalt-testkit", &["basalt-api", "basalt-engine"]),
    ("basalt-vcctl", &["basalt-api"]),
    (
        "basalt",
        &[
            "basalt-admission",
            "basalt-api",
            "basalt-apiserver",
            "basalt-controllers",
            "basalt-engine",
            "basalt-node",
            "basalt-runtime",
            "basalt-vcctl",
            "basalt-webhook",
        ],
    ),
    (
        "basalt-bench",
        &[
            "basalt",
            "basalt-admission",
            "basalt-api",
            "basalt-apiserver",
            "basalt-audit",
            "basalt-controllers",
            "basalt-engine",
            "basalt-node",
            "basalt-runtime",
            "basalt-sim",
            "basalt-testkit",
        ],
    ),
    ("xtask", &["basalt-api"]),
];

/// Not even for tests: the checker must not share the thoughts of what it checks.
const NEVER: [(&str, &str); 1] = [("basalt-audit", "basalt-engine")];

/// A feature for tests alone: bugs that can be planted.
const MUTANTS: &str = "mutants";

/// What a pure crate must not reach, through whichever crates: clocks are seen in the sources, these are not.
const IMPURE: [&str; 20] = [
    "async-io",
    "async-std",
    "axum",
    "fastrand",
    "futures-executor",
    "getrandom",
    "hyper",
    "hyper-util",
    "kube-client",
    "kube-runtime",
    "mio",
    "rand",
    "rand_core",
    "redb",
    "reqwest",
    "rustls",
    "smol",
    "socket2",
    "tokio",
    "tower",
];

/// One of our crates, as its manifest says.
#[derive(Debug, Default)]
struct Crate {
    name: String,
    /// Crates that it is built on.
    normal: BTreeSet<String>,
    /// Crates for its tests and its build script.
    other: BTreeSet<String>,
    /// Whether it takes the lints of the workspace.
    linted: bool,
    /// Whether the product, not only its tests, is built with bugs that can be planted.
    mutable: bool,
}

/// Findings about the workspace at `root`.
pub(crate) fn check(root: &Path) -> Result<Vec<String>> {
    let mut findings = Vec::new();
    for member in members(root)? {
        findings.extend(check_manifest(&member));
    }
    for name in PURE {
        let name = format!("basalt-{name}");
        findings.extend(check_reach(&name, &reach(root, &name)?));
    }
    Ok(findings)
}

fn members(root: &Path) -> Result<Vec<Crate>> {
    let mut command = MetadataCommand::new();
    let metadata = command
        .manifest_path(root.join("Cargo.toml"))
        .no_deps()
        .exec()
        .context("cargo metadata failed")?;
    let mut members = Vec::new();
    for package in metadata.workspace_packages() {
        let manifest = std::fs::read_to_string(&package.manifest_path)
            .with_context(|| format!("cannot read {}", package.manifest_path))?;
        let linted = manifest.contains("[lints]\nworkspace = true");
        let mut member = Crate {
            name: package.name.to_string(),
            linted,
            ..Crate::default()
        };
        for dependency in &package.dependencies {
            member.mutable |= dependency.kind != DependencyKind::Development
                && dependency.features.iter().any(|feature| feature == MUTANTS);
            let list = if dependency.kind == DependencyKind::Normal {
                &mut member.normal
            } else {
                &mut member.other
            };
            list.insert(dependency.name.clone());
        }
        members.push(member);
    }
    Ok(members)
}

/// Every crate that `name` is built on, with exactly the features that it asks for.
fn reach(root: &Path, name: &str) -> Result<BTreeSet<String>> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let arguments = [
        "tree",
        "--locked",
        "--edges",
        "normal",
        "--prefix",
        "none",
        "--format",
        "{p}",
        "--package",
        name,
    ];
    let output = Command::new(cargo)
        .args(arguments)
        .current_dir(root)
        .output()
        .context("cannot run cargo tree")?;
    if !output.status.success() {
        bail!("cargo tree failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text
        .lines()
        .filter_map(|line| line.split_whitespace().next())
        .map(str::to_owned)
        .collect())
}

fn check_manifest(member: &Crate) -> Vec<String> {
    let name = &member.name;
    let mut findings = Vec::new();
    if !member.linted {
        findings.push(format!("{name}: its Cargo.toml lacks `[lints] workspace = true`"));
    }
    if member.mutable {
        findings.push(format!("{name}: must not build on anything with the feature {MUTANTS}"));
    }
    let table: BTreeMap<&str, &[&str]> = ALLOWED.iter().copied().collect();
    let Some(allowed) = table.get(name.as_str()) else {
        findings.push(format!(
            "{name}: not in the table of crates; say there what it may build on"
        ));
        return findings;
    };
    let ours = |dependency: &&String| table.contains_key(dependency.as_str());
    for dependency in member.normal.iter().filter(ours) {
        if !allowed.contains(&dependency.as_str()) {
            findings.push(format!("{name}: must not build on {dependency}"));
        }
    }
    for (from, to) in NEVER {
        if name == from && member.other.contains(to) {
            findings.push(format!("{name}: must not use {to}, not even in tests"));
        }
    }
    findings
}

fn check_reach(name: &str, reached: &BTreeSet<String>) -> Vec<String> {
    let impure = IMPURE.iter().filter(|impure| reached.contains(**impure));
    let mut findings: Vec<String> = impure
        .map(|impure| format!("{name}: is pure and must not reach {impure}"))
        .collect();
    for (from, to) in NEVER {
        if name == from && reached.contains(to) {
            findings.push(format!("{name}: must not reach {to}"));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{Crate, check_manifest, check_reach};

    fn names(list: &[&str]) -> BTreeSet<String> {
        list.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn manifests_are_checked() {
        let check = |name: &str, normal: &[&str], other: &[&str], expected: &[&str]| {
            let member = Crate {
                name: name.into(),
                normal: names(normal),
                other: names(other),
                linted: true,
                mutable: false,
            };
            assert_eq!(check_manifest(&member), expected);
        };
        check(
            "basalt-engine",
            &["basalt-api", "serde"],
            &["proptest", "basalt-audit"],
            &[],
        );
        check(
            "basalt-api",
            &["basalt-engine"],
            &[],
            &["basalt-api: must not build on basalt-engine"],
        );
        check(
            "basalt-engine",
            &["basalt-apiserver"],
            &[],
            &["basalt-engine: must not build on basalt-apiserver"],
        );
        check(
            "basalt-audit",
            &["basalt-engine"],
            &[],
            &["basalt-audit: must not build on basalt-engine"],
        );
        check(
            "basalt-audit",
            &[],
            &["basalt-engine"],
            &["basalt-audit: must not use basalt-engine, not even in tests"],
        );
        check("basalt-vcctl", &["basalt-api"], &["basalt-apiserver"], &[]);
        let unknown = "basalt-new: not in the table of crates; say there what it may build on";
        check("basalt-new", &["basalt-api"], &[], &[unknown]);
        let mutable = Crate {
            name: "basalt-api".into(),
            linted: true,
            mutable: true,
            ..Crate::default()
        };
        assert_eq!(
            check_manifest(&mutable),
            ["basalt-api: must not build on anything with the feature mutants"]
        );
        let unlinted = Crate {
            name: "basalt-api".into(),
            ..Crate::default()
        };
        assert_eq!(
            check_manifest(&unlinted),
            ["basalt-api: its Cargo.toml lacks `[lints] workspace = true`"]
        );
    }

    #[test]
    fn pure_crates_reach_nothing_impure() {
        let check = |name: &str, reached: &[&str], expected: &[&str]| {
            assert_eq!(check_reach(name, &names(reached)), expected);
        };
        check("basalt-engine", &["basalt-api", "kube-core", "serde", "jiff"], &[]);
        check(
            "basalt-engine",
            &["tokio"],
            &["basalt-engine: is pure and must not reach tokio"],
        );
        check(
            "basalt-admission",
            &["kube-client"],
            &["basalt-admission: is pure and must not reach kube-client"],
        );
        check(
            "basalt-controllers",
            &["getrandom"],
            &["basalt-controllers: is pure and must not reach getrandom"],
        );
        check(
            "basalt-audit",
            &["basalt-engine"],
            &["basalt-audit: must not reach basalt-engine"],
        );
    }
}
