//! What surrounds the deciding crates where there are sockets, threads and a clock.
//!
//! Watches fill caches ([`watch`]), loops ask the deciding crates what to do ([`scheduler`], [`controllers`], both on
//! [`event_loop`]), and every request that changes something leaves through one door ([`write`]), which leader election
//! opens and closes ([`leader_election`]). Nothing in here decides what to schedule or what a Job needs.

pub mod audited_objects;
pub mod controllers;
pub mod event_loop;
pub mod leader_election;
pub mod liveness;
pub mod logging;
pub mod process;
pub mod scheduler;
#[cfg(any(test, feature = "testing"))]
pub mod scripted_server;
pub mod watch;
pub mod write;
