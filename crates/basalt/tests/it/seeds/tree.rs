//! Seed 3: queues below queues, on the capacity plugin.

use serde_json::Value;

use super::cluster::{Cluster, Conf, says};
use super::manifests::{group, job, job_with, pod, queue};
use super::{BUILT_IN, Story};

pub(super) const STORIES: &[&Story] = &[&SHAPE, &VICTIMS, &PREEMPT, &FLAT];

/// The tree: what may be made, closed and deleted, and what it shows.
pub(super) const SHAPE: Story = Story {
    conf: BUILT_IN,
    steps: &[
        (&["3:52/made", "3:51"], root_is_there),
        (&["3:52/total"], root_is_the_cluster),
        (&["3:19/tree"], queues_below_queues),
        (
            &["3:19/sums", "3:45/deserved", "3:45/guarantee"],
            children_fit_into_their_parent,
        ),
        (&["3:100/sums", "3:100/capability"], every_change_is_checked),
        (&["3:101-102"], damage_waits_and_says_so),
        (&["3:23", "3:104", "3:138"], only_leaves_take_jobs),
        (&["3:44"], no_children_below_jobs),
        (&["3:27", "3:128"], numbers_go_up),
        (&["3:71-72", "3:134/children", "3:134/tree"], vcctl_shows_the_tree),
        (&["3:47", "3:140/pause"], children_close_first),
        (&["3:140/resume"], what_a_parent_closed_it_opens),
        (&["3:46"], children_go_first),
    ],
};

fn root_is_there(c: &Cluster) {
    c.wait_state("root", "Open");
    assert_eq!(c.field("queue/root", ".spec.parent"), "");
    c.apply(&(queue("top", "weight: 1") + &queue("named", "parent: root")));
    assert_eq!(c.field("queue/top", ".spec.parent"), "root");
    assert_eq!(c.field("queue/named", ".spec.parent"), "root");
    assert_eq!(c.field("queue/default", ".spec.parent"), "root");
    says(&c.kubectl_refused("delete queue root"), &["root"]);
    says(&c.vcctl_refused("queue close root"), &["root"]);
    c.clear();
}

fn root_is_the_cluster(c: &Cluster) {
    c.wait("queue/root", ".status.deserved.cpu", "40");
    let node = c.kubectl("get nodes -o jsonpath={.items[9].metadata.name}");
    let mut stored: Value = serde_json::from_str(&c.kubectl(&format!("get node {node} -o json"))).expect("JSON");
    let metadata = stored["metadata"].as_object_mut().expect("metadata");
    metadata.retain(|field, _| ["name", "labels"].contains(&field.as_str()));
    c.kubectl(&format!("delete node {node}"));
    c.wait("queue/root", ".status.deserved.cpu", "36");
    c.apply(&stored.to_string());
    c.wait("queue/root", ".status.deserved.cpu", "40");
}

fn queues_below_queues(c: &Cluster) {
    c.vcctl("queue create ml --deserved cpu=20 --guarantee cpu=8 --capability cpu=30");
    c.vcctl("queue create vision --parent ml --deserved cpu=10 --guarantee cpu=4");
    c.vcctl("queue create nlp --parent ml --deserved cpu=4 --guarantee cpu=2");
    c.vcctl("queue create deep --parent nlp");
    assert_eq!(c.field("queue/deep", ".spec.parent"), "nlp");
    c.vcctl("queue close deep");
    c.wait_state("deep", "Closed");
    c.vcctl("queue delete deep --wait");
}

/// 20 deserved and 8 guaranteed at the top, 14 and 6 given away.
fn children_fit_into_their_parent(c: &Cluster) {
    let refused = c.vcctl_refused("queue create more --parent ml --deserved cpu=7");
    says(&refused, &["more", "ml", "deserved", "cpu", "21", "20"]);
    let refused = c.vcctl_refused("queue create more --parent ml --guarantee cpu=3");
    says(&refused, &["more", "ml", "guarantee", "cpu", "9", "8"]);
    c.vcctl("queue create more --parent ml --deserved cpu=6 --guarantee cpu=2");
}

fn every_change_is_checked(c: &Cluster) {
    says(
        &c.vcctl_refused("queue update nlp --deserved cpu=5"),
        &["nlp", "21", "20"],
    );
    says(
        &c.vcctl_refused("queue update nlp --guarantee cpu=3"),
        &["nlp", "9", "8"],
    );
    says(
        &c.vcctl_refused("queue update ml --deserved cpu=19"),
        &["ml", "20", "19"],
    );
    says(&c.vcctl_refused("queue update ml --guarantee cpu=7"), &["ml", "8", "7"]);
    says(
        &c.vcctl_refused("queue update nlp --capability cpu=31"),
        &["nlp", "31", "30"],
    );
    says(
        &c.vcctl_refused("queue create wide --parent ml --capability cpu=31"),
        &["wide", "31", "30"],
    );
    c.vcctl("queue create outside --deserved cpu=5");
    says(&c.vcctl_refused("queue update outside --parent ml"), &["outside", "ml"]);
    // Put right as the refusal says, it goes through.
    c.vcctl("queue update ml --deserved cpu=25");
    c.vcctl("queue update outside --parent ml");
    c.apply(&job("fits", "outside", 1, 1));
    c.wait_running("fits", 1);
}

/// Where admission stands before the tree, no damage can be written into it: here the scheduler is given trees as they can
/// come about elsewhere (sums too large, stray groups, missing parents, circles). What is wrong waits, and the rest goes on.
fn damage_waits_and_says_so(c: &Cluster) {
    let damage = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios/damage");
    c.basalt(&format!("plan --scenario {damage}"));
}

fn only_leaves_take_jobs(c: &Cluster) {
    for queue in ["ml", "root"] {
        for manifest in [job("high", queue, 1, 1), group("high", queue), pod("high", queue)] {
            says(&c.apply_refused(&manifest), &[queue]);
        }
    }
    c.apply(&job("low", "vision", 2, 2));
    c.wait_running("low", 2);
}

fn no_children_below_jobs(c: &Cluster) {
    says(
        &c.vcctl_refused("queue create below --parent vision"),
        &["below", "vision"],
    );
    c.apply(&group("idle", "nlp"));
    says(&c.vcctl_refused("queue create below --parent nlp"), &["below", "nlp"]);
    c.kubectl("delete podgroup idle");
    c.vcctl("queue create below --parent nlp");
}

/// Two cores in `vision` and one in `outside`, and then three more in `below`.
fn numbers_go_up(c: &Cluster) {
    for (queue, cores) in [("vision", "2"), ("outside", "1"), ("ml", "3"), ("root", "3")] {
        c.wait(&format!("queue/{queue}"), ".status.allocated.cpu", cores);
    }
    c.apply(&job("deepest", "below", 3, 3));
    for (queue, cores) in [("below", "3"), ("nlp", "3"), ("ml", "6"), ("root", "6")] {
        c.wait(&format!("queue/{queue}"), ".status.allocated.cpu", cores);
    }
    c.kubectl("delete vcjob deepest fits low");
    for queue in ["below", "nlp", "ml", "root"] {
        c.wait(&format!("queue/{queue}"), ".status.share", "0.000000");
    }
}

fn vcctl_shows_the_tree(c: &Cluster) {
    assert_eq!(
        c.vcctl("queue children ml -o name")
            .replace("queue.scheduling.volcano.sh/", ""),
        "more\nnlp\noutside\nvision\n"
    );
    let drawn = c.vcctl("queue tree");
    let name = |line: &str| line.get(..14).unwrap_or(line).trim_end().to_owned();
    let names: Vec<String> = drawn.lines().map(name).collect();
    let expected = [
        "Name",
        "root",
        "  default",
        "  ml",
        "    more",
        "    nlp",
        "      below",
        "    outside",
        "    vision",
    ];
    assert_eq!(names, expected, "{drawn}");
    let data: Value = serde_json::from_str(&c.vcctl("queue tree nlp -o json")).expect("JSON");
    assert_eq!(data["queues"][0]["parent"], "ml");
    assert_eq!(data["queues"][0]["children"][0], "below");
}

/// A job holds `vision` in Closing, and with it everything above; the others are Closed at once.
fn children_close_first(c: &Cluster) {
    c.vcctl("queue close more");
    c.apply(&job("last", "vision", 1, 1));
    c.wait_running("last", 1);
    c.vcctl("queue close ml");
    for (queue, state) in [
        ("ml", "Closing"),
        ("vision", "Closing"),
        ("nlp", "Closed"),
        ("below", "Closed"),
    ] {
        c.wait_state(queue, state);
    }
    assert_eq!(
        c.field("queue/vision", ".spec.state"),
        "Open",
        "the children's specs are theirs"
    );
    says(&c.apply_refused(&job("late", "vision", 1, 1)), &["vision", "ml"]);
    c.finish("last");
    c.wait_state("vision", "Closed");
    c.wait_state("ml", "Closed");
}

fn what_a_parent_closed_it_opens(c: &Cluster) {
    c.vcctl("queue open ml");
    for queue in ["ml", "vision", "nlp", "below", "outside"] {
        c.wait_state(queue, "Open");
    }
    c.wait_state("more", "Closed");
    c.apply(&job("anew", "vision", 1, 1));
    c.wait_running("anew", 1);
    c.finish("anew");
}

fn children_go_first(c: &Cluster) {
    says(&c.kubectl_refused("delete queue ml"), &["ml"]);
    c.vcctl("queue close ml");
    c.wait_state("ml", "Closed");
    // Who looks on sees every child go before its parent.
    let kept = r#"[{"op":"add","path":"/metadata/finalizers/-","value":"example.com/keep"}]"#;
    c.kubectl(&format!("patch queue below --type=json -p {kept}"));
    c.kubectl("delete queue ml --wait=false");
    c.kubectl("wait --for=delete queue/vision queue/more queue/outside --timeout=30s");
    for queue in ["below", "nlp", "ml"] {
        c.kubectl(&format!(
            "wait --for=jsonpath={{.metadata.deletionTimestamp}} queue/{queue} --timeout=30s"
        ));
    }
    let gone = r#"{"metadata":{"finalizers":null}}"#;
    c.kubectl(&format!("patch queue below --type=merge -p {gone}"));
    c.kubectl("wait --for=delete queue/below queue/nlp queue/ml --timeout=30s");
}

/// Who gives way: the figure of story 4, with job A below a, job B beside it, and job C below root.
pub(super) const VICTIMS: Story = Story {
    conf: BUILT_IN,
    steps: &[
        (
            &["3:31/reclaim", "3:37", "3:125", "3:126"],
            the_same_parent_gives_way_first,
        ),
        (&["3:103"], parents_are_compared_first),
    ],
};

/// Forty cores: `b` has 16 and deserves 10, `c` has 24 and deserves 20, `a` has none and deserves 10.
fn full_tree(c: &Cluster, class: &str) {
    c.vcctl("queue create q --deserved cpu=20");
    c.vcctl("queue create a --parent q --deserved cpu=10");
    c.vcctl("queue create b --parent q --deserved cpu=10");
    c.vcctl("queue create c --deserved cpu=20");
    c.apply(&(job_with("job-b", "b", 16, 1, class) + &job_with("job-c", "c", 24, 1, class)));
    c.wait_running("job-b", 16);
    c.wait_running("job-c", 24);
}

fn the_same_parent_gives_way_first(c: &Cluster) {
    full_tree(c, "");
    c.apply(&job("job-a", "a", 4, 4));
    c.wait_running("job-a", 4);
    c.wait_running("job-b", 12);
    assert_eq!(c.running("job-c").len(), 24, "C gives nothing as long as B can");
    c.apply(&job("job-a-too", "a", 6, 6));
    c.wait_running("job-a-too", 6);
    c.wait_running("job-b", 10);
    c.wait_running("job-c", 20);
    c.clear();
}

/// `x` has used more of its due than `y`, so the leaf of `y` is served, although that of `x` has nothing yet.
fn parents_are_compared_first(c: &Cluster) {
    let node = c.kubectl("get nodes -o jsonpath={.items[0].metadata.name}");
    c.kubectl(&format!("label node {node} seed=three"));
    for queue in ["x --deserved cpu=16", "y --deserved cpu=16", "hold --deserved cpu=4"] {
        c.vcctl(&format!("queue create {queue}"));
    }
    for queue in ["x-used --parent x", "x-fresh --parent x", "y-used --parent y"] {
        c.vcctl(&format!("queue create {queue} --deserved cpu=8"));
    }
    let here = "nodeSelector: {seed: three}";
    c.apply(&job_with("holds", "hold", 4, 4, here));
    c.wait_running("holds", 4);
    c.apply(&(job("much", "x-used", 7, 7) + &job("some", "y-used", 2, 2)));
    c.wait_running("much", 7);
    c.wait_running("some", 2);
    c.apply(&job_with("fresh", "x-fresh", 4, 4, here));
    c.wait_reasons("fresh");
    c.apply(&job_with("next", "y-used", 4, 4, here));
    c.wait_reasons("next");
    c.kubectl("delete vcjob holds");
    c.wait_running("next", 4);
    assert_eq!(c.running("fresh").len(), 0);
    c.clear();
}

/// Preempt alone takes from others here.
const WITH_PREEMPT: Conf = Conf {
    name: "preempt",
    text: Some(
        "actions: \"enqueue, allocate, preempt\"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}]
- plugins: [{name: predicates}, {name: capacity, enableHierarchy: true}, {name: nodeorder}]
",
    ),
};

pub(super) const PREEMPT: Story = Story {
    conf: WITH_PREEMPT,
    steps: &[(&["3:31/preempt"], preempt_takes_from_the_same_parent_first)],
};

fn preempt_takes_from_the_same_parent_first(c: &Cluster) {
    c.kubectl("create priorityclass low --value=10");
    c.kubectl("create priorityclass high --value=1000");
    full_tree(c, "priorityClassName: low");
    c.apply(&job_with("job-a", "a", 4, 4, "priorityClassName: high"));
    c.wait_running("job-a", 4);
    c.wait_running("job-b", 12);
    assert_eq!(c.running("job-c").len(), 24, "C gives nothing as long as B can");
    c.apply(&job_with("job-a-too", "a", 6, 6, "priorityClassName: high"));
    c.wait_running("job-a-too", 6);
    c.wait_running("job-b", 10);
    c.wait_running("job-c", 20);
}

/// Capacity without the tree.
const WITHOUT_TREE: Conf = Conf {
    name: "flat",
    text: Some(
        "actions: \"enqueue, allocate, reclaim\"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}]
- plugins: [{name: predicates}, {name: capacity}, {name: nodeorder}]
",
    ),
};

pub(super) const FLAT: Story = Story {
    conf: WITHOUT_TREE,
    steps: &[(&["3:130"], without_hierarchy_parents_bound_nobody)],
};

/// The leaf's own limit counts, its parent's does not.
fn without_hierarchy_parents_bound_nobody(c: &Cluster) {
    c.vcctl("queue create parent --capability cpu=2");
    c.vcctl("queue create child --parent parent");
    c.vcctl("queue create other --capability cpu=3");
    c.apply(&(job("free", "child", 4, 4) + &job("bound", "other", 4, 1)));
    c.wait_running("free", 4);
    c.wait_running("bound", 3);
    c.wait_reasons("bound");
}
