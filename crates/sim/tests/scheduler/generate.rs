//! Random small clusters: bugs show in small ones.

use std::fmt::Write as _;

use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

/// A cluster and a configuration to serve it by.
#[derive(Clone, Debug)]
pub(crate) struct Plot {
    pub(crate) conf: String,
    pub(crate) nodes: Vec<Node>,
    pub(crate) queues: Vec<Queue>,
    pub(crate) groups: Vec<Group>,
    pub(crate) budget: Option<u32>,
    pub(crate) locks: Locks,
}

/// Which nodes are locked for whom.
#[derive(Clone, Debug, Default)]
pub(crate) struct Locks {
    /// By node: its queue, if any. The queues above hold it too.
    pub(crate) holders: Vec<Option<usize>>,
    /// By queue: its target in cores, and whether it is guaranteed that.
    pub(crate) targets: Vec<(u32, bool)>,
}

#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) cpu: u32,
    pub(crate) memory: u32,
    pub(crate) pods: u32,
    pub(crate) gpu: u32,
    pub(crate) oddity: &'static str,
}

#[derive(Clone, Debug)]
pub(crate) struct Queue {
    /// Below which earlier queue; none: `root`.
    pub(crate) parent: Option<usize>,
    pub(crate) weight: u32,
    pub(crate) priority: u32,
    pub(crate) deserved: Option<u32>,
    pub(crate) guarantee: Option<u32>,
    pub(crate) capability: Option<u32>,
    pub(crate) reclaimable: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Group {
    pub(crate) queue: usize,
    pub(crate) min: u32,
    pub(crate) pods: u32,
    /// How many pods run at the start, if there is room.
    pub(crate) running: u32,
    pub(crate) cpu: u32,
    pub(crate) memory: u32,
    pub(crate) class: &'static str,
    pub(crate) oddity: &'static str,
}

const ACTIONS: &[&str] = &[
    "enqueue, allocate, backfill",
    "allocate, backfill",
    "enqueue, allocate, reclaim, backfill",
    "enqueue, allocate, preempt, backfill",
    "enqueue, allocate, preempt, reclaim, backfill",
    "reclaim, allocate, preempt",
    "enqueue, allocate, gangreclaim, backfill",
    "enqueue, allocate, gangpreempt, gangreclaim",
    "enqueue, allocate, reclaim, gangreclaim, backfill",
    "enqueue, allocate, preempt, gangpreempt, reclaim, gangreclaim, backfill",
    "gangreclaim, reclaim, allocate, gangpreempt, preempt",
];

const SHARING: &[&str] = &[
    "{name: proportion}",
    "{name: capacity}",
    "{name: capacity, enableHierarchy: true}",
    "{name: capacity, enableHierarchy: true, arguments: {deservedFromWeight: true}}",
    "{name: capacity, enableHierarchy: true, arguments: {ancestorReclaimLevel: 1}}",
    "{name: capacity, arguments: {deservedFromWeight: true}}",
    "{name: conformance}",
];

const GANG: &[&str] = &[
    "{name: gang}",
    "{name: gang}",
    "{name: gang}",
    "{name: gang, enablePreemptable: false}",
    "{name: gang, enableReclaimable: false}",
    "{name: gang, enableJobStarving: false}",
];

const OTHERS: &[&str] = &[
    "{name: overcommit}",
    "{name: drf}",
    "{name: drf, enablePreemptable: false}",
    "{name: nodeorder}",
    "{name: binpack}",
    "{name: pdb}",
    "{name: sla}",
    "{name: node_reservation}",
];

pub(crate) fn conf() -> impl Strategy<Value = String> {
    let others = prop::sample::subsequence(OTHERS, 0..=OTHERS.len());
    let early = prop::sample::subsequence(vec!["{name: priority}", "{name: conformance}", "{name: pdb}"], 0..=3);
    (
        select(ACTIONS),
        select(SHARING),
        select(GANG),
        early,
        others,
        any::<bool>(),
    )
        .prop_map(|(actions, sharing, gang, early, others, one_tier)| {
            let mut first = early;
            first.push(gang);
            let mut second = others;
            second.extend(["{name: predicates}", sharing]);
            let mut conf = format!("actions: \"{actions}\"\ntiers:\n");
            if one_tier {
                first.append(&mut second);
            }
            for tier in [first, second].iter().filter(|tier| !tier.is_empty()) {
                let _ = writeln!(conf, "- plugins: [{}]", tier.join(", "));
            }
            conf
        })
}

fn node() -> impl Strategy<Value = Node> {
    let oddity = select(vec!["", "", "", "", "cordoned", "not-ready", "tainted"]);
    (1..9_u32, 2..12_u32, 1..9_u32, 0..3_u32, oddity).prop_map(|(cpu, memory, pods, gpu, oddity)| Node {
        cpu,
        memory,
        pods,
        gpu,
        oddity,
    })
}

fn queue() -> impl Strategy<Value = Queue> {
    let amount = || prop::option::weighted(0.4, 0..9_u32);
    (
        prop::option::weighted(0.5, 0..4_usize),
        1..4_u32,
        0..2_u32,
        amount(),
        prop::option::weighted(0.3, 0..4_u32),
        amount(),
        prop::bool::weighted(0.85),
    )
        .prop_map(
            |(parent, weight, priority, deserved, guarantee, capability, reclaimable)| Queue {
                parent,
                weight,
                priority,
                deserved,
                guarantee,
                capability,
                reclaimable,
            },
        )
}

fn group() -> impl Strategy<Value = Group> {
    let oddity = select(vec![
        "", "", "", "", "", "gated", "tolerant", "zone", "port", "apart", "together", "roles", "stays", "critical",
        "gpu", "affine", "keeps",
    ]);
    (
        0..5_usize,
        0..4_u32,
        1..6_u32,
        0..6_u32,
        0..4_u32,
        0..3_u32,
        select(vec!["", "", "low", "high"]),
        oddity,
    )
        .prop_map(|(queue, min, pods, running, cpu, memory, class, oddity)| Group {
            queue,
            min,
            pods,
            running,
            cpu,
            memory,
            class,
            oddity,
        })
}

pub(crate) fn plot() -> impl Strategy<Value = Plot> {
    plot_with(conf())
}

/// Clusters under configurations of the caller's choice.
pub(crate) fn plot_with(conf: impl Strategy<Value = String>) -> impl Strategy<Value = Plot> {
    (
        conf,
        prop::collection::vec(node(), 1..4),
        prop::collection::vec(queue(), 1..5),
        prop::collection::vec(group(), 1..6),
        prop::option::weighted(0.3, 0..3_u32),
        locks(0.3),
    )
        .prop_map(|(conf, nodes, queues, groups, budget, locks)| Plot {
            conf,
            nodes,
            queues,
            groups,
            budget,
            locks,
        })
}

/// Locks on this part of the nodes.
fn locks(part: f64) -> impl Strategy<Value = Locks> {
    let holders = prop::collection::vec(prop::option::weighted(part, 0..4_usize), 4);
    let targets = prop::collection::vec((0..9_u32, any::<bool>()), 5);
    (holders, targets).prop_map(|(holders, targets)| Locks { holders, targets })
}

/// As [`crowded`], on nodes of which most are locked.
pub(crate) fn locked(conf: &str) -> impl Strategy<Value = Plot> + use<> {
    (
        crowded(conf),
        locks(0.7),
        prop::collection::vec(prop::option::of(0..3_usize), 4),
    )
        .prop_map(|(mut plot, locks, parents)| {
            for (queue, parent) in plot.queues.iter_mut().zip(parents) {
                queue.parent = parent;
            }
            Plot { locks, ..plot }
        })
}

/// Clusters in which queues fight for room: few plain nodes, most of which are taken, and gangs that wait.
pub(crate) fn crowded(conf: &str) -> impl Strategy<Value = Plot> + use<> {
    crowded_with(conf, &["", "", "", "stays", "critical", "roles", "keeps"])
}

/// The same with groups of the caller's choice.
pub(crate) fn crowded_with(conf: &str, oddities: &'static [&'static str]) -> impl Strategy<Value = Plot> + use<> {
    let conf = conf.to_owned();
    let node = (2..6_u32).prop_map(|cpu| Node {
        cpu,
        memory: 20,
        pods: 20,
        gpu: 1,
        oddity: "",
    });
    let amount = || prop::option::of(0..6_u32);
    let queue = (amount(), prop::option::of(1..3_u32), prop::bool::weighted(0.7)).prop_map(
        |(deserved, guarantee, reclaimable)| Queue {
            parent: None,
            weight: 1,
            priority: 0,
            deserved,
            guarantee,
            capability: None,
            reclaimable,
        },
    );
    let oddity = select(oddities);
    let class = select(vec!["", "low", "high"]);
    let group = (0..3_usize, 1..4_u32, 1..5_u32, 0..5_u32, 1..4_u32, class, oddity).prop_map(
        |(queue, min, pods, runs, cpu, class, oddity)| Group {
            queue,
            min: min.min(pods),
            pods,
            // Mostly all or none; now and then a gang that waits for the rest.
            running: match runs {
                0 | 1 => 0,
                2 => pods.saturating_sub(1),
                _ => pods,
            },
            cpu,
            memory: 1,
            class,
            oddity,
        },
    );
    (
        prop::collection::vec(node, 1..4),
        prop::collection::vec(queue, 2..4),
        prop::collection::vec(group, 2..7),
        prop::option::of(0..2_u32),
    )
        .prop_map(move |(nodes, queues, groups, budget)| Plot {
            conf: conf.clone(),
            nodes,
            queues,
            groups,
            budget,
            locks: Locks::default(),
        })
}

impl Node {
    fn object(&self, at: usize) -> Value {
        let taints = if self.oddity == "tainted" {
            json!([{"key": "k", "value": "v", "effect": "NoSchedule"}])
        } else {
            json!([])
        };
        let ready = if self.oddity == "not-ready" { "False" } else { "True" };
        let labels =
            json!({"zone": if at.is_multiple_of(2) { "a" } else { "b" }, "kubernetes.io/hostname": format!("n{at}")});
        json!({"apiVersion": "v1", "kind": "Node",
            "metadata": {"name": format!("n{at}"), "uid": format!("node-{at}"), "labels": labels},
            "spec": {"unschedulable": self.oddity == "cordoned", "taints": taints},
            "status": {"allocatable": {"cpu": self.cpu.to_string(), "memory": format!("{}Gi", self.memory), "pods": self.pods.to_string(),
                    "x.io/gpu": self.gpu.to_string()},
                "conditions": [{"type": "Ready", "status": ready}]}})
    }
}

impl Queue {
    fn object(&self, at: usize) -> Value {
        let parent = self
            .parent
            .filter(|&parent| parent < at)
            .map(|parent| format!("q{parent}"));
        let list = |amount: Option<u32>| match amount {
            // Some say it in one dimension only.
            Some(amount) if at.is_multiple_of(2) => json!({"cpu": amount.to_string(), "memory": format!("{amount}Gi")}),
            Some(amount) => json!({"cpu": amount.to_string()}),
            None => json!({}),
        };
        json!({"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue",
            "metadata": {"name": format!("q{at}"), "uid": format!("queue-{at}")},
            "spec": {"parent": parent.unwrap_or_default(), "weight": self.weight, "priority": self.priority, "reclaimable": self.reclaimable,
                "deserved": list(self.deserved), "guarantee": {"resource": list(self.guarantee)}, "capability": list(self.capability)}})
    }
}

impl Group {
    fn objects(&self, at: usize, queues: usize, free: &mut [Node]) -> Vec<Value> {
        let roles = if self.oddity == "roles" {
            json!({"w": self.min.div_ceil(2), "v": self.min / 2})
        } else {
            json!({})
        };
        let mut min_resources =
            json!({"cpu": (self.cpu * self.min).to_string(), "memory": format!("{}Gi", self.memory * self.min)});
        if at.is_multiple_of(3) {
            min_resources = Value::Null;
        }
        let mut group = json!({"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup",
            "metadata": {"name": format!("g{at}"), "namespace": "d", "uid": format!("group-{at}"), "annotations": {}},
            "spec": {"minMember": self.min, "minTaskMember": roles, "queue": format!("q{}", self.queue % queues),
                "priorityClassName": self.class, "minResources": min_resources},
            "status": {"phase": if self.running > 0 { "Running" } else { "Pending" }}});
        if self.oddity == "keeps" {
            group["metadata"]["annotations"]["volcano.sh/preemptable"] = json!("false");
        }
        let mut objects = vec![group];
        for index in 0..self.pods {
            let place = (index < self.running).then(|| self.find(free)).flatten();
            objects.push(self.pod(at, index, place));
        }
        objects
    }

    /// A node with room for a pod that runs already.
    fn find(&self, free: &mut [Node]) -> Option<usize> {
        let fits =
            |node: &Node| node.cpu >= self.cpu && node.memory >= self.memory && node.pods > 0 && node.gpu >= self.gpu();
        let plain = matches!(self.oddity, "" | "stays" | "critical" | "roles" | "gpu" | "keeps");
        let at = free.iter().position(fits).filter(|_| plain)?;
        let gpu = self.gpu();
        let node = &mut free[at];
        node.cpu -= self.cpu;
        node.memory -= self.memory;
        node.pods -= 1;
        node.gpu -= gpu;
        Some(at)
    }

    fn gpu(&self) -> u32 {
        u32::from(self.oddity == "gpu")
    }

    fn pod(&self, at: usize, index: u32, place: Option<usize>) -> Value {
        let role = if self.oddity == "roles" && index + self.min / 2 >= self.pods {
            "v"
        } else {
            "w"
        };
        let mut requests = json!({"cpu": self.cpu.to_string(), "memory": format!("{}Gi", self.memory)});
        if self.gpu() > 0 {
            requests["x.io/gpu"] = json!("1");
        }
        let mut pod = json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": format!("g{at}-{role}-{index}"), "namespace": "d", "uid": format!("pod-{at}-{index}"),
                "labels": {"app": format!("g{}", at % 2)},
                "annotations": {"scheduling.k8s.io/group-name": format!("g{at}"), "volcano.sh/task-spec": role}},
            "spec": {"schedulerName": "volcano", "containers": [{"name": "c", "resources": {"requests": requests}}]},
            "status": {"phase": "Pending"}});
        if let Some(node) = place {
            pod["spec"]["nodeName"] = json!(format!("n{node}"));
            pod["status"]["phase"] = json!("Running");
        }
        let spec = &mut pod["spec"];
        let near = |kind: &str, topology: &str| {
            let term = json!([{"topologyKey": topology, "labelSelector": {"matchLabels": {"app": "g1"}}}]);
            json!({kind: {"requiredDuringSchedulingIgnoredDuringExecution": term}})
        };
        match self.oddity {
            "gated" if index == 0 => spec["schedulingGates"] = json!([{"name": "later"}]),
            "tolerant" => spec["tolerations"] = json!([{"key": "k", "operator": "Exists"}]),
            "zone" => spec["nodeSelector"] = json!({"zone": "a"}),
            "port" => spec["containers"][0]["ports"] = json!([{"containerPort": 80, "hostPort": 80}]),
            "apart" => spec["affinity"] = near("podAntiAffinity", "kubernetes.io/hostname"),
            "together" => spec["affinity"] = near("podAffinity", "zone"),
            "affine" => {
                let term = json!([{"matchExpressions": [{"key": "zone", "operator": "NotIn", "values": ["a"]}]}]);
                let required = json!({"nodeSelectorTerms": term});
                spec["affinity"] =
                    json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}});
            }
            "stays" => pod["metadata"]["annotations"]["volcano.sh/preemptable"] = json!("false"),
            "critical" => spec["priorityClassName"] = json!("system-node-critical"),
            _ => {}
        }
        pod
    }
}

impl Plot {
    fn queue(&self, at: usize) -> Value {
        let mut object = self.queues[at].object(at);
        let parent = |&queue: &usize| self.queues[queue].parent.filter(|&parent| parent < queue);
        let is_held = |node: &usize| {
            let holder = self.locks.holders.get(*node).copied().flatten();
            let holder = holder.map(|holder| holder % self.queues.len());
            std::iter::successors(holder, parent).any(|queue| queue == at)
        };
        let nodes: Vec<String> = (0..self.nodes.len())
            .filter(is_held)
            .map(|node| format!("n{node}"))
            .collect();
        if let (false, Some((target, guaranteed))) = (nodes.is_empty(), self.locks.targets.get(at)) {
            let policy = if *guaranteed { "Guaranteed" } else { "Best-Effort" };
            object["spec"]["guarantee"]["policy"] = json!(policy);
            object["status"] = json!({"reservation": {"nodes": nodes, "target": {"cpu": target.to_string()}}});
        }
        object
    }

    /// The objects; pods that run are placed where there is room.
    pub(crate) fn objects(&self) -> Vec<Value> {
        let mut objects = Vec::new();
        for name in ["root", "default"] {
            objects.push(json!({"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue",
                "metadata": {"name": name, "uid": format!("queue-{name}")}, "spec": {"weight": 1, "reclaimable": name != "root"}}));
        }
        for (name, value) in [("low", -5), ("high", 10)] {
            objects.push(json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
                "metadata": {"name": name, "uid": format!("class-{name}")}, "value": value}));
        }
        if let Some(allowed) = self.budget {
            objects.push(json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
                "metadata": {"name": "b", "namespace": "d", "uid": "budget"}, "spec": {"selector": {"matchLabels": {"app": "g0"}}},
                "status": {"disruptionsAllowed": allowed, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0}}));
        }
        objects.extend(self.nodes.iter().enumerate().map(|(at, node)| node.object(at)));
        // Where the configuration knows no tree, parents must not matter.
        objects.extend((0..self.queues.len()).map(|at| self.queue(at)));
        let mut free = self.nodes.clone();
        for (at, group) in self.groups.iter().enumerate() {
            objects.extend(group.objects(at, self.queues.len(), &mut free));
        }
        objects
    }
}
