//! Queues, what is said to them, and the cluster that they share.

use basalt_api::queue::QueueState;
use basalt_api::slim::Node;
use basalt_api::{NamespacedName, Queue, names};
use kube::ResourceExt;

use super::reserving::written_nodes;
use super::{Work, World};
use crate::cache::Origin;
use crate::key::Uid;
use crate::queue::commands::CommandsView;
use crate::queue::{QueueView, Remains};

/// Jobs and PodGroups that one look at a queue's end takes along at most; their going brings the next look.
const REMAINS_MAX: usize = 1_000;

/// A full update by a client that does not know these two fields drops them.
fn loses_guarantee(known: &Queue, queue: &Queue) -> bool {
    let (before, after) = (&known.spec.guarantee, &queue.spec.guarantee);
    known.metadata.uid == queue.metadata.uid
        && ((before.policy.is_some() && after.policy.is_none())
            || (before.percentage.is_some() && after.percentage.is_none()))
}

impl World {
    /// Takes in a queue; returns what has to be looked at.
    pub fn upsert_queue(&mut self, queue: Queue, origin: Origin) -> Vec<Work> {
        let name = queue.name_any();
        let key = NamespacedName::of_cluster(&name);
        let was_ending = self.queues.is_ending(&key);
        let lost = self.queue(&name).is_some_and(|known| loses_guarantee(known, &queue));
        let stake = self.stake(&name);
        // A report of the watch that is older than an answer may still be the first of the watch to show the deletion.
        if !self.queues.upsert(queue, origin) && self.queues.is_ending(&key) == was_ending {
            return Vec::new();
        }
        let mut work = self.place(&name);
        work.extend(self.restake(&name, stake));
        work.extend(lost.then_some(Work::LostGuarantee(name)));
        work
    }

    /// A queue is gone.
    pub fn remove_queue(&mut self, key: &NamespacedName, uid: &str) -> Vec<Work> {
        let uid = Uid::from(uid);
        self.queues.bury(&uid);
        self.forget_queue(key, &uid)
    }

    fn forget_queue(&mut self, key: &NamespacedName, uid: &Uid) -> Vec<Work> {
        let stake = self.stake(&key.name);
        if self.queues.forget(key, uid).is_none() {
            return Vec::new();
        }
        let mut work = self.place(&key.name);
        work.extend(self.restake(&key.name, stake));
        work.extend([Work::StandardQueues, Work::Commands(key.name.to_string())]);
        work
    }

    /// Right after a whole report of the watch: forgets queues that it did not name.
    pub fn forget_unseen_queues(&mut self) -> Vec<Work> {
        let unseen = self.queues.take_unseen();
        unseen
            .iter()
            .flat_map(|(key, uid)| self.forget_queue(key, uid))
            .collect()
    }

    /// Enters what is known of a queue into the tree.
    fn place(&mut self, name: &str) -> Vec<Work> {
        let queue = self.queues.get(&NamespacedName::of_cluster(name));
        let settled = self.is_settled(name);
        let touched = self.tree.set(name, queue.map(|queue| (queue, settled)));
        let mut work: Vec<Work> = touched.into_iter().map(Work::Queue).collect();
        if self.commands_of.count(name) > 0 {
            work.push(Work::Commands(name.to_owned()));
        }
        // What its children ask for is held against the cluster.
        work.push(Work::Queue(names::ROOT_QUEUE.to_owned()));
        work
    }

    /// Closed, as it is written, and empty.
    fn is_settled(&self, name: &str) -> bool {
        let state = self.queue(name).and_then(|queue| queue.status.as_ref()?.state);
        state == Some(QueueState::Closed) && self.tallies.of(name).is_idle()
    }

    /// The tally of a queue changed; returns the queue above it if that is concerned.
    pub(super) fn settle(&mut self, name: &str) -> Option<String> {
        let settled = self.is_settled(name);
        self.tree
            .settle(name, settled)
            .then(|| self.queue(name)?.parent().map(str::to_owned))
            .flatten()
    }

    /// Takes in a node.
    pub fn upsert_node(&mut self, node: &Node) -> Vec<Work> {
        let changed = self.nodes.set(&node.name_any(), Some(node));
        self.of_cluster(changed, &node.name_any(), Some(node))
    }

    /// A node is gone.
    pub fn remove_node(&mut self, name: &str) -> Vec<Work> {
        let changed = self.nodes.set(name, None);
        self.of_cluster(changed, name, None)
    }

    fn of_cluster(&mut self, changed: bool, name: &str, node: Option<&Node>) -> Vec<Work> {
        let root = changed.then(|| Work::Queue(names::ROOT_QUEUE.to_owned()));
        let locks = self.reserving.set_node(name, node);
        root.into_iter().chain(locks).collect()
    }

    pub(super) fn queue(&self, name: &str) -> Option<&Queue> {
        self.queues.get(&NamespacedName::of_cluster(name))
    }

    /// Whether a queue of that name exists.
    pub fn has_queue(&self, name: &str) -> bool {
        self.queue(name).is_some()
    }

    /// Whether the state of a queue is not the one that is written, or its end has begun.
    pub(super) fn is_urgent(&self, name: &str) -> bool {
        let Some(view) = self.queue_view(name) else {
            return false;
        };
        let written = view.queue.status.as_ref().and_then(|status| status.state);
        let (locked, decided) = (written_nodes(view.queue), view.reservation);
        let locked = decided.is_none_or(|decision| locked == decision.nodes());
        written != Some(view.state()) || view.remains.is_some() || !locked
    }

    /// What the queue controller looks at.
    pub fn queue_view(&self, name: &str) -> Option<QueueView<'_>> {
        let queue = self.queue(name)?;
        let name = queue.metadata.name.as_deref()?;
        let (children, unsettled) = self.tree.counts(name);
        let root = name == names::ROOT_QUEUE;
        let total = self.nodes.total().filter(|_| root);
        Some(QueueView {
            queue,
            tally: self.tallies.of(name),
            closed_by: self.tree.closed_by(name),
            children,
            unsettled,
            damage: self.tree.damage(name),
            overcommit: self.tree.overcommit(name),
            shortage: total.and_then(|total| self.tree.excess_over(name, total)),
            reservation: self.reserving.decision(name),
            remains: self
                .queues
                .is_ending(&NamespacedName::of_cluster(name))
                .then(|| self.remains(name)),
        })
    }

    fn remains(&self, name: &str) -> Remains<'_> {
        let children = self.tree.children(name).filter_map(|child| self.queue(child));
        let jobs = self.jobs_of_queue.of(name).filter_map(|key| self.jobs.get(key));
        let groups = self.groups_of_queue.of(name).filter_map(|key| self.groups.get(key));
        Remains {
            children: children
                .map(|child| (child, self.is_settled(&child.name_any())))
                .collect(),
            jobs: jobs.take(REMAINS_MAX).collect(),
            groups: groups.take(REMAINS_MAX).collect(),
        }
    }

    /// What the commands to a queue are decided from.
    pub fn commands_view(&self, name: &str) -> CommandsView<'_> {
        CommandsView {
            queue: self.queue(name),
            commands: self.commands_to(name),
        }
    }
}
