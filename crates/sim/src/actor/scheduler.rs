//! The scheduler: an adapter that drives the same core as the live system, one request at a time.

mod judge;
mod writes;

use std::sync::Arc;

use basalt_api::NamespacedName;
use basalt_audit::{Finding, Rules};
use basalt_engine::facts::{ClaimFacts, Event, VolumeFacts};
use basalt_engine::{Conf, Options};
use basalt_scheduler::{CoreOptions, ObjectEvent, SchedulerCommand, SchedulerCore, SchedulerInput};
use jiff::Timestamp;

use self::judge::DecisionJudge;
pub use self::writes::BindMode;
use self::writes::{
    OpenTransactions, QueuedRequest, SentWrite, StatusQueue, after_conflict, eviction_outcome, failed_binds,
    status_outcome,
};
use super::Actor;
use crate::api::{Answer, Api, Kind, Report, Request, Typed};
use crate::whim::Whim;
use basalt_api::json::string_at;

/// Storage is not simulated: every claim has this volume, which all nodes reach.
const VOLUME: &str = "storage";
/// How often, in percent, other parts may act between a decision and its dispatch.
const LATE_DISPATCH: u64 = 30;

fn claim(key: Arc<str>, uid: Option<Arc<str>>, gone: bool) -> Event {
    if gone {
        return Event::ClaimGone { key, uid };
    }
    Event::Claim(ClaimFacts {
        key,
        uid: uid.unwrap_or_default(),
        volume: Some(VOLUME.into()),
        ..ClaimFacts::default()
    })
}

/// A request that was sent and is not answered.
enum SentRequest {
    Queued(QueuedRequest),
    Write(SentWrite),
}

/// The scheduler.
pub struct Scheduler {
    core: SchedulerCore,
    mode: BindMode,
    transactions: OpenTransactions,
    requests: Vec<QueuedRequest>,
    statuses: StatusQueue,
    sent: Option<SentRequest>,
    /// Something was observed since the last cycle.
    has_news: bool,
    /// Something was decided and not dispatched yet.
    is_decided: bool,
    judge: Option<DecisionJudge>,
}

impl Scheduler {
    /// Creates a scheduler with a configuration that knows nothing of the cluster yet.
    pub fn new(conf: &Conf, mode: BindMode) -> Self {
        let options = CoreOptions {
            engine: Options::embedded(),
            ..CoreOptions::default()
        };
        let mut core = SchedulerCore::new(conf.clone(), options);
        let volume = Event::Volume(VolumeFacts {
            name: VOLUME.into(),
            ..VolumeFacts::default()
        });
        core.observe(SchedulerInput::Fact(&volume), Timestamp::UNIX_EPOCH);
        Self {
            core,
            mode,
            transactions: OpenTransactions::default(),
            requests: Vec::new(),
            statuses: StatusQueue::default(),
            sent: None,
            has_news: true,
            is_decided: false,
            judge: None,
        }
    }

    /// Has every decision judged by these rules.
    #[must_use]
    pub fn judged_by(mut self, rules: Option<Rules>) -> Self {
        self.judge = rules.map(DecisionJudge::new);
        self
    }

    fn cycle(&mut self, now: Timestamp) {
        self.has_news = false;
        self.is_decided = true;
        self.core.cycle(now, 0, &mut |_| {});
        if let Some(judge) = &mut self.judge {
            judge.judge(self.core.plan());
        }
        self.take_commands(now);
    }

    fn dispatch(&mut self, now: Timestamp) {
        self.is_decided = false;
        self.core.dispatch(now);
        self.take_commands(now);
    }

    fn take_commands(&mut self, now: Timestamp) {
        for command in self.core.take_commands() {
            match command {
                SchedulerCommand::Bind {
                    transaction,
                    cancelled_conditions,
                } => {
                    self.statuses.cancel_conditions(cancelled_conditions);
                    self.requests.extend(self.transactions.start(transaction, self.mode));
                }
                SchedulerCommand::Evict { eviction, .. } => self.requests.push(QueuedRequest::Evict(eviction)),
                SchedulerCommand::ReleaseGang { deletions, .. } => {
                    self.requests.extend(deletions.into_iter().map(QueuedRequest::Delete));
                }
                SchedulerCommand::WriteStatus(write) => self.statuses.write(write, now),
                SchedulerCommand::RecordEvent { target, event } => self.statuses.record_event(target, event),
                SchedulerCommand::RecordMetric(_) => {}
            }
        }
    }

    /// Passes a report of a watch on to the core.
    fn observe(&mut self, report: &Report, now: Timestamp) {
        let key = NamespacedName::new(&report.key.namespace, &report.key.name);
        let uid = string_at(&report.object, "/metadata/uid");
        let input = match &*report.typed {
            Typed::Pod(pod) => SchedulerInput::Pod(event(report, pod, &key, uid)),
            Typed::PodGroup(group) => SchedulerInput::PodGroup(event(report, group, &key, uid)),
            Typed::Queue(queue) => SchedulerInput::Queue(event(report, queue, &key, uid)),
            Typed::Node(node) => SchedulerInput::Node(event(report, node, &key, uid)),
            Typed::Companion(_) if report.key.kind == Kind::PersistentVolumeClaim => {
                let claim = claim(key.to_string().into(), Some(uid.into()), report.gone);
                self.core.observe(SchedulerInput::Fact(&claim), now);
                return;
            }
            Typed::Job(_) | Typed::Command(_) | Typed::Companion(_) | Typed::Other => return,
        };
        self.core.observe(input, now);
    }

    fn binds_answered(&mut self, number: u64, failed: Vec<basalt_scheduler::FailedBind>, now: Timestamp) {
        if let Some(open) = self.transactions.answer(number, failed) {
            let (transaction, failed) = (&*open.transaction, open.failed.as_slice());
            if let Some(judge) = &mut self.judge {
                let is_certain = |uid: &Arc<str>| {
                    failed
                        .iter()
                        .any(|failure| failure.is_certain && failure.bind.uid == *uid)
                };
                judge.believe(transaction.binds.iter().filter(|bind| !is_certain(&bind.uid)));
            }
            self.core
                .observe(SchedulerInput::BindsAnswered { transaction, failed }, now);
        }
    }

    fn request_answered(&mut self, queued: QueuedRequest, answer: &Answer, now: Timestamp) {
        match queued {
            QueuedRequest::Bind(number, binds) => match (answer, binds.as_slice()) {
                (Err(refusal), [bind]) if refusal.code == 409 && self.mode == BindMode::Single => {
                    let read = QueuedRequest::ReadPod(number, bind.clone(), refusal.message.clone());
                    self.requests.push(read);
                }
                _ => self.binds_answered(number, failed_binds(&binds, answer), now),
            },
            QueuedRequest::Evict(eviction) => {
                let (eviction, outcome) = (&*eviction, &eviction_outcome(answer));
                self.core
                    .observe(SchedulerInput::EvictionAnswered { eviction, outcome }, now);
            }
            QueuedRequest::ReadPod(..) | QueuedRequest::Delete(_) => {}
        }
    }

    fn write_answered(&mut self, write: SentWrite, answer: &Answer, now: Timestamp) {
        let SentWrite::Status(write) = write else { return };
        let Some(outcome) = status_outcome(answer) else {
            self.statuses.retry(*write, now);
            return;
        };
        let input = SchedulerInput::StatusWriteAnswered {
            writer: write.writer,
            target: &write.target,
            sequence: write.sequence,
            outcome,
        };
        self.core.observe(input, now);
    }

    /// Takes a request that waits for its turn: any of them, or a status.
    fn send(&mut self, api: &Api, now: Timestamp, whim: &mut Whim) -> Option<Request> {
        while !self.requests.is_empty() {
            let at = whim.below(self.requests.len());
            match self.requests.remove(at) {
                QueuedRequest::ReadPod(number, bind, message) => {
                    self.binds_answered(number, after_conflict(api, &bind, message), now);
                    self.take_commands(now);
                }
                queued => {
                    let request = queued.request();
                    self.sent = Some(SentRequest::Queued(queued));
                    return request;
                }
            }
        }
        let (write, request) = self.statuses.take(now)?;
        self.sent = Some(SentRequest::Write(write));
        Some(request)
    }
}

/// Returns a report as an event about an object of one kind.
fn event<'a, K>(report: &Report, object: &'a K, key: &'a NamespacedName, uid: &'a str) -> ObjectEvent<'a, K> {
    if report.gone {
        ObjectEvent::Deleted { key, uid }
    } else {
        ObjectEvent::Applied(object)
    }
}

impl Actor for Scheduler {
    fn name(&self) -> &'static str {
        "scheduler"
    }

    fn watches(&self) -> &'static [Kind] {
        &[
            Kind::Node,
            Kind::Queue,
            Kind::PodGroup,
            Kind::PersistentVolumeClaim,
            Kind::Pod,
        ]
    }

    fn lists_the_newest(&self) -> bool {
        true
    }

    fn judgement(&mut self) -> (u64, Vec<Finding>) {
        self.judge.as_mut().map(DecisionJudge::take).unwrap_or_default()
    }

    fn take_in(&mut self, report: &Report, now: Timestamp) {
        self.has_news = true;
        self.observe(report, now);
        self.take_commands(now);
        if let Some(judge) = &mut self.judge {
            judge.observe(report);
        }
    }

    fn listed(&mut self, _: Kind, _: Timestamp) {}

    fn next(&mut self, api: &Api, now: Timestamp, whim: &mut Whim) -> Option<Request> {
        if self.is_decided {
            self.dispatch(now);
        }
        let is_due = self.core.next_wake().is_some_and(|at| at <= now);
        if self.requests.is_empty() && (self.has_news || is_due) {
            self.cycle(now);
            // A status may be written first, and watches may report, before the decision is dispatched.
            if whim.yes(LATE_DISPATCH)
                && let Some(request) = self.send(api, now, whim)
            {
                return Some(request);
            }
            self.dispatch(now);
        }
        self.send(api, now, whim)
    }

    fn answered(&mut self, _: &Request, answer: &Answer, now: Timestamp) {
        match self.sent.take() {
            Some(SentRequest::Queued(queued)) => {
                self.has_news = true;
                self.request_answered(queued, answer, now);
            }
            Some(SentRequest::Write(write)) => self.write_answered(write, answer, now),
            None => {}
        }
        self.take_commands(now);
    }

    fn next_due(&self) -> Option<Timestamp> {
        let due = [self.core.next_wake(), self.statuses.next_due()];
        due.into_iter().flatten().min()
    }
}
