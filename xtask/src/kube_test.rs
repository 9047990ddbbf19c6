//! `cargo xtask kube-test`: the integration suite on a real kube-apiserver, etcd and kube-controller-manager, which are
//! built from their Go modules once.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::rights;

/// Which cases run where; relative to the workspace.
const WHERE: &str = "crates/basalt/tests/it/where.txt";
/// The page that says so.
const PAGE: &str = "docs/suite.md";
/// Clusters that run at the same time: each has an API server, which is most of the work.
const AT_ONCE: &str = "2";

/// A line of [`WHERE`].
struct Only<'a> {
    backend: &'a str,
    part: &'a str,
    why: &'a str,
}

fn read(text: &str) -> Result<Vec<Only<'_>>> {
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|line| {
            let mut words = line.splitn(3, ' ');
            let (Some(backend @ ("embedded" | "kubernetes")), Some(part), Some(why)) =
                (words.next(), words.next(), words.next())
            else {
                bail!("{WHERE}: {line:?} is not BACKEND CASE WHY");
            };
            Ok(Only { backend, part, why })
        })
        .collect()
}

/// Builds what is missing, runs the suite, checks the rights that were used.
pub(crate) fn run(root: &Path, filter: &[&str]) -> Result<()> {
    let tools = root.join(".cache/bin");
    let engine = built(root, "kubernetes", &tools)?;
    let helm = built(root, "helm", &tools)?;
    let programs = built(root, "conformance", &tools)?;
    let rendered = Rendered { root, helm: &helm };
    let objects = root.join(".cache/chart.yaml");
    std::fs::write(&objects, rendered.system("manager")?)?;
    let uninstall = root.join(".cache/uninstall.yaml");
    std::fs::write(&uninstall, rendered.uninstallation()?)?;
    let logs = root.join(".cache/audit");
    if logs.exists() {
        std::fs::remove_dir_all(&logs)?;
    }
    std::fs::create_dir_all(&logs)?;
    let cases = std::fs::read_to_string(root.join(WHERE))?;
    let mut command = Command::new(env!("CARGO"));
    // The whole workspace, as `cargo test` has just built it: with other features everything would be built again.
    command
        .current_dir(root)
        .args(["test", "--locked", "--workspace", "--test", "it", "--"])
        .args(["--test-threads", AT_ONCE])
        .args(filter);
    for only in read(&cases)?.iter().filter(|only| only.backend == "embedded") {
        command.args(["--skip", only.part]);
    }
    command
        .env("BASALT_KUBERNETES", engine)
        .env("BASALT_CHART_OBJECTS", &objects)
        .env("BASALT_UNINSTALL_OBJECTS", &uninstall)
        .env("BASALT_AUDIT_LOGS", &logs)
        .env("BASALT_CONFORMANCE", programs.parent().unwrap_or(&tools))
        .env("BASALT_REQUIRE_KUBECTL", "1");
    ensure!(command.status()?.success(), "the suite failed on Kubernetes");
    if filter.is_empty() {
        let is_current = std::fs::read_to_string(root.join(PAGE))? == current_page(root)?;
        ensure!(is_current, "{PAGE} is not up to date: run cargo xtask suite");
        let logs = std::fs::read_dir(&logs)?.map(|entry| Ok(entry?.path()));
        let logs = logs.collect::<Result<Vec<_>>>()?;
        // Once as it ran, and once as it would run with an account for each part.
        for (mode, by_part) in [("manager", false), ("split", true)] {
            let roles = root.join(format!(".cache/roles-{mode}.yaml"));
            std::fs::write(&roles, rendered.system(mode)? + "\n---\n" + &rendered.uninstallation()?)?;
            rights::run(&roles, by_part, &logs)?;
        }
        on_embedded(root, &programs, "conformance")?;
    }
    Ok(())
}

/// Runs a case that needs what was built here on the other backend too.
fn on_embedded(root: &Path, programs: &Path, case: &str) -> Result<()> {
    let status = Command::new(env!("CARGO"))
        .current_dir(root)
        .args(["test", "--locked", "--workspace", "--test", "it", "--", case])
        .env("BASALT_CONFORMANCE", programs.parent().unwrap_or(root))
        .status()?;
    ensure!(status.success(), "{case} failed on the embedded server");
    Ok(())
}

/// A program that Go builds: built unless it is there and younger than its sources.
fn built(root: &Path, name: &str, tools: &Path) -> Result<PathBuf> {
    let (folder, output) = (root.join("xtask").join(name), tools.join(name));
    let changed = |path: &Path| std::fs::metadata(path).and_then(|data| data.modified());
    let made = changed(&output).ok();
    let mut fresh = made.is_some();
    for entry in std::fs::read_dir(&folder).with_context(|| format!("reading {}", folder.display()))? {
        fresh &= made >= changed(&entry?.path()).ok();
    }
    if !fresh {
        eprintln!("building {name} from its Go modules (minutes, once)");
        // Where one build makes several programs, it is told their folder.
        let target = if name == "conformance" { tools } else { &output };
        let status = Command::new(folder.join("build")).arg(target).status();
        let status = status.with_context(|| format!("running {}", folder.join("build").display()))?;
        ensure!(
            status.success(),
            "{name} was not built: this needs Go and its module proxy"
        );
    }
    Ok(output)
}

/// Objects of the chart, rendered for the suite.
struct Rendered<'a> {
    root: &'a Path,
    helm: &'a Path,
}

impl Rendered<'_> {
    fn render(&self, arguments: &[&str]) -> Result<String> {
        let output = Command::new(self.helm)
            .current_dir(self.root)
            .args(["template", "basalt", "charts/basalt", "--namespace", "basalt-system"])
            .args(["--values", "charts/basalt/ci/kube-test.yaml"])
            .args(arguments)
            .output()
            .context("running helm")?;
        ensure!(
            output.status.success(),
            "helm template: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(String::from_utf8(output.stdout)?)
    }

    /// What is installed, in one mode or the other.
    fn system(&self, mode: &str) -> Result<String> {
        self.render(&["--set", &format!("mode={mode}")])
    }

    /// What is installed before an uninstallation.
    fn uninstallation(&self) -> Result<String> {
        let file = "templates/uninstall.yaml";
        self.render(&["--set", "uninstallHook.enabled=true", "--show-only", file])
    }
}

/// Writes the page that says where each case runs.
pub(crate) fn page(root: &Path) -> Result<()> {
    Ok(std::fs::write(root.join(PAGE), current_page(root)?)?)
}

/// The page as it must be, from the names that the test binary lists.
fn current_page(root: &Path) -> Result<String> {
    let listed = Command::new(env!("CARGO"))
        .current_dir(root)
        .args(["test", "--locked", "--workspace", "--test", "it", "--", "--list"])
        .output()?;
    ensure!(listed.status.success(), "the cases cannot be listed");
    let names = String::from_utf8(listed.stdout)?;
    let cases = std::fs::read_to_string(root.join(WHERE))?;
    Ok(table(&names, &read(&cases)?))
}

fn table(names: &str, only: &[Only<'_>]) -> String {
    let mut text = String::from(
        "# Where the integration suite runs\n\n\
         The suite is written once. `cargo test` runs it on `basalt up`; `cargo xtask kube-test` runs it on a real\n\
         kube-apiserver with etcd and kube-controller-manager. Written by `cargo xtask suite`.\n\n\
         | case | `basalt up` | Kubernetes | only there, because it |\n|---|---|---|---|\n",
    );
    let rows = names
        .lines()
        .filter_map(|line| line.strip_suffix(": test"))
        .map(|name| {
            let only = only.iter().find(|only| name.contains(only.part));
            let mark = |backend: &str| {
                if only.is_none_or(|only| only.backend == backend) {
                    "yes"
                } else {
                    ""
                }
            };
            let why = only.map_or("", |only| only.why);
            format!("| {name} | {} | {} | {why} |\n", mark("embedded"), mark("kubernetes"))
        });
    text.extend(rows);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_says_where_each_case_runs() {
        let only = read("# note\nembedded a:: kills it\nkubernetes b::two breaks it\n").expect("it reads");
        let text = table("a::one: test\nb::one: test\nb::two: test\n\n3 tests\n", &only);
        let rows: Vec<&str> = text.lines().skip(7).collect();
        assert_eq!(
            rows,
            [
                "| a::one | yes |  | kills it |",
                "| b::one | yes | yes |  |",
                "| b::two |  | yes | breaks it |"
            ]
        );
        assert!(read("nowhere a:: x").is_err());
    }
}
