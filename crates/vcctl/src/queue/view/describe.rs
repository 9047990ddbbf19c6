//! A queue as text: blocks as `kubectl describe` has them.

use std::collections::BTreeSet;

use basalt_api::json::{integer_or_zero, string_at};
use serde_json::Value;

use super::super::reservation::Reservation;
use super::super::{deserved, list, name, state_colour};
use crate::events;
use crate::output::page::{Page, moment};
use crate::output::table::{Cell, Table};
use crate::resources::{self, show};
use crate::terminal::Look;

/// A queue and what is around it; where that could not be read, why.
pub(super) struct Subject<'a> {
    pub(super) queue: &'a Value,
    pub(super) children: Result<Vec<String>, String>,
    pub(super) events: Result<Vec<Value>, String>,
}

impl Subject<'_> {
    pub(super) fn describe(&self, now: jiff::Timestamp, look: Look) -> String {
        let queue = self.queue;
        let mut page = Page::new(look);
        page.line("Name", name(queue));
        page.line("Created", &moment(string_at(queue, "/metadata/creationTimestamp"), now));
        let deleted = string_at(queue, "/metadata/deletionTimestamp");
        if !deleted.is_empty() {
            page.line("Deleted", &format!("{}, not gone yet", moment(deleted, now)));
        }
        let state = string_at(queue, "/status/state");
        page.painted("State", state, state_colour(state));
        page.line("Wanted state", string_at(queue, "/spec/state"));
        page.line("Parent", string_at(queue, "/spec/parent"));
        page.line("Weight", &integer_or_zero(queue, "/spec/weight").to_string());
        page.line("Priority", &integer_or_zero(queue, "/spec/priority").to_string());
        let reclaimable = queue["spec"]["reclaimable"].as_bool().unwrap_or(true);
        page.line("Reclaimable", if reclaimable { "yes" } else { "no" });
        page.line("Share", string_at(queue, "/status/share"));
        reservation(&mut page, queue);
        match &self.children {
            Ok(children) => page.line("Children", &children.join(", ")),
            Err(why) => page.line("Children", &format!("not readable: {why}")),
        }
        page.block("Resources", &amounts(queue));
        page.block("Jobs", &counters(queue));
        page.block("Conditions", &events::conditions(queue, now));
        page.block_or("Events", self.events.as_ref().map(|events| events::table(events, now)));
        page.finish()
    }
}

/// Nodes that are kept for the queue alone.
fn reservation(page: &mut Page, queue: &Value) {
    let reservation = Reservation::of(queue);
    page.line_if_any("Guarantee", &reservation.wish());
    if !reservation.is_any() {
        return;
    }
    let (standing, colour) = reservation.standing();
    page.painted("Reservation", &standing, colour);
    page.line("Reserved", &show(reservation.target()));
    let nodes: Vec<&str> = reservation.nodes().collect();
    let locked = match nodes.len() {
        0 => String::new(),
        count => format!("{count}: {}", nodes.join(", ")),
    };
    page.line("Locked nodes", &locked);
    page.line("Idle there", &show(reservation.idle()));
    page.line("Used there", &reservation.used());
}

/// One row a resource.
fn amounts(queue: &Value) -> Table {
    let (spec, status) = (&queue["spec"], &queue["status"]);
    let columns = [
        &status["allocated"],
        deserved(queue),
        &spec["deserved"],
        &spec["guarantee"]["resource"],
        &spec["capability"],
    ];
    let resources: BTreeSet<&String> = columns
        .iter()
        .filter_map(|list| list.as_object())
        .flat_map(serde_json::Map::keys)
        .collect();
    let mut table = Table::new([
        "Resource",
        "Allocated",
        "Deserved",
        "DeservedInSpec",
        "Guarantee",
        "Capability",
    ]);
    for resource in resources {
        let mut row = vec![Cell::from(resource.as_str())];
        row.extend(columns.iter().map(|list| match resources::amount(list, resource) {
            Some(amount) => Cell::new(amount),
            None => Cell::new(list.get(resource).map_or(String::new(), Value::to_string)),
        }));
        table.row(row);
    }
    table
}

fn counters(queue: &Value) -> Table {
    let mut table = Table::new([
        "Total",
        "Pending",
        "Inqueue",
        "Running",
        "Unknown",
        "Completed",
        "Failed",
        "Aborted",
    ]);
    let names = [
        "pending",
        "inqueue",
        "running",
        "unknown",
        "completed",
        "failed",
        "aborted",
    ];
    let mut row = vec![Cell::from(list::total(queue))];
    row.extend(names.map(|counter| Cell::from(integer_or_zero(&queue["status"], &format!("/{counter}")))));
    table.row(row);
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn now() -> jiff::Timestamp {
        "2026-11-15T10:00:00Z".parse().unwrap()
    }

    fn show_subject(
        queue: &Value,
        children: Result<Vec<String>, String>,
        events: Result<Vec<Value>, String>,
    ) -> String {
        Subject {
            queue,
            children,
            events,
        }
        .describe(now(), Look::default())
    }

    fn research() -> Value {
        json!({
            "metadata": {"name": "research", "creationTimestamp": "2026-11-14T10:00:00Z", "deletionTimestamp": "2026-11-15T09:59:58Z"},
            "spec": {
                "weight": 4, "state": "Closed", "parent": "root", "reclaimable": false, "priority": 7,
                "capability": {"cpu": 8}, "deserved": {"cpu": "4000m"}, "guarantee": {"policy": "Guaranteed", "resource": {"memory": "1Gi"}},
            },
            "status": {
                "state": "Closing", "pending": 1, "running": 2, "inqueue": 3, "unknown": 4, "completed": 5, "failed": 6, "aborted": 7,
                "allocated": {"cpu": "3", "nvidia.com/gpu": "odd"}, "deserved": {"cpu": "6"}, "share": "0.500000",
                "reservation": {"nodes": ["node-1", "node-2"], "resource": {"cpu": "2"}, "used": {"cpu": "6"}, "target": {"cpu": "12"}, "waitingFor": 4},
                "conditions": [{"type": "Ready", "status": "False", "reason": "Closing", "lastTransitionTime": "2026-11-15T09:00:00Z", "message": "2 jobs run\u{1b}[2J"},
                    {"type": "ReservationMet", "status": "False", "reason": "WaitingForPods", "lastTransitionTime": "2026-11-15T09:30:00Z", "message": "4 cpu are missing"}],
            },
        })
    }

    #[test]
    fn everything_about_a_queue() {
        let event = |n: u32| {
            json!({"type": if n == 3 { "Warning" } else { "Normal" }, "reason": format!("R{n}"), "message": format!("message {n}"), "count": n,
                "lastTimestamp": format!("2026-11-15T09:{:02}:00Z", 59 - n)})
        };
        let events: Vec<Value> = (1..=12).map(event).collect();
        let text = show_subject(&research(), Ok(vec!["a".into(), "b".into()]), Ok(events));
        insta::assert_snapshot!("whole", text);
        assert!(!text.contains('\u{1b}') && !text.contains("R12"));
    }

    #[test]
    fn a_queue_that_is_new_or_odd() {
        let new = json!({"metadata": {"name": "new", "creationTimestamp": "soon"}, "spec": "odd", "status": {"conditions": {"a": 1}}});
        insta::assert_snapshot!(
            "new",
            show_subject(&new, Err("forbidden".into()), Err("forbidden".into()))
        );
    }

    #[test]
    fn colour_is_where_the_state_is() {
        let queue = research();
        let subject = Subject {
            queue: &queue,
            children: Ok(Vec::new()),
            events: Ok(Vec::new()),
        };
        let text = subject.describe(
            now(),
            Look {
                colour: true,
                width: 80,
                ..Look::default()
            },
        );
        assert!(text.contains("State:        \u{1b}[33mClosing\u{1b}[0m\n"), "{text}");
    }
}
