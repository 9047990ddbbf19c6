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

#[test]
fn gangs_compete_and_the_older_one_starts() {
    check(
        "node n1 cpu=4 memory=8Gi
         gang a min=3 pods=3 cpu=1
         gang b min=3 pods=3 cpu=1
         gang c min=1 pods=1 cpu=1
         > a n1[a-w-0 a-w-1 a-w-2] Inqueue
         > c n1[c-w-0] Inqueue
         > b Inqueue
         > wait b 3: not enough free resources for the whole gang: needs 3 pods, has 1.
         > wait b 3: not enough free resources for the whole gang: needs 1 cpu, has 0; 0/1 nodes: 1 not enough cpu.",
    );
}

#[test]
fn priority_goes_before_age() {
    check(
        "class high value=100
         node n1 cpu=3
         gang low min=2 pods=2 cpu=1
         gang high min=2 pods=2 cpu=1 class=high
         > high n1[high-w-0 high-w-1] Inqueue
         > low Inqueue
         > wait low 2: not enough free resources for the whole gang: needs 2 pods, has 1.
         > wait low 2: not enough free resources for the whole gang: needs 1 cpu, has 0; 0/1 nodes: 1 not enough cpu.
         class high value=-5
         node n2 cpu=2
         gang last min=2 pods=2 cpu=1 class=high
         > low n1[low-w-0] n2[low-w-1]
         > last Inqueue
         > wait last 2: not enough free resources for the whole gang: needs 2 pods, has 1.
         > wait last 2: not enough free resources for the whole gang: needs 1 cpu, has 0; 0/2 nodes: 2 not enough cpu.",
    );
}

#[test]
fn pods_of_higher_priority_go_first_then_by_number() {
    check(
        "node n1 cpu=3
         gang g min=1
         pod g-w-10 group=g cpu=1
         pod g-w-9 group=g cpu=1
         pod other group=g cpu=1
         pod late group=g cpu=1 priority=7
         > g n1[late g-w-9 g-w-10] Inqueue
         > wait g 1: not enough free resources for the whole gang: needs 1 cpu, has 0; 0/1 nodes: 1 not enough cpu.",
    );
}

#[test]
fn minimums_come_before_surplus() {
    check(
        "node n1 cpu=5
         gang a min=2 pods=4 cpu=1
         gang b min=2 pods=4 cpu=1
         > a n1[a-w-0 a-w-1 a-w-2] Inqueue
         > b n1[b-w-0 b-w-1] Inqueue
         > wait a 1: not enough free resources for the whole gang: needs 1 cpu, has 0; 0/1 nodes: 1 not enough cpu.
         > wait b 2: not enough free resources for the whole gang: needs 1 cpu, has 0; 0/1 nodes: 1 not enough cpu.",
    );
}

#[test]
fn minimums_by_role() {
    check(
        "node m cpu=1 labels=role:master
         node w cpu=1 labels=role:worker
         gang g min=2 roles=master:1,worker:1
         pod g-master-0 group=g role=master cpu=1 select=role:master
         pod g-master-1 group=g role=master cpu=1 select=role:master
         pod g-worker-0 group=g role=worker cpu=1 select=role:worker
         pod g-worker-1 group=g role=worker cpu=1 select=role:worker
         > g m[g-master-0] w[g-worker-0] Inqueue
         > wait g 2: not enough free resources for the whole gang: needs 1 cpu, has 0; 0/2 nodes: 1 not enough cpu, 1 not selected by the pod.",
    );
    check(
        "node n cpu=8
         gang g min=3 roles=ps:1,worker:2
         pod g-worker-0 group=g role=worker cpu=1
         pod g-worker-1 group=g role=worker cpu=1
         pod g-worker-2 group=g role=worker cpu=1
         > g Inqueue
         > wait g 3: the gang is not complete yet: needs 1 pods of task \"ps\", has 0.
         pod g-ps-0 group=g role=ps cpu=6
         > g n[g-worker-0 g-ps-0 g-worker-1]
         > wait g 1: not enough free resources for the whole gang: needs 1 cpu, has 0; 0/1 nodes: 1 not enough cpu.
         node n2 cpu=8
         > g n2[g-worker-2]",
    );
}

#[test]
fn waits_for_its_queue() {
    check(
        "node n1 cpu=8
         gang g min=1 pods=1 cpu=1 queue=research
         > wait g 1: queue \"research\": the queue does not exist.
         queue research
         > g n1[g-w-0] Inqueue
         gone queue/research
         > nothing",
    );
}

#[test]
fn waits_for_its_pods_and_for_its_group() {
    check(
        "node n1 cpu=8
         pod g-w-0 group=g cpu=1
         > wait g 1: the pod group does not exist.
         gang g min=2
         > g Inqueue
         > wait g 1: the gang is not complete yet: needs 2 pods, has 1.
         pod g-w-1 group=g cpu=1
         > g n1[g-w-0 g-w-1]",
    );
}

#[test]
fn gates_and_unknown_needs() {
    check(
        "node n1 cpu=8
         gang a min=1 pods=2 cpu=1 gated
         gang b min=1 pods=1 cpu=1 wants=hostPort
         gang c min=1 pods=1 cpu=1 unsupported=networkTopology
         > a Inqueue
         > b Inqueue
         > wait a 2: its pods carry scheduling gates: needs 2 pods.
         > wait b 1: it needs something that this scheduler does not do: hostPort.
         > wait c 1: it needs something that this scheduler does not do: networkTopology.
         pod a-w-0 group=a cpu=1
         > a n1[a-w-0]
         > wait a 1: its pods carry scheduling gates: needs 1 pods.
         > wait b 1: it needs something that this scheduler does not do: hostPort.
         > wait c 1: it needs something that this scheduler does not do: networkTopology.",
    );
}

#[test]
fn decided_binds_are_believed_for_a_while() {
    check(
        "node n1 cpu=2
         gang a min=2 pods=2 cpu=1
         gang b min=2 pods=2 cpu=1
         > a n1[a-w-0 a-w-1] Inqueue
         > b Inqueue
         > wait b 2: not enough free resources for the whole gang: needs 2 pods, has 0.
         > wait b 2: not enough free resources for the whole gang: needs 1 cpu, has 0; 0/1 nodes: 1 not enough cpu.
         touch a-w-0
         wait 29999
         > wait b 2: not enough free resources for the whole gang: needs 2 pods, has 0.
         > wait b 2: not enough free resources for the whole gang: needs 1 cpu, has 0; 0/1 nodes: 1 not enough cpu.
         wait 1
         > a n1[a-w-0 a-w-1]
         > wait b 2: not enough free resources for the whole gang: needs 2 pods, has 0.
         > wait b 2: not enough free resources for the whole gang: needs 1 cpu, has 0; 0/1 nodes: 1 not enough cpu.
         unbound b-w-0
         > wait b 2: not enough free resources for the whole gang: needs 2 pods, has 0.
         > wait b 2: not enough free resources for the whole gang: needs 1 cpu, has 0; 0/1 nodes: 1 not enough cpu.",
    );
}

#[test]
fn a_failed_bind_is_decided_again() {
    check(
        "node n1 cpu=2
         gang a min=2 pods=2 cpu=1
         > a n1[a-w-0 a-w-1] Inqueue
         unbound a-w-1
         > wait a 1: binding failed and is tried again.
         wait 99
         > wait a 1: binding failed and is tried again.
         wait 1
         > a n1[a-w-1]
         unbound a-w-0
         unbound a-w-1
         wait 100
         > wait a 2: binding failed and is tried again.
         wait 100
         > a n1[a-w-0 a-w-1]
         gone node/n1
         > wait a 2: not enough free resources for the whole gang: needs 2 pods, has 0.
         > wait a 2: no node fits.
         node n2 cpu=2
         > a n2[a-w-0 a-w-1]",
    );
}

#[test]
fn phases_follow_the_pods() {
    check(
        "node n1 cpu=2
         gang g min=2 pods=2 cpu=1
         > g n1[g-w-0 g-w-1] Inqueue
         phases
         bound
         > g Running
         phases
         runs g-w-0
         runs g-w-1
         > g 2+0+0
         fails g-w-0
         > g Unknown 1+0+1
         > wait g 0: the gang is not complete yet: needs 2 pods, has 1.
         phases
         succeeds g-w-1
         > g Completed 0+1+1
         phases
         gone pod/g-w-0
         gone pod/g-w-1
         > g 0+0+0
         phases
         > nothing",
    );
}

#[test]
fn foreign_pods_only_take_room() {
    check(
        "node n1 cpu=2
         pod x cpu=2 scheduler=foreign
         gang g min=1 pods=1 cpu=1
         > g n1[g-w-0] Inqueue
         pod x cpu=2 scheduler=foreign on=n1
         gang h min=1 pods=1 cpu=1
         > h Inqueue
         > wait h 1: not enough free resources for the whole gang: needs 1 cpu, has 0; 0/1 nodes: 1 not enough cpu.",
    );
}

#[test]
fn a_pod_made_anew_is_another_pod() {
    let mut world = World::new("actions: allocate\ntiers: [{plugins: [{name: gang}]}]");
    for line in ["node n1 cpu=1", "gang g min=1 pods=1 cpu=1"] {
        world.tell(line);
    }
    assert_eq!(world.decide(), ["g n1[g-w-0] Inqueue"]);
    let mut pod = world.cluster.pods()["ns/g-w-0"].clone();
    pod.uid = "another".into();
    world.cluster.engine_mut().apply(&basalt_engine::Event::Pod(pod));
    world.cluster.engine_mut().bind_failed("ns/g-w-0", "uid-g-w-0");
    let plan = world.cluster.engine_mut().cycle(0, 0);
    assert_eq!(plan.binds().map(|bind| &*bind.uid).collect::<Vec<_>>(), ["another"]);
    assert_eq!(world.cluster.engine().statistics().assumed, 1);
}

#[test]
fn a_late_end_of_an_earlier_object_of_the_same_name_means_nothing() {
    check(
        "node n1 cpu=1 uid=1
         node n1 cpu=2 uid=2
         queue q uid=1
         queue q uid=2
         class high value=5 uid=1
         class high value=9 uid=2
         gang g min=2 pods=2 cpu=1 queue=q class=high
         gone node/n1 uid=1
         gone queue/q uid=1
         gone class/high uid=1
         gone gang/g uid=1
         gang low min=1 pods=1 cpu=1 queue=q
         > g n1[g-w-0 g-w-1] Inqueue
         > low Inqueue
         > wait low 1: not enough free resources for the whole gang: needs 1 cpu, has 0; 0/1 nodes: 1 not enough cpu.
         gone node/n1 uid=2
         > wait g 2: not enough free resources for the whole gang: needs 2 pods, has 0.
         > wait g 2: no node fits.
         > wait low 1: no node fits.
         gone queue/q uid=2
         > wait g 2: queue \"q\": the queue does not exist.
         > wait low 1: queue \"q\": the queue does not exist.
         gone gang/g uid=uid-g
         > wait g 2: the pod group does not exist.
         > wait low 1: queue \"q\": the queue does not exist.",
    );
}

#[test]
fn a_group_that_waits_after_a_failure_does_not_hold_its_place() {
    check(
        "gang g0 queue=q0 min=0 pods=2 cpu=1 memory=0Gi class=high
         queue q2 parent=q0
         node n0 cpu=3 memory=1Gi room=1
         gang g2 queue=q2 min=0 pods=1 cpu=0 memory=1Gi class=high
         queue q0 parent=q0
         > g2 n0[g2-w-0] Inqueue
         > g0 Inqueue
         > wait g0 2: not enough free resources for the whole gang: needs 1 pods, has 0; 0/1 nodes: 1 not enough pods.
         unbound g2-w-0
         > g0 n0[g0-w-0]
         > wait g0 1: not enough free resources for the whole gang: needs 1 pods, has 0; 0/1 nodes: 1 not enough pods.
         > wait g2 1: binding failed and is tried again.",
    );
}

#[test]
fn what_others_do_does_not_change_why_a_gang_waits() {
    let mut world = World::new(crate::language::CONF);
    for line in [
        "node n1 cpu=4 memory=8Gi",
        "node n2 cpu=3 memory=2Gi",
        "node n3 cpu=9 not-ready",
        "pod busy cpu=1 on=n1 running scheduler=foreign",
        "gang runs min=1 pods=1 cpu=1",
    ] {
        world.tell(line);
    }
    world.decide();
    world.tell("bound");
    for gang in 0..1000 {
        // Three shapes, in queues and of sizes that do not keep step with them; some ask for nothing but a place.
        let (queue, min) = (gang % 7, 8 + gang % 5);
        let shape = ["cpu=1", "cpu=2 memory=1Gi", "memory=4Gi"][gang % 3];
        world.tell(&format!("queue q{queue}"));
        world.tell(&format!("gang g{gang} queue=q{queue} min={min} pods={min} {shape}"));
        if gang % 11 == 0 {
            world.tell(&format!("pod g{gang}-w-0 group=g{gang}"));
        }
    }
    world.decide();
    world.tell("phases");
    world.decide();
    let before = world.plan.waiting.clone();
    assert_eq!(before.len(), 1000);
    let busy_cycles = |world: &World| world.cluster.engine().statistics().busy_cycles;
    for line in [
        "runs runs-w-0",
        "pod other scheduler=foreign on=n3",
        "gone pod/other",
        "pod busy cpu=1 on=n1 scheduler=foreign",
        "pod g500-w-3 group=g500 memory=4Gi priority=9",
        "gang late min=2 pods=1 cpu=1",
        "gone gang/late",
        "gone pod/late-w-0",
        "pod g500-w-3 group=g500 memory=4Gi",
    ] {
        let cycles = busy_cycles(&world);
        world.tell(line);
        world.decide();
        assert_eq!(busy_cycles(&world), cycles + 1, "{line}: everybody is looked at again");
        for was in before.iter() {
            let now = world.plan.waiting.iter().find(|now| now.pod_group == was.pod_group);
            assert_eq!(now, Some(was), "{line}");
        }
    }
}
