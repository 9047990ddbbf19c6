//! Bugs to plant.

use std::collections::BTreeMap;

use basalt_audit::{Decision, Purpose};
use serde_json::{Value, json};

use crate::place;

/// A planted bug: title, a change of the world (object, JSON pointer, value), a change of the decision, what is found.
pub(crate) struct Plant {
    pub title: &'static str,
    pub world: Vec<(&'static str, &'static str, Value)>,
    pub decision: fn(&mut Decision),
    pub expected: &'static [&'static str],
}

fn plant(
    title: &'static str,
    world: Vec<(&'static str, &'static str, Value)>,
    decision: fn(&mut Decision),
    expected: &'static [&'static str],
) -> Plant {
    Plant {
        title,
        world,
        decision,
        expected,
    }
}

fn nothing(_: &mut Decision) {}

/// No word about queues: for plants that change what they have.
fn silent(decision: &mut Decision) {
    decision.queues.clear();
}

/// Too much on a node.
fn room_plants() -> Vec<Plant> {
    let port = json!([{"hostPort": 80}]);
    let requests = "/spec/containers/0/resources/requests";
    vec![
        plant("nothing", vec![], nothing, &[]),
        plant(
            "no room",
            vec![("n1", "/status/allocatable/cpu", json!("3500m"))],
            nothing,
            &["I1"],
        ),
        plant(
            "no room for pods",
            vec![("n1", "/status/allocatable/pods", json!(3))],
            nothing,
            &["I1"],
        ),
        plant(
            "no such device",
            vec![("new-w-0", requests, json!({"x.io/gpu": 1}))],
            silent,
            &["I1", "I4", "I4", "I4"],
        ),
        plant(
            "no room later",
            vec![("n2", "/status/allocatable/memory", json!("3Gi"))],
            nothing,
            &["I1"],
        ),
        plant(
            "a port that is taken",
            vec![
                ("new-w-0", "/spec/containers/0/ports", port.clone()),
                ("old-w-0", "/spec/containers/0/ports", port),
            ],
            nothing,
            &["I1"],
        ),
    ]
}

/// Nodes that do not admit the pod.
fn node_plants() -> Vec<Plant> {
    vec![
        plant(
            "a taint",
            vec![("n1", "/spec/taints", json!([{"key": "k", "effect": "NoSchedule"}]))],
            nothing,
            &["I13", "I13"],
        ),
        plant(
            "a cordon",
            vec![("n1", "/spec/unschedulable", json!(true))],
            nothing,
            &["I13", "I13"],
        ),
        plant(
            "not ready",
            vec![(
                "n1",
                "/status/conditions",
                json!([{"type": "Ready", "status": "False"}]),
            )],
            nothing,
            &["I13", "I13"],
        ),
        plant(
            "a selector",
            vec![("new-w-0", "/spec/nodeSelector", json!({"zone": "b"}))],
            nothing,
            &["I13"],
        ),
        plant(
            "an affinity",
            vec![(
                "new-w-0",
                "/spec/affinity",
                json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                    {"matchExpressions": [{"key": "zone", "operator": "NotIn", "values": ["a"]}]},
                    {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n2"]}]},
                ]}}}),
            )],
            nothing,
            &["I13"],
        ),
        plant(
            "gates",
            vec![("new-w-0", "/spec/schedulingGates", json!([{"name": "g"}]))],
            nothing,
            &["I13"],
        ),
    ]
}

/// A pod that must be near others, or apart from them.
fn tie(pod: &'static str, kind: &str, topology: &str, app: &str) -> (&'static str, &'static str, Value) {
    let term = json!([{"topologyKey": topology, "labelSelector": {"matchLabels": {"app": app}}}]);
    let required = json!({kind: {"requiredDuringSchedulingIgnoredDuringExecution": term}});
    (pod, "/spec/affinity", required)
}

/// Pods that must be apart.
fn apart_plants() -> Vec<Plant> {
    vec![
        plant(
            "apart from others",
            vec![tie("new-w-0", "podAntiAffinity", "zone", "old")],
            nothing,
            &["I13"],
        ),
        plant(
            "others want to be apart",
            vec![tie("old-w-0", "podAntiAffinity", "zone", "new")],
            nothing,
            &["I13"],
        ),
        plant(
            "apart from its own",
            vec![tie("new-w-0", "podAntiAffinity", "kubernetes.io/hostname", "new")],
            nothing,
            &["I13"],
        ),
        plant(
            "apart, and it is",
            vec![tie("new-w-0", "podAntiAffinity", "zone", "top")],
            nothing,
            &[],
        ),
        plant(
            "bound next to one that has to leave first",
            vec![
                tie("new-w-0", "podAntiAffinity", "kubernetes.io/hostname", "gone"),
                ("old-w-0", "/metadata/labels/app", json!("gone")),
                ("old-w-0", "/metadata/deletionTimestamp", json!("now")),
            ],
            silent,
            &["I13"],
        ),
        plant(
            "waits for one to leave",
            vec![
                tie("new-w-2", "podAntiAffinity", "kubernetes.io/hostname", "gone"),
                ("old-w-2", "/metadata/labels/app", json!("gone")),
                ("old-w-2", "/metadata/deletionTimestamp", json!("now")),
            ],
            silent,
            &[],
        ),
    ]
}

/// Pods that must be together.
fn together_plants() -> Vec<Plant> {
    vec![
        plant(
            "together with one that leaves",
            vec![
                tie("new-w-0", "podAffinity", "zone", "gone"),
                ("old-w-0", "/metadata/labels/app", json!("gone")),
                ("old-w-0", "/metadata/deletionTimestamp", json!("now")),
            ],
            silent,
            &["I13"],
        ),
        plant(
            "together with one that is evicted after it came",
            vec![
                tie("new-w-0", "podAffinity", "pool", "gone"),
                ("old-w-5", "/metadata/labels/app", json!("gone")),
                ("n1", "/metadata/labels/pool", json!("p")),
                ("n2", "/metadata/labels/pool", json!("p")),
            ],
            nothing,
            &[],
        ),
        plant(
            "others go for a place whose company goes too",
            vec![
                tie("new-w-2", "podAffinity", "zone", "gone"),
                ("old-w-5", "/metadata/labels/app", json!("gone")),
            ],
            nothing,
            &["I13"],
        ),
        plant(
            "together with nobody",
            vec![tie("new-w-0", "podAffinity", "zone", "top")],
            nothing,
            &["I13"],
        ),
        plant(
            "together",
            vec![tie("new-w-0", "podAffinity", "zone", "old")],
            nothing,
            &[],
        ),
        plant(
            "together with itself",
            vec![tie("new-w-0", "podAffinity", "zone", "new")],
            nothing,
            &[],
        ),
    ]
}

/// Binds of the wrong thing.
fn bind_plants() -> Vec<Plant> {
    vec![
        plant(
            "a bind twice",
            vec![],
            |d| d.binds.push(place("new-w-0", "n2")),
            &["I7"],
        ),
        plant(
            "a bind of a pod that runs",
            vec![],
            |d| d.binds.push(place("old-w-0", "n2")),
            &["I7"],
        ),
        plant(
            "a bind by another's uid",
            vec![],
            |d| d.binds[0].uid = "uid-old".into(),
            &["I7"],
        ),
        plant(
            "a node that is not there",
            vec![],
            |d| d.pipelined[0].node = "n9".into(),
            &["I5", "I7"],
        ),
    ]
}

fn queue_plants() -> Vec<Plant> {
    vec![
        plant(
            "a gang in part",
            vec![("new", "/spec/minMember", json!(3))],
            nothing,
            &["I2"],
        ),
        plant(
            "a task of the gang short",
            vec![("new", "/spec/minTaskMember", json!({"w": 1, "v": 1}))],
            nothing,
            &["I2"],
        ),
        plant(
            "the queue's own limit",
            vec![("a", "/spec/capability", json!({"cpu": 1}))],
            nothing,
            &["I3"],
        ),
        plant(
            "zero is none",
            vec![("a", "/spec/capability", json!({"cpu": 0}))],
            nothing,
            &["I3"],
        ),
        plant(
            "a limit above",
            vec![("dept", "/spec/capability", json!({"cpu": 5, "memory": "20Gi"}))],
            nothing,
            &["I3"],
        ),
        plant(
            "what is set aside for others",
            vec![("b", "/spec/guarantee", json!({"resource": {"cpu": 7}}))],
            silent,
            &["I4", "I4", "I5"],
        ),
        plant("not a leaf", vec![("b", "/spec/parent", json!("a"))], silent, &["I3"]),
        plant(
            "no such parent",
            vec![("a", "/spec/parent", json!("gone"))],
            silent,
            &["I3", "I4", "I4", "I5"],
        ),
        plant(
            "accounts that are off",
            vec![],
            |d| {
                d.queues.get_mut("a").expect("a").allocated =
                    BTreeMap::from([("memory".into(), 2 << 30), ("pods".into(), 2)]);
            },
            &["I10"],
        ),
        plant(
            "a due that is off",
            vec![],
            |d| d.queues.get_mut("a").expect("a").deserved = Some(BTreeMap::new()),
            &["I10", "I10"],
        ),
    ]
}

fn purpose_plants() -> Vec<Plant> {
    vec![
        plant(
            "nobody gets the room",
            vec![],
            |d| drop(d.pipelined.remove(1)),
            &["I5", "I5"],
        ),
        plant(
            "someone without a name",
            vec![],
            |d| d.evictions[0].beneficiary.clear(),
            &["I5"],
        ),
        plant(
            "room elsewhere",
            vec![("n1", "/status/allocatable/cpu", json!("9"))],
            |d| d.pipelined[0].node = "n1".into(),
            &["I5"],
        ),
        plant(
            "a place that needs no room",
            vec![("n2", "/status/allocatable/cpu", json!("9"))],
            |d| {
                let placed = d.pipelined.remove(0);
                d.binds.push(placed);
                d.queues.clear();
            },
            &["I5"],
        ),
        plant(
            "an action that does not run",
            vec![],
            |d| {
                d.evictions[0].purpose = Purpose::Shuffle;
                d.evictions[0].beneficiary.clear();
            },
            &["I5"],
        ),
        plant(
            "too little for the gang",
            vec![("new", "/spec/minMember", json!(4))],
            nothing,
            &["I2", "I5"],
        ),
    ]
}

fn eviction_plants() -> Vec<Plant> {
    let flag = "/metadata/annotations/volcano.sh~1preemptable";
    vec![
        plant(
            "a victim that must stay",
            vec![("old-w-5", flag, json!("false"))],
            nothing,
            &["I5"],
        ),
        plant(
            "one of the cluster's own",
            vec![("old-w-5", "/spec/priorityClassName", json!("system-node-critical"))],
            nothing,
            &["I5"],
        ),
        plant(
            "a queue that keeps",
            vec![("b", "/spec/reclaimable", json!(false))],
            nothing,
            &["I5"],
        ),
        plant(
            "no less important",
            vec![("old", "/spec/priorityClassName", json!("high"))],
            nothing,
            &["I5"],
        ),
        plant(
            "beyond the budget",
            vec![("b", "/status/disruptionsAllowed", json!(1))],
            nothing,
            &[],
        ),
        plant(
            "a queue within its due",
            vec![("b", "/spec/deserved/cpu", json!(7))],
            silent,
            &["I5"],
        ),
        plant(
            "a taker with all it deserves",
            vec![("a", "/spec/deserved", json!({"cpu": "500m", "memory": "500Mi"}))],
            silent,
            &["I5"],
        ),
        plant(
            "a gang broken",
            vec![("old", "/spec/minMember", json!(5))],
            nothing,
            &["I5"],
        ),
        plant("a lone pod", vec![("old", "/spec/minMember", json!(1))], nothing, &[]),
        plant(
            "a guarantee broken",
            vec![("b", "/spec/guarantee", json!({"resource": {"cpu": "4500m"}}))],
            silent,
            &["I4"],
        ),
        plant(
            "reclaim at home",
            vec![],
            |d| d.evictions[1].purpose = Purpose::Reclaim,
            &["I5"],
        ),
        plant(
            "evicted twice",
            vec![],
            |d| d.evictions.push(d.evictions[0].clone()),
            &["I5"],
        ),
        plant(
            "gone already",
            vec![("old-w-5", "/metadata/deletionTimestamp", json!("now"))],
            silent,
            &["I5"],
        ),
    ]
}

/// All of them.
pub(crate) fn all() -> impl Iterator<Item = Plant> {
    [
        room_plants(),
        node_plants(),
        apart_plants(),
        together_plants(),
        bind_plants(),
        queue_plants(),
        purpose_plants(),
        eviction_plants(),
    ]
    .into_iter()
    .flatten()
}
