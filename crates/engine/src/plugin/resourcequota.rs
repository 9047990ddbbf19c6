//! `resourcequota`: a group is let in only if its namespace's quotas leave room for its minimum.

use basalt_api::reason::Code;

use super::{Hook, Plugin, Refusal, Vote};
use crate::model::{Id, JobId, QueueId, Quota};
use crate::session::State;

/// The plugin; it has no state of its own.
pub(super) struct ResourceQuota;

impl Plugin for ResourceQuota {
    fn hooks(&self) -> &'static [Hook] {
        &[Hook::JobEnqueueable]
    }

    fn job_enqueueable(&self, state: &State, job: JobId) -> Vote {
        let record = &state.model.jobs[job];
        let Some(asks) = record.quota_asks.as_deref().or(record.min_resources.as_ref()) else {
            return Vote::Permit;
        };
        let exceeds = |quota: &Quota| {
            quota.hard.iter().find_map(|(dim, hard)| {
                let ask = asks.get(dim).filter(|&ask| ask > 0)?;
                let used = quota.used.get(dim).unwrap_or(0);
                let promised = state.ledger.promised().get(record.namespace.index(), dim);
                let need = used.saturating_add(promised).saturating_add(ask);
                (need > hard).then_some(Refusal {
                    dim: Some(dim),
                    need,
                    have: hard,
                    ..Refusal::of(Code::QuotaExceeded, QueueId::NONE)
                })
            })
        };
        let namespace = state.model.namespaces.name(record.namespace);
        let mut quotas = state.model.quotas_of(namespace);
        quotas.find_map(exceeds).map_or(Vote::Permit, Vote::Reject)
    }
}
