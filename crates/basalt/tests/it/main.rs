//! The integration suite: real binaries, real processes, real `kubectl`.

mod conformance;
mod crash;
mod demo;
mod examples;
mod gang;
mod helpers;
mod job_cli;
mod kubectl;
mod kubernetes;
mod locks;
mod logs;
mod manager;
mod outlive;
mod plan;
mod queues;
mod reclaim;
mod scaling;
mod scheduler;
mod seeds;
mod server;
mod short;
mod watchman;
mod webhook;
