//! The parts of the system that act by themselves: what each sees, what it wants written next, what it is answered.

mod collector;
mod controllers;
mod kubelet;
mod scheduler;

use basalt_audit::Finding;
use jiff::Timestamp;

use crate::api::{Answer, Api, Kind, Report, Request};
use crate::whim::Whim;

pub use collector::Collector;
pub use controllers::Controllers;
pub use kubelet::Kubelet;
pub(crate) use kubelet::exit;
pub use scheduler::{BindMode, Scheduler};

/// Something that acts by itself. It sees the cluster through its watches alone, writes one request at a time, and loses
/// everything that it knows when it is killed.
pub trait Actor {
    /// Its name in the log.
    fn name(&self) -> &'static str;
    /// The kinds that it watches.
    fn watches(&self) -> &'static [Kind];
    /// Whether its lists show what there is at that moment, and not only what there was some time ago. Who gives room away
    /// must know what was given before it was started.
    fn lists_the_newest(&self) -> bool {
        false
    }
    /// A watch tells of a change.
    fn take_in(&mut self, report: &Report, now: Timestamp);
    /// A watch has told everything that there was when it began.
    fn listed(&mut self, kind: Kind, now: Timestamp);
    /// What it wants written now, if anything. Only what judges by the store itself looks at the API.
    fn next(&mut self, api: &Api, now: Timestamp, whim: &mut Whim) -> Option<Request>;
    /// The answer to what it wanted last.
    fn answered(&mut self, request: &Request, answer: &Answer, now: Timestamp);
    /// What is wrong with its decisions since the last time, if somebody judges them, and how many those were.
    fn judgement(&mut self) -> (u64, Vec<Finding>) {
        (0, Vec::new())
    }
    /// When it has something to do by time alone.
    fn next_due(&self) -> Option<Timestamp>;
}

/// The answer that never came: whether the write was done is not known.
pub(crate) fn is_lost(answer: &Answer) -> bool {
    matches!(answer, Err(refusal) if refusal.code >= 500)
}
