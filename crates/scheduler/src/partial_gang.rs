//! Gangs of which only a part is bound.
//!
//! A gang can be bound in part when its binds are single requests of which some fail, when answers are lost, or when a
//! node vanishes. The engine keeps placing what is missing, so that such a gang is soon *whole*; if it is not within the
//! grace, it is *released*: the bound pods are deleted, so that no part of a gang holds room that it cannot use.
//!
//! Only a gang that has not started is released: one that was whole, and lost pods while others of it run, is left to
//! the policies of its Job, whatever phase its group shows in between. Time runs only while no bind of the gang is in
//! flight, but a bind of unknown outcome does not postpone the release for ever: its pod is deleted with the others,
//! which settles the matter. A pod that is leaving postpones it too, because its successor cannot exist before it is gone.
//!
//! Pods that came with a node of their own, by their template or by another scheduler, are never deleted: they would only
//! come again.
//!
//! Groups are examined when something happened to their pods, so that the cost depends on the changes alone.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use basalt_engine::facts::Phase;
use basalt_engine::plan::{Plan, split_key};
use basalt_engine::{Conf, Engine, PodGroupView, PodView};
use jiff::{SignedDuration, Timestamp};
use rustc_hash::{FxHashMap, FxHashSet};

/// When a gang whose time is over is examined again, while binds may be on their way to the watch.
const RECHECK_AFTER: SignedDuration = SignedDuration::from_millis(100);
/// How long after the grace binds of unknown outcome are waited for.
const ANSWER_TIMEOUT: SignedDuration = SignedDuration::from_secs(10);
/// How long after the grace pods that are leaving are waited for: as long as they have by default to end.
const LEAVING_TIMEOUT: SignedDuration = SignedDuration::from_secs(30);
/// A release that did not come about is tried again after the grace, but not sooner than this.
const RETRY_RELEASE_MIN: SignedDuration = SignedDuration::from_secs(1);

/// A pod of a gang that is released: `namespace/name` and uid.
pub(crate) type GangMember = (Arc<str>, Arc<str>);

/// A gang whose time is over.
#[derive(Debug)]
pub(crate) struct ReleasedGang {
    pub(crate) pod_group: Arc<str>,
    pub(crate) uid: Arc<str>,
    /// The pods that have to go.
    pub(crate) members: Vec<GangMember>,
}

/// The gangs of which only a part is bound, and how long each may take to become whole.
#[derive(Debug)]
pub(crate) struct PartialGangs {
    grace: SignedDuration,
    /// Whether the configuration promises that gangs start whole.
    is_enabled: bool,
    /// Whether all groups were examined once. Before that nothing is collected: a scheduler may stand by for weeks.
    has_surveyed: bool,
    gangs: BTreeMap<Arc<str>, PartialGang>,
    /// Groups to examine: something happened to their pods.
    suspects: FxHashSet<Arc<str>>,
    /// Bind commands without an answer, by group.
    in_flight: FxHashMap<Arc<str>, usize>,
    /// Groups with failed binds of which nothing is known to be bound yet.
    with_failed_binds: FxHashSet<Arc<str>>,
    /// Uids of pods that had a node when they were first seen: this scheduler did not bind them.
    bound_by_others: FxHashSet<Arc<str>>,
    completed: usize,
}

#[derive(Debug)]
struct PartialGang {
    uid: Arc<str>,
    /// When it is released; none while binds are in flight.
    deadline: Option<Timestamp>,
    /// Until then binds of unknown outcome may postpone the release.
    answer_deadline: Timestamp,
    /// Until then pods that are leaving may postpone the release.
    leaving_deadline: Timestamp,
    /// Whether a bind failed; a gang that is merely bound pod by pod is nothing to report.
    has_failed_binds: bool,
}

impl PartialGang {
    fn new(uid: &Arc<str>) -> Self {
        Self {
            uid: Arc::clone(uid),
            deadline: None,
            answer_deadline: Timestamp::MAX,
            leaving_deadline: Timestamp::MAX,
            has_failed_binds: false,
        }
    }

    fn set_deadline(&mut self, grace: SignedDuration, now: Timestamp) {
        let deadline = now.saturating_add(grace).unwrap_or(Timestamp::MAX);
        self.answer_deadline = deadline.saturating_add(ANSWER_TIMEOUT).unwrap_or(Timestamp::MAX);
        self.leaving_deadline = deadline.saturating_add(LEAVING_TIMEOUT).unwrap_or(Timestamp::MAX);
        self.deadline = Some(deadline);
    }

    /// Whether the gang may become whole by itself, so that its release can wait a little. A bind that was answered well
    /// counts for as long as the engine believes in it: the watch may be late. Only after a failed bind there may be one
    /// that never turns up.
    fn may_complete(&self, group: PodGroupView<'_>, now: Timestamp) -> bool {
        let has_assumed = group.assumed_pod_count() > 0;
        let has_leaving = group.leaving_pod_count() > 0;
        has_assumed && (!self.has_failed_binds || now < self.answer_deadline)
            || has_leaving && now < self.leaving_deadline
    }
}

impl PartialGangs {
    pub(crate) fn new(grace: Duration, conf: &Conf) -> Self {
        let mut gangs = Self {
            grace: SignedDuration::try_from(grace).unwrap_or(SignedDuration::MAX),
            is_enabled: true,
            has_surveyed: false,
            gangs: BTreeMap::new(),
            suspects: FxHashSet::default(),
            in_flight: FxHashMap::default(),
            with_failed_binds: FxHashSet::default(),
            bound_by_others: FxHashSet::default(),
            completed: 0,
        };
        gangs.configure(conf);
        gangs
    }

    /// Adopts a configuration: without the gang plugin, parts of gangs may be bound.
    pub(crate) fn configure(&mut self, conf: &Conf) {
        let mut plugins = conf.tiers.iter().flatten();
        self.is_enabled = plugins.any(|plugin| plugin.name == "gang" && plugin.is_on("enableJobReady"));
        if !self.is_enabled {
            self.gangs.clear();
            self.suspects.clear();
        }
    }

    /// Takes note of a pod that had a node when it was first seen. Before all groups were examined once, it may be a
    /// pod that an earlier scheduler bound.
    pub(crate) fn pod_came_bound(&mut self, pod: PodView<'_>) {
        if self.is_enabled && self.has_surveyed && pod.group().is_some() {
            self.bound_by_others.insert(Arc::clone(pod.uid()));
        }
    }

    /// Forgets a pod that is gone.
    pub(crate) fn pod_deleted(&mut self, uid: &str) {
        self.bound_by_others.remove(uid);
    }

    /// Has the group of a pod examined.
    pub(crate) fn suspect(&mut self, pod: PodView<'_>) {
        let Some(group) = pod.group().filter(|_| self.is_enabled && self.has_surveyed) else {
            return;
        };
        let has_started = matches!(group.announced_phase(), Phase::Running | Phase::Completed);
        if !has_started || self.gangs.contains_key(group.key()) {
            self.suspects.insert(Arc::clone(group.key()));
        }
    }

    /// Has a group examined if it is known to be partial: its object changed.
    pub(crate) fn pod_group_changed(&mut self, key: &str) {
        if let Some((key, _)) = self.gangs.get_key_value(key) {
            self.suspects.insert(Arc::clone(key));
        }
    }

    /// Takes note of a bind command.
    pub(crate) fn binds_started(&mut self, pod_group: &Arc<str>) {
        *self.in_flight.entry(Arc::clone(pod_group)).or_default() += 1;
    }

    /// Takes note of the answer to a bind command.
    pub(crate) fn binds_answered(&mut self, pod_group: &Arc<str>, uid: &Arc<str>, have_failed: bool) {
        if let Some(count) = self.in_flight.get_mut(pod_group) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.in_flight.remove(pod_group);
            }
        }
        if !self.is_enabled {
            return;
        }
        self.suspects.insert(Arc::clone(pod_group));
        if have_failed {
            match self.gangs.get_mut(pod_group).filter(|gang| gang.uid == *uid) {
                Some(gang) => gang.has_failed_binds = true,
                None => drop(self.with_failed_binds.insert(Arc::clone(pod_group))),
            }
        }
    }

    /// Has the groups examined whose phase a plan takes back.
    pub(crate) fn observe_plan(&mut self, plan: &Plan) {
        let has_fallen = |phase: Phase| matches!(phase, Phase::Pending | Phase::Inqueue | Phase::Unknown);
        for transaction in plan.transactions.iter().filter(|_| self.is_enabled) {
            if transaction.phase.is_some_and(has_fallen) {
                self.suspects.insert(Arc::clone(&transaction.pod_group));
            }
        }
    }

    /// Examines all groups, the first time: an earlier scheduler may have left parts of gangs behind. After that,
    /// examines those to whose pods something happened. `was_scheduled` says whether the minimum of a group was placed at
    /// some time.
    pub(crate) fn examine_groups(&mut self, engine: &Engine, was_scheduled: impl Fn(&str) -> bool, now: Timestamp) {
        if self.has_surveyed || !self.is_enabled {
            self.examine_suspects(engine, was_scheduled, now);
            return;
        }
        self.has_surveyed = true;
        for group in engine.groups() {
            self.examine(group, &was_scheduled, now);
        }
    }

    /// Examines the groups to whose pods something happened.
    fn examine_suspects(&mut self, engine: &Engine, was_scheduled: impl Fn(&str) -> bool, now: Timestamp) {
        // Taken, not drained: the groups are examined again after the engine has decided.
        let suspects = std::mem::take(&mut self.suspects);
        for key in &suspects {
            if let Some(group) = engine.group(key) {
                self.examine(group, &was_scheduled, now);
            } else {
                self.gangs.remove(key);
                self.with_failed_binds.remove(key);
            }
        }
        self.suspects = suspects;
    }

    /// Ends a round of examinations.
    pub(crate) fn clear_suspects(&mut self) {
        self.suspects.clear();
    }

    fn examine(&mut self, group: PodGroupView<'_>, was_scheduled: &impl Fn(&str) -> bool, now: Timestamp) {
        let key = group.key();
        if !group.is_declared() || !self.has_own_pods(group) {
            self.forget_unless_assumed(group);
            return;
        }
        if self.gangs.get(key).is_some_and(|gang| gang.uid != *group.uid()) {
            self.gangs.remove(key);
        }
        if group.is_gang_on_existing_nodes() {
            let completed = self.gangs.remove(key);
            self.with_failed_binds.remove(key);
            self.completed += usize::from(completed.is_some_and(|gang| gang.has_failed_binds));
            return;
        }
        // A gang that runs can show an earlier phase for a moment: while a successor of a lost pod is placed, or after a
        // refused eviction. Only its pods tell that it has started.
        let has_started = match group.announced_phase() {
            Phase::Pending | Phase::Inqueue => group.started_pod_count() > 0 && was_scheduled(key),
            Phase::Unknown => was_scheduled(key),
            Phase::Running | Phase::Completed => true,
        };
        let has_failed_binds = self.with_failed_binds.remove(key);
        if has_started && !self.gangs.contains_key(key) {
            return;
        }
        let is_in_flight = self.in_flight.contains_key(key);
        let gang = self
            .gangs
            .entry(Arc::clone(key))
            .or_insert_with(|| PartialGang::new(group.uid()));
        gang.has_failed_binds |= has_failed_binds;
        if is_in_flight {
            gang.deadline = None;
        } else if gang.deadline.is_none() {
            gang.set_deadline(self.grace, now);
        }
    }

    /// Whether a pod is bound that may be deleted again.
    fn has_own_pods(&self, group: PodGroupView<'_>) -> bool {
        let is_own = |pod: PodView<'_>| !self.bound_by_others.contains(pod.uid());
        group.placed_pod_count() > 0 && (self.bound_by_others.is_empty() || group.placed_pods().any(is_own))
    }

    /// Forgets a gang of which nothing is bound; binds of unknown outcome may still turn up.
    fn forget_unless_assumed(&mut self, group: PodGroupView<'_>) {
        let is_same = self.gangs.get(group.key()).is_some_and(|gang| gang.uid == *group.uid());
        if group.assumed_pod_count() == 0 {
            self.with_failed_binds.remove(group.key());
        }
        if !is_same || group.assumed_pod_count() == 0 {
            self.gangs.remove(group.key());
        } else if let Some(gang) = self.gangs.get_mut(group.key()) {
            gang.deadline = None;
        }
    }

    /// Returns how many gangs with failed binds became whole since the last call.
    pub(crate) fn take_completed(&mut self) -> usize {
        std::mem::take(&mut self.completed)
    }

    /// Returns when something has to be done by time alone.
    pub(crate) fn next_due(&self) -> Option<Timestamp> {
        if self.suspects.is_empty() {
            self.gangs.values().filter_map(|gang| gang.deadline).min()
        } else {
            Some(Timestamp::MIN)
        }
    }

    /// Returns the gangs whose time is over. They are kept until their pods are seen to go: a deletion may fail.
    pub(crate) fn release_due(&mut self, engine: &Engine, now: Timestamp) -> Vec<ReleasedGang> {
        let mut released = Vec::new();
        let retry_after = self.grace.max(RETRY_RELEASE_MIN);
        let is_due = |gang: &PartialGang| gang.deadline.is_some_and(|deadline| deadline <= now);
        let mut resolved = Vec::new();
        for (key, gang) in self.gangs.iter_mut().filter(|(_, gang)| is_due(gang)) {
            let group = engine.group(key).filter(|group| *group.uid() == gang.uid);
            let Some(group) = group.filter(|group| !group.is_gang_on_existing_nodes()) else {
                resolved.push(Arc::clone(key));
                continue;
            };
            if gang.may_complete(group, now) {
                gang.deadline = now.saturating_add(RECHECK_AFTER).ok();
                continue;
            }
            if group.placed_pod_count() == 0 {
                gang.deadline = None;
                if group.assumed_pod_count() == 0 {
                    resolved.push(Arc::clone(key));
                }
                continue;
            }
            gang.set_deadline(retry_after, now);
            released.push(ReleasedGang {
                pod_group: Arc::clone(key),
                uid: Arc::clone(&gang.uid),
                members: members(group, &self.bound_by_others),
            });
        }
        // What is whole or gone meanwhile is examined once more, which also counts it.
        self.suspects.extend(resolved);
        released
    }
}

/// Returns the pods of a gang that this scheduler has bound, or may have, by name.
fn members(group: PodGroupView<'_>, bound_by_others: &FxHashSet<Arc<str>>) -> Vec<GangMember> {
    let pods = group.placed_pods().chain(group.assumed_pods());
    let pods = pods.filter(|pod| !bound_by_others.contains(pod.uid()));
    let mut members: Vec<GangMember> = pods.map(|pod| (Arc::clone(pod.key()), Arc::clone(pod.uid()))).collect();
    members.sort_by(|a, b| split_key(&a.0).cmp(&split_key(&b.0)));
    members
}

#[cfg(test)]
mod tests;
