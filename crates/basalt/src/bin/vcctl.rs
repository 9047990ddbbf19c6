//! The `vcctl` binary.

use std::process::ExitCode;

fn main() -> ExitCode {
    basalt_vcctl::run(std::env::args_os())
}
