//! A small language for tests: lines change the cluster, lines that begin with `>` say what the next cycle must decide.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use basalt_api::quantity::Quantity;
use basalt_engine::facts::{
    Constraints, NodeFacts, Phase, PodFacts, PodGroupFacts, PodPhase, PriorityClassFacts, QueueFacts, Resources, Taint,
    TaintEffect, Toleration, amount,
};
use basalt_engine::offline::OfflineCluster;
use basalt_engine::plan::{Bind, QueueState};
use basalt_engine::{Conf, Engine, Event, Options, Plan};

pub(crate) const CONF: &str = "
actions: enqueue, allocate, backfill
tiers:
- plugins: [{name: priority}, {name: gang}]
- plugins: [{name: predicates}]
";

/// Runs a script; `>` lines are compared with what a cycle decides.
#[track_caller]
pub(crate) fn check(script: &str) {
    check_conf(CONF, script);
}

/// The same with another configuration.
#[track_caller]
pub(crate) fn check_conf(conf: &str, script: &str) {
    let mut world = World::new(conf);
    let mut seen = String::new();
    let mut expected = String::new();
    let mut lines = script.lines().map(str::trim).filter(|line| !line.is_empty()).peekable();
    while let Some(line) = lines.next() {
        let _ = writeln!(expected, "{line}");
        if !line.starts_with('>') {
            let _ = writeln!(seen, "{line}");
            world.tell(line);
            continue;
        }
        while let Some(more) = lines.next_if(|line| line.starts_with('>')) {
            let _ = writeln!(expected, "{more}");
        }
        for line in world.decide() {
            let _ = writeln!(seen, "> {line}");
        }
    }
    assert!(seen == expected, "\n--- expected\n{expected}\n--- seen\n{seen}");
}

/// The cluster as the test tells it, and the engine that listens.
pub(crate) struct World {
    pub(crate) cluster: OfflineCluster,
    pub(crate) now_ms: i64,
    born_ms: i64,
    pub(crate) plan: Plan,
    /// Decided and not yet shown by the API.
    pub(crate) decided: Vec<Bind>,
    /// Every cycle looks at everything anew.
    pub(crate) forgetful: bool,
}

impl World {
    pub(crate) fn new(conf: &str) -> Self {
        Self::with(conf, Options::default())
    }

    pub(crate) fn with(conf: &str, options: Options) -> Self {
        let engine = Engine::new(Conf::parse(conf).expect("a configuration"), options);
        let mut world = World {
            cluster: OfflineCluster::new(engine).with_history(),
            now_ms: 0,
            born_ms: 0,
            plan: Plan::default(),
            decided: Vec::new(),
            forgetful: false,
        };
        world.cluster.apply(Event::Queue(QueueFacts {
            name: "default".into(),
            ..Default::default()
        }));
        world
    }

    fn born(&mut self) -> i64 {
        self.born_ms += 1;
        self.born_ms
    }

    fn put_pod(&mut self, pod: PodFacts) {
        let ended = |pod: &PodFacts| matches!(pod.phase, PodPhase::Succeeded | PodPhase::Failed);
        if self.cluster.pods().get(&pod.key).is_some_and(ended) {
            // A place of a pod that has ended is no place, even if one of its name comes back.
            self.decided.retain(|bind| bind.pod != pod.key);
        }
        self.cluster.apply(Event::Pod(pod));
    }

    /// Changes a pod that exists; one that is gone stays gone.
    fn change_pod(&mut self, name: &str, change: impl FnOnce(&mut PodFacts)) {
        if let Some(mut pod) = self.cluster.pods().get(&*format!("ns/{name}")).cloned() {
            change(&mut pod);
            self.put_pod(pod);
        }
    }

    /// One line of a script.
    pub(crate) fn tell(&mut self, line: &str) {
        let words = Words::parse(line);
        match words.verb {
            "node" => self.cluster.apply(Event::Node(words.node())),
            "queue" => {
                let created_ms = words.number("born").unwrap_or_else(|| self.born());
                self.cluster.apply(Event::Queue(QueueFacts {
                    created_ms,
                    ..words.queue()
                }));
            }
            "class" => self.cluster.apply(Event::PriorityClass(PriorityClassFacts {
                name: words.name.into(),
                uid: words.uid(),
                value: words.number("value").unwrap_or(0) as i32,
                global_default: words.flag("default"),
            })),
            "gang" => self.gang(&words),
            "pod" => {
                let created_ms = self.born();
                self.put_pod(PodFacts {
                    created_ms,
                    ..words.pod(words.name, words.get("group"))
                });
            }
            "bound" => {
                for bind in std::mem::take(&mut self.decided) {
                    self.cluster.bind_pod(&bind);
                }
            }
            "phases" => self.write_phases(),
            "evicted" => {
                for eviction in self.plan.evictions() {
                    self.cluster.evict_pod(eviction);
                    self.decided.retain(|bind| bind.pod != eviction.pod);
                }
            }
            "runs" => self.change_pod(words.name, |pod| pod.phase = PodPhase::Running),
            // As in a real cluster: whatever runs has a node.
            "starts" => self.change_pod(words.name, |pod| {
                if pod.node.is_some() {
                    pod.phase = PodPhase::Running;
                }
            }),
            "succeeds" => self.change_pod(words.name, |pod| pod.phase = PodPhase::Succeeded),
            "fails" => self.change_pod(words.name, |pod| pod.phase = PodPhase::Failed),
            "ends" => self.change_pod(words.name, |pod| pod.terminating = true),
            "touch" => self.change_pod(words.name, |_| {}),
            "unbound" => {
                let key = format!("ns/{}", words.name);
                self.decided.retain(|bind| *bind.pod != *key);
                self.cluster
                    .engine_mut()
                    .bind_failed(&key, &format!("uid-{}", words.name));
            }
            "refused" => {
                let evictions = self
                    .plan
                    .evictions()
                    .map(|eviction| (eviction.pod.clone(), eviction.uid.clone()));
                for (pod, uid) in evictions.collect::<Vec<_>>() {
                    self.cluster.engine_mut().evict_failed(&pod, &uid);
                }
            }
            "gone" => self.gone(&words),
            "again" => {}
            "wait" => self.now_ms += words.name.parse::<i64>().expect("milliseconds"),
            _ => panic!("unknown line: {line}"),
        }
    }

    fn gang(&mut self, words: &Words) {
        let created_ms = self.born();
        let group = PodGroupFacts {
            created_ms,
            ..words.group()
        };
        self.cluster.apply(Event::PodGroup(group));
        for index in 0..words.number("pods").unwrap_or(0) {
            let name = format!("{}-{}-{index}", words.name, words.get("role").unwrap_or("w"));
            let created_ms = self.born();
            self.put_pod(PodFacts {
                created_ms,
                ..words.pod(&name, Some(words.name))
            });
        }
    }

    fn gone(&mut self, words: &Words) {
        let (kind, name) = words.name.split_once('/').expect("kind/name");
        let key: Arc<str> = format!("ns/{name}").into();
        match kind {
            // A place of a pod that is gone is no place, even if one of its name comes back.
            "pod" => self.decided.retain(|bind| bind.pod != key),
            // A place on a node that is gone is no place, even if the node comes back.
            "node" => self.decided.retain(|bind| *bind.node != *name),
            _ => {}
        }
        let uid = words.get("uid").map(Arc::from);
        self.cluster.apply(match kind {
            "node" => Event::NodeGone { name: name.into(), uid },
            "queue" => Event::QueueGone { name: name.into(), uid },
            "class" => Event::PriorityClassGone { name: name.into(), uid },
            "gang" => Event::PodGroupGone { key, uid },
            _ => Event::PodGone { key, uid },
        });
    }

    /// The API shows the phases of the last plan.
    fn write_phases(&mut self) {
        for transaction in std::mem::take(&mut self.plan.transactions) {
            self.cluster.write_group_status(&transaction);
        }
    }

    /// One cycle, as text.
    pub(crate) fn decide(&mut self) -> Vec<String> {
        if self.forgetful {
            let conf = self.cluster.engine().conf().clone();
            self.cluster.engine_mut().set_conf(conf);
        }
        let plan = self.cluster.engine_mut().cycle(self.now_ms, 0);
        let mut lines = Vec::new();
        let short = |key: &str| key.trim_start_matches("ns/").to_owned();
        for transaction in &plan.transactions {
            let mut line = short(&transaction.pod_group);
            let binds = transaction.binds.iter().map(|bind| (&bind.node, &bind.pod));
            let pipelined = transaction.pipelined.iter().map(|pod| (&pod.node, &pod.pod));
            let evicted = transaction
                .evictions
                .iter()
                .map(|eviction| (&eviction.node, &eviction.pod));
            let lists: [(&str, Vec<_>); 3] = [
                ("", binds.collect()),
                ("~", pipelined.collect()),
                ("-", evicted.collect()),
            ];
            for (word, places) in lists {
                let mut by_node: Vec<(String, Vec<String>)> = Vec::new();
                for (node, pod) in places {
                    match by_node.iter_mut().find(|(known, _)| **known == **node) {
                        Some((_, pods)) => pods.push(short(pod)),
                        None => by_node.push((node.to_string(), vec![short(pod)])),
                    }
                }
                for (node, pods) in by_node {
                    let _ = write!(line, " {word}{node}[{}]", pods.join(" "));
                }
            }
            if let Some(phase) = transaction.phase {
                let _ = write!(line, " {phase:?}");
            }
            if let Some(tally) = transaction.tally {
                let _ = write!(line, " {}+{}+{}", tally.running, tally.succeeded, tally.failed);
            }
            lines.push(line);
        }
        for waiting in plan.waiting.iter() {
            for reason in waiting.reasons.iter() {
                lines.push(format!(
                    "wait {} {}: {}",
                    short(&waiting.pod_group),
                    waiting.pods,
                    reason.message()
                ));
            }
        }
        if lines.is_empty() {
            lines.push("nothing".to_owned());
        }
        self.decided.retain(|old| plan.binds().all(|new| new.pod != old.pod));
        self.decided.extend(plan.binds().cloned());
        self.plan = plan;
        lines
    }

    /// What a queue has, from the last plan.
    pub(crate) fn queue(&self, name: &str) -> String {
        self.report(name, |queue| &queue.allocated)
    }

    /// What a queue deserves, from the last plan.
    pub(crate) fn due(&self, name: &str) -> String {
        self.report(name, |queue| &queue.deserved)
    }

    fn report(&self, name: &str, of: fn(&QueueState) -> &Resources) -> String {
        let mut queues = self.plan.queues.iter();
        let queue = queues.find(|queue| *queue.name == *name).expect("a queue");
        let pairs = of(queue).iter().map(|(name, amount)| format!("{name}={amount}"));
        pairs.collect::<Vec<_>>().join(" ")
    }
}

/// A line: verb, name, `key=value` pairs and flags.
struct Words<'a> {
    verb: &'a str,
    name: &'a str,
    rest: Vec<(&'a str, &'a str)>,
}

impl<'a> Words<'a> {
    fn parse(line: &'a str) -> Self {
        let mut words = line.split_whitespace();
        let verb = words.next().unwrap_or("");
        let name = words.next().unwrap_or("");
        Words {
            verb,
            name,
            rest: words.map(|word| word.split_once('=').unwrap_or((word, ""))).collect(),
        }
    }

    fn get(&self, key: &str) -> Option<&'a str> {
        self.rest.iter().find(|(k, _)| *k == key).map(|&(_, value)| value)
    }

    fn flag(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    fn number(&self, key: &str) -> Option<i64> {
        self.get(key).map(|value| value.parse().expect("a number"))
    }

    fn pairs(&self, key: &str) -> BTreeMap<Arc<str>, Arc<str>> {
        let list = self.get(key).unwrap_or("").split(',').filter(|pair| !pair.is_empty());
        list.map(|pair| pair.split_once(':').expect("key:value"))
            .map(|(k, v)| (k.into(), v.into()))
            .collect()
    }

    fn list(&self, key: &str) -> Vec<Arc<str>> {
        let names = self.get(key).unwrap_or("").split(',');
        names.filter(|name| !name.is_empty()).map(Arc::from).collect()
    }

    fn resources(&self, prefix: &str) -> Resources {
        let mut resources = Resources::new();
        for (key, value) in &self.rest {
            let Some(name) = key.strip_prefix(prefix) else { continue };
            if matches!(name, "cpu" | "memory") || name.contains('/') {
                resources.insert(name.into(), amount(name, Quantity::parse(value).expect("a quantity")));
            }
        }
        resources
    }

    fn uid(&self) -> Arc<str> {
        self.get("uid").unwrap_or("").into()
    }

    fn node(&self) -> NodeFacts {
        let mut allocatable = self.resources("");
        allocatable.insert("pods".into(), self.number("room").unwrap_or(110));
        let taints = self.get("taint").into_iter().map(|key| Taint {
            key: key.into(),
            value: "".into(),
            effect: TaintEffect::NoSchedule,
        });
        NodeFacts {
            name: self.name.into(),
            uid: self.uid(),
            allocatable,
            labels: self.pairs("labels"),
            taints: taints.collect(),
            unschedulable: self.flag("cordoned"),
            not_ready: self.flag("not-ready"),
            ..NodeFacts::default()
        }
    }

    fn queue(&self) -> QueueFacts {
        QueueFacts {
            name: self.name.into(),
            uid: self.uid(),
            parent: self.get("parent").unwrap_or("").into(),
            weight: self.number("weight").unwrap_or(1) as u32,
            priority: self.number("priority").unwrap_or(0) as i32,
            deserved: self.resources("deserved-"),
            guarantee: self.resources("guarantee-"),
            capability: self.resources("capability-"),
            locks: self.list("locks"),
            target: self.resources("target-"),
            evicts: self.flag("evicts"),
            ..Default::default()
        }
    }

    fn group(&self) -> PodGroupFacts {
        let phase = match self.get("phase") {
            None | Some("Pending") => Phase::Pending,
            Some("Inqueue") => Phase::Inqueue,
            Some("Running") => Phase::Running,
            Some(other) => panic!("unknown phase {other}"),
        };
        let roles = self.pairs("roles");
        let min_resources = self.resources("needs-");
        PodGroupFacts {
            key: format!("ns/{}", self.name).into(),
            uid: format!("uid-{}", self.name).into(),
            queue: self.get("queue").unwrap_or("default").into(),
            min_member: self.number("min").unwrap_or(0) as u32,
            min_task_member: roles
                .iter()
                .map(|(role, min)| (role.clone(), min.parse().expect("a number")))
                .collect(),
            min_resources: (!min_resources.is_empty()).then_some(min_resources),
            priority_class: self.get("class").unwrap_or("").into(),
            phase,
            sla_ms: self.number("sla"),
            unsupported: self.get("unsupported").into_iter().map(Into::into).collect(),
            ..Default::default()
        }
    }

    fn pod(&self, name: &str, group: Option<&str>) -> PodFacts {
        let tolerations = self.get("tolerate").into_iter().map(|key| Toleration {
            key: key.into(),
            exists: true,
            ..Default::default()
        });
        PodFacts {
            key: format!("ns/{name}").into(),
            uid: format!("uid-{name}").into(),
            scheduler: self.get("scheduler").unwrap_or("volcano").into(),
            group: group.map(|group| format!("ns/{group}").into()),
            role: self.get("role").unwrap_or("").into(),
            priority: self.number("priority").unwrap_or(1) as i32,
            phase: if self.flag("running") {
                PodPhase::Running
            } else {
                PodPhase::Pending
            },
            node: self.get("on").map(Into::into),
            terminating: self.flag("terminating"),
            gated: self.flag("gated"),
            preemptable: !self.flag("stays"),
            critical: self.flag("critical"),
            fixed: self.flag("fixed"),
            requests: self.resources(""),
            constraints: Arc::new(Constraints {
                node_selector: self.pairs("select"),
                tolerations: tolerations.collect(),
                everywhere: self.flag("everywhere"),
                unsupported: self.get("wants").into_iter().map(Into::into).collect(),
                ..Default::default()
            }),
            ..Default::default()
        }
    }
}
