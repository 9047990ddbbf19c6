//! What is kept and what is given back when the ground under a set moves.

use std::collections::BTreeSet;

use basalt_controllers::cache::Origin;
use basalt_controllers::world::{Rules, Work, World};
use basalt_controllers::{Change, Outcome};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::{Words, check, node, queue};

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

/// A world without an API server: writes arrive when the test says so.
struct Stage {
    world: World,
    version: u64,
}

impl Stage {
    fn new() -> Self {
        let mut world = World::new(BTreeSet::from(["volcano".to_owned()]));
        world.set_reserving(Some(Rules::default()));
        Self { world, version: 0 }
    }

    fn node(&mut self, name: &str, words: &str) {
        let object = node(name, &Words(words.split(' ').collect()));
        self.world.upsert_node(&serde_json::from_value(object).expect("a node"));
    }

    fn queue(&mut self, name: &str, words: &str) -> Value {
        let mut object = queue(name, &Words(words.split(' ').collect()));
        object["metadata"]["uid"] = json!(format!("uid of {name}"));
        self.see(&mut object);
        object
    }

    fn see(&mut self, object: &mut Value) {
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        let queue = serde_json::from_value(object.clone()).expect("a queue");
        self.world.upsert_queue(queue, Origin::Watch);
    }

    fn look(&mut self, work: &Work) -> Outcome {
        self.world.look_at(work, Timestamp::UNIX_EPOCH)
    }

    /// The status that a queue is about to get.
    fn wants(&mut self, name: &str) -> Value {
        let outcome = self.look(&Work::Queue(name.to_owned()));
        let patch = outcome.changes.into_iter().find_map(|change| match change {
            Change::Patch { merge, .. } => Some(merge),
            _ => None,
        });
        patch.unwrap_or_default()
    }
}

#[test]
fn a_write_on_its_way_holds_its_node() {
    let mut stage = Stage::new();
    stage.node("n1", "cpu=4");
    stage.queue("a", "cpu=4");
    stage.look(&Work::Reservation);
    let late = stage.wants("a");
    assert_eq!(late["status"]["reservation"]["nodes"], json!(["n1"]));
    // Its guarantee goes before that write has come; b may not have the node yet.
    let mut a = stage.queue("a", "");
    let mut b = stage.queue("b", "cpu=4");
    stage.look(&Work::Reservation);
    let early = stage.wants("b");
    assert_eq!(early["status"]["reservation"]["nodes"], Value::Null, "{early}");
    json_patch::merge(&mut b, &early);
    stage.see(&mut b);
    // It comes, and is undone; then b has the node.
    json_patch::merge(&mut a, &late);
    stage.see(&mut a);
    stage.look(&Work::Reservation);
    let undone = stage.wants("a");
    assert_eq!(undone["status"].get("reservation"), Some(&Value::Null), "{undone}");
    json_patch::merge(&mut a, &undone);
    stage.see(&mut a);
    stage.look(&Work::Reservation);
    let now = stage.wants("b");
    assert_eq!(now["status"]["reservation"]["nodes"], json!(["n1"]), "{now}");
}

#[test]
fn what_is_met_at_once_took_no_time() {
    let mut stage = Stage::new();
    stage.node("n1", "cpu=4");
    let mut a = stage.queue("a", "cpu=4");
    stage.look(&Work::Reservation);
    let patch = stage.wants("a");
    json_patch::merge(&mut a, &patch);
    stage.see(&mut a);
    let took: Vec<Option<f64>> = stage.world.reservations().map(|all| all.seconds_to_met).collect();
    assert_eq!(took, [Some(0.0)]);
}

#[test]
fn large_rounds_wait_longer() {
    let pause = |nodes: usize, queues: usize| {
        let mut stage = Stage::new();
        for node in 0..nodes {
            stage.node(&format!("n{node}"), "cpu=4");
        }
        for queue in 0..queues {
            stage.queue(&format!("q{queue}"), "cpu=4");
        }
        stage.world.pause(&Work::Reservation)
    };
    assert_eq!(pause(10, 2), SignedDuration::from_millis(150));
    assert_eq!(pause(2_000, 100), SignedDuration::from_secs(1));
    assert_eq!(pause(2_000, 1_000), SignedDuration::from_secs(5));
}
