//! One thing that must pass before a job starts.

use basalt_api::quantity::Quantity;
use basalt_api::reason::{Code, Reason};
use serde_json::{Map, Value, json};

use super::place::Places;

/// A reason and what is known around it.
pub(super) struct Check {
    /// Who holds it back.
    pub(super) word: &'static str,
    reason: Reason,
    /// From the top of the tree down to the queue that the reason is about.
    path: Vec<String>,
    /// Who holds how much of what is short, in that queue, now.
    held: Vec<(String, Quantity)>,
}

impl Check {
    pub(super) fn of(reason: Reason, places: &Places<'_>) -> Self {
        let about = Some(reason.queue.as_str()).filter(|queue| !queue.is_empty());
        Self {
            word: word(&reason),
            path: about.map(|queue| places.path(queue)).unwrap_or_default(),
            held: about
                .map(|queue| places.held(queue, &reason.dimension))
                .unwrap_or_default(),
            reason,
        }
    }

    /// What must pass, with all numbers.
    pub(super) fn text(&self) -> String {
        let reason = &self.reason;
        let path = self.path.join("/");
        let text = match (&reason.code, reason.need, reason.have) {
            (Code::QueueOverCapability | Code::AncestorOverCapability, Some(need), Some(have)) => {
                format!("{path} capability {}: would hold {need} of {have}", reason.dimension)
            }
            (Code::QueueOverDeserved, Some(need), Some(have)) => {
                format!("{path} deserved {}: would hold {need} of {have}", reason.dimension)
            }
            (Code::ReservedForOthers, Some(need), Some(have)) => {
                format!(
                    "{path} {}: would hold {need}, others' guarantees leave {have}",
                    reason.dimension
                )
            }
            (Code::GangNotReady, Some(need), Some(have)) => {
                format!("needs {need} {} together, {have} exist", reason.dimension)
            }
            (Code::NotEnoughResources, Some(need), Some(have)) if reason.dimension == "pods" => {
                format!("needs {need} members together, {have} fit now")
            }
            (Code::WaitingForEviction, Some(need), Some(have)) => {
                format!("needs {need} members together, {have} have a place; evicted pods must end first")
            }
            (_, Some(need), Some(have)) if !reason.nodes.is_empty() => {
                let resource = &reason.dimension;
                format!(
                    "{}; a pod needs {need} {resource}, the best node has {have}",
                    self.nodes()
                )
            }
            _ if !reason.nodes.is_empty() => self.nodes(),
            _ if path.is_empty() => sentence(reason),
            _ => format!(
                "{path}: {}",
                sentence(&Reason {
                    queue: String::new(),
                    ..reason.clone()
                })
            ),
        };
        if self.held.is_empty() {
            return text;
        }
        let held: Vec<String> = self
            .held
            .iter()
            .map(|(queue, held)| format!("{queue} {held}"))
            .collect();
        format!("{text}   (held: {})", held.join(", "))
    }

    /// `212 nodes tried: 180 not enough cpu, 24 taint`, the commonest first.
    fn nodes(&self) -> String {
        let nodes = &self.reason.nodes;
        let total = nodes
            .values()
            .fold(0_i64, |sum, count| sum.saturating_add(i64::from(*count)));
        let mut kinds: Vec<(&String, &i32)> = nodes.iter().collect();
        kinds.sort_by_key(|(why, count)| (std::cmp::Reverse(**count), *why));
        let kinds: Vec<String> = kinds.iter().map(|(why, count)| format!("{count} {why}")).collect();
        format!("{total} nodes tried: {}", kinds.join(", "))
    }

    /// The reason as the API writes it, and what is known around it.
    pub(super) fn data(&self) -> Value {
        let held: Map<String, Value> = self
            .held
            .iter()
            .map(|(queue, held)| (queue.clone(), held.to_string().into()))
            .collect();
        let reason = &self.reason;
        json!({
            "check": self.word,
            "code": reason.code.to_string(),
            "queue": reason.queue,
            "path": self.path,
            "dimension": reason.dimension,
            "need": reason.need.map(|need| need.to_string()),
            "have": reason.have.map(|have| have.to_string()),
            "held": held,
            "nodes": reason.nodes,
            "message": reason.message(),
        })
    }
}

/// Who holds it back.
fn word(reason: &Reason) -> &'static str {
    match reason.code {
        Code::GangNotReady | Code::WaitingForEviction => "gang",
        Code::NotEnoughResources if reason.dimension == "pods" => "gang",
        Code::NotEnoughResources if !reason.nodes.is_empty() => "nodes",
        Code::NoFittingNode | Code::NodeLocked => "nodes",
        Code::NotEnoughResources | Code::ClusterOvercommitted => "cluster",
        Code::QuotaExceeded => "quota",
        Code::NotSupported | Code::BindFailed => "scheduler",
        Code::Gated | Code::PodGroupNotFound => "pods",
        Code::Other(_) => "other",
        _ => "queue",
    }
}

/// The reason's own words, without the stop.
fn sentence(reason: &Reason) -> String {
    reason.message().trim_end_matches('.').to_owned()
}
