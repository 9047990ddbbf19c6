//! Reservations: which nodes are locked for which queue, told line by line.
//!
//! ```text
//! node n1 cpu=8 gpu=2 cordoned lost taint=key:NoSchedule group=g      a node, or the same one changed
//! queue q parent=p cpu=8 share=0.5:cpu,memory Guaranteed priority=1 born=5 closed wants=g avoids=h
//! pod p on=n1 queue=q cpu=2 daemon static other system kept leaving   `for=n1`: nominated, not bound; `group=g`
//! gone p | done p | lost n1 | delete q | open q | close q | locks on|off|groups|strict | pass 30 | go | down | up
//! force q n1                           somebody writes that q holds n1
//! = q n1 n2 Met                        what is locked for q, and why it is met or not
//! says q cpu 4 of 8                    part of the condition's message
//! told q ReservationMet                an event
//! ```
//! Everything happens at once until somebody asks, or `go`.

mod cases;
mod kept;
mod random;

use std::collections::BTreeSet;

use basalt_controllers::reservation::ask::GroupRules;
use basalt_controllers::world::Rules;
use serde_json::{Map, Value, json};

use crate::cluster::Cluster;

/// Words with and without a value.
struct Words<'a>(Vec<&'a str>);

impl<'a> Words<'a> {
    fn of(&self, key: &str) -> Option<&'a str> {
        let mut pairs = self.0.iter().filter_map(|word| word.split_once('='));
        pairs.find(|(name, _)| *name == key).map(|(_, value)| value)
    }

    fn has(&self, word: &str) -> bool {
        self.0.contains(&word)
    }

    /// Amounts of resources.
    fn amounts(&self) -> Value {
        let pairs = self.0.iter().filter_map(|word| word.split_once('='));
        let amounts = pairs.filter_map(|(name, amount)| {
            let name = match name {
                "cpu" | "memory" | "pods" => name,
                "gpu" => "nvidia.com/gpu",
                _ => return None,
            };
            Some((name.to_owned(), json!(amount)))
        });
        Value::Object(amounts.collect::<Map<_, _>>())
    }
}

fn node(name: &str, words: &Words<'_>) -> Value {
    let taints: Vec<Value> = words
        .of("taint")
        .and_then(|taint| taint.rsplit_once(':'))
        .map(|(key, effect)| json!({"key": key, "effect": effect}))
        .into_iter()
        .collect();
    let labels = words
        .of("group")
        .map(|group| json!({"volcano.sh/nodegroup-name": group}));
    json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels},
        "spec": {"unschedulable": words.has("cordoned"), "taints": taints},
        "status": {
            "allocatable": words.amounts(),
            "conditions": [{"type": "Ready", "status": if words.has("lost") { "False" } else { "True" }}],
        },
    })
}

fn queue(name: &str, words: &Words<'_>) -> Value {
    let mut guarantee = json!({"resource": words.amounts()});
    if words.has("Guaranteed") {
        guarantee["policy"] = json!("Guaranteed");
    }
    if let Some((value, dimensions)) = words.of("share").and_then(|share| share.split_once(':')) {
        let value: f64 = value.parse().expect("a number");
        let dimensions: Vec<&str> = dimensions.split(',').collect();
        guarantee["percentage"] = json!({"value": value, "dimensions": dimensions});
    }
    let groups = |key: &str| {
        let names: Vec<&str> = words.of(key)?.split(',').collect();
        Some(json!({"requiredDuringSchedulingIgnoredDuringExecution": names}))
    };
    let affinity = (words.of("wants").is_some() || words.of("avoids").is_some())
        .then(|| json!({"nodeGroupAffinity": groups("wants"), "nodeGroupAntiAffinity": groups("avoids")}));
    let born: i64 = words.of("born").map_or(0, |born| born.parse().expect("seconds"));
    let born = jiff::Timestamp::from_second(born).expect("a time").to_string();
    let priority: i32 = words
        .of("priority")
        .map_or(0, |number| number.parse().expect("a number"));
    json!({
        "apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue",
        "metadata": {"name": name, "creationTimestamp": born},
        "spec": {
            "parent": words.of("parent").unwrap_or("root"), "state": if words.has("closed") { "Closed" } else { "Open" },
            "guarantee": guarantee, "priority": priority, "affinity": affinity,
        },
    })
}

fn pod(name: &str, words: &Words<'_>) -> Value {
    let owner = json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "u", "controller": true});
    let mut annotations = json!({});
    let mut note = |key: &str, value: Option<&str>| {
        if let Some(value) = value {
            annotations[key] = json!(value);
        }
    };
    note("scheduling.volcano.sh/queue-name", words.of("queue"));
    note("scheduling.k8s.io/group-name", words.of("group"));
    note("kubernetes.io/config.mirror", words.has("static").then_some("x"));
    note("volcano.sh/preemptable", words.has("kept").then_some("false"));
    note("volcano.sh/preemptable", words.of("preemptable"));
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": name, "namespace": if words.has("system") { "kube-system" } else { "n" }, "annotations": annotations,
            "ownerReferences": if words.has("daemon") { json!([owner]) } else { json!([]) },
            "deletionTimestamp": words.has("leaving").then_some("2030-01-01T00:00:00Z"),
            // Somebody else's finalizer: it goes when it is said to be gone.
            "finalizers": ["x/y"],
        },
        "spec": {
            "schedulerName": if words.has("other") { "another" } else { "volcano" }, "nodeName": words.of("on"),
            "containers": [{"name": "c", "resources": {"requests": words.amounts()}}],
        },
        "status": {"phase": "Running", "nominatedNodeName": words.of("for")},
    })
}

/// Keeps what others have written.
fn put(cluster: &mut Cluster, object: Value) {
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
    let kind = object["kind"].as_str().unwrap_or_default().to_owned();
    let known = cluster.get(&kind, &text("namespace"), &text("name")).cloned();
    let mut object = object;
    if let Some(known) = known.filter(|_| kind == "Queue") {
        object["status"] = known["status"].clone();
        object["metadata"]["finalizers"] = known["metadata"]["finalizers"].clone();
    }
    cluster.put(object);
}

fn act(cluster: &mut Cluster, line: &str) {
    let all: Vec<&str> = line.split_whitespace().collect();
    let words = Words(all.get(2..).unwrap_or_default().to_vec());
    match *all.as_slice() {
        ["node", name, ..] => put(cluster, node(name, &words)),
        ["queue", name, ..] => put(cluster, queue(name, &words)),
        ["pod", name, ..] => put(cluster, pod(name, &words)),
        ["group", name, ..] => put(
            cluster,
            json!({
                "apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup",
                "metadata": {
                    "name": name, "namespace": "n",
                    "annotations": words.of("preemptable").map(|word| json!({"volcano.sh/preemptable": word})),
                },
                "spec": {"queue": words.of("queue")}, "status": {"phase": "Running"},
            }),
        ),
        ["gone", name] => {
            cluster.force_remove("Pod", "n", name);
            cluster.force_remove("Pod", "kube-system", name);
        }
        ["done", name] => cluster.merge("Pod", "n", name, &json!({"status": {"phase": "Succeeded"}})),
        ["lost", name] => cluster.force_remove("Node", "", name),
        ["delete", name] => cluster.force_remove("Queue", "", name),
        ["force", name, ..] => {
            let nodes: Vec<&str> = all.get(2..).unwrap_or_default().to_vec();
            cluster.merge("Queue", "", name, &json!({"status": {"reservation": {"nodes": nodes}}}));
        }
        ["down"] => cluster.go_down(),
        ["up"] => cluster.come_up(),
        ["open", name] => cluster.merge("Queue", "", name, &json!({"spec": {"state": "Open"}})),
        ["close", name] => cluster.merge("Queue", "", name, &json!({"spec": {"state": "Closed"}})),
        ["locks", how] => {
            let groups = |strict| {
                Some(GroupRules {
                    strict,
                    hierarchy: true,
                })
            };
            cluster.reserve(match how {
                "off" => None,
                "groups" => Some(Rules { groups: groups(false) }),
                "strict" => Some(Rules { groups: groups(true) }),
                _ => Some(Rules::default()),
            });
        }
        ["pass", seconds] => cluster.pass(seconds.parse().expect("seconds")),
        ["go"] => cluster.settle(),
        _ => panic!("unknown line {line}"),
    }
}

/// Where a queue stands: nodes and reason.
pub(crate) fn stand(cluster: &Cluster, queue: &str) -> String {
    let Some(object) = cluster.get("Queue", "", queue) else {
        return "gone".to_owned();
    };
    let status = &object["status"];
    let nodes = status["reservation"]["nodes"].as_array().cloned().unwrap_or_default();
    let mut told: Vec<String> = nodes
        .iter()
        .map(|node| node.as_str().unwrap_or_default().to_owned())
        .collect();
    let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
    let met = conditions
        .iter()
        .find(|condition| condition["type"] == "ReservationMet");
    match met {
        Some(met) => told.push(met["reason"].as_str().unwrap_or_default().to_owned()),
        None if status["reservation"].is_null() => told.push("nothing".to_owned()),
        None => told.push("a reservation without a condition".to_owned()),
    }
    told.join(" ")
}

fn play(script: &str, crash_after: Option<usize>) -> Cluster {
    let mut cluster = Cluster::new(Vec::new());
    cluster.reserve(Some(Rules::default()));
    cluster.crash_after = crash_after;
    let context = |cluster: &Cluster| format!("with a crash after {crash_after:?} of {:?}\n{script}", cluster.log);
    for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let words: Vec<&str> = line.splitn(3, ' ').collect();
        match *words.as_slice() {
            ["=", queue, expected] => {
                cluster.settle();
                assert_eq!(stand(&cluster, queue), expected, "{line}\n{}", context(&cluster));
            }
            ["says", queue, expected] => {
                cluster.settle();
                let said = cluster.condition(queue, "ReservationMet");
                assert!(said.contains(expected), "{line}: {said}\n{}", context(&cluster));
            }
            ["shows", queue, expected] => {
                cluster.settle();
                let (path, expected) = expected.split_once(' ').expect("a path and a value");
                let found = cluster.queue(queue)["status"]["reservation"].pointer(path).cloned();
                let found = found.map_or("nothing".to_owned(), |found| found.to_string());
                assert_eq!(found.trim_matches('"'), expected, "{line}\n{}", context(&cluster));
            }
            ["told", queue, reason] => {
                cluster.settle();
                let start = format!("Queue {queue}: {reason}: ");
                let told = cluster.events.iter().any(|event| event.starts_with(&start));
                // A crash may come between a write and its event.
                assert!(told || crash_after.is_some(), "{line}: {:?}", cluster.events);
            }
            _ => act(&mut cluster, line),
        }
    }
    cluster.settle();
    cluster
}

/// Plays a script, then again with a crash after each write.
fn check(script: &str) {
    let cluster = play(script, None);
    for crash in 1..=cluster.log.len() {
        let crashed = play(script, Some(crash));
        let queues: BTreeSet<String> = cluster.names("Queue").into_iter().map(str::to_owned).collect();
        for queue in &queues {
            assert_eq!(stand(&crashed, queue), stand(&cluster, queue), "{crash} {script}");
        }
    }
    let writes = cluster.log.len();
    let mut again = cluster;
    again.pass(1);
    assert_eq!(again.log.len(), writes, "a restart writes {:?}\n{script}", again.log);
}
