//! The state machine of queues. The whole of it runs in release: `cargo run --release -p basalt-sim --example queues`.

use basalt_engine::Conf;
use basalt_sim::queues::{empty_cluster, explore, random};

fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

#[test]
fn short_sequences_end_legally_wherever_they_crash() {
    // Unoptimised, one operation takes seconds, two take minutes.
    let depth = if cfg!(debug_assertions) { 1 } else { 2 };
    let (explored, failures) = explore(&Conf::embedded(), depth, 0, threads());
    println!("{explored}");
    if let Some(failure) = failures.first() {
        panic!("{} sequences failed, one of them:\n{failure}", failures.len());
    }
    assert!(explored.crashes > 500, "{explored}");
}

#[test]
fn random_sequences_end_legally_whatever_goes_wrong() {
    let conf = Conf::embedded();
    let empty = empty_cluster(&conf).expect("an empty cluster comes to rest");
    let count = if cfg!(debug_assertions) { 300 } else { 5_000 };
    let (ran, failures) = random(&conf, &empty, 1_000_000, count, threads());
    println!("{ran}");
    if let Some(failure) = failures.first() {
        panic!("{failure}");
    }
}
