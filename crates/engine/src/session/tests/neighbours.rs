//! Where pods may go among others, against a judge that reads labels and counts pods by hand.

use proptest::prelude::*;

use crate::conf::Conf;
use crate::facts::{
    Event, Labels, NodeFacts, NodeOperator, NodeRequirement, PodFacts, PodPhase, PodSelector, PodTerm, Spread, Ties,
};
use crate::ledger::Status;
use crate::model::{NodeId, TaskId};
use crate::plugin::{Fit, Hooks};
use crate::session::State;

const NODES: usize = 4;
const TOPOLOGIES: [&str; 3] = ["host", "zone", "rack"];

fn term() -> impl Strategy<Value = PodTerm> {
    (0..3_u32, 0..3_usize).prop_map(|(app, topology)| PodTerm {
        pods: PodSelector {
            namespaces: vec!["ns".into()],
            namespace_labels: None,
            labels: Some(vec![NodeRequirement {
                key: "app".into(),
                on_name: false,
                operator: NodeOperator::In,
                values: vec![app.to_string().into()],
            }]),
        },
        topology: TOPOLOGIES[topology].into(),
    })
}

fn ties() -> impl Strategy<Value = Ties> {
    let few = || prop::collection::vec(term(), 0..2);
    let spread = (term(), 1..3_u32, 0..4_u32).prop_map(|(term, max_skew, min_domains)| Spread {
        term,
        max_skew,
        min_domains,
        hard: true,
        ..Spread::default()
    });
    let spread = prop::collection::vec(spread, 0..2);
    (few(), few(), spread).prop_map(|(near, apart, spread)| Ties {
        near,
        apart,
        spread,
        ..Ties::default()
    })
}

/// A pod: its app, its ties, and where it is (or nowhere).
type Given = (u32, Ties, usize);

fn pod() -> impl Strategy<Value = Given> {
    (0..3_u32, ties(), 0..2 * NODES)
}

const STATUSES: [Status; 5] = [
    Status::Pending,
    Status::Allocated,
    Status::Pipelined,
    Status::Releasing,
    Status::Running,
];

fn labels_of(node: usize) -> Labels {
    let mut labels: Labels = [
        ("host".into(), format!("n{node}").into()),
        ("zone".into(), format!("z{}", node % 2).into()),
    ]
    .into();
    // One node is in no rack.
    if node > 0 {
        labels.insert("rack".into(), format!("r{}", node / 2).into());
    }
    labels
}

fn world(pods: &[Given]) -> State {
    let mut state = State::default();
    for node in 0..NODES {
        let facts = NodeFacts {
            name: format!("n{node}").into(),
            allocatable: [("pods".into(), 110)].into(),
            labels: labels_of(node),
            ..NodeFacts::default()
        };
        state.apply(&Event::Node(facts), &|_| true);
    }
    for (at, (app, ties, node)) in pods.iter().enumerate() {
        let facts = PodFacts {
            key: format!("ns/p{at}").into(),
            uid: at.to_string().into(),
            group: Some("ns/g".into()),
            labels: [("app".into(), app.to_string().into())].into(),
            ties: ties.clone().into(),
            node: (*node < NODES).then(|| format!("n{node}").into()),
            phase: if *node < NODES {
                PodPhase::Running
            } else {
                PodPhase::Pending
            },
            ..PodFacts::default()
        };
        state.apply(&Event::Pod(facts), &|_| true);
    }
    state.order_nodes(0);
    state
}

/// A pod that is somewhere.
struct Other {
    at: usize,
    node: NodeId,
    stays: bool,
    is_there: bool,
}

fn others(state: &State, pods: &[Given], but: usize) -> Vec<Other> {
    let mut others = Vec::new();
    for at in (0..pods.len()).filter(|&at| at != but) {
        let task = task(state, at);
        let (status, node) = (state.ledger.status(task), state.ledger.node(task));
        if node.is_some() {
            others.push(Other {
                at,
                node,
                stays: status.takes_future(),
                is_there: status.takes_idle(),
            });
        }
    }
    others
}

fn task(state: &State, at: usize) -> TaskId {
    state.model.tasks.find(&format!("ns/p{at}")).expect("a pod")
}

fn is_meant(term: &PodTerm, app: u32) -> bool {
    let wanted = &term.pods.labels.as_ref().expect("labels")[0].values[0];
    **wanted == *app.to_string()
}

fn place(state: &State, term: &PodTerm, node: NodeId) -> Option<String> {
    let labels = &state.model.nodes[node].labels;
    labels.get(&term.topology).map(ToString::to_string)
}

/// Whether the pod may go to the node, and when; by Kubernetes' words.
fn by_hand(state: &State, pods: &[Given], at: usize, node: NodeId) -> Option<Fit> {
    let (app, ties, _) = &pods[at];
    let others = others(state, pods, at);
    let same = |term: &PodTerm, other: NodeId| {
        let here = place(state, term, node);
        here.is_some() && here == place(state, term, other)
    };
    let mut fit = Fit::Idle;
    let near_all = |app: u32| ties.near.iter().all(|term| is_meant(term, app));
    if ties.near.iter().any(|term| place(state, term, node).is_none()) {
        return None;
    }
    let matching: Vec<&Other> = others
        .iter()
        .filter(|other| other.stays && near_all(pods[other.at].0))
        .collect();
    let placed = |other: &&Other| ties.near.iter().any(|term| place(state, term, other.node).is_some());
    let anywhere = matching.iter().any(placed);
    for term in &ties.near {
        let here: Vec<&&Other> = matching.iter().filter(|other| same(term, other.node)).collect();
        if here.is_empty() && (anywhere || !near_all(*app)) {
            return None;
        }
        if !here.is_empty() && !here.iter().any(|other| other.is_there) {
            fit = Fit::Future;
        }
    }
    for other in &others {
        let (its_app, its_ties, _) = &pods[other.at];
        let mine = ties
            .apart
            .iter()
            .any(|term| is_meant(term, *its_app) && same(term, other.node));
        let its = its_ties
            .apart
            .iter()
            .any(|term| is_meant(term, *app) && same(term, other.node));
        if (mine || its) && other.stays {
            return None;
        }
        if mine || its {
            fit = Fit::Future;
        }
    }
    spread_by_hand(state, pods, at, node, &others).then_some(fit)
}

fn spread_by_hand(state: &State, pods: &[Given], at: usize, node: NodeId, others: &[Other]) -> bool {
    let (app, ties, _) = &pods[at];
    let located = |node: NodeId| {
        let mut spreads = ties.spread.iter();
        spreads.all(|spread| place(state, &spread.term, node).is_some())
    };
    ties.spread.iter().all(|spread| {
        let count = |wanted: &str| {
            let is_there = |other: &&Other| {
                other.stays
                    && is_meant(&spread.term, pods[other.at].0)
                    && located(other.node)
                    && place(state, &spread.term, other.node).as_deref() == Some(wanted)
            };
            u32::try_from(others.iter().filter(is_there).count()).expect("few")
        };
        let Some(here) = place(state, &spread.term, node) else {
            return false;
        };
        let nodes = state.nodes_in_order().iter().copied().filter(|&node| located(node));
        let mut domains: Vec<String> = nodes.filter_map(|node| place(state, &spread.term, node)).collect();
        domains.sort();
        domains.dedup();
        let few = domains.len() < spread.min_domains as usize;
        let least = domains.iter().map(|domain| count(domain)).min().filter(|_| !few);
        let here = if domains.contains(&here) { count(&here) } else { 0 };
        here + u32::from(is_meant(&spread.term, *app)) <= least.unwrap_or(0) + spread.max_skew
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]
    #[test]
    fn neighbours_count_as_by_hand(
        pods in prop::collection::vec(pod(), 1..10),
        moves in prop::collection::vec((0usize..10, 0usize..5, 0..NODES), 0..24),
        back in 0usize..24,
    ) {
        let conf = Conf::parse("tiers: [{plugins: [{name: predicates}]}]").unwrap();
        let mut hooks = Hooks::new(&conf);
        let mut state = world(&pods);
        hooks.open(&state);
        state.open();
        let mut checkpoint = state.checkpoint();
        for (step, &(pod, status, node)) in moves.iter().enumerate() {
            if step == back {
                checkpoint = state.checkpoint();
            }
            let (task, status) = (task(&state, pod % pods.len()), STATUSES[status]);
            let node = if status == Status::Pending { NodeId::NONE } else { state.nodes_in_order()[node] };
            state.set(task, status, node);
        }
        for round in 0..2 {
            for at in 0..pods.len() {
                let task = task(&state, at);
                if state.ledger.node(task).is_some() {
                    continue;
                }
                for &node in state.nodes_in_order() {
                    let seen = hooks.admits(&state, task, node).ok();
                    let expected = by_hand(&state, &pods, at, node);
                    prop_assert_eq!(seen, expected, "round {} pod {} node {:?}", round, at, node);
                }
            }
            state.rollback(checkpoint);
        }
        state.settle();
        // Everybody goes: nothing is left of their ties.
        for at in 0..pods.len() {
            state.apply(&Event::PodGone { key: format!("ns/p{at}").into(), uid: None }, &|_| true);
        }
        let places = &state.model.places;
        prop_assert!(places.marks.is_empty() && places.tags.is_empty());
        prop_assert!(places.topologies.is_empty() && places.ties.is_empty());
    }
}
