//! What is reserved for a queue, as people read it.

use basalt_api::json::{integer_or_zero, string_at};
use serde_json::{Value, json};

use crate::resources::{canonical, show};
use crate::terminal::Colour;

/// A queue's wish for nodes of its own, and what became of it.
#[derive(Clone, Copy)]
pub(crate) struct Reservation<'a> {
    queue: &'a Value,
    /// `status.reservation`; null where there is none.
    held: &'a Value,
}

impl<'a> Reservation<'a> {
    /// Of any queue; it need not have one.
    pub(crate) fn of(queue: &'a Value) -> Self {
        let held = &queue["status"]["reservation"];
        Self { queue, held }
    }

    /// Whether there is anything to show.
    pub(crate) fn is_any(self) -> bool {
        self.held.is_object() || self.condition().is_some()
    }

    fn condition(self) -> Option<&'a Value> {
        let conditions = self.queue["status"]["conditions"].as_array()?;
        conditions
            .iter()
            .find(|one| string_at(one, "/type") == "ReservationMet")
    }

    /// What is asked for besides amounts: the policy, and the part of the nodes.
    pub(super) fn wish(self) -> String {
        let guarantee = &self.queue["spec"]["guarantee"];
        let percentage = &guarantee["percentage"];
        let mut parts = Vec::new();
        let policy = string_at(guarantee, "/policy");
        if !policy.is_empty() {
            parts.push(policy.to_owned());
        } else if percentage.is_object() || guarantee["resource"].as_object().is_some_and(|list| !list.is_empty()) {
            parts.push("Best-Effort".to_owned());
        }
        if percentage.is_object() {
            let dimensions = percentage["dimensions"].as_array().into_iter().flatten();
            let dimensions: Vec<&str> = dimensions.filter_map(Value::as_str).collect();
            parts.push(format!(
                "{} of the nodes with {}",
                percentage["value"],
                dimensions.join(", ")
            ));
        }
        parts.join(", ")
    }

    /// What must be reached.
    pub(super) fn target(self) -> &'a Value {
        &self.held["target"]
    }

    /// What is idle on the locked nodes.
    pub(super) fn idle(self) -> &'a Value {
        &self.held["resource"]
    }

    /// What the queue and those below have on the locked nodes.
    pub(super) fn used(self) -> String {
        show(&self.held["used"])
    }

    /// The locked nodes.
    pub(crate) fn nodes(self) -> impl Iterator<Item = &'a str> {
        let nodes = self.held["nodes"].as_array();
        nodes.into_iter().flatten().filter_map(Value::as_str)
    }

    /// How it stands: `met`, `waiting for 3 pods to end`, or what is in the way.
    pub(super) fn standing(self) -> (String, Option<Colour>) {
        let waiting = integer_or_zero(self.held, "/waitingFor");
        let pods = if waiting == 1 {
            "1 pod".to_owned()
        } else {
            format!("{waiting} pods")
        };
        let Some(condition) = self.condition() else {
            let said = if waiting > 0 {
                format!("waiting for {pods} to end")
            } else {
                String::new()
            };
            return (said, Some(Colour::Yellow));
        };
        if string_at(condition, "/status") == "True" {
            return ("met".to_owned(), Some(Colour::Green));
        }
        match string_at(condition, "/reason") {
            "WaitingForPods" => (format!("waiting for {pods} to end"), Some(Colour::Yellow)),
            "Evicting" => (format!("waiting for {pods} to be evicted"), Some(Colour::Yellow)),
            "EvictionBlocked" => (format!("not met: {pods} cannot be evicted"), Some(Colour::Red)),
            reason => (format!("not met: {reason}"), Some(Colour::Red)),
        }
    }

    /// For programs; null where there is none.
    pub(super) fn data(self) -> Value {
        if !self.is_any() {
            return Value::Null;
        }
        let condition = self.condition().unwrap_or(&Value::Null);
        let met = match string_at(condition, "/status") {
            "True" => Value::Bool(true),
            "False" => Value::Bool(false),
            _ => Value::Null,
        };
        json!({
            "target": canonical(self.target()),
            "nodes": self.nodes().collect::<Vec<_>>(),
            "idle": canonical(self.idle()),
            "used": canonical(&self.held["used"]),
            "waitingFor": integer_or_zero(self.held, "/waitingFor"),
            "met": met,
            "reason": string_at(condition, "/reason"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_it_stands() {
        let check = |status: &str, reason: &str, waiting: i64, expected: &str| {
            let conditions = if status.is_empty() {
                json!([])
            } else {
                json!([{"type": "Odd"}, {"type": "ReservationMet", "status": status, "reason": reason}])
            };
            let queue =
                json!({"status": {"reservation": {"nodes": ["n1"], "waitingFor": waiting}, "conditions": conditions}});
            assert_eq!(Reservation::of(&queue).standing().0, expected);
        };
        check("True", "Met", 0, "met");
        check("False", "WaitingForPods", 1, "waiting for 1 pod to end");
        check("False", "WaitingForPods", 3, "waiting for 3 pods to end");
        check("False", "Evicting", 2, "waiting for 2 pods to be evicted");
        check("False", "EvictionBlocked", 2, "not met: 2 pods cannot be evicted");
        check("False", "NoSetReachesTarget", 0, "not met: NoSetReachesTarget");
        check("", "", 2, "waiting for 2 pods to end");
        check("", "", 0, "");
    }

    #[test]
    fn what_is_asked_for() {
        let check = |guarantee: Value, expected: &str| {
            let queue = json!({"spec": {"guarantee": guarantee}});
            assert_eq!(Reservation::of(&queue).wish(), expected);
            assert!(!Reservation::of(&queue).is_any());
            assert_eq!(Reservation::of(&queue).data(), Value::Null);
        };
        check(json!({}), "");
        check(json!({"resource": {}}), "");
        check(json!({"resource": {"cpu": "1"}}), "Best-Effort");
        check(json!({"policy": "Guaranteed"}), "Guaranteed");
        let percentage = json!({"dimensions": ["cpu", "memory"], "value": 0.2});
        check(
            json!({"percentage": percentage}),
            "Best-Effort, 0.2 of the nodes with cpu, memory",
        );
        check(
            json!({"percentage": {"value": "odd"}}),
            "Best-Effort, \"odd\" of the nodes with ",
        );
        check(json!("odd"), "");
    }
}
