//! The live controllers: watches feed a world, what changed is looked at, and the executor writes what they ask for.

mod hands;
mod locks;
mod numbers;
mod steps;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use basalt_api::slim::{Node, Pod};
use basalt_api::{Command, Job, ObjectRef, PodGroup, Queue, WorkQueue, resource_kind};
use basalt_controllers::cache::Origin;
use basalt_controllers::companion::KINDS;
use basalt_controllers::world::{Work, World};
use basalt_controllers::{Change, EventType, Outcome};
use basalt_engine::Conf;
use http::Method;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::apps::v1::{DaemonSet, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::Job as BatchJob;
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, Secret, Service};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;

use crate::event_loop::{Frame, PartFailed};
use crate::leader_election::leader_gate::{Ended, Lead, Turn};
use crate::liveness::Vitals;
use crate::scheduler::ConfTrouble;
use crate::watch::feed::FeedEvent;
use crate::watch::metadata_only::Bare;
use crate::watch::resource_alias::OnlyMetadata;
use crate::write::coalescing::{Latest, Pace};
use crate::write::executor::{ExecuteError, Executor, Written};
use crate::write::writer::Writer;

use hands::{Hands, Load};
pub use locks::{ControllersOptions, RELOCK_PERIOD, prepare};
use locks::{Prepared, rules};
pub use numbers::Numbers;
use steps::{Step, steps};

/// Pause between two questions for the API groups.
const GROUPS_PAUSE: Duration = Duration::from_secs(1);
/// The loop looks up at least this often.
const IDLE_MAX: Duration = Duration::from_mins(1);
/// What is under way when the controllers are told to end may take so long.
const RETIRE_MAX: Duration = Duration::from_secs(8);

enum News {
    Job(FeedEvent<Job>),
    Pod(FeedEvent<Pod>),
    PodGroup(FeedEvent<PodGroup>),
    Queue(FeedEvent<Queue>),
    Command(FeedEvent<Command>),
    Node(FeedEvent<Node>),
    PriorityClass(FeedEvent<PriorityClass>),
    /// An object beside the pods of Jobs, of this kind.
    Beside(String, FeedEvent<ObjectMeta>),
    /// The scheduler's configuration file has changed.
    Conf(Result<Conf, ConfTrouble>),
    /// A controller of plain pods, and how many of them it wants.
    Owner(FeedEvent<(ObjectMeta, Option<i32>)>),
    /// Whether we lead may have changed.
    Standing,
    Done {
        work: Work,
        load: Load,
        /// It asked for more than that.
        more: bool,
        written: Vec<Written>,
        failure: Option<ExecuteError>,
    },
}

/// Of objects beside the pods only the metadata counts.
fn beside<K: Resource<DynamicType = ()>>(event: FeedEvent<K>) -> News {
    let event = event.map(|mut object| std::mem::take(object.meta_mut()));
    News::Beside(K::kind(&()).into_owned(), event)
}

/// Of controllers of plain pods, the metadata and how many pods they want, where they say so.
fn owner<K: Resource>(event: FeedEvent<K>, replicas: impl Fn(&K) -> Option<i32>) -> News {
    News::Owner(event.map(|mut object| {
        let replicas = replicas(&object);
        (std::mem::take(object.meta_mut()), replicas)
    }))
}

/// Follows the controllers of plain pods, on clusters that have such.
async fn follow_owners(frame: &mut Frame<News>, client: &Client) {
    let groups = groups(client).await;
    if groups.contains("apps") {
        frame.follow(client, |event: FeedEvent<ReplicaSet>| {
            owner(event, |set| set.spec.replicas)
        });
        frame.follow(client, |event: FeedEvent<StatefulSet>| {
            owner(event, |set| set.spec.replicas)
        });
        frame.follow_bare(client, |event: FeedEvent<Bare<DaemonSet>>| owner(event, |_| None));
    }
    if groups.contains("batch") {
        frame.follow_bare(client, |event: FeedEvent<Bare<BatchJob>>| owner(event, |_| None));
    }
}

/// The API groups of the cluster.
async fn groups(client: &Client) -> BTreeSet<String> {
    loop {
        match client.list_api_groups().await {
            Ok(known) => return known.groups.into_iter().map(|group| group.name).collect(),
            Err(error) => tracing::warn!(%error, "cannot ask for the API groups, will try again"),
        }
        tokio::time::sleep(GROUPS_PAUSE).await;
    }
}

/// Controls until the task is dropped, the right to do so ends, or a part of it failed.
async fn run(prepared: Prepared, writer: Writer, numbers: Numbers) -> Result<Ended, PartFailed> {
    let mut lead = Lead::new(writer.tenure());
    let mut frame = Frame::default();
    let vitals = Arc::new(Vitals::new(IDLE_MAX, frame.watches()));
    numbers.begin(&vitals);
    let mut controllers = begin(prepared, writer, numbers, &mut frame).await;
    loop {
        vitals.beat();
        let patience = lead.patience(&frame, || controllers.patience());
        frame.gather(patience, |news| controllers.take_in(news)).await?;
        vitals.lacks(frame.missing());
        match lead.turn(&mut frame) {
            Turn::Wait => {}
            Turn::Deposed => return Ok(Ended::Deposed),
            Turn::Retire => {
                let all_ended = frame
                    .drain(RETIRE_MAX, |news| controllers.take_in(news), || true)
                    .await?;
                return Ok(Ended::told(all_ended));
            }
            Turn::Decide => {
                controllers.hand_out(&mut frame);
                controllers.count();
            }
        }
    }
}

/// Starts the watches and the outlets.
async fn begin(prepared: Prepared, writer: Writer, numbers: Numbers, frame: &mut Frame<News>) -> Controllers {
    let client = writer.client().clone();
    frame.heed(writer.tenure(), || News::Standing);
    frame.follow(&client, News::Job);
    frame.follow(&client, News::Pod);
    frame.follow(&client, News::PodGroup);
    frame.follow(&client, News::Queue);
    frame.follow(&client, News::Command);
    frame.follow(&client, News::Node);
    frame.follow(&client, News::PriorityClass);
    frame.follow_bare(&client, beside::<Bare<PersistentVolumeClaim>>);
    frame.follow_bare(&client, beside::<Bare<Service>>);
    frame.follow_bare(&client, beside::<Bare<ConfigMap>>);
    frame.follow_bare(&client, beside::<Bare<Secret>>);
    frame.follow_bare(&client, beside::<Bare<NetworkPolicy>>);
    follow_owners(frame, &client).await;
    let (options, text) = (prepared.options, prepared.text);
    frame.spawn(options.conf.follow(text, frame.sink(), News::Conf));
    let period = SignedDuration::try_from(options.relock_period).unwrap_or(SignedDuration::MAX);
    let mut world = World::new(options.schedulers)
        .with_entropy(rand::random())
        .with_relock_period(period);
    // Nothing is known yet, so there is nothing to look at.
    world.set_reserving(rules(&prepared.conf));
    let mut controllers = Controllers {
        world,
        work_queue: WorkQueue::default(),
        executor: Executor::new(writer, "vc-controller-manager"),
        events: Latest::new(Pace::EVENTS),
        hands: Hands::default(),
        numbers,
        requeued: true,
    };
    frame.spawn(controllers.events.clone().run(controllers.executor.clone()));
    controllers.work_queue.add(Work::StandardQueues, Timestamp::UNIX_EPOCH);
    controllers
}

struct Controllers {
    world: World,
    work_queue: WorkQueue<Work>,
    executor: Executor,
    events: Latest,
    hands: Hands<Work>,
    numbers: Numbers,
    /// Queues have changed since their reservations were counted.
    requeued: bool,
}

impl Controllers {
    /// How long the loop may sleep.
    fn patience(&self) -> Duration {
        if !self.hands.is_free() {
            return IDLE_MAX; // only news can bring us on
        }
        let due = self.work_queue.next_due().map(|at| at.duration_since(Timestamp::now()));
        due.map_or(IDLE_MAX, |wait| {
            Duration::try_from(wait).unwrap_or(Duration::ZERO).min(IDLE_MAX)
        })
    }

    fn take_in(&mut self, news: News) {
        let world = &mut self.world;
        self.requeued |= matches!(news, News::Queue(_));
        let work = match news {
            News::Conf(Ok(conf)) => world.set_reserving(rules(&conf)),
            News::Conf(Err(trouble)) => {
                tracing::warn!("{trouble}; what it said before stays in force");
                Vec::new()
            }
            News::Job(FeedEvent::Upsert(job)) => world.upsert_job(*job, Origin::Watch),
            News::Job(FeedEvent::Delete { key, uid }) => {
                let work = world.remove_job(&key, &uid);
                if world.job_view(&key).is_none() {
                    // No later incarnation is there, and nobody waits for this one.
                    let work = Work::Job(key);
                    self.work_queue.forget(&work);
                    self.hands.looks_at(&work);
                }
                work
            }
            News::Pod(FeedEvent::Upsert(pod)) => world.upsert_pod(*pod, Origin::Watch),
            News::Pod(FeedEvent::Delete { key, uid }) => world.remove_pod(&key, &uid),
            News::PodGroup(FeedEvent::Upsert(group)) => world.upsert_group(*group, Origin::Watch),
            News::PodGroup(FeedEvent::Delete { key, uid }) => world.remove_group(&key, &uid),
            News::Queue(FeedEvent::Upsert(queue)) => world.upsert_queue(*queue, Origin::Watch),
            News::Queue(FeedEvent::Delete { key, uid }) => world.remove_queue(&key, &uid),
            News::Command(FeedEvent::Upsert(command)) => world.upsert_command(*command, Origin::Watch),
            News::Command(FeedEvent::Delete { key, uid }) => world.remove_command(&key, &uid),
            News::Node(FeedEvent::Upsert(node)) => world.upsert_node(&node),
            News::Node(FeedEvent::Delete { key, .. }) => world.remove_node(&key.name),
            News::PriorityClass(FeedEvent::Upsert(class)) => {
                world.set_priority(class.name_any(), class.value.unwrap_or_default());
                Vec::new()
            }
            News::PriorityClass(FeedEvent::Delete { key, .. }) => {
                world.remove_priority(&key.name);
                Vec::new()
            }
            News::Beside(kind, FeedEvent::Upsert(meta)) => world.upsert_companion(&kind, &meta, Origin::Watch),
            News::Beside(kind, FeedEvent::Delete { key, uid }) => world.remove_companion(&kind, &key, &uid),
            News::Owner(FeedEvent::Upsert(owner)) => world.upsert_owner(&owner.0, owner.1),
            News::Owner(FeedEvent::Delete { uid, .. }) => {
                world.remove_owner(&uid);
                Vec::new()
            }
            // What only our own writes have told of, and a whole report does not name, is gone.
            News::Beside(kind, FeedEvent::Synced) => world.forget_unseen_companions(&kind),
            News::Job(FeedEvent::Synced) => world.forget_unseen_jobs(),
            News::Pod(FeedEvent::Synced) => world.forget_unseen_pods(),
            News::PodGroup(FeedEvent::Synced) => world.forget_unseen_groups(),
            News::Queue(FeedEvent::Synced) => world.forget_unseen_queues(),
            // Of these we write none, so the watch is all that tells of them.
            News::Command(FeedEvent::Synced)
            | News::Node(FeedEvent::Synced)
            | News::Owner(FeedEvent::Synced)
            | News::PriorityClass(FeedEvent::Synced)
            | News::Standing => Vec::new(),
            News::Done {
                work,
                load,
                more,
                written,
                failure,
            } => {
                self.hands.free(load);
                if more && failure.is_none() {
                    self.work_queue.add(work.clone(), Timestamp::now());
                }
                return self.finish(work, written, failure.as_ref());
            }
        };
        self.ask(work);
    }

    fn ask(&mut self, work: Vec<Work>) {
        let now = Timestamp::now();
        for work in work {
            let at = now.saturating_add(self.world.pause(&work)).unwrap_or(now);
            self.work_queue.add(work, at);
        }
    }

    /// Hands out what is due, as long as hands are free.
    fn hand_out(&mut self, frame: &mut Frame<News>) {
        while self.hands.is_free() {
            let now = Timestamp::now();
            if let Some(waited) = self.hands.next() {
                self.work_queue.add(waited, now);
            }
            let Some(work) = self.work_queue.take(now) else { return };
            let called = self.hands.looks_at(&work);
            let outcome = self.world.look_at(&work, now);
            self.numbers.looked.inc();
            if let Some(at) = outcome.wake_at {
                self.work_queue.add(work.clone(), at);
            }
            let (load, queues) = (load(&outcome), outcome.queues.into_iter());
            self.ask(queues.map(Work::Queue).collect());
            if outcome.changes.is_empty() {
                self.work_queue.done(work, false, now);
                continue;
            }
            if !self.hands.take(&work, load, called) {
                self.work_queue.put_back(&work);
                continue;
            }
            let (executor, sink, outlet) = (self.executor.clone(), frame.sink(), self.events.clone());
            let mut changes = outcome.changes;
            let more = load == Load::Heavy && keep_part(&mut changes);
            let steps = steps(changes);
            frame.work(async move {
                let (mut written, mut failure) = (Vec::new(), None);
                for Step { changes, events } in steps {
                    let (more, failed) = executor.run(changes).await;
                    written.extend(more);
                    failure = failed;
                    if failure.is_some() {
                        break;
                    }
                    tell(&outlet, events);
                }
                // The loop is gone only when the whole system stops.
                let done = News::Done {
                    work,
                    load,
                    more,
                    written,
                    failure,
                };
                let _alive = sink.send(done).await;
            });
        }
    }

    fn count(&mut self) {
        let gauge = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
        self.numbers.ready.set(1);
        self.numbers
            .waiting
            .set(gauge(self.work_queue.len().saturating_add(self.hands.waiting())));
        self.numbers.under_way.set(gauge(self.hands.busy()));
        if std::mem::take(&mut self.requeued) {
            self.numbers.locks.count(self.world.reservations());
        }
    }

    /// What we wrote is known at once, without waiting for the watch.
    fn finish(&mut self, work: Work, written: Vec<Written>, failure: Option<&ExecuteError>) {
        self.numbers.written.inc_by(written.len() as u64);
        for written in written {
            let news = self.learn(&written);
            self.ask(news);
        }
        match failure {
            Some(ExecuteError::Outdated { target, .. }) => tracing::debug!(?target, "the view was old; deciding again"),
            Some(error) => {
                self.numbers.failed.inc();
                tell(&self.events, self.complaint(&work, error).into_iter().collect());
                tracing::warn!(
                    error = error as &dyn std::error::Error,
                    "a change failed; deciding again"
                );
            }
            None => {}
        }
        self.work_queue.done(work, failure.is_some(), Timestamp::now());
    }

    /// What people see at a Job whose objects the server refuses: a quota that is used up, say.
    fn complaint(&self, work: &Work, error: &ExecuteError) -> Option<Change> {
        let (Work::Job(key), ExecuteError::Refused { target, verb, source }) = (work, error) else {
            return None;
        };
        let kube::Error::Api(status) = &**source else {
            return None; // nobody can be told while the server does not answer
        };
        let job = self.world.job_view(key)?.job;
        Some(Change::Event {
            regarding: ObjectRef::new(resource_kind::JOB, &key.namespace, &key.name),
            uid: job.metadata.uid.clone()?,
            reason: reason(&target.kind, verb).to_owned(),
            message: format!("{} {} was refused: {}", target.kind, target.name, status.message),
            event_type: EventType::Warning,
        })
    }

    fn learn(&mut self, written: &Written) -> Vec<Work> {
        self.requeued |= written.target.kind == "Queue";
        let world = &mut self.world;
        match &*written.target.kind {
            "Job" => parse(written).map(|job| world.upsert_job(job, Origin::Answer)),
            "Pod" => parse(written).map(|pod| world.upsert_pod(pod, Origin::Answer)),
            "PodGroup" => parse(written).map(|group| world.upsert_group(group, Origin::Answer)),
            "Queue" => parse(written).map(|queue| world.upsert_queue(queue, Origin::Answer)),
            kind if KINDS.contains(&kind) => {
                parse(written).map(|OnlyMetadata { metadata }| world.upsert_companion(kind, &metadata, Origin::Answer))
            }
            _ => None,
        }
        .unwrap_or_default()
    }
}

/// How much an outcome asks for.
fn load(outcome: &Outcome) -> Load {
    let creates = outcome
        .changes
        .iter()
        .filter(|change| matches!(change, Change::Create { .. }));
    if outcome.unhurried {
        Load::Unhurried
    } else if creates.count() >= Load::HEAVY {
        Load::Heavy
    } else {
        Load::Light
    }
}

/// Keeps what one part of a heavy load may ask for; says whether there was more. What is left out is asked for again, as
/// after a failure.
fn keep_part(changes: &mut Vec<Change>) -> bool {
    let all = changes.iter().enumerate();
    let mut creates = all.filter(|(_, change)| matches!(change, Change::Create { .. }));
    let first_left_out = creates.nth(Load::PART).map(|(index, _)| index);
    if let Some(index) = first_left_out {
        changes.truncate(index);
    }
    first_left_out.is_some()
}

/// The word for a refusal.
fn reason(kind: &str, verb: &Method) -> &'static str {
    match kind {
        "Pod" if *verb == Method::DELETE => "FailedDelete",
        "Pod" => "FailedCreate",
        "PodGroup" => "PodGroupError",
        "PersistentVolumeClaim" => "PVCError",
        "Job" => "JobStatusError",
        _ => "PluginError",
    }
}

/// Tells of what was done: of one thing about one object only the newest.
fn tell(outlet: &Latest, events: Vec<Change>) {
    for event in events {
        if let Change::Event { regarding, reason, .. } = &event {
            let mut about = regarding.clone();
            about.kind = format!("{} {reason}", about.kind).into();
            outlet.put(about, event);
        }
    }
}

/// The answer as an object; an answer of another form teaches nothing, and the watch will bring the object.
fn parse<K: DeserializeOwned>(written: &Written) -> Option<K> {
    serde_json::from_str(&written.body).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `c` is a create, `d` a deletion; what is the load, and what is left of it?
    #[test]
    fn a_large_load_is_carried_in_parts() {
        let change = |word: char| {
            let target = ObjectRef::new(resource_kind::POD, "n", "p");
            match word {
                'c' => Change::Create {
                    target,
                    object: serde_json::Value::Null,
                },
                _ => Change::Delete {
                    target,
                    uid: String::new(),
                    resource_version: None,
                },
            }
        };
        let check = |words: &str, expected: (Load, bool, usize)| {
            let mut outcome = Outcome {
                changes: words.chars().map(change).collect(),
                ..Outcome::default()
            };
            let load = load(&outcome);
            let more = keep_part(&mut outcome.changes);
            assert_eq!((load, more, outcome.changes.len()), expected, "{}", words.len());
        };
        let creates = |count: usize| "c".repeat(count);
        check("", (Load::Light, false, 0));
        check(&"d".repeat(1_000), (Load::Light, false, 1_000));
        check(&creates(63), (Load::Light, false, 63));
        check(&creates(64), (Load::Heavy, false, 64));
        check(&(creates(512) + "d"), (Load::Heavy, false, 513));
        check(&format!("d{}d", creates(513)), (Load::Heavy, true, 513));
    }

    #[test]
    fn a_refusal_is_told_by_what_was_asked_for() {
        for (kind, verb, expected) in [
            ("Pod", Method::POST, "FailedCreate"),
            ("Pod", Method::DELETE, "FailedDelete"),
            ("PodGroup", Method::POST, "PodGroupError"),
            ("Secret", Method::POST, "PluginError"),
        ] {
            assert_eq!(reason(kind, &verb), expected, "{verb} {kind}");
        }
    }
}
