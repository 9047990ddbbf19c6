//! The live scheduler: drives a [`SchedulerCore`] with watches and carries out its commands.

mod conf;
mod evict;
mod face;
mod facts;
mod metrics;
mod mirror;
mod status_writers;
#[cfg(test)]
mod tests;
mod work;

use std::sync::Arc;
use std::time::{Duration, Instant};

use basalt_api::podgroup::PodGroup;
use basalt_api::queue::Queue;
use basalt_api::slim;
use basalt_engine::facts::Event;
use basalt_engine::plan::{Eviction, Transaction};
use basalt_engine::{Conf, Options as EngineOptions};
use basalt_scheduler::{CoreOptions, EvictionOutcome, FailedBind, ObjectEvent, SchedulerCore, SchedulerInput};
use jiff::Timestamp;
use tokio::sync::{Semaphore, oneshot};

pub use self::conf::{BuiltInConf, ConfSource, ConfTrouble};
pub use self::face::{CONTENT_TYPE, Face};
pub use self::metrics::Metrics;
pub use self::metrics::page as example_page;

use self::evict::eviction_slots;
use self::metrics::Numbers;
use self::mirror::{Look, Mirror};
use self::status_writers::StatusWriters;
use crate::event_loop::{Frame, PartFailed, Sink};
use crate::leader_election::leader_gate::{Ended, Lead, Turn};
use crate::liveness::Vitals;
use crate::watch::feed::FeedEvent;
use crate::write::binder::Binder;
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
    pub built_in: BuiltInConf,
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
            built_in: || Ok(Conf::embedded()),
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
    /// Binds were answered.
    Bound {
        transaction: Box<Transaction>,
        failed: Vec<FailedBind>,
    },
    /// An eviction was answered.
    Evicted(Box<Eviction>, EvictionOutcome),
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
            at_work.carry_out(&mut frame);
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
        let writers = StatusWriters::default();
        for writer in writers.all() {
            frame.spawn(writer.clone().run(executor.clone()));
        }
        frame.spawn(options.conf.clone().follow(conf_text, frame.sink(), News::Conf));
        let at_work = Loop {
            core: SchedulerCore::new(
                conf,
                CoreOptions {
                    engine: options.engine,
                    gang_grace: options.gang_grace,
                },
            ),
            writers,
            mirror: Mirror::new(options.audit_every),
            eviction_slots: eviction_slots(),
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
    core: SchedulerCore,
    writers: StatusWriters,
    mirror: Mirror,
    eviction_slots: Arc<Semaphore>,
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
        let wait = self.core.next_wake().map(|at| at.duration_since(now));
        let next = wait.and_then(|wait| Duration::try_from(wait.max(jiff::SignedDuration::ZERO)).ok());
        next.unwrap_or(self.period_max).clamp(NAP_MIN, self.period_max)
    }

    /// Where cycles take long and news keep coming, lets some more come before the next one.
    async fn breathe(&mut self, frame: &mut Frame<News>) -> Result<(), PartFailed> {
        let (ended, took) = self.last_cycle;
        let rest = (ended + took.min(BREATH_MAX)).saturating_duration_since(Instant::now());
        if rest >= NAP_MIN && self.core.needs_cycle() {
            tokio::time::sleep(rest).await;
            frame.gather(Duration::ZERO, |news| self.take_in(news)).await?;
        }
        Ok(())
    }

    /// Lets what is under way come to an end, and what was decided be told. Events are a courtesy: they are not waited for.
    async fn retire(&mut self, frame: &mut Frame<News>) -> Result<bool, PartFailed> {
        let writers = self.writers.clone();
        let is_idle = move || writers.is_idle();
        let all_ended = frame.drain(RETIRE_MAX, |news| self.take_in(news), is_idle).await?;
        self.carry_out(frame); // events and metrics of the last answers; nothing is decided any more
        Ok(all_ended)
    }

    fn take_in(&mut self, news: News) {
        let now = Timestamp::now();
        // What a watch shows is compared with what was written: answers come first.
        self.pass_on_answers(now);
        match news {
            News::Node(event) => {
                self.mirror.node(&event);
                self.observe(&event, SchedulerInput::Node, now);
            }
            News::Pod(event) => {
                self.mirror.pod(&event);
                self.observe(&event, SchedulerInput::Pod, now);
            }
            News::PodGroup(FeedEvent::Upsert(group)) if self.core.is_foreign(&group) => {}
            News::PodGroup(event) => {
                self.mirror.group(&event);
                self.observe(&event, SchedulerInput::PodGroup, now);
            }
            News::Queue(event) => self.observe(&event, SchedulerInput::Queue, now),
            News::Fact(event) => {
                if let Some(event) = event {
                    self.core.observe(SchedulerInput::Fact(&event), now);
                }
            }
            News::Bound { transaction, failed } => self.binds_answered(&transaction, &failed, now),
            News::Evicted(eviction, outcome) => self.eviction_answered(&eviction, &outcome, now),
            News::Conf(conf) => self.reconfigure(conf, now),
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
                let (engine, plan) = (self.core.engine(), self.core.plan());
                let numbers = Numbers::of(engine, plan, self.writers.backlog(), self.core.unreported_pod_count());
                // Whoever asked may have gone away.
                let _gone = answer.send(numbers);
            }
        }
    }

    /// Passes a watch event on to the core.
    fn observe<'e, K>(
        &mut self,
        event: &'e FeedEvent<K>,
        input: impl Fn(ObjectEvent<'e, K>) -> SchedulerInput<'e>,
        now: Timestamp,
    ) {
        match event {
            FeedEvent::Upsert(object) => self.core.observe(input(ObjectEvent::Applied(object)), now),
            FeedEvent::Delete { key, uid } => self.core.observe(input(ObjectEvent::Deleted { key, uid }), now),
            FeedEvent::Synced => {}
        }
    }

    fn binds_answered(&mut self, transaction: &Transaction, failed: &[FailedBind], now: Timestamp) {
        if let Some(first) = failed.first() {
            tracing::warn!(
                pod = &*first.bind.pod,
                error = first.message,
                failed = failed.len(),
                "scheduler: bind failed"
            );
        }
        self.core
            .observe(SchedulerInput::BindsAnswered { transaction, failed }, now);
    }

    fn eviction_answered(&mut self, eviction: &Eviction, outcome: &EvictionOutcome, now: Timestamp) {
        match outcome {
            EvictionOutcome::Evicted => {}
            EvictionOutcome::Blocked(error) | EvictionOutcome::Failed(error) => {
                tracing::warn!(pod = &*eviction.pod, error, "scheduler: eviction refused");
            }
            EvictionOutcome::Unknown(error) => {
                tracing::warn!(
                    pod = &*eviction.pod,
                    error,
                    "scheduler: the outcome of an eviction is unknown"
                );
            }
        }
        self.core
            .observe(SchedulerInput::EvictionAnswered { eviction, outcome }, now);
    }

    /// Puts a new configuration in force; a bad one leaves the old one as it is.
    fn reconfigure(&mut self, conf: Result<Conf, ConfTrouble>, now: Timestamp) {
        match conf {
            Ok(conf) => {
                announce(&conf, &self.metrics);
                self.metrics.reloaded("applied");
                tracing::info!(actions = ?conf.actions, "a new scheduler configuration is in force");
                self.core.observe(SchedulerInput::ConfigurationChanged(conf), now);
            }
            Err(trouble) => {
                let message = format!("{trouble}; the former configuration stays in force");
                tracing::error!("{message}");
                self.metrics.conf_good.set(0);
                self.metrics.reloaded("refused");
                self.core
                    .observe(SchedulerInput::ConfigurationRejected { message: &message }, now);
            }
        }
    }
}
