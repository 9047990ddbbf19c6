//! R4: at rest no node is locked for nobody. R5: what a queue says of its reservation is what the pods say.

use serde_json::Value;

use crate::amounts::{Amounts, Dim, Written, step};
use crate::quantity::{Nano, parse};
use crate::queue_state::Queues;
use crate::read::{at, entries, leaving, list, meta, number, text};
use crate::world::{Node, Pod, World};
use crate::{Finding, Invariant, Objects};

/// Schedulers that are ours whatever is configured; others may be or may not.
const OURS: [&str; 2] = ["volcano", "basalt"];

/// What is wrong with reservations in a world at rest; `on` says whether nodes can be locked, if that is known.
pub(crate) fn settled(objects: &Objects, on: Option<bool>, findings: &mut Vec<Finding>) {
    let queues = Queues::read(objects);
    let mut world: Option<World> = None;
    for queue in objects.queues.iter().filter(|queue| !leaving(queue)) {
        let reserved = !at(queue, &["status", "reservation"]).is_null();
        let why_not = why_not(queue, &queues, on);
        let mut found = |invariant: Invariant, message: String| {
            findings.push(Finding::new(invariant, "Queue", queue, message));
        };
        match (&why_not, condition(queue)) {
            (Some(why), told) if reserved || told.is_some() => {
                found(
                    Invariant::OwnedLocks,
                    format!("says that it has a reservation, and {why}"),
                );
                continue;
            }
            (None, None) if on == Some(true) => {
                found(
                    Invariant::ReservationStatus,
                    "is guaranteed something and does not say how it stands".to_owned(),
                );
            }
            _ => {}
        }
        if !reserved {
            continue;
        }
        let world = world.get_or_insert_with(|| {
            let all = [&objects.nodes, &objects.pods, &objects.pod_groups, &objects.queues];
            World::read(all.into_iter().flatten())
        });
        let Some(&at) = world.queue_ids.get(meta(queue, "name")) else {
            continue;
        };
        let said = Said::read(world, queue);
        for node in world.queues[at]
            .locks
            .iter()
            .filter(|node| !world.node_ids.contains_key(*node))
        {
            found(
                Invariant::OwnedLocks,
                format!("holds the node {node}, which does not exist"),
            );
        }
        let facts = Facts::read(world, at);
        for message in compare(world, queue, at, &said, &facts) {
            found(Invariant::ReservationStatus, message);
        }
    }
}

/// Why a queue can have no reservation.
fn why_not(queue: &Value, queues: &Queues<'_>, on: Option<bool>) -> Option<&'static str> {
    let guarantee = at(queue, &["spec", "guarantee"]);
    let positive = |value: &Value| parse(value).is_some_and(|amount| amount > 0);
    let amounts = entries(guarantee, &["resource"]).any(|(_, amount)| positive(amount));
    let share = positive(at(guarantee, &["percentage", "value"]));
    if on == Some(false) {
        return Some("no node can be locked under this configuration");
    }
    if !amounts && !share {
        return Some("nothing is guaranteed to it");
    }
    (queues.state(meta(queue, "name")) == "Closed").then_some("it is closed")
}

fn condition(queue: &Value) -> Option<&Value> {
    let conditions = list(queue, &["status", "conditions"]).iter();
    conditions
        .into_iter()
        .find(|one| text(one, &["type"]) == "ReservationMet")
}

/// What a queue says.
struct Said {
    idle: Written,
    used: Written,
    target: Written,
    waiting: i64,
}

impl Said {
    fn read(world: &mut World, queue: &Value) -> Self {
        let mut part = |name: &str| world.written(at(queue, &["status", "reservation", name]));
        Self {
            idle: part("resource"),
            used: part("used"),
            target: part("target"),
            waiting: number(queue, &["status", "reservation", "waitingFor"]),
        }
    }
}

/// What the objects say about the nodes that a queue holds.
#[derive(Default)]
struct Facts {
    idle: Amounts,
    used: Amounts,
    /// What the nodes can give, without what stays on them whatever happens.
    worth: Amounts,
    /// Pods of others that can be moved.
    foreign: i64,
    /// Whether a pod is there of which it cannot be said if it is another scheduler's.
    doubtful: bool,
    nodes: usize,
    /// All nodes are there, ready and take pods.
    open: bool,
}

impl Facts {
    fn read(world: &World, queue: usize) -> Self {
        let record = &world.queues[queue];
        let mut facts = Facts {
            nodes: record.locks.len(),
            open: true,
            ..Facts::default()
        };
        for name in &record.locks {
            let Some(node) = world.node_ids.get(name).map(|&node| &world.nodes[node]) else {
                facts.open = false;
                continue;
            };
            facts.open &= is_open(node);
            facts.count(world, queue, node);
        }
        facts
    }

    fn count(&mut self, world: &World, queue: usize, node: &Node) {
        let mut idle = Amounts::default();
        for (dim, offered) in node.offers.iter() {
            idle.set(dim, offered / step(dim) * step(dim));
        }
        let mut worth = idle.clone();
        let here = |pod: &&Pod| pod.takes_room() && pod.node.as_ref() == Some(&node.name);
        for pod in world.pods.iter().filter(here) {
            let own = world
                .queue_of_pod(pod)
                .is_some_and(|own| world.chain(own).contains(&queue));
            let group = world.group_of(pod).map(|group| &world.groups[group]);
            let kept = pod.critical || !pod.preemptable || group.is_some_and(|group| group.protected);
            let stays = pod.fixed || (world.queues[queue].evicts && kept);
            self.doubtful |= !own && !stays && !OURS.contains(&pod.scheduler.as_str());
            self.foreign += i64::from(!own && !stays);
            for &(dim, amount) in &pod.shape.request {
                idle.grow(dim, -amount);
                if own {
                    self.used.grow(dim, amount);
                } else if stays {
                    worth.grow(dim, -amount);
                }
            }
        }
        for dim in 0..world.dims.len() {
            self.idle.grow(dim, idle.get(dim).max(0));
            self.worth.grow(dim, worth.get(dim).max(0));
        }
    }
}

/// Whether pods of anybody can be sent there, as far as the cluster itself says: other taints are for pods to stand.
fn is_open(node: &Node) -> bool {
    let sick = |word: &str| {
        word.ends_with("-pressure")
            || matches!(
                word,
                "not-ready" | "unreachable" | "unschedulable" | "network-unavailable" | "out-of-service"
            )
    };
    let closed = node.taints.iter().any(|taint| {
        taint.effect != "PreferNoSchedule" && taint.key.strip_prefix("node.kubernetes.io/").is_some_and(sick)
    });
    !node.cordoned && !node.not_ready && !closed
}

fn compare(world: &World, queue: &Value, at: usize, said: &Said, facts: &Facts) -> Vec<String> {
    let mut wrong = Vec::new();
    for (name, said, fact) in [("resource", &said.idle, &facts.idle), ("used", &said.used, &facts.used)] {
        for dim in 0..world.dims.len() {
            let (said, fact) = (said.get(&dim).copied().unwrap_or(0), fact.get(dim));
            if said != fact {
                let (said, fact) = (world.show(dim, said), world.show(dim, fact));
                wrong.push(format!("status.reservation.{name} says {said}, the pods say {fact}"));
            }
        }
    }
    let wish = Wish::read(world, queue, at);
    wrong.extend(wish.target(world, said, facts));
    wrong.extend(wish.met(world, queue, said, facts));
    wrong
}

/// What is guaranteed.
struct Wish<'a> {
    resource: Written,
    /// The dimensions, and of how many nodes it is to have at least.
    share: Option<(Vec<&'a str>, Option<usize>)>,
}

impl<'a> Wish<'a> {
    fn read(world: &World, queue: &'a Value, at_queue: usize) -> Self {
        let up = |(&dim, &amount): (&Dim, &Nano)| (dim, amount.saturating_add(step(dim) - 1) / step(dim) * step(dim));
        let resource = world.queues[at_queue].guarantee.iter().map(up).collect();
        let percentage = at(queue, &["spec", "guarantee", "percentage"]);
        let share = parse(at(percentage, &["value"]))
            .filter(|share| *share > 0)
            .map(|share| {
                let dimensions: Vec<&str> = list(percentage, &["dimensions"])
                    .iter()
                    .filter_map(Value::as_str)
                    .collect();
                let dims: Vec<Option<Dim>> = dimensions.iter().map(|name| world.find_dim(name)).collect();
                let offers = |node: &&Node| dims.iter().all(|dim| dim.is_some_and(|dim| node.offers.get(dim) > 0));
                let all = world.nodes.iter().filter(|node| is_open(node)).filter(offers).count();
                // Who wants certain groups of nodes is not offered all of them.
                let known = at(queue, &["spec", "affinity"]).is_null();
                let count = i128::try_from(all).unwrap_or(0).saturating_mul(share) / crate::amounts::ONE;
                (dimensions, usize::try_from(count).ok().filter(|_| known))
            });
        Self { resource, share }
    }

    /// What must be reached is what is guaranteed: the amounts, or the worth of the nodes.
    fn target(&self, world: &World, said: &Said, facts: &Facts) -> Option<String> {
        let is = |wanted: &dyn Fn(Dim) -> Nano| {
            (0..world.dims.len()).all(|dim| said.target.get(&dim).copied().unwrap_or(0) == wanted(dim))
        };
        let amounts = is(&|dim| self.resource.get(&dim).copied().unwrap_or(0));
        let worth = self.share.as_ref().is_some_and(|(dimensions, _)| {
            let dims: Vec<Option<Dim>> = dimensions.iter().map(|name| world.find_dim(name)).collect();
            facts.doubtful
                || is(&|dim| {
                    if dims.contains(&Some(dim)) {
                        facts.worth.get(dim)
                    } else {
                        0
                    }
                })
        });
        let some = self.resource.values().any(|amount| *amount > 0);
        let right = worth || (amounts && (some || self.share.is_none()));
        (!right).then(|| "status.reservation.target is neither the amounts nor the worth of the nodes".to_owned())
    }

    /// It says that it is met if and only if it is.
    fn met(&self, world: &World, queue: &Value, said: &Said, facts: &Facts) -> Option<String> {
        let told = text(condition(queue)?, &["status"]) == "True";
        let short = said
            .target
            .iter()
            .find(|(dim, target)| facts.idle.get(**dim).saturating_add(facts.used.get(**dim)) < **target);
        if let Some((&dim, &target)) = short.filter(|_| told) {
            let have = facts.idle.get(dim).saturating_add(facts.used.get(dim));
            let (have, target) = (world.show(dim, have), world.show(dim, target));
            return Some(format!("says that it is met: it has {have} of {target}"));
        }
        let count = self
            .share
            .as_ref()
            .filter(|_| self.resource.values().all(|amount| *amount == 0));
        let count = count.map(|(_, count)| *count);
        if let Some(Some(wanted)) = count.filter(|_| told && facts.open)
            && facts.nodes < wanted
        {
            return Some(format!("says that it is met: it has {} of {wanted} nodes", facts.nodes));
        }
        // Where both forms are written, what is reached need not be what was to be reached.
        let whole = match (&self.share, count) {
            (None, _) => true,
            (Some(_), Some(Some(wanted))) => wanted > 0 && facts.nodes >= wanted,
            _ => false,
        };
        let any = said.target.values().any(|target| *target > 0);
        if !told && short.is_none() && any && whole && facts.open {
            return Some("says that it is not met, and has all that it needs".to_owned());
        }
        let waiting = if told { 0 } else { facts.foreign };
        (said.waiting != waiting && (told || !facts.doubtful)).then(|| {
            format!(
                "status.reservation.waitingFor is {}, and {waiting} pods stand in the way",
                said.waiting
            )
        })
    }
}
