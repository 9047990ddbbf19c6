//! The life of one container: its runs, and the pauses between them.

use std::rc::Rc;
use std::time::Duration;

use basalt_api::backoff::Backoff;
use jiff::{SignedDuration, Timestamp};
use tokio::time::{Instant, sleep};

use super::cgroups::Cgroups;
use super::pod::{Pod, StopWatch};
use super::run;
use crate::local::plan::{ContainerPlan, Restart};
use crate::local::state::{ContainerState, Ended, Now};

/// A run of this length makes the pod forget how often it was restarted.
const LONG_RUN: Duration = Duration::from_mins(10);

/// What a container is for; it decides when it is started again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// Runs to its good end before the next.
    Init,
    /// Runs beside all others.
    Sidecar,
    /// One of the pod's own.
    Main,
}

impl Role {
    fn again(self, policy: Restart, exit_code: i32) -> bool {
        match (self, policy) {
            (Self::Sidecar, _) | (Self::Main, Restart::Always) => true,
            (_, Restart::Never) => false,
            (Self::Init | Self::Main, _) => exit_code != 0,
        }
    }
}

/// Runs a container until it is not to be started again; the last run's end, if it ran at all.
pub(super) async fn live(pod: Rc<Pod>, plan: ContainerPlan, role: Role, stop: StopWatch) -> Option<Ended> {
    let cgroups = Cgroups::of_container(&pod.plan.isolation.cgroups, &plan.name);
    if let Err(error) = cgroups.make(&plan.limits) {
        // The second stage says what is wrong when it cannot join; a limit that the kernel refuses is said here.
        pod.record
            .tell(true, "FailedLimit", format!("container {}: {error}", plan.name));
    }
    let ended = run_again_and_again(&pod, &plan, role, stop).await;
    if let Some(ended) = &ended {
        finish(&pod, &plan, role, ended);
    }
    // Whatever is still busy goes with the pod.
    let _ = cgroups.remove(Duration::ZERO);
    ended
}

async fn run_again_and_again(pod: &Rc<Pod>, plan: &ContainerPlan, role: Role, mut stop: StopWatch) -> Option<Ended> {
    let (first, longest) = pod.plan.backoff_ms;
    let mut backoff = Backoff::new(Duration::from_millis(first), Duration::from_millis(longest));
    // One restart is free, as in Kubernetes.
    let mut pause = Duration::ZERO;
    let mut run = 0_u32;
    loop {
        if stop.is_wanted() {
            return None;
        }
        let begin = Instant::now();
        let ended = run::once(pod, plan, run, &mut stop).await;
        if stop.is_wanted() || !role.again(pod.plan.restart, ended.exit_code) {
            return Some(ended);
        }
        if begin.elapsed() >= LONG_RUN {
            backoff.reset();
            pause = Duration::ZERO;
        }
        wait_state(pod, plan, &ended, pause);
        tokio::select! {
            () = sleep(pause) => {}
            _ = stop.wanted() => return Some(ended),
        }
        pause = backoff.next_delay();
        run = run.saturating_add(1);
    }
}

fn finish(pod: &Pod, plan: &ContainerPlan, role: Role, ended: &Ended) {
    let change = |state: &mut ContainerState| {
        if state.last.as_ref() == Some(ended) {
            state.last = None;
        }
        state.now = Now::Ended(ended.clone());
        state.ready = false;
        state.started = false;
    };
    // The end of the only container is the end of the pod: one change, and one write for whoever keeps its status.
    let only = role == Role::Main && pod.plan.containers.len() == 1 && !pod.plan.init.iter().any(|init| init.sidecar);
    if only {
        pod.record.container_soon(&plan.name, change);
    } else {
        pod.record.container(&plan.name, change);
    }
}

/// Between two runs.
fn wait_state(pod: &Pod, plan: &ContainerPlan, ended: &Ended, pause: Duration) {
    let (reason, message) = if pause.is_zero() {
        ("ContainerCreating", String::new())
    } else {
        pod.record.tell(
            true,
            "BackOff",
            format!("Back-off restarting failed container {}", plan.name),
        );
        ("CrashLoopBackOff", pause_message(pod, plan, pause))
    };
    pod.record.container(&plan.name, |state| {
        state.now = Now::Waiting {
            reason: reason.to_owned(),
            message,
        };
        state.last = Some(ended.clone());
        state.ready = false;
        state.started = false;
    });
}

fn pause_message(pod: &Pod, plan: &ContainerPlan, pause: Duration) -> String {
    let until = Timestamp::now().saturating_add(SignedDuration::try_from(pause).unwrap_or(SignedDuration::MAX));
    let until = until.unwrap_or(Timestamp::MAX);
    format!(
        "back-off {}s restarting failed container={} pod={}_{}({}), until {until:.3}",
        pause.as_secs_f64(),
        plan.name,
        pod.plan.name,
        pod.plan.namespace,
        pod.plan.uid
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_started_again() {
        use Restart::{Always, Never, OnFailure};
        let check = |role: Role, policy, exit_code, expected| {
            assert_eq!(
                role.again(policy, exit_code),
                expected,
                "{role:?} {policy:?} {exit_code}"
            );
        };
        for (policy, after_0, after_1) in [(Always, true, true), (OnFailure, false, true), (Never, false, false)] {
            check(Role::Main, policy, 0, after_0);
            check(Role::Main, policy, 1, after_1);
            check(Role::Sidecar, policy, 0, true);
            check(Role::Init, policy, 0, false);
        }
        check(Role::Init, Always, 1, true);
        check(Role::Init, OnFailure, 1, true);
        check(Role::Init, Never, 1, false);
    }
}
