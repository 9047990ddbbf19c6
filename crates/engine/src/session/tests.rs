//! Rolling back restores everything; the trees of candidates follow.

mod neighbours;

use basalt_testkit::workload::GangWorkload;
use proptest::prelude::*;

use super::{Checkpoint, State};
use crate::candidates::Candidates;
use crate::conf::Conf;
use crate::facts::{
    Constraints, Event, HostPort, NodeOperator, NodeRequirement, Phase, PodFacts, PodPhase, PodSelector, PodTerm,
    Spread, Ties,
};
use crate::ledger::{Ledger, Status};
use crate::model::{Id, JobId, NodeId, TaskId};
use crate::plugin::{Fit, Hooks, Shape, Site, lock_preference};
use crate::testing::workload_events;

#[derive(Clone, Debug)]
enum Step {
    Set { task: usize, status: usize, node: usize },
    Phase { job: usize, phase: Phase },
    Checkpoint,
    Rollback,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0usize..60, 0usize..9, 0usize..7).prop_map(|(task, status, node)| Step::Set { task, status, node }),
        1 => (0usize..6, prop::sample::select(vec![Phase::Inqueue, Phase::Running, Phase::Pending]))
            .prop_map(|(job, phase)| Step::Phase { job, phase }),
        2 => Just(Step::Checkpoint),
        2 => Just(Step::Rollback),
    ]
}

const STATUSES: [Status; 9] = [
    Status::Pending,
    Status::Allocated,
    Status::Pipelined,
    Status::Bound,
    Status::Running,
    Status::Releasing,
    Status::Succeeded,
    Status::Failed,
    Status::Unknown,
];

const TASKS: usize = 60;

fn selector(app: usize) -> PodSelector {
    PodSelector {
        namespaces: vec!["bench".into()],
        namespace_labels: None,
        labels: Some(vec![NodeRequirement {
            key: "app".into(),
            on_name: false,
            operator: NodeOperator::In,
            values: vec![app.to_string().into()],
        }]),
    }
}

/// Ties of many kinds, by the number of the pod.
fn tie(pod: &mut PodFacts, at: usize) {
    let term = |app: usize, topology: &str| PodTerm {
        pods: selector(app),
        topology: topology.into(),
    };
    let mut ties = Ties::default();
    match at % 9 {
        0 => ties.near.push(term(at % 3, "zone")),
        1 => ties.apart.push(term(at % 3, "host")),
        2 => ties.wishes.push((50, term(at % 3, "zone"))),
        3 => ties.wishes.push((-20, term(at % 3, "host"))),
        4 | 5 => ties.spread.push(Spread {
            term: term(at % 3, "zone"),
            max_skew: 1,
            hard: at % 9 == 4,
            honors_affinity: true,
            ..Spread::default()
        }),
        6 => {
            pod.constraints = Constraints {
                ports: vec![HostPort {
                    port: 80,
                    protocol: "TCP".into(),
                    address: "".into(),
                }],
                ..Constraints::default()
            }
            .into();
        }
        _ => {}
    }
    pod.ties = ties.into();
    pod.labels = [("app".into(), (at % 4).to_string().into())].into();
}

/// Six gangs of ten pods in three shapes and two queues; some pods run on nodes already, one of which is unknown.
fn state() -> State {
    let mut state = State::default();
    let workload = GangWorkload {
        nodes: 5,
        jobs: 6,
        pods_per_job: 10,
        classes: 3,
        queues: 2,
        depth: 3,
        locked: 40,
    };
    for (at, mut event) in workload_events(&workload).into_iter().enumerate() {
        if let Event::Pod(pod) = &mut event {
            tie(pod, at);
            if at % 4 == 0 {
                pod.node = Some(format!("node-{}", at % 7).into());
                pod.phase = PodPhase::Running;
            }
        }
        if let Event::Node(node) = &mut event {
            node.labels.insert("host".into(), node.name.clone());
            node.labels.insert("zone".into(), format!("zone-{}", at % 2).into());
        }
        state.apply(&event, &|_| true);
    }
    state.order_nodes(0);
    state
}

fn phases(state: &State) -> Vec<Phase> {
    state.model.jobs.ids().map(|job| state.model.jobs[job].phase).collect()
}

/// Returns how good each of these nodes is for a pod, all compared with each other.
fn scores(state: &State, hooks: &Hooks, task: TaskId, nodes: &[NodeId]) -> Vec<f64> {
    let shape = hooks.shape(state, task);
    let site = |&node: &NodeId| Site {
        node,
        fit: Fit::Idle,
        blocker: None,
        score: hooks.score(state, shape, node) + lock_preference(state, shape, node),
    };
    let mut sites: Vec<Site> = nodes.iter().map(site).collect();
    if hooks.is_wide(state, task, shape) {
        hooks.rank(state, task, &mut sites);
    }
    sites.iter().map(|site| site.score).collect()
}

/// The best node, by looking at each of them, and then comparing those that are left.
fn best_by_scan(state: &State, hooks: &Hooks, task: TaskId) -> Option<NodeId> {
    let request = state.model.classes.request(state.model.tasks[task].class);
    let mut sites: Vec<(Fit, NodeId)> = Vec::new();
    for &node in state.nodes_in_order() {
        if let Ok(fit) = hooks.admits(state, task, node)
            && state.ledger.future().fits(node.index(), request)
        {
            let idle = state.ledger.idle().fits(node.index(), request);
            sites.push((if idle { fit } else { Fit::Future }, node));
        }
    }
    let best = sites.iter().map(|&(fit, _)| fit).max()?;
    let nodes: Vec<NodeId> = sites.iter().filter(|site| site.0 == best).map(|site| site.1).collect();
    let scores = scores(state, hooks, task, &nodes);
    let top = scores.iter().copied().fold(f64::MIN, f64::max);
    nodes
        .into_iter()
        .zip(scores)
        .find(|&(_, score)| score >= top)
        .map(|(node, _)| node)
}

/// How many pods fit, by taking them away one by one.
fn slots_by_trying(state: &State, shape: Shape) -> u64 {
    let request = state.model.classes.request(shape.class);
    let mut future = state.ledger.future().clone();
    let mut slots = 0;
    for &node in state.nodes_in_order() {
        while future.fits(node.index(), request) {
            future.sub(node.index(), request);
            slots += 1;
        }
    }
    slots
}

fn apply(state: &mut State, step: &Step) {
    match *step {
        Step::Set { task, status, node } => {
            let task = TaskId::from_index(task);
            let node = if node < 5 && status > 0 {
                NodeId::from_index(node)
            } else {
                NodeId::NONE
            };
            state.set(task, STATUSES[status], node);
        }
        Step::Phase { job, phase } => state.set_phase(JobId::from_index(job), phase),
        Step::Checkpoint | Step::Rollback => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn rollback_restores_everything(steps in prop::collection::vec(step(), 0..120)) {
        let conf = Conf::parse("tiers: [{plugins: [{name: predicates}, {name: nodeorder}, {name: binpack}]}]").unwrap();
        let mut hooks = Hooks::new(&conf);
        let mut candidates = Candidates::default();
        let mut state = state();
        hooks.open(&state);
        state.open();
        let mut marks: Vec<(Checkpoint, Ledger, Vec<Phase>)> = Vec::new();
        for step in &steps {
            match step {
                Step::Checkpoint => marks.push((state.checkpoint(), state.ledger.clone(), phases(&state))),
                Step::Rollback => {
                    if let Some((checkpoint, ledger, phases_then)) = marks.pop() {
                        state.rollback(checkpoint);
                        prop_assert!(state.ledger == ledger);
                        prop_assert_eq!(format!("{:?}", state.ledger.idle()), format!("{:?}", ledger.idle()));
                        prop_assert_eq!(phases(&state), phases_then);
                    }
                }
                step => apply(&mut state, step),
            }
            for task in (0..TASKS).step_by(7).map(TaskId::from_index) {
                let best = candidates.best(&state, &hooks, task).map(|(node, _)| node);
                prop_assert_eq!(best, best_by_scan(&state, &hooks, task), "of {:?}", state.model.tasks[task]);
                let shape = hooks.shape(&state, task);
                prop_assert_eq!(candidates.slots(&state, &hooks, shape), slots_by_trying(&state, shape));
            }
        }
    }
}
