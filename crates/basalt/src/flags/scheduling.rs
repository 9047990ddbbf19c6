//! The flags that every command with a scheduler in it has.

use std::path::PathBuf;
use std::time::Duration;

use basalt_api::names;

use basalt_runtime::scheduler::{ConfSource, SchedulerOptions};

/// How to schedule.
#[derive(Debug, clap::Args)]
pub struct SchedulingFlags {
    /// Scheduler configuration in Volcano's form (volcano-scheduler.conf), read again when it changes [default: built in]
    #[arg(long, alias = "scheduler-conf", value_name = "FILE")]
    conf: Option<PathBuf>,
    /// Refuse a configuration that has keys or plugins that are not understood
    #[arg(long, requires = "conf")]
    strict_conf: bool,
    /// Milliseconds between two cycles at most; news wakes one at once
    #[arg(long, value_name = "MS", default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(10..=60_000))]
    period_max: u64,
    /// Seconds between two looks of the auditor at what the scheduler did; 0 for none
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    audit_period: u64,
}

/// How often it is decided anew which nodes are locked for queues.
#[derive(Debug, clap::Args)]
pub struct RelockFlags {
    /// Milliseconds between two choices of the nodes that are locked for queues, at most, while pods come and go; what
    /// somebody waits for (a guarantee, a lost node) is looked at at once
    #[arg(long, value_name = "MS", default_value_t = 5_000, value_parser = clap::value_parser!(u64).range(100..=600_000))]
    relock_period: u64,
}

impl RelockFlags {
    /// The time between two choices.
    pub fn period(&self) -> Duration {
        Duration::from_millis(self.relock_period)
    }
}

/// The names of schedulers that are ours.
#[derive(Debug, Clone, clap::Args)]
pub struct NameFlags {
    /// Pods that name this scheduler are ours; may be repeated [default: volcano, basalt]
    #[arg(long, value_name = "NAME")]
    scheduler_name: Vec<String>,
}

impl NameFlags {
    /// The names.
    pub fn names(&self) -> Vec<String> {
        if self.scheduler_name.is_empty() {
            names::SCHEDULER_NAMES.map(str::to_owned).into()
        } else {
            self.scheduler_name.clone()
        }
    }
}

impl SchedulingFlags {
    /// `defaults`, changed as the flags say.
    pub fn over(&self, defaults: SchedulerOptions) -> SchedulerOptions {
        SchedulerOptions {
            conf: ConfSource::new(self.conf.clone(), self.strict_conf),
            period_max: Duration::from_millis(self.period_max),
            audit_every: Duration::from_secs(self.audit_period),
            ..defaults
        }
    }
}
