//! Gangs that came out short: where binds are single requests, some may succeed and others fail.
//!
//! Such a gang is *short*. The engine goes on placing what is missing, so it is soon *whole*; if it is not within the
//! grace, it is *released*: what was bound is deleted again, so that no part of a gang holds room that it cannot use.
//! Only pods of the transactions that left it short are deleted, never one that ran before them.
//! A gang that ends meanwhile is *gone*, and nobody's business any more.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use basalt_engine::Engine;
use basalt_engine::facts::Phase;
use basalt_engine::ledger::Status;
use basalt_engine::plan::split_key;
use jiff::{SignedDuration, Timestamp};

/// When a gang whose time is over is looked at again, while binds are under way.
const AGAIN: SignedDuration = SignedDuration::from_millis(100);
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
    /// The group, or all of its pods that were placed, are gone.
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
    deadline: Timestamp,
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
        let fresh = Gang {
            uid: Arc::clone(uid),
            deadline: now.saturating_add(self.grace()).unwrap_or(Timestamp::MAX),
            pods: BTreeSet::new(),
        };
        match self.gangs.get_mut(group) {
            Some(gang) if gang.uid == *uid => {}
            Some(gang) => *gang = fresh,
            None => drop(self.gangs.insert(Arc::clone(group), fresh)),
        }
        self.join(group, uid, pods);
    }

    /// `pods` were bound to complete this gang: if it is short, they stay or go with the others.
    pub(super) fn join<'p>(&mut self, group: &str, uid: &Arc<str>, pods: impl Iterator<Item = &'p Arc<str>>) {
        if let Some(gang) = self.gangs.get_mut(group).filter(|gang| gang.uid == *uid) {
            gang.pods.extend(pods.cloned());
        }
    }

    /// At the start: gangs that an earlier run left short. One that says it runs was whole once, and is left alone.
    pub(super) fn survey(&mut self, engine: &Engine, now: Timestamp) {
        let model = &engine.state().model;
        for job in model.jobs.ids() {
            let record = &model.jobs[job];
            let early = matches!(record.seen_phase, Phase::Pending | Phase::Inqueue);
            let name = model.jobs.name(job);
            let placed = placed(engine, name);
            if early && record.present && standing(engine, name, &record.uid, &placed) == Standing::Short {
                self.note(name, &record.uid, placed.iter().map(|(_, uid)| uid), now);
            }
        }
    }

    /// When the next gang's time is over.
    pub(super) fn next_deadline(&self) -> Option<Timestamp> {
        self.gangs.values().map(|gang| gang.deadline).min()
    }

    /// Looks at all of them.
    pub(super) fn judge(&mut self, engine: &Engine, now: Timestamp) -> Verdicts {
        let mut verdicts = Verdicts::default();
        let again = self.grace().max(RELEASE_AGAIN);
        self.gangs.retain(|group, gang| {
            let mut placed = placed(engine, group);
            placed.retain(|(_, uid)| gang.pods.contains(uid));
            match standing(engine, group, &gang.uid, &placed) {
                Standing::Gone => return false,
                Standing::Whole => {
                    verdicts.completed += 1;
                    return false;
                }
                Standing::Short | Standing::Completing if now < gang.deadline => {}
                // It ends one way or the other; only then can be said what is left.
                Standing::Completing => gang.deadline = now.saturating_add(AGAIN).unwrap_or(now),
                // Kept until its pods are seen to go: a delete may fail.
                Standing::Short => {
                    gang.deadline = now.saturating_add(again).unwrap_or(Timestamp::MAX);
                    verdicts
                        .released
                        .push((Arc::clone(group), Arc::clone(&gang.uid), placed));
                }
            }
            true
        });
        verdicts
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
        Standing::Gone
    } else {
        Standing::Short
    }
}

/// The pods of a group that the API shows on a node, and that have not ended.
fn placed(engine: &Engine, group: &str) -> Vec<Member> {
    let state = engine.state();
    let Some(job) = state.model.jobs.find(group) else {
        return Vec::new();
    };
    let tasks = state.model.jobs[job].tasks.iter();
    let mut members: Vec<Member> = tasks
        .filter(|&&task| matches!(state.ledger.status(task), Status::Bound | Status::Running))
        .map(|&task| {
            (
                Arc::clone(state.model.tasks.name(task)),
                Arc::clone(&state.model.tasks[task].uid),
            )
        })
        .collect();
    members.sort_by(|a, b| split_key(&a.0).cmp(&split_key(&b.0)));
    members
}

#[cfg(test)]
mod tests {
    use basalt_engine::facts::{Event, PodFacts, PodGroupFacts, PodPhase};
    use basalt_engine::{Conf, Options};

    use super::*;

    fn pod(index: u32, node: Option<&str>) -> Event {
        Event::Pod(PodFacts {
            key: format!("a/p-{index}").into(),
            uid: format!("u{index}").into(),
            scheduler: "volcano".into(),
            group: Some("a/g".into()),
            phase: PodPhase::Pending,
            node: node.map(Into::into),
            ..PodFacts::default()
        })
    }

    fn group() -> PodGroupFacts {
        PodGroupFacts {
            key: "a/g".into(),
            uid: "g".into(),
            min_member: 2,
            phase: Phase::Inqueue,
            ..PodGroupFacts::default()
        }
    }

    fn engine() -> Engine {
        let mut engine = Engine::new(Conf::embedded(), Options::default());
        engine.apply(&Event::PodGroup(group()));
        engine.apply(&pod(0, Some("n")));
        engine.apply(&pod(1, None));
        engine
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("a small time")
    }

    #[test]
    fn a_short_gang_is_completed_or_released() {
        let mut engine = engine();
        let mut short = ShortGangs::new(Duration::from_secs(10));
        short.survey(&engine, at(0));
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
        assert_eq!(short.next_deadline(), None);
    }
}
