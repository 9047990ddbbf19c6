//! What holds for every cluster and every history.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use basalt_engine::facts::{NodeFacts, PodFacts, PodPhase};
use basalt_engine::{Conf, Engine, Event, Options, Plan};
use proptest::prelude::*;
use proptest::sample::select;

use crate::language::{CONF, World};

pub(crate) const SCORED: &str = "
actions: enqueue, allocate, backfill
tiers:
- plugins: [{name: priority}, {name: gang}]
- plugins: [{name: predicates}, {name: nodeorder}, {name: binpack}, {name: node_reservation}]
";

/// By weight.
pub(crate) const WEIGHTED: &str = "
actions: enqueue, allocate, backfill
tiers:
- plugins: [{name: priority}, {name: gang}]
- plugins: [{name: overcommit}, {name: drf}, {name: predicates}, {name: proportion}, {name: nodeorder}, {name: node_reservation}]
";

/// By what queues deserve, side by side and as a tree.
pub(crate) const DESERVED: &str = "
actions: enqueue, allocate, backfill
tiers:
- plugins: [{name: priority}, {name: gang}]
- plugins: [{name: overcommit}, {name: predicates}, {name: capacity}, {name: resourcequota}]
";
pub(crate) const TREE: &str = "
actions: enqueue, allocate, backfill
tiers:
- plugins: [{name: priority}, {name: gang}]
- plugins: [{name: overcommit}, {name: predicates}, {name: capacity, enableHierarchy: true, arguments: {deservedFromWeight: true}}, {name: node_reservation}]
";

pub(crate) fn conf() -> impl Strategy<Value = &'static str> {
    select(vec![CONF, SCORED, WEIGHTED, DESERVED, TREE])
}

/// Longer than a decision is believed without the API showing it.
const LONG: &str = "wait 40000";

fn queue() -> impl Strategy<Value = String> {
    let parent = select(vec!["root", "root", "q0", "q1", "q2", "nobody"]);
    let due = select(vec!["", " deserved-cpu=3", " deserved-cpu=6 deserved-memory=4Gi"]);
    let limit = select(vec!["", "", " capability-cpu=5", " guarantee-cpu=2"]);
    (0..4, parent, 1..4, due, limit, locks()).prop_map(|(q, parent, weight, due, limit, locks)| {
        format!("queue q{q} parent={parent} weight={weight}{due}{limit}{locks}")
    })
}

/// Nodes that are locked for a queue, which never evicts; some do not exist.
pub(crate) fn locks() -> impl Strategy<Value = &'static str> {
    select(vec![
        "",
        "",
        "",
        " locks=n0",
        " locks=n0,n1",
        " locks=n1,n3,n9",
        " locks=n0 target-cpu=3",
        " locks=n0,n2 target-cpu=5 target-memory=2Gi",
        " locks=n1 target-cpu=2",
    ])
}

fn node() -> impl Strategy<Value = String> {
    let extra = select(vec![
        "",
        "",
        "",
        " cordoned",
        " not-ready",
        " taint=t",
        " labels=zone:a",
    ]);
    (0..5, 0..9, 1..9, 1..12, extra)
        .prop_map(|(n, cpu, memory, room, extra)| format!("node n{n} cpu={cpu} memory={memory}Gi room={room}{extra}"))
}

fn gang() -> impl Strategy<Value = String> {
    let extra = select(vec![
        "",
        "",
        "",
        " gated",
        " tolerate=t",
        " select=zone:a",
        " class=high",
        " roles=w:2 role=w",
        " needs-cpu=3",
        " needs-cpu=6 phase=Inqueue",
    ]);
    (0..6, 0..4, 0..6, 0..7, 0..4, 0..3, extra).prop_map(|(g, queue, min, pods, cpu, memory, extra)| {
        format!("gang g{g} queue=q{queue} min={min} pods={pods} cpu={cpu} memory={memory}Gi{extra}")
    })
}

fn cluster() -> impl Strategy<Value = Vec<String>> {
    let alone = (0..5, 0..5, 0..6)
        .prop_map(|(pod, node, cpu)| format!("pod x{pod} cpu={cpu} on=n{node} running scheduler=foreign"));
    // A member that differs from the others of its gang, often one that asks for nothing.
    let odd = select(vec!["", "", " gated", " wants=hostPort", " select=zone:a", " cpu=1"]);
    let odd = (0..6, 0..7, odd).prop_map(|(g, pod, extra)| format!("pod g{g}-w-{pod} group=g{g}{extra}"));
    let class = Just("class high value=9".to_owned());
    let line = prop_oneof![4 => node(), 4 => gang(), 2 => odd, 2 => queue(), 1 => alone, 1 => class];
    prop::collection::vec(line, 1..25)
}

/// Gangs that are alike but for their names.
pub(crate) fn crowd() -> impl Strategy<Value = Vec<String>> {
    let extra = select(vec![
        "",
        "",
        " needs-cpu=2",
        " class=high",
        " roles=w:1 role=w",
        " sla=600",
    ]);
    (0..12, 1..9, 0..3, 1..3, 0..2, 0..3, extra).prop_map(|(from, count, queue, min, more, cpu, extra)| {
        let gang = |c| {
            let pods = min + more;
            format!("gang c{c} queue=q{queue} min={min} pods={pods} cpu={cpu}{extra}")
        };
        (from..from + count).map(gang).collect()
    })
}

/// `runs`: what pods do that run, whether or not they can.
pub(crate) fn history(runs: &'static str) -> impl Strategy<Value = Vec<String>> {
    let gang_pod = (0..6, 0..7).prop_map(|(g, p)| format!("g{g}-w-{p}"));
    let crowd_pod = (0..20, 0..3).prop_map(|(c, p)| format!("c{c}-w-{p}"));
    let pod = prop_oneof![gang_pod, crowd_pod].boxed();
    let act = prop_oneof![
        6 => Just("cycle".to_owned()),
        4 => Just("bound".to_owned()),
        2 => Just("phases".to_owned()),
        1 => Just(LONG.to_owned()),
        2 => pod.clone().prop_map(move |pod| format!("{runs} {pod}")),
        1 => pod.clone().prop_map(|pod| format!("succeeds {pod}")),
        1 => pod.clone().prop_map(|pod| format!("ends {pod}")),
        1 => pod.clone().prop_map(|pod| format!("unbound {pod}")),
        1 => pod.clone().prop_map(|pod| format!("touch {pod}")),
        2 => pod.prop_map(|pod| format!("gone pod/{pod}")),
        1 => (0..5).prop_map(|n| format!("gone node/n{n}")),
        1 => (0..6).prop_map(|g| format!("gone gang/g{g}")),
        1 => (0..20).prop_map(|c| format!("gone gang/c{c}")),
        1 => (0..4).prop_map(|q| format!("gone queue/q{q}")),
        3 => node(),
        3 => gang(),
        2 => queue(),
        1 => Just("evicted".to_owned()),
    ];
    let act = prop_oneof![10 => act.prop_map(|act| vec![act]), 1 => crowd()];
    (cluster(), crowd(), prop::collection::vec(act, 0..30))
        .prop_map(|(cluster, crowd, acts)| [cluster, crowd, acts.concat()].concat())
}

/// What is on each node: pods that the API shows there, and pods that we decided to put there.
fn taken(world: &World) -> BTreeMap<Arc<str>, Vec<PodFacts>> {
    let mut taken: BTreeMap<Arc<str>, Vec<PodFacts>> = BTreeMap::new();
    for pod in world.cluster.pods().values() {
        let decided = world
            .decided
            .iter()
            .find(|bind| bind.pod == pod.key && pod.node.is_none());
        let node = pod.node.clone().or(decided.map(|bind| bind.node.clone()));
        if let Some(node) = node.filter(|_| !matches!(pod.phase, PodPhase::Succeeded | PodPhase::Failed)) {
            taken.entry(node).or_default().push(pod.clone());
        }
    }
    taken
}

fn nodes(world: &World) -> BTreeMap<Arc<str>, NodeFacts> {
    let mut nodes = BTreeMap::new();
    for event in world.cluster.history() {
        match event {
            Event::Node(node) => drop(nodes.insert(node.name.clone(), node.clone())),
            Event::NodeGone { name, .. } => drop(nodes.remove(name)),
            _ => {}
        }
    }
    nodes
}

/// No node that was given a pod now has more on it than it offers, in any dimension that the new pods ask for.
fn assert_no_overcommit(world: &World) {
    let (taken, nodes) = (taken(world), nodes(world));
    for bind in world.plan.binds() {
        let pod = &world.cluster.pods()[&bind.pod];
        assert!(
            pod.node.is_none() && !pod.gated && !pod.terminating,
            "{} may not be bound",
            bind.pod
        );
        let node = &nodes[&bind.node];
        assert!(!node.unschedulable, "{} is cordoned", bind.node);
        assert!(!node.not_ready, "{} is not ready", bind.node);
        assert!(
            taken[&bind.node].len() <= node.allocatable["pods"] as usize,
            "too many pods on {}",
            bind.node
        );
        for (name, _) in pod.requests.iter().filter(|(_, amount)| **amount > 0) {
            let sum: i64 = taken[&bind.node]
                .iter()
                .map(|pod| pod.requests.get(name).copied().unwrap_or(0))
                .sum();
            assert!(
                sum <= node.allocatable.get(name).copied().unwrap_or(0),
                "{} is over-committed in {name}",
                bind.node
            );
        }
    }
}

/// Whoever is bound now belongs to a group that has at least its minimum with it.
fn assert_gangs_whole(world: &World) {
    for transaction in world
        .plan
        .transactions
        .iter()
        .filter(|transaction| !transaction.binds.is_empty())
    {
        let here = |pod: &&PodFacts| pod.group.as_ref() == Some(&transaction.pod_group);
        let placed = world.cluster.pods().values().filter(here).filter(|pod| {
            let ended_well = pod.phase == PodPhase::Succeeded;
            let alive = ended_well || (!pod.terminating && pod.phase != PodPhase::Failed);
            let decided = world.decided.iter().any(|bind| bind.pod == pod.key);
            alive && (pod.node.is_some() || decided || pod.phase != PodPhase::Pending)
        });
        assert!(
            placed.count() >= transaction.min_member as usize,
            "{} is short of its minimum",
            transaction.pod_group
        );
    }
}

/// Nobody is bound to a node that is locked for others: worked out from what was told last about queues.
fn assert_locks_hold(world: &World) {
    let plugins = world.cluster.engine().conf().tiers.iter().flatten();
    if plugins.filter(|plugin| plugin.name == "node_reservation").count() == 0 {
        return;
    }
    let mut queues = BTreeMap::new();
    for event in world.cluster.history() {
        match event {
            Event::Queue(queue) => drop(queues.insert(queue.name.clone(), queue.clone())),
            Event::QueueGone { name, .. } => drop(queues.remove(name)),
            _ => {}
        }
    }
    // A queue of which nothing is known, or nothing of what is above it, hangs below root.
    let way_up = |name: &Arc<str>| {
        let mut way = vec![name.clone()];
        while **way.last().expect("itself") != *"root" {
            let parent = queues
                .get(way.last().expect("itself"))
                .map(|queue| queue.parent.clone());
            let parent = parent
                .filter(|parent| !parent.is_empty())
                .unwrap_or_else(|| "root".into());
            if way.contains(&parent) {
                break;
            }
            way.push(parent);
        }
        way
    };
    for transaction in &world.plan.transactions {
        for bind in &transaction.binds {
            let holders = queues.values().filter(|queue| queue.locks.contains(&bind.node));
            let deepest = holders.map(|queue| way_up(&queue.name).len()).max();
            let group = world.cluster.groups().get(&transaction.pod_group).expect("a group");
            let way = way_up(&group.queue);
            let is_own = |queue: &Arc<str>| queues.get(queue).is_some_and(|queue| queue.locks.contains(&bind.node));
            let near = way.iter().find(|queue| is_own(queue)).map(|queue| way_up(queue).len());
            assert!(
                deepest.is_none() || near == deepest,
                "{} is locked for others",
                bind.node
            );
        }
    }
}

fn run(conf: &str, lines: &[String]) -> (World, Vec<Plan>) {
    run_in(World::new(conf), lines)
}

pub(crate) fn run_in(mut world: World, lines: &[String]) -> (World, Vec<Plan>) {
    let mut plans = Vec::new();
    for line in lines.iter().map(String::as_str).chain(["cycle"]) {
        if line == "cycle" {
            world.decide();
            assert_no_overcommit(&world);
            assert_gangs_whole(&world);
            assert_locks_hold(&world);
            plans.push(world.plan.clone());
        } else {
            if line == LONG {
                // What was not shown in time is no longer believed.
                world.decided.clear();
            }
            world.tell(line);
        }
    }
    (world, plans)
}

/// The last word about each object, in an order of our choice.
fn last_words(heard: &[Event]) -> Vec<Event> {
    let name = |event: &Event| match event {
        Event::NodeGone { name, .. } => format!("node {name}"),
        Event::PodGone { key, .. } => format!("pod {key}"),
        Event::PodGroupGone { key, .. } => format!("group {key}"),
        Event::QueueGone { name, .. } => format!("queue {name}"),
        Event::Budget(budget) => format!("budget {}", budget.key),
        Event::BudgetGone { key, .. } => format!("budget {key}"),
        Event::QuotaGone { key, .. } => format!("quota {key}"),
        Event::Quota(quota) => format!("quota {}", quota.key),
        Event::PriorityClassGone { name, .. } => format!("class {name}"),
        Event::Node(node) => format!("node {}", node.name),
        Event::Pod(pod) => format!("pod {}", pod.key),
        Event::PodGroup(group) => format!("group {}", group.key),
        Event::Queue(queue) => format!("queue {}", queue.name),
        Event::PriorityClass(class) => format!("class {}", class.name),
        other => format!("{other:?}"),
    };
    let mut seen = BTreeSet::new();
    let last: Vec<Event> = heard
        .iter()
        .rev()
        .filter(|event| seen.insert(name(event)))
        .cloned()
        .collect();
    last
}

/// What is counted, by name.
fn accounts(engine: &Engine) -> Vec<String> {
    let nodes = engine
        .nodes()
        .map(|node| format!("node {} {:?} {:?}", node.name(), node.idle(), node.future_idle()));
    let queues = engine
        .queues()
        .map(|queue| format!("queue {} {:?} {:?}", queue.name(), queue.allocated(), queue.requested()));
    let groups = engine.groups().map(|group| {
        let counts = [
            group.pod_count(),
            group.pending_pod_count(),
            group.assumed_pod_count(),
            group.ready_pod_count(),
            group.scheduled_pod_count(),
            group.unschedulable_pod_count(),
        ];
        let (pods, allocated) = (group.pods().len(), group.allocated());
        format!("group {} {counts:?} {allocated:?} {pods}", group.key())
    });
    let mut lines: Vec<String> = nodes.chain(queues).chain(groups).collect();
    let statistics = engine.statistics();
    lines.push(format!("{} pods, {} classes", statistics.pods, statistics.classes));
    lines.sort();
    lines
}

fn plan_of(conf: &str, events: &[Event], seed: u64) -> String {
    let mut engine = Engine::new(Conf::parse(conf).expect("a configuration"), Options::default());
    for event in events {
        engine.apply(event);
    }
    serde_json::to_string(&engine.cycle(0, seed)).expect("plain data")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn no_overcommit_and_no_broken_gang(lines in history("runs"), conf in conf()) {
        let (_, plans) = run(conf, &lines);
        let (mut world, again) = run(conf, &lines);
        prop_assert_eq!(plans, again);
        // Once the API shows everything, an engine with a long history counts as one that was told the outcome.
        world.tell("bound");
        let mut fresh = Engine::new(Conf::parse(conf).expect("a configuration"), Options::default());
        for event in last_words(world.cluster.history()) {
            fresh.apply(&event);
        }
        prop_assert_eq!(accounts(world.cluster.engine()), accounts(&fresh));
    }

    /// Whatever comes and goes while room is made: groups without queues, pods without groups, nodes that vanish.
    #[test]
    fn making_room_survives_every_history(lines in history("runs"), tree in any::<bool>()) {
        let shares = if tree { "{name: capacity, enableHierarchy: true}" } else { "{name: proportion}" };
        let conf = format!("
actions: enqueue, allocate, preempt, reclaim, gangpreempt, gangreclaim, backfill
tiers:
- plugins: [{{name: priority}}, {{name: gang}}, {{name: conformance}}]
- plugins: [{{name: overcommit}}, {{name: drf}}, {{name: predicates}}, {shares}, {{name: nodeorder}}]
");
        let mut world = World::new(&conf);
        for line in &lines {
            if line == "cycle" {
                world.decide();
            } else {
                world.tell(line);
            }
        }
        world.decide();
    }

    #[test]
    fn the_order_of_events_does_not_matter(
        (lines, order) in cluster().prop_flat_map(|lines| {
            let keys = prop::collection::vec(any::<u32>(), 200);
            (Just(lines), keys)
        }),
        seed in 0u64..8,
        conf in conf(),
    ) {
        let (world, _) = run(conf, &lines);
        let events = last_words(world.cluster.history());
        let mut shuffled: Vec<(u32, Event)> =
            events.iter().enumerate().map(|(at, event)| (order[at % order.len()], event.clone())).collect();
        shuffled.sort_by_key(|(key, _)| *key);
        let shuffled: Vec<Event> = shuffled.into_iter().map(|(_, event)| event).collect();
        let doubled = [shuffled.clone(), shuffled.clone()].concat();
        let expected = plan_of(conf, &events, seed);
        prop_assert_eq!(&plan_of(conf, &shuffled, seed), &expected);
        prop_assert_eq!(&plan_of(conf, &doubled, seed), &expected);
    }
}
