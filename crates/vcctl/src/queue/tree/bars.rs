//! The tree as a table: names indented, numbers, and a bar in what is left of the line.

use basalt_api::json::string_at;
use serde_json::Value;

use super::super::reservation::Reservation;
use super::super::{deserved, name, state_colour};
use super::forest::Branch;
use crate::output::table::{Cell, Table};
use crate::resources::{amount, show};
use crate::terminal::Colour;

/// A bar shorter than this says nothing.
const SHORTEST: usize = 10;
/// Deeper levels are not indented further: only a damaged tree has them.
const DEEPEST: usize = 20;

/// Whether any queue has an amount of a resource.
pub(super) fn is_known(branches: &[Branch<'_>], resource: &str) -> bool {
    branches
        .iter()
        .any(|branch| Amounts::of(branch.queue, resource).known())
}

/// One line a queue, with bars that fill lines of `width`.
pub(super) fn table(branches: &[Branch<'_>], resource: &str, width: usize) -> Table {
    let amounts: Vec<Amounts> = branches
        .iter()
        .map(|branch| Amounts::of(branch.queue, resource))
        .collect();
    let mut table = base(branches, |branch| {
        let queue = branch.queue;
        [
            &queue["status"]["allocated"],
            deserved(queue),
            &queue["spec"]["capability"],
        ]
        .map(|list| amount(list, resource).map_or(String::new(), |amount| amount.to_string()))
    });
    reservations(&mut table, branches, |list| {
        amount(list, resource).map_or(String::new(), |amount| amount.to_string())
    });
    let room = table.room(width).max(SHORTEST);
    let scale = amounts.iter().map(Amounts::largest).fold(0.0, f64::max);
    let bars = amounts.iter().map(|amounts| amounts.bar(scale, room));
    // A long resource name must not make lines longer than the bars do.
    let title: String = resource.chars().take(room).collect();
    table.column(&title, bars);
    table
}

/// One line a queue, with all resources written out.
pub(super) fn wide(branches: &[Branch<'_>]) -> Table {
    let mut table = base(branches, |branch| {
        let queue = branch.queue;
        [
            &queue["status"]["allocated"],
            deserved(queue),
            &queue["spec"]["capability"],
        ]
        .map(show)
    });
    reservations(&mut table, branches, show);
    table
}

/// What is reserved, where anything is: how much, how many nodes are locked, what is idle on them, and how it stands.
fn reservations(table: &mut Table, branches: &[Branch<'_>], amount: impl Fn(&Value) -> String) {
    let all = || branches.iter().map(|branch| Reservation::of(branch.queue));
    if !all().any(Reservation::is_any) {
        return;
    }
    let locked = |one: Reservation<'_>| match one.nodes().count() {
        0 => String::new(),
        1 => "1 node".to_owned(),
        count => format!("{count} nodes"),
    };
    table.column("Reserved", all().map(|one| Cell::new(amount(one.target()))));
    table.column("Locked", all().map(|one| Cell::new(locked(one))));
    table.column("Idle", all().map(|one| Cell::new(amount(one.idle()))));
    let standing = all().map(|one| match one.standing() {
        (said, colour) if one.is_any() => Cell::new(said).coloured(colour),
        _ => Cell::new(""),
    });
    table.column("Reservation", standing);
}

fn base(branches: &[Branch<'_>], amounts: impl Fn(&Branch<'_>) -> [String; 3]) -> Table {
    let mut table = Table::new(["Name", "State", "Allocated", "Deserved", "Capability"]);
    for branch in branches {
        let indented = format!("{}{}", "  ".repeat(branch.depth.min(DEEPEST)), name(branch.queue));
        let state = string_at(branch.queue, "/status/state");
        let mut row = vec![Cell::new(indented), Cell::from(state).coloured(state_colour(state))];
        row.extend(amounts(branch).map(Cell::new));
        table.row(row);
    }
    if branches.iter().any(|branch| branch.problem.is_some()) {
        let problem = |branch: &Branch<'_>| branch.problem.as_ref().map_or(String::new(), ToString::to_string);
        let cells = branches
            .iter()
            .map(|branch| Cell::new(problem(branch)).coloured(Some(Colour::Red)));
        table.column("Problem", cells.collect::<Vec<_>>());
    }
    table
}

/// How much of one resource a queue has, deserves and may have at most.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Amounts {
    allocated: Option<f64>,
    deserved: Option<f64>,
    capability: Option<f64>,
}

impl Amounts {
    fn of(queue: &Value, resource: &str) -> Self {
        // For drawing alone, so that floating point will do.
        let of = |list: &Value| amount(list, resource).map(|amount| (amount.nano() as f64).max(0.0));
        Self {
            allocated: of(&queue["status"]["allocated"]),
            deserved: of(deserved(queue)),
            capability: of(&queue["spec"]["capability"]),
        }
    }

    fn known(&self) -> bool {
        self.allocated.is_some() || self.deserved.is_some() || self.capability.is_some()
    }

    fn largest(&self) -> f64 {
        let all = [self.allocated, self.deserved, self.capability];
        all.into_iter().flatten().fold(0.0, f64::max)
    }

    /// `[==--..  ]`, `width` wide in all, where the inside stands for 0 to `scale`.
    fn bar(&self, scale: f64, width: usize) -> Cell {
        let inside = width.saturating_sub(2);
        let cells = |amount: f64| match amount / scale * inside as f64 {
            // What is there at all is seen.
            part if part > 0.0 => (part.round() as usize).clamp(1, inside),
            _ => 0,
        };
        let allocated = self.allocated.map_or(0, cells);
        let mut deserved = self.deserved.map_or(0, cells);
        if self.borrows() {
            deserved = deserved.min(allocated.saturating_sub(1));
        }
        // Without a limit of its own the whole is open to it.
        let capability = self.capability.map_or(if scale > 0.0 { inside } else { 0 }, cells);
        let sign = |at: usize| match () {
            () if at < allocated && (at < deserved || self.deserved.is_none()) => '=',
            () if at < allocated => '+',
            () if at < deserved => '-',
            () if at < capability => '.',
            () => ' ',
        };
        let drawn: String = (0..inside).map(sign).collect();
        Cell::new(format!("[{drawn}]")).coloured(self.colour())
    }

    fn borrows(&self) -> bool {
        matches!((self.allocated, self.deserved), (Some(allocated), Some(deserved)) if allocated > deserved)
    }

    fn colour(&self) -> Option<Colour> {
        let allocated = self.allocated.filter(|amount| *amount > 0.0)?;
        if self.capability.is_some_and(|limit| allocated > limit) {
            return Some(Colour::Red);
        }
        Some(if self.borrows() { Colour::Yellow } else { Colour::Green })
    }
}

#[cfg(test)]
mod tests {
    use super::super::forest::Forest;
    use super::*;
    use serde_json::json;

    fn queue(name: &str, parent: &str, allocated: &str, deserved: &str, capability: &str) -> Value {
        let list = |amount: &str| {
            if amount.is_empty() {
                json!({})
            } else {
                json!({"cpu": amount, "memory": "1Gi"})
            }
        };
        json!({
            "metadata": {"name": name}, "spec": {"parent": parent, "capability": list(capability)},
            "status": {"state": "Open", "allocated": list(allocated), "deserved": list(deserved)},
        })
    }

    fn sample() -> Vec<Value> {
        vec![
            queue("root", "", "36", "160", ""),
            queue("ml", "root", "30", "64", "128"),
            queue("vision", "ml", "20", "16", "32"),
            queue("nlp", "ml", "10", "48", "64"),
            queue("tiny", "root", "1m", "", "1"),
            queue("over", "root", "6", "4", "5"),
            queue("lost", "gone", "", "8", ""),
            queue("turn", "turn", "", "", ""),
        ]
    }

    fn draw(queues: &[Value], resource: &str, width: usize) -> String {
        table(&Forest::of(queues).whole(), resource, width).render(false)
    }

    #[test]
    fn bars_fill_the_line_whatever_its_width() {
        let healthy = &sample()[..6];
        for width in [70, 80, 100, 200] {
            let drawn = draw(healthy, "cpu", width);
            for line in drawn.lines().skip(1) {
                assert_eq!(line.chars().count(), width, "{drawn}");
            }
        }
        insta::assert_snapshot!("wide_terminal", draw(healthy, "cpu", 120));
        insta::assert_snapshot!("pipe", draw(healthy, "cpu", 100));
        insta::assert_snapshot!("narrow_terminal", draw(healthy, "cpu", 20));
        insta::assert_snapshot!("damaged", draw(&sample(), "cpu", 140));
        insta::assert_snapshot!("unknown_resource", draw(healthy, "nvidia.com/gpu", 80));
        insta::assert_snapshot!("all_resources", wide(&Forest::of(&sample()).whole()).render(false));
    }

    #[test]
    fn reservations_are_beside_the_amounts() {
        let mut queues = sample()[..4].to_vec();
        let met = |status: &str, reason: &str| json!([{"type": "ReservationMet", "status": status, "reason": reason}]);
        queues[1]["status"]["reservation"] =
            json!({"nodes": ["n1", "n2"], "resource": {"cpu": "12", "memory": "8Gi"}, "target": {"cpu": "32"}});
        queues[1]["status"]["conditions"] = met("True", "Met");
        queues[2]["status"]["reservation"] =
            json!({"nodes": ["n1"], "resource": {"cpu": "4"}, "target": {"cpu": "16"}, "waitingFor": 3});
        queues[2]["status"]["conditions"] = met("False", "WaitingForPods");
        insta::assert_snapshot!("reserved", draw(&queues, "cpu", 140));
        insta::assert_snapshot!("reserved_wide", wide(&Forest::of(&queues).whole()).render(false));
    }

    #[test]
    fn a_bar_shows_what_is_used_borrowed_deserved_and_possible() {
        let check = |amounts: [Option<f64>; 3], expected: &str, colour: Option<Colour>| {
            let [allocated, deserved, capability] = amounts;
            let amounts = Amounts {
                allocated,
                deserved,
                capability,
            };
            assert_eq!(
                amounts.bar(10.0, 12),
                Cell::new(expected).coloured(colour),
                "{amounts:?}"
            );
        };
        check([Some(2.0), Some(4.0), Some(8.0)], "[==--....  ]", Some(Colour::Green));
        check([Some(6.0), Some(4.0), Some(8.0)], "[====++..  ]", Some(Colour::Yellow));
        check([Some(9.0), Some(4.0), Some(8.0)], "[====+++++ ]", Some(Colour::Red));
        check([Some(4.2), Some(4.1), Some(8.0)], "[===+....  ]", Some(Colour::Yellow));
        check([Some(3.0), None, None], "[===.......]", Some(Colour::Green));
        check([Some(0.0), Some(0.01), None], "[-.........]", None);
        check(
            [Some(0.01), Some(0.0), Some(10.0)],
            "[+.........]",
            Some(Colour::Yellow),
        );
        check([None, None, Some(5.0)], "[.....     ]", None);
    }

    #[test]
    fn colours_are_for_terminals() {
        let queues = sample();
        let coloured = table(&Forest::of(&queues).whole(), "cpu", 100).render(true);
        assert!(coloured.contains("\u{1b}[33m[") && coloured.contains("\u{1b}[31m["));
        assert!(!draw(&queues, "cpu", 100).contains('\u{1b}'));
    }
}
