//! Every number of the scheduler that there is, each with a value: for tests of what names them elsewhere.

use std::time::Duration;

use basalt_engine::facts::{Event, NodeFacts, Phase, PodFacts, PodGroupFacts, QueueFacts, Resources};
use basalt_engine::{Conf, Engine, Options};

use super::{Metrics, Numbers};

/// A page of metrics.
pub fn page() -> String {
    let metrics = Metrics::default();
    metrics.cycle.observe(1.0);
    metrics.open.observe(1.0);
    metrics.jobs.observe(1.0);
    metrics.action("allocate", Duration::ZERO);
    metrics.task("bind", Duration::ZERO);
    metrics.attempted("scheduled", 1);
    metrics.retried("a/g");
    metrics.evicted("reclaim", "done");
    metrics.short_gang("completed");
    metrics.reloaded("applied");
    let mut engine = engine();
    let plan = engine.cycle(0, 0);
    let numbers = Numbers::of(&engine, &plan, vec![("events", (0, 0))], 0);
    metrics.encode(Some(&numbers))
}

/// A cluster with shares, in which one pod runs and a group waits.
fn engine() -> Engine {
    let amounts: Resources = ["cpu", "memory", "nvidia.com/gpu"].map(|name| (name.into(), 1)).into();
    let mut engine = Engine::new(Conf::embedded(), Options::default());
    for name in ["root", "default"] {
        engine.apply(&Event::Queue(QueueFacts {
            name: name.into(),
            deserved: amounts.clone(),
            capability: amounts.clone(),
            ..QueueFacts::default()
        }));
    }
    engine.apply(&Event::Node(NodeFacts {
        name: "n".into(),
        allocatable: amounts.clone(),
        ..NodeFacts::default()
    }));
    engine.apply(&Event::PodGroup(PodGroupFacts {
        key: "a/g".into(),
        uid: "g".into(),
        min_member: 9,
        phase: Phase::Inqueue,
        ..PodGroupFacts::default()
    }));
    for (index, node) in [(0, Some("n".into())), (1, None)] {
        engine.apply(&Event::Pod(PodFacts {
            key: format!("a/p-{index}").into(),
            uid: format!("u{index}").into(),
            scheduler: "volcano".into(),
            group: Some("a/g".into()),
            requests: amounts.clone(),
            node,
            ..PodFacts::default()
        }));
    }
    engine
}
