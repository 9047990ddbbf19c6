//! What a queue holds, counted. Every Job, PodGroup and lone pod adds one fact, so that a change costs the difference
//! of two facts and never a walk over the queue.

use basalt_api::job::JobPhase;

/// What one object adds to its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fact {
    /// A Job.
    Job {
        /// Its phase.
        phase: JobPhase,
        /// Whether its PodGroup is Inqueue: let in, and waiting for nodes.
        let_in: bool,
    },
    /// A PodGroup.
    Group {
        /// It belongs to no Volcano Job.
        foreign: bool,
        /// None of its pods lives, and it says Completed or had pods.
        done: bool,
    },
    /// A pod that has not ended and whose PodGroup does not exist.
    Pod,
}

/// Sums of facts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// PodGroups without a Job.
    pub unknown: u32,
    /// Jobs that wait to enter.
    pub pending: u32,
    /// Jobs that run, or are between two runs.
    pub running: u32,
    /// Jobs that were let in and wait for nodes.
    pub inqueue: u32,
    /// Jobs that ended well.
    pub completed: u32,
    /// Jobs that failed or were terminated.
    pub failed: u32,
    /// Jobs that were suspended.
    pub aborted: u32,
    /// Jobs in all.
    pub jobs: u32,
    /// Jobs that have not ended for good; suspended ones can go on.
    pub unfinished_jobs: u32,
    /// PodGroups in all.
    pub groups: u32,
    /// PodGroups that are not done.
    pub undone_groups: u32,
    /// Pods that have not ended and have no PodGroup.
    pub lone_pods: u32,
}

impl Tally {
    /// Counts a fact.
    pub fn add(&mut self, fact: Fact) {
        self.count(fact, |number| *number = number.saturating_add(1));
    }

    /// Takes back a fact that was counted.
    pub fn remove(&mut self, fact: Fact) {
        self.count(fact, |number| *number = number.saturating_sub(1));
    }

    fn count(&mut self, fact: Fact, step: impl Fn(&mut u32)) {
        match fact {
            Fact::Job { phase, let_in } => {
                step(&mut self.jobs);
                if !phase.is_finished() {
                    step(&mut self.unfinished_jobs);
                }
                step(self.counter(phase, let_in));
            }
            Fact::Group { foreign, done } => {
                step(&mut self.groups);
                if foreign {
                    step(&mut self.unknown);
                }
                if !done {
                    step(&mut self.undone_groups);
                }
            }
            Fact::Pod => step(&mut self.lone_pods),
        }
    }

    fn counter(&mut self, phase: JobPhase, let_in: bool) -> &mut u32 {
        match phase {
            JobPhase::Pending if let_in => &mut self.inqueue,
            JobPhase::Pending => &mut self.pending,
            JobPhase::Completed => &mut self.completed,
            JobPhase::Failed | JobPhase::Terminated => &mut self.failed,
            JobPhase::Aborted => &mut self.aborted,
            JobPhase::Running
            | JobPhase::Restarting
            | JobPhase::Aborting
            | JobPhase::Completing
            | JobPhase::Terminating => &mut self.running,
        }
    }

    /// Whether all that the queue was given has ended.
    pub const fn is_idle(&self) -> bool {
        self.unfinished_jobs == 0 && self.undone_groups == 0 && self.lone_pods == 0
    }

    /// What has not ended, in words; empty where nothing is left.
    pub fn unfinished(&self) -> String {
        let parts = [
            (self.unfinished_jobs, "unfinished jobs"),
            (self.undone_groups, "pod groups that are not done"),
            (self.lone_pods, "living pods without a pod group"),
        ];
        let told = parts.iter().filter(|(count, _)| *count > 0);
        told.map(|(count, what)| format!("{count} {what}"))
            .collect::<Vec<_>>()
            .join(", ")
    }
}
