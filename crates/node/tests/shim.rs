//! Real pods under a real shim: a plan goes in; states, logs and exit codes come out.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test says what it found"
)]

#[path = "shim/ends.rs"]
mod ends;
#[path = "shim/exec.rs"]
mod exec;
#[path = "shim/life.rs"]
mod life;
#[path = "shim/limits.rs"]
mod limits;
#[path = "shim/probes.rs"]
mod probes;
#[path = "shim/rig.rs"]
mod rig;
#[path = "shim/trust.rs"]
mod trust;
#[path = "shim/view.rs"]
mod view;
