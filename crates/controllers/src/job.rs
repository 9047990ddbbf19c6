//! Jobs: a PodGroup, pods by index, what plugins and volumes want beside them, and a status that is a function of the
//! observed pods.
//!
//! One call goes through these steps: count the pods ([`census`]), carry out what Commands ([`command`]) and policies
//! ([`policy`], [`act`]) ask for, move through the table of phases ([`phase`]), write the status, then make or remove
//! objects as the phase asks. The status goes first and only onto the version of the Job that was seen: a stale view is
//! refused there and does nothing. All that a later call has to know stands in that one write.

mod act;
mod beside;
mod census;
mod command;
mod group;
mod phase;
pub mod plugins;
mod pod;
mod policy;
mod restart;
mod status;
mod surplus;
mod vacancy;
mod volumes;

use std::collections::BTreeMap;

use basalt_api::job::{JobPhase, JobStatus};
use basalt_api::podgroup::PodGroupPhase;
use basalt_api::{Command, Job, ObjectRef, PodGroup};
use jiff::{SignedDuration, Timestamp};

use crate::change::{Change, EventType, Outcome};
use crate::companion::Companions;
use crate::object;
use crate::pod::PodRecord;
use census::Census;
use phase::Step;
use plugins::Plugins;
use pod::Mould;
use policy::Order;

pub use command::orphaned;

/// What one Job's controller looks at.
#[derive(Clone, Debug)]
pub struct JobView<'a> {
    /// The Job.
    pub job: &'a Job,
    /// The PodGroup named [`basalt_api::names::job_pod_group`], if there is one.
    pub pod_group: Option<&'a PodGroup>,
    /// The pods that the Job controls, by uid. Other pods that hold one of its names (of an earlier Job
    /// of that name, say) may be among them: then nothing is tried until they are gone.
    pub pods: Vec<&'a PodRecord>,
    /// Pods of the Job that vanished, and of which it has not taken note yet.
    pub lost: Vec<&'a PodRecord>,
    /// Nothing was written to the Job's status since the start: pods may have vanished before.
    pub unconfirmed: bool,
    /// The Commands to the Job, in any order.
    pub commands: Vec<&'a Command>,
    /// What is beside the pods; without it, everything that is named is taken to exist.
    pub beside: Option<&'a Companions>,
    /// Something beside the pods was taken away.
    pub bereft: bool,
    /// Values of the PriorityClasses.
    pub priorities: &'a BTreeMap<String, i32>,
    /// What secret keys are made from: bytes that nobody can guess.
    pub entropy: [u8; 32],
}

impl<'a> JobView<'a> {
    /// A view of a Job of which nothing is known but its group.
    pub fn of(job: &'a Job, pod_group: Option<&'a PodGroup>, priorities: &'a BTreeMap<String, i32>) -> Self {
        Self {
            job,
            pod_group,
            pods: Vec::new(),
            lost: Vec::new(),
            unconfirmed: false,
            commands: Vec::new(),
            beside: None,
            bereft: false,
            priorities,
            entropy: [0; 32],
        }
    }
}

/// Brings pods, PodGroup, companions and status of a Job closer to what it asks for.
pub fn reconcile(view: &JobView<'_>, now: Timestamp) -> Outcome {
    let mut outcome = Outcome::default();
    let job = view.job;
    let (Some(_), Some(uid)) = (ObjectRef::of(job), object::uid(job)) else {
        return outcome;
    };
    let commands = command::heard(Some(job), &view.commands, now, &mut outcome);
    // Whoever deletes a Job wants nothing more of it; what it owns goes with it.
    if job.metadata.deletion_timestamp.is_some() {
        return outcome;
    }
    let said = command::unheard(job, &commands);
    let mut turn = Turn::take(view, uid, &said, now);
    // A policy for updates has its turn when the update is done.
    if let Some(order) = turn.is_done().then(|| update(view)).flatten() {
        let furnished = turn.furnished;
        turn = Turn::take(view, uid, &[order], now);
        // Of a job that rests, what stands beside the pods follows when it goes on.
        if furnished || turn.furnished {
            turn.status.observed_generation = job.metadata.generation;
        }
    }
    if !said.is_empty() {
        turn.status.applied_commands = commands
            .iter()
            .filter_map(|(command, _)| object::uid(*command))
            .map(str::to_owned)
            .collect();
    }
    outcome.changes.extend(status::write(job, &turn.status));
    outcome.changes.extend(turn.outcome.changes);
    if let Some(at) = turn.outcome.wake_at {
        outcome.wake(at);
    }
    outcome
        .changes
        .extend(commands.iter().filter_map(|(command, _)| object::delete(*command)));
    outcome
}

/// Whether a pod that is gone was taken from the Job, and the Job wants to know.
pub(crate) fn is_loss(job: &Job, pod: &PodRecord) -> bool {
    let minds = runs(job.phase()) && policy::minds_losses(job);
    minds
        && match &job.status {
            Some(status) => census::lost_place(job, status, pod).is_some(),
            None => false,
        }
}

/// The order that a user's policy has for a change of the spec that has not been answered.
fn update(view: &JobView<'_>) -> Option<Order> {
    is_updated(view.job).then(|| policy::on_update(view.job)).flatten()
}

fn is_updated(job: &Job) -> bool {
    let seen = job.status.as_ref().and_then(|status| status.observed_generation);
    matches!((seen, job.metadata.generation), (Some(seen), Some(now)) if now > seen)
}

/// One look at a Job: the status that it leads to, and all that follows from it.
struct Turn {
    status: JobStatus,
    outcome: Outcome,
    /// What must be beside the pods is there, and as this generation of the spec has it.
    furnished: bool,
}

impl Turn {
    /// Carries out `said`, or else what policies ask for; then what the phase asks for.
    fn take(view: &JobView<'_>, uid: &str, said: &[Order], now: Timestamp) -> Self {
        let job = view.job;
        let mut turn = Self {
            status: job.status.clone().unwrap_or_default(),
            outcome: Outcome::default(),
            furnished: true,
        };
        if turn.status.state.phase.is_none() {
            status::enter(job, &mut turn.status, Step::to(JobPhase::Pending), now);
        }
        let mut census = Census::of(job, uid, &turn.status, &view.pods);
        vacancy::note(view, &census, &mut turn.status, now);
        policy::note_failing(job, &census, &mut turn.status, now);
        let version = turn.status.version;
        if turn.act(view, &census, said, now) {
            vacancy::settle(job, &mut turn.status, version);
            census = Census::of(job, uid, &turn.status, &view.pods);
        } else {
            turn.forget_restarts(view, &census);
        }
        status::advance(job, &census, &mut turn.status, now);
        surplus::note(job, &census, &mut turn.status);
        let phase = turn.status.state.phase.unwrap_or_default();
        if runs(phase) {
            turn.keep(view, uid, &census, now);
        } else {
            turn.stop(view, &census);
        }
        if phase.is_finished() {
            turn.expire(job, now);
        }
        turn.note_update(job);
        turn
    }

    /// A change of the spec is noted when what stands beside the pods follows it; who has a policy for it is told in time.
    fn note_update(&mut self, job: &Job) {
        let updated = is_updated(job);
        if !self.furnished || (updated && policy::on_update(job).is_some()) {
            return;
        }
        self.status.observed_generation = job.metadata.generation;
        if updated {
            let message = "Start to execute action UpdateJob: JobUpdated".to_owned();
            let event = beside::say(job, "ExecuteAction", message, EventType::Normal);
            self.outcome.changes.extend(event);
        }
    }

    /// Whether nothing is left to do but to tell people and to write the status.
    fn is_done(&self) -> bool {
        self.outcome.changes.iter().all(is_word)
    }

    /// Carries out orders; says whether that changed anything.
    fn act(&mut self, view: &JobView<'_>, census: &Census<'_>, said: &[Order], now: Timestamp) -> bool {
        let group = view.pod_group.and_then(object::uid);
        let mut acted = Vec::new();
        for order in said {
            let order = std::slice::from_ref(order);
            acted.extend(act::act(view.job, group, &mut self.status, order, now));
        }
        let due = if said.is_empty() && runs(self.status.state.phase.unwrap_or_default()) {
            policy::due(view, &self.status, census, now)
        } else {
            policy::Due::default()
        };
        if let Some(at) = due.wake {
            self.outcome.wake(at);
        }
        acted.extend(act::act(view.job, group, &mut self.status, &due.orders, now));
        if let Some((first, rest)) = acted.split_first() {
            let more = if rest.is_empty() {
                String::new()
            } else {
                format!(" (and {} more)", rest.len())
            };
            let message = format!("Start to execute action {}: {}{more}", first.action, first.message);
            let event = beside::say(view.job, "ExecuteAction", message, EventType::Normal);
            self.outcome.changes.extend(event);
        }
        !acted.is_empty()
    }

    /// A restart is over when what it was to take away is gone. It is written at least once: that is how everybody learns
    /// that a pod which vanished has had its answer.
    fn forget_restarts(&mut self, view: &JobView<'_>, census: &Census<'_>) {
        let group = view.pod_group.and_then(object::uid).unwrap_or_default();
        self.status.restarts.retain(|restart| {
            let waits = census
                .outdated
                .iter()
                .any(|(place, pod)| restart::goes(restart, *place, pod));
            waits || (!restart.pod_group.is_empty() && restart.pod_group == group)
        });
    }

    /// Keeps everything that a Job at work has.
    fn keep(&mut self, view: &JobView<'_>, uid: &str, census: &Census<'_>, now: Timestamp) {
        let job = view.job;
        let outdated = census.outdated.iter().filter_map(|(_, pod)| pod.delete());
        self.outcome.changes.extend(outdated);
        match Plugins::of(job) {
            Ok(plugins) => {
                beside::note(job, &plugins, &mut self.status);
                let mut beside = Outcome::default();
                let free = beside::keep(view, &plugins, &mut beside);
                // What is only told of will not change by another look.
                self.furnished = free && beside.changes.iter().all(is_word);
                self.outcome.changes.append(&mut beside.changes);
                let group = free.then(|| group::keep(view, uid, &self.status, census));
                self.outcome.changes.extend(group.into_iter().flatten());
                // First what goes: a pod that is refused holds up all that comes after it.
                self.remove_surplus(census);
                if free {
                    self.make_pods(view, &plugins, census, now);
                }
            }
            Err(error) => {
                let event = beside::warn(job, "PluginError", error.to_string());
                self.outcome.changes.extend(event);
                self.furnished = false;
                self.remove_surplus(census);
            }
        }
    }

    fn remove_surplus(&mut self, census: &Census<'_>) {
        let surplus = census.surplus.iter().filter_map(|pod| pod.delete());
        self.outcome.changes.extend(surplus);
    }

    /// Makes the missing pods once the group is let in.
    fn make_pods(&mut self, view: &JobView<'_>, plugins: &Plugins, census: &Census<'_>, now: Timestamp) {
        let job = view.job;
        let let_in = |group: &PodGroup| is_let_in(group) && !group::is_replaced(group, &self.status);
        if !view.pod_group.is_some_and(let_in) {
            return;
        }
        let mut made = Vec::new();
        for (task, counted) in job.spec.tasks.iter().zip(&census.tasks) {
            if !census.may_start(job, task) {
                continue;
            }
            let room = CREATES_MAX.saturating_sub(made.len());
            let mould = Mould {
                job,
                status: &self.status,
                plugins,
            };
            let missing = counted.missing(task, census, job).take(room);
            made.extend(pod::create_all(mould, task, missing));
        }
        if made.len() >= CREATES_MAX {
            self.outcome.wake(now);
        }
        self.outcome.changes.extend(made);
        self.outcome.changes.extend(blocked(job, census));
    }

    /// Removes the pods that still live, keeps those that ended, and lets go of the group after them,
    /// so that what they hold is accounted for until it is free.
    fn stop(&mut self, view: &JobView<'_>, census: &Census<'_>) {
        // Nothing beside the pods was looked at; who has finished will not need it.
        self.furnished = self.status.state.phase.is_some_and(JobPhase::is_finished);
        let living: Vec<&PodRecord> = census.own().filter(|pod| !pod.is_finished()).collect();
        let changes = &mut self.outcome.changes;
        changes.extend(living.iter().filter_map(|pod| pod.delete()));
        if living.is_empty() {
            changes.extend(view.pod_group.and_then(object::delete));
        }
    }

    /// Deletes a finished Job when its time is over, or asks to be called then.
    fn expire(&mut self, job: &Job, now: Timestamp) {
        let finished = self.status.state.last_transition_time.as_ref().map(|time| time.0);
        let (Some(ttl), Some(finished)) = (job.spec.ttl_seconds_after_finished, finished) else {
            return;
        };
        let end = finished
            .saturating_add(SignedDuration::from_secs(i64::from(ttl.max(0))))
            .unwrap_or(Timestamp::MAX);
        if now < end {
            self.outcome.wake(end);
        } else {
            self.outcome.changes.extend(object::delete(job));
        }
    }
}

/// Whether a Job in this phase has pods made; in all others it only loses them.
const fn runs(phase: JobPhase) -> bool {
    matches!(phase, JobPhase::Pending | JobPhase::Running | JobPhase::Restarting)
}

/// Whether a change only tells people something.
const fn is_word(change: &Change) -> bool {
    matches!(change, Change::Event { .. })
}

/// Pods that one call makes at most; the next call goes on.
pub(crate) const CREATES_MAX: usize = 20_000;

/// Tells people that pods of others stand in the way.
fn blocked(job: &Job, census: &Census<'_>) -> Option<Change> {
    let blocked = census.blocked(job);
    let (first, rest) = blocked.split_first()?;
    let more = match rest.len() {
        0 => String::new(),
        more => format!(" (and {more} more)"),
    };
    let message = format!("Pod {first}{more} cannot be made: a pod that is not of this job has that name, delete it");
    beside::warn(job, "FailedCreate", message)
}

/// The scheduler lets a group in by taking it out of Pending.
pub(crate) fn is_let_in(group: &PodGroup) -> bool {
    let phase = group.status.as_ref().and_then(|status| status.phase);
    group.metadata.deletion_timestamp.is_none() && phase.is_some_and(|phase| phase != PodGroupPhase::Pending)
}
