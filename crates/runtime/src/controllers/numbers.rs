//! The controllers' face to operators: whether they live, whether they decide, and their numbers.

use std::sync::atomic::{AtomicI64, AtomicU64};
use std::sync::{Arc, OnceLock};

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::locks::LockNumbers;
use crate::liveness::Vitals;

/// What the controllers count; a handle that can be copied.
#[derive(Clone, Debug)]
pub struct Numbers {
    registry: Arc<Registry>,
    vitals: Arc<OnceLock<Arc<Vitals>>>,
    pub(super) ready: Gauge<i64, AtomicI64>,
    pub(super) waiting: Gauge<i64, AtomicI64>,
    pub(super) under_way: Gauge<i64, AtomicI64>,
    pub(super) looked: Counter<u64, AtomicU64>,
    pub(super) written: Counter<u64, AtomicU64>,
    pub(super) failed: Counter<u64, AtomicU64>,
    pub(super) locks: LockNumbers,
}

impl Default for Numbers {
    fn default() -> Self {
        let mut registry = Registry::default();
        let gauge = |registry: &mut Registry, name: &str, help: &str| {
            let gauge = Gauge::<i64, AtomicI64>::default();
            registry.register(format!("basalt_controllers_{name}"), help, gauge.clone());
            gauge
        };
        let ready = gauge(&mut registry, "ready", "1 once everything that exists is known");
        let waiting = gauge(&mut registry, "work_waiting", "Things that are still to be looked at");
        let under_way = gauge(
            &mut registry,
            "work_under_way",
            "Things whose changes are being written",
        );
        let counter = |registry: &mut Registry, name: &str, help: &str| {
            let counter = Counter::<u64, AtomicU64>::default();
            registry.register(format!("basalt_controllers_{name}"), help, counter.clone());
            counter
        };
        let looked = counter(&mut registry, "looks", "Looks at a Job, a pod, a queue or its Commands");
        let written = counter(&mut registry, "writes", "Objects written");
        let failed = counter(
            &mut registry,
            "failures",
            "Looks whose changes could not all be written",
        );
        let locks = LockNumbers::new(&mut registry);
        Self {
            registry: Arc::new(registry),
            vitals: Arc::default(),
            locks,
            ready,
            waiting,
            under_way,
            looked,
            written,
            failed,
        }
    }
}

impl Numbers {
    /// All numbers as text.
    pub fn encode(&self) -> String {
        let mut text = String::new();
        // Writing into text cannot fail.
        let _ = encode(&mut text, &self.registry);
        text
    }

    /// How the loop fares, once it has begun.
    pub fn vitals(&self) -> Option<&Vitals> {
        self.vitals.get().map(AsRef::as_ref)
    }

    /// The loop begins.
    pub(super) fn begin(&self, vitals: &Arc<Vitals>) {
        // A second loop with the same numbers would be a new life of the same controllers; these have one each.
        let _ = self.vitals.set(Arc::clone(vitals));
    }
}

impl Numbers {
    /// Every number that there is, each with a value.
    pub fn example() -> Self {
        let numbers = Self::default();
        let amounts = || [("cpu".to_owned(), basalt_api::Quantity::ZERO)].into_iter().collect();
        let reservation = basalt_api::queue::Reservation {
            resource: amounts(),
            used: amounts(),
            target: amounts(),
            ..Default::default()
        };
        numbers
            .locks
            .count(std::iter::once(basalt_controllers::world::Reserved {
                queue: "research",
                reservation: &reservation,
                seconds_to_met: Some(1.0),
            }));
        numbers
    }
}
