//! A pod group, as the engine knows it.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{PodView, QueueView};
use crate::engine::Engine;
use crate::facts::{Phase, Resources};
use crate::ledger::{Counts, Status};
use crate::model::{Id, Job, JobId, TaskId};

/// A pod group that the engine knows, or that one of its pods names.
#[derive(Clone, Copy)]
pub struct PodGroupView<'e> {
    engine: &'e Engine,
    id: JobId,
}

impl<'e> PodGroupView<'e> {
    #[inline]
    pub(super) fn new(engine: &'e Engine, id: JobId) -> Self {
        PodGroupView { engine, id }
    }

    #[inline]
    fn record(self) -> &'e Job {
        &self.engine.state().model.jobs[self.id]
    }

    #[inline]
    fn counts(self) -> &'e Counts {
        self.engine.state().ledger.counts(self.id)
    }

    /// Returns `namespace/name`.
    #[inline]
    pub fn key(self) -> &'e Arc<str> {
        self.engine.state().model.jobs.name(self.id)
    }

    /// Returns the uid of the object; empty while the object is unknown.
    #[inline]
    pub fn uid(self) -> &'e Arc<str> {
        &self.record().uid
    }

    /// Returns whether the engine knows the object itself, not only pods that name it.
    #[inline]
    pub fn is_declared(self) -> bool {
        self.record().present
    }

    /// Returns the creation time, in milliseconds since 1970.
    #[inline]
    pub fn created_ms(self) -> i64 {
        self.record().created_ms
    }

    /// Returns the hash of the spec that the engine knows; a [`Transaction`](crate::plan::Transaction) carries the
    /// hash of the spec that it was decided for.
    #[inline]
    pub fn spec_hash(self) -> u64 {
        self.record().spec_hash
    }

    /// Returns the queue that the group names.
    #[inline]
    pub fn queue(self) -> Option<QueueView<'e>> {
        let queue = self.record().queue;
        queue.is_some().then(|| QueueView::new(self.engine, queue))
    }

    /// Returns the phase that the API showed last.
    #[inline]
    pub fn observed_phase(self) -> Phase {
        self.record().seen_phase
    }

    /// Returns the phase that the API shows, or that a plan has decided since.
    #[inline]
    pub fn announced_phase(self) -> Phase {
        self.record().announced
    }

    /// Returns how many pods the gang needs; 0 means no minimum.
    #[inline]
    pub fn min_member(self) -> u32 {
        self.record().min_member
    }

    /// Returns all pods of the group, in no meaningful order.
    pub fn pods(self) -> impl ExactSizeIterator<Item = PodView<'e>> {
        let tasks = self.record().tasks.iter();
        tasks.map(move |&task| PodView::new(self.engine, task))
    }

    /// Returns the pods that the API shows on a node and that have not ended.
    pub fn placed_pods(self) -> impl Iterator<Item = PodView<'e>> {
        self.pods().filter(|pod| pod.is_placed())
    }

    /// Returns the pods that a plan has given a node and that the API does not show there yet.
    pub fn assumed_pods(self) -> impl Iterator<Item = PodView<'e>> {
        self.pods().filter(|pod| pod.is_assumed())
    }

    /// Returns the pods that wait for a node and that no scheduling gate holds back.
    pub fn pending_pods(self) -> impl Iterator<Item = PodView<'e>> {
        self.pods().filter(|pod| pod.is_pending() && !pod.is_gated())
    }

    /// Returns how many pods the group has, ended ones included.
    #[inline]
    pub fn pod_count(self) -> u32 {
        self.counts().total()
    }

    /// Returns how many pods have a node, observed or assumed, or have succeeded.
    #[inline]
    pub fn ready_pod_count(self) -> u32 {
        self.counts().ready()
    }

    /// Returns how many pods the API shows on a node, ended ones included.
    #[inline]
    pub fn scheduled_pod_count(self) -> u32 {
        self.counts().scheduled()
    }

    /// Returns how many pods the API shows on a node, where they have neither ended nor been told to go.
    #[inline]
    pub fn placed_pod_count(self) -> u32 {
        self.counts().of(Status::Bound) + self.counts().of(Status::Running)
    }

    /// Returns how many pods run, or have run to their end.
    #[inline]
    pub fn started_pod_count(self) -> u32 {
        self.counts().of(Status::Running) + self.counts().ended()
    }

    /// Returns how many pods are on their way out.
    #[inline]
    pub fn leaving_pod_count(self) -> u32 {
        self.counts().of(Status::Releasing)
    }

    /// Returns how many pods a plan has given a node that the API does not show there yet.
    #[inline]
    pub fn assumed_pod_count(self) -> u32 {
        self.counts().of(Status::Allocated)
    }

    /// Returns how many pods have no node.
    #[inline]
    pub fn pending_pod_count(self) -> u32 {
        self.counts().of(Status::Pending)
    }

    /// Returns how many pods a scheduling gate holds back, or need something that the engine does not support.
    #[inline]
    pub fn unschedulable_pod_count(self) -> u32 {
        self.record().odd_tasks
    }

    /// Returns whether at least the minimum, and at least one pod, has a node, observed or assumed.
    #[inline]
    pub fn is_minimum_ready(self) -> bool {
        self.ready_pod_count() >= self.min_member().max(1)
    }

    /// Returns whether the API shows at least the minimum, and at least one pod, on nodes.
    #[inline]
    pub fn is_minimum_scheduled(self) -> bool {
        self.scheduled_pod_count() >= self.min_member().max(1)
    }

    /// Returns whether the API shows the whole gang on nodes: the group's minimum, and the minimum of every task of
    /// the group where these count.
    pub fn is_gang_scheduled(self) -> bool {
        let (record, ledger) = (self.record(), &self.engine.state().ledger);
        let is_role_scheduled = |role: usize, min: u32| ledger.role_counts(self.id, role).scheduled() >= min;
        let roles_are_scheduled = || {
            let roles = record.roles.iter().map(|role| role.min).enumerate();
            !record.roles_count()
                || roles
                    .filter(|(_, min)| *min > 0)
                    .all(|(role, min)| is_role_scheduled(role, min))
        };
        self.scheduled_pod_count() >= record.min_member && roles_are_scheduled()
    }

    /// Returns whether the API shows the whole gang on nodes that exist. A pod on a node that is gone does not count;
    /// ended pods do.
    pub fn is_gang_on_existing_nodes(self) -> bool {
        if !self.is_gang_scheduled() {
            return false;
        }
        let (record, state) = (self.record(), self.engine.state());
        let is_lost = |task: &&TaskId| {
            let node = state.ledger.node(**task);
            let is_placed = matches!(state.ledger.status(**task), Status::Bound | Status::Running);
            is_placed && node.is_some() && !state.model.nodes[node].present
        };
        let mut lost_by_role: BTreeMap<usize, u32> = BTreeMap::new();
        for &task in record.tasks.iter().filter(is_lost) {
            *lost_by_role
                .entry(usize::from(state.model.tasks[task].role))
                .or_default() += 1;
        }
        let lost: u32 = lost_by_role.values().sum();
        let is_role_complete = |(&role, &lost): (&usize, &u32)| {
            let min = record.roles.get(role).map_or(0, |role| role.min);
            min == 0 || state.ledger.role_counts(self.id, role).scheduled() >= min.saturating_add(lost)
        };
        lost == 0
            || self.scheduled_pod_count() >= record.min_member.saturating_add(lost)
                && (!record.roles_count() || lost_by_role.iter().all(is_role_complete))
    }

    /// Returns what pods with a node, observed, assumed or nominated, request together.
    pub fn allocated(self) -> Resources {
        let state = self.engine.state();
        let row = state.ledger.job_allocated().row(self.id.index());
        state.model.dims.resources(&row)
    }

    /// Returns the largest part of the cluster, over all resources, that the group has allocated.
    pub fn dominant_share(self) -> f64 {
        let ledger = &self.engine.state().ledger;
        let allocated = ledger.job_allocated().row(self.id.index());
        let parts = allocated.iter().filter_map(|(dim, amount)| {
            let total = ledger.total_of(dim);
            (total > 0).then(|| amount as f64 / total as f64)
        });
        parts.fold(0.0, f64::max)
    }
}
