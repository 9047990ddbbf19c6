//! The state machine of queues. The whole of it runs in release: `cargo run --release -p basalt-sim --example queues`.

use basalt_engine::Conf;
use basalt_sim::queues::{empty_cluster, explore, random};

fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

#[test]
fn short_sequences_end_legally_wherever_they_crash() {
    let (explored, failures) = explore(&Conf::embedded(), 2, 0, threads());
    println!("{explored}");
    if let Some(failure) = failures.first() {
        panic!("{} sequences failed, one of them:\n{failure}", failures.len());
    }
    assert!(explored.crashes > 1_000, "{explored}");
}

#[test]
fn random_sequences_end_legally_whatever_goes_wrong() {
    let conf = Conf::embedded();
    let empty = empty_cluster(&conf).expect("an empty cluster comes to rest");
    let (ran, failures) = random(&conf, &empty, 1_000_000, 1_000, threads() as u64);
    println!("{ran}");
    if let Some(failure) = failures.first() {
        panic!("{failure}");
    }
}
