//! Pod groups and priority classes come, change and go.

use super::{is_meant, put};
use crate::facts::{PodGroupFacts, PriorityClassFacts};
use crate::ledger::Touch;
use crate::model::{JobId, QueueId, Role};
use crate::session::State;

impl State {
    pub(super) fn upsert_group(&mut self, facts: &PodGroupFacts) {
        if facts.key.is_empty() || facts.queue.is_empty() {
            return;
        }
        let id = self.model.jobs.intern(&facts.key);
        let queue = self.intern_queue(&facts.queue);
        let namespace = self.namespace_of(&facts.key);
        let (min_resources, quota_asks) = self.read_minimum(facts.min_resources.as_ref());
        self.ledger.grow(&self.model);
        for name in facts.min_task_member.keys() {
            self.model.role_index(id, name);
        }
        let priority = self.model.priority_of(&facts.priority_class);
        let moved = self.move_job(id, queue);
        let job = &mut self.model.jobs[id];
        let is_new = !job.present;
        let mut changed = moved || is_new;
        for Role { name, min } in &mut job.roles {
            let wanted = facts.min_task_member.get(name).copied().unwrap_or(0);
            changed |= std::mem::replace(min, wanted) != wanted;
        }
        let tally_differs = put(&mut job.seen_tally, facts.tally) && put(&mut job.announced_tally, facts.tally);
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
        changed |= put(&mut job.quota_asks, quota_asks);
        job.namespace = namespace;
        changed |= put(&mut job.priority_class, facts.priority_class.clone());
        changed |= put(&mut job.priority, priority);
        changed |= put(&mut job.preemptable, facts.preemptable);
        changed |= put(&mut job.sla_ms, facts.sla_ms);
        changed |= put(&mut job.unsupported, facts.unsupported.clone());
        if tally_differs {
            // A late report may show other counters than a plan has announced since: they are worked out again.
            self.dirty_jobs.push(id);
            self.changed = true;
        }
        if changed {
            self.mark(id);
            self.changed = true;
        }
        if changed && !is_new {
            // What it claimed, others may have.
            self.ease();
        }
    }

    /// Moves a job, with what it has allocated, to a queue (or to none). False: it is there already.
    pub(super) fn move_job(&mut self, id: JobId, queue: QueueId) -> bool {
        let old = self.model.jobs[id].queue;
        if old == queue {
            return false;
        }
        // Whose pods stand on a node may matter to who holds it.
        for &task in &self.model.jobs[id].tasks {
            let node = self.ledger.node(task);
            if node.is_some() {
                self.ledger.journal.touch(node, Touch::Counts);
            }
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

    pub(super) fn group_gone(&mut self, key: &str, uid: Option<&str>) {
        let Some(id) = self.model.jobs.find(key) else { return };
        if !is_meant(uid, &self.model.jobs[id].uid) {
            return;
        }
        self.single_out(id);
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
            namespace: job.namespace,
            ..Default::default()
        };
        for role in &mut job.roles {
            role.min = 0;
        }
        self.mark(id);
        self.ledger.claim(&self.model, id);
        self.free_job(id);
        self.ease();
    }

    pub(super) fn free_job(&mut self, id: JobId) {
        if id.is_some() && !self.model.jobs[id].present && self.model.jobs[id].tasks.is_empty() {
            self.gone_jobs.push(self.model.jobs.name(id).clone());
            self.ledger.clear_job(id);
            self.model.jobs.release(id);
        }
    }

    pub(super) fn upsert_priority(&mut self, facts: &PriorityClassFacts) {
        self.model.priorities.insert(facts.name.clone(), facts.clone());
        self.reprioritise();
    }

    pub(super) fn priority_gone(&mut self, name: &str, uid: Option<&str>) {
        let known = self.model.priorities.get(name);
        if known.is_some_and(|class| is_meant(uid, &class.uid)) {
            self.model.priorities.remove(name);
            self.reprioritise();
        }
    }

    pub(super) fn reprioritise(&mut self) {
        let ids: Vec<JobId> = self
            .model
            .jobs
            .ids()
            .filter(|&id| self.model.jobs[id].present)
            .collect();
        for id in ids {
            let priority = self.model.priority_of(&self.model.jobs[id].priority_class);
            if put(&mut self.model.jobs[id].priority, priority) {
                self.single_out(id);
                self.ease();
            }
        }
    }
}
