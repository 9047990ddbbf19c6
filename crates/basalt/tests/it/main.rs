//! The integration suite: real binaries, real processes, real `kubectl`.

mod crash;
mod gang;
mod kubectl;
mod plan;
mod scheduler;
mod server;
mod short;
mod watchman;
