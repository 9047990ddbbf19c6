//! The job controller dies after every write, and nobody can tell afterwards. The whole of it runs in release: `cargo run
//! --release -p basalt-sim --example jobs`.

use basalt_engine::Conf;
use basalt_sim::jobs::{Extent, explore, scenarios};

#[test]
fn jobs_end_the_same_wherever_controllers_crash() {
    let scenarios = scenarios().expect("a table of scenarios");
    // Unoptimised, all of it takes minutes: every scenario gets a few.
    let (stride, random) = if cfg!(debug_assertions) { (24, 1) } else { (1, 20) };
    let extent = Extent {
        stride,
        random,
        threads: std::thread::available_parallelism().map_or(1, usize::from),
    };
    let (tried, failures) = explore(&Conf::embedded(), &scenarios, extent);
    println!("{tried}");
    if let Some(failure) = failures.first() {
        panic!("{} runs failed, one of them:\n{failure}", failures.len());
    }
    assert!(tried.scenarios >= 12 && tried.crashes > 100, "{tried}");
}
