//! Every number of the scheduler that there is, each with a value: for tests of what names them elsewhere.

use std::time::Duration;

use basalt_engine::facts::{Event, QueueFacts, Resources};

use super::{Metrics, Numbers};
use crate::live::scheduler::scene;

/// A page of metrics.
pub(crate) fn page() -> String {
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
    let amounts: Resources = ["cpu", "memory", "nvidia.com/gpu"].map(|name| (name.into(), 1)).into();
    let mut engine = scene::engine(9, &[scene::pod(0, Some("n")), scene::pod(1, None)]);
    engine.apply(&Event::Queue(QueueFacts {
        name: "default".into(),
        deserved: amounts.clone(),
        capability: amounts,
        ..QueueFacts::default()
    }));
    let plan = engine.cycle(0, 0);
    let numbers = Numbers::of(&engine, &plan, vec![("events", (0, 0))], 0);
    metrics.encode(Some(&numbers))
}
