//! Programs made for Volcano, in Go: a client of its published API module, and its own vcctl.

use std::path::PathBuf;
use std::process::Command;

use crate::server::Server;

/// Names the folder of what xtask/conformance builds.
const PROGRAMS: &str = "BASALT_CONFORMANCE";

#[test]
fn programs_made_for_volcano_work() {
    let Some(programs) = std::env::var_os(PROGRAMS).map(PathBuf::from) else {
        eprintln!("NOT RUN: {PROGRAMS} is not set, `cargo xtask kube-test` builds these programs with Go");
        return;
    };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let server = Server::start(folder.path(), &["--nodes", "3"]);
    let output = Command::new(programs.join("conformance"))
        .arg(server.kubeconfig())
        .arg(programs.join("volcano-vcctl"))
        .output()
        .expect("the programs run");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    println!("{said}");
    assert!(output.status.success(), "{said}\n{output:?}");
    server.audit(true);
}
