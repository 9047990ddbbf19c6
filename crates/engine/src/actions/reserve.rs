//! `reserve`: pods of others leave the nodes that are locked for a queue whose guarantee evicts, until its target is
//! reached. The pods that lose least go first; of a gang only what it can spare, or all of it. The rules are those of
//! the plugin `node_reservation`; without it the action does nothing.

use std::cmp::Reverse;
use std::sync::Arc;

use rustc_hash::FxHashSet;
use smallvec::SmallVec;

use super::gang_evict::Bundle;
use super::{Cycle, Decision};
use crate::model::{JobId, NodeId, QueueId, TaskId};
use crate::mutants::mutant;
use crate::plan::Purpose;
use crate::plugin::{Allowance, ReservationShortage};
use crate::resources::DimId;

impl Cycle<'_> {
    /// Evicts pods that are in the way of guarantees; queues are served before the queues above them.
    pub(super) fn reserve(&mut self) {
        for queue in self.hooks.reserving_queues(self.state) {
            if let Some(shortage) = self.hooks.reservation_shortage(self.state, queue) {
                self.clear_locked_nodes(queue, shortage);
            }
        }
    }

    fn clear_locked_nodes(&mut self, queue: QueueId, shortage: ReservationShortage) {
        let victims = self.select_reservation_victims(queue, shortage);
        if victims.is_empty() {
            self.hooks.note_unmovable(self.state, queue);
            return;
        }
        // Jobs that wait for the room have to be looked at again.
        self.state.eased += 1;
        let name: Arc<str> = self.state.model.queues.name(queue).clone();
        for Bundle { job, tasks, .. } in victims {
            let purpose = Purpose::Reservation { queue: name.clone() };
            for &task in &tasks {
                self.state.evict(task);
            }
            self.decisions.push(Decision {
                job,
                placed: SmallVec::new(),
                evicted: tasks.into_iter().map(|task| (task, purpose.clone())).collect(),
            });
        }
    }

    /// Returns the pods that can go from a queue's nodes, in order: of the least important group first, what a gang can
    /// spare before all of it, the youngest.
    fn reservation_bundles(&self, queue: QueueId, nodes: &FxHashSet<NodeId>, missing: &[(DimId, i64)]) -> Vec<Bundle> {
        let model = &self.state.model;
        let goes = |task: &TaskId| self.hooks.is_reservation_victim(self.state, queue, *task);
        let on_nodes = nodes.iter().flat_map(|&node| self.state.ledger.tasks_on(node));
        let foreign = on_nodes.filter(|&task| goes(task));
        let jobs: FxHashSet<JobId> = foreign.map(|&task| model.tasks[task].job).collect();
        let helps = |task: TaskId| {
            let request = model.classes.request(model.tasks[task].class);
            let mut missing = missing.iter();
            nodes.contains(&self.state.ledger.node(task)) && missing.any(|&(dim, _)| request.get(dim).unwrap_or(0) > 0)
        };
        let mut bundles: Vec<Bundle> = jobs
            .into_iter()
            .flat_map(|job| self.bundles_from(job, goes, helps))
            .collect();
        bundles.sort_by_cached_key(|bundle| {
            let job = &model.jobs[bundle.job];
            let name = model.jobs.name(bundle.job).clone();
            (job.priority, bundle.whole, Reverse(job.created_ms), name)
        });
        bundles
    }

    /// Selects as many pods as it takes, and then spares those that are not needed.
    fn select_reservation_victims(&self, queue: QueueId, shortage: ReservationShortage) -> Vec<Bundle> {
        let ReservationShortage { nodes, mut missing } = shortage;
        let model = &self.state.model;
        let mut taken: Vec<Bundle> = Vec::new();
        let mut gone: FxHashSet<TaskId> = FxHashSet::default();
        let mut allowance = Allowance::new(self.state);
        let frees = |task: TaskId, dim: DimId| {
            let is_there = nodes.contains(&self.state.ledger.node(task));
            let request = model.classes.request(model.tasks[task].class);
            if is_there { request.get(dim).unwrap_or(0) } else { 0 }
        };
        for bundle in self.reservation_bundles(queue, &nodes, &missing) {
            let left = bundle.tasks.into_iter().filter(|task| !gone.contains(task));
            let units: Vec<Vec<TaskId>> = if bundle.whole && !mutant!(TakePartOfIntruder) {
                vec![left.collect()]
            } else {
                left.map(|task| vec![task]).collect()
            };
            for tasks in units {
                let is_met = missing.iter().all(|&(_, amount)| amount <= 0);
                if (is_met && !mutant!(EvictBeyondTarget)) || tasks.is_empty() || !allowance.spend(&tasks) {
                    continue;
                }
                for (dim, amount) in &mut missing {
                    *amount -= tasks.iter().map(|&task| frees(task, *dim)).sum::<i64>();
                }
                gone.extend(&tasks);
                taken.push(Bundle { tasks, ..bundle });
            }
        }
        // The most important of them stay if they can. Where a gang goes, what it had to spare goes with it.
        let mut whole_gangs: FxHashSet<JobId> = taken.iter().filter(|one| one.whole).map(|one| one.job).collect();
        let mut stays = vec![false; taken.len()];
        for (bundle, stays) in taken.iter().zip(&mut stays).rev() {
            let freed = |dim: DimId| bundle.tasks.iter().map(|&task| frees(task, dim)).sum::<i64>();
            let needed = missing
                .iter()
                .any(|&(dim, amount)| freed(dim) > 0 && amount + freed(dim) > 0);
            let follows = !bundle.whole && whole_gangs.contains(&bundle.job);
            if needed || follows || mutant!(EvictBeyondTarget) {
                continue;
            }
            for (dim, amount) in &mut missing {
                *amount += freed(*dim);
            }
            *stays = true;
            if bundle.whole {
                whole_gangs.remove(&bundle.job);
            }
        }
        let mut stays = stays.into_iter();
        taken.retain(|_| !stays.next().unwrap_or(false));
        taken
    }
}
