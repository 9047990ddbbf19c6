//! The live scheduler: watches feed the engine, a change wakes a cycle, the plan is carried out.

mod conf;
mod evict;
mod face;
mod facts;
mod metrics;
mod mirror;
mod narrate;
mod reborn;
mod recheck;
mod refused;
mod scene;
mod short;
#[cfg(test)]
mod tests;
mod work;

use std::sync::Arc;
use std::time::{Duration, Instant};

use basalt_api::podgroup::PodGroup;
use basalt_api::queue::Queue;
use basalt_api::{NamespacedName, ObjectRef, resource_kind, slim};
use basalt_controllers::EventType;
use basalt_engine::facts::{Event, NodeFacts, PodFacts, PodGroupFacts, QueueFacts};
use basalt_engine::plan::{Eviction, Plan, Transaction};
use basalt_engine::{Conf, Engine, Options as EngineOptions};
use jiff::Timestamp;
use tokio::sync::oneshot;

pub use self::conf::{ConfSource, ConfTrouble};
pub use self::face::{CONTENT_TYPE, Face};
pub use self::metrics::Metrics;
pub use self::metrics::page as example_page;

use self::evict::{Evictor, Fate};
use self::facts::translate;
use self::metrics::Numbers;
use self::mirror::{Look, Mirror};
use self::narrate::{Narrator, Nominations, Outlets, PodConditions, QueueStatuses};
use self::reborn::Reborn;
use self::refused::Refused;
use self::short::ShortGangs;
use crate::event_loop::{Frame, PartFailed, Sink};
use crate::leader_election::leader_gate::{Ended, Lead, Turn};
use crate::liveness::Vitals;
use crate::watch::feed::FeedEvent;
use crate::write::binder::{Binder, Failed};
use crate::write::executor::Executor;
use crate::write::writer::Writer;

/// After a cycle the next one waits as long as it took, but no longer than this: in a storm of news half of the time is
/// left to others, and a quiet cluster is served at once.
const BREATH_MAX: Duration = Duration::from_millis(50);
/// The shortest sleep that is worth it.
const NAP_MIN: Duration = Duration::from_millis(5);
/// What is under way when the scheduler is told to end may take so long.
const RETIRE_MAX: Duration = Duration::from_secs(8);

/// How the scheduler runs.
#[derive(Debug, Clone)]
pub struct SchedulerOptions {
    /// Volcano's configuration.
    pub conf: ConfSource,
    /// The configuration if there is no file.
    pub built_in: fn() -> Conf,
    /// Names of schedulers that are ours, and limits.
    pub engine: EngineOptions,
    /// The longest time between two cycles, with or without news.
    pub period_max: Duration,
    /// How long a gang of which only a part could be bound may take to become whole.
    pub gang_grace: Duration,
    /// How often the auditor looks; zero: never.
    pub audit_every: Duration,
    /// Breaks ties; the same seed gives the same plan.
    pub seed: u64,
}

impl Default for SchedulerOptions {
    fn default() -> Self {
        Self {
            conf: ConfSource::default(),
            built_in: Conf::embedded,
            engine: EngineOptions::default(),
            period_max: Duration::from_secs(1),
            gang_grace: Duration::from_secs(10),
            audit_every: Duration::from_secs(30),
            seed: 0,
        }
    }
}

/// What the loop hears.
enum News {
    Node(FeedEvent<slim::Node>),
    Pod(FeedEvent<slim::Pod>),
    PodGroup(FeedEvent<PodGroup>),
    Queue(FeedEvent<Queue>),
    /// News of a kind that only the engine cares for.
    Fact(Option<Box<Event>>),
    /// Binds were answered; the group may have been whole before.
    Bound {
        transaction: Box<Transaction>,
        whole_before: bool,
        failed: Vec<Failed>,
    },
    /// An eviction was answered.
    Evicted(Box<Eviction>, Fate),
    /// The configuration file changed.
    Conf(Result<Conf, ConfTrouble>),
    /// The auditor has looked.
    Audited(Look),
    /// The auditor has stumbled, and why.
    AuditFailed(String),
    /// Somebody asks for metrics.
    Numbers(oneshot::Sender<Numbers>),
}

/// A scheduler that has not begun yet.
pub struct Scheduler {
    writer: Writer,
    options: SchedulerOptions,
    conf: Conf,
    conf_text: String,
    frame: Frame<News>,
    metrics: Arc<Metrics>,
    vitals: Arc<Vitals>,
}

impl Scheduler {
    /// Reads the configuration.
    pub fn new(writer: impl Into<Writer>, options: SchedulerOptions) -> Result<Self, ConfTrouble> {
        let (conf, conf_text) = options.conf.load(options.built_in)?;
        let metrics = Arc::new(Metrics::default());
        announce(&conf, &metrics);
        let frame = Frame::default();
        let vitals = Arc::new(Vitals::new(options.period_max, frame.watches()));
        Ok(Self {
            writer: writer.into(),
            options,
            conf,
            conf_text,
            frame,
            metrics,
            vitals,
        })
    }

    /// A handle for health and metrics.
    pub fn face(&self) -> Face {
        Face {
            metrics: Arc::clone(&self.metrics),
            sink: self.frame.sink(),
            vitals: Arc::clone(&self.vitals),
        }
    }

    /// Schedules until the task is dropped, the right to do so ends, or a part of it failed.
    pub async fn run(self) -> anyhow::Result<Ended> {
        let vitals = Arc::clone(&self.vitals);
        let mut lead = Lead::new(self.writer.tenure());
        vitals.beat();
        let (mut at_work, mut frame) = self.begin().await?;
        loop {
            vitals.beat();
            let patience = lead.patience(&frame, || at_work.patience());
            frame.gather(patience, |news| at_work.take_in(news)).await?;
            vitals.lacks(frame.missing());
            match lead.turn(&mut frame) {
                Turn::Wait => {} // a half-filled cache decides nothing
                Turn::Deposed => return Ok(Ended::Deposed),
                Turn::Retire => {
                    let all_ended = at_work.retire(&mut frame).await?;
                    return Ok(Ended::told(all_ended));
                }
                Turn::Decide => {
                    at_work.breathe(&mut frame).await?;
                    at_work.cycle(&mut frame);
                }
            }
        }
    }

    /// Starts the watches and the outlets.
    async fn begin(self) -> anyhow::Result<(Loop, Frame<News>)> {
        let Self {
            writer,
            options,
            conf,
            conf_text,
            mut frame,
            metrics,
            ..
        } = self;
        let client = writer.client().clone();
        let binder = Binder::connect(writer.clone()).await?;
        frame.heed(writer.tenure(), || News::Fact(None));
        let executor = Executor::new(writer, "volcano");
        frame.follow(&client, News::Node);
        frame.follow(&client, News::Pod);
        frame.follow(&client, News::PodGroup);
        frame.follow(&client, News::Queue);
        facts::follow(&mut frame, &client);
        let outlets = Outlets::default();
        open(&outlets, &executor, &mut frame);
        frame.spawn(options.conf.clone().follow(conf_text, frame.sink(), News::Conf));
        let at_work = Loop {
            engine: Engine::new(conf, options.engine),
            plan: Plan::default(),
            narrator: Narrator::new(outlets.clone()),
            queues: QueueStatuses::new(outlets.queues.clone()),
            pods: PodConditions::new(outlets.clone()),
            nominations: Nominations::new(outlets.nominations.clone()),
            outlets,
            mirror: Mirror::new(options.audit_every),
            evictor: Evictor::default(),
            short: ShortGangs::new(options.gang_grace),
            reborn: Reborn::default(),
            refused: Refused::default(),
            binder,
            executor,
            sink: frame.sink(),
            metrics,
            seed: options.seed,
            period_max: options.period_max,
            last_cycle: (Instant::now(), Duration::ZERO),
        };
        Ok((at_work, frame))
    }
}

/// Lets the outlets flow.
fn open(outlets: &Outlets, executor: &Executor, frame: &mut Frame<News>) {
    for outlet in [
        &outlets.groups,
        &outlets.queues,
        &outlets.pods,
        &outlets.nominations,
        &outlets.events,
    ] {
        frame.spawn(outlet.clone().run(executor.clone()));
    }
}

/// Says what of a configuration is not understood.
fn announce(conf: &Conf, metrics: &Metrics) {
    for warning in &conf.warnings {
        tracing::warn!("scheduler configuration: {warning}");
    }
    metrics.conf_good.set(1);
    metrics
        .conf_warnings
        .set(i64::try_from(conf.warnings.len()).unwrap_or(i64::MAX));
}

/// The scheduler at work.
struct Loop {
    engine: Engine,
    /// The last cycle's lists of queues and of what waits.
    plan: Plan,
    narrator: Narrator,
    queues: QueueStatuses,
    pods: PodConditions,
    nominations: Nominations,
    outlets: Outlets,
    mirror: Mirror,
    evictor: Evictor,
    short: ShortGangs,
    reborn: Reborn,
    refused: Refused,
    binder: Binder,
    executor: Executor,
    sink: Sink<News>,
    metrics: Arc<Metrics>,
    seed: u64,
    period_max: Duration,
    /// When the last cycle ended, and how long it took.
    last_cycle: (Instant, Duration),
}

impl Loop {
    /// How long the loop may sleep without news.
    fn patience(&self) -> Duration {
        let now = Timestamp::now();
        let wake = self
            .engine
            .next_wake()
            .and_then(|ms| Timestamp::from_millisecond(ms).ok());
        let due = [
            wake,
            self.short.next_deadline(),
            self.pods.next_due(),
            self.narrator.next_due(),
            self.refused.next_due(),
        ];
        let waits = due.into_iter().flatten().map(|at| at.duration_since(now));
        let next = waits
            .min()
            .and_then(|wait| Duration::try_from(wait.max(jiff::SignedDuration::ZERO)).ok());
        next.unwrap_or(self.period_max).clamp(NAP_MIN, self.period_max)
    }

    /// Where cycles take long and news keep coming, lets some more come before the next one.
    async fn breathe(&mut self, frame: &mut Frame<News>) -> Result<(), PartFailed> {
        let (ended, took) = self.last_cycle;
        let rest = (ended + took.min(BREATH_MAX)).saturating_duration_since(Instant::now());
        if rest >= NAP_MIN && self.engine.needs_cycle() {
            tokio::time::sleep(rest).await;
            frame.gather(Duration::ZERO, |news| self.take_in(news)).await?;
        }
        Ok(())
    }

    /// Lets what is under way come to an end, and what was decided be told. Events are a courtesy: they are not waited for.
    async fn retire(&mut self, frame: &mut Frame<News>) -> Result<bool, PartFailed> {
        let outlets = self.outlets.clone();
        let quiet = move || {
            let told = [&outlets.groups, &outlets.queues, &outlets.pods, &outlets.nominations];
            told.iter().all(|outlet| outlet.is_idle())
        };
        frame.drain(RETIRE_MAX, |news| self.take_in(news), quiet).await
    }

    fn take_in(&mut self, news: News) {
        let event = match news {
            News::Node(event) => {
                self.mirror.node(&event);
                self.node(event)
            }
            News::Pod(event) => {
                self.mirror.pod(&event);
                if let Some(since) = self.pods.observe(&event, Timestamp::now()) {
                    self.metrics.task("Bound", since.elapsed());
                }
                if let FeedEvent::Upsert(pod) = &event {
                    self.nominations.observe(&NamespacedName::of(&**pod).to_string(), pod);
                }
                translate(
                    event,
                    |pod: &slim::Pod| Event::Pod(PodFacts::from(pod)),
                    |key, uid| Event::PodGone {
                        key: key.to_string().into(),
                        uid: Some(uid),
                    },
                )
            }
            News::PodGroup(FeedEvent::Upsert(group)) if self.is_others(&group) => None,
            News::PodGroup(event) => {
                self.mirror.group(&event);
                self.narrator.observe(&event);
                if let FeedEvent::Delete { key, .. } = &event {
                    self.metrics.forget_group(&key.to_string());
                    self.refused.forget(&key.to_string());
                }
                translate(
                    event,
                    |group: &PodGroup| Event::PodGroup(PodGroupFacts::from(group)),
                    |key, uid| Event::PodGroupGone {
                        key: key.to_string().into(),
                        uid: Some(uid),
                    },
                )
            }
            News::Queue(event) => {
                self.queues.observe(&event);
                translate(
                    event,
                    |queue: &Queue| Event::Queue(QueueFacts::from(queue)),
                    |key, uid| Event::QueueGone {
                        name: key.name.into(),
                        uid: Some(uid),
                    },
                )
            }
            News::Fact(event) => event.map(|event| *event),
            other => {
                self.answer(other);
                None
            }
        };
        if let Some(event) = event {
            self.engine.apply(&event);
        }
    }

    /// Whether another scheduler was asked for; its pods are neither placed nor complained about.
    fn is_others(&self, group: &PodGroup) -> bool {
        let asked = group
            .metadata
            .annotations
            .as_ref()
            .and_then(|all| all.get(basalt_api::names::SCHEDULER));
        asked.is_some_and(|name| !self.engine.answers_to(name))
    }

    fn node(&mut self, event: FeedEvent<slim::Node>) -> Option<Event> {
        match event {
            FeedEvent::Upsert(node) => self.reborn.comes(NodeFacts::from(&*node)).map(Event::Node),
            FeedEvent::Delete { key, uid } => {
                self.reborn.leaves(&self.engine, &key.name, Timestamp::now());
                Some(Event::NodeGone {
                    name: key.name.into(),
                    uid: Some(uid.into()),
                })
            }
            FeedEvent::Synced => None,
        }
    }

    /// What others have to say: answers to our own doings, and questions.
    fn answer(&mut self, news: News) {
        match news {
            News::Bound {
                transaction,
                whole_before,
                failed,
            } => self.bound(&transaction, whole_before, &failed),
            News::Evicted(eviction, fate) => self.evicted(&eviction, &fate),
            News::Conf(conf) => self.reconfigure(conf),
            News::Audited(look) => {
                for finding in &look.findings {
                    tracing::error!("the auditor found a broken promise: {finding}");
                }
                let count = i64::try_from(look.findings.len()).unwrap_or(i64::MAX);
                self.metrics.audit_findings.set(count);
                self.metrics.audits.inc();
                self.mirror.end(look);
            }
            News::AuditFailed(why) => {
                tracing::error!(why, "the auditor's look failed; it begins anew");
                self.metrics.audit_failures.inc();
                self.mirror.renew();
            }
            News::Numbers(answer) => {
                let numbers = Numbers::of(&self.engine, &self.plan, self.outlets.backlog(), self.pods.silent());
                // Whoever asked may have gone away.
                let _gone = answer.send(numbers);
            }
            _ => {}
        }
    }

    /// Puts a new configuration in force; a bad one leaves the old one as it is.
    fn reconfigure(&mut self, conf: Result<Conf, ConfTrouble>) {
        let target = ObjectRef::new(resource_kind::QUEUE, "", basalt_engine::model::ROOT);
        match conf {
            Ok(conf) => {
                announce(&conf, &self.metrics);
                self.metrics.reloaded("applied");
                tracing::info!(actions = ?conf.actions, "a new scheduler configuration is in force");
                self.engine.set_conf(conf);
            }
            Err(trouble) => {
                let message = format!("{trouble}; the former configuration stays in force");
                tracing::error!("{message}");
                self.metrics.conf_good.set(0);
                self.metrics.reloaded("refused");
                self.outlets
                    .event(target, "", "BadConfiguration", message, EventType::Warning);
            }
        }
    }
}
