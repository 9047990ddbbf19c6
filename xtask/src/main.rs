//! Chores of the workspace: `cargo xtask gen [--check]`, `cargo xtask tidy`, `cargo xtask long`,
//! `cargo xtask kube-test [CASE]`, `cargo xtask suite`, `cargo xtask chart [--check]`, `cargo xtask rights`.

mod chart;
mod generate;
mod kube_test;
mod long;
mod rights;
mod tidy;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Result, bail};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match words.as_slice() {
        ["gen"] => generate::write(&root()),
        ["gen", "--check"] => report(generate::stale(&root())),
        ["tidy"] => report(tidy::check(&root())),
        ["long"] => long::run(&root()),
        ["kube-test", filter @ ..] => kube_test::run(&root(), filter),
        ["suite"] => kube_test::page(&root()),
        ["chart"] => chart::write(&root()),
        ["chart", "--check"] => report(chart::check(&root())),
        ["rights", words @ ..] => rights::main(words),
        _ => {
            eprintln!(
                "usage: cargo xtask gen [--check] | tidy | long | kube-test [CASE] | suite | chart [--check] |\n\
                 rights --roles FILE --audit FILE..."
            );
            return ExitCode::from(2);
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Prints findings; any is a failure.
fn report(findings: Result<Vec<String>>) -> Result<()> {
    let findings = findings?;
    for finding in &findings {
        eprintln!("{finding}");
    }
    if !findings.is_empty() {
        bail!("{} finding(s)", findings.len());
    }
    Ok(())
}

/// The root of the workspace.
fn root() -> PathBuf {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    own.parent().unwrap_or(own).to_owned()
}
