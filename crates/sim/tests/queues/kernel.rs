//! The kernel itself.

use basalt_engine::Conf;
use basalt_sim::api::meta_text;
use basalt_sim::queues::{By, Operation, Work, empty_cluster, run_seed};
use basalt_sim::{Crash, Kernel, Key, Kind, Snapshot, Whim, Who};

fn empty() -> (Conf, Snapshot) {
    let conf = Conf::embedded();
    let empty = empty_cluster(&conf).expect("an empty cluster comes to rest");
    (conf, empty)
}

fn ask(kernel: &mut Kernel, operation: Operation) {
    let request = operation.request(kernel.api()).expect("something to ask for");
    kernel.ask(&request).expect("a request that is right");
}

fn state(kernel: &Kernel, queue: &str) -> String {
    let queue = kernel.api().get(&Key::new(Kind::Queue, "", queue));
    queue.map_or_else(String::new, |queue| meta_text(queue, "/status/state").to_owned())
}

#[test]
fn the_same_seed_makes_the_same_log() {
    let (conf, empty) = empty();
    let mut logs = std::collections::BTreeSet::new();
    for seed in 0..20 {
        let (_, _, log) = run_seed(&conf, &empty, seed, true);
        let (_, _, again) = run_seed(&conf, &empty, seed, true);
        assert_eq!(log, again, "seed {seed}");
        assert!(log.lines().count() > 50, "seed {seed} does next to nothing:\n{log}");
        logs.insert(log);
    }
    assert_eq!(logs.len(), 20, "two seeds do the same");
}

/// A Job goes its way: let in, bound, running, ended; its queue closes meanwhile, and is closed when it has ended.
#[test]
fn a_queue_closes_when_its_job_has_ended() {
    let (conf, empty) = empty();
    for seed in 0..50 {
        let mut kernel = Kernel::new(&empty, &conf, Whim::seeded(seed));
        let (parent, closed) = (None, false);
        ask(
            &mut kernel,
            Operation::Create {
                queue: 0,
                parent,
                closed,
            },
        );
        ask(&mut kernel, Operation::Submit(0, Work::Job));
        kernel.settle().expect("rest");
        assert_eq!(state(&kernel, "q0"), "Open", "seed {seed}");
        ask(&mut kernel, Operation::Close(0, By::Spec));
        kernel.settle().expect("rest");
        assert_eq!(state(&kernel, "q0"), "Closing", "seed {seed}");
        let late = Operation::Submit(0, Work::Job)
            .request(kernel.api())
            .expect("a request");
        assert_eq!(kernel.ask(&late).expect_err("a closed queue takes nothing").code, 403);
        kernel.kill(Who::Controllers);
        ask(&mut kernel, Operation::Finish(0));
        kernel.settle().expect("rest");
        assert_eq!(state(&kernel, "q0"), "Closed", "seed {seed}");
        assert_eq!(kernel.settled_findings(), Vec::new(), "seed {seed}");
    }
}

/// A kill after each single write of the whole story, one after the other.
#[test]
fn a_kill_after_any_write_changes_nothing_but_the_time() {
    let (conf, empty) = empty();
    let story = |kill_after: Option<u64>| {
        let mut kernel = Kernel::new(&empty, &conf, Whim::none());
        kernel.crash_after(kill_after.map(|write| (write, Crash::All)));
        let (parent, closed) = (None, false);
        ask(
            &mut kernel,
            Operation::Create {
                queue: 0,
                parent,
                closed,
            },
        );
        for operation in [
            Operation::Submit(0, Work::Job),
            Operation::Close(0, By::Spec),
            Operation::Finish(0),
        ] {
            kernel.settle().expect("rest");
            ask(&mut kernel, operation);
        }
        kernel.settle().expect("rest");
        assert_eq!(kernel.settled_findings(), Vec::new(), "killed after {kill_after:?}");
        (kernel.writes(), state(&kernel, "q0"))
    };
    let (writes, state) = story(None);
    assert_eq!(state, "Closed");
    assert!(writes > 10, "{writes} writes");
    for k in 1..=writes {
        assert_eq!(story(Some(k)).1, "Closed", "killed after write {k}");
    }
}
