//! Seed 2: nodes that are locked for a queue. Ten nodes of four cores and 16 Gi.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::Value;

use super::cluster::{Cluster, says};
use super::manifests::{Job, job, job_with, queue};
use super::{BUILT_IN, Story};
use crate::server::eventually;

pub(super) const STORIES: &[&Story] = &[&LOCKS, &CHOICE];

const PATIENCE: Duration = Duration::from_secs(30);

/// Turning it on and off, filling it, meeting it, both policies.
pub(super) const LOCKS: Story = Story {
    conf: BUILT_IN,
    steps: &[
        (
            &["2:8", "2:10/on", "2:11/hard", "2:44-51", "2:53-60", "2:77", "2:130-131"],
            a_reservation_is_turned_on,
        ),
        (&["2:24", "2:136"], a_locked_node_is_for_its_queue),
        (&["2:79", "2:125"], what_is_idle_is_told),
        (&["2:10/change"], a_reservation_is_changed),
        (&["2:10/off"], a_reservation_is_turned_off),
        (&["2:9", "2:65"], best_effort_waits),
        (&["2:65-66"], guaranteed_evicts),
        (&["2:124"], a_lost_node_is_replaced),
        (&[], a_closed_queue_lets_go),
        (&[], the_tree_has_its_locks),
    ],
};

/// Which nodes, how many, and what may be asked for.
pub(super) const CHOICE: Story = Story {
    conf: BUILT_IN,
    steps: &[
        (&["2:15", "2:16", "2:32", "2:68/range"], what_cannot_be_asked_for),
        (&["2:11/percentage", "2:19", "2:68-71", "2:72"], a_share_of_the_nodes),
        (&["2:20-21", "2:72-73"], the_larger_one_counts),
        (&["2:26"], two_queues_compete),
        (&["2:91-93"], nodes_in_use_come_first),
        (&["2:99-101"], idle_nodes_come_first),
        (&["2:25"], nodes_that_others_wait_for_are_left),
        (
            &["2:17-18/enough", "2:17-18/tight", "2:75", "2:83", "2:87-89"],
            every_dimension_is_covered_and_no_more,
        ),
        (&["2:27-28", "2:95-97"], few_nodes_are_better_than_many),
    ],
};

/// The nodes that are locked for a queue.
fn locked(c: &Cluster, queue: &str) -> BTreeSet<String> {
    let nodes = c.field(&format!("queue/{queue}"), ".status.reservation.nodes[*]");
    nodes.split_whitespace().map(str::to_owned).collect()
}

/// Waits until so many nodes are locked for a queue; which ones.
fn wait_locked(c: &Cluster, queue: &str, count: usize) -> BTreeSet<String> {
    let mut seen = BTreeSet::new();
    eventually(&format!("{count} nodes are locked for {queue}"), PATIENCE, || {
        seen = locked(c, queue);
        (seen.len() == count).then_some(())
    });
    seen
}

/// Waits until the condition of a reservation has this status and reason; what it says.
fn wait_condition(c: &Cluster, queue: &str, status: &str, reason: &str) -> String {
    let mut last = Value::Null;
    let read = || -> Value { serde_json::from_str(&c.kubectl(&format!("get queue {queue} -o json"))).expect("JSON") };
    let deadline = std::time::Instant::now() + PATIENCE;
    while std::time::Instant::now() < deadline {
        last = read();
        let conditions = last["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let found = conditions.iter().find(|found| found["type"] == "ReservationMet");
        if let Some(found) = found.filter(|found| found["status"] == status && found["reason"] == reason) {
            return found["message"].as_str().unwrap_or_default().to_owned();
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!(
        "{queue} has not ReservationMet={status} for {reason}: {}",
        last["status"]
    );
}

/// The nodes that a job's living pods are on, one for each pod.
fn nodes_of(c: &Cluster, job: &str) -> Vec<String> {
    let pods = c.kubectl(&format!(
        "get pods -l volcano.sh/job-name={job} --field-selector=status.phase=Running -o jsonpath={{.items[*].spec.nodeName}}"
    ));
    pods.split_whitespace().map(str::to_owned).collect()
}

fn is_disjoint(nodes: &[String], locked: &BTreeSet<String>) -> bool {
    nodes.iter().all(|node| !locked.contains(node))
}

fn guarantee(name: &str, spec: &str) -> String {
    queue(name, &format!("guarantee: {{{spec}}}"))
}

fn a_reservation_is_turned_on(c: &Cluster) {
    c.vcctl("queue create team --guarantee cpu=6");
    let nodes = wait_locked(c, "team", 2);
    says(&wait_condition(c, "team", "True", "Met"), &["ready on 2 nodes"]);
    c.wait("queue/team", ".status.reservation.resource.cpu", "8");
    says(
        &c.vcctl("queue view team"),
        &["ReservationMet", nodes.first().expect("a node")],
    );
    let list = c.vcctl("node list");
    for node in &nodes {
        let line = list
            .lines()
            .find(|line| line.starts_with(node.as_str()))
            .expect("the node");
        says(line, &["team"]);
    }
}

/// Forty pods want what is not locked: 32 find it, and nobody is held up for the sake of the rest.
fn a_locked_node_is_for_its_queue(c: &Cluster) {
    let nodes = locked(c, "team");
    let there = format!(
        "nodeSelector: {{kubernetes.io/hostname: {}}}",
        nodes.first().expect("a node")
    );
    c.apply(&job_with("stray", "default", 1, 1, &there));
    says(&c.wait_reason("stray", "NodeLocked"), &["team"]);
    says(&c.vcctl("job explain -N stray"), &["1 locked for queue \"team\""]);
    c.kubectl("delete vcjob stray --wait");
    c.apply(&job("flood", "default", 40, 1));
    c.wait_running("flood", 32);
    says(&c.wait_reason("flood", "ReservedForOthers"), &["32"]);
    assert!(is_disjoint(&nodes_of(c, "flood"), &nodes));
    c.apply(&job("mine", "team", 8, 8));
    c.wait_running("mine", 8);
    assert_eq!(nodes_of(c, "mine").into_iter().collect::<BTreeSet<_>>(), nodes);
}

fn what_is_idle_is_told(c: &Cluster) {
    eventually("nothing is idle any more", PATIENCE, || {
        let idle = c.field("queue/team", ".status.reservation.resource.cpu");
        ["", "0"].contains(&idle.as_str()).then_some(())
    });
    wait_condition(c, "team", "True", "Met");
    c.kubectl("delete vcjob mine --wait");
    c.wait("queue/team", ".status.reservation.resource.cpu", "8");
    assert!(is_disjoint(&nodes_of(c, "flood"), &locked(c, "team")));
}

fn a_reservation_is_changed(c: &Cluster) {
    let before = locked(c, "team");
    c.vcctl("queue update team --guarantee cpu=4");
    let after = wait_locked(c, "team", 1);
    assert!(after.is_subset(&before));
    // What it let go of is taken at once.
    c.wait_running("flood", 36);
    assert!(is_disjoint(&nodes_of(c, "flood"), &after));
}

fn a_reservation_is_turned_off(c: &Cluster) {
    c.kubectl(r#"patch queue team --type=merge -p {"spec":{"guarantee":null}}"#);
    c.wait_running("flood", 40);
    let status: Value = serde_json::from_str(&c.kubectl("get queue team -o json")).expect("JSON");
    assert!(status["status"]["reservation"].is_null(), "{status}");
    assert!(!status["status"]["conditions"].to_string().contains("ReservationMet"));
}

/// The cluster is full: nobody is evicted, and who ends makes room for the queue only.
fn best_effort_waits(c: &Cluster) {
    let before: BTreeSet<String> = c.running("flood").into_iter().collect();
    assert_eq!(before.len(), 40);
    c.kubectl(r#"patch queue team --type=merge -p {"spec":{"guarantee":{"resource":{"cpu":"8"}}}}"#);
    let nodes = wait_locked(c, "team", 2);
    says(&wait_condition(c, "team", "False", "WaitingForPods"), &["cpu", "8"]);
    c.wait("queue/team", ".status.reservation.waitingFor", "8");
    says(&c.vcctl("queue view team"), &["8 pods"]);
    assert_eq!(c.running("flood").into_iter().collect::<BTreeSet<_>>(), before);
    c.apply(&job("more", "default", 4, 1));
    for node in &nodes {
        let pods = c.kubectl(&format!("get pods -o name --field-selector=spec.nodeName={node}"));
        for pod in pods.lines() {
            let done = r#"{"status":{"phase":"Succeeded"}}"#;
            c.kubectl(&format!("patch {pod} --subresource=status --type=merge -p {done}"));
        }
    }
    wait_condition(c, "team", "True", "Met");
    c.wait("queue/team", ".status.reservation.resource.cpu", "8");
    assert_eq!(locked(c, "team"), nodes, "they were waited for");
    assert!(nodes_of(c, "more").is_empty(), "nobody else got in");
    c.clear();
}

/// Two gangs fill the cluster: with Guaranteed one of them goes, whole, and its nodes are the queue's.
fn guaranteed_evicts(c: &Cluster) {
    c.apply(&(job("gang-a", "default", 20, 20) + &job("gang-b", "default", 20, 20)));
    c.wait_running("gang-a", 20);
    c.wait_running("gang-b", 20);
    c.apply(&guarantee("sure", "policy: Guaranteed, resource: {cpu: 4}"));
    wait_condition(c, "sure", "True", "Met");
    let nodes = wait_locked(c, "sure", 1);
    eventually("one gang runs, the other waits", PATIENCE, || {
        let mut running = [c.running("gang-a").len(), c.running("gang-b").len()];
        running.sort_unstable();
        (running == [0, 20]).then_some(())
    });
    for gang in ["gang-a", "gang-b"] {
        assert!(is_disjoint(&nodes_of(c, gang), &nodes));
    }
    c.apply(&job("mine", "sure", 4, 4));
    c.wait_running("mine", 4);
    assert_eq!(nodes_of(c, "mine").into_iter().collect::<BTreeSet<_>>(), nodes);
    c.clear();
}

fn a_lost_node_is_replaced(c: &Cluster) {
    c.apply(&guarantee("kept", "resource: {cpu: 8}"));
    let before = wait_locked(c, "kept", 2);
    let lost = before.first().expect("a node").clone();
    c.kubectl(&format!("cordon {lost}"));
    eventually("another node is locked instead", PATIENCE, || {
        let now = locked(c, "kept");
        (now.len() == 2 && !now.contains(&lost)).then_some(())
    });
    assert_eq!(
        locked(c, "kept").intersection(&before).count(),
        1,
        "the other one stays"
    );
    wait_condition(c, "kept", "True", "Met");
    // Back again it is no better than what is held: nothing moves, also when all is looked at anew.
    let now = locked(c, "kept");
    c.kubectl(&format!("uncordon {lost}"));
    c.apply(&guarantee("other", "resource: {cpu: 4}"));
    wait_condition(c, "other", "True", "Met");
    assert_eq!(locked(c, "kept"), now);
}

fn a_closed_queue_lets_go(c: &Cluster) {
    c.vcctl("queue close kept");
    c.wait_state("kept", "Closed");
    wait_locked(c, "kept", 0);
    c.vcctl("queue open kept");
    wait_locked(c, "kept", 2);
    c.clear();
}

/// A child's nodes are among its parent's; what is only the parent's is for all its leaves.
fn the_tree_has_its_locks(c: &Cluster) {
    c.apply(&guarantee("dept", "resource: {cpu: 12}"));
    c.apply(&(queue("lab", "parent: dept, guarantee: {resource: {cpu: 4}}") + &queue("shop", "parent: dept")));
    let dept = wait_locked(c, "dept", 3);
    let lab = wait_locked(c, "lab", 1);
    assert!(lab.is_subset(&dept));
    c.apply(&(job("flood", "default", 40, 1) + &job("shop", "shop", 8, 1)));
    c.wait_running("flood", 28);
    assert!(is_disjoint(&nodes_of(c, "flood"), &dept));
    c.wait_running("shop", 8);
    assert!(
        nodes_of(c, "shop")
            .iter()
            .all(|node| dept.contains(node) && !lab.contains(node))
    );
    c.apply(&job("lab", "lab", 4, 4));
    c.wait_running("lab", 4);
    assert_eq!(nodes_of(c, "lab").into_iter().collect::<BTreeSet<_>>(), lab);
    says(&c.vcctl("queue tree"), &["dept", "lab"]);
    c.clear();
}

fn what_cannot_be_asked_for(c: &Cluster) {
    let refused = |spec: &str, parts: &[&str]| says(&c.apply_refused(&guarantee("greedy", spec)), parts);
    refused("resource: {cpu: 41}", &["greedy", "guarantee", "cpu", "41", "40"]);
    refused(
        "resource: {cpu: 1, memory: 161Gi}",
        &["guarantee", "memory", "161Gi", "160Gi"],
    );
    refused("resource: {cpu: 2c}", &["guarantee", "cpu", "2c"]);
    refused("percentage: {dimensions: [cpu], value: 1.5}", &["percentage", "1.5"]);
    refused("percentage: {dimensions: [cpu], value: -0.1}", &["percentage", "-0.1"]);
    refused(
        "policy: Sometimes, resource: {cpu: 1}",
        &["policy", "Best-Effort", "Guaranteed"],
    );
    let small = queue("small", "capability: {cpu: 4}, guarantee: {resource: {cpu: 5}}");
    says(
        &c.apply_refused(&small),
        &["small", "guarantee", "capability", "5", "4"],
    );
    // All that there is can be given away once.
    c.apply(&guarantee("first", "resource: {cpu: 30}"));
    refused("resource: {cpu: 11}", &["guarantee", "cpu", "41", "40"]);
    c.clear();
}

fn a_share_of_the_nodes(c: &Cluster) {
    c.apply(&guarantee(
        "quarter",
        "percentage: {dimensions: [cpu, memory], value: 0.25}",
    ));
    wait_locked(c, "quarter", 2);
    wait_condition(c, "quarter", "True", "Met");
    c.apply(&guarantee("quarter", "percentage: {dimensions: [cpu], value: 0.3}"));
    wait_locked(c, "quarter", 3);
    c.apply(&guarantee("quarter", "percentage: {dimensions: [cpu], value: 0.09}"));
    wait_condition(c, "quarter", "False", "PercentageTooSmall");
    wait_locked(c, "quarter", 0);
    c.clear();
}

fn the_larger_one_counts(c: &Cluster) {
    let both = |cpu: u32, value: &str| {
        let spec = format!("resource: {{cpu: {cpu}}}, percentage: {{dimensions: [cpu], value: {value}}}");
        c.apply(&guarantee("both", &spec));
    };
    both(12, "0.2");
    wait_locked(c, "both", 3);
    both(12, "0.5");
    wait_locked(c, "both", 5);
    both(28, "0.5");
    wait_locked(c, "both", 7);
    c.clear();
}

fn two_queues_compete(c: &Cluster) {
    c.apply(&(guarantee("a", "resource: {cpu: 17}") + &guarantee("b", "resource: {cpu: 17}")));
    let (a, b) = (wait_locked(c, "a", 5), wait_locked(c, "b", 5));
    assert!(a.is_disjoint(&b));
    c.apply(&guarantee("late", "resource: {cpu: 4}"));
    wait_condition(c, "late", "False", "NoSetReachesTarget");
    assert!(locked(c, "late").is_empty());
    c.kubectl(r#"patch queue a --type=merge -p {"spec":{"guarantee":null}}"#);
    let late = wait_locked(c, "late", 1);
    assert!(late.is_disjoint(&locked(c, "b")));
    c.clear();
}

fn nodes_in_use_come_first(c: &Cluster) {
    c.vcctl("queue create at-home");
    c.apply(&job_with(
        "home",
        "at-home",
        3,
        3,
        "nodeSelector: {kubernetes.io/hostname: node-6}",
    ));
    c.wait_running("home", 3);
    c.vcctl("queue update at-home --guarantee cpu=4");
    assert_eq!(wait_locked(c, "at-home", 1), BTreeSet::from(["node-6".to_owned()]));
    wait_condition(c, "at-home", "True", "Met");
    c.clear();
}

/// Nine nodes are full of others' pods; the one that is not is worth more.
fn idle_nodes_come_first(c: &Cluster) {
    c.kubectl("cordon node-7");
    c.apply(&job("flood", "default", 36, 36));
    c.wait_running("flood", 36);
    c.kubectl("uncordon node-7");
    c.apply(&guarantee("calm", "resource: {cpu: 4}"));
    assert_eq!(wait_locked(c, "calm", 1), BTreeSet::from(["node-7".to_owned()]));
    wait_condition(c, "calm", "True", "Met");
    c.clear();
}

/// A gang takes back its due, and those who leave take their time: their nodes are spoken for.
fn nodes_that_others_wait_for_are_left(c: &Cluster) {
    c.apply(&(queue("due", "deserved: {cpu: 20}") + &queue("lent", "deserved: {cpu: 20}")));
    let slow = Job {
        name: "slow",
        queue: "lent",
        pods: 40,
        min: 1,
        pod_spec: "terminationGracePeriodSeconds: 20",
        annotations: "basalt.sh/stop-time: 12s",
    };
    c.apply(&slow.yaml());
    c.wait_running("slow", 40);
    c.apply(&job("claims", "due", 12, 12));
    let mut nominated = BTreeSet::new();
    eventually("twelve pods have a place that is being cleared", PATIENCE, || {
        let pods = "get pods -l volcano.sh/job-name=claims -o jsonpath={.items[*].status.nominatedNodeName}";
        let nodes = c.kubectl(pods);
        nominated = nodes.split_whitespace().map(str::to_owned).collect();
        (nodes.split_whitespace().count() == 12).then_some(())
    });
    c.apply(&guarantee("third", "resource: {cpu: 8}"));
    let third = wait_locked(c, "third", 2);
    assert!(third.is_disjoint(&nominated), "{third:?} and {nominated:?}");
    c.wait_running("claims", 12);
    c.clear();
}

/// Nodes of other sizes: eight cores on one, much memory on another.
fn every_dimension_is_covered_and_no_more(c: &Cluster) {
    let size = |node: &str, cpu: u32, memory: &str| {
        let sizes = format!(r#"{{"cpu":"{cpu}","memory":"{memory}"}}"#);
        let patch = format!(r#"{{"status":{{"allocatable":{sizes},"capacity":{sizes}}}}}"#);
        c.kubectl(&format!(
            "patch node {node} --subresource=status --type=merge -p {patch}"
        ));
    };
    size("node-8", 8, "16Gi");
    size("node-9", 4, "64Gi");
    // The four cores are on every node, the memory on one only.
    c.apply(&guarantee("wide", "resource: {cpu: 4, memory: 60Gi}"));
    assert_eq!(wait_locked(c, "wide", 1), BTreeSet::from(["node-9".to_owned()]));
    // Two cores are no reason to take the node with eight.
    c.apply(&guarantee("slim", "resource: {cpu: 2}"));
    let slim = wait_locked(c, "slim", 1);
    assert!(!slim.contains("node-8") && !slim.contains("node-9"), "{slim:?}");
    for (queue, dimension, least) in [("wide", "memory", 60), ("wide", "cpu", 4), ("slim", "cpu", 2)] {
        let idle = c.field(
            &format!("queue/{queue}"),
            &format!(".status.reservation.resource.{dimension}"),
        );
        let number: u64 = idle.trim_end_matches("Gi").parse().expect("an amount");
        assert!(number >= least, "{queue} {dimension} {idle}");
    }
    c.clear();
}

/// Eight cores on one node, or on two of four each.
fn few_nodes_are_better_than_many(c: &Cluster) {
    c.apply(&guarantee("eight", "resource: {cpu: 8}"));
    assert_eq!(wait_locked(c, "eight", 1), BTreeSet::from(["node-8".to_owned()]));
    c.clear();
}
