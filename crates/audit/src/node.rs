//! I1: the pods on a node never ask for more than it has.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::quantity::{Nano, show};
use crate::read::{at, ended, list, meta, node_of, number, text};
use crate::request::{Amounts, add, amounts, of_pod};
use crate::{Finding, Invariant, Objects};

const POD: Nano = 1_000_000_000;

#[derive(Default)]
struct Load<'a> {
    need: Amounts<'a>,
    pods: usize,
    ports: BTreeMap<(String, i64), usize>,
}

/// Nodes in `judged` whose live pods ask for more than the node offers. A node that shrank under
/// pods that were there before is not the scheduler's doing, so the caller names the nodes to judge.
pub(crate) fn over_commit(objects: &Objects, judged: &BTreeSet<String>, findings: &mut Vec<Finding>) {
    let mut loads: BTreeMap<&str, Load<'_>> = BTreeMap::new();
    for pod in objects
        .pods
        .iter()
        .filter(|pod| !ended(pod) && judged.contains(node_of(pod)))
    {
        let load = loads.entry(node_of(pod)).or_default();
        let mut unread = Vec::new();
        add(&mut load.need, &of_pod(pod, &mut unread));
        load.pods += 1;
        host_ports(pod, &mut load.ports);
        for quantity in unread {
            let message = format!("quantity cannot be read: {quantity}");
            findings.push(Finding::new(Invariant::NoOvercommit, "Pod", pod, message));
        }
    }
    for node in &objects.nodes {
        if let Some(load) = loads.get_mut(meta(node, "name")) {
            judge(node, load, findings);
        }
    }
}

fn judge(node: &Value, load: &mut Load<'_>, findings: &mut Vec<Finding>) {
    let mut unread = Vec::new();
    let have = amounts(at(node, &["status", "allocatable"]), &mut unread);
    let mut found = |message: String| findings.push(Finding::new(Invariant::NoOvercommit, "Node", node, message));
    let count = POD.saturating_mul(load.pods as i128);
    add(&mut load.need, &Amounts::from([("pods", count)]));
    for (name, need) in &load.need {
        let offered = have.get(name).copied();
        // A node that says nothing about pods does not limit them.
        let limit = if *name == "pods" {
            offered.unwrap_or(*need)
        } else {
            offered.unwrap_or(0)
        };
        if *need > limit {
            let (need, limit, pods) = (show(*need), show(limit), load.pods);
            found(format!(
                "{pods} pods ask for {need} {name} in all, the node offers {limit}"
            ));
        }
    }
    for ((port, number), pods) in load.ports.iter().filter(|(_, pods)| **pods > 1) {
        found(format!("{pods} containers take the host port {number} {port}"));
    }
    for quantity in unread {
        found(format!("quantity cannot be read: {quantity}"));
    }
}

fn host_ports(pod: &Value, ports: &mut BTreeMap<(String, i64), usize>) {
    let containers = list(pod, &["spec", "containers"]).iter();
    for port in containers.flat_map(|container| list(container, &["ports"])) {
        let number = number(port, &["hostPort"]);
        if number > 0 {
            let protocol = Some(text(port, &["protocol"]))
                .filter(|word| !word.is_empty())
                .unwrap_or("TCP");
            let key = format!("{protocol} {}", text(port, &["hostIP"])).trim_end().to_owned();
            *ports.entry((key, number)).or_default() += 1;
        }
    }
}
