//! What every loop of the live system shares: watches that bring news, tasks at its side, and the moment from which
//! everything is known.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use kube::{Client, Resource};
use serde::de::DeserializeOwned;
use tokio::sync::{mpsc, watch};
use tokio::task::{JoinError, JoinSet};
use tokio::time::Instant;

use crate::leader_election::write_fence::Tenure;
use crate::watch::feed::{self, FeedEvent};
use crate::watch::interruptions::Watches;
use crate::watch::metadata_only::Bare;

/// News that may wait between the watches and the loop.
const NEWS_MAX: usize = 8_192;
/// News taken in at once at most, so that a storm cannot starve the work.
const NEWS_PER_ROUND_MAX: usize = 50_000;
/// Who waits for work to end looks up so often.
const DRAIN_LOOK: Duration = Duration::from_millis(10);

/// A task without which a loop would go on blind has panicked.
#[derive(Debug, thiserror::Error)]
#[error("a part of it failed")]
pub struct PartFailed(#[from] JoinError);

/// One piece of news on its way.
#[derive(Debug)]
pub(crate) struct Item<M> {
    news: M,
    /// The watch of this number has now reported everything that exists, since it was told so for the n-th time.
    complete: Option<(usize, u64)>,
}

/// Where news goes in.
#[derive(Debug)]
pub struct Sink<M>(mpsc::Sender<Item<M>>);

impl<M> Clone for Sink<M> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<M> Sink<M> {
    /// Hands in news, waiting for room; false: the loop is gone.
    pub async fn send(&self, news: M) -> bool {
        self.0.send(Item { news, complete: None }).await.is_ok()
    }

    /// Hands in news if there is room.
    pub fn try_send(&self, news: M) -> bool {
        self.0.try_send(Item { news, complete: None }).is_ok()
    }

    /// Hands in the news that watch `number` has reported everything.
    pub(crate) async fn send_complete(&self, news: M, number: usize, round: u64) -> bool {
        let complete = Some((number, round));
        self.0.send(Item { news, complete }).await.is_ok()
    }
}

/// The frame of a loop.
#[derive(Debug)]
pub struct Frame<M> {
    sink: mpsc::Sender<Item<M>>,
    news: mpsc::Receiver<Item<M>>,
    tasks: JoinSet<()>,
    /// The kinds that are followed.
    followed: Vec<String>,
    /// How often everything was to be listed anew.
    rounds: watch::Sender<u64>,
    /// One clone is held by every piece of work that has an end.
    under_way: Arc<()>,
    /// Watches that have not reported everything yet.
    incomplete: BTreeSet<usize>,
    watches: Arc<Watches>,
}

impl<M: Send + 'static> Default for Frame<M> {
    fn default() -> Self {
        let (sink, news) = mpsc::channel(NEWS_MAX);
        Self {
            sink,
            news,
            tasks: JoinSet::new(),
            followed: Vec::new(),
            rounds: watch::Sender::new(0),
            under_way: Arc::default(),
            incomplete: BTreeSet::new(),
            watches: Arc::default(),
        }
    }
}

impl<M: Send + 'static> Frame<M> {
    /// Follows all objects of a kind; `wrap` says what they are to the loop.
    pub fn follow<K>(&mut self, client: &Client, wrap: fn(FeedEvent<K>) -> M)
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + 'static,
    {
        self.post(client, false, wrap);
    }

    /// The same of a kind of which only the metadata counts.
    pub fn follow_bare<K>(&mut self, client: &Client, wrap: fn(FeedEvent<Bare<K>>) -> M)
    where
        K: Resource<DynamicType = ()> + 'static,
    {
        self.post(client, true, wrap);
    }

    fn post<K>(&mut self, client: &Client, bare: bool, wrap: fn(FeedEvent<K>) -> M)
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + 'static,
    {
        let number = self.followed.len();
        self.followed.push(K::kind(&()).into_owned());
        self.incomplete.insert(number);
        let post = feed::Post {
            sink: self.sink(),
            number,
            rounds: self.rounds.subscribe(),
            bare,
            watches: self.watches(),
        };
        self.tasks.spawn(feed::run(client.clone(), post, wrap));
    }

    /// Has everything listed anew; until that is done, the frame is not complete.
    pub fn renew(&mut self) {
        self.incomplete = (0..self.followed.len()).collect();
        self.rounds.send_modify(|round| *round += 1);
    }

    /// The kinds of which not everything is known.
    pub fn missing(&self) -> Vec<String> {
        let kinds = self.incomplete.iter().filter_map(|number| self.followed.get(*number));
        kinds.cloned().collect()
    }

    /// Turns every change of the standing into news, so that the loop wakes.
    pub fn heed(&mut self, tenure: &Tenure, news: fn() -> M) {
        let (mut changes, sink) = (tenure.changes(), self.sink());
        self.spawn(async move { while changes.changed().await.is_ok() && sink.send(news()).await {} });
    }

    /// How the watches fare.
    pub fn watches(&self) -> Arc<Watches> {
        Arc::clone(&self.watches)
    }

    /// Runs a task at the loop's side; if it panics, the loop ends.
    pub fn spawn(&mut self, task: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn(task);
    }

    /// The same for work that has an end.
    pub fn work(&mut self, task: impl Future<Output = ()> + Send + 'static) {
        let guard = Arc::clone(&self.under_way);
        self.spawn(async move {
            task.await;
            drop(guard);
        });
    }

    /// Waits until all work has ended and `rest` has nothing to do any more, at most `limit`; says whether it came to that.
    pub async fn drain(
        &mut self,
        limit: Duration,
        mut take: impl FnMut(M),
        rest: impl Fn() -> bool,
    ) -> Result<bool, PartFailed> {
        let end = Instant::now() + limit;
        loop {
            let all_ended = Arc::strong_count(&self.under_way) == 1 && rest();
            if all_ended || Instant::now() >= end {
                return Ok(all_ended);
            }
            self.gather(DRAIN_LOOK, &mut take).await?;
        }
    }

    /// Where others hand in news.
    pub fn sink(&self) -> Sink<M> {
        Sink(self.sink.clone())
    }

    /// Whether every kind has been reported whole at least once: before that, nothing may be decided.
    pub fn is_complete(&self) -> bool {
        self.incomplete.is_empty()
    }

    /// Waits for news, at most `patience`, and takes in all that is there.
    pub async fn gather(&mut self, patience: Duration, mut take: impl FnMut(M)) -> Result<(), PartFailed> {
        // The channel cannot end: we hold a sender ourselves.
        if let Ok(Some(first)) = tokio::time::timeout(patience, self.news.recv()).await {
            self.open(first, &mut take);
        }
        self.rest(take);
        while let Some(ended) = self.tasks.try_join_next() {
            ended?;
        }
        Ok(())
    }

    /// Takes in what is there already.
    pub fn rest(&mut self, mut take: impl FnMut(M)) {
        for _ in 0..NEWS_PER_ROUND_MAX {
            let Ok(item) = self.news.try_recv() else { break };
            self.open(item, &mut take);
        }
    }

    fn open(&mut self, item: Item<M>, take: &mut impl FnMut(M)) {
        take(item.news);
        if let Some((number, _)) = item.complete.filter(|(_, round)| *round == *self.rounds.borrow()) {
            self.incomplete.remove(&number);
        }
    }
}
