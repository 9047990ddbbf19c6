//! `vcctl node list`

use std::collections::BTreeMap;

use basalt_api::Quantity;
use basalt_api::json::string_at;
use basalt_api::resource_kind::{NODE, POD};
use clap::Args;
use kube::api::ListParams;
use serde_json::Value;

use super::load::{Load, loads};
use crate::error::CliError;
use crate::output::age::age;
use crate::output::table::{Cell, Table};
use crate::output::{self, Format};
use crate::pod;
use crate::queue::tree::Line;
use crate::queue::{self, reservation::Reservation};
use crate::resources::amount;
use crate::session::Session;
use crate::terminal::{Colour, neutral};

#[derive(Debug, Args)]
#[command(
    after_help = "Queue: who holds the node, the innermost first. Only that one and the queues below it get new pods there.\nWith -o wide, Foreign: pods on it that are not theirs, and that a reservation waits for.\n\nExamples:\n  vcctl node list\n  vcctl node list -q research -o wide\n  vcctl node list -l zone=a,gpu=yes --locked"
)]
pub(crate) struct ListArgs {
    /// Only nodes that this queue holds
    #[arg(long, short = 'q')]
    queue: Option<String>,
    /// Only nodes that some queue holds
    #[arg(long)]
    locked: bool,
    /// Only nodes with these labels (key=value,…)
    #[arg(long, short = 'l')]
    selector: Option<String>,
    /// How to show them
    #[arg(long, short = 'o', value_enum)]
    output: Option<Format>,
}

pub(crate) async fn execute(args: ListArgs, session: &mut Session<'_>) -> Result<(), CliError> {
    let selected = args.selector.as_deref().unwrap_or_default();
    let mut nodes = session
        .list(NODE, None, &ListParams::default().labels(selected))
        .await?;
    nodes.sort_by(pod::order);
    // Who may list nodes need not be allowed to list the rest; but a choice by queue cannot be made without queues.
    let is_table = matches!(args.output, None | Some(Format::Wide));
    let chosen = args.locked || args.queue.is_some();
    let queues = match queue::all(session).await {
        Err(error) if chosen => return Err(error),
        queues => readable("queues are", queues, is_table, session)?,
    };
    let holders = Holders::of(queues.as_deref().unwrap_or_default());
    nodes.retain(|node| args.matches(holders.chain(string_at(node, "/metadata/name"))));
    let pods = if is_table {
        let pods = session.list(POD, None, &ListParams::default()).await;
        readable("use is", pods, is_table, session)?
    } else {
        None
    };
    let columns = Columns {
        now: jiff::Timestamp::now(),
        loads: pods.as_deref().map(loads),
        holders: &holders,
    };
    let table = |nodes: &[Value], wide| columns.table(nodes, wide);
    output::print_list(NODE, nodes, args.output, table, session)
}

/// What could be read; if it is missed in the table, that is told.
fn readable(
    what: &str,
    read: Result<Vec<Value>, CliError>,
    missed: bool,
    session: &mut Session<'_>,
) -> Result<Option<Vec<Value>>, CliError> {
    match read {
        Ok(read) => Ok(Some(read)),
        Err(error) => {
            if missed {
                let error = neutral(&error.to_string());
                session.tell(&format!("Warning: {what} not shown: {error}"))?;
            }
            Ok(None)
        }
    }
}

impl ListArgs {
    fn matches(&self, chain: &[&str]) -> bool {
        let by_queue = self.queue.as_ref().is_none_or(|queue| chain.contains(&queue.as_str()));
        by_queue && (!self.locked || !chain.is_empty())
    }
}

/// Which queues hold which nodes.
struct Holders<'a> {
    lines: BTreeMap<&'a str, Line<'a>>,
    by_node: BTreeMap<&'a str, Vec<&'a str>>,
}

impl<'a> Holders<'a> {
    fn of(queues: &'a [Value]) -> Self {
        let lines = queue::tree::lines(queues);
        let mut by_node: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for queue in queues {
            for node in Reservation::of(queue).nodes() {
                by_node
                    .entry(node)
                    .or_default()
                    .push(string_at(queue, "/metadata/name"));
            }
        }
        let depth = |name: &&str| lines.get(name).map_or(0, Vec::len);
        for holders in by_node.values_mut() {
            holders.sort_by_key(|name| (std::cmp::Reverse(depth(name)), *name));
            holders.dedup();
        }
        Self { lines, by_node }
    }

    /// Who holds a node, the deepest first.
    fn chain(&self, node: &str) -> &[&'a str] {
        self.by_node.get(node).map_or(&[], Vec::as_slice)
    }

    /// Whether a queue may use a node.
    fn admits(&self, node: &str, queue: &str) -> bool {
        let Some(deepest) = self.chain(node).first() else {
            return true;
        };
        self.lines.get(queue).is_some_and(|line| line.contains(deepest))
    }
}

/// What the table is made of.
struct Columns<'a> {
    now: jiff::Timestamp,
    /// By node; none: pods cannot be read.
    loads: Option<BTreeMap<&'a str, Load<'a>>>,
    holders: &'a Holders<'a>,
}

impl Columns<'_> {
    fn table(&self, nodes: &[Value], wide: bool) -> Table {
        let mut header = vec!["Name", "Status", "Queue", "CPU", "Memory", "GPU", "Pods", "Age"];
        if wide {
            header.extend(["Foreign", "Taints"]);
        }
        let mut table = Table::new(header);
        for node in nodes {
            table.row(self.row(node, wide));
        }
        table
    }

    fn row(&self, node: &Value, wide: bool) -> Vec<Cell> {
        let name = string_at(node, "/metadata/name");
        let none = Load::default();
        let load = self.loads.as_ref().map(|loads| loads.get(name).unwrap_or(&none));
        let (status, colour) = status(node);
        let part = |wanted: &dyn Fn(&str) -> bool| part(node, load, wanted);
        let count = load.map(|load| load.pods.len().to_string());
        let mut cells = vec![
            Cell::new(name),
            Cell::new(status).coloured(Some(colour)),
            Cell::new(self.holders.chain(name).join(" < ")),
            Cell::new(part(&|resource| resource == "cpu")),
            Cell::new(part(&|resource| resource == "memory")),
            Cell::new(part(&|resource| resource.ends_with("/gpu"))),
            Cell::new(over(count, amount(&node["status"]["allocatable"], "pods"))),
            Cell::new(age(string_at(node, "/metadata/creationTimestamp"), self.now)),
        ];
        if wide {
            let foreign = load.map(|load| self.foreign(name, load).to_string());
            cells.extend([Cell::new(foreign.unwrap_or_default()), Cell::new(taints(node))]);
        }
        cells
    }

    /// Pods on a node whose queue does not hold it.
    fn foreign(&self, node: &str, load: &Load<'_>) -> usize {
        let theirs = |pod: &&&Value| !self.holders.admits(node, pod::queue(pod));
        load.pods.iter().filter(theirs).count()
    }
}

/// `used/allocatable` of the resources that are wanted; nothing where the node has none of them.
fn part(node: &Value, load: Option<&Load<'_>>, wanted: &dyn Fn(&str) -> bool) -> String {
    let sum = |amounts: &mut dyn Iterator<Item = Quantity>| amounts.reduce(Quantity::saturating_add);
    let offers = &node["status"]["allocatable"];
    let names = offers.as_object().into_iter().flat_map(serde_json::Map::keys);
    let offered = sum(&mut names
        .filter(|name| wanted(name))
        .filter_map(|name| amount(offers, name)));
    let used = load.map(|load| {
        let used = load.used.iter().filter(|(name, _)| wanted(name));
        sum(&mut used.map(|(_, amount)| *amount)).map_or("0".to_owned(), |amount| amount.to_string())
    });
    over(used, offered)
}

fn over(used: Option<String>, offered: Option<Quantity>) -> String {
    offered.map_or(String::new(), |offered| {
        format!("{}/{offered}", used.as_deref().unwrap_or("?"))
    })
}

/// As kubectl says it.
fn status(node: &Value) -> (String, Colour) {
    let conditions = node["status"]["conditions"].as_array().into_iter().flatten();
    let ready = conditions.filter(|one| string_at(one, "/type") == "Ready");
    let (word, colour) = match ready.map(|one| string_at(one, "/status")).next() {
        Some("True") => ("Ready", Colour::Green),
        Some("False") => ("NotReady", Colour::Red),
        _ => ("Unknown", Colour::Red),
    };
    if node["spec"]["unschedulable"].as_bool() == Some(true) {
        return (format!("{word},SchedulingDisabled"), Colour::Yellow);
    }
    (word.to_owned(), colour)
}

fn taints(node: &Value) -> String {
    let taints = node["spec"]["taints"].as_array().into_iter().flatten();
    let taint = |one: &Value| match string_at(one, "/value") {
        "" => format!("{}:{}", string_at(one, "/key"), string_at(one, "/effect")),
        value => format!("{}={value}:{}", string_at(one, "/key"), string_at(one, "/effect")),
    };
    taints.map(taint).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn queue(name: &str, parent: &str, nodes: &[&str]) -> Value {
        json!({"metadata": {"name": name}, "spec": {"parent": parent}, "status": {"reservation": {"nodes": nodes}}})
    }

    fn node(name: &str, ready: &str, gpus: u32) -> Value {
        json!({
            "metadata": {"name": name, "creationTimestamp": "2026-11-15T09:48:00Z"}, "spec": {},
            "status": {"allocatable": {"cpu": "16", "memory": "64Gi", "pods": "110", "nvidia.com/gpu": gpus}, "conditions": [{"type": "Ready", "status": ready}]},
        })
    }

    fn pod(node: &str, queue: &str, phase: &str) -> Value {
        json!({
            "metadata": {"name": "p", "namespace": "ml", "labels": {"volcano.sh/queue-name": queue}},
            "spec": {"nodeName": node, "containers": [{"resources": {"requests": {"cpu": "1500m", "memory": "1Gi", "nvidia.com/gpu": 1}}}]},
            "status": {"phase": phase},
        })
    }

    #[test]
    fn nodes_are_shown_with_who_holds_them() {
        let queues = [
            queue("root", "", &[]),
            queue("ml", "root", &["n1", "n2"]),
            queue("vision", "ml", &["n1"]),
            queue("nlp", "ml", &[]),
        ];
        let mut cordoned = node("n3", "True", 0);
        cordoned["spec"] = json!({"unschedulable": true, "taints": [{"key": "gone", "effect": "NoExecute"}, {"key": "k", "value": "v", "effect": "NoSchedule"}]});
        let nodes = [
            node("n1", "True", 4),
            node("n2", "False", 4),
            cordoned,
            json!({"metadata": {"name": "x\u{9b}2J"}, "status": "odd"}),
        ];
        let pods = [
            pod("n1", "vision", "Running"),
            pod("n1", "nlp", "Running"),
            pod("n1", "vision", "Succeeded"),
            pod("n2", "nlp", "Pending"),
            pod("n2", "default", "Running"),
            pod("", "ml", "Pending"),
        ];
        let holders = Holders::of(&queues);
        let table = |pods: Option<&'_ [Value]>, wide: bool| {
            let columns = Columns {
                now: "2026-11-15T10:00:00Z".parse().unwrap(),
                loads: pods.map(loads),
                holders: &holders,
            };
            columns.table(&nodes, wide).render(false)
        };
        insta::assert_snapshot!("narrow", table(Some(&pods), false));
        insta::assert_snapshot!("wide", table(Some(&pods), true));
        insta::assert_snapshot!("pods_cannot_be_read", table(None, true));
    }
}
