//! What the fake kubelet reads of pods and nodes, as plain data.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use basalt_api::fake::{exit_code, millis};
use basalt_api::names::{EXIT_CODE, JOB_RETRY_COUNT, RUN_TIME, STOP_TIME};

use serde_json::Value;

use super::kubelet::Millis;

/// What happens when a container ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AtExit {
    /// The pod ends (`Never`; `OnFailure` too, for a fake container would fail again in the same way).
    End,
    /// The container is started again (`Always`).
    Restart,
}

/// A container as far as its status shows it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Container {
    /// Its name.
    pub name: String,
    /// Its image, never pulled.
    pub image: String,
    /// An init container that goes on beside the others (`restartPolicy: Always`).
    pub sidecar: bool,
}

/// All that pods of one job have in common; kept once for all of them.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Shape {
    /// The containers, in order.
    pub containers: Vec<Container>,
    /// The init containers, in order.
    pub init: Vec<Container>,
    /// What happens at the end of the run time.
    pub at_exit: AtExit,
    /// How long the containers run.
    pub run_time: Option<Millis>,
    /// How they end.
    pub exit_code: u8,
    /// How long a deleted pod takes to end.
    pub stop_time: Millis,
    /// `spec.activeDeadlineSeconds`.
    pub active_deadline: Option<Millis>,
    /// What is wrong with the annotations, for the pod's owner to read.
    pub warnings: Vec<String>,
}

impl Shape {
    /// A shape from containers and the pod's annotations; a bad annotation counts as absent and leaves a warning.
    pub fn new(
        containers: Vec<Container>,
        init: Vec<Container>,
        at_exit: AtExit,
        active_deadline_seconds: Option<i64>,
        annotations: &BTreeMap<String, String>,
    ) -> Self {
        let mut warnings = Vec::new();
        let run_time = read(annotations, RUN_TIME, &mut warnings, millis);
        let stop_time = read(annotations, STOP_TIME, &mut warnings, millis);
        let attempt = annotations.get(JOB_RETRY_COUNT).and_then(|count| count.parse().ok());
        let exit_code = read(annotations, EXIT_CODE, &mut warnings, |codes| {
            exit_code(codes, attempt.unwrap_or(0))
        });
        Self {
            containers,
            init,
            at_exit,
            run_time,
            exit_code: exit_code.unwrap_or(0),
            stop_time: stop_time.unwrap_or(0),
            active_deadline: active_deadline_seconds.map(|s| s.max(0).saturating_mul(1_000)),
            warnings,
        }
    }
}

fn read<T>(
    annotations: &BTreeMap<String, String>,
    key: &str,
    warnings: &mut Vec<String>,
    parse: impl Fn(&str) -> Result<T, String>,
) -> Option<T> {
    match parse(annotations.get(key)?) {
        Ok(parsed) => Some(parsed),
        Err(why) => {
            warnings.push(format!("annotation {key} is ignored: {why}"));
            None
        }
    }
}

/// Where a pod is in its life; never goes back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Bound, not started.
    Pending,
    /// Started.
    Running,
    /// Ended: Succeeded or Failed.
    Finished,
}

/// A bound pod as the API server shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodFacts {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its uid; what identifies it here.
    pub uid: String,
    /// `spec.nodeName`.
    pub node: String,
    /// What it has in common with its like.
    pub shape: Shape,
    /// Its phase.
    pub phase: Phase,
    /// `status.startTime`.
    pub started: Option<Millis>,
    /// When its containers were last started.
    pub run_started: Option<Millis>,
    /// Since when the condition PodScheduled is true.
    pub scheduled: Option<Millis>,
    /// How often its containers were started again.
    pub restarts: u32,
    /// `status.podIP`.
    pub address: Option<Ipv4Addr>,
    /// When its deletion was asked for (`deletionTimestamp` less the grace period).
    pub deleted: Option<Millis>,
}

/// The taints that a node is to have, and the version of it that this was seen from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Untainted {
    /// All its taints but those of lost nodes; lists of taints can only be written as a whole.
    pub taints: Vec<Value>,
    /// So that nobody else's taint is lost.
    pub resource_version: String,
}

/// A node as the API server shows it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NodeFacts {
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
    /// Whether it has the label `basalt.sh/fake=true`.
    pub fake: bool,
    /// Whether the condition Ready is true.
    pub ready: bool,
    /// If it is tainted as one that is not ready or cannot be reached: how to leave it without that.
    pub lost: Option<Untainted>,
    /// Whether `status.nodeInfo` is filled.
    pub info: bool,
    /// Whether the labels that every kubelet sets are there.
    pub labels: bool,
    /// Its InternalIP.
    pub address: Option<Ipv4Addr>,
    /// `status.capacity`.
    pub capacity: BTreeMap<String, String>,
    /// `status.allocatable`.
    pub allocatable: BTreeMap<String, String>,
}

impl NodeFacts {
    /// Whether nothing is left to report.
    pub fn complete(&self) -> bool {
        self.registered() && self.status_complete()
    }

    /// Whether it has its labels, and no taint that keeps pods away from lost nodes.
    pub fn registered(&self) -> bool {
        self.labels && self.lost.is_none()
    }

    /// Whether its status says all that it should.
    pub fn status_complete(&self) -> bool {
        self.ready && self.info && self.address.is_some() && !self.capacity.is_empty() && !self.allocatable.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn annotations_are_read_and_bad_ones_are_named() {
        let check = |pairs: &[(&str, &str)], expected: (Option<Millis>, u8, Millis, usize)| {
            let annotations = pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
            let shape = Shape::new(Vec::new(), Vec::new(), AtExit::End, None, &annotations);
            let got = (shape.run_time, shape.exit_code, shape.stop_time, shape.warnings.len());
            assert_eq!(got, expected, "{pairs:?}");
        };
        check(&[], (None, 0, 0, 0));
        check(
            &[(RUN_TIME, "30s"), (EXIT_CODE, "1"), (STOP_TIME, "2m")],
            (Some(30_000), 1, 120_000, 0),
        );
        check(&[(RUN_TIME, "30")], (None, 0, 0, 1));
        check(
            &[(RUN_TIME, "-1s"), (EXIT_CODE, "256"), (STOP_TIME, "soon")],
            (None, 0, 0, 3),
        );
        check(&[(EXIT_CODE, "-1")], (None, 0, 0, 1));
        check(&[(EXIT_CODE, ""), (RUN_TIME, "0s")], (Some(0), 0, 0, 1));
        for (count, code) in [("0", 7), ("1", 3), ("2", 0), ("9", 0), ("x", 7)] {
            check(&[(EXIT_CODE, "7, 3,0"), (JOB_RETRY_COUNT, count)], (None, code, 0, 0));
        }
        check(&[(EXIT_CODE, "7,,0"), (JOB_RETRY_COUNT, "1")], (None, 0, 0, 1));
    }

    #[test]
    fn a_warning_says_which_annotation_and_why() {
        let annotations = BTreeMap::from([(EXIT_CODE.to_owned(), "one".to_owned())]);
        let shape = Shape::new(Vec::new(), Vec::new(), AtExit::End, None, &annotations);
        let expected = "annotation basalt.sh/exit-code is ignored: \"one\" is not an exit code: it must be a whole number from 0 to 255";
        assert_eq!(shape.warnings, [expected]);
    }
}
