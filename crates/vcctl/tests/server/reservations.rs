//! Guarantees are set and taken away, and who holds which node is shown.

use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::world::World;

async fn world() -> World {
    let world = World::new().await;
    let nodes: Api<k8s_openapi::api::core::v1::Node> = Api::all(world.client.clone());
    for name in ["n1", "n2", "n10"] {
        let node = json!({
            "metadata": {"name": name, "labels": {"zone": if name == "n1" { "a" } else { "b" }}},
            "status": {"allocatable": {"cpu": "8", "memory": "32Gi", "pods": "110"}, "conditions": [{"type": "Ready", "status": "True"}]},
        });
        let node = serde_json::from_value(node).unwrap();
        nodes.create(&PostParams::default(), &node).await.expect("a node");
    }
    world.say("queue create root").await;
    world
}

async fn lock(world: &World, queue: &str, nodes: &[&str], met: bool) {
    let queues: Api<basalt_api::queue::Queue> = Api::all(world.client.clone());
    let reason = if met { "Met" } else { "WaitingForPods" };
    let status = json!({"status": {
        "reservation": {"nodes": nodes, "resource": {"cpu": "5"}, "used": {"cpu": "1"}, "target": {"cpu": "8"}, "waitingFor": i32::from(!met) * 2},
        "conditions": [{"type": "ReservationMet", "status": if met { "True" } else { "False" }, "reason": reason, "message": "",
            "lastTransitionTime": "2026-11-15T10:00:00Z"}],
    }});
    let params = PatchParams::default();
    queues
        .patch_status(queue, &params, &Patch::Merge(&status))
        .await
        .expect("a status");
}

#[tokio::test]
async fn guarantees_come_change_and_go() {
    let world = world().await;
    world
        .say("queue create team --guarantee cpu=4 --guarantee-policy guaranteed --guarantee-percentage 0.25 --guarantee-dimensions cpu,memory")
        .await;
    let guarantee = |queue: Value| queue["spec"]["guarantee"].clone();
    assert_eq!(
        guarantee(world.queue("team").await),
        json!({"policy": "Guaranteed", "resource": {"cpu": "4"}, "percentage": {"dimensions": ["cpu", "memory"], "value": 0.25}})
    );
    world
        .say("queue update team --guarantee-percentage 0.5 --guarantee memory=1Gi,cpu-")
        .await;
    assert_eq!(
        guarantee(world.queue("team").await),
        json!({"policy": "Guaranteed", "resource": {"memory": "1Gi"}, "percentage": {"dimensions": ["cpu", "memory"], "value": 0.5}})
    );
    world.say("queue update team --guarantee none").await;
    assert_eq!(guarantee(world.queue("team").await), Value::Null);
    let refused = world
        .bad(1, &["queue", "update", "team", "--guarantee", "cpu=25"])
        .await;
    assert!(
        refused.contains("25") && refused.contains("the nodes offer, which is 24"),
        "{refused}"
    );
    let refused = world
        .bad(1, &["queue", "update", "team", "--guarantee-percentage", "0.5"])
        .await;
    assert!(refused.contains("dimensions"), "{refused}");
    let usage = world
        .bad(2, &["queue", "update", "team", "--guarantee-percentage", "50%"])
        .await;
    assert!(usage.contains("50%"), "{usage}");
}

#[tokio::test]
async fn who_holds_which_node_is_shown() {
    let world = world().await;
    world.say("queue create ml --guarantee cpu=8 --deserved cpu=12").await;
    world.say("queue create vision --parent ml --guarantee cpu=4").await;
    lock(&world, "ml", &["n1", "n10"], true).await;
    lock(&world, "vision", &["n10"], false).await;
    let names = |table: String| -> Vec<String> {
        let first = |line: &str| {
            line.split("   ")
                .map(str::trim)
                .filter(|cell| !cell.is_empty())
                .take(3)
                .collect::<Vec<_>>()
                .join("|")
        };
        table.lines().skip(1).map(first).collect()
    };
    assert_eq!(
        names(world.say("node list").await),
        ["n1|Ready|ml", "n2|Ready|-", "n10|Ready|vision < ml"]
    );
    assert_eq!(
        names(world.say("node ls --locked -l zone=b -o wide").await),
        ["n10|Ready|vision < ml"]
    );
    assert_eq!(world.say("node list -q ml -o name").await, "node/n1\nnode/n10\n");
    let list: Value = serde_json::from_str(&world.say("node list -q vision -o json").await).unwrap();
    assert_eq!(
        (list["kind"].as_str(), list["items"][0]["metadata"]["name"].as_str()),
        (Some("List"), Some("n10"))
    );
    assert!(world.say("node list -o yaml").await.contains("kind: Node"));
    assert_eq!(
        world.run(&["node", "list", "-q", "nobody"]).await.2,
        "No resources found\n"
    );

    let view = world.say("queue view vision").await;
    for line in [
        "Reservation:  waiting for 2 pods to end\n",
        "Reserved:     cpu=8\n",
        "Locked nodes: 1: n10\n",
        "Idle there:   cpu=5\n",
    ] {
        assert!(view.contains(line), "{view}");
    }
    let tree = world.say("queue tree").await;
    assert!(
        tree.contains("waiting for 2 pods to end") && tree.contains("2 nodes"),
        "{tree}"
    );
    let tree: Value = serde_json::from_str(&world.say("queue tree -o json").await).unwrap();
    assert_eq!(tree["queues"][0]["reservation"], Value::Null);
    assert_eq!(
        tree["queues"][1]["reservation"],
        json!({"target": {"cpu": "8"}, "nodes": ["n1", "n10"], "idle": {"cpu": "5"}, "used": {"cpu": "1"}, "waitingFor": 0, "met": true, "reason": "Met"})
    );
}
