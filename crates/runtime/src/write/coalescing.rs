//! Writes of which only the newest matters, such as statuses: coalesced by object, sent a few at a time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use basalt_api::ObjectRef;
use basalt_controllers::Change;
use basalt_scheduler::StatusWriteOutcome;
use futures::stream::{self, StreamExt};
use kube::core::PartialObjectMeta;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::write::concurrency_limit::Limit;
use crate::write::executor::{ExecuteError, Executor};

/// Writes under way at the same time.
const IN_FLIGHT_MAX: usize = 32;
/// Pause after a failed write, so that a server in trouble is not hammered.
const RETRY_PAUSE: Duration = Duration::from_millis(500);

/// Who gives way to others goes on when they have been still for so long.
const QUIET: Duration = Duration::from_millis(100);

/// How writes leave.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    /// Wait after each news, so that bursts become one write.
    pub pause: Duration,
    /// Writes a second at most.
    pub per_second: u32,
    /// Objects that may wait; a write for one more is dropped.
    pub waiting_max: usize,
    /// Waits while others write, but no batch for longer than this.
    pub gives_way: Option<Duration>,
}

impl Pace {
    /// As fast as they come: for what somebody waits for.
    pub const AT_ONCE: Self = Self {
        pause: Duration::ZERO,
        per_second: u32::MAX,
        waiting_max: usize::MAX,
        gives_way: None,
    };

    /// Events are a courtesy: they come after what somebody waits for, so many a second, and in no endless line.
    pub const EVENTS: Self = Self {
        pause: Duration::from_millis(200),
        per_second: 200,
        waiting_max: 10_000,
        gives_way: Some(Duration::from_secs(10)),
    };

    /// As fast as they come, after a pause.
    pub const fn after(pause: Duration) -> Self {
        Self { pause, ..Self::AT_ONCE }
    }

    /// So many leave at once: a tenth of a second's worth.
    fn batch(self) -> usize {
        (self.per_second / 10).max(1) as usize
    }
}

#[derive(Default)]
struct Shared {
    waiting: Mutex<Waiting>,
    /// Whether answers were collected: the common case is that none were.
    has_answers: AtomicBool,
    news: Notify,
    answers: Notify,
}

#[derive(Default)]
struct Waiting {
    /// Writes that have not been sent.
    changes: BTreeMap<ObjectRef, QueuedWrite>,
    /// What has left and is not answered yet.
    under_way: BTreeSet<ObjectRef>,
    /// Answers that nobody has taken; collected only where somebody takes them.
    answers: Vec<WriteAnswer>,
    /// Writes that found no room.
    dropped: u64,
}

/// A write that has not been sent.
#[derive(Debug, Clone)]
struct QueuedWrite {
    /// When it may be sent.
    due: Instant,
    /// The number that its sender gave it.
    sequence: u64,
    change: Change,
}

/// The answer to a write, for its sender.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WriteAnswer {
    /// The object.
    pub target: ObjectRef,
    /// The number that the sender gave the write.
    pub sequence: u64,
    /// How the write ended.
    pub outcome: StatusWriteOutcome,
}

/// Takes writes and forgets those that a newer one for the same object replaces.
#[derive(Clone)]
pub struct Latest {
    shared: Arc<Shared>,
    pace: Pace,
    reports_answers: bool,
}

impl Latest {
    /// An outlet with nothing in it.
    pub fn new(pace: Pace) -> Self {
        Self {
            shared: Arc::default(),
            pace,
            reports_answers: false,
        }
    }

    /// The same, but its answers are collected until [`Latest::take_answers`] is called.
    #[must_use]
    pub fn reporting_answers(self) -> Self {
        Self {
            reports_answers: true,
            ..self
        }
    }

    /// Hands over a write; replaces an earlier one for the same object that has not left yet.
    pub fn put(&self, target: ObjectRef, change: Change) {
        self.put_later(target, 0, change, Duration::ZERO);
    }

    /// The same for a write with a number that may wait for so long, because another one may well come for the same object;
    /// but what it replaces leaves no later than it would have.
    pub fn put_later(&self, target: ObjectRef, sequence: u64, change: Change, wait: Duration) {
        {
            let mut waiting = self.lock();
            if waiting.changes.len() >= self.pace.waiting_max && !waiting.changes.contains_key(&target) {
                waiting.dropped += 1;
                return;
            }
            let due = Instant::now() + wait;
            let due = waiting.changes.get(&target).map_or(due, |queued| due.min(queued.due));
            let queued = QueuedWrite { due, sequence, change };
            waiting.changes.insert(target, queued);
        }
        self.shared.news.notify_one();
    }

    /// Whether a write for this object has not been answered yet.
    pub fn is_pending(&self, target: &ObjectRef) -> bool {
        let waiting = self.lock();
        waiting.changes.contains_key(target) || waiting.under_way.contains(target)
    }

    /// Returns the answers since the last call, in order.
    pub fn take_answers(&self) -> Vec<WriteAnswer> {
        if !self.shared.has_answers.swap(false, Ordering::AcqRel) {
            return Vec::new();
        }
        std::mem::take(&mut self.lock().answers)
    }

    /// Whether nothing waits and nothing is under way.
    pub fn is_idle(&self) -> bool {
        let waiting = self.lock();
        waiting.changes.is_empty() && waiting.under_way.is_empty()
    }

    /// Takes back what has not left yet, and waits until what has left is answered: from then on nothing of what was handed
    /// over before reaches these objects.
    pub async fn silence(&self, targets: &[ObjectRef]) {
        loop {
            let answer = self.shared.answers.notified();
            tokio::pin!(answer);
            answer.as_mut().enable();
            // All of them: what is taken back in time need not be waited for.
            if targets.iter().filter(|target| self.withdraw(target)).count() == 0 {
                return;
            }
            answer.await;
        }
    }

    /// Takes back what has not left yet; says whether something is under way.
    pub fn withdraw(&self, target: &ObjectRef) -> bool {
        let mut waiting = self.lock();
        waiting.changes.remove(target);
        waiting.under_way.contains(target)
    }

    /// How many objects wait for their write, and how many writes were dropped.
    pub fn backlog(&self) -> (usize, u64) {
        let waiting = self.lock();
        (waiting.changes.len() + waiting.under_way.len(), waiting.dropped)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Waiting> {
        // A panic elsewhere leaves the map whole: every operation on it is one call.
        self.shared.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends what was handed over, for ever.
    pub async fn run(self, executor: Executor) {
        loop {
            self.until_due().await;
            if !self.pace.pause.is_zero() {
                tokio::time::sleep(self.pace.pause).await;
            }
            loop {
                self.give_way(executor.writer().limit()).await;
                let batch = self.take();
                if batch.is_empty() {
                    break;
                }
                let seconds = batch.len() as f64 / f64::from(self.pace.per_second);
                let next = Instant::now() + Duration::from_secs_f64(seconds);
                self.send_all(&executor, batch).await;
                tokio::time::sleep_until(next).await;
            }
        }
    }

    /// Waits until there is something that may leave, or there is news.
    async fn until_due(&self) {
        let due = self.lock().changes.values().map(|queued| queued.due).min();
        let news = self.shared.news.notified();
        match due {
            // Either way there is something to look at.
            Some(due) => drop(tokio::time::timeout_at(due, news).await),
            None => news.await,
        }
    }

    /// Waits until nobody else has written for a moment, or for as long as patience lasts.
    async fn give_way(&self, limit: &Limit) {
        let Some(patience) = self.pace.gives_way else { return };
        let is_busy = || limit.now().1 > 0;
        if !is_busy() {
            return;
        }
        let until = Instant::now() + patience;
        let mut quiet_since = None;
        while Instant::now() < until {
            tokio::time::sleep(QUIET / 5).await;
            let now = Instant::now();
            quiet_since = if is_busy() { None } else { quiet_since.or(Some(now)) };
            if quiet_since.is_some_and(|since| now.duration_since(since) >= QUIET) {
                return;
            }
        }
    }

    fn take(&self) -> BTreeMap<ObjectRef, QueuedWrite> {
        let (mut waiting, now, most) = (self.lock(), Instant::now(), self.pace.batch());
        let due = waiting.changes.extract_if(.., |_, queued| queued.due <= now).take(most);
        let batch: BTreeMap<ObjectRef, QueuedWrite> = due.collect();
        waiting.under_way = batch.keys().cloned().collect();
        batch
    }

    async fn send_all(&self, executor: &Executor, batch: BTreeMap<ObjectRef, QueuedWrite>) {
        let mut outcomes = stream::iter(batch)
            .map(|(target, queued)| send(executor.clone(), target, queued))
            .buffer_unordered(IN_FLIGHT_MAX);
        let mut trouble = false;
        while let Some((target, queued, outcome)) = outcomes.next().await {
            trouble |= outcome.is_none();
            self.answered(target, queued, outcome);
        }
        if trouble {
            tokio::time::sleep(RETRY_PAUSE).await;
        }
    }

    /// Takes note of an answer; without one the write is worth another try.
    fn answered(&self, target: ObjectRef, queued: QueuedWrite, outcome: Option<StatusWriteOutcome>) {
        {
            let mut waiting = self.lock();
            waiting.under_way.remove(&target);
            match outcome {
                // At once: while it waits for another try it can be seen, replaced and taken back like any other.
                None => {
                    let due = Instant::now();
                    waiting.changes.entry(target).or_insert(QueuedWrite { due, ..queued });
                }
                Some(outcome) if self.reports_answers => {
                    let sequence = queued.sequence;
                    waiting.answers.push(WriteAnswer {
                        target,
                        sequence,
                        outcome,
                    });
                    self.shared.has_answers.store(true, Ordering::Release);
                }
                Some(_) => {}
            }
        }
        self.shared.answers.notify_waiters();
    }
}

/// Sends one write; no outcome means that it is worth another try.
async fn send(
    executor: Executor,
    target: ObjectRef,
    queued: QueuedWrite,
) -> (ObjectRef, QueuedWrite, Option<StatusWriteOutcome>) {
    let (written, failure) = executor.run(vec![queued.change.clone()]).await;
    let outcome = match failure {
        None => Some(StatusWriteOutcome::Written {
            resource_version: written.first().and_then(|written| version(&written.body)),
        }),
        // Another incarnation or version: whoever decided will decide again.
        Some(ExecuteError::Outdated { .. }) => Some(StatusWriteOutcome::Rejected),
        Some(ExecuteError::Refused { source, .. }) if is_final(&source) => {
            tracing::warn!(object = ?target, error = &source as &dyn std::error::Error, "status refused");
            Some(StatusWriteOutcome::Rejected)
        }
        Some(error) => {
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                "status not written, will try again"
            );
            None
        }
    };
    (target, queued, outcome)
}

/// The version of an object as the server answered it.
fn version(body: &str) -> Option<u64> {
    let object: PartialObjectMeta = serde_json::from_str(body).ok()?;
    object.metadata.resource_version?.parse().ok()
}

/// Whether trying again would get the same answer.
fn is_final(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code < 500 && status.code != 429)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use basalt_api::resource_kind;
    use serde_json::json;

    use super::*;
    use crate::scripted_server::{self, Answer};
    use crate::write::writer::Writer;

    fn target() -> ObjectRef {
        ObjectRef::new(resource_kind::POD, "a", "p")
    }

    fn write() -> Change {
        Change::Patch {
            target: target(),
            subresource: Some("status".to_owned()),
            uid: None,
            resource_version: None,
            merge: json!({}),
        }
    }

    /// An outlet in operation, and how often its server was asked; it answers the n-th request with the n-th answer, and then
    /// with the last.
    fn outlet(answers: Vec<Answer>) -> (Latest, Arc<AtomicUsize>) {
        let asked = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&asked);
        let client = scripted_server::client(move |_, _| {
            let number = counted.fetch_add(1, Ordering::SeqCst).min(answers.len() - 1);
            answers[number].clone()
        });
        let outlet = Latest::new(Pace::AT_ONCE).reporting_answers();
        tokio::spawn(outlet.clone().run(Executor::new(client, "test")));
        (outlet, asked)
    }

    /// Others write for so many milliseconds, from the moment at which an event is handed over; when does it leave?
    async fn check_courtesy(busy_ms: u64, leaves_ms: std::ops::RangeInclusive<u128>) {
        let (left, mut told) = tokio::sync::mpsc::unbounded_channel();
        let client = scripted_server::client(move |_, _| {
            left.send(Instant::now()).expect("the test listens");
            object("7")
        });
        let writer = Writer::from(client);
        let (outlet, limit) = (Latest::new(Pace::EVENTS), Arc::clone(writer.limit()));
        tokio::spawn(outlet.clone().run(Executor::new(writer, "test")));
        let begun = Instant::now();
        outlet.put(target(), write());
        if busy_ms > 0 {
            let pass = limit.enter().await;
            tokio::time::sleep(Duration::from_millis(busy_ms)).await;
            drop(pass);
        }
        let after = told.recv().await.expect("it leaves").duration_since(begun).as_millis();
        assert!(leaves_ms.contains(&after), "{busy_ms}: {after}");
    }

    #[tokio::test(start_paused = true)]
    async fn events_leave_after_what_somebody_waits_for_but_not_too_late() {
        check_courtesy(0, 200..=210).await;
        check_courtesy(100, 200..=210).await;
        check_courtesy(1_000, 1_100..=1_150).await;
        check_courtesy(60_000, 10_200..=10_250).await;
    }

    /// Writes of one object are handed over after so many milliseconds, and may wait so long; when does the outlet write?
    async fn check_waits(handed_over: &[(u64, u64)], written: &[u64]) {
        let (outlet, _) = outlet(vec![object("7")]);
        let begun = Instant::now();
        let mut found = Vec::new();
        for passed in 0..1_000 {
            let since = || begun.elapsed().as_millis();
            assert_eq!(since(), passed);
            for (_, wait) in handed_over.iter().filter(|(at, _)| u128::from(*at) == passed) {
                outlet.put_later(target(), 0, write(), Duration::from_millis(*wait));
            }
            let waited = outlet.is_pending(&target());
            a_while().await;
            if waited && !outlet.is_pending(&target()) {
                found.push(u64::try_from(passed).expect("small"));
            }
        }
        assert_eq!(found, written, "{handed_over:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn what_can_wait_waits_for_more_but_not_for_ever() {
        check_waits(&[(0, 0)], &[0]).await;
        check_waits(&[(10, 500)], &[510]).await;
        check_waits(&[(10, 500), (400, 500), (505, 500)], &[510]).await;
        check_waits(&[(10, 500), (100, 0)], &[100]).await;
        check_waits(&[(10, 0), (100, 500), (700, 0)], &[10, 600, 700]).await;
    }

    fn object(version: &str) -> Answer {
        Answer::Object(json!({"metadata": {"name": "p", "resourceVersion": version}}))
    }

    async fn a_while() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }

    #[tokio::test(start_paused = true)]
    async fn answers_name_the_write_that_they_are_for() {
        let (outlet, _) = outlet(vec![
            object("7"),
            Answer::Refusal(500),
            Answer::Refusal(422),
            object("x"),
        ]);
        let answer = |sequence, outcome| WriteAnswer {
            target: target(),
            sequence,
            outcome,
        };
        let written = |resource_version| StatusWriteOutcome::Written { resource_version };
        for (sequence, outcome) in [
            (1, written(Some(7))),
            (2, StatusWriteOutcome::Rejected),
            (3, written(None)),
        ] {
            outlet.put_later(target(), sequence, write(), Duration::ZERO);
            assert!(outlet.take_answers().is_empty() && outlet.is_pending(&target()));
            tokio::time::sleep(Duration::from_secs(1)).await;
            assert_eq!(outlet.take_answers(), [answer(sequence, outcome)]);
            assert!(outlet.take_answers().is_empty(), "each answer is given once");
        }
    }

    /// A write is handed over, and silenced at once or when it has left; returns how often the server is asked in all.
    async fn check_silence(answers: Vec<Answer>, has_left: bool, waits: Duration, expected: usize) {
        let text = format!("{answers:?} {has_left}");
        let (outlet, asked) = outlet(answers);
        outlet.put(target(), write());
        if has_left {
            a_while().await;
        }
        let begun = Instant::now();
        outlet.silence(&[target()]).await;
        assert_eq!(begun.elapsed().as_secs(), waits.as_secs(), "{text}");
        tokio::time::sleep(Duration::from_mins(1)).await;
        assert_eq!(asked.load(Ordering::SeqCst), expected, "{text}");
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_reaches_an_object_that_was_silenced() {
        let at_once = Duration::ZERO;
        check_silence(vec![object("7")], false, at_once, 0).await;
        check_silence(vec![object("7")], true, at_once, 1).await;
        // Tried again in half a second, if nobody objects.
        check_silence(vec![Answer::Refusal(500), object("7")], true, at_once, 1).await;
        // One that is not answered is waited for.
        check_silence(vec![Answer::Silence, object("7")], true, Duration::from_secs(9), 1).await;
    }
}
