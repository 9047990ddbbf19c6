//! Nodes that are locked for a queue.

use basalt_engine::Conf;

use crate::language::{World, check_conf};

const CONF: &str = "
actions: enqueue, allocate, backfill
tiers:
- plugins: [{name: priority}, {name: gang}]
- plugins: [{name: predicates}, {name: binpack}, {name: node_reservation}]
";

/// Without the plugin nothing is locked.
const OFF: &str = "
actions: enqueue, allocate, backfill
tiers:
- plugins: [{name: priority}, {name: gang}]
- plugins: [{name: predicates}, {name: binpack}]
";

const RECLAIM: &str = "
actions: enqueue, allocate, reclaim
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}]
- plugins: [{name: predicates}, {name: capacity}, {name: node_reservation}]
";

#[track_caller]
fn check(script: &str) {
    check_conf(CONF, script);
}

#[test]
fn a_locked_node_takes_only_its_own() {
    check(
        "
        queue a locks=n1
        queue b
        node n1 cpu=2
        gang g queue=b min=1 pods=1 cpu=1
        > g Inqueue
        > wait g 1: queue \"a\": nodes are locked for another queue; 0/1 nodes: 1 locked for queue \"a\".
        gang h queue=a min=1 pods=1 cpu=1
        > h n1[h-w-0] Inqueue
        > wait g 1: queue \"a\": nodes are locked for another queue; 0/1 nodes: 1 locked for queue \"a\".
        ",
    );
    check_conf(
        OFF,
        "
        queue a locks=n1
        queue b
        node n1 cpu=2
        gang g queue=b min=1 pods=1 cpu=1
        > g n1[g-w-0] Inqueue
        ",
    );
}

#[test]
fn a_lock_that_goes_wakes_who_waits_for_it() {
    for news in ["queue a born=1", "gone queue/a", "queue a locks=n2 born=1"] {
        check(&format!(
            "
            queue a locks=n1 born=1
            queue b
            node n1 cpu=2
            gang g queue=b min=1 pods=1 cpu=1
            > g Inqueue
            > wait g 1: queue \"a\": nodes are locked for another queue; 0/1 nodes: 1 locked for queue \"a\".
            {news}
            > g n1[g-w-0]
            ",
        ));
    }
}

#[test]
fn a_lock_on_a_node_that_comes_later_counts() {
    check(
        "
        queue a locks=n1,n2
        queue b
        node n2 cpu=1
        node n1 cpu=1
        gang g queue=b min=1 pods=1 cpu=1
        > g Inqueue
        > wait g 1: queue \"a\": nodes are locked for another queue; 0/2 nodes: 2 locked for queue \"a\".
        gone node/n1
        node n1 cpu=1
        node n3 cpu=1
        > g n3[g-w-0]
        ",
    );
}

/// The deepest holder decides; the nearest lock comes first, stronger than packing.
#[test]
fn own_nodes_come_first_and_the_deepest_holder_decides() {
    check(
        "
        queue top locks=n1,n2
        queue left parent=top locks=n2
        queue right parent=top
        node n0 cpu=4
        node n1 cpu=4
        node n2 cpu=1
        pod x cpu=3 on=n0 running scheduler=foreign
        gang l queue=left min=3 pods=3 cpu=1
        > l n2[l-w-0] n1[l-w-1 l-w-2] Inqueue
        gang r queue=right min=3 pods=4 cpu=1
        > r n1[r-w-0 r-w-1] n0[r-w-2] Inqueue
        > wait r 1: not enough free resources for the whole gang: needs 1 cpu, has 0; 0/3 nodes: 1 locked for queue \"left\", 2 not enough cpu.
        ",
    );
}

#[test]
fn daemons_go_everywhere() {
    check(
        "
        queue a locks=n1
        queue b
        node n1 cpu=2
        gang g queue=b min=1 pods=1 cpu=1 everywhere
        > g n1[g-w-0] Inqueue
        ",
    );
}

#[test]
fn victims_on_locked_nodes_serve_nobody_else() {
    let script = |locks: &str, decision: &str| {
        format!(
            "
            queue rich deserved-cpu=1 {locks} born=1
            queue poor deserved-cpu=2
            node n0 cpu=2
            pod x cpu=2 on=n0 running scheduler=foreign
            node n1 cpu=2
            gang old queue=rich min=1 pods=2 cpu=1 on=n1 running phase=Running
            gang new queue=poor min=1 pods=1 cpu=1 needs-cpu=1
            {decision}
            "
        )
    };
    let taken = "> new ~n1[new-w-0] -n1[old-w-1] Inqueue
            > old 1+0+0
            > wait new 1: waiting for evicted pods to end: needs 1 pods, has 0.";
    check_conf(RECLAIM, &script("", taken));
    let kept = "> new Inqueue
            > old 2+0+0
            > wait new 1: not enough free resources for the whole gang: needs 1 cpu, has 0; 0/2 nodes: 1 locked for queue \"rich\", 1 not enough cpu.";
    check_conf(RECLAIM, &script("locks=n1", kept));
}

/// A guarantee that evicts: by `policy`, what stands on `n1` beside it, who goes.
#[track_caller]
fn check_cleared(queue: &str, others: &str, decision: &str) {
    check_conf(
        RECLAIM,
        &format!(
            "
            queue a locks=n1 target-cpu=3 {queue}
            queue b
            class high value=9
            node n0 cpu=8
            node n1 cpu=4
            {others}
            {decision}
            "
        ),
    );
}

#[test]
fn guaranteed_evicts_who_loses_least_until_the_target_is_met() {
    let one = "gang old queue=b min=0 pods=3 cpu=1 on=n1 running phase=Running";
    check_cleared("", one, "> old 3+0+0");
    check_cleared("evicts", one, "> old -n1[old-w-2 old-w-1] 1+0+0");
    check_cleared("evicts", "pod x cpu=1 on=n1 running scheduler=foreign", "> nothing");
    let two = "gang dear queue=b min=1 pods=1 cpu=2 on=n1 running phase=Running class=high
               gang cheap queue=b min=1 pods=1 cpu=1 on=n1 running phase=Running";
    check_cleared(
        "evicts",
        two,
        "> dear -n1[dear-w-0] Pending
            > cheap 1+0+0
            > wait dear 0: the gang is not complete yet: needs 1 pods, has 0.",
    );
}

/// Who is refused is asked again after a while, longer with every time.
#[test]
fn a_refused_eviction_is_not_asked_for_again_and_again() {
    check_cleared(
        "evicts",
        "gang old queue=b min=0 pods=1 cpu=4 on=n1 running phase=Running",
        "> old -n1[old-w-0] Pending
            refused
            > old Running 1+0+0
            wait 9000
            > nothing
            wait 1000
            > old -n1[old-w-0] Pending 0+0+0
            refused
            > old Running 1+0+0
            wait 19000
            > nothing
            wait 1000
            > old -n1[old-w-0] Pending 0+0+0",
    );
}

/// A lock that comes where somebody waits for others to leave ends that.
#[test]
fn room_is_not_kept_on_a_node_that_is_locked_for_others() {
    check_conf(
        RECLAIM,
        "
        queue rich deserved-cpu=1
        queue poor deserved-cpu=1
        node n1 cpu=2
        node n2 cpu=1
        pod x cpu=1 on=n2 running scheduler=foreign
        gang old queue=rich min=1 pods=2 cpu=1 on=n1 running phase=Running
        gang new queue=poor min=1 pods=1 cpu=1 phase=Inqueue
        > new ~n1[new-w-0] -n1[old-w-1]
        > old 1+0+0
        > wait new 1: waiting for evicted pods to end: needs 1 pods, has 0.
        queue rich deserved-cpu=1 locks=n1
        gone pod/old-w-1
        > wait new 1: queue \"rich\": nodes are locked for another queue; 0/2 nodes: 1 locked for queue \"rich\", 1 not enough cpu.
        gone pod/x
        node n3 cpu=1
        > new n2[new-w-0]
        ",
    );
}

#[test]
fn the_plugin_comes_and_goes_without_a_restart() {
    let mut world = World::new(CONF);
    for line in [
        "queue a locks=n1",
        "node n1 cpu=1",
        "gang g min=1 pods=1 cpu=1 phase=Inqueue",
    ] {
        world.tell(line);
    }
    let locked =
        "wait g 1: queue \"a\": nodes are locked for another queue; 0/1 nodes: 1 locked for queue \"a\".".to_owned();
    assert_eq!(world.decide(), std::slice::from_ref(&locked));
    world
        .cluster
        .engine_mut()
        .set_conf(Conf::parse(OFF).expect("a configuration"));
    assert_eq!(world.decide(), ["g n1[g-w-0]"]);
    world.tell("unbound g-w-0");
    world.tell("wait 1000");
    world
        .cluster
        .engine_mut()
        .set_conf(Conf::parse(CONF).expect("a configuration"));
    assert_eq!(world.decide(), [locked]);
}

/// A gang of queue `a` waits for the node that is locked for it while pods of others are there.
#[track_caller]
fn check_reserve(actions: &str, plugins: &str, decision: &str) {
    let conf = format!(
        "actions: {actions}\ntiers:\n- plugins: [{{name: gang}}]\n- plugins: [{{name: predicates}}{plugins}]\n"
    );
    let script = format!(
        "queue a locks=n1 target-cpu=4 evicts
         queue b
         node n1 cpu=4
         gang old queue=b min=0 pods=1 cpu=4 on=n1 running phase=Running
         gang new queue=a min=1 pods=1 cpu=4 phase=Inqueue
         {decision}"
    );
    check_conf(&conf, &script);
}

#[test]
fn reserve_runs_first_or_where_it_is_listed() {
    let plugin = ", {name: node_reservation}";
    let evicted_before_placing = "> old -n1[old-w-0] Pending
         > new ~n1[new-w-0]
         > wait new 1: waiting for evicted pods to end: needs 1 pods, has 0.";
    check_reserve("enqueue, allocate", plugin, evicted_before_placing);
    check_reserve("reserve, enqueue, allocate", plugin, evicted_before_placing);
    check_reserve("enqueue, reserve, allocate", plugin, evicted_before_placing);
    let evicted_after_placing = "> old -n1[old-w-0] Pending
         > wait new 1: not enough free resources for the whole gang: needs 4 cpu, has 0; 0/1 nodes: 1 not enough cpu.";
    check_reserve("enqueue, allocate, reserve", plugin, evicted_after_placing);
    let not_evicted = "> old 1+0+0
         > wait new 1: not enough free resources for the whole gang: needs 4 cpu, has 0; 0/1 nodes: 1 not enough cpu.";
    check_reserve("reserve, enqueue, allocate", "", not_evicted);
}

#[test]
fn reserve_is_a_stage_of_the_cycle_and_the_purpose_of_its_evictions() {
    let mut world = World::new(RECLAIM);
    for line in [
        "queue a locks=n1 target-cpu=4 evicts",
        "queue b",
        "node n1 cpu=4",
        "gang old queue=b min=0 pods=1 cpu=4 on=n1 running phase=Running",
    ] {
        world.tell(line);
    }
    let mut stages = Vec::new();
    let plan = world
        .cluster
        .engine_mut()
        .cycle_observed(0, 0, &mut |stage| stages.push(stage.to_owned()));
    assert_eq!(stages, ["open", "reserve", "enqueue", "allocate", "reclaim"]);
    let purposes: Vec<&str> = plan.evictions().map(|eviction| eviction.purpose.action()).collect();
    assert_eq!(purposes, ["reserve"]);
}
