//! The whole round: from the objects that the controllers know to the decision of every queue.

use std::collections::BTreeSet;
use std::time::Instant;

use anyhow::Context;
use basalt_api::{Queue, resource_kind};
use basalt_controllers::Change;
use basalt_controllers::cache::Origin;
use basalt_controllers::reservation::Candidate;
use basalt_controllers::world::{Rules, Work, World};
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::seen_by;

/// Names of the dimensions, in the order of the numbers; the first one is in thousandths.
const NAMES: [&str; 4] = ["cpu", "memory", "pods", "nvidia.com/gpu"];
/// Pods that stand on a node together.
const PODS: i64 = 4;

/// Milliseconds of the round that chooses everything, and of the next one after a node has changed.
pub(super) fn measure(nodes: &[Candidate], queues: u32, target: &[i64]) -> anyhow::Result<(f64, f64)> {
    let mut stage = Stage::of(nodes, queues, target)?;
    let first = stage.round();
    let names: Vec<String> = (0..queues).map(queue_name).collect();
    for name in &names {
        stage.write(name)?;
    }
    // One node less: what is held has to be looked at again by everybody.
    stage.world.remove_node(&node_name(nodes.len().saturating_sub(1)));
    Ok((first, stage.round()))
}

/// The controllers' world, and its queues as an API server would have them.
struct Stage {
    world: World,
    queues: Vec<(String, Value)>,
    version: u64,
}

impl Stage {
    fn of(nodes: &[Candidate], queues: u32, target: &[i64]) -> anyhow::Result<Self> {
        let mut world = World::new(BTreeSet::from(["volcano".to_owned()]));
        world.set_reserving(Some(Rules::default()));
        let mut stage = Self {
            world,
            queues: Vec::new(),
            version: 0,
        };
        for (number, node) in nodes.iter().enumerate() {
            let object =
                json!({"metadata": {"name": node_name(number)}, "status": {"allocatable": amounts(&node.worth)}});
            stage.world.upsert_node(&serde_json::from_value(object)?);
            stage.fill(number, node, queues)?;
        }
        for number in 0..queues {
            let name = queue_name(number);
            let object = json!({
                "apiVersion": resource_kind::QUEUE.api_version, "kind": resource_kind::QUEUE.kind,
                "metadata": {"name": name, "uid": format!("uid of {name}")},
                "spec": {"weight": 1, "guarantee": {"resource": amounts(target)}},
                "status": {"state": "Open"},
            });
            stage.queues.push((name.clone(), object));
            stage.see(&name)?;
        }
        Ok(stage)
    }

    /// Pods that take what is not idle: all of one queue.
    fn fill(&mut self, number: usize, node: &Candidate, queues: u32) -> anyhow::Result<()> {
        let owner = (0..queues).find(|queue| seen_by(*queue, node).used.iter().any(|used| *used > 0));
        let queue = owner.map_or_else(|| "others".to_owned(), queue_name);
        let taken = node.worth.iter().zip(&node.idle);
        let mut part: Vec<i64> = taken.map(|(worth, idle)| worth.saturating_sub(*idle) / PODS).collect();
        // A pod counts as one by itself.
        part.truncate(2);
        for pod in 0..PODS {
            let uid = number.saturating_mul(8).saturating_add(pod as usize);
            let object = json!({
                "metadata": {
                    "name": format!("pod-{uid}"), "namespace": "default", "uid": format!("uid-{uid}"), "resourceVersion": "1",
                    "annotations": {"scheduling.volcano.sh/queue-name": queue},
                },
                "spec": {
                    "schedulerName": "volcano", "nodeName": node_name(number),
                    "containers": [{"name": "c", "resources": {"requests": amounts(&part)}}],
                },
                "status": {"phase": "Running"},
            });
            self.world.upsert_pod(serde_json::from_value(object)?, Origin::Watch);
        }
        Ok(())
    }

    /// One round's milliseconds.
    fn round(&mut self) -> f64 {
        let begun = Instant::now();
        let outcome = self.world.look_at(&Work::Reservation, Timestamp::UNIX_EPOCH);
        let took = begun.elapsed().as_secs_f64() * 1e3;
        drop(outcome);
        took
    }

    /// A queue as it is now comes by the watch.
    fn see(&mut self, name: &str) -> anyhow::Result<()> {
        self.version = self.version.saturating_add(1);
        let version = self.version.to_string();
        let queue = self.queue(name)?;
        if let Some(metadata) = queue.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.insert("resourceVersion".to_owned(), json!(version));
        }
        let queue: Queue = serde_json::from_value(queue.clone())?;
        self.world.upsert_queue(queue, Origin::Watch);
        Ok(())
    }

    fn queue(&mut self, name: &str) -> anyhow::Result<&mut Value> {
        let found = self.queues.iter_mut().find(|(known, _)| known == name);
        found.map(|(_, object)| object).context("a queue of the round")
    }

    /// What was decided for a queue is written, and seen.
    fn write(&mut self, name: &str) -> anyhow::Result<()> {
        let outcome = self.world.look_at(&Work::Queue(name.to_owned()), Timestamp::UNIX_EPOCH);
        for change in outcome.changes {
            if let Change::Patch { merge, .. } = change {
                let queue = self.queue(name)?;
                // Status fields are replaced as a whole, as the API server does it with lists and plain values.
                if let (Some(status), Some(news)) = (
                    queue.get_mut("status").and_then(Value::as_object_mut),
                    merge.get("status").and_then(Value::as_object),
                ) {
                    status.extend(news.iter().map(|(field, value)| (field.clone(), value.clone())));
                }
            }
        }
        anyhow::ensure!(
            self.queue(name)?.pointer("/status/reservation/nodes").is_some(),
            "nothing was locked for {name}"
        );
        self.see(name)
    }
}

fn node_name(number: usize) -> String {
    format!("node-{number:06}")
}

fn queue_name(number: u32) -> String {
    format!("queue-{number:03}")
}

/// Numbers as a resource list.
fn amounts(numbers: &[i64]) -> Value {
    let each = NAMES.iter().zip(numbers).filter(|(_, amount)| **amount > 0);
    let text = |name: &str, amount: i64| {
        if name == "cpu" {
            format!("{amount}m")
        } else {
            amount.to_string()
        }
    };
    Value::Object(
        each.map(|(name, amount)| ((*name).to_owned(), json!(text(name, *amount))))
            .collect::<Map<_, _>>(),
    )
}
