//! Random worlds: what must hold after every round, whatever came before.

use std::collections::{BTreeMap, BTreeSet};

use basalt_controllers::world::Rules;
use proptest::prelude::*;
use serde_json::Value;

use super::{act, stand};
use crate::cluster::Cluster;

const NODES: [&str; 6] = ["n1", "n2", "n3", "n4", "n5", "n6"];
/// With the queue above: a tree of two levels beside two strangers.
const QUEUES: [(&str, &str); 5] = [("a", "root"), ("b", "root"), ("p", "root"), ("c", "p"), ("d", "p")];

/// One line of a script.
fn line() -> impl Strategy<Value = String> {
    let node = (0..6_usize, 1..5_u32, 0..4_u32, 0..12_u32).prop_map(|(node, cpu, gpu, word)| {
        let word = ["cordoned", "lost"].get(word as usize).copied().unwrap_or("");
        format!("node {} cpu={} gpu={gpu} {word}", NODES[node], 2 * cpu)
    });
    let queue = (0..5_usize, 0..4_u32, 0..3_u32, any::<bool>(), 0..10_u32, 0..8_u32).prop_map(
        |(queue, cpu, gpu, evicts, share, state)| {
            let (name, parent) = QUEUES[queue];
            let policy = if evicts { "Guaranteed" } else { "" };
            let share = if share < 3 {
                format!("share=0.{}:cpu", share + 2)
            } else {
                String::new()
            };
            let state = if state == 0 { "closed" } else { "" };
            format!(
                "queue {name} parent={parent} cpu={} gpu={gpu} {policy} {share} {state}",
                4 * cpu
            )
        },
    );
    let pod = (0..8_usize, 0..6_usize, 0..5_usize, 1..4_u32, 0..12_u32).prop_map(|(pod, node, queue, cpu, word)| {
        let word = ["daemon", "static", "other", "system", "kept", "leaving"]
            .get(word as usize)
            .copied()
            .unwrap_or("");
        let place = if word.is_empty() && cpu == 3 { "for" } else { "on" };
        format!(
            "pod x{pod} {place}={} queue={} cpu={cpu} {word}",
            NODES[node], QUEUES[queue].0
        )
    });
    prop_oneof![
        4 => node,
        4 => queue,
        6 => pod,
        3 => (0..8_usize).prop_map(|pod| format!("gone x{pod}")),
        1 => (0..6_usize).prop_map(|node| format!("lost {}", NODES[node])),
        1 => (0..5_usize).prop_map(|queue| format!("delete {}", QUEUES[queue].0)),
        1 => prop_oneof![Just("locks off".to_owned()), Just("locks on".to_owned())],
        3 => Just("go".to_owned()),
    ]
}

/// Does a line if it makes sense now; who is dropped from a node stays where it is bound.
fn apply(cluster: &mut Cluster, line: &str) {
    let name = line.split_whitespace().nth(1).unwrap_or_default();
    let bound = cluster
        .get("Pod", "n", name)
        .or_else(|| cluster.get("Pod", "kube-system", name));
    if line.starts_with("pod ") && bound.is_some_and(|pod| !pod["spec"]["nodeName"].is_null()) {
        return; // pods do not move
    }
    act(cluster, line);
}

fn holders(cluster: &Cluster) -> BTreeMap<String, BTreeSet<String>> {
    let mut holders: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for queue in cluster.names("Queue") {
        let nodes = cluster.queue(queue)["status"]["reservation"]["nodes"].as_array();
        for node in nodes.into_iter().flatten().filter_map(Value::as_str) {
            holders.entry(node.to_owned()).or_default().insert(queue.to_owned());
        }
    }
    holders
}

/// What must hold after every single write.
fn exclusive(cluster: &Cluster) -> Result<(), TestCaseError> {
    for (node, queues) in holders(cluster) {
        let strangers: Vec<&String> = queues.iter().filter(|queue| *queue != "p").collect();
        prop_assert!(strangers.len() <= 1, "{node} is held by {queues:?}");
        let outsiders = queues.iter().any(|queue| queue == "a" || queue == "b");
        prop_assert!(!(outsiders && queues.contains("p")), "{node} is held by {queues:?}");
    }
    Ok(())
}

/// What must hold at rest.
fn settled(cluster: &Cluster) -> Result<(), TestCaseError> {
    exclusive(cluster)?;
    let holders = holders(cluster);
    for (node, queues) in &holders {
        let below = queues.contains("c") || queues.contains("d");
        let reserves = cluster
            .get("Queue", "", "p")
            .is_some_and(|p| !p["status"]["reservation"].is_null());
        prop_assert!(!below || !reserves || queues.contains("p"), "{node}: {queues:?}");
    }
    for queue in cluster.names("Queue") {
        let status = &cluster.queue(queue)["status"];
        let reservation = &status["reservation"];
        let told = stand(cluster, queue);
        prop_assert_eq!(reservation.is_null(), told == "nothing", "{}", told);
        let amount = |list: &str, name: &str| {
            let text = reservation[list][name].as_str().unwrap_or("0").to_owned();
            basalt_api::quantity::Quantity::parse(&text).expect("a quantity").nano()
        };
        let names: Vec<String> = reservation["target"]
            .as_object()
            .into_iter()
            .flatten()
            .map(|(name, _)| name.clone())
            .collect();
        let met = names
            .iter()
            .all(|name| amount("resource", name) + amount("used", name) >= amount("target", name));
        if told.ends_with("Met") {
            prop_assert!(met, "{queue} says Met: {reservation}");
        }
        if told.ends_with("WaitingForPods") || told.ends_with("Evicting") {
            prop_assert!(!met, "{queue} says {told}: {reservation}");
            prop_assert!(
                reservation["waitingFor"].as_i64() > Some(0),
                "{queue} says {told}: {reservation}"
            );
        }
    }
    Ok(())
}

/// Plays lines; after every write nobody shares a node with a stranger.
fn play(lines: &[String], crash_after: Option<usize>) -> Result<Cluster, TestCaseError> {
    let mut cluster = Cluster::new(Vec::new());
    cluster.reserve(Some(Rules::default()));
    cluster.crash_after = crash_after;
    for line in lines {
        apply(&mut cluster, line);
    }
    cluster.settle();
    prop_assert!(cluster.conflicts.is_empty(), "{:?}", cluster.conflicts);
    settled(&cluster)?;
    Ok(cluster)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn locks_are_exclusive_nested_and_truly_told(lines in prop::collection::vec(line(), 5..40)) {
        let cluster = play(&lines, None)?;
        // Sums that were kept by differences are those that a new world counts: it finds nothing to write.
        let writes = cluster.log.len();
        let mut again = cluster;
        again.pass(1);
        prop_assert_eq!(again.log.len(), writes, "{:?}", again.log);
        settled(&again)?;
    }

    #[test]
    fn a_crash_after_any_write_breaks_nothing(lines in prop::collection::vec(line(), 5..25), at in 1..20_usize) {
        play(&lines, Some(at))?;
    }
}
