//! The scheduler around the engine: watch events and answers in, commands out; pure.
//!
//! The engine decides which pods go where. A [`SchedulerCore`] decides everything else that a scheduler does without
//! waiting: it feeds the engine, checks decisions once more before they are carried out, publishes the statuses of
//! PodGroups, queues and pods, records events, and completes or releases gangs of which only a part is bound.
//!
//! A driver passes every [`SchedulerInput`] to [`SchedulerCore::observe`], calls [`SchedulerCore::cycle`] and
//! [`SchedulerCore::dispatch`], and carries out the [`SchedulerCommand`]s that [`SchedulerCore::take_commands`]
//! returns. The live system drives a core with watches and an API server; the simulator drives the same core with a
//! virtual clock and an API in memory.

#![cfg_attr(not(test), warn(clippy::disallowed_methods, clippy::disallowed_types))]

mod bind_recheck;
mod command;
mod core;
mod eviction;
mod input;
mod nomination;
mod partial_gang;
mod pending_write;
mod pod_condition;
mod pod_group_status;
mod queue_status;
mod recreated_node;
mod rejected_write;
#[cfg(test)]
mod test_cluster;
mod token_bucket;

pub use self::command::{GangOutcome, SchedulerCommand, SchedulingMetric, StatusWrite, StatusWriter};
pub use self::core::{CoreOptions, SchedulerCore};
pub use self::input::{EvictionOutcome, FailedBind, ObjectEvent, SchedulerInput, StatusWriteOutcome};
