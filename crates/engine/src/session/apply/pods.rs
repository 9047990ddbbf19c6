//! Pods come, change and go; what we decided about them holds until the API shows it or it fails.

use super::is_meant;
use crate::facts::{PodFacts, PodPhase};
use crate::ledger::Status;
use crate::model::{ClassId, JobId, NodeId, Task, TaskId, ordinal};
use crate::session::State;

impl State {
    /// The pod has a node by our decision, which the API does not show yet.
    pub(crate) fn is_under_way(&self, task: TaskId) -> bool {
        self.ledger.node(task).is_some() && !self.model.tasks[task].shown
    }

    /// Takes back a decision that was not carried out.
    pub(crate) fn unassume(&mut self, task: TaskId) {
        if self.is_under_way(task) {
            let node = self.ledger.node(task);
            let status = match self.ledger.status(task) {
                Status::Allocated | Status::Pipelined => Status::Pending,
                other => other,
            };
            self.set(task, status, NodeId::NONE);
            self.free_node(node);
            self.mark(self.model.tasks[task].job);
            self.ease();
        }
    }

    /// The pod is on its way out by our decision, which the API does not show yet.
    pub(crate) fn evict(&mut self, task: TaskId) {
        let node = self.ledger.node(task);
        self.set(task, Status::Releasing, node);
        self.evicted.push(task);
    }

    /// Takes back an eviction that was not carried out.
    pub(crate) fn unevict(&mut self, task: TaskId) {
        if std::mem::take(&mut self.model.tasks[task].evicting) {
            self.set(task, self.model.tasks[task].shown_as, self.ledger.node(task));
            self.mark(self.model.tasks[task].job);
            self.ease();
        }
    }

    /// Room on a node that is not cleared after all is kept for nobody: who waits for it looks for other room.
    pub(crate) fn release_holds(&mut self, node: NodeId) {
        let waits =
            |state: &State, task| state.ledger.status(task) == Status::Pipelined && state.ledger.node(task) == node;
        let mut holds = std::mem::take(&mut self.holds);
        let (void, rest): (Vec<_>, Vec<_>) = holds.drain(..).partition(|hold| waits(self, hold.task));
        self.holds = rest;
        for hold in void {
            self.model.tasks[hold.task].nominated = None;
            self.unassume(hold.task);
        }
    }

    pub(super) fn upsert_pod(&mut self, facts: &PodFacts, ours: bool) {
        let group = facts.group.as_ref().filter(|group| ours && !group.is_empty());
        let ended = matches!(facts.phase, PodPhase::Succeeded | PodPhase::Failed);
        if facts.key.is_empty() || (group.is_none() && (facts.node.is_none() || ended)) {
            return self.pod_gone(&facts.key, None);
        }
        if let Some(old) = self.model.tasks.find(&facts.key)
            && self.model.tasks[old].uid != facts.uid
        {
            self.pod_gone(&facts.key, None);
        }
        let id = self.model.tasks.intern(&facts.key);
        let node = facts
            .node
            .as_ref()
            .filter(|_| !ended)
            .map_or(NodeId::NONE, |name| self.intern_node(name));
        let job = group.map_or(JobId::NONE, |key| self.model.jobs.intern(key));
        let request = self.model.dims.amounts(&facts.requests);
        self.ledger.grow(&self.model);
        let ties = self.acquire_ties(&facts.ties);
        let tag = self.acquire_tag(&facts.key, &facts.labels);
        let known = &self.model.tasks[id];
        let (evicting, spared) = (known.evicting && !facts.terminating && !ended, known.spared);
        let refusals = known.refusals;
        // What we nominated holds until the API shows it; after that the API's word counts.
        let ours = || {
            known
                .nominated
                .clone()
                .filter(|_| self.ledger.status(id) == Status::Pipelined)
        };
        let nominated = facts.nominated.clone().or_else(ours);
        let record = Task {
            uid: facts.uid.clone(),
            created_ms: facts.created_ms,
            ordinal: ordinal(&facts.key),
            class: self.model.classes.acquire(request, &facts.constraints),
            tag,
            ties,
            job,
            in_job: 0,
            priority: facts.priority,
            role: if job.is_some() {
                self.model.role_index(job, &facts.role)
            } else {
                0
            },
            gated: facts.gated,
            preemptable: facts.preemptable,
            preempts: facts.preempts,
            critical: facts.critical,
            fixed: facts.fixed,
            evicting,
            spared,
            refusals,
            shown_as: Status::Out,
            started_ms: facts.started_ms,
            nominated: nominated.filter(|_| facts.node.is_none()),
            shown: facts.node.is_some(),
        };
        self.ledger.grow(&self.model);
        let shown_as = self.status_now(id, facts, node);
        let status = if evicting { Status::Releasing } else { shown_as };
        let record = Task { shown_as, ..record };
        // A bind that is under way may yet succeed: whatever happens to the pod meanwhile, it keeps its room until it
        // is gone.
        let keeps_node = facts.node.is_none() && !ended && status != Status::Pending && self.is_under_way(id);
        let node = if keeps_node { self.ledger.node(id) } else { node };
        self.replace_task(id, record, status, node);
    }

    pub(super) fn status_now(&self, id: TaskId, facts: &PodFacts, node: NodeId) -> Status {
        match facts.phase {
            PodPhase::Succeeded => Status::Succeeded,
            PodPhase::Failed => Status::Failed,
            _ if facts.terminating => Status::Releasing,
            PodPhase::Pending if node.is_some() => Status::Bound,
            PodPhase::Pending => match self.ledger.status(id) {
                Status::Pipelined => Status::Pipelined,
                _ if self.is_under_way(id) => Status::Allocated,
                _ => Status::Pending,
            },
            PodPhase::Running => Status::Running,
            PodPhase::Unknown => Status::Unknown,
        }
    }

    /// Puts a pod's new record in the place of the old one, with all counts.
    pub(super) fn replace_task(&mut self, id: TaskId, mut record: Task, status: Status, node: NodeId) {
        let old = &self.model.tasks[id];
        let (old_class, old_job, old_node) = (old.class, old.job, self.ledger.node(id));
        let (old_tag, old_ties) = (old.tag, old.ties);
        record.in_job = old.in_job;
        let same = (old_class, old_tag, old_ties) == (record.class, record.tag, record.ties)
            && old_job == record.job
            && (old.priority, old.role, old.gated, old.preemptable)
                == (record.priority, record.role, record.gated, record.preemptable)
            && (old.preempts, old.critical, old.evicting) == (record.preempts, record.critical, record.evicting)
            && old.fixed == record.fixed
            && (old.started_ms, &old.nominated) == (record.started_ms, &record.nominated)
            && (old.shown, old.shown_as) == (record.shown, record.shown_as)
            && (old.created_ms, &old.uid) == (record.created_ms, &record.uid)
            && (self.ledger.status(id), old_node) == (status, node);
        if same {
            self.free_class(record.class);
            self.release_tag(record.tag);
            self.release_ties(record.ties);
            return;
        }
        let old_status = self.ledger.status(id);
        let only_takes = takes_only(old_status, status)
            && (!old_node.is_some() || old_node == node)
            && (!old_class.is_some() || old_class == record.class);
        self.remove(id);
        self.count_odd(id, false);
        if old_job != record.job {
            self.leave_job(id);
            record.in_job = self.join_job(id, record.job);
        }
        self.mark(record.job);
        if record.job.is_some() && status == Status::Bound {
            self.model.jobs[record.job].bind_failures = 0;
        }
        self.model.tasks[id] = record;
        self.count_odd(id, true);
        self.place(id, status, node);
        if old_class.is_some() {
            self.free_class(old_class);
        }
        self.release_tag(old_tag);
        self.release_ties(old_ties);
        if old_job != self.model.tasks[id].job {
            self.free_job(old_job);
        }
        self.free_node(old_node);
        self.changed = true;
        let prey =
            self.hunts && self.ledger.status(id) != old_status && matches!(status, Status::Bound | Status::Running);
        if !only_takes || prey {
            self.ease();
        }
    }

    pub(super) fn count_odd(&mut self, task: TaskId, enter: bool) {
        let job = self.model.tasks[task].job;
        if job.is_some() && self.model.is_odd(task) {
            let odd = &mut self.model.jobs[job].odd_tasks;
            *odd = if enter { *odd + 1 } else { odd.saturating_sub(1) };
        }
    }

    pub(super) fn free_class(&mut self, class: ClassId) {
        if self.model.classes.release(class) {
            self.freed_classes.push(class);
        }
    }

    pub(super) fn join_job(&mut self, task: TaskId, job: JobId) -> u32 {
        if !job.is_some() {
            return 0;
        }
        let tasks = &mut self.model.jobs[job].tasks;
        tasks.push(task);
        (tasks.len() - 1) as u32
    }

    pub(super) fn leave_job(&mut self, task: TaskId) {
        let (job, at) = (self.model.tasks[task].job, self.model.tasks[task].in_job as usize);
        if !job.is_some() {
            return;
        }
        self.mark(job);
        let tasks = &mut self.model.jobs[job].tasks;
        tasks.swap_remove(at);
        if let Some(&moved) = tasks.get(at) {
            self.model.tasks[moved].in_job = at as u32;
        }
    }

    pub(super) fn pod_gone(&mut self, key: &str, uid: Option<&str>) {
        let Some(id) = self.model.tasks.find(key) else { return };
        if !is_meant(uid, &self.model.tasks[id].uid) {
            return;
        }
        let record = &self.model.tasks[id];
        let (job, class, tag, ties) = (record.job, record.class, record.tag, record.ties);
        let node = self.ledger.node(id);
        self.remove(id);
        self.count_odd(id, false);
        self.leave_job(id);
        self.model.tasks.release(id);
        self.free_class(class);
        self.release_tag(tag);
        self.release_ties(ties);
        self.free_job(job);
        self.free_node(node);
        self.ease();
    }
}

/// Whether a change of status can be of no help to any other job: the ordinary way of a pod from its making to running.
fn takes_only(before: Status, after: Status) -> bool {
    matches!(
        before,
        Status::Out | Status::Pending | Status::Allocated | Status::Bound
    ) && matches!(
        after,
        Status::Pending | Status::Allocated | Status::Bound | Status::Running
    ) && (before != Status::Allocated || after != Status::Pending)
}
