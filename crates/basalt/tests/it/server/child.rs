//! Child processes that say when they are ready, and how they are ended.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

/// What a line of the output has in it by which a program says that it is ready.
pub(crate) struct Line(pub(crate) &'static str);

/// Starts a program and waits until it is ready.
pub(crate) fn spawn(command: &mut Command, ready: Line) -> Child {
    let mut child = command
        .stdout(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{command:?} starts: {error}"));
    let stdout = child.stdout.take().expect("stdout is piped");
    let mut lines = BufReader::new(stdout).lines();
    let is_ready = lines.any(|line| line.is_ok_and(|line| line.contains(ready.0)));
    assert!(is_ready, "{command:?} ended before it was ready: {:?}", child.wait());
    // Keep the pipe drained, so that the child never blocks on it.
    std::thread::spawn(move || lines.for_each(drop));
    child
}

/// `kill -9`: no goodbye.
pub(crate) fn kill(child: &mut Child) {
    child.kill().expect("it can be killed");
    child.wait().expect("it can be reaped");
}

/// SIGTERM, then waits; returns the exit code.
pub(crate) fn stop(child: &mut Child) -> Option<i32> {
    signal(child.id(), "TERM");
    child.wait().expect("it can be reaped").code()
}

/// Sends a signal to a process.
pub(crate) fn signal(pid: u32, name: &str) {
    let status = Command::new("kill")
        .args([&format!("-{name}"), &pid.to_string()])
        .status();
    assert!(status.expect("kill runs").success(), "process {pid} gets SIG{name}");
}

/// A child that ends with the test.
pub(crate) struct Ends(pub(crate) Child);

impl Drop for Ends {
    fn drop(&mut self) {
        // It may have ended already, which the test has then noticed.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
