//! The state of the cluster, and how to try something: take a checkpoint, do it, roll back.

mod apply;
mod crowds;
mod locks;

use std::sync::Arc;

use crate::facts::Phase;
use crate::ledger::{Claims, Ledger, Status};
use crate::model::{ClassId, JobId, Model, NodeId, TaskId};

pub(crate) use self::apply::is_meant;
pub(crate) use self::crowds::{Crowds, Kin, Likeness};
pub(crate) use self::locks::{Estate, Locks};

/// Model and ledger together, with the undo log. Lives as long as the engine.
#[derive(Clone, Debug, Default)]
pub(crate) struct State {
    /// What the objects say.
    pub model: Model,
    /// What is counted.
    pub ledger: Ledger,
    /// Present nodes in the order that breaks ties; see [`State::order_nodes`].
    pub(crate) by_rank: Arc<Vec<NodeId>>,
    /// Grows with every change of the node order.
    pub(crate) order_version: u64,
    /// The same, but for nodes that only changed hands.
    pub(crate) nodes_version: u64,
    pub(crate) order_stale: bool,
    /// Present nodes by name.
    by_name: Vec<NodeId>,
    /// Which nodes are locked for whom.
    pub(crate) locks: Locks,
    pub(crate) order_seed: u64,
    /// Whom this cycle told to go, as it seemed at some time: not all of it came about.
    evicted: Vec<TaskId>,
    log: Vec<Undo>,
    recording: bool,
    /// Something changed since the last cycle.
    pub(crate) changed: bool,
    /// Jobs whose pods or facts changed since their phase was last worked out.
    pub(crate) dirty_jobs: Vec<JobId>,
    /// Jobs that wait for something, or may do, and are looked at for themselves.
    pub(crate) unsettled: Vec<JobId>,
    /// Those that wait alike.
    pub(crate) crowds: Crowds,
    /// Groups whose slot was given back.
    pub(crate) gone_jobs: Vec<Arc<str>>,
    /// Pods that start may be asked to make room: that helps, too.
    pub(crate) hunts: bool,
    /// Grows with every change that may help a job for which nothing could be done before.
    pub(crate) eased: u64,
    /// As it was when the cycle began: what eases during a cycle may help those that were looked at before it.
    pub(crate) eased_before: u64,
    /// Grows with everything that happens, so that numbers in reasons may differ from it on.
    pub(crate) moves: u64,
    /// Whose numbers were worked out again last.
    pub(crate) recounted: Option<JobId>,
    /// Classes whose slot was given back: what is cached for them is void.
    pub(crate) freed_classes: Vec<ClassId>,
    /// Pods that wait for the API to confirm the node that we gave them.
    pub(crate) assumed: Vec<Promise>,
    /// Pods that wait for the API to confirm that they have to go.
    pub(crate) evicting: Vec<Promise>,
    /// Pods that nobody asks to go for a while.
    pub(crate) spared: Vec<Promise>,
    /// Pods that keep the room that others were evicted from.
    pub(crate) holds: Vec<Promise>,
    /// The time of this cycle, in milliseconds since 1970.
    pub now_ms: i64,
    /// Jobs that wait after a failed bind.
    pub(crate) retries: Vec<JobId>,
}

/// Something that we decided about a pod, and since when we believe it.
#[derive(Clone, Debug)]
pub(crate) struct Promise {
    pub since_ms: i64,
    pub task: TaskId,
    /// A pod that was made anew under the name is another pod.
    pub uid: Arc<str>,
}

/// How to take one step back.
#[derive(Clone, Debug)]
enum Undo {
    Entered(TaskId),
    Left {
        task: TaskId,
        status: Status,
        node: NodeId,
        in_node: u32,
    },
    Phase {
        job: JobId,
        before: Phase,
    },
    Claims {
        job: JobId,
        before: Claims,
    },
}

/// A moment to go back to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Checkpoint(usize);

impl State {
    /// Begins to record steps. Until [`State::settle`] all changes must go through the methods below.
    pub(crate) fn open(&mut self) {
        debug_assert!(self.log.is_empty());
        self.recording = true;
    }

    /// Makes all steps final.
    pub(crate) fn settle(&mut self) {
        self.log.clear();
        self.evicted.clear();
        self.recording = false;
    }

    /// The pods that we told to go, of which the API does not show it yet. May name one twice.
    pub(crate) fn going(&self) -> impl Iterator<Item = TaskId> {
        let before = self.evicting.iter().map(|promise| promise.task);
        let goes = |task: &TaskId| {
            self.ledger.status(*task) == Status::Releasing && self.model.tasks[*task].shown_as != Status::Releasing
        };
        before.chain(self.evicted.iter().copied()).filter(goes)
    }

    /// Marks this moment.
    pub(crate) fn checkpoint(&self) -> Checkpoint {
        Checkpoint(self.log.len())
    }

    /// Undoes everything since the checkpoint: the ledger is then what it was, byte for byte.
    pub(crate) fn rollback(&mut self, checkpoint: Checkpoint) {
        while self.log.len() > checkpoint.0 {
            match self.log.pop() {
                Some(Undo::Entered(task)) => self.ledger.leave(&self.model, task),
                Some(Undo::Left {
                    task,
                    status,
                    node,
                    in_node,
                }) => {
                    self.ledger.enter(&self.model, task, status, node, Some(in_node));
                }
                Some(Undo::Phase { job, before }) => self.model.jobs[job].phase = before,
                Some(Undo::Claims { job, before }) => self.ledger.unclaim(&self.model, job, before),
                None => return,
            }
        }
    }

    fn note(&mut self, step: Undo) {
        if self.recording {
            self.log.push(step);
        }
    }

    /// Counts a task that is out.
    pub(crate) fn place(&mut self, task: TaskId, status: Status, node: NodeId) {
        self.ledger.enter(&self.model, task, status, node, None);
        self.note(Undo::Entered(task));
    }

    /// Stops counting a task.
    pub(crate) fn remove(&mut self, task: TaskId) {
        let (status, node) = (self.ledger.status(task), self.ledger.node(task));
        if status == Status::Out {
            return;
        }
        let in_node = self.ledger.in_node(task);
        self.ledger.leave(&self.model, task);
        self.note(Undo::Left {
            task,
            status,
            node,
            in_node,
        });
    }

    /// Moves a task to another status or node.
    pub(crate) fn set(&mut self, task: TaskId, status: Status, node: NodeId) {
        self.remove(task);
        self.place(task, status, node);
    }

    /// Changes a job's phase, and with it what the job claims.
    pub(crate) fn set_phase(&mut self, job: JobId, phase: Phase) {
        let before = std::mem::replace(&mut self.model.jobs[job].phase, phase);
        if before != phase {
            self.note(Undo::Phase { job, before });
        }
        self.count_claims(job);
    }

    /// Works out what a job claims.
    fn count_claims(&mut self, job: JobId) {
        if let Some(before) = self.ledger.claim(&self.model, job) {
            self.note(Undo::Claims { job, before });
        }
    }

    /// Works out what jobs claim that changed since they were last looked at.
    pub(crate) fn settle_claims(&mut self) {
        for at in 0..self.dirty_jobs.len() {
            self.count_claims(self.dirty_jobs[at]);
        }
    }

    /// Brings the order of nodes up to date: estate by estate, in each by name, turned by the seed, so that of equal nodes
    /// another one comes first with another seed.
    pub(crate) fn order_nodes(&mut self, seed: u64) {
        self.settle_locks();
        let State { model, by_name, .. } = self;
        if self.order_stale {
            by_name.clear();
            by_name.extend(model.nodes.ids().filter(|&node| model.nodes[node].present));
            by_name.sort_by(|&a, &b| model.nodes.name(a).cmp(model.nodes.name(b)));
        }
        let renewed = std::mem::take(&mut self.order_stale) || self.order_seed != seed;
        if !std::mem::take(&mut self.locks.moved) && !renewed {
            return;
        }
        let mut by_rank = by_name.clone();
        if !by_rank.is_empty() {
            let turn = seed % by_rank.len() as u64;
            by_rank.rotate_left(turn as usize);
        }
        self.part(&mut by_rank);
        for (rank, &node) in by_rank.iter().enumerate() {
            self.model.nodes[node].rank = rank as u32;
        }
        self.by_rank = Arc::new(by_rank);
        self.order_version += 1;
        self.nodes_version += u64::from(renewed);
        self.order_seed = seed;
    }

    /// Present nodes in tie-breaking order.
    pub(crate) fn nodes_in_order(&self) -> &[NodeId] {
        &self.by_rank
    }

    /// A job has to be looked at again, and its phase worked out.
    pub(crate) fn mark(&mut self, job: JobId) {
        if job.is_some() {
            self.dirty_jobs.push(job);
            self.single_out(job);
            let record = &mut self.model.jobs[job];
            record.failed_at = 0;
            if !std::mem::replace(&mut record.unsettled, true) {
                self.unsettled.push(job);
            }
        }
    }

    /// Something changed for the better: every job that waits is looked at again.
    pub(crate) fn ease(&mut self) {
        self.eased += 1;
        self.changed = true;
    }

    /// The jobs that a cycle has to look at: those that changed, and those for which something may have changed; of a
    /// crowd the first. Drops those that wait for nothing any more.
    pub(crate) fn hopefuls(&mut self) -> Vec<JobId> {
        self.eased_before = self.eased;
        let mut jobs = self.hopeful_crowds();
        let State {
            model,
            unsettled,
            eased,
            ..
        } = self;
        unsettled.sort_unstable();
        unsettled.dedup();
        unsettled.retain(|&id| {
            let job = &mut model.jobs[id];
            if !job.unsettled || job.crowd.is_some() {
                return false;
            }
            if job.failed_at == *eased + 1 {
                return true;
            }
            jobs.push(id);
            true
        });
        jobs.sort_unstable();
        jobs.dedup();
        jobs
    }
}

#[cfg(test)]
mod tests;
