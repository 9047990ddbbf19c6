//! A cycle leaves out the jobs for which nothing can have changed, and looks at jobs that wait alike through the first of
//! them. Neither changes a decision, nor what anybody is told once nothing happens any more.

use basalt_engine::plan::Transaction;
use basalt_engine::{Options, Plan};
use proptest::prelude::*;
use proptest::sample::select;

use crate::language::World;
use crate::properties::{DESERVED, SCORED, TREE, WEIGHTED, conf, crowd, history, locks, run_in};

/// Room is taken from others: by importance, …
const PREEMPTING: &str = "
actions: enqueue, allocate, preempt, backfill
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}]
- plugins: [{name: overcommit}, {name: drf}, {name: predicates}, {name: proportion}, {name: nodeorder}, {name: node_reservation}]
";
/// … by what queues are due, …
const RECLAIMING: &str = "
actions: enqueue, allocate, reclaim, backfill
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}]
- plugins: [{name: predicates}, {name: capacity}, {name: node_reservation}]
";
/// … gang by gang, …
const GANGS: &str = "
actions: enqueue, allocate, gangpreempt, gangreclaim
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}]
- plugins: [{name: overcommit}, {name: drf, enablePreemptable: false}, {name: predicates}, {name: capacity, enableHierarchy: true}, {name: node_reservation}]
";
/// … and in every way, with jobs that may wait for a time only.
const ALL: &str = "
actions: enqueue, allocate, preempt, reclaim, gangpreempt, gangreclaim, backfill
tiers:
- plugins: [{name: priority}, {name: sla}, {name: gang}, {name: conformance}]
- plugins: [{name: overcommit}, {name: predicates}, {name: proportion}, {name: binpack}, {name: node_reservation}]
";

fn evicting() -> impl Strategy<Value = &'static str> {
    select(vec![PREEMPTING, RECLAIMING, GANGS, ALL])
}

/// What a plan has done. (A claim on room that is being released is told again in every cycle that looks at it.)
fn deeds(plan: &Plan) -> Vec<String> {
    let transactions = plan.transactions.iter().cloned();
    let mut deeds: Vec<_> = transactions
        .map(|transaction| Transaction {
            pipelined: Vec::new(),
            ..transaction
        })
        .collect();
    deeds.retain(|deed| {
        !deed.binds.is_empty() || !deed.evictions.is_empty() || deed.phase.is_some() || deed.tally.is_some()
    });
    deeds.iter().map(|deed| format!("{deed:?}")).collect()
}

/// Who waits, with how many pods.
fn waits(plan: &Plan) -> Vec<(String, usize)> {
    let waiting = plan.waiting.iter();
    waiting
        .map(|waiting| (waiting.pod_group.to_string(), waiting.pods as usize))
        .collect()
}

fn crowd_act() -> impl Strategy<Value = Vec<String>> {
    let pod = (0..20, 0..3).prop_map(|(c, p)| format!("c{c}-w-{p}")).boxed();
    let run = (0..20, 0..3).prop_map(|(c, p)| vec!["bound".to_owned(), format!("starts c{c}-w-{p}")]);
    let act = prop_oneof![
        6 => Just("cycle".to_owned()),
        4 => Just("bound".to_owned()),
        2 => Just("evicted".to_owned()),
        2 => Just("phases".to_owned()),
        1 => Just("wait 20".to_owned()),
        1 => Just("wait 700".to_owned()),
        4 => pod.clone().prop_map(|pod| format!("gone pod/{pod}")),
        2 => pod.prop_map(|pod| format!("succeeds {pod}")),
        2 => (0..20).prop_map(|c| format!("gone gang/c{c}")),
        1 => (2..9).prop_map(|room| format!("node n1 cpu={room} memory=9Gi room=20")),
        1 => Just("gone node/n1".to_owned()),
        1 => (0..3, 0..3).prop_map(|(q, due)| format!("queue q{q} weight=1 deserved-cpu={due}")),
        1 => (0..3, 0..3).prop_map(|(q, weight)| format!("queue q{q} weight={} deserved-cpu=2", weight + 1)),
        2 => (0..3, locks()).prop_map(|(q, locks)| format!("queue q{q} weight=1 deserved-cpu=2{locks}")),
    ];
    prop_oneof![12 => act.prop_map(|act| vec![act]), 2 => run, 1 => crowd()]
}

/// Few are told, and few numbers worked out again, in one cycle: so that it takes many.
fn world(conf: &str, forgetful: bool) -> World {
    let options = Options {
        tells: 2,
        recounts: 3,
        ..Options::default()
    };
    let mut world = World::with(conf, options);
    world.forgetful = forgetful;
    world
}

/// Time passes and nothing happens; less of it than any decision is believed for.
fn rest(world: &mut World) -> Vec<Plan> {
    let mut plans = Vec::new();
    for _ in 0..100 {
        world.tell("wait 50");
        world.decide();
        plans.push(world.plan.clone());
    }
    plans
}

/// An engine that leaves out what cannot have changed decides as one that looks at each job anew in every cycle; and at rest
/// everybody is told the same, with the same numbers.
fn assert_anew_is_the_same(conf: &str, lines: &[String]) -> Result<(), TestCaseError> {
    let (mut kept, mut plans) = run_in(world(conf, false), lines);
    let (mut anew, mut anews) = run_in(world(conf, true), lines);
    // Looked at for the last time; what is left is to count.
    anew.decide();
    anew.forgetful = false;
    kept.decide();
    plans.push(kept.plan.clone());
    anews.push(anew.plan.clone());
    plans.extend(rest(&mut kept));
    anews.extend(rest(&mut anew));
    let mut before = None;
    for (plan, anew) in plans.iter().zip(&anews) {
        prop_assert_eq!(deeds(plan), deeds(anew));
        // A claim on room that is being released may pass to its next holder one cycle later; who claims is not said to wait.
        let (told, expected) = (waits(plan), waits(anew));
        if before.replace(expected.clone()) != Some(told.clone()) {
            prop_assert_eq!(told, expected);
        }
    }
    prop_assert_eq!(plans.last().map(waits), anews.last().map(waits));
    let told = |of: &Plan, other: &Plan| -> Vec<_> {
        let new = of.waiting.iter().filter(|waiting| !other.waiting.contains(waiting));
        new.cloned().collect()
    };
    prop_assert_eq!(told(&kept.plan, &anew.plan), told(&anew.plan, &kept.plan));
    let wakes = |world: &World| {
        world
            .cluster
            .engine()
            .next_wake()
            .is_some_and(|at| at < world.now_ms + 1_000)
    };
    let due = [wakes(&kept), wakes(&anew)];
    prop_assert_eq!(due[0], due[1], "one rests and the other does not");
    Ok(())
}

/// The same, but guarantees are made good.
fn guaranteed(lines: &[String]) -> Vec<String> {
    let evicts = |line: &String| line.replacen(" target-", " evicts target-", 1);
    lines.iter().map(evicts).collect()
}

fn small_cluster(room: i32, crowds: &[Vec<String>], acts: &[Vec<String>]) -> Vec<String> {
    let node = format!("node n0 cpu={room} memory=9Gi room=20");
    let queues = (0..3).map(|q| format!("queue q{q} weight={} deserved-cpu={q}", q + 1));
    let fixed = queues.chain([node, "class high value=9".to_owned()]);
    fixed.chain(crowds.concat()).chain(acts.concat()).collect()
}

proptest! {
    #[test]
    fn looking_at_everything_anew_decides_the_same(lines in history("starts"), conf in conf()) {
        assert_anew_is_the_same(conf, &lines)?;
    }

    #[test]
    fn and_where_others_have_to_give_way(lines in history("starts"), conf in evicting()) {
        assert_anew_is_the_same(conf, &guaranteed(&lines))?;
    }

    /// The same in clusters that are too small for many jobs that are alike.
    #[test]
    fn jobs_that_wait_alike_are_served_as_if_each_were_looked_at(
        (room, conf) in (1..6, select(vec![SCORED, WEIGHTED, DESERVED, TREE])),
        crowds in prop::collection::vec(crowd(), 1..4),
        acts in prop::collection::vec(crowd_act(), 1..25),
    ) {
        assert_anew_is_the_same(conf, &small_cluster(room, &crowds, &acts))?;
    }

    #[test]
    fn and_where_others_have_to_give_way_to_them(
        (room, conf) in (1..6, evicting()),
        crowds in prop::collection::vec(crowd(), 1..4),
        acts in prop::collection::vec(crowd_act(), 1..25),
    ) {
        assert_anew_is_the_same(conf, &guaranteed(&small_cluster(room, &crowds, &acts)))?;
    }
}

/// What the properties above have found.
#[test]
fn surplus_that_waits_for_released_room_is_told_alike() {
    let crowd = |from: i32, to: i32, words: &str| -> Vec<String> {
        (from..=to).map(|c| format!("gang c{c} queue=q1 {words}")).collect()
    };
    let texts = |texts: &[&str]| -> Vec<String> { texts.iter().map(|&text| text.to_owned()).collect() };
    let lines = [
        texts(&[
            "node n3 cpu=1 memory=1Gi room=1 labels=zone:a",
            "node n0 cpu=4 memory=1Gi room=4",
            "queue q1 parent=root weight=1",
        ]),
        crowd(4, 9, "min=2 pods=3 cpu=1"),
        texts(&[
            "node n1 cpu=3 memory=1Gi room=3",
            "node n2 cpu=2 memory=1Gi room=2 labels=zone:a",
            "cycle",
            "node n2 cpu=3 memory=1Gi room=4",
            "ends c4-w-0",
        ]),
        crowd(5, 9, "min=1 pods=1 cpu=0"),
    ];
    assert_anew_is_the_same(SCORED, &lines.concat()).expect("both decide alike");
}
