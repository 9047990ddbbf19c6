//! What is wrong with the tree of queues holds back only what it is about, says so with names and numbers, and heals by
//! itself when its cause goes.

use crate::language::{World, check_conf};

const TREE: &str = "
actions: enqueue, allocate, backfill
tiers:
- plugins: [{name: priority}, {name: gang}]
- plugins: [{name: predicates}, {name: capacity, enableHierarchy: true}]
";

#[test]
fn a_stray_group_starts_when_the_queues_below_are_gone_or_it_moves() {
    check_conf(
        TREE,
        "node n1 cpu=8
         queue team
         queue leaf parent=team
         gang stray queue=team min=1 pods=1 cpu=1
         gang other queue=team min=1 pods=1 cpu=1
         gang fine queue=leaf min=1 pods=1 cpu=1
         > fine n1[fine-w-0] Inqueue
         > other Inqueue
         > stray Inqueue
         > wait other 1: queue \"team\": the queue has children; only leaf queues hold work: \"leaf\".
         > wait stray 1: queue \"team\": the queue has children; only leaf queues hold work: \"leaf\".
         gang other queue=leaf min=1
         > other n1[other-w-0]
         > wait stray 1: queue \"team\": the queue has children; only leaf queues hold work: \"leaf\".
         gone gang/fine
         gone gang/other
         gone queue/leaf
         > stray n1[stray-w-0]",
    );
}

#[test]
fn the_youngest_of_over_committing_children_starts_when_the_sum_fits() {
    let story = |heals: &str| {
        format!(
            "node n1 cpu=8
             queue team deserved-cpu=4 born=100
             queue old parent=team deserved-cpu=3 born=101
             queue young parent=team deserved-cpu=3 born=102
             gang in-old queue=old min=1 pods=1 cpu=1
             gang in-young queue=young min=1 pods=1 cpu=1
             > in-old n1[in-old-w-0] Inqueue
             > in-young Inqueue
             > wait in-young 1: queue \"young\": the queue asks for more than its parent has left: needs 3 deserved cpu of \"team\", has 1.
             queue young parent=team deserved-cpu=2 born=102
             > wait in-young 1: queue \"young\": the queue asks for more than its parent has left: needs 2 deserved cpu of \"team\", has 1.
             {heals}
             > in-young n1[in-young-w-0]"
        )
    };
    for heals in [
        "queue young parent=team deserved-cpu=1 born=102",
        "queue team deserved-cpu=6 born=100",
        "queue team born=100",
        "queue old parent=team deserved-cpu=1 born=101",
        "queue old deserved-cpu=3 born=101",
        "queue young deserved-cpu=2 born=102",
    ] {
        check_conf(TREE, &story(heals));
    }
}

#[test]
fn guarantees_are_summed_up_too() {
    check_conf(
        TREE,
        "node n1 cpu=8
         queue team guarantee-cpu=2
         queue old parent=team guarantee-cpu=2
         queue young parent=team guarantee-cpu=0.5
         queue meek parent=team
         gang in-young queue=young min=1 pods=1 cpu=1
         gang in-meek queue=meek min=1 pods=1 cpu=1
         > in-meek n1[in-meek-w-0] Inqueue
         > in-young Inqueue
         > wait in-young 1: queue \"young\": the queue asks for more than its parent has left: needs 500m guaranteed cpu of \"team\", has 0.
         gone queue/old
         > in-young n1[in-young-w-0]",
    );
}

#[test]
fn a_subtree_without_a_parent_starts_when_the_parent_comes() {
    check_conf(
        TREE,
        "node n1 cpu=8
         queue orphan parent=lost
         queue left parent=orphan
         queue right parent=orphan
         queue fine
         gang in-left queue=left min=1 pods=1 cpu=1
         gang in-right queue=right min=1 pods=1 cpu=1
         gang in-fine queue=fine min=1 pods=1 cpu=1
         > in-fine n1[in-fine-w-0] Inqueue
         > in-left Inqueue
         > in-right Inqueue
         > wait in-left 1: queue \"left\": the queue stands under a missing parent or in a cycle: \"lost\" does not exist.
         > wait in-right 1: queue \"right\": the queue stands under a missing parent or in a cycle: \"lost\" does not exist.
         queue lost
         > in-left n1[in-left-w-0]
         > in-right n1[in-right-w-0]
         gang more queue=left min=1 pods=1 cpu=1
         gone queue/lost
         > more Inqueue
         > wait more 1: queue \"left\": the queue stands under a missing parent or in a cycle: \"lost\" does not exist.
         queue orphan
         > more n1[more-w-0]",
    );
}

#[test]
fn a_cycle_starts_when_it_is_opened() {
    check_conf(
        TREE,
        "node n1 cpu=8
         queue hen parent=egg
         queue egg parent=hen
         queue chick parent=hen
         queue self parent=self
         queue fine
         gang in-chick queue=chick min=1 pods=1 cpu=1
         gang in-self queue=self min=1 pods=1 cpu=1
         gang in-fine queue=fine min=1 pods=1 cpu=1
         > in-fine n1[in-fine-w-0] Inqueue
         > in-chick Inqueue
         > in-self Inqueue
         > wait in-chick 1: queue \"chick\": the queue stands under a missing parent or in a cycle: \"hen\" stands above itself.
         > wait in-self 1: queue \"self\": the queue stands under a missing parent or in a cycle: \"self\" stands above itself.
         queue egg
         queue self
         > in-chick n1[in-chick-w-0]
         > in-self n1[in-self-w-0]",
    );
}

#[test]
fn a_shrunken_cluster_goes_on_and_the_root_follows_it() {
    let mut world = World::new(TREE);
    for line in [
        "node n1 cpu=4",
        "node n2 cpu=4",
        "queue root deserved-cpu=1 capability-cpu=1",
        "queue a deserved-cpu=4 guarantee-cpu=4",
        "queue b deserved-cpu=4 guarantee-cpu=4",
        "gang in-a queue=a min=1 pods=2 cpu=1",
        "gang in-b queue=b min=1 pods=2 cpu=1",
    ] {
        world.tell(line);
    }
    let mut step = |lines: &[&str], bound: usize, due: [&str; 2]| {
        for line in lines {
            world.tell(line);
        }
        world.decide();
        assert_eq!(world.plan.binds().count(), bound, "{lines:?}");
        assert_eq!([world.due("root"), world.due("a")], due, "{lines:?}");
    };
    step(&[], 4, ["cpu=8000 pods=220", "cpu=4000"]);
    // Half of the cluster goes: the values stand, and what fits goes on.
    step(&["gone node/n2"], 0, ["cpu=4000 pods=110", "cpu=4000"]);
    let more = "gang more queue=a min=1 pods=2 cpu=1";
    step(&["node n1 cpu=6", more], 2, ["cpu=6000 pods=110", "cpu=4000"]);
    step(&["node n3 cpu=10"], 0, ["cpu=16000 pods=220", "cpu=4000"]);
    step(&["gone node/n1", "gone node/n3"], 0, ["", "cpu=4000"]);
    let again = "gang again queue=b min=2 pods=2 cpu=1";
    step(&["node n4 cpu=2", again], 2, ["cpu=2000 pods=110", "cpu=4000"]);
}
