//! Nodes that are locked for a queue with the policy Guaranteed are cleared: others' pods go until what is free there, with
//! what the queue uses, reaches its target. Who loses least goes first; of a gang only what it can spare, or all of it.

use std::cmp::Reverse;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use super::gang_evict::Bundle;
use super::{Cycle, Decision};
use crate::ledger::Status;
use crate::model::{JobId, NodeId, QueueId, TaskId};
use crate::mutants::mutant;
use crate::plan::Purpose;
use crate::plugin::Allowance;
use crate::resources::{Amounts, DimId};
use crate::session::State;

/// How a queue's locked nodes stand: kept up to date through the ledger's journal.
#[derive(Clone, Debug, Default)]
struct Ground {
    /// By node: what is free there or used by the queue, once whoever leaves is gone.
    by_node: FxHashMap<NodeId, Amounts>,
    /// The sum.
    have: FxHashMap<DimId, i64>,
    /// The state's `eased` when nobody was found who could go; nothing on the nodes has changed since.
    tried_at: Option<u64>,
}

/// All of them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Grounds {
    by_queue: FxHashMap<QueueId, Ground>,
    order_version: u64,
    read: u64,
}

/// Whether others' pods go for a queue.
fn is_clearing(state: &State, queue: QueueId) -> bool {
    let record = &state.model.queues[queue];
    let evicts = record.evicts || mutant!(EvictForBestEffort);
    record.present && evicts && !record.locks.is_empty() && record.target.iter().any(|(_, amount)| amount > 0)
}

/// Whether a pod is of a queue, or of one below it.
fn is_own(state: &State, queue: QueueId, task: TaskId) -> bool {
    let job = state.model.tasks[task].job;
    job.is_some() && !mutant!(EvictForOwn) && state.model.chain(state.model.jobs[job].queue).contains(&queue)
}

/// What is free on a node or used by a queue, once whoever leaves is gone.
fn usable(state: &State, queue: QueueId, node: NodeId) -> Amounts {
    let stays = |task: &&TaskId| !matches!(state.ledger.status(**task), Status::Releasing | Status::Pipelined);
    let tasks = state.ledger.tasks_on(node).iter().filter(stays);
    let foreign = tasks.filter(|&&task| !is_own(state, queue, task)).flat_map(|&task| {
        let request = state.model.classes.request(state.model.tasks[task].class);
        request.iter().map(|(dim, amount)| (dim, -amount))
    });
    Amounts::from_pairs(state.model.nodes[node].allocatable.iter().chain(foreign))
}

impl Ground {
    fn put(&mut self, node: NodeId, usable: Amounts) {
        let before = self.by_node.insert(node, usable.clone()).unwrap_or_default();
        let less = before.iter().map(|(dim, amount)| (dim, -amount));
        for (dim, amount) in usable.iter().chain(less) {
            *self.have.entry(dim).or_default() += amount;
        }
        self.tried_at = None;
    }
}

impl Grounds {
    /// Forgets everything, after the configuration changed.
    pub(crate) fn clear(&mut self) {
        *self = Grounds::default();
    }

    /// Brings the sums of these queues up to date.
    fn sync(&mut self, state: &State, queues: &[QueueId]) {
        let journal = &state.ledger.journal;
        let known = queues.iter().all(|queue| self.by_queue.contains_key(queue));
        let fresh = self.order_version == state.order_version && known && queues.len() == self.by_queue.len();
        if let Some(touched) = if fresh { journal.since(self.read) } else { None } {
            for (node, _) in touched {
                let Some(holder) = state.model.nodes[node].holder else {
                    continue;
                };
                for queue in state.model.chain(holder) {
                    if let Some(ground) = self.by_queue.get_mut(queue)
                        && ground.by_node.contains_key(&node)
                    {
                        ground.put(node, usable(state, *queue, node));
                    }
                }
            }
        } else {
            self.by_queue = queues.iter().map(|&queue| (queue, Ground::default())).collect();
            for estate in state.estates().iter().filter(|estate| estate.queue.is_some()) {
                for queue in state.model.chain(estate.queue) {
                    let Some(ground) = self.by_queue.get_mut(queue) else {
                        continue;
                    };
                    let locks = &state.model.queues[*queue].locks;
                    // Whose estate it is lists all of it.
                    let is_listed = |node: &&NodeId| {
                        *queue == estate.queue || locks.binary_search(state.model.nodes.name(**node)).is_ok()
                    };
                    let nodes = &state.nodes_in_order()[estate.from..estate.to];
                    ground.by_node.reserve(nodes.len());
                    for &node in nodes.iter().filter(is_listed) {
                        ground.put(node, usable(state, *queue, node));
                    }
                }
            }
        }
        self.order_version = state.order_version;
        self.read = journal.end();
    }
}

impl Cycle<'_> {
    /// Has pods go that stand in the way of guarantees; children's come before their parents'.
    pub(super) fn clear_locked(&mut self) {
        if !self.state.is_parted() {
            return;
        }
        let queues = &self.state.model.queues;
        let mut clearing: Vec<QueueId> = queues.ids().filter(|&queue| is_clearing(self.state, queue)).collect();
        clearing.sort_by_key(|&queue| (Reverse(queues[queue].chain.len()), queues.name(queue).clone()));
        if clearing.is_empty() {
            self.grounds.clear();
            return;
        }
        for &queue in &clearing {
            self.grounds.sync(self.state, &clearing);
            self.clear_ground(queue);
        }
    }

    fn clear_ground(&mut self, queue: QueueId) {
        let Some(ground) = self.grounds.by_queue.get(&queue) else {
            return;
        };
        let target = &self.state.model.queues[queue].target;
        let lacks: SmallVec<[(DimId, i64); 4]> = target
            .iter()
            .map(|(dim, target)| (dim, target - ground.have.get(&dim).copied().unwrap_or(0)))
            .filter(|&(_, lack)| lack > 0)
            .collect();
        if lacks.is_empty() || ground.tried_at == Some(self.state.eased) {
            return;
        }
        let nodes: FxHashSet<NodeId> = ground.by_node.keys().copied().collect();
        let taken = self.choose_intruders(queue, &nodes, lacks);
        if taken.is_empty() {
            let tried_at = Some(self.state.eased);
            if let Some(ground) = self.grounds.by_queue.get_mut(&queue) {
                ground.tried_at = tried_at;
            }
            return;
        }
        // Whoever waits for the room has to be looked at again.
        self.state.eased += 1;
        let name: Arc<str> = self.state.model.queues.name(queue).clone();
        for Bundle { job, tasks, .. } in taken {
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

    /// Whether a pod may be moved for a reservation.
    fn is_movable(&self, task: TaskId) -> bool {
        let record = &self.state.model.tasks[task];
        let runs = matches!(self.state.ledger.status(task), Status::Running | Status::Bound);
        let job = |job: JobId| &self.state.model.jobs[job];
        let held = record.fixed || (record.critical && !mutant!(TakeCritical)) || record.spared;
        let says_yes = record.preemptable || mutant!(TakeProtected);
        let protects = |preemptable: Option<bool>| preemptable == Some(false) && !mutant!(TakeProtectedGroups);
        runs && !held
            && says_yes
            && record.job.is_some()
            && job(record.job).present
            && !protects(job(record.job).preemptable)
    }

    /// Whose pods can go from a queue's nodes, in order: the least important group, what it can spare before all of it, the
    /// youngest.
    fn intruders(&self, queue: QueueId, nodes: &FxHashSet<NodeId>, lacks: &[(DimId, i64)]) -> Vec<Bundle> {
        let model = &self.state.model;
        let on_nodes = nodes.iter().flat_map(|&node| self.state.ledger.tasks_on(node));
        let foreign = on_nodes.filter(|&&task| self.is_movable(task) && !is_own(self.state, queue, task));
        let jobs: FxHashSet<JobId> = foreign.map(|&task| model.tasks[task].job).collect();
        let helps = |task: TaskId| {
            let request = model.classes.request(model.tasks[task].class);
            let mut lacks = lacks.iter();
            nodes.contains(&self.state.ledger.node(task)) && lacks.any(|&(dim, _)| request.get(dim).unwrap_or(0) > 0)
        };
        let goes = |task: &TaskId| self.is_movable(*task);
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

    /// Who goes: as many as it takes, and then nobody who is not needed.
    fn choose_intruders(
        &self,
        queue: QueueId,
        nodes: &FxHashSet<NodeId>,
        mut lacks: SmallVec<[(DimId, i64); 4]>,
    ) -> Vec<Bundle> {
        let model = &self.state.model;
        let mut taken: Vec<Bundle> = Vec::new();
        let mut gone: FxHashSet<TaskId> = FxHashSet::default();
        let mut allowance = Allowance::new(self.state);
        let frees = |task: TaskId, dim: DimId| {
            let is_there = nodes.contains(&self.state.ledger.node(task));
            let request = model.classes.request(model.tasks[task].class);
            if is_there { request.get(dim).unwrap_or(0) } else { 0 }
        };
        for bundle in self.intruders(queue, nodes, &lacks) {
            let left = bundle.tasks.into_iter().filter(|task| !gone.contains(task));
            let units: Vec<Vec<TaskId>> = if bundle.whole && !mutant!(TakePartOfIntruder) {
                vec![left.collect()]
            } else {
                left.map(|task| vec![task]).collect()
            };
            for tasks in units {
                let is_met = lacks.iter().all(|&(_, lack)| lack <= 0);
                if (is_met && !mutant!(EvictBeyondTarget)) || tasks.is_empty() || !allowance.spend(&tasks) {
                    continue;
                }
                for (dim, lack) in &mut lacks {
                    *lack -= tasks.iter().map(|&task| frees(task, *dim)).sum::<i64>();
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
            let needed = lacks.iter().any(|&(dim, lack)| freed(dim) > 0 && lack + freed(dim) > 0);
            let follows = !bundle.whole && whole_gangs.contains(&bundle.job);
            if needed || follows || mutant!(EvictBeyondTarget) {
                continue;
            }
            for (dim, lack) in &mut lacks {
                *lack += freed(*dim);
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
