//! How many requests may be under way: as many as the server takes well.
//!
//! There is no fixed rate. While the limit is reached and answers come soon, it grows by steps; when the server says that
//! it has too much to do, or says nothing, it is halved; when answers come late, it shrinks to what it began with.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

/// Requests under way at first, and the least that late answers alone lead to.
pub const START: usize = 64;
/// The most.
const MAX: usize = 256;
/// The least.
const MIN: usize = 4;
/// One step up.
const STEP: usize = 8;
/// Answers that come within this time ask for more.
const SOON: Duration = Duration::from_millis(100);
/// Answers that take longer than this ask for less.
const LATE: Duration = Duration::from_secs(1);
/// What one burst of trouble tells is told once.
const CUT_PAUSE: Duration = Duration::from_secs(1);

/// How a request went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It was answered, after so long.
    Answered(Duration),
    /// The server has too much to do.
    Overload,
    /// There was no answer.
    Silence,
}

#[derive(Debug)]
struct State {
    limit: usize,
    /// Permits that are still out and are not to come back.
    debt: usize,
    /// Answers that came soon since the last change.
    soon: usize,
    last_cut: Option<Instant>,
    counts: Counts,
}

/// What was counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Requests that were answered.
    pub answered: u64,
    /// Requests of which the server said that it had too much to do.
    pub overloads: u64,
    /// Requests without an answer.
    pub silences: u64,
}

/// The limit.
#[derive(Debug)]
pub struct Limit {
    permits: Arc<Semaphore>,
    state: Mutex<State>,
}

impl Default for Limit {
    fn default() -> Self {
        Self {
            permits: Arc::new(Semaphore::new(START)),
            state: Mutex::new(State {
                limit: START,
                debt: 0,
                soon: 0,
                last_cut: None,
                counts: Counts::default(),
            }),
        }
    }
}

/// A place among the requests under way; free again when dropped.
#[derive(Debug)]
pub struct Pass {
    permit: Option<OwnedSemaphorePermit>,
    limit: Arc<Limit>,
}

impl Drop for Pass {
    fn drop(&mut self) {
        let mut state = self.limit.lock();
        if state.debt > 0 {
            state.debt -= 1;
            if let Some(permit) = self.permit.take() {
                permit.forget();
            }
        }
    }
}

impl Limit {
    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic elsewhere leaves it whole: it is changed only here.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a place.
    pub async fn enter(self: &Arc<Self>) -> Pass {
        // The semaphore is never closed; without a permit we would only be less polite.
        let permit = Arc::clone(&self.permits).acquire_owned().await.ok();
        let limit = Arc::clone(self);
        Pass { permit, limit }
    }

    /// Requests that may be under way now, and those that are.
    pub fn now(&self) -> (usize, usize) {
        let state = self.lock();
        let out = (state.limit + state.debt).saturating_sub(self.permits.available_permits());
        (state.limit, out)
    }

    /// What was counted so far.
    pub fn counts(&self) -> Counts {
        self.lock().counts
    }

    /// Learns from how a request went.
    pub fn learn(&self, outcome: Outcome) {
        let mut state = self.lock();
        match outcome {
            Outcome::Answered(took) => {
                state.counts.answered += 1;
                if took > LATE {
                    let less = state.limit - state.limit / 8;
                    self.cut(&mut state, less.max(START));
                } else if took <= SOON && self.permits.available_permits() == 0 {
                    state.soon += 1;
                    if state.soon >= state.limit {
                        self.grow(&mut state);
                    }
                }
            }
            Outcome::Overload => {
                state.counts.overloads += 1;
                let half = state.limit / 2;
                self.cut(&mut state, half.max(MIN));
            }
            Outcome::Silence => {
                state.counts.silences += 1;
                let half = state.limit / 2;
                self.cut(&mut state, half.max(MIN));
            }
        }
    }

    fn grow(&self, state: &mut State) {
        let more = STEP.min(MAX.saturating_sub(state.limit));
        let forgiven = state.debt.min(more);
        state.debt -= forgiven;
        self.permits.add_permits(more - forgiven);
        state.limit += more;
        state.soon = 0;
    }

    fn cut(&self, state: &mut State, to: usize) {
        let now = Instant::now();
        let lately = state.last_cut.is_some_and(|last| now.duration_since(last) < CUT_PAUSE);
        let less = state.limit.saturating_sub(to);
        if lately || less == 0 {
            return;
        }
        // What is free goes at once, the rest when it comes back.
        let gone = self.permits.forget_permits(less);
        state.debt += less - gone;
        state.limit = to;
        state.soon = 0;
        state.last_cut = Some(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `N soon|late|overload|silence`: so many requests at once go so, while all places are taken; `N s`: so many seconds.
    async fn check(script: &str, expected: usize) {
        let limit: Arc<Limit> = Arc::default();
        for words in script.split(", ") {
            let (count, word) = words.split_once(' ').expect("two words");
            let count: usize = count.parse().expect("a number");
            let outcome = match word {
                "soon" => Outcome::Answered(Duration::from_millis(5)),
                "fair" => Outcome::Answered(Duration::from_millis(300)),
                "late" => Outcome::Answered(Duration::from_secs(2)),
                "overload" => Outcome::Overload,
                "silence" => Outcome::Silence,
                _ => {
                    tokio::time::sleep(Duration::from_secs(count as u64)).await;
                    continue;
                }
            };
            for _ in 0..count {
                let mut all = Vec::new();
                while limit.permits.available_permits() > 0 {
                    all.push(limit.enter().await);
                }
                limit.learn(outcome);
            }
        }
        let (allowed, under_way) = limit.now();
        assert_eq!((allowed, under_way), (expected, 0), "{script}");
        assert_eq!(limit.permits.available_permits(), expected, "{script}");
    }

    #[tokio::test(start_paused = true)]
    async fn the_limit_follows_the_server() {
        check("0 s", 64).await;
        check("63 soon", 64).await;
        check("64 soon", 72).await;
        check("136 soon", 80).await;
        check("5000 soon", 256).await;
        check("5000 fair", 64).await;
        check("5000 soon, 1 late", 224).await;
        check("5000 soon, 5 late", 224).await;
        check("5000 soon, 1 late, 2 s, 1 late", 196).await;
        check("9 late", 64).await;
        check("1 overload", 32).await;
        check("9 overload", 32).await;
        check(
            "1 overload, 2 s, 1 overload, 2 s, 1 silence, 2 s, 1 overload, 2 s, 1 overload",
            4,
        )
        .await;
        check("1 silence", 32).await;
        check("1 overload, 2 s, 32 soon", 40).await;
        check("5000 soon, 1 overload, 128 soon", 136).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_with_little_to_do_needs_no_higher_limit() {
        let limit: Arc<Limit> = Arc::default();
        for _ in 0..10_000 {
            let _pass = limit.enter().await;
            limit.learn(Outcome::Answered(Duration::from_millis(1)));
        }
        assert_eq!(limit.now(), (START, 0));
    }
}
