//! Work for several threads: whoever is free takes the next piece.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Does `count` pieces of work, `threads` at a time; the results are in the order of the pieces.
pub(crate) fn spread<T: Send>(count: usize, threads: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let toil = || {
        let mut done = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            if at >= count {
                return done;
            }
            done.push((at, work(at)));
        }
    };
    let mut done: Vec<(usize, T)> = std::thread::scope(|scope| {
        let hands: Vec<_> = (0..threads.max(1)).map(|_| scope.spawn(toil)).collect();
        hands.into_iter().flat_map(join).collect()
    });
    done.sort_unstable_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, result)| result).collect()
}

/// A thread's result; its panic is ours.
fn join<T>(hand: std::thread::ScopedJoinHandle<'_, T>) -> T {
    hand.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_piece_is_done_once_whoever_does_it() {
        for (count, threads) in [(0, 2), (1, 4), (1000, 1), (1000, 3), (5, 0)] {
            let wanted: Vec<usize> = (0..count).map(|at| at * at).collect();
            assert_eq!(spread(count, threads, |at| at * at), wanted, "{count} by {threads}");
        }
    }
}
