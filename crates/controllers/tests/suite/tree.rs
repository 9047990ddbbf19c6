//! The tree: what is wrong is said where it is wrong, with names and numbers, and heals by itself.

use serde_json::{Value, json};

use crate::cluster::{Cluster, group, queue, with_spec};

fn deserving(name: &str, parent: &str, created: &str, cpu: &str) -> Value {
    let mut queue = with_spec(queue(name, parent), &json!({"deserved": {"cpu": cpu}}));
    queue["metadata"]["creationTimestamp"] = json!(created);
    queue
}

fn check(cluster: &Cluster, queue: &str, kind: &str, expected: &str) {
    let found = cluster.condition(queue, kind);
    assert!(found.starts_with(expected), "{queue} {kind}: {found}, not {expected}");
}

#[test]
fn a_missing_parent_stops_its_subtree_until_it_comes() {
    let mut cluster = Cluster::new(vec![queue("a", "gone"), queue("b", "a"), queue("other", "root")]);
    for name in ["a", "b"] {
        for kind in ["HierarchyValid", "Ready"] {
            check(
                &cluster,
                name,
                kind,
                "False ParentNotFound queue a names the parent gone, which does not exist",
            );
        }
    }
    check(&cluster, "other", "Ready", "True Ready");
    cluster.put(queue("gone", "root"));
    cluster.settle();
    for name in ["a", "b", "gone"] {
        check(&cluster, name, "HierarchyValid", "True Valid");
        check(&cluster, name, "Ready", "True Ready");
    }
    let healed = cluster
        .events
        .iter()
        .filter(|event| event.contains(": HierarchyValid: ParentNotFound no longer"))
        .count();
    assert_eq!(healed, 2, "{:?}", cluster.events);
}

#[test]
fn a_cycle_stops_those_in_it_and_below_it() {
    let mut cluster = Cluster::new(vec![queue("a", "root"), queue("b", "a"), queue("c", "b")]);
    cluster.merge("Queue", "", "a", &json!({"spec": {"parent": "b"}}));
    cluster.settle();
    check(
        &cluster,
        "a",
        "HierarchyValid",
        "False Cycle the parents go round in a circle (a → b → a)",
    );
    check(&cluster, "c", "Ready", "False Cycle");
    check(&cluster, "default", "Ready", "True Ready");
    // Closing it changes nothing for the tree, and hangs nobody.
    cluster.merge("Queue", "", "b", &json!({"spec": {"state": "Closed"}}));
    cluster.settle();
    assert_eq!(cluster.state("c"), "Closed");
    cluster.merge("Queue", "", "a", &json!({"spec": {"parent": "root"}}));
    cluster.merge("Queue", "", "b", &json!({"spec": {"state": "Open"}}));
    cluster.settle();
    for name in ["a", "b", "c"] {
        check(&cluster, name, "HierarchyValid", "True Valid");
        assert_eq!(cluster.state(name), "Open");
    }
}

#[test]
fn of_overcommitting_children_the_youngest_waits() {
    let mut cluster = Cluster::new(vec![
        deserving("p", "root", "2026-01-01T00:00:00Z", "10"),
        deserving("old", "p", "2026-01-02T00:00:00Z", "6"),
        deserving("young", "p", "2026-01-03T00:00:00Z", "6"),
        queue("leaf", "young"),
    ]);
    check(
        &cluster,
        "p",
        "HierarchyValid",
        "False ChildrenOvercommitted its children together deserve cpu 12, and it has 10: young must wait",
    );
    check(&cluster, "p", "Ready", "True Ready");
    check(&cluster, "old", "HierarchyValid", "True Valid");
    for name in ["young", "leaf"] {
        check(
            &cluster,
            name,
            "Ready",
            "False Overcommitted the children of p together deserve cpu 12, and p has 10: young is among",
        );
    }
    cluster.merge("Queue", "", "old", &json!({"spec": {"deserved": {"cpu": "4"}}}));
    cluster.settle();
    for name in ["p", "old", "young", "leaf"] {
        check(&cluster, name, "HierarchyValid", "True Valid");
    }
    // A lowered parent is the same damage.
    cluster.merge("Queue", "", "p", &json!({"spec": {"deserved": {"cpu": "5"}}}));
    cluster.settle();
    check(&cluster, "young", "Ready", "False Overcommitted");
}

#[test]
fn a_cluster_that_shrank_is_told_and_is_no_damage() {
    let node = |name: &str, ready: &str| {
        json!({
            "apiVersion": "v1", "kind": "Node", "metadata": {"name": name},
            "status": {"allocatable": {"cpu": "8", "memory": "1Gi"}, "conditions": [{"type": "Ready", "status": ready}]},
        })
    };
    let mut cluster = Cluster::new(vec![
        deserving("a", "root", "2026-01-01T00:00:00Z", "12"),
        node("n1", "True"),
        node("n2", "True"),
    ]);
    check(&cluster, "root", "HierarchyValid", "True Valid");
    cluster.put(node("n2", "False"));
    cluster.settle();
    check(
        &cluster,
        "root",
        "HierarchyValid",
        "False ClusterTooSmall its children together deserve cpu 12, and the cluster has 8",
    );
    check(&cluster, "root", "Ready", "True Ready");
    check(&cluster, "a", "Ready", "True Ready");
    cluster.put(node("n2", "True"));
    cluster.settle();
    check(&cluster, "root", "HierarchyValid", "True Valid");
    cluster.force_remove("Node", "", "n1");
    cluster.force_remove("Node", "", "n2");
    cluster.settle();
    check(&cluster, "root", "HierarchyValid", "True Valid");
}

/// In Volcano one PodGroup on a queue that has children stopped the scheduling of the whole cluster.
#[test]
fn one_podgroup_on_a_non_leaf_is_said_there_and_nowhere_else() {
    let mut cluster = Cluster::new(vec![queue("p", "root"), queue("c", "p"), group("", "p", "Pending")]);
    check(
        &cluster,
        "p",
        "Ready",
        "False NotLeaf only leaf queues hold work, and this one has 1 children and 1 pod groups",
    );
    for name in ["root", "default", "c"] {
        check(&cluster, name, "Ready", "True Ready");
    }
    cluster.merge("PodGroup", "n", "lone", &json!({"spec": {"queue": "c"}}));
    cluster.settle();
    check(&cluster, "p", "Ready", "True Ready");
    assert!(
        cluster
            .events
            .iter()
            .any(|event| event.starts_with("Queue p: Ready: NotLeaf no longer")),
        "{:?}",
        cluster.events
    );
}
