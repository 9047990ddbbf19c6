//! Queues that move: what is accepted, what vanishes, what Commands do. Told of every single write.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::queue_state::{Queues, follows_owner, group_ended, job_ended, parent};
use crate::read::{at, leaving, list, meta, text};
use crate::{Finding, Invariant, Objects};

const APPLIED: &str = "basalt.sh/applied-commands";
const QUEUE: &str = "scheduling.volcano.sh/queue-name";
const GROUP: &str = "scheduling.k8s.io/group-name";

/// One write: an object before and after it, and whether a user asked for it.
#[derive(Clone, Copy, Debug)]
pub struct Write<'a> {
    /// The object before; none if it was made.
    pub before: Option<&'a Value>,
    /// The object after; none if it is gone.
    pub after: Option<&'a Value>,
    /// Whether a user wrote, not the system.
    pub by_user: bool,
}

/// What a Command asked for, and what came of it.
#[derive(Clone, Debug)]
struct Order {
    wants: &'static str,
    queue: String,
    queue_uid: String,
    applied: u32,
    /// The Command is still there.
    stands: bool,
}

/// Watches queues, and what is delivered to them, write by write.
///
/// `Q1` deliveries only where they may go; `Q2` a Command has its effect once; `Q3` nothing is lost; `I8` a queue vanishes
/// only when it was asked to, and empty.
#[derive(Clone, Debug, Default)]
pub struct QueueWatch {
    /// Uids of what users asked to delete.
    asked: BTreeSet<String>,
    /// Commands that were seen, by uid.
    orders: BTreeMap<String, Order>,
}

impl QueueWatch {
    /// Begins to watch a world in which things are under way: what is being deleted was asked to go.
    pub fn begin(objects: &Objects) -> Self {
        let all = [&objects.queues, &objects.jobs, &objects.pod_groups, &objects.pods];
        let going = all.into_iter().flatten().filter(|object| leaving(object));
        Self {
            asked: going.map(|object| meta(object, "uid").to_owned()).collect(),
            orders: BTreeMap::new(),
        }
    }

    /// A user asks for this object to be deleted.
    pub fn asked_to_delete(&mut self, object: &Value) {
        self.asked.insert(meta(object, "uid").to_owned());
    }

    /// What is wrong with a write; `objects` is the world after it.
    pub fn observe(&mut self, write: Write<'_>, objects: &Objects) -> Vec<Finding> {
        let mut findings = Vec::new();
        let Some(object) = write.after.or(write.before) else {
            return findings;
        };
        let kind = text(object, &["kind"]).to_owned();
        if write.after.is_some() {
            delivery(&kind, write, objects, &mut findings);
        }
        match (kind.as_str(), write.after) {
            ("Command", after) => self.command(object, after.is_none(), objects, &mut findings),
            ("Queue", Some(after)) => {
                self.steered(write, &mut findings);
                if leaving(after) && !write.before.is_some_and(leaving) {
                    self.queue_leaves(after, objects, &mut findings);
                }
            }
            ("Queue", None) => {
                if !write.before.is_some_and(leaving) {
                    self.queue_leaves(object, objects, &mut findings);
                }
                queue_gone(object, objects, &mut findings);
            }
            ("Job" | "PodGroup" | "Pod", None) => self.lost(&kind, object, objects, &mut findings),
            _ => {}
        }
        findings
    }

    /// What is wrong at rest: Commands that nobody has obeyed.
    pub fn settled(&self) -> Vec<Finding> {
        let left = self.orders.values().filter(|order| order.stands);
        left.map(|order| {
            let message = format!("a Command to make it {} still stands", order.wants);
            Finding::on(Invariant::CommandsOnce, format!("Queue {}", order.queue), message)
        })
        .collect()
    }

    fn command(&mut self, command: &Value, gone: bool, objects: &Objects, findings: &mut Vec<Finding>) {
        let uid = meta(command, "uid");
        if !gone {
            let wants = match text(command, &["action"]) {
                "OpenQueue" => "Open",
                "CloseQueue" => "Closed",
                _ => return,
            };
            let (queue, queue_uid) = (text(command, &["target", "name"]), text(command, &["target", "uid"]));
            let target = objects.queues.iter().find(|queue| meta(queue, "uid") == queue_uid);
            // Of a Command that is seen for the first time the queue may have a record already.
            let done = target.is_some_and(|queue| words(applied(queue)).any(|word| word == uid));
            self.orders.entry(uid.to_owned()).or_insert_with(|| Order {
                wants,
                queue: queue.to_owned(),
                queue_uid: queue_uid.to_owned(),
                applied: u32::from(done),
                stands: true,
            });
            return;
        }
        let Some(order) = self.orders.get_mut(uid) else { return };
        order.stands = false;
        let target = |queue: &&Value| meta(queue, "name") == order.queue && meta(queue, "uid") == order.queue_uid;
        let there = objects.queues.iter().find(target).is_some_and(|queue| !leaving(queue));
        if order.applied == 0 && there && !self.asked.contains(uid) {
            let message = format!("is gone, and queue {} was never made {}", order.queue, order.wants);
            findings.push(Finding::new(Invariant::CommandsOnce, "Command", command, message));
        }
    }

    /// `spec.state` changes by a user's own write, or by a Command: once for each.
    fn steered(&mut self, write: Write<'_>, findings: &mut Vec<Finding>) {
        let (Some(after), Some(before)) = (write.after, write.before) else {
            return;
        };
        let state = |queue| text(queue, &["spec", "state"]);
        let (new, old) = (applied(after), applied(before));
        let mut steered = false;
        for (uid, order) in &mut self.orders {
            if words(new).any(|word| word == uid) && !words(old).any(|word| word == uid) {
                steered = true;
                order.applied += 1;
                if order.applied > 1 {
                    let message = format!("Command uid {uid} took effect {} times", order.applied);
                    findings.push(Finding::new(Invariant::CommandsOnce, "Queue", after, message));
                }
                if order.queue_uid != meta(after, "uid") {
                    let message = format!("Command uid {uid} was for uid {}, not for this queue", order.queue_uid);
                    findings.push(Finding::new(Invariant::CommandsOnce, "Queue", after, message));
                }
            }
        }
        if state(after) != state(before) && !write.by_user && !steered {
            let message = format!("spec.state went from {:?} to {:?} unasked", state(before), state(after));
            findings.push(Finding::new(Invariant::CommandsOnce, "Queue", after, message));
        }
    }

    /// I8: a queue begins to go only if somebody wanted it, or one above it, gone. Then it may be moved, and go all the same.
    fn queue_leaves(&self, queue: &Value, objects: &Objects, findings: &mut Vec<Finding>) {
        let queues = Queues::read(objects);
        let mut above = Some(queue);
        for _ in 0..=objects.queues.len() {
            let Some(here) = above else { break };
            if self.asked.contains(meta(here, "uid")) {
                return;
            }
            above = queues.get(parent(here));
        }
        let message = "is being deleted although nobody asked for it".to_owned();
        findings.push(Finding::new(Invariant::ClosedQueuesEmpty, "Queue", queue, message));
    }

    /// Q3: what was accepted is there until somebody who may says otherwise.
    fn lost(&self, kind: &str, object: &Value, objects: &Objects, findings: &mut Vec<Finding>) {
        // What belongs to something else goes and comes with it.
        let owned = !list(object, &["metadata", "ownerReferences"]).is_empty();
        if owned || self.asked.contains(meta(object, "uid")) {
            return;
        }
        let queue = match kind {
            "Pod" => text(object, &["metadata", "annotations", QUEUE]),
            _ => text(object, &["spec", "queue"]),
        };
        // Going, a queue takes with it what has ended.
        let going = objects
            .queues
            .iter()
            .any(|found| meta(found, "name") == queue && leaving(found));
        let ended = match kind {
            "Job" => job_ended(object),
            "PodGroup" => group_ended(object, objects),
            _ => false,
        };
        // Some say beforehand that they go once they have ended.
        let transient = kind == "Job" && !at(object, &["spec", "ttlSecondsAfterFinished"]).is_null();
        if !((going || transient) && ended) {
            let message = "is gone, and nobody asked for it".to_owned();
            findings.push(Finding::new(Invariant::NothingLost, kind, object, message));
        }
    }
}

/// I8: only an empty queue vanishes.
fn queue_gone(queue: &Value, objects: &Objects, findings: &mut Vec<Finding>) {
    let name = meta(queue, "name");
    let mut found =
        |message: String| findings.push(Finding::new(Invariant::ClosedQueuesEmpty, "Queue", queue, message));
    let queues = Queues::read(objects);
    if let Some(what) = queues.held_by(name) {
        found(format!("vanished although {what} has not ended"));
    }
    if let Some(child) = queues.children(name).first() {
        found(format!("vanished although it has a child, {child}"));
    }
}

/// The record of Commands in a queue.
fn applied(queue: &Value) -> &str {
    text(queue, &["metadata", "annotations", APPLIED])
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-'))
        .filter(|word| !word.is_empty())
}

/// The queue that a write delivers something to.
fn delivered_to<'a>(kind: &str, write: Write<'a>, objects: &Objects) -> Option<&'a str> {
    let object = write.after?;
    let queue = |object: &'a Value| text(object, &["spec", "queue"]);
    match (kind, write.before) {
        ("Job", None) => Some(queue(object)),
        ("PodGroup", before) => {
            let arrives = before.is_none_or(|before| queue(before) != queue(object));
            (arrives && !follows_owner(objects, object)).then(|| queue(object))
        }
        ("Pod", None) if text(object, &["metadata", "annotations", GROUP]).is_empty() => {
            let queue = text(object, &["metadata", "annotations", QUEUE]);
            (!queue.is_empty()).then_some(queue)
        }
        _ => None,
    }
}

/// Q1: nothing is accepted where it cannot be wanted.
fn delivery(kind: &str, write: Write<'_>, objects: &Objects, findings: &mut Vec<Finding>) {
    let (Some(name), Some(object)) = (delivered_to(kind, write, objects), write.after) else {
        return;
    };
    let queues = Queues::read(objects);
    let why = match queues.get(name) {
        None => Some("which does not exist".to_owned()),
        Some(_) if name == "root" => Some("which takes nothing".to_owned()),
        Some(queue) if leaving(queue) => Some("which is being deleted".to_owned()),
        Some(_) => match (queues.children(name).first(), queues.closed_by(name)) {
            (Some(child), _) => Some(format!("which has a child, {child}")),
            (None, by) => by.map(|by| format!("which queue {by} wants closed")),
        },
    };
    if let Some(why) = why {
        findings.push(Finding::new(
            Invariant::AcceptedDeliveries,
            kind,
            object,
            format!("was accepted into queue {name:?}, {why}"),
        ));
    }
}
