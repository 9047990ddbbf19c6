//! What is kept and what is given back when the ground under a set moves.

use super::check;

#[test]
fn the_smaller_of_both_does_not_replace_the_larger_one_that_is_short_now() {
    let four = "node n1 cpu=4\n node n2 cpu=4\n node n3 cpu=4\n node n4 cpu=4\n";
    // Amounts are larger and come to be short: the share alone would be one node.
    check(&format!(
        "{four} queue q share=0.5:cpu cpu=12\n = q n1 n2 n3 Met\n lost n3\n lost n4\n = q n1 n2 ClusterTooSmall
         says q cpu 8 of 12\n node n5 cpu=4\n = q n1 n2 n5 Met"
    ));
    // The share is larger, and another queue holds what it would need.
    check(
        "node n1 cpu=4\n node n2 cpu=4\n node n3 cpu=4\n node n4 cpu=1\n node n5 cpu=1\n queue r cpu=2 priority=9\n = r n4 n5 Met
         queue q share=0.6:cpu cpu=4\n = q n1 n2 n3 Met\n lost n3\n node n6 cpu=1\n queue s cpu=1 priority=8\n = s n6 Met\n = q n1 n2 NoSetReachesTarget",
    );
    // A share of less than one node is never the larger one.
    check(&format!(
        "{four} queue q share=0.5:cpu cpu=4\n = q n1 n2 Met\n queue q share=0.1:cpu cpu=4\n = q n1 Met"
    ));
}

#[test]
fn what_was_taken_over_from_below_is_given_back() {
    for policy in ["", "Guaranteed"] {
        let four = "node n1 cpu=4\n node n2 cpu=4\n node n3 cpu=4\n node n4 cpu=4\n";
        check(&format!(
            "{four} queue p cpu=4 {policy}\n queue c parent=p cpu=12\n = c n1 n2 n3 Met\n = p n1 n2 n3 Met
             queue c parent=p\n = c nothing\n = p n1 Met"
        ));
        check(&format!(
            "{four} queue p share=0.25:cpu {policy}\n queue c parent=p cpu=12\n = p n1 n2 n3 Met\n queue c parent=p\n = c nothing\n = p n1 Met"
        ));
        // What the queue uses stays.
        check(&format!(
            "{four} queue p cpu=4 {policy}\n queue c parent=p cpu=12\n queue d parent=p\n = p n1 n2 n3 Met\n pod x on=n2 queue=d cpu=1
             queue c parent=p\n = c nothing\n = p n2 Met"
        ));
        // A child needs one of them no longer.
        check(&format!(
            "{four} queue p cpu=4 {policy}\n queue c parent=p cpu=12\n = p n1 n2 n3 Met\n queue c parent=p cpu=8\n = c n1 n2 Met\n = p n1 n2 Met"
        ));
        // Nodes grow.
        check(&format!(
            "{four} queue q cpu=12 {policy}\n = q n1 n2 n3 Met\n node n2 cpu=12\n = q n2 Met"
        ));
    }
}

#[test]
fn a_guaranteed_share_is_mended() {
    let five = "node n1 cpu=4\n node n2 cpu=4\n node n3 cpu=4\n node n4 cpu=4\n node n5 cpu=4\n";
    let busy: Vec<String> = (1..=5).map(|n| format!("pod x{n} on=n{n} queue=x cpu=4\n")).collect();
    let busy = busy.concat();
    // As many as before, …
    check(&format!(
        "{five} {busy} queue q share=0.5:cpu Guaranteed\n = q n1 n2 Evicting\n gone x3\n gone x4\n = q n1 n2 Evicting\n lost n1\n = q n2 n3 Evicting"
    ));
    // … fewer, …
    check(&format!(
        "{five} {busy} queue q share=0.4:cpu Guaranteed\n = q n1 n2 Evicting\n gone x3\n gone x4\n lost n1\n = q n2 Evicting"
    ));
    // … and more.
    check(&format!(
        "{five} {busy} queue q share=0.34:cpu Guaranteed\n = q n1 Evicting\n gone x3\n gone x4\n node n6 cpu=4\n = q n1 n3 Evicting"
    ));
}
