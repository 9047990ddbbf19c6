//! Which nodes take which pods.

use crate::language::{check, check_conf};

#[test]
fn nodes_that_do_not_admit() {
    check(
        "node a cpu=4 cordoned
         node b cpu=4 taint=gpu
         node c cpu=4 labels=zone:west
         node d cpu=0.5 labels=zone:east
         gang plain min=1 pods=1 cpu=4
         gang brave min=1 pods=1 cpu=4 tolerate=gpu
         gang east min=2 pods=2 cpu=1 select=zone:east
         gang any min=1 pods=1 cpu=1 tolerate=node.kubernetes.io/unschedulable
         > plain c[plain-w-0] Inqueue
         > brave b[brave-w-0] Inqueue
         > any a[any-w-0] Inqueue
         > east Inqueue
         > wait east 2: not enough free resources for the whole gang: needs 2 pods, has 0.
         > wait east 2: not enough free resources for the whole gang: needs 1 cpu, has 500m; 0/4 nodes: 1 not enough cpu, 2 not selected by the pod, 1 unschedulable.
         node b cpu=8
         > wait east 2: not enough free resources for the whole gang: needs 2 pods, has 0.
         > wait east 2: not enough free resources for the whole gang: needs 1 cpu, has 500m; 0/4 nodes: 1 not enough cpu, 2 not selected by the pod, 1 unschedulable.",
    );
}

#[test]
fn nodes_that_are_not_ready() {
    check(
        "node a cpu=4 not-ready
         gang g min=1 pods=1 cpu=1 tolerate=node.kubernetes.io/unschedulable
         > g Inqueue
         > wait g 1: no node fits; 0/1 nodes: 1 not ready.
         node a cpu=4
         > g a[g-w-0]",
    );
}

#[test]
fn a_node_holds_only_so_many_pods() {
    check(
        "node n1 cpu=8 room=2
         gang g min=3 pods=3 cpu=1
         > g Inqueue
         > wait g 3: not enough free resources for the whole gang: needs 3 pods, has 2.
         > wait g 3: not enough free resources for the whole gang: needs 1 pods, has 0; 0/1 nodes: 1 not enough pods.
         node n1 cpu=8 room=3
         > g n1[g-w-0 g-w-1 g-w-2]",
    );
}

#[test]
fn over_committed_nodes_stay() {
    check(
        "node n1 cpu=2 memory=4Gi
         pod fat cpu=1 memory=8Gi on=n1 running scheduler=foreign
         gang a min=1 pods=1 cpu=1
         gang b min=1 pods=1 memory=1Gi
         > a n1[a-w-0] Inqueue
         > b Inqueue
         > wait b 1: not enough free resources for the whole gang: needs 1Gi memory, has 0; 0/1 nodes: 1 not enough memory.
         node n1 cpu=0 memory=0
         > wait b 1: not enough free resources for the whole gang: needs 1Gi memory, has 0; 0/1 nodes: 1 not enough memory.
         gone node/n1
         > wait a 1: no node fits.
         > wait b 1: no node fits.
         node n1 cpu=4 memory=16Gi
         > a n1[a-w-0]
         > b n1[b-w-0]",
    );
}

#[test]
fn scores_choose_the_node() {
    let conf = |plugin: &str| format!("actions: allocate\ntiers: [{{plugins: [{{name: gang}}, {{name: {plugin}}}]}}]");
    let script = |expected: &str| {
        format!(
            "node n1 cpu=4 memory=4Gi
             node n2 cpu=4 memory=4Gi
             pod x cpu=1 memory=1Gi on=n2 running scheduler=foreign
             gang g min=4 pods=4 cpu=1 memory=1Gi
             > {expected}"
        )
    };
    check_conf(&conf("nodeorder"), &script("g n1[g-w-0 g-w-1 g-w-3] n2[g-w-2] Inqueue"));
    check_conf(&conf("binpack"), &script("g n2[g-w-0 g-w-1 g-w-2] n1[g-w-3] Inqueue"));
}

#[test]
fn pods_that_ask_for_nothing() {
    check(
        "node n1 cpu=1 room=3
         gang a min=2 pods=2
         gang b min=2 pods=2
         > a n1[a-w-0 a-w-1] Inqueue
         > b Inqueue
         > wait b 2: not enough free resources for the whole gang: needs 2 pods, has 1.
         > wait b 2: not enough free resources for the whole gang: needs 1 pods, has 0; 0/1 nodes: 1 not enough pods.
         node n2 cpu=1 room=1
         > b n1[b-w-0] n2[b-w-1]",
    );
    check_conf(
        "actions: allocate\ntiers: [{plugins: [{name: gang}]}]",
        "node n1 cpu=1
         gang a min=1 pods=1
         > a Inqueue
         > wait a 1: it needs something that this scheduler does not do: pods without requests (the backfill action is not configured).",
    );
}

#[test]
fn pods_that_ask_for_nothing_are_members_like_all_others() {
    // Nobody admits the second one.
    check(
        "node n1 cpu=4
         gang g min=2
         pod g-w-0 group=g cpu=1
         pod g-w-1 group=g select=zone:a
         > g Inqueue
         > wait g 2: not enough free resources for the whole gang: needs 2 pods, has 1.
         > wait g 2: no node fits; 0/1 nodes: 1 not selected by the pod.
         node n1 cpu=4 labels=zone:a
         > g n1[g-w-0 g-w-1]",
    );
    // It is gated, or asks for something unknown.
    check(
        "node n1 cpu=4
         gang g min=2
         gang h min=2
         pod g-w-0 group=g cpu=1
         pod g-w-1 group=g gated
         pod h-w-0 group=h cpu=1
         pod h-w-1 group=h wants=hostPort
         > g Inqueue
         > h Inqueue
         > wait g 2: not enough free resources for the whole gang: needs 2 pods, has 1.
         > wait g 2: its pods carry scheduling gates: needs 1 pods.
         > wait h 2: not enough free resources for the whole gang: needs 2 pods, has 1.
         > wait h 2: it needs something that this scheduler does not do: hostPort.
         pod g-w-1 group=g
         > g n1[g-w-0 g-w-1]
         > wait h 2: not enough free resources for the whole gang: needs 2 pods, has 1.
         > wait h 2: it needs something that this scheduler does not do: hostPort.",
    );
    // They fill the gang only where the others do not, and the rest is backfilled.
    check(
        "node n1 cpu=1 room=9
         gang g min=2 pods=2 cpu=1
         pod g-w-2 group=g
         pod g-w-3 group=g
         > g n1[g-w-0 g-w-2 g-w-3] Inqueue
         > wait g 1: not enough free resources for the whole gang: needs 1 cpu, has 0; 0/1 nodes: 1 not enough cpu.",
    );
}

#[test]
fn room_that_is_being_released() {
    check(
        "node n1 cpu=2
         pod old cpu=2 on=n1 running terminating scheduler=foreign
         gang g min=2 pods=2 cpu=1
         gang small min=1 pods=1 cpu=1
         > g ~n1[g-w-0 g-w-1] Inqueue
         > small Inqueue
         > wait g 2: waiting for evicted pods to end: needs 2 pods, has 0.
         > wait small 1: not enough free resources for the whole gang: needs 1 cpu, has 0; 0/1 nodes: 1 not enough cpu.
         gone pod/old
         > g n1[g-w-0 g-w-1]
         > wait small 1: not enough free resources for the whole gang: needs 1 cpu, has 0; 0/1 nodes: 1 not enough cpu.",
    );
}
