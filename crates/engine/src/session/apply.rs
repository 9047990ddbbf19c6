//! How events change the state. Every upsert is idempotent, and the order of events about different objects does not
//! matter: a name that is mentioned before its object arrives has a slot already.

use std::sync::Arc;

use super::State;
use crate::facts::{Event, NodeFacts, PodFacts, PodGroupFacts, PodPhase, PriorityClassFacts, QueueFacts};
use crate::ledger::Status;
use crate::model::{ClassId, JobId, NodeId, QueueId, ROOT, Role, Task, TaskId, ordinal};

impl State {
    /// Takes in one change. `ours` says which scheduler names we serve.
    pub fn apply(&mut self, event: &Event, ours: &dyn Fn(&str) -> bool) {
        match event {
            Event::Node(facts) => self.upsert_node(facts),
            Event::NodeGone { name, uid } => self.node_gone(name, uid.as_deref()),
            Event::Pod(facts) => self.upsert_pod(facts, ours(&facts.scheduler)),
            Event::PodGone { key, uid } => self.pod_gone(key, uid.as_deref()),
            Event::PodGroup(facts) => self.upsert_group(facts),
            Event::PodGroupGone { key, uid } => self.group_gone(key, uid.as_deref()),
            Event::Queue(facts) => self.upsert_queue(facts),
            Event::QueueGone { name, uid } => self.queue_gone(name, uid.as_deref()),
            Event::PriorityClass(facts) => self.upsert_priority(facts),
            Event::PriorityClassGone { name, uid } => self.priority_gone(name, uid.as_deref()),
        }
    }

    fn intern_node(&mut self, name: &Arc<str>) -> NodeId {
        let node = self.model.nodes.intern(name);
        self.ledger.grow(&self.model);
        node
    }

    fn upsert_node(&mut self, facts: &NodeFacts) {
        if facts.name.is_empty() {
            return;
        }
        let id = self.intern_node(&facts.name);
        let allocatable = self.model.dims.offers(&facts.allocatable).non_zero();
        self.ledger.grow(&self.model);
        let node = &mut self.model.nodes[id];
        node.uid.clone_from(&facts.uid);
        if node.present
            && node.allocatable == allocatable
            && node.labels == facts.labels
            && node.taints == facts.taints
            && (node.unschedulable, node.not_ready) == (facts.unschedulable, facts.not_ready)
        {
            return;
        }
        self.order_stale |= !node.present;
        self.ledger.withdraw(&self.model, id);
        let node = &mut self.model.nodes[id];
        node.present = true;
        node.allocatable = allocatable;
        node.labels.clone_from(&facts.labels);
        node.taints.clone_from(&facts.taints);
        node.unschedulable = facts.unschedulable;
        node.not_ready = facts.not_ready;
        self.ledger.offer(&self.model, id);
        self.changed = true;
    }

    fn node_gone(&mut self, name: &str, uid: Option<&str>) {
        let Some(id) = self.model.nodes.find(name) else { return };
        let node = &self.model.nodes[id];
        if !node.present || !is_meant(uid, &node.uid) {
            return;
        }
        self.ledger.withdraw(&self.model, id);
        self.model.nodes[id] = crate::model::Node::default();
        self.ledger.offer(&self.model, id);
        // A place on a node that is gone is no place.
        let lost: Vec<TaskId> = self
            .ledger
            .tasks_on(id)
            .iter()
            .copied()
            .filter(|&task| self.is_under_way(task))
            .collect();
        for task in lost {
            self.unassume(task);
        }
        self.order_stale = true;
        self.changed = true;
        self.free_node(id);
    }

    fn free_node(&mut self, id: NodeId) {
        if id.is_some() && !self.model.nodes[id].present && self.ledger.tasks_on(id).is_empty() {
            self.model.nodes.release(id);
        }
    }

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
            self.changed = true;
        }
    }

    fn upsert_pod(&mut self, facts: &PodFacts, ours: bool) {
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
        let record = Task {
            uid: facts.uid.clone(),
            created_ms: facts.created_ms,
            ordinal: ordinal(&facts.key),
            class: self.model.classes.acquire(request, &facts.constraints),
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
            shown: facts.node.is_some(),
        };
        self.ledger.grow(&self.model);
        let status = self.status_now(id, facts, node);
        // A bind that is under way may yet succeed: whatever happens to the pod meanwhile, it keeps its room until it
        // is gone.
        let keeps_node = facts.node.is_none() && !ended && status != Status::Pending && self.is_under_way(id);
        let node = if keeps_node { self.ledger.node(id) } else { node };
        self.replace_task(id, record, status, node);
    }

    fn status_now(&self, id: TaskId, facts: &PodFacts, node: NodeId) -> Status {
        match facts.phase {
            PodPhase::Succeeded => Status::Succeeded,
            PodPhase::Failed => Status::Failed,
            _ if facts.terminating => Status::Releasing,
            PodPhase::Pending if node.is_some() => Status::Bound,
            PodPhase::Pending if self.ledger.status(id) == Status::Allocated => Status::Allocated,
            PodPhase::Pending => Status::Pending,
            PodPhase::Running => Status::Running,
            PodPhase::Unknown => Status::Unknown,
        }
    }

    /// Puts a pod's new record in the place of the old one, with all counts.
    fn replace_task(&mut self, id: TaskId, mut record: Task, status: Status, node: NodeId) {
        let old = &self.model.tasks[id];
        let (old_class, old_job, old_node) = (old.class, old.job, self.ledger.node(id));
        record.in_job = old.in_job;
        let same = old_class == record.class
            && old_job == record.job
            && (old.priority, old.role, old.gated, old.preemptable)
                == (record.priority, record.role, record.gated, record.preemptable)
            && old.shown == record.shown
            && (old.created_ms, &old.uid) == (record.created_ms, &record.uid)
            && (self.ledger.status(id), old_node) == (status, node);
        if same {
            self.free_class(record.class);
            return;
        }
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
        if old_job != self.model.tasks[id].job {
            self.free_job(old_job);
        }
        self.free_node(old_node);
        self.changed = true;
    }

    fn count_odd(&mut self, task: TaskId, enter: bool) {
        let job = self.model.tasks[task].job;
        if job.is_some() && self.model.is_odd(task) {
            let odd = &mut self.model.jobs[job].odd_tasks;
            *odd = if enter { *odd + 1 } else { odd.saturating_sub(1) };
        }
    }

    fn free_class(&mut self, class: ClassId) {
        if self.model.classes.release(class) {
            self.freed_classes.push(class);
        }
    }

    fn join_job(&mut self, task: TaskId, job: JobId) -> u32 {
        if !job.is_some() {
            return 0;
        }
        let tasks = &mut self.model.jobs[job].tasks;
        tasks.push(task);
        (tasks.len() - 1) as u32
    }

    fn leave_job(&mut self, task: TaskId) {
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

    fn pod_gone(&mut self, key: &str, uid: Option<&str>) {
        let Some(id) = self.model.tasks.find(key) else { return };
        if !is_meant(uid, &self.model.tasks[id].uid) {
            return;
        }
        let (job, class, node) = (
            self.model.tasks[id].job,
            self.model.tasks[id].class,
            self.ledger.node(id),
        );
        self.remove(id);
        self.count_odd(id, false);
        self.leave_job(id);
        self.model.tasks.release(id);
        self.free_class(class);
        self.free_job(job);
        self.free_node(node);
        self.changed = true;
    }

    fn upsert_group(&mut self, facts: &PodGroupFacts) {
        if facts.key.is_empty() || facts.queue.is_empty() {
            return;
        }
        let id = self.model.jobs.intern(&facts.key);
        let queue = self.intern_queue(&facts.queue);
        let min_resources = facts
            .min_resources
            .as_ref()
            .map(|resources| self.model.dims.amounts(resources));
        self.ledger.grow(&self.model);
        for name in facts.min_task_member.keys() {
            self.model.role_index(id, name);
        }
        let priority = self.model.priority_of(&facts.priority_class);
        let moved = self.move_job(id, queue);
        let job = &mut self.model.jobs[id];
        let mut changed = moved || !job.present;
        for Role { name, min } in &mut job.roles {
            let wanted = facts.min_task_member.get(name).copied().unwrap_or(0);
            changed |= std::mem::replace(min, wanted) != wanted;
        }
        if put(&mut job.seen_tally, facts.tally) {
            job.announced_tally = facts.tally;
        }
        if !job.present || job.uid != facts.uid || job.seen_phase != facts.phase {
            changed |= job.phase != facts.phase;
            job.phase = facts.phase;
            job.announced = facts.phase;
            job.announced_tally = facts.tally;
        }
        job.present = true;
        job.seen_phase = facts.phase;
        changed |= put(&mut job.uid, facts.uid.clone());
        changed |= put(&mut job.created_ms, facts.created_ms);
        changed |= put(&mut job.spec_hash, facts.spec_hash);
        changed |= put(&mut job.min_member, facts.min_member);
        changed |= put(&mut job.min_resources, min_resources);
        changed |= put(&mut job.priority_class, facts.priority_class.clone());
        changed |= put(&mut job.priority, priority);
        changed |= put(&mut job.unsupported, facts.unsupported.clone());
        if changed {
            self.mark(id);
            self.changed = true;
        }
    }

    /// Moves a job, with what it has allocated, to a queue (or to none). False: it is there already.
    fn move_job(&mut self, id: JobId, queue: QueueId) -> bool {
        let old = self.model.jobs[id].queue;
        if old == queue {
            return false;
        }
        self.ledger.quit_queue(&self.model, id);
        self.model.jobs[id].queue = queue;
        self.ledger.join_queue(&self.model, id);
        if queue.is_some() {
            self.model.queues[queue].mentions += 1;
        }
        if old.is_some() {
            self.model.queues[old].mentions -= 1;
            self.free_queue(old);
        }
        true
    }

    fn group_gone(&mut self, key: &str, uid: Option<&str>) {
        let Some(id) = self.model.jobs.find(key) else { return };
        if !is_meant(uid, &self.model.jobs[id].uid) {
            return;
        }
        self.move_job(id, QueueId::NONE);
        let job = &mut self.model.jobs[id];
        let (roles, tasks, odd_tasks) = (
            std::mem::take(&mut job.roles),
            std::mem::take(&mut job.tasks),
            job.odd_tasks,
        );
        *job = crate::model::Job {
            roles,
            tasks,
            odd_tasks,
            ..Default::default()
        };
        for role in &mut job.roles {
            role.min = 0;
        }
        self.free_job(id);
        self.changed = true;
    }

    fn free_job(&mut self, id: JobId) {
        if id.is_some() && !self.model.jobs[id].present && self.model.jobs[id].tasks.is_empty() {
            self.ledger.clear_job(id);
            self.model.jobs.release(id);
        }
    }

    /// The slot of a queue name; a new one hangs below `root` until its facts say otherwise.
    fn intern_queue(&mut self, name: &Arc<str>) -> QueueId {
        if let Some(id) = self.model.queues.find(name) {
            return id;
        }
        let id = self.model.queues.intern(name);
        self.set_parent(id, ROOT);
        id
    }

    fn set_parent(&mut self, id: QueueId, parent: &str) {
        let is_root = **self.model.queues.name(id) == *ROOT;
        let parent = if parent.is_empty() { ROOT } else { parent };
        let parent = (!is_root).then(|| {
            let name: Arc<str> = Arc::from(parent);
            self.model
                .queues
                .find(parent)
                .unwrap_or_else(|| self.intern_queue(&name))
        });
        let old = self.model.queues[id].parent;
        if old != parent || self.model.queues[id].chain.is_empty() {
            if let Some(parent) = parent {
                self.model.queues[parent].mentions += 1;
            }
            self.model.queues[id].parent = parent;
            self.relink();
            if let Some(old) = old {
                self.model.queues[old].mentions -= 1;
                self.free_queue(old);
            }
        }
    }

    fn relink(&mut self) {
        self.model.link_queues();
        self.ledger.grow(&self.model);
        self.ledger.recount_queues(&self.model);
        self.changed = true;
    }

    fn upsert_queue(&mut self, facts: &QueueFacts) {
        if facts.name.is_empty() {
            return;
        }
        let id = self.intern_queue(&facts.name);
        self.set_parent(id, &facts.parent);
        let [deserved, guarantee, capability] =
            [&facts.deserved, &facts.guarantee, &facts.capability].map(|resources| self.model.dims.limits(resources));
        self.ledger.grow(&self.model);
        let queue = &mut self.model.queues[id];
        self.changed |= put(&mut queue.present, true);
        self.changed |= put(&mut queue.uid, facts.uid.clone());
        self.changed |= put(&mut queue.created_ms, facts.created_ms);
        self.changed |= put(&mut queue.weight, facts.weight);
        self.changed |= put(&mut queue.priority, facts.priority);
        self.changed |= put(&mut queue.reclaimable, facts.reclaimable);
        self.changed |= put(&mut queue.deserved, deserved);
        self.changed |= put(&mut queue.guarantee, guarantee);
        self.changed |= put(&mut queue.capability, capability);
    }

    fn queue_gone(&mut self, name: &str, uid: Option<&str>) {
        let Some(id) = self.model.queues.find(name) else { return };
        if !is_meant(uid, &self.model.queues[id].uid) {
            return;
        }
        self.set_parent(id, ROOT);
        let queue = &mut self.model.queues[id];
        let (parent, chain, mentions) = (queue.parent, std::mem::take(&mut queue.chain), queue.mentions);
        *queue = crate::model::Queue {
            parent,
            chain,
            mentions,
            ..Default::default()
        };
        self.free_queue(id);
        self.changed = true;
    }

    fn free_queue(&mut self, id: QueueId) {
        let queue = &self.model.queues[id];
        if queue.present || queue.mentions > 0 {
            return;
        }
        let parent = queue.parent;
        self.model.queues.release(id);
        if let Some(parent) = parent {
            self.model.queues[parent].mentions -= 1;
            self.free_queue(parent);
        }
        self.relink();
    }

    fn upsert_priority(&mut self, facts: &PriorityClassFacts) {
        self.model.priorities.insert(facts.name.clone(), facts.clone());
        self.reprioritise();
    }

    fn priority_gone(&mut self, name: &str, uid: Option<&str>) {
        let known = self.model.priorities.get(name);
        if known.is_some_and(|class| is_meant(uid, &class.uid)) {
            self.model.priorities.remove(name);
            self.reprioritise();
        }
    }

    fn reprioritise(&mut self) {
        let ids: Vec<JobId> = self
            .model
            .jobs
            .ids()
            .filter(|&id| self.model.jobs[id].present)
            .collect();
        for id in ids {
            let priority = self.model.priority_of(&self.model.jobs[id].priority_class);
            self.changed |= priority != self.model.jobs[id].priority;
            self.model.jobs[id].priority = priority;
        }
    }
}

/// Whether news of an end are about the object that is known: a late word about an earlier one of the same name is not.
fn is_meant(uid: Option<&str>, known: &str) -> bool {
    uid.is_none_or(|uid| uid == known)
}

/// Sets a field; true when that changed it.
fn put<T: PartialEq>(field: &mut T, value: T) -> bool {
    let changed = *field != value;
    *field = value;
    changed
}
