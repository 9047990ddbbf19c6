//! The live scheduler: watches feed the engine, a change wakes a cycle, the plan is carried out.

mod narrate;

use std::sync::Arc;
use std::time::Duration;

use basalt_api::podgroup::PodGroup;
use basalt_api::queue::Queue;
use basalt_api::slim;
use basalt_controllers::Target;
use basalt_engine::facts::{Event, NodeFacts, PodFacts, PodGroupFacts, PriorityClassFacts, QueueFacts};
use basalt_engine::plan::{Bind, Plan, Transaction};
use basalt_engine::{Conf, Engine, Options as EngineOptions};
use jiff::Timestamp;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use kube::Client;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::binder::Binder;
use super::executor::Executor;
use super::feed::{self, FeedEvent, ObjectKey};
use narrate::{Narrator, Outlets};

/// News that may wait between the watches and the loop.
const NEWS_MAX: usize = 8_192;
/// News taken in before a cycle at most, so that a storm cannot starve scheduling.
const NEWS_PER_CYCLE_MAX: usize = 50_000;
/// Queues' numbers and reasons change with every cycle; people need them a few times a second.
const NUMBERS_PAUSE: Duration = Duration::from_millis(200);

/// How the scheduler runs.
#[derive(Debug, Clone)]
pub struct SchedulerOptions {
    /// Volcano's configuration.
    pub conf: Conf,
    /// Names of schedulers that are ours, and limits.
    pub engine: EngineOptions,
    /// The longest time between two cycles, with or without news.
    pub period_max: Duration,
    /// Breaks ties; the same seed gives the same plan.
    pub seed: u64,
}

enum News {
    Node(FeedEvent<slim::Node>),
    Pod(FeedEvent<slim::Pod>),
    PodGroup(FeedEvent<PodGroup>),
    Queue(FeedEvent<Queue>),
    PriorityClass(FeedEvent<PriorityClass>),
    NotBound(Vec<Bind>),
    NotWritten(Target),
}

/// The kinds that must have been listed once before anything is decided.
#[derive(Default)]
struct Synced {
    nodes: bool,
    pods: bool,
    pod_groups: bool,
    queues: bool,
    priority_classes: bool,
}

impl Synced {
    fn all(&self) -> bool {
        self.nodes && self.pods && self.pod_groups && self.queues && self.priority_classes
    }
}

/// Reads a configuration, or takes the built-in one; what it does not understand is said in the log.
pub fn configuration(text: Option<&str>) -> Result<Conf, basalt_engine::ConfError> {
    let conf = text.map_or_else(|| Ok(Conf::embedded()), Conf::parse)?;
    // The built-in one names what is still to come on purpose: no news for its user.
    if text.is_some() {
        conf.warnings
            .iter()
            .for_each(|warning| tracing::warn!("scheduler configuration: {warning}"));
    }
    Ok(conf)
}

/// Schedules until the task is dropped; returns only on a failure at the start.
pub async fn run(client: Client, options: SchedulerOptions) -> anyhow::Result<()> {
    let binder = Binder::connect(client.clone()).await?;
    let executor = Executor::new(client.clone(), "volcano");
    let (sink, mut news) = mpsc::channel(NEWS_MAX);
    let mut tasks = JoinSet::new();
    feed::follow(&mut tasks, &client, &sink, News::Node);
    feed::follow(&mut tasks, &client, &sink, News::Pod);
    feed::follow(&mut tasks, &client, &sink, News::PodGroup);
    feed::follow(&mut tasks, &client, &sink, News::Queue);
    feed::follow(&mut tasks, &client, &sink, News::PriorityClass);
    let outlets = Outlets::default();
    let lost = |sink: mpsc::Sender<News>| {
        move |target| {
            // A full channel means that news is coming anyway; the next of this group shows what stands.
            let _ = sink.try_send(News::NotWritten(target));
        }
    };
    tasks.spawn(
        outlets
            .groups
            .clone()
            .run(executor.clone(), Duration::ZERO, lost(sink.clone())),
    );
    tasks.spawn(outlets.queues.clone().run(executor.clone(), NUMBERS_PAUSE, drop));
    tasks.spawn(outlets.events.clone().run(executor, NUMBERS_PAUSE, drop));

    let mut scheduler = Scheduler {
        engine: Engine::new(options.conf, options.engine),
        synced: Synced::default(),
        narrator: Narrator::new(outlets),
        binder,
        sink,
        seed: options.seed,
    };
    loop {
        let first = tokio::time::timeout(options.period_max, news.recv()).await;
        if let Ok(Some(first)) = first {
            scheduler.take_in(first);
        }
        for _ in 0..NEWS_PER_CYCLE_MAX {
            let Ok(more) = news.try_recv() else { break };
            scheduler.take_in(more);
        }
        if scheduler.synced.all() {
            scheduler.cycle(&mut tasks);
        }
        super::reap(&mut tasks)?;
    }
}

struct Scheduler {
    engine: Engine,
    synced: Synced,
    narrator: Narrator,
    binder: Binder,
    sink: mpsc::Sender<News>,
    seed: u64,
}

impl Scheduler {
    fn take_in(&mut self, news: News) {
        let event = match news {
            News::Node(event) => translate(
                event,
                &mut self.synced.nodes,
                |node: &slim::Node| Event::Node(NodeFacts::from(node)),
                |key, uid| Event::NodeGone {
                    name: key.name.into(),
                    uid: Some(uid),
                },
            ),
            News::Pod(event) => translate(
                event,
                &mut self.synced.pods,
                |pod: &slim::Pod| Event::Pod(PodFacts::from(pod)),
                |key, uid| Event::PodGone {
                    key: key.to_string().into(),
                    uid: Some(uid),
                },
            ),
            News::PodGroup(event) => {
                self.narrator.observe(&event);
                translate(
                    event,
                    &mut self.synced.pod_groups,
                    |group: &PodGroup| Event::PodGroup(PodGroupFacts::from(group)),
                    |key, uid| Event::PodGroupGone {
                        key: key.to_string().into(),
                        uid: Some(uid),
                    },
                )
            }
            News::Queue(event) => translate(
                event,
                &mut self.synced.queues,
                |queue: &Queue| Event::Queue(QueueFacts::from(queue)),
                |key, uid| Event::QueueGone {
                    name: key.name.into(),
                    uid: Some(uid),
                },
            ),
            News::PriorityClass(event) => translate(
                event,
                &mut self.synced.priority_classes,
                |class: &PriorityClass| Event::PriorityClass(PriorityClassFacts::from(class)),
                |key, uid| Event::PriorityClassGone {
                    name: key.name.into(),
                    uid: Some(uid),
                },
            ),
            News::NotWritten(target) => {
                let key = format!("{}/{}", target.namespace, target.name);
                self.narrator.unsaid(&key);
                self.engine.phase_failed(&key);
                None
            }
            News::NotBound(binds) => {
                for bind in binds {
                    self.engine.bind_failed(&bind.pod, &bind.uid);
                }
                None
            }
        };
        if let Some(event) = event {
            self.engine.apply(&event);
        }
    }

    fn cycle(&mut self, tasks: &mut JoinSet<()>) {
        let now = Timestamp::now();
        let plan: Plan = self.engine.cycle(now.as_millisecond(), self.seed);
        self.narrator.tell(&plan, now);
        for transaction in plan.transactions {
            if !transaction.binds.is_empty() {
                tasks.spawn(carry_out(self.binder.clone(), transaction, self.sink.clone()));
            }
        }
    }
}

/// Binds, and reports back what certainly did not happen, so that the engine frees the places it holds for it. Where
/// the outcome is unknown the places stay held until the watch shows it, or their time runs out.
async fn carry_out(binder: Binder, transaction: Transaction, sink: mpsc::Sender<News>) {
    let failed = binder.bind(&transaction).await;
    let Some(first) = failed.first() else { return };
    tracing::warn!(
        pod = &*first.bind.pod,
        why = first.why,
        count = failed.len(),
        "not bound"
    );
    let refused = failed
        .into_iter()
        .filter(|failure| failure.certain)
        .map(|failure| failure.bind)
        .collect();
    // The loop is gone only when the whole system stops.
    let _ = sink.send(News::NotBound(refused)).await;
}

/// Turns a watch event into the engine's.
fn translate<K: kube::Resource>(
    event: FeedEvent<K>,
    synced: &mut bool,
    upsert: impl Fn(&K) -> Event,
    gone: impl Fn(ObjectKey, Arc<str>) -> Event,
) -> Option<Event> {
    match event {
        FeedEvent::Upsert(object) => Some(upsert(&object)),
        FeedEvent::Delete { key, uid } => Some(gone(key, uid.into())),
        FeedEvent::Synced => {
            *synced = true;
            None
        }
    }
}
