//! Nodes that are locked for queues: what the scheduler's configuration says about them, and their numbers.

use std::collections::BTreeSet;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use basalt_api::quantity::Quantity;
use basalt_controllers::reservation::ask::GroupRules;
use basalt_controllers::world::{Reserved, Rules};
use basalt_engine::Conf;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::Numbers;
use crate::event_loop::PartFailed;
use crate::leader_election::leader_gate::Ended;
use crate::scheduler::{BuiltInConf, ConfSource, ConfTrouble};
use crate::write::writer::Writer;

/// The longest time between two choices of nodes, while things change, unless told otherwise.
pub const RELOCK_PERIOD: Duration = Duration::from_secs(5);

/// How the controllers run.
#[derive(Debug, Clone)]
pub struct ControllersOptions {
    /// Schedulers whose pods are ours.
    pub schedulers: BTreeSet<String>,
    /// The scheduler's configuration.
    pub conf: ConfSource,
    /// That configuration if there is no file.
    pub built_in: BuiltInConf,
    /// The longest time between two choices of nodes.
    pub relock_period: Duration,
}

/// Controllers that have read their files, and have not begun.
pub struct Prepared {
    pub(super) options: ControllersOptions,
    pub(super) conf: Conf,
    pub(super) text: String,
}

/// Reads the configuration: a bad file is told before anything begins.
pub fn prepare(options: ControllersOptions) -> Result<Prepared, ConfTrouble> {
    let (conf, text) = options.conf.load(options.built_in)?;
    Ok(Prepared { options, conf, text })
}

impl Prepared {
    /// Controls until the task is dropped, the right to do so ends, or a part of it failed.
    pub async fn run(self, writer: impl Into<Writer>, numbers: Numbers) -> Result<Ended, PartFailed> {
        super::run(self, writer.into(), numbers).await
    }
}

/// What a configuration says about locks; nothing: there are none.
pub(super) fn rules(conf: &Conf) -> Option<Rules> {
    let find = |name: &str| conf.tiers.iter().flatten().find(|plugin| plugin.name == name);
    find("node_reservation")?;
    let groups = find("nodegroup").map(|plugin| GroupRules {
        strict: plugin.boolean("strict").unwrap_or(true),
        hierarchy: plugin.is_on("enableHierarchy"),
    });
    Some(Rules { groups })
}

type Labels = Vec<(&'static str, String)>;
type Floats = Family<Labels, Gauge<f64, AtomicU64>>;

/// The numbers of reservations, by queue.
#[derive(Clone, Debug)]
pub(super) struct LockNumbers {
    reserved: Floats,
    target: Floats,
    locked: Floats,
    waiting: Floats,
    seconds: Floats,
}

impl LockNumbers {
    pub(super) fn new(registry: &mut Registry) -> Self {
        let mut family = |name: &str, help: &str| {
            let family = Floats::default();
            registry.register(format!("basalt_queue_{name}"), help, family.clone());
            family
        };
        Self {
            reserved: family(
                "reserved",
                "Idle or used by the queue on the nodes that are locked for it",
            ),
            target: family("reservation_target", "What the reservation of a queue has to reach"),
            locked: family("locked_nodes", "Nodes that are locked for a queue"),
            waiting: family(
                "reservation_waiting_pods",
                "Pods of others that must go before a reservation is met",
            ),
            seconds: family(
                "reservation_seconds_to_met",
                "How long the last wait for a reservation took",
            ),
        }
    }

    /// Counts anew: queues that reserve nothing any more have no numbers.
    pub(super) fn count<'a>(&self, reservations: impl Iterator<Item = Reserved<'a>>) {
        for family in [&self.reserved, &self.target, &self.locked, &self.waiting, &self.seconds] {
            family.clear();
        }
        for each in reservations {
            let queue = || vec![("queue", each.queue.to_owned())];
            let of = |name: &str| {
                let mut labels = queue();
                labels.push(("resource", name.to_owned()));
                labels
            };
            let reservation = each.reservation;
            self.locked.get_or_create(&queue()).set(count(reservation.nodes.len()));
            self.waiting
                .get_or_create(&queue())
                .set(f64::from(reservation.waiting_for));
            for (name, target) in &reservation.target {
                let have =
                    |list: &basalt_api::quantity::ResourceList| list.get(name).copied().unwrap_or(Quantity::ZERO);
                let ready = have(&reservation.resource).saturating_add(have(&reservation.used));
                self.reserved.get_or_create(&of(name)).set(float(ready));
                self.target.get_or_create(&of(name)).set(float(*target));
            }
            if let Some(seconds) = each.seconds_to_met {
                self.seconds.get_or_create(&queue()).set(seconds);
            }
        }
    }
}

fn count(number: usize) -> f64 {
    u32::try_from(number).map_or(f64::from(u32::MAX), f64::from)
}

/// In units: cores, bytes.
fn float(quantity: Quantity) -> f64 {
    quantity.nano() as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locks_follow_the_configuration() {
        let check = |text: &str, expected: Option<Rules>| {
            let conf = Conf::parse(text).expect("a configuration");
            assert_eq!(rules(&conf), expected, "{text}");
        };
        check("tiers: [{plugins: [{name: gang}]}]", None);
        check(
            "tiers: [{plugins: [{name: gang}]}, {plugins: [{name: node_reservation}]}]",
            Some(Rules::default()),
        );
        let groups = |strict, hierarchy| {
            Some(Rules {
                groups: Some(GroupRules { strict, hierarchy }),
            })
        };
        check(
            "tiers: [{plugins: [{name: node_reservation}, {name: nodegroup}]}]",
            groups(true, false),
        );
        check(
            "tiers: [{plugins: [{name: node_reservation}, {name: nodegroup, enableHierarchy: true, arguments: {strict: false}}]}]",
            groups(false, true),
        );
        assert_eq!(rules(&Conf::embedded()), Some(Rules::default()));
    }

    #[test]
    fn numbers_come_and_go() {
        let mut registry = Registry::default();
        let numbers = LockNumbers::new(&mut registry);
        let reservation: basalt_api::queue::Reservation = serde_json::from_value(serde_json::json!({
            "nodes": ["a", "b"], "resource": {"cpu": "1500m", "memory": "1"}, "used": {"cpu": 2}, "target": {"cpu": 4}, "waitingFor": 3,
        }))
        .expect("a reservation");
        let reserved = Reserved {
            queue: "q",
            reservation: &reservation,
            seconds_to_met: Some(2.5),
        };
        let page = |registry: &Registry| {
            let mut text = String::new();
            prometheus_client::encoding::text::encode(&mut text, registry).expect("text");
            text
        };
        numbers.count([reserved].into_iter());
        let text = page(&registry);
        for line in [
            "basalt_queue_reserved{queue=\"q\",resource=\"cpu\"} 3.5",
            "basalt_queue_reservation_target{queue=\"q\",resource=\"cpu\"} 4.0",
            "basalt_queue_locked_nodes{queue=\"q\"} 2.0",
            "basalt_queue_reservation_waiting_pods{queue=\"q\"} 3.0",
            "basalt_queue_reservation_seconds_to_met{queue=\"q\"} 2.5",
        ] {
            assert!(text.contains(line), "{line} in {text}");
        }
        numbers.count(std::iter::empty());
        assert!(!page(&registry).contains("queue=\"q\""));
    }
}
