//! How long a cycle takes, from a filled model to the finished plan. Run with `--release`.

use std::time::Instant;

use basalt_engine::facts::{NodeFacts, PodFacts, PodGroupFacts};
use basalt_engine::generate::Workload;
use basalt_engine::{Conf, Engine, Event, Options};

const CONF: &str = "
actions: enqueue, allocate, backfill
tiers:
- plugins: [{name: priority}, {name: gang}]
- plugins: [{name: predicates}, {name: nodeorder}, {name: binpack}]
";

fn measure(name: &str, workload: Workload) {
    let conf = Conf::parse(CONF).expect("a configuration");
    let mut times = Vec::new();
    let mut bound = 0;
    let mut filled_ms = 0.0;
    for _ in 0..5 {
        let mut engine = Engine::new(conf.clone(), Options::default());
        let start = Instant::now();
        workload.events().for_each(|event| engine.apply(&event));
        filled_ms = start.elapsed().as_secs_f64() * 1e3;
        let start = Instant::now();
        let plan = engine.cycle(0, 0);
        times.push(start.elapsed().as_secs_f64() * 1e3);
        bound = plan.binds().count();
    }
    times.sort_by(f64::total_cmp);
    let median = times[times.len() / 2];
    let rate = bound as f64 / median * 1e3;
    println!("{name:<28} fill {filled_ms:>8.1} ms  decide {median:>8.2} ms  bound {bound:>8}  {rate:>10.0} pods/s");
}

/// A full cluster with a long backlog, and one more gang for which there is room.
fn measure_backlog(workload: Workload) {
    let mut engine = Engine::new(Conf::parse(CONF).expect("a configuration"), Options::default());
    workload.events().for_each(|event| engine.apply(&event));
    let bound = engine.cycle(0, 0).binds().count();
    let waiting = workload.jobs * workload.pods_per_job - bound;
    let small = Workload {
        nodes: 0,
        jobs: 1,
        pods_per_job: 100,
        ..workload
    };
    let mut times = Vec::new();
    for round in 0..20 {
        for event in small.events() {
            engine.apply(&renamed(event, round));
        }
        engine.apply(&Event::Node(room(round)));
        let start = Instant::now();
        let plan = engine.cycle(0, 0);
        times.push(start.elapsed().as_secs_f64() * 1e3);
        assert!(plan.binds().count() >= 100, "the new gang goes first");
    }
    times.sort_by(f64::total_cmp);
    println!(
        "one 100-pod gang, {waiting} pods waiting: median {:.2} ms, worst {:.2} ms",
        times[10], times[19]
    );
}

/// A node with room for 100 pods and a half.
fn room(round: usize) -> NodeFacts {
    let of = |name: &str, amount: i64| (name.into(), amount);
    NodeFacts {
        name: format!("extra-{round}").into(),
        allocatable: [of("cpu", 150_000), of("memory", 1 << 40), of("pods", 1000)].into(),
        ..Default::default()
    }
}

/// The small gang under another name, with a priority above all others.
fn renamed(event: Event, round: usize) -> Event {
    match event {
        Event::PodGroup(group) => Event::PodGroup(PodGroupFacts {
            key: format!("bench/new-{round}").into(),
            created_ms: -1,
            ..group
        }),
        Event::Pod(pod) => Event::Pod(PodFacts {
            key: format!("{}-new-{round}", pod.key).into(),
            uid: format!("{}-{round}", pod.uid).into(),
            group: Some(format!("bench/new-{round}").into()),
            ..pod
        }),
        other => other,
    }
}

fn main() {
    let base = Workload::default();
    measure("1k nodes, 500×20", base);
    measure(
        "1k nodes, 20×500",
        Workload {
            jobs: 20,
            pods_per_job: 500,
            ..base
        },
    );
    measure(
        "1k nodes, 1×10000",
        Workload {
            jobs: 1,
            pods_per_job: 10_000,
            ..base
        },
    );
    measure(
        "1k nodes, 10000×1",
        Workload {
            jobs: 10_000,
            pods_per_job: 1,
            ..base
        },
    );
    let large = Workload {
        nodes: 10_000,
        jobs: 1000,
        pods_per_job: 100,
        classes: 50,
        queues: 20,
        depth: 3,
    };
    measure("10k nodes, 1000×100, 50 cl", large);
    measure_backlog(Workload {
        nodes: 1000,
        jobs: 1200,
        pods_per_job: 100,
        classes: 50,
        queues: 1,
        depth: 1,
    });
    if std::env::args().any(|arg| arg == "--huge") {
        measure(
            "100k nodes, 10000×100",
            Workload {
                nodes: 100_000,
                jobs: 10_000,
                ..large
            },
        );
    }
}
