//! Whether a container is well: its start hook and its three probes.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::action::act;
use super::pod::Pod;
use crate::local::plan::{ContainerPlan, Probe};
use crate::local::state::{ContainerState, ProcessId};

/// A hook that does not end would hold the container for ever.
const HOOK_MAX: Duration = Duration::from_hours(1);

/// The answers of one probe so far.
#[derive(Debug, Default)]
struct Answers {
    good: u32,
    bad: u32,
}

impl Answers {
    /// One more answer; what the probe says with it, if it says something.
    fn add(&mut self, probe: &Probe, good: bool) -> Option<bool> {
        if good {
            (self.good, self.bad) = (self.good.saturating_add(1), 0);
            return (self.good >= probe.success_threshold.max(1)).then_some(true);
        }
        (self.good, self.bad) = (0, self.bad.saturating_add(1));
        (self.bad >= probe.failure_threshold.max(1)).then_some(false)
    }
}

/// A container that runs.
#[derive(Debug)]
pub(super) struct Health<'a> {
    pub(super) pod: &'a Pod,
    pub(super) plan: &'a ContainerPlan,
    pub(super) process: ProcessId,
    /// When it began.
    pub(super) begin: Instant,
}

impl Health<'_> {
    /// Watches over the container; comes back only if it must be ended, with the time it has for that.
    pub(super) async fn watch(&self) -> Duration {
        if let Some(hook) = &self.plan.post_start
            && let Err(error) = act(self.pod, &self.plan.name, &self.process, hook, HOOK_MAX).await
        {
            let message = format!("PostStartHook of container {} failed: {error}", self.plan.name);
            self.pod.record.tell(true, "FailedPostStartHook", message);
            return self.pod.grace();
        }
        if let Some(probe) = &self.plan.startup
            && !self.ask("Startup", probe, Some).await
        {
            return self.condemn("startup", probe);
        }
        let ready = self.plan.readiness.is_none();
        self.change(|state| (state.started, state.ready) = (true, ready));
        tokio::select! {
            grace = self.liveness() => grace,
            () = self.readiness() => self.pod.grace(),
        }
    }

    /// Comes back when the container is no longer alive.
    async fn liveness(&self) -> Duration {
        let Some(probe) = &self.plan.liveness else {
            return std::future::pending().await;
        };
        self.ask("Liveness", probe, |good| (!good).then_some(())).await;
        self.condemn("liveness", probe)
    }

    /// Keeps the state right, for ever.
    async fn readiness(&self) {
        let Some(probe) = &self.plan.readiness else {
            return std::future::pending().await;
        };
        self.ask::<()>("Readiness", probe, |good| {
            self.change(|state| state.ready = good);
            None
        })
        .await;
    }

    /// Asks again and again, until `verdict` makes something of what the probe says.
    async fn ask<T>(&self, kind: &str, probe: &Probe, verdict: impl Fn(bool) -> Option<T>) -> T {
        let seconds = |seconds: u32| Duration::from_secs(u64::from(seconds));
        let mut next = self.begin + seconds(probe.initial_delay_seconds);
        let mut answers = Answers::default();
        loop {
            sleep_until(next).await;
            let limit = seconds(probe.timeout_seconds.max(1));
            let answer = act(self.pod, &self.plan.name, &self.process, &probe.action, limit).await;
            if let Err(error) = &answer {
                let message = format!("{kind} probe of container {} failed: {error}", self.plan.name);
                self.pod.record.tell(true, "Unhealthy", message);
            }
            if let Some(verdict) = answers.add(probe, answer.is_ok()).and_then(&verdict) {
                return verdict;
            }
            // Late answers do not make the next question come sooner.
            next = (next + seconds(probe.period_seconds.max(1))).max(Instant::now());
        }
    }

    /// The container must go; the time it has for that.
    fn condemn(&self, kind: &str, probe: &Probe) -> Duration {
        let message = format!("Container {} failed {kind} probe, will be ended", self.plan.name);
        self.pod.record.tell(false, "Killing", message);
        probe
            .grace_seconds
            .map_or_else(|| self.pod.grace(), |seconds| Duration::from_secs(u64::from(seconds)))
    }

    fn change(&self, change: impl FnOnce(&mut ContainerState)) {
        self.pod.record.container(&self.plan.name, change);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::local::plan::Action;

    #[test]
    fn answers_count_in_a_row() {
        let check = |success_threshold, failure_threshold, answers: &str, expected: &str| {
            let probe = Probe {
                action: Action::Sleep(0),
                initial_delay_seconds: 0,
                period_seconds: 1,
                timeout_seconds: 1,
                success_threshold,
                failure_threshold,
                grace_seconds: None,
            };
            let mut so_far = Answers::default();
            let said: String = answers
                .chars()
                .map(|answer| match so_far.add(&probe, answer == '+') {
                    Some(true) => '+',
                    Some(false) => '-',
                    None => '.',
                })
                .collect();
            assert_eq!(said, expected, "{answers}");
        };
        check(1, 3, "+--+---+", "+..+..-+");
        check(2, 1, "++-+-++", ".+-.-.+");
        check(0, 0, "+-", "+-");
    }
}
