//! Rolling back restores everything; the trees of candidates follow.

use proptest::prelude::*;

use super::{Checkpoint, State};
use crate::candidates::Candidates;
use crate::conf::Conf;
use crate::facts::{Event, Phase, PodPhase};
use crate::generate::Workload;
use crate::ledger::{Ledger, Status};
use crate::model::{ClassId, Id, JobId, NodeId, TaskId};
use crate::plugin::Hooks;

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

/// Six gangs of ten pods in three shapes and two queues; some pods run on nodes already, one of which is unknown.
fn state() -> State {
    let mut state = State::default();
    let workload = Workload {
        nodes: 5,
        jobs: 6,
        pods_per_job: 10,
        classes: 3,
        queues: 2,
        depth: 3,
    };
    for (at, mut event) in workload.events().enumerate() {
        if let Event::Pod(pod) = &mut event
            && at % 4 == 0
        {
            pod.node = Some(format!("node-{}", at % 7).into());
            pod.phase = PodPhase::Running;
        }
        state.apply(&event, &|_| true);
    }
    state.order_nodes(0);
    state
}

fn phases(state: &State) -> Vec<Phase> {
    state.model.jobs.ids().map(|job| state.model.jobs[job].phase).collect()
}

/// The best node, by looking at all of them.
fn best_by_scan(state: &State, hooks: &Hooks, class: ClassId) -> Option<NodeId> {
    let request = state.model.classes.request(class);
    let mut best: Option<(bool, f64, NodeId)> = None;
    for &node in state.nodes_in_order() {
        if !state.ledger.future().fits(node.index(), request) || hooks.blocker(state, class, node).is_some() {
            continue;
        }
        let entry = (
            state.ledger.idle().fits(node.index(), request),
            hooks.score(state, class, node),
            node,
        );
        if best.is_none_or(|best| (entry.0, entry.1) > (best.0, best.1)) {
            best = Some(entry);
        }
    }
    best.map(|(_, _, node)| node)
}

/// How many pods fit, by taking them away one by one.
fn slots_by_trying(state: &State, class: ClassId) -> u64 {
    let request = state.model.classes.request(class);
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
            for class in (0..state.model.classes.slots()).map(ClassId::from_index) {
                let best = candidates.best(&state, &hooks, class).map(|(node, _)| node);
                prop_assert_eq!(best, best_by_scan(&state, &hooks, class));
                prop_assert_eq!(candidates.slots(&state, &hooks, class), slots_by_trying(&state, class));
            }
        }
    }
}
