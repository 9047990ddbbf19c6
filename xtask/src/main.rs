//! Chores of the workspace: `cargo xtask gen [--check]`, `cargo xtask tidy`, `cargo xtask long`.

mod generate;
mod long;
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
        _ => {
            eprintln!("usage: cargo xtask gen [--check] | tidy | long");
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
