//! `sla`: a job that has waited as long as it may goes first, and keeps what it gets.

use std::cmp::Ordering;

use basalt_api::duration::Duration;
use basalt_api::names::SLA_WAITING_TIME_ALIAS;

use super::{Hook, Plugin, Vote};
use crate::conf::PluginConf;
use crate::model::JobId;
use crate::session::State;

/// The plugin: how long jobs may wait that do not say so themselves.
pub(super) struct Sla {
    wait_ms: Option<i64>,
}

impl Sla {
    pub(super) fn new(conf: &PluginConf) -> Self {
        let wait = conf.text(SLA_WAITING_TIME_ALIAS).map(Duration::parse);
        let wait = wait.and_then(Result::ok).map(Duration::as_millis);
        Sla {
            wait_ms: wait.filter(|&wait| wait > 0),
        }
    }

    /// When a job has waited long enough.
    fn deadline(&self, state: &State, job: JobId) -> Option<i64> {
        let record = &state.model.jobs[job];
        let wait = record.sla_ms.or(self.wait_ms)?;
        Some(record.created_ms.saturating_add(wait))
    }

    fn vote(&self, state: &State, job: JobId) -> Vote {
        match self.deadline(state, job) {
            Some(deadline) if deadline <= state.now_ms => Vote::Permit,
            _ => Vote::Abstain,
        }
    }
}

impl Plugin for Sla {
    fn hooks(&self) -> &'static [Hook] {
        &[Hook::JobOrder, Hook::JobEnqueueable, Hook::JobPipelined]
    }

    fn wakes_at(&self, state: &State) -> Option<i64> {
        let single = state.unsettled.iter().filter_map(|&job| self.deadline(state, job));
        let crowds = state.crowds.iter().filter_map(|crowd| {
            let wait = crowd.likeness().sla_ms.or(self.wait_ms)?;
            let next = crowd.made_after(state.now_ms.saturating_sub(wait))?;
            Some(next.saturating_add(wait))
        });
        single.chain(crowds).filter(|&deadline| deadline > state.now_ms).min()
    }

    /// The earlier deadline first; jobs that have one before those that have none.
    fn job_order(&self, state: &State, a: JobId, b: JobId) -> Ordering {
        match (self.deadline(state, a), self.deadline(state, b)) {
            (Some(a), Some(b)) => a.cmp(&b),
            (a, b) => b.is_some().cmp(&a.is_some()),
        }
    }

    fn job_enqueueable(&self, state: &State, job: JobId) -> Vote {
        self.vote(state, job)
    }

    fn job_pipelined(&self, state: &State, job: JobId) -> Vote {
        self.vote(state, job)
    }
}
