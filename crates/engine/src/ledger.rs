//! All accounting, in one place.
//!
//! A task is *entered* with a status and a node, and *left* again. Everything that is counted follows from that: what a
//! node has idle now and in future, how many pods of a job (and of each of its roles) are in which status, what a job
//! and its queue and all queues above have allocated, are about to get and wait for, what the cluster has in all.
//! Plugins only read.

mod claims;
mod journal;
mod marks;

use smallvec::SmallVec;

use self::claims::ClaimBook;
pub(crate) use self::claims::Claims;
pub(crate) use self::journal::{Journal, Touch};
pub(crate) use self::marks::{MarkCounts, Wearers};
use crate::model::{ClassId, Id, JobId, Model, Node, NodeId, QueueId, TaskId};
use crate::mutants::mutant;
use crate::resources::{Amounts, Columns, DimId};

/// Where a pod stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub(crate) enum Status {
    /// Not counted anywhere.
    #[default]
    Out,
    /// Waits for a node.
    Pending,
    /// Has a node by our decision; the API does not show it yet.
    Allocated,
    /// Has a node by our decision, but what it needs there has yet to be released.
    Pipelined,
    /// The API shows its node; it does not run yet.
    Bound,
    /// Runs.
    Running,
    /// Being deleted; still takes room.
    Releasing,
    /// Ended well.
    Succeeded,
    /// Ended badly.
    Failed,
    /// Its node does not answer; still takes room.
    Unknown,
}

/// How many values [`Status`] has.
const STATUSES: usize = 10;

impl Status {
    /// Has a node now.
    pub(crate) fn is_allocated(self) -> bool {
        matches!(self, Status::Allocated | Status::Bound | Status::Running)
    }

    /// Counts for its job and queue: has a node, or waits for one to be cleared.
    pub(crate) fn is_charged(self) -> bool {
        self.is_allocated() || self == Status::Pipelined
    }

    /// Takes idle room of its node.
    pub(crate) fn takes_idle(self) -> bool {
        self.is_allocated() || matches!(self, Status::Releasing | Status::Unknown)
    }

    /// Takes room that its node will have in future.
    pub(crate) fn takes_future(self) -> bool {
        self.is_allocated() || matches!(self, Status::Pipelined | Status::Unknown)
    }
}

/// How many pods are in which status, and how many pending ones ask for nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    by_status: [u32; STATUSES],
    /// Pending pods that ask for nothing but a place.
    pub pending_best_effort: u32,
}

impl Counts {
    /// Pods in this status.
    pub(crate) fn of(&self, status: Status) -> u32 {
        self.by_status[status as usize]
    }

    /// Pods that count for readiness: allocated, or ended well.
    pub(crate) fn ready(&self) -> u32 {
        self.of(Status::Allocated) + self.of(Status::Bound) + self.of(Status::Running) + self.of(Status::Succeeded)
    }

    /// Pods that the API shows as placed, ended ones included.
    pub(crate) fn scheduled(&self) -> u32 {
        self.of(Status::Bound) + self.of(Status::Running) + self.ended()
    }

    /// Pods that have ended.
    pub(crate) fn ended(&self) -> u32 {
        self.of(Status::Succeeded) + self.of(Status::Failed)
    }

    /// Pods that are, or can still become, part of the gang.
    pub(crate) fn valid(&self) -> u32 {
        self.ready() + self.of(Status::Pipelined) + self.of(Status::Pending)
    }

    /// All pods.
    pub(crate) fn total(&self) -> u32 {
        self.by_status.iter().sum()
    }

    fn shift(&mut self, status: Status, best_effort: bool, enter: bool) {
        let by = |cell: &mut u32| {
            *cell = if enter {
                cell.wrapping_add(1)
            } else {
                cell.wrapping_sub(1)
            }
        };
        by(&mut self.by_status[status as usize]);
        if status == Status::Pending && best_effort {
            by(&mut self.pending_best_effort);
        }
    }
}

/// Rows of the cluster's account.
const TOTAL: usize = 0;
const IDLE: usize = 1;

/// The accounts. Two ledgers are equal when every count is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ledger {
    // By task.
    status: Vec<Status>,
    node: Vec<NodeId>,
    in_node: Vec<u32>,
    // By node. `idle` = allocatable − taken; `future` = idle + releasing − pipelined. Both may be negative.
    offered: Columns,
    idle: Columns,
    future: Columns,
    node_tasks: Vec<Vec<TaskId>>,
    // By job.
    counts: Vec<Counts>,
    role_counts: Vec<SmallVec<[Counts; 1]>>,
    pending: Vec<SmallVec<[(ClassId, u32); 1]>>,
    job_allocated: Columns,
    job_waiting: Columns,
    // By queue, every queue with all below it.
    queue_allocated: Columns,
    queue_waiting: Columns,
    /// How many groups name the queue itself.
    queue_jobs: Vec<u32>,
    claims: ClaimBook,
    /// Two rows: what all nodes offer, and what they have idle.
    cluster: Columns,
    /// Who wears which mark, by node.
    marks: MarkCounts,
    /// Which nodes changed, for those who keep something up to date with them.
    pub journal: Journal,
}

impl Ledger {
    /// Makes room for everything in the model. New cells are zero, new tasks are out.
    pub(crate) fn grow(&mut self, model: &Model) {
        let dims = model.dims.count();
        self.status.resize(model.tasks.slots(), Status::Out);
        self.node.resize(model.tasks.slots(), NodeId::NONE);
        self.in_node.resize(model.tasks.slots(), 0);
        self.node_tasks.resize_with(model.nodes.slots(), Vec::new);
        self.offered.reserve(model.nodes.slots(), dims);
        self.idle.reserve(model.nodes.slots(), dims);
        self.future.reserve(model.nodes.slots(), dims);
        self.counts.resize(model.jobs.slots(), Counts::default());
        self.role_counts.resize_with(model.jobs.slots(), SmallVec::new);
        self.pending.resize_with(model.jobs.slots(), SmallVec::new);
        for columns in [&mut self.job_allocated, &mut self.job_waiting] {
            columns.reserve(model.jobs.slots(), dims);
        }
        for columns in [&mut self.queue_allocated, &mut self.queue_waiting] {
            columns.reserve(model.queues.slots(), dims);
        }
        self.queue_jobs.resize(model.queues.slots(), 0);
        self.claims.grow(model);
        self.cluster.reserve(2, dims);
        self.journal.grow(model.nodes.slots());
    }

    /// A task's status.
    pub(crate) fn status(&self, task: TaskId) -> Status {
        self.status[task.index()]
    }

    /// A task's node, or none.
    pub(crate) fn node(&self, task: TaskId) -> NodeId {
        self.node[task.index()]
    }

    /// Where a task stands in its node's list.
    pub(crate) fn in_node(&self, task: TaskId) -> u32 {
        self.in_node[task.index()]
    }

    /// What a node offers in all: its record's, as a column, for those who look at many nodes.
    pub(crate) fn offered(&self) -> &Columns {
        &self.offered
    }

    /// What a node has idle; negative where reality over-commits.
    pub(crate) fn idle(&self) -> &Columns {
        &self.idle
    }

    /// What a node will have idle when releasing pods are gone and pipelined ones have come.
    pub(crate) fn future(&self) -> &Columns {
        &self.future
    }

    /// The tasks on a node, in no meaningful order.
    pub(crate) fn tasks_on(&self, node: NodeId) -> &[TaskId] {
        &self.node_tasks[node.index()]
    }

    /// A job's counts.
    pub(crate) fn counts(&self, job: JobId) -> &Counts {
        &self.counts[job.index()]
    }

    /// The counts of one role of a job.
    pub(crate) fn role_counts(&self, job: JobId, role: usize) -> Counts {
        self.role_counts[job.index()].get(role).copied().unwrap_or_default()
    }

    /// How many pods of each class a job has pending.
    pub(crate) fn pending(&self, job: JobId) -> &[(ClassId, u32)] {
        &self.pending[job.index()]
    }

    /// What jobs have allocated, or pipelined: what is being cleared for a job counts as had, else its queue could ask
    /// for it twice.
    pub(crate) fn job_allocated(&self) -> &Columns {
        &self.job_allocated
    }

    /// What queues have allocated, or pipelined, with everything below them.
    pub(crate) fn queue_allocated(&self) -> &Columns {
        &self.queue_allocated
    }

    /// What pods without a node ask for, by job.
    pub(crate) fn job_waiting(&self) -> &Columns {
        &self.job_waiting
    }

    /// What pods without a node ask for, by queue with everything below it.
    pub(crate) fn queue_waiting(&self) -> &Columns {
        &self.queue_waiting
    }

    /// How many groups name a queue.
    pub(crate) fn queue_jobs(&self, queue: QueueId) -> u32 {
        self.queue_jobs[queue.index()]
    }

    /// What all nodes offer together.
    pub(crate) fn total(&self) -> Amounts {
        self.cluster.row(TOTAL)
    }

    /// What all nodes offer together, in one dimension.
    pub(crate) fn total_of(&self, dim: DimId) -> i64 {
        self.cluster.get(TOTAL, dim)
    }

    /// What all nodes have idle together, in one dimension.
    pub(crate) fn cluster_idle(&self, dim: DimId) -> i64 {
        self.cluster.get(IDLE, dim)
    }

    /// Idle of a node in one dimension.
    pub(crate) fn idle_of(&self, node: NodeId, dim: DimId) -> i64 {
        self.idle.get(node.index(), dim)
    }

    /// Counts a task that was out. `at`: its place in the node's list, the end if not given.
    pub(crate) fn enter(&mut self, model: &Model, task: TaskId, status: Status, node: NodeId, at: Option<u32>) {
        debug_assert!(self.status(task) == Status::Out && status != Status::Out);
        self.status[task.index()] = status;
        self.node[task.index()] = node;
        if node.is_some() {
            let list = &mut self.node_tasks[node.index()];
            let at = at.unwrap_or(list.len() as u32) as usize;
            list.push(task);
            let last = list.len() - 1;
            list.swap(at, last);
            self.in_node[list[last].index()] = last as u32;
            self.in_node[task.index()] = at as u32;
        }
        self.count(model, task, true);
    }

    /// Stops counting a task; it is out afterwards.
    pub(crate) fn leave(&mut self, model: &Model, task: TaskId) {
        if self.status(task) == Status::Out {
            return;
        }
        self.count(model, task, false);
        let node = self.node(task);
        if node.is_some() {
            let list = &mut self.node_tasks[node.index()];
            let at = self.in_node[task.index()] as usize;
            list.swap_remove(at);
            if let Some(moved) = list.get(at) {
                self.in_node[moved.index()] = at as u32;
            }
        }
        self.status[task.index()] = Status::Out;
        self.node[task.index()] = NodeId::NONE;
        self.in_node[task.index()] = 0;
    }

    /// The one place where a task's weight is put on, or taken off, every account.
    fn count(&mut self, model: &Model, task: TaskId, enter: bool) {
        let record = &model.tasks[task];
        let class = &model.classes[record.class];
        let request = &class.key.request;
        let (status, node) = (self.status(task), self.node(task));
        let sign = if enter { 1 } else { -1 };
        if node.is_some() {
            let row = node.index();
            if status.takes_idle() {
                self.idle.shift(row, request, -sign);
                if model.nodes[node].present {
                    self.cluster.shift(IDLE, request, -sign);
                }
            }
            if status.takes_future() {
                self.future.shift(row, request, -sign);
            }
            self.journal.touch(node, Touch::Counts);
            if !model.places.marks.is_empty() {
                self.marks.count(model, record, status, node, enter);
            }
        }
        if !record.job.is_some() {
            return;
        }
        let job = record.job.index();
        self.counts[job].shift(status, class.best_effort, enter);
        let roles = &mut self.role_counts[job];
        let role = usize::from(record.role);
        if roles.len() <= role {
            roles.resize(role + 1, Counts::default());
        }
        roles[role].shift(status, class.best_effort, enter);
        if status == Status::Pending {
            self.count_pending(job, record.class, enter);
        }
        let (of_job, of_queue) = if status.is_charged() {
            (&mut self.job_allocated, &mut self.queue_allocated)
        } else if status == Status::Pending {
            (&mut self.job_waiting, &mut self.queue_waiting)
        } else {
            return;
        };
        of_job.shift(job, request, sign);
        let chain = model.chain(model.jobs[record.job].queue);
        for queue in chain.iter().skip(usize::from(mutant!(MiscountQueues))) {
            of_queue.shift(queue.index(), request, sign);
        }
    }

    /// Sorted and without zeros, so that going back restores it.
    fn count_pending(&mut self, job: usize, class: ClassId, enter: bool) {
        let census = &mut self.pending[job];
        match census.binary_search_by_key(&class, |&(known, _)| known) {
            Ok(at) if enter => census[at].1 += 1,
            Ok(at) if census[at].1 > 1 => census[at].1 -= 1,
            Ok(at) => {
                census.remove(at);
            }
            Err(at) => census.insert(at, (class, u32::from(enter))),
        }
    }

    /// A node offers this much more (or, after [`Ledger::withdraw`], less).
    pub(crate) fn offer(&mut self, model: &Model, node: NodeId) {
        let Node {
            allocatable, present, ..
        } = &model.nodes[node];
        self.offered.add(node.index(), allocatable);
        self.idle.add(node.index(), allocatable);
        self.future.add(node.index(), allocatable);
        if *present {
            self.cluster.add(TOTAL, allocatable);
            self.cluster.add_row(IDLE, &self.idle, node.index());
        }
        self.journal.touch(node, Touch::Facts);
    }

    /// A node no longer offers what its record says.
    pub(crate) fn withdraw(&mut self, model: &Model, node: NodeId) {
        let Node {
            allocatable, present, ..
        } = &model.nodes[node];
        if *present {
            self.cluster.sub(TOTAL, allocatable);
            self.cluster.sub_row(IDLE, &self.idle, node.index());
        }
        self.offered.sub(node.index(), allocatable);
        self.idle.sub(node.index(), allocatable);
        self.future.sub(node.index(), allocatable);
        self.journal.touch(node, Touch::Facts);
    }

    /// Puts what a job has, waits for and claims onto its queue and the queues above.
    pub(crate) fn join_queue(&mut self, model: &Model, job: JobId) {
        let (row, queue) = (job.index(), model.jobs[job].queue);
        for above in model.chain(queue) {
            self.queue_allocated.add_row(above.index(), &self.job_allocated, row);
            self.queue_waiting.add_row(above.index(), &self.job_waiting, row);
        }
        self.claims.post(model, job, 1);
        if queue.is_some() {
            self.queue_jobs[queue.index()] += 1;
        }
    }

    /// Takes what a job has, waits for and claims off its queue and the queues above.
    pub(crate) fn quit_queue(&mut self, model: &Model, job: JobId) {
        let (row, queue) = (job.index(), model.jobs[job].queue);
        for above in model.chain(queue) {
            self.queue_allocated.sub_row(above.index(), &self.job_allocated, row);
            self.queue_waiting.sub_row(above.index(), &self.job_waiting, row);
        }
        self.claims.post(model, job, -1);
        if queue.is_some() {
            self.queue_jobs[queue.index()] -= 1;
        }
    }

    /// Sums up all queues again, after the tree has changed.
    pub(crate) fn recount_queues(&mut self, model: &Model) {
        self.queue_allocated.clear();
        self.queue_waiting.clear();
        self.claims.clear();
        self.queue_jobs.fill(0);
        for job in model.jobs.ids() {
            self.join_queue(model, job);
        }
    }

    /// Who wears which mark, by node.
    pub(crate) fn marks(&self) -> &MarkCounts {
        &self.marks
    }

    /// Counts a new mark on all pods that wear it.
    pub(crate) fn recount_mark(&mut self, model: &Model, mark: u32) {
        for task in model.tasks.ids() {
            let (record, status, node) = (&model.tasks[task], self.status(task), self.node(task));
            if node.is_some() && model.places.worn(record.tag, record.ties).any(|worn| worn == mark) {
                self.marks.shift(mark, status, node, true);
            }
        }
    }

    /// Counts all marks anew.
    pub(crate) fn recount_marks(&mut self, model: &Model) {
        self.marks.clear();
        for task in model.tasks.ids() {
            let (status, node) = (self.status(task), self.node(task));
            if node.is_some() {
                self.marks.count(model, &model.tasks[task], status, node, true);
            }
        }
    }

    /// Forgets a mark that nobody mentions.
    pub(crate) fn forget_mark(&mut self, mark: u32) {
        self.marks.forget(mark);
    }

    /// Forgets the roles of a job whose slot is given back.
    pub(crate) fn clear_job(&mut self, job: JobId) {
        self.counts[job.index()] = Counts::default();
        self.role_counts[job.index()] = SmallVec::new();
        self.pending[job.index()] = SmallVec::new();
    }
}

#[cfg(test)]
mod tests;
