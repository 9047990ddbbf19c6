//! Workloads for the unit tests of the engine.

use basalt_testkit::workload::GangWorkload;

use crate::facts::Event;

/// Returns the events of a workload. The test kit is built on the engine as others see it, whose types are not those
/// of the unit tests; events can be written down and read back, so they cross that border as text.
pub(crate) fn workload_events(workload: &GangWorkload) -> Vec<Event> {
    let events: Vec<_> = workload.events().collect();
    let text = serde_json::to_string(&events).expect("events are plain data");
    serde_json::from_str(&text).expect("events can be read back")
}
