//! What the engine decides, case by case.

use crate::language::{World, check};

#[test]
fn a_gang_that_fits_is_placed_whole() {
    check(
        "node n1 cpu=4 memory=8Gi
         gang g min=3 pods=3 cpu=1 memory=1Gi
         > g n1[g-w-0 g-w-1 g-w-2] Inqueue
         again
         > nothing
         bound
         > g Running
         again
         > nothing",
    );
}

#[test]
fn a_gang_that_does_not_fit_gets_nothing() {
    check(
        "node n1 cpu=2 memory=8Gi
         node n2 cpu=2 memory=8Gi
         gang g min=5 pods=5 cpu=1 memory=1Gi
         > g Inqueue
         > wait g 5: not enough free resources for the whole gang: needs 5 pods, has 4.
         > wait g 5: not enough free resources for the whole gang: needs 1 cpu, has 0; 0/2 nodes: 2 not enough cpu.
         node n3 cpu=1 memory=1Gi
         > g n1[g-w-0 g-w-1] n2[g-w-2 g-w-3] n3[g-w-4]",
    );
}

#[test]
fn queues_count_what_is_below_them() {
    let mut world = World::new("actions: allocate");
    for line in [
        "node n1 cpu=8 memory=8Gi",
        "queue a parent=root",
        "queue b parent=a",
        "queue root",
        "gang g min=2 pods=2 cpu=1 queue=b",
        "pod other cpu=1 on=n1 running scheduler=foreign",
    ] {
        world.tell(line);
    }
    world.decide();
    for queue in ["root", "a", "b"] {
        assert_eq!(world.queue(queue), "cpu=2000 pods=2", "{queue}");
    }
    assert_eq!(world.queue("default"), "");
    world.tell("queue c");
    world.tell("queue b parent=c");
    world.decide();
    assert_eq!([world.queue("a"), world.queue("c")], ["", "cpu=2000 pods=2"]);
    world.tell("gone pod/g-w-0");
    world.decide();
    assert_eq!(
        [world.queue("root"), world.queue("b")],
        ["cpu=1000 pods=1", "cpu=1000 pods=1"]
    );
}
