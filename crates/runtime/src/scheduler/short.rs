//! Gangs that came out short: where binds are single requests, some may succeed and others fail.
//!
//! Such a gang is *short*. The engine goes on placing what is missing, so it is soon *whole*; if it is not within the
//! grace, it is *released*: what was bound is deleted again, so that no part of a gang holds room that it cannot use.
//! Only pods of the transactions that left it short are deleted, never one that ran before them.
//! A bind whose outcome is unknown keeps nobody waiting for ever: its pod goes with the others, which settles the matter.
//! A gang that ends meanwhile is *gone*, and nobody's business any more.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use basalt_engine::Engine;
use basalt_engine::facts::Phase;
use basalt_engine::ledger::Status;
use basalt_engine::model::TaskId;
use basalt_engine::plan::{Transaction, split_key};
use jiff::{SignedDuration, Timestamp};

/// When a gang whose time is over is looked at again, while binds are under way.
const AGAIN: SignedDuration = SignedDuration::from_millis(100);
/// Binds that are under way at the end of the grace are waited for, but no longer than a server has to answer.
const ANSWERED: SignedDuration = SignedDuration::from_secs(10);
/// A release that did not come about is tried again after the grace, but not sooner than this.
const RELEASE_AGAIN: SignedDuration = SignedDuration::from_secs(1);

/// How a short gang stands.
#[derive(Debug, PartialEq, Eq)]
enum Standing {
    /// Not enough pods are placed.
    Short,
    /// The same, but binds are under way that may change it.
    Completing,
    /// Enough pods are placed.
    Whole,
    /// Nothing of it is placed: it waits as a whole.
    Waiting,
    /// The group is gone.
    Gone,
}

/// A pod of a gang that is released: `namespace/name` and uid.
pub(super) type Member = (Arc<str>, Arc<str>);

/// What is to be done now.
#[derive(Debug, Default)]
pub(super) struct Verdicts {
    /// Gangs that became whole.
    pub(super) completed: usize,
    /// Gangs whose time is over, each with its uid and the pods that have to go.
    pub(super) released: Vec<(Arc<str>, Arc<str>, Vec<Member>)>,
}

/// The short gangs, and until when each may become whole.
#[derive(Debug)]
pub(super) struct ShortGangs {
    grace: Duration,
    gangs: BTreeMap<Arc<str>, Gang>,
}

/// One short gang.
#[derive(Debug)]
struct Gang {
    uid: Arc<str>,
    /// When it is looked at next; none while nothing of it is placed.
    deadline: Option<Timestamp>,
    /// Until then binds that are under way may postpone that.
    last: Timestamp,
    /// Uids of the pods that may be deleted.
    pods: BTreeSet<Arc<str>>,
}

impl ShortGangs {
    pub(super) fn new(grace: Duration) -> Self {
        Self {
            grace,
            gangs: BTreeMap::new(),
        }
    }

    fn grace(&self) -> SignedDuration {
        SignedDuration::try_from(self.grace).unwrap_or(SignedDuration::MAX)
    }

    /// Binds of `pods` of this gang left it short, or may have.
    pub(super) fn note<'p>(
        &mut self,
        group: &Arc<str>,
        uid: &Arc<str>,
        pods: impl Iterator<Item = &'p Arc<str>>,
        now: Timestamp,
    ) {
        let grace = self.grace();
        let fresh = || Gang {
            uid: Arc::clone(uid),
            deadline: None,
            last: now,
            pods: BTreeSet::new(),
        };
        let gang = self.gangs.entry(Arc::clone(group)).or_insert_with(fresh);
        if gang.uid != *uid {
            *gang = fresh();
        }
        if gang.deadline.is_none() {
            gang.give(grace, now);
        }
        gang.pods.extend(pods.cloned());
    }

    /// `pods` were bound to complete this gang: if it is short, they stay or go with the others.
    pub(super) fn join<'p>(&mut self, group: &str, uid: &Arc<str>, pods: impl Iterator<Item = &'p Arc<str>>) {
        if let Some(gang) = self.gangs.get_mut(group).filter(|gang| gang.uid == *uid) {
            gang.pods.extend(pods.cloned());
        }
    }

    /// Whether a group was whole before this transaction: such a one is not short of what it needs to begin.
    pub(super) fn was_whole(&self, engine: &Engine, transaction: &Transaction) -> bool {
        let (model, group) = (&engine.state().model, &transaction.pod_group);
        let Some(job) = model.jobs.find(group) else {
            return false;
        };
        let is_short = self.gangs.get(group).is_some_and(|gang| gang.uid == transaction.uid);
        let ran = |phase: Phase| matches!(phase, Phase::Running | Phase::Unknown);
        // What the transaction itself announces is not from before.
        !is_short
            && (ran(model.jobs[job].seen_phase) || (transaction.phase.is_none() && ran(model.jobs[job].announced)))
    }

    /// At the start: gangs that an earlier run left short. One of which pods run, and that was scheduled once, as
    /// `was_scheduled` says, was whole then and is left alone.
    pub(super) fn survey(&mut self, engine: &Engine, was_scheduled: impl Fn(&str) -> bool, now: Timestamp) {
        let model = &engine.state().model;
        for job in model.jobs.ids() {
            let (record, name) = (&model.jobs[job], model.jobs.name(job));
            let never_whole = match record.seen_phase {
                Phase::Pending | Phase::Inqueue => true,
                Phase::Unknown => !was_scheduled(name),
                Phase::Running | Phase::Completed => false,
            };
            if !never_whole || !record.present {
                continue;
            }
            let placed = pods(engine, name, is_placed);
            if standing(engine, name, &record.uid, &placed) == Standing::Short {
                self.note(name, &record.uid, placed.iter().map(|(_, uid)| uid), now);
            }
        }
    }

    /// When the next gang's time is over.
    pub(super) fn next_deadline(&self) -> Option<Timestamp> {
        self.gangs.values().filter_map(|gang| gang.deadline).min()
    }

    /// Looks at all of them.
    pub(super) fn judge(&mut self, engine: &Engine, now: Timestamp) -> Verdicts {
        let mut verdicts = Verdicts::default();
        let again = self.grace().max(RELEASE_AGAIN);
        self.gangs.retain(|group, gang| {
            let ours = |engine: &Engine, is: fn(&Engine, TaskId) -> bool| {
                let mut members = pods(engine, group, is);
                members.retain(|(_, uid)| gang.pods.contains(uid));
                members
            };
            let mut placed = ours(engine, is_placed);
            let is_due = gang.deadline.is_some_and(|deadline| deadline <= now);
            match standing(engine, group, &gang.uid, &placed) {
                Standing::Gone => return false,
                Standing::Whole => {
                    // One that was released and began anew was not completed.
                    verdicts.completed += usize::from(gang.deadline.is_some());
                    return false;
                }
                // What is known of it is kept: a later bind may leave it short again.
                Standing::Waiting => gang.deadline = None,
                Standing::Short | Standing::Completing if !is_due => {}
                Standing::Completing if now < gang.last || placed.is_empty() => {
                    gang.deadline = now.saturating_add(AGAIN).ok();
                }
                // Kept until its pods are seen to go: a delete may fail.
                Standing::Short | Standing::Completing => {
                    placed.extend(ours(engine, is_under_way));
                    gang.give(again, now);
                    let (group, uid) = (Arc::clone(group), Arc::clone(&gang.uid));
                    verdicts.released.push((group, uid, placed));
                }
            }
            true
        });
        verdicts
    }
}

impl Gang {
    /// Gives it some time.
    fn give(&mut self, time: SignedDuration, now: Timestamp) {
        let deadline = now.saturating_add(time).unwrap_or(Timestamp::MAX);
        self.last = deadline.saturating_add(ANSWERED).unwrap_or(Timestamp::MAX);
        self.deadline = Some(deadline);
    }
}

/// How a gang stands of which `placed` may be deleted.
fn standing(engine: &Engine, group: &str, uid: &Arc<str>, placed: &[Member]) -> Standing {
    let state = engine.state();
    let Some(job) = state.model.jobs.find(group) else {
        return Standing::Gone;
    };
    let (record, counts) = (&state.model.jobs[job], state.ledger.counts(job));
    if !record.present || record.uid != *uid {
        return Standing::Gone;
    }
    let role_is_whole = |(role, min): (usize, u32)| state.ledger.role_counts(job, role).scheduled() >= min;
    let roles = record.roles.iter().map(|role| role.min).enumerate();
    let roles_are_whole = !record.roles_count() || roles.filter(|(_, min)| *min > 0).all(role_is_whole);
    if counts.scheduled() >= record.min_member && roles_are_whole {
        Standing::Whole
    } else if counts.of(Status::Allocated) > 0 {
        Standing::Completing
    } else if placed.is_empty() {
        Standing::Waiting
    } else {
        Standing::Short
    }
}

/// The API shows the pod on a node, and it has not ended.
fn is_placed(engine: &Engine, task: TaskId) -> bool {
    matches!(engine.state().ledger.status(task), Status::Bound | Status::Running)
}

/// The pod has a node by our decision, and whether it is bound there is not known yet.
fn is_under_way(engine: &Engine, task: TaskId) -> bool {
    engine.state().ledger.status(task) == Status::Allocated
}

/// The pods of a group that are as `is` says, by name.
fn pods(engine: &Engine, group: &str, is: fn(&Engine, TaskId) -> bool) -> Vec<Member> {
    let model = &engine.state().model;
    let Some(job) = model.jobs.find(group) else {
        return Vec::new();
    };
    let tasks = model.jobs[job].tasks.iter().filter(|&&task| is(engine, task));
    let mut members: Vec<Member> = tasks
        .map(|&task| (Arc::clone(model.tasks.name(task)), Arc::clone(&model.tasks[task].uid)))
        .collect();
    members.sort_by(|a, b| split_key(&a.0).cmp(&split_key(&b.0)));
    members
}

#[cfg(test)]
mod tests {
    use basalt_engine::facts::{Event, PodGroupFacts};

    use super::super::scene;
    use super::*;

    fn pod(index: u32, node: Option<&str>) -> Event {
        Event::Pod(scene::pod(index, node))
    }

    fn group() -> PodGroupFacts {
        scene::group(2)
    }

    fn engine() -> Engine {
        scene::engine(2, &[scene::pod(0, Some("n")), scene::pod(1, None)])
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("a small time")
    }

    #[test]
    fn a_short_gang_is_completed_or_released() {
        let mut engine = engine();
        let mut short = ShortGangs::new(Duration::from_secs(10));
        short.survey(&engine, |_| false, at(0));
        assert_eq!(short.next_deadline(), Some(at(10)));
        assert!(short.judge(&engine, at(9)).released.is_empty());
        let released = short.judge(&engine, at(10)).released;
        assert_eq!(released.len(), 1);
        assert_eq!(released[0].2, [("a/p-0".into(), "u0".into())]);
        assert_eq!(short.next_deadline(), Some(at(20)), "a delete may fail");
        assert!(short.judge(&engine, at(19)).released.is_empty());
        assert_eq!(short.judge(&engine, at(20)).released.len(), 1, "and is tried again");

        engine.apply(&pod(1, Some("n")));
        let verdicts = short.judge(&engine, at(40));
        assert_eq!((verdicts.completed, verdicts.released.len()), (1, 0));
    }

    #[test]
    fn pods_of_other_transactions_stay() {
        let mut engine = engine();
        let mut short = ShortGangs::new(Duration::from_secs(10));
        short.note(&"a/g".into(), &"g".into(), ["u1".into()].iter(), at(0));
        let verdicts = short.judge(&engine, at(20));
        assert_eq!((verdicts.completed, verdicts.released.len()), (0, 0));
        assert_eq!(short.next_deadline(), None, "nothing of it can be released");

        engine.apply(&Event::PodGroup(PodGroupFacts {
            min_member: 3,
            ..group()
        }));
        engine.apply(&pod(1, Some("n")));
        short.note(&"a/g".into(), &"g".into(), ["u1".into()].iter(), at(20));
        let released = short.judge(&engine, at(30)).released;
        assert_eq!(released[0].2, [("a/p-1".into(), "u1".into())]);
    }

    #[test]
    fn a_gang_is_whole_when_its_roles_are() {
        let mut engine = engine();
        engine.apply(&Event::PodGroup(PodGroupFacts {
            min_member: 1,
            min_task_member: [("w".into(), 1)].into(),
            ..group()
        }));
        let mut short = ShortGangs::new(Duration::from_secs(10));
        short.note(&"a/g".into(), &"g".into(), ["u0".into()].iter(), at(0));
        let verdicts = short.judge(&engine, at(10));
        assert_eq!((verdicts.completed, verdicts.released.len()), (0, 1));
    }

    #[test]
    fn a_gang_that_is_gone_is_forgotten() {
        let mut engine = engine();
        let mut short = ShortGangs::new(Duration::from_secs(10));
        short.note(&"a/g".into(), &"g".into(), ["u0".into()].iter(), at(0));
        engine.apply(&Event::PodGone {
            key: "a/p-0".into(),
            uid: None,
        });
        let verdicts = short.judge(&engine, at(20));
        assert_eq!((verdicts.completed, verdicts.released.len()), (0, 0));
        assert_eq!(short.next_deadline(), None, "nothing of it is left");
        assert!(!short.gangs.is_empty(), "but it is still known");
        engine.apply(&Event::PodGroupGone {
            key: "a/g".into(),
            uid: None,
        });
        short.judge(&engine, at(20));
        assert!(short.gangs.is_empty());
    }

    #[test]
    fn one_that_is_released_and_begins_anew_is_not_completed() {
        let mut engine = engine();
        let mut short = ShortGangs::new(Duration::from_secs(10));
        short.note(&"a/g".into(), &"g".into(), ["u0".into()].iter(), at(0));
        engine.apply(&pod(0, None));
        short.judge(&engine, at(10));
        for index in 0..2 {
            engine.apply(&pod(index, Some("n")));
        }
        assert_eq!(short.judge(&engine, at(20)).completed, 0);
        assert!(short.gangs.is_empty(), "it is whole");
    }

    /// A gang of which one pod is placed says `phase`, and whether it was scheduled once: was it left short?
    fn check_survey(phase: Phase, was_scheduled: bool, expected: bool) {
        let mut engine = engine();
        engine.apply(&Event::PodGroup(PodGroupFacts { phase, ..group() }));
        let mut short = ShortGangs::new(Duration::from_secs(10));
        short.survey(&engine, |_| was_scheduled, at(0));
        assert_eq!(short.next_deadline().is_some(), expected, "{phase:?} {was_scheduled}");
    }

    #[test]
    fn gangs_that_an_earlier_run_left_short_are_found() {
        for was_scheduled in [false, true] {
            check_survey(Phase::Pending, was_scheduled, true);
            check_survey(Phase::Inqueue, was_scheduled, true);
            check_survey(Phase::Unknown, was_scheduled, !was_scheduled);
            check_survey(Phase::Running, was_scheduled, false);
        }
    }

    /// The engine decides to bind what is missing; whether that happens is not known.
    fn decided() -> (Engine, Transaction) {
        let mut engine = engine();
        let transactions = engine.cycle(1, 0).transactions;
        let decided = transactions.into_iter().find(|decided| !decided.binds.is_empty());
        (engine, decided.expect("the pod is placed"))
    }

    #[test]
    fn nobody_waits_for_ever_for_a_bind_of_unknown_outcome() {
        let (engine, _) = decided();
        let mut short = ShortGangs::new(Duration::from_secs(10));
        short.note(&"a/g".into(), &"g".into(), ["u0".into(), "u1".into()].iter(), at(0));
        for second in [10, 19] {
            assert!(
                short.judge(&engine, at(second)).released.is_empty(),
                "it may be answered"
            );
        }
        let released = short.judge(&engine, at(20)).released;
        let names: Vec<&str> = released[0].2.iter().map(|(pod, _)| &**pod).collect();
        assert_eq!(names, ["a/p-0", "a/p-1"], "what may be bound goes too");
    }

    /// A transaction of a group that says `seen`, and came out short before or not: was it whole?
    fn check_was_whole(seen: Phase, announces: Option<Phase>, is_short: bool, expected: bool) {
        let (mut engine, transaction) = decided();
        engine.apply(&Event::PodGroup(PodGroupFacts { phase: seen, ..group() }));
        let transaction = Transaction {
            phase: announces,
            ..transaction
        };
        let mut short = ShortGangs::new(Duration::from_secs(10));
        if is_short {
            short.note(&"a/g".into(), &"g".into(), [].iter(), at(0));
        }
        assert_eq!(
            short.was_whole(&engine, &transaction),
            expected,
            "{seen:?} {announces:?} {is_short}"
        );
    }

    #[test]
    fn a_gang_that_ran_before_is_not_short() {
        check_was_whole(Phase::Inqueue, None, false, false);
        check_was_whole(Phase::Inqueue, Some(Phase::Running), false, false);
        for ran in [Phase::Running, Phase::Unknown] {
            check_was_whole(ran, None, false, true);
            check_was_whole(ran, Some(Phase::Running), false, true);
            check_was_whole(ran, None, true, false);
        }
    }

    #[test]
    fn what_was_announced_before_counts_unless_the_transaction_itself_says_so() {
        let (mut engine, transaction) = decided();
        engine.apply(&pod(1, Some("n")));
        engine.cycle(2, 0); // announces that it runs, which the watch does not show yet
        let short = ShortGangs::new(Duration::from_secs(10));
        for (phase, expected) in [(None, true), (Some(Phase::Running), false)] {
            let transaction = Transaction {
                phase,
                ..transaction.clone()
            };
            assert_eq!(short.was_whole(&engine, &transaction), expected, "{phase:?}");
        }
    }
}
