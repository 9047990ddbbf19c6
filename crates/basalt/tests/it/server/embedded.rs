//! The real `basalt up` as a child process.

use std::path::Path;
use std::process::{Child, Command};

use super::child::{Line, spawn};

/// Starts `basalt up` on a data folder and waits until it says that it is ready.
pub(super) fn start(listen: &str, data: &Path, arguments: &[&str]) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_basalt"));
    command
        .args(["up", "--listen", listen, "--data"])
        .arg(data)
        .args(arguments);
    spawn(&mut command, Line("is ready"))
}
