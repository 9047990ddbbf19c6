//! What is chosen, sentence by sentence.

use super::check;

/// So many nodes of one core.
fn nodes(count: usize) -> String {
    let lines: Vec<String> = (0..count).map(|n| format!("node n{n:02} cpu=1\n")).collect();
    lines.concat()
}

#[test]
fn the_set_is_to_the_point() {
    // The smallest sum that reaches the target.
    check(
        "node n1 cpu=8\n node n2 cpu=4\n node n3 cpu=4\n queue q cpu=4
         = q n2 Met\n shows q /resource/cpu 4\n shows q /target/cpu 4\n shows q /waitingFor 0\n told q ReservationMet",
    );
    // Names break ties.
    check("node b cpu=4\n node a cpu=4\n node c cpu=4\n queue q cpu=8\n = q a b Met");
    // Every dimension is reached.
    check(
        "node n1 cpu=8 memory=1Gi\n node n2 cpu=1 memory=8Gi\n node n3 cpu=1 memory=1Gi\n queue q cpu=8 memory=8Gi\n = q n1 n2 Met",
    );
    check("node n1 cpu=8 gpu=2\n node n2 cpu=8\n queue q cpu=4 gpu=1\n = q n1 Met");
    // Fewer nodes where the sums are alike.
    check("node n1 cpu=4\n node n2 cpu=4\n node n3 cpu=8\n queue q cpu=8\n = q n3 Met");
    // A fraction of a core is a whole thousandth.
    check("node n1 cpu=1500m\n node n2 cpu=4\n queue q cpu=1500m\n = q n1 Met");
    // More than any one node can have.
    check("node n1 memory=4Pi\n node n2 memory=4Pi\n queue q memory=6Pi\n = q n1 n2 Met\n shows q /target/memory 6Pi");
    check("node n1 cpu=4 pods=2\n node n2 cpu=4 pods=10\n queue q pods=5\n = q n2 Met");
    // Nothing is asked for, so nothing is locked, and nothing is said.
    check("node n1 cpu=4\n queue q\n = q nothing");
    check("node n1 cpu=4\n queue q cpu=0\n = q nothing");
}

#[test]
fn nodes_where_the_queue_is_already_are_best() {
    check(
        "node n1 cpu=4\n node n2 cpu=4\n pod p on=n2 queue=q cpu=3\n queue q cpu=4\n = q n2 Met\n shows q /used/cpu 3\n shows q /resource/cpu 1",
    );
    // Idle ones before busy ones.
    check("node n1 cpu=4\n node n2 cpu=4\n pod p on=n1 queue=other cpu=3\n queue q cpu=4\n = q n2 Met");
    // By the queue of the PodGroup, whatever the pod says.
    check(
        "node n1 cpu=4\n node n2 cpu=4\n group g queue=q\n pod p on=n2 queue=other group=g cpu=3\n queue q cpu=4\n = q n2 Met
         shows q /used/cpu 3",
    );
    // A group moves, and its pods with it.
    check(
        "node n1 cpu=4\n group g queue=q\n pod p on=n1 group=g cpu=3\n queue q cpu=4\n = q n1 Met
         group g queue=default\n = q n1 WaitingForPods\n shows q /waitingFor 1\n told q ReservationLost",
    );
    // What has ended takes nothing.
    check("node n1 cpu=4\n node n2 cpu=4\n pod p on=n1 queue=other cpu=3\n done p\n queue q cpu=4\n = q n1 Met");
}

#[test]
fn best_effort_waits_for_pods_to_end() {
    check(
        "node n1 cpu=8\n pod a on=n1 queue=other cpu=2\n pod b on=n1 queue=other cpu=1\n queue q cpu=6
         = q n1 WaitingForPods\n says q cpu 5 of 6, waiting for 2 pods to end on 1 node\n shows q /waitingFor 2
         gone a\n = q n1 Met\n shows q /waitingFor 0\n shows q /resource/cpu 7\n told q ReservationMet
         says q cpu 7 of 6 is ready on 1 node",
    );
    // Protected pods end, too.
    check(
        "node n1 cpu=8\n pod a on=n1 system cpu=2\n pod b on=n1 kept cpu=2\n queue q cpu=8\n = q n1 WaitingForPods\n shows q /waitingFor 2",
    );
    // Those that leave are still there.
    check("node n1 cpu=8\n pod a on=n1 cpu=2 leaving\n queue q cpu=8\n = q n1 WaitingForPods\n gone a\n = q n1 Met");
}

#[test]
fn what_cannot_be_moved_is_not_worth_anything() {
    for word in ["daemon", "static", "other"] {
        check(&format!(
            "node n1 cpu=8\n pod d on=n1 cpu=1 {word}\n queue q cpu=7\n = q n1 Met\n queue q cpu=8\n = q n1 NoSetReachesTarget
             says q come to cpu 7 of 8\n told q NoSetReachesTarget"
        ));
        check(&format!(
            "node n1 cpu=8\n pod d on=n1 cpu=1 {word}\n queue q cpu=7 Guaranteed\n = q n1 Met"
        ));
    }
    // The word is read as the scheduler reads it.
    for (word, stand) in [
        ("False", "NoSetReachesTarget"),
        ("no", "NoSetReachesTarget"),
        ("True", "n1 Evicting"),
        ("1", "n1 Evicting"),
    ] {
        check(&format!(
            "node n1 cpu=8\n pod d on=n1 cpu=1 queue=other preemptable={word}\n queue q cpu=8 Guaranteed\n = q {stand}"
        ));
        check(&format!(
            "node n1 cpu=8\n group g queue=other preemptable={word}\n pod d on=n1 cpu=1 group=g\n queue q cpu=8 Guaranteed\n = q {stand}"
        ));
    }
    // A group changes its mind.
    check(
        "node n1 cpu=8\n group g queue=other\n pod d on=n1 cpu=1 group=g\n queue q cpu=8 Guaranteed\n = q n1 Evicting
         group g queue=other preemptable=false\n = q n1 NoSetReachesTarget\n group g queue=other preemptable=true\n = q n1 Evicting",
    );
    // For Guaranteed, nor is what may not be evicted.
    for word in ["system", "kept"] {
        check(&format!(
            "node n1 cpu=8\n pod d on=n1 cpu=1 queue=other {word}\n queue q cpu=8 Guaranteed\n = q NoSetReachesTarget\n gone d\n = q n1 Met"
        ));
        // Its own pods are part of what it has.
        check(&format!(
            "node n1 cpu=8\n pod d on=n1 cpu=1 queue=q {word}\n queue q cpu=8 Guaranteed\n = q n1 Met"
        ));
    }
}

#[test]
fn guaranteed_evicts_and_says_when_that_is_blocked() {
    check(
        "node n1 cpu=8\n pod a on=n1 queue=other cpu=2\n queue q cpu=8 Guaranteed
         = q n1 Evicting\n says q cpu 6 of 8, evicting 1 pod on 1 node
         pass 29\n = q n1 Evicting\n pass 1\n = q n1 EvictionBlocked\n told q EvictionBlocked\n says q 1 of them have not begun to leave
         pod a on=n1 queue=other cpu=2 leaving\n = q n1 Evicting\n gone a\n = q n1 Met",
    );
    // Only as many go as are in the way.
    check(
        "node n1 cpu=8\n pod a on=n1 queue=x cpu=4\n pod b on=n1 queue=x cpu=4\n queue q cpu=4 Guaranteed\n = q n1 Evicting
         pod a on=n1 queue=x cpu=4 leaving\n pass 31\n = q n1 Evicting\n gone a\n = q n1 Met",
    );
    check(
        "node n1 cpu=8 memory=8\n pod a on=n1 queue=x cpu=4 memory=1\n pod b on=n1 queue=x memory=7\n queue q cpu=4 memory=4 Guaranteed
         = q n1 Evicting\n pod a on=n1 queue=x cpu=4 memory=1 leaving\n pass 31\n = q n1 EvictionBlocked",
    );
    // The time counts from when there was somebody to evict.
    check(
        "node n1 cpu=8\n pod a on=n1 queue=x cpu=2\n pod k on=n1 queue=x cpu=1 kept\n queue q cpu=8 Guaranteed\n = q NoSetReachesTarget
         pass 60\n gone k\n = q n1 Evicting\n pass 29\n = q n1 Evicting\n pass 1\n = q n1 EvictionBlocked",
    );
    // It moves only if a node is lost, and then the rest stays.
    check(
        "node n1 cpu=4\n node n2 cpu=4\n node n3 cpu=4\n pod a on=n1 queue=x cpu=4\n pod b on=n2 queue=x cpu=4\n pod c on=n3 queue=x cpu=4
         queue q cpu=8 Guaranteed\n = q n1 n2 Evicting\n gone c\n = q n1 n2 Evicting\n lost n1\n = q n2 n3 Evicting",
    );
    // What is asked for changes: it is chosen anew.
    check(
        "node n1 cpu=4\n node n2 cpu=4\n node n3 cpu=8\n queue q cpu=8 Guaranteed\n = q n3 Met
         queue q cpu=4 Guaranteed\n = q n1 Met",
    );
}

#[test]
fn only_open_nodes_that_admit_the_queue() {
    for word in [
        "cordoned",
        "lost",
        "taint=node.kubernetes.io/unreachable:NoExecute",
        "taint=node.kubernetes.io/disk-pressure:NoSchedule",
    ] {
        check(&format!(
            "node n1 cpu=4 {word}\n node n2 cpu=8\n queue q cpu=4\n = q n2 Met"
        ));
    }
    // What people say by a taint is for pods to stand or not.
    for word in [
        "nvidia.com/gpu:NoSchedule",
        "k:NoExecute",
        "node.kubernetes.io/disk-pressure:PreferNoSchedule",
    ] {
        check(&format!(
            "node n1 cpu=4 taint={word}\n node n2 cpu=8\n queue q cpu=4\n = q n1 Met"
        ));
    }
    check("locks groups\n node n1 cpu=4\n node n2 cpu=8 group=g\n queue q cpu=4 wants=g\n = q n2 Met");
    check("locks groups\n node n1 cpu=4 group=h\n node n2 cpu=8\n queue q cpu=4\n = q n2 Met");
    check("locks strict\n node n1 cpu=4 group=h\n node n2 cpu=8\n queue q cpu=4\n = q ClusterTooSmall");
    check(
        "locks groups\n node n1 cpu=4 group=h\n node n2 cpu=8 group=g\n queue q cpu=4 wants=g,h avoids=h\n = q n2 Met",
    );
    // From above.
    check(
        "locks groups\n node n1 cpu=4\n node n2 cpu=8 group=g\n queue p wants=g\n queue q parent=p cpu=4\n = q n2 Met",
    );
    // Without the plugin groups mean nothing.
    check("node n1 cpu=4\n node n2 cpu=8 group=g\n queue q cpu=4 wants=g\n = q n1 Met");
}

#[test]
fn a_node_has_one_holder() {
    check("node n1 cpu=4\n node n2 cpu=4\n queue a cpu=4\n queue b cpu=4\n = a n1 Met\n = b n2 Met");
    check(
        "node n1 cpu=4\n queue a cpu=4\n queue b cpu=4\n = a n1 Met\n = b NoSetReachesTarget\n says b come to cpu 0 of 4
         node n2 cpu=4\n = b n2 Met\n = a n1 Met",
    );
    // Who holds a node keeps it, whoever comes.
    check(
        "node n1 cpu=4\n queue b cpu=4\n = b n1 Met\n queue a cpu=4 Guaranteed priority=9\n = a NoSetReachesTarget\n = b n1 Met",
    );
    // Somebody has written one node for two: the first in order keeps it.
    check(
        "node n1 cpu=4\n node n2 cpu=4\n queue a cpu=4\n queue b cpu=4\n = a n1 Met\n force b n1\n = a n1 Met\n = b n2 Met",
    );
    check(
        "node n1 cpu=4\n node n2 cpu=4\n queue a cpu=4\n queue b cpu=4\n go\n down\n force b n1\n up\n = a n1 Met\n = b n2 Met",
    );
}

#[test]
fn who_chooses_first() {
    let two = |a: &str, b: &str, first: &str| {
        let (one, other) = if first == "a" { ("n1", "n2") } else { ("n2", "n1") };
        check(&format!(
            "node n1 cpu=4\n node n2 cpu=8\n queue a cpu=4 {a}\n queue b cpu=4 {b}\n = a {one} Met\n = b {other} Met"
        ));
    };
    two("", "Guaranteed", "b");
    two("priority=9", "Guaranteed", "b");
    two("priority=1", "priority=2", "b");
    two("priority=2 born=9", "priority=2 born=5", "b");
    two("priority=2 born=5", "priority=2 born=5", "a");
}

#[test]
fn not_where_another_queues_gang_is_on_its_way() {
    check(
        "node n1 cpu=4\n node n2 cpu=8\n pod g for=n1 queue=other cpu=4\n queue q cpu=4\n = q n2 Met
         pod g on=n1 queue=other cpu=4\n = q n2 Met",
    );
    check("node n1 cpu=4\n node n2 cpu=8\n pod g for=n1 queue=q cpu=4\n queue q cpu=4\n = q n1 Met");
    check(
        "node n1 cpu=4\n pod g for=n1 queue=other cpu=4\n queue q cpu=4\n = q NoSetReachesTarget\n gone g\n = q n1 Met",
    );
    // What is held stays: the scheduler takes the nomination back.
    check("node n1 cpu=4\n node n2 cpu=8\n queue q cpu=4\n = q n1 Met\n pod g for=n1 queue=other cpu=4\n = q n1 Met");
    // A queue below is no other queue; a sibling is.
    check("node n1 cpu=4\n node n2 cpu=8\n queue p cpu=4\n queue c parent=p\n pod g for=n1 queue=c cpu=4\n = p n1 Met");
    check(
        "node n1 cpu=4\n node n2 cpu=8\n queue p\n queue c parent=p\n queue d parent=p cpu=4\n pod g for=n1 queue=c cpu=4\n = d n2 Met",
    );
}

#[test]
fn without_a_set_nothing_new_is_locked() {
    check(
        "node n1 cpu=4\n queue q cpu=5\n = q ClusterTooSmall\n says q offer cpu 4 of 5 in all\n told q ClusterTooSmall\n shows q /target/cpu 5",
    );
    // What is held is kept.
    check(
        "node n1 cpu=4\n node n2 cpu=4\n queue q cpu=8\n = q n1 n2 Met\n lost n2\n = q n1 ClusterTooSmall\n says q 1 node stay locked
         node n3 cpu=4\n = q n1 n3 Met",
    );
    check(
        "node n1 cpu=4\n node n2 cpu=4\n queue q cpu=4\n = q n1 Met\n queue q cpu=9\n = q n1 ClusterTooSmall\n node n3 cpu=4\n = q n1 n2 n3 Met",
    );
    check("queue q cpu=1\n = q ClusterTooSmall\n node n1 cpu=1\n = q n1 Met");
    check("node n1 cpu=4\n queue q gpu=1\n = q ClusterTooSmall");
}

#[test]
fn a_share_of_the_nodes() {
    let four = "node n1 cpu=4\n node n2 cpu=4\n node n3 cpu=4\n node n4 cpu=4\n node n5 cpu=4 gpu=1\n";
    check(&format!(
        "{four} queue q share=0.4:cpu\n = q n1 n2 Met\n shows q /target/cpu 8"
    ));
    check(&format!("{four} queue q share=0.59:cpu\n = q n1 n2 Met"));
    check(&format!("{four} queue q share=1:cpu\n = q n1 n2 n3 n4 n5 Met"));
    check(&format!(
        "{four} queue q share=0.19:cpu\n = q PercentageTooSmall\n says q 0.19 of 5 nodes is less than one node\n told q PercentageTooSmall"
    ));
    check(&format!("{four} queue q share=0:cpu\n = q nothing"));
    // Only nodes that offer every dimension count.
    check(&format!("{four} queue q share=1:cpu,nvidia.com/gpu\n = q n5 Met"));
    check(&format!(
        "{four} queue q share=0.5:nvidia.com/gpu\n = q PercentageTooSmall"
    ));
    // Decimal, not binary: 0.29 of 100 is 29.
    let many = nodes(100);
    let locked: Vec<String> = (0..29).map(|n| format!("n{n:02}")).collect();
    check(&format!("{many} queue q share=0.29:cpu\n = q {} Met", locked.join(" ")));
    // Nodes that others hold count, but cannot be had.
    check(&format!(
        "{four} queue a cpu=16 priority=1\n queue b share=0.4:cpu\n = a n1 n2 n3 n4 Met\n = b NoSetReachesTarget\n says b nodes 1 of 2"
    ));
    // All on them must go before it is met.
    check(&format!(
        "{four} pod p on=n1 cpu=1\n queue q share=1:cpu\n = q n1 n2 n3 n4 n5 WaitingForPods\n shows q /waitingFor 1\n gone p\n = q n1 n2 n3 n4 n5 Met"
    ));
    // Where the queue is, and what is idle, counts.
    check(&format!(
        "{four} pod p on=n3 queue=q cpu=2\n pod o on=n1 cpu=2\n queue q share=0.4:cpu\n = q n2 n3 Met"
    ));
    // The number of nodes changes.
    check(&format!(
        "{four} queue q share=0.4:cpu\n = q n1 n2 Met\n lost n4\n lost n5\n = q n1 Met\n node n4 cpu=4\n node n5 cpu=4\n = q n1 n2 Met"
    ));
}

#[test]
fn both_a_share_and_amounts() {
    let four = "node n1 cpu=4\n node n2 cpu=4\n node n3 cpu=4\n node n4 cpu=4\n";
    check(&format!(
        "{four} queue q share=0.5:cpu cpu=4\n = q n1 n2 Met\n shows q /target/cpu 8"
    ));
    check(&format!(
        "{four} queue q share=0.25:cpu cpu=8\n = q n1 n2 Met\n shows q /target/cpu 8"
    ));
    // A tie is for the amounts.
    check(&format!(
        "{four} queue q share=0.25:cpu cpu=3\n = q n1 Met\n shows q /target/cpu 3"
    ));
    // One of them cannot be had.
    check(&format!("{four} queue q share=0.5:cpu cpu=99\n = q n1 n2 Met"));
    check(&format!("{four} queue q share=0.1:cpu cpu=4\n = q n1 Met"));
    check(&format!("{four} queue q share=0.1:cpu cpu=99\n = q ClusterTooSmall"));
    // One of them is taken away.
    check(&format!(
        "{four} queue q share=0.5:cpu cpu=4\n = q n1 n2 Met\n queue q cpu=4\n = q n1 Met"
    ));
}

#[test]
fn a_set_moves_only_for_a_gain() {
    // A node that fits a little better is no reason.
    check("node n1 cpu=5\n node n2 cpu=40\n node n3 cpu=40\n queue q cpu=4\n = q n1 Met\n node n0 cpu=4\n = q n1 Met");
    // One that is much better is.
    check(
        "node n1 cpu=40\n node n2 cpu=40\n queue q cpu=4\n = q n1 Met\n node n3 cpu=4\n = q n3 Met\n told q ReservationChanged",
    );
    // Nor is a set that waits given up for little, but for one that is ready.
    check(
        "node n1 cpu=4\n node n2 cpu=4\n pod a on=n1 cpu=1\n pod b on=n2 cpu=2\n queue q cpu=4\n = q n1 WaitingForPods
         gone b\n = q n2 Met\n gone a\n = q n2 Met",
    );
    // A guarantee that was lowered needs fewer nodes, however little that gains.
    let many = nodes(50);
    check(&format!(
        "{many} queue q cpu=3\n = q n00 n01 n02 Met\n queue q cpu=2\n = q n00 n01 Met"
    ));
}

#[test]
fn locks_vanish_with_what_they_are_for() {
    let start = "node n1 cpu=4\n queue q cpu=4\n = q n1 Met\n";
    check(&format!(
        "{start} queue q\n = q nothing\n told q ReservationReleased\n queue q cpu=4\n = q n1 Met"
    ));
    check(&format!("{start} close q\n = q nothing\n open q\n = q n1 Met"));
    check(&format!("{start} delete q\n = q gone\n queue r cpu=4\n = r n1 Met"));
    check(&format!("{start} locks off\n = q nothing\n locks on\n = q n1 Met"));
    check(&format!(
        "{start} queue r cpu=4\n = r NoSetReachesTarget\n close q\n = q nothing\n = r n1 Met"
    ));
    // From above, too.
    check(
        "node n1 cpu=4\n queue p\n queue q parent=p cpu=4\n = q n1 Met\n close p\n = q nothing\n open p\n = q n1 Met",
    );
    // Closing queues keep what they have: their work goes on.
    check(&format!(
        "{start} pod p on=n1 queue=q cpu=1\n close q\n = q n1 Met\n gone p\n = q nothing"
    ));
    check("node n1 cpu=4\n queue q cpu=4\n locks off\n = q nothing");
    // A lost node is replaced.
    check("node n1 cpu=4\n node n2 cpu=8\n queue q cpu=4\n = q n1 Met\n lost n1\n = q n2 Met");
    check("node n1 cpu=4\n node n2 cpu=8\n queue q cpu=4\n = q n1 Met\n node n1 cpu=4 cordoned\n = q n2 Met");
    // Made anew, it holds nothing of what it held.
    check(&format!(
        "{start} delete q\n queue q cpu=2\n = q n1 Met\n shows q /target/cpu 2"
    ));
    // What somebody writes by hand is repaired.
    check("node n1 cpu=4\n node n2 cpu=4\n queue q cpu=4\n = q n1 Met\n force q n1 n2\n = q n1 Met");
    check("node n1 cpu=4\n queue q\n force q n1\n = q nothing");
}

#[test]
fn a_parents_set_contains_its_childrens() {
    let nodes = "node n1 cpu=4\n node n2 cpu=4\n node n3 cpu=4\n node n4 cpu=4\n";
    check(&format!(
        "{nodes} queue p cpu=8\n queue c parent=p cpu=4\n = c n1 Met\n = p n1 n2 Met"
    ));
    check(&format!(
        "{nodes} queue p cpu=12\n queue c parent=p cpu=4\n queue d parent=p cpu=4\n = c n1 Met\n = d n2 Met\n = p n1 n2 n3 Met"
    ));
    // Children first, whatever their rank; the parent's grows around them.
    check(
        "node n1 cpu=4\n node n2 cpu=3\n node n3 cpu=4\n queue p cpu=4 Guaranteed\n queue c parent=p cpu=3\n = c n2 Met\n = p n1 n2 Met",
    );
    // What a child uses, its parent uses.
    check(&format!(
        "{nodes} queue p cpu=4\n queue c parent=p\n pod x on=n3 queue=c cpu=2\n = p n3 Met\n shows p /used/cpu 2"
    ));
    // A child comes later: it may have what its parent holds.
    check(&format!(
        "{nodes} queue p cpu=16\n = p n1 n2 n3 n4 Met\n queue c parent=p cpu=4\n = c n1 Met\n = p n1 n2 n3 n4 Met"
    ));
    // But not what another parent holds.
    check(&format!(
        "{nodes} queue p cpu=16\n = p n1 n2 n3 n4 Met\n queue o\n queue c parent=o cpu=4\n = c NoSetReachesTarget"
    ));
    // Far above, with one between that asks for nothing.
    check(&format!(
        "{nodes} queue p cpu=8\n queue m parent=p\n queue c parent=m cpu=4\n = c n1 Met\n = m nothing\n = p n1 n2 Met"
    ));
    // The child leaves its parent: they are strangers then.
    check(&format!(
        "{nodes} queue p cpu=8\n queue c parent=p cpu=4\n = p n1 n2 Met\n queue c cpu=4\n = c n1 Met\n = p n2 n3 Met"
    ));
    // The child lets go, the parent keeps.
    check(&format!(
        "{nodes} queue p cpu=8\n queue c parent=p cpu=4\n = p n1 n2 Met\n queue c parent=p\n = c nothing\n = p n1 n2 Met"
    ));
    // The child's share is of all nodes.
    check(&format!(
        "{nodes} queue p share=0.5:cpu\n queue c parent=p share=0.25:cpu\n = c n1 Met\n = p n1 n2 Met"
    ));
    check(&format!(
        "{nodes} queue p share=0.25:cpu\n queue c parent=p cpu=8\n = c n1 n2 Met\n = p n1 n2 Met"
    ));
}
