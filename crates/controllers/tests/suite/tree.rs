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

/// Steps of (queue, its `spec.deserved` or `spec.parent`, what `p` says then): p has 10, b deserves 5, a has a1 below it.
#[test]
fn what_a_queue_leaves_unset_counts_as_the_sum_of_its_children() {
    let over = "False ChildrenOvercommitted its children together deserve cpu 11, and it has 10: b must wait";
    let steps = [
        (json!({}), "a", "True Valid"),
        (json!({"deserved": {"cpu": "6"}}), "a1", over),
        (json!({"deserved": {"cpu": "4"}}), "a", "True Valid"),
        (json!({"deserved": {"cpu": null, "memory": "1Gi"}}), "a", over),
        (json!({"parent": "root"}), "a1", "True Valid"),
        (json!({"parent": "a"}), "a1", over),
        (json!({"deserved": {"cpu": "5"}}), "a1", "True Valid"),
        (json!({"deserved": {"cpu": "6"}}), "a1", over),
        (json!({"parent": "a1"}), "a", "True Valid"), // a circle counts nowhere …
        (json!({"parent": "p"}), "a", over),          // … and untied counts as before
    ];
    let mut older = queue("a", "p");
    older["metadata"]["creationTimestamp"] = json!("2026-01-02T00:00:00Z");
    let mut cluster = Cluster::new(vec![
        deserving("p", "root", "2026-01-01T00:00:00Z", "10"),
        older,
        queue("a1", "a"),
        deserving("b", "p", "2026-01-03T00:00:00Z", "5"),
    ]);
    for (at, (spec, name, expected)) in steps.into_iter().enumerate() {
        cluster.merge("Queue", "", name, &json!({"spec": spec}));
        cluster.settle();
        println!("step {at}");
        check(&cluster, "p", "HierarchyValid", expected);
    }
}

#[test]
fn a_cluster_is_held_against_what_is_below_unset_queues_too() {
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"},
        "status": {"allocatable": {"cpu": "8"}, "conditions": [{"type": "Ready", "status": "True"}]}});
    let mut cluster = Cluster::new(vec![
        queue("a", "root"),
        queue("a1", "a"),
        deserving("a2", "a1", "2026-01-01T00:00:00Z", "12"),
        node,
    ]);
    check(
        &cluster,
        "root",
        "HierarchyValid",
        "False ClusterTooSmall its children together deserve cpu 12, and the cluster has 8",
    );
    cluster.merge("Queue", "", "a2", &json!({"spec": {"deserved": {"cpu": "8"}}}));
    cluster.settle();
    check(&cluster, "root", "HierarchyValid", "True Valid");
}
