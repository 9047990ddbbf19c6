//! `overcommit`: no more is let in than the cluster can hold, times a factor. What a job has already is not counted
//! twice, as used and as let in.

use basalt_api::reason::Code;

use super::{Hook, Plugin, Refusal, Vote, shares};
use crate::conf::PluginConf;
use crate::model::{Id, JobId, QueueId, ROOT};
use crate::resources::DimId;
use crate::session::State;

/// The plugin.
pub(super) struct Overcommit {
    /// In thousandths.
    factor: i128,
}

const FACTOR: f64 = 1.2;

impl Overcommit {
    pub(super) fn new(conf: &PluginConf) -> Self {
        let factor = conf
            .arguments
            .get("overcommit-factor")
            .and_then(serde_json::Value::as_f64);
        let factor = factor
            .filter(|factor| factor.is_finite() && *factor >= 1.0)
            .unwrap_or(FACTOR);
        Overcommit {
            factor: (factor.min(1e6) * 1000.0).round() as i128,
        }
    }

    /// What may be let in at most: the cluster times the factor, less what is taken.
    fn room(&self, state: &State, dim: DimId) -> i64 {
        let total = state.ledger.total_of(dim);
        let used = total - state.ledger.cluster_idle(dim);
        let most = i128::from(total) * self.factor / 1000;
        i64::try_from(most).unwrap_or(i64::MAX).saturating_sub(used)
    }
}

impl Plugin for Overcommit {
    fn hooks(&self) -> &'static [Hook] {
        &[Hook::JobEnqueueable]
    }

    fn job_enqueueable(&self, state: &State, job: JobId) -> Vote {
        let minimum = state.model.jobs[job].min_resources.iter();
        let root = state.model.queues.find(ROOT);
        let waits = |dim| root.map_or(0, |root| state.ledger.queue_inqueue().get(root.index(), dim));
        let short = minimum.flat_map(shares::asked).find_map(|(dim, amount)| {
            let (need, have) = (waits(dim) + amount, self.room(state, dim));
            (need > have).then_some(Refusal {
                dim: Some(dim),
                need,
                have,
                ..Refusal::of(Code::ClusterOvercommitted, QueueId::NONE)
            })
        });
        short.map_or(Vote::Permit, Vote::Reject)
    }
}
