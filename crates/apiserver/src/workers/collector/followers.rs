//! One task per resource that forwards its changes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures::FutureExt;
use tokio::sync::{mpsc, watch};
use tokio::task::{AbortHandle, JoinSet};

use crate::http::{Server, Verbs};
use crate::workers::feed::{Change, Feed};

/// Events never own or are owned, and there are many of them.
const IGNORED: &str = "events";

/// What a follower tells.
pub(super) enum Seen {
    /// A change of its resource.
    Changed(Arc<str>, Change),
    /// It has told everything that there was when this round was asked for.
    CaughtUp(Arc<str>, u64),
}

/// The followers of all stored resources.
pub(super) struct Followers {
    sender: mpsc::UnboundedSender<Seen>,
    running: BTreeMap<Arc<str>, AbortHandle>,
    /// Those whose first list is still to come.
    unlisted: BTreeSet<Arc<str>>,
    /// Those that have not caught up with the last round.
    behind: BTreeSet<Arc<str>>,
    round: watch::Sender<u64>,
    tasks: JoinSet<()>,
}

impl Followers {
    pub(super) fn new() -> (Followers, mpsc::UnboundedReceiver<Seen>) {
        let (sender, seen) = mpsc::unbounded_channel();
        let followers = Followers {
            sender,
            running: BTreeMap::new(),
            unlisted: BTreeSet::new(),
            behind: BTreeSet::new(),
            round: watch::Sender::new(0),
            tasks: JoinSet::new(),
        };
        (followers, seen)
    }

    /// Follows what is served now, and nothing else.
    pub(super) fn follow(&mut self, server: &Server) {
        let registry = server.registry();
        let stored = registry
            .kinds()
            .filter(|kind| kind.verbs == Verbs::All && &*kind.resource != IGNORED);
        let wanted: BTreeSet<Arc<str>> = stored.map(|kind| kind.resource.clone()).collect();
        self.running.retain(|resource, task| {
            let keep = wanted.contains(resource);
            if !keep {
                task.abort();
            }
            keep
        });
        self.unlisted.retain(|resource| wanted.contains(resource));
        self.behind.retain(|resource| wanted.contains(resource));
        for resource in wanted {
            if self.running.contains_key(&resource) {
                continue;
            }
            self.unlisted.insert(resource.clone());
            let feed = Feed::new(server.store(), &resource);
            let follower = forward(resource.clone(), feed, self.round.subscribe(), self.sender.clone());
            self.running.insert(resource, self.tasks.spawn(follower));
        }
    }

    pub(super) fn listed(&mut self, resource: &str) {
        self.unlisted.remove(resource);
    }

    /// Whether each follower has told its first list.
    pub(super) fn all_listed(&self) -> bool {
        self.unlisted.is_empty()
    }

    /// Begins a round: every follower says when it has told all that there is now.
    pub(super) fn ask(&mut self) {
        self.behind = self.running.keys().cloned().collect();
        self.round.send_modify(|round| *round = round.wrapping_add(1));
    }

    pub(super) fn caught_up(&mut self, resource: &str, round: u64) {
        if round == *self.round.borrow() {
            self.behind.remove(resource);
        }
    }

    /// Whether the last round is over.
    pub(super) fn all_caught_up(&self) -> bool {
        self.behind.is_empty()
    }
}

async fn forward(
    resource: Arc<str>,
    mut feed: Feed,
    mut rounds: watch::Receiver<u64>,
    sender: mpsc::UnboundedSender<Seen>,
) {
    loop {
        let seen = tokio::select! {
            change = feed.next() => Seen::Changed(resource.clone(), change),
            Ok(()) = rounds.changed() => {
                let round = *rounds.borrow_and_update();
                // Asked anew, the feed looks at the store itself: what is there may not have rung the bell yet.
                while let Some(change) = feed.next().now_or_never() {
                    if sender.send(Seen::Changed(resource.clone(), change)).is_err() {
                        return;
                    }
                }
                Seen::CaughtUp(resource.clone(), round)
            }
            else => return,
        };
        if sender.send(seen).is_err() {
            return;
        }
    }
}
