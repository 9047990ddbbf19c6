//! Part of a gang never holds room for long: it is completed or released, whatever was lost on the way.

use basalt_engine::Conf;
use basalt_sim::actor::{Actor, Scheduler};
use basalt_sim::reservation::{Operation, small_cluster};
use basalt_sim::{Answer, Api, BindMode, Kernel, Kind, Refusal, Request, Whim, Who};
use jiff::{SignedDuration, Timestamp};

/// What goes wrong with a scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bug {
    None,
    /// The bound pods of partial gangs are never deleted.
    KeepPartialGangs,
}

/// A scheduler some of whose binds are not carried out, and whose answers to those are lost.
struct LossyScheduler {
    inner: Scheduler,
    /// Bind requests that are carried out before the first that is lost.
    carried_out: usize,
    /// Bind requests that are lost after that.
    lost: usize,
    bug: Bug,
}

impl LossyScheduler {
    /// Returns the answer that a request gets without being carried out, if it is not.
    fn interfere(&mut self, request: &Request) -> Option<Answer> {
        match request {
            Request::Bind { .. } if self.carried_out > 0 => {
                self.carried_out -= 1;
                None
            }
            Request::Bind { .. } if self.lost > 0 => {
                self.lost -= 1;
                Some(Err(Refusal {
                    code: 500,
                    reason: "InternalError".to_owned(),
                    message: "no answer".to_owned(),
                }))
            }
            Request::Delete { .. } if self.bug == Bug::KeepPartialGangs => Some(Ok(serde_json::Value::Null.into())),
            _ => None,
        }
    }
}

impl Actor for LossyScheduler {
    fn name(&self) -> &'static str {
        "scheduler"
    }

    fn watches(&self) -> &'static [Kind] {
        self.inner.watches()
    }

    fn lists_the_newest(&self) -> bool {
        true
    }

    fn take_in(&mut self, report: &basalt_sim::api::Report, now: Timestamp) {
        self.inner.take_in(report, now);
    }

    fn listed(&mut self, kind: Kind, now: Timestamp) {
        self.inner.listed(kind, now);
    }

    fn next(&mut self, api: &Api, now: Timestamp, whim: &mut Whim) -> Option<Request> {
        loop {
            let request = self.inner.next(api, now, whim)?;
            match self.interfere(&request) {
                None => return Some(request),
                Some(answer) => self.inner.answered(&request, &answer, now),
            }
        }
    }

    fn answered(&mut self, request: &Request, answer: &Answer, now: Timestamp) {
        self.inner.answered(request, answer, now);
    }

    fn next_due(&self) -> Option<Timestamp> {
        self.inner.next_due()
    }
}

/// The gang of the tests: three pods of three cores. Three nodes have room for five such pods: n0 for one, n4 and n5 for
/// two each. The scheduler chooses n4 for two of them and n5 for the third.
const GANG: Operation = Operation::Submit {
    queue: 3,
    pods: 3,
    gang: true,
    cores: 3,
    kept: false,
};

/// A part of a gang that is seen: how many of its pods are bound and not leaving.
fn bound_pods(kernel: &Kernel) -> usize {
    let pods = kernel.api().of_kind(Kind::Pod).map(|(_, pod)| pod);
    pods.filter(|pod| pod["spec"]["nodeName"].is_string() && pod["metadata"]["deletionTimestamp"].is_null())
        .count()
}

fn ask(kernel: &mut Kernel, operation: Operation) {
    let request = operation.request(kernel.api()).expect("a request");
    let answer = kernel.ask(&request);
    assert!(answer.is_ok(), "{operation}: {answer:?}");
}

fn pass(kernel: &mut Kernel, seconds: i64) {
    let end = kernel.now() + SignedDuration::from_secs(seconds);
    kernel.run_to(end).expect("time passes");
}

struct Story {
    mode: BindMode,
    /// Single binds that are carried out before the others are lost.
    carried_out: usize,
    /// The scheduler is restarted when the part of the gang is bound.
    restarts: bool,
    bug: Bug,
}

impl Story {
    /// Plays the story; returns what the auditor found, and how many pods of the gang are bound in the end.
    ///
    /// The binds of a gang are lost, and a node is deleted that some of its pods were meant for. The scheduler binds
    /// these pods elsewhere, to complete the gang. When it learns that the others were never bound, there is no room for
    /// them any more.
    fn play(&self) -> (Vec<String>, usize) {
        let conf = Conf::embedded();
        let small = small_cluster(&conf).expect("a small cluster comes to rest");
        let mut kernel = Kernel::new(&small, &conf, Whim::none());
        kernel.keep_log();
        for node in [1, 2, 3, 6] {
            ask(&mut kernel, Operation::Lose(node));
        }
        kernel.settle().expect("a smaller cluster comes to rest");
        kernel.bind_by(self.mode);
        let lost = match self.mode {
            BindMode::Gang => 1,
            BindMode::Single => 3 - self.carried_out,
        };
        let scheduler = LossyScheduler {
            inner: Scheduler::new(&conf, self.mode),
            carried_out: self.carried_out,
            lost,
            bug: self.bug,
        };
        kernel.replace(Who::Scheduler, Box::new(scheduler));
        ask(&mut kernel, GANG);
        pass(&mut kernel, 1);
        assert_eq!(bound_pods(&kernel), self.carried_out, "{}", kernel.log());
        // What was meant for n5 goes to n0. The others cannot go to n4 any more.
        ask(&mut kernel, Operation::Lose(5));
        pass(&mut kernel, 1);
        ask(&mut kernel, Operation::Cordon(4, true));
        if self.restarts {
            assert_eq!(self.bug, Bug::None, "a restart would bring an honest scheduler");
            kernel.kill(Who::Scheduler);
        }
        let part = bound_pods(&kernel);
        assert!(part > 0 && part < 3, "{part} pods are bound:\n{}", kernel.log());
        pass(&mut kernel, 61);
        let after = bound_pods(&kernel);
        if self.bug == Bug::None {
            kernel.settle().expect("the cluster comes to rest");
        } else {
            pass(&mut kernel, 60); // the scheduler never stops trying
        }
        let findings = kernel.settled_findings();
        (findings.iter().map(ToString::to_string).collect(), after)
    }
}

#[test]
fn part_of_a_gang_is_released() {
    for (mode, carried_out) in [(BindMode::Gang, 0), (BindMode::Single, 0), (BindMode::Single, 1)] {
        for restarts in [false, true] {
            let story = Story {
                mode,
                carried_out,
                restarts,
                bug: Bug::None,
            };
            let (findings, bound) = story.play();
            assert_eq!(findings, [""; 0], "{mode:?} {carried_out} {restarts}");
            assert_eq!(bound, 0, "{mode:?} {carried_out} {restarts}");
        }
    }
}

/// A scheduler that never releases is found: after a minute, and at rest.
#[test]
fn a_scheduler_that_keeps_part_of_a_gang_is_found() {
    for mode in [BindMode::Gang, BindMode::Single] {
        let story = Story {
            mode,
            carried_out: 0,
            restarts: false,
            bug: Bug::KeepPartialGangs,
        };
        let (findings, bound) = story.play();
        assert!(bound > 0);
        let is_partial = |finding: &&String| finding.starts_with("I2 PodGroup default/");
        let late = |finding: &&String| finding.contains("; for ");
        assert!(
            findings.iter().filter(is_partial).any(|finding| late(&finding)),
            "{findings:?}"
        );
        assert!(
            findings.iter().filter(is_partial).any(|finding| !late(&finding)),
            "{findings:?}"
        );
    }
}
