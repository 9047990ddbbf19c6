//! Commands against the real API server, in memory and in this process.

mod jobs;
mod logs;
mod reservations;
mod scripted;
mod world;

use kube::api::{Api, PostParams};
use serde_json::{Value, json};
use world::World;

#[tokio::test]
async fn queues_are_created_and_listed() {
    let world = World::new().await;
    world.good(&["queue", "create", "root"]).await;
    assert_eq!(
        world
            .good(&["queue", "create", "--name", "myqueue", "--weight", "10"])
            .await,
        "create queue myqueue successfully\n"
    );
    let name = world.good(&["queue", "create", "other", "-o", "name"]).await;
    assert_eq!(name, "queue.scheduling.volcano.sh/other\n");
    let err = world.bad(1, &["queue", "create", "other"]).await;
    assert_eq!(
        err,
        "error: cannot create queue other: it exists already\nhint: choose another name, or delete it first\n"
    );
    let table = world.good(&["queue", "list"]).await;
    let first_columns = |line: &str| line.split_whitespace().take(3).collect::<Vec<_>>().join(" ");
    let rows: Vec<String> = table.lines().map(first_columns).collect();
    assert_eq!(rows, ["Name Weight Total", "myqueue 10 0", "other 1 0", "root 1 0"]);
    let list: Value = serde_json::from_str(&world.good(&["queue", "list", "-o", "json"]).await).unwrap();
    assert_eq!(
        (list["kind"].as_str(), list["items"][0]["kind"].as_str()),
        (Some("List"), Some("Queue"))
    );
    assert_eq!(list["items"][0]["spec"]["weight"], 10);
}

#[tokio::test]
async fn jobs_run_are_listed_and_deleted() {
    let world = World::new().await;
    world.good(&["queue", "create", "root"]).await;
    world.good(&["queue", "create", "default"]).await;
    assert_eq!(
        world.run(&["job", "list"]).await,
        (0, String::new(), "No resources found\n".to_owned())
    );
    let empty: Value = serde_json::from_str(&world.good(&["job", "list", "-o", "json"]).await).unwrap();
    assert_eq!(empty["items"], json!([]));
    let said = world
        .good(&["job", "run", "--name", "hello", "-r", "3", "-m", "2"])
        .await;
    assert_eq!(
        said,
        "run job hello successfully in queue default; `vcctl job view hello -n default` shows how it goes\n"
    );
    let made: Value = serde_json::from_str(&world.good(&["job", "run", "-N", "again", "-o", "json"]).await).unwrap();
    assert_eq!(made["metadata"]["name"], "again");
    assert!(world.good(&["job", "list"]).await.contains("hello"));
    assert_eq!(
        world
            .good(&["job", "list", "-o", "name", "-q", "default"])
            .await
            .lines()
            .count(),
        2
    );
    assert_eq!(
        world
            .good(&["job", "list", "-o", "name", "--selector", "job.volcano.sh=hello"])
            .await,
        "job.batch.volcano.sh/hello\n"
    );
    assert_eq!(
        world.good(&["job", "delete", "hello", "--wait"]).await,
        "delete job hello successfully\n"
    );
    let err = world.bad(1, &["job", "delete", "-N", "hello"]).await;
    assert_eq!(
        err,
        "error: job default/hello not found\nhint: `vcctl job list` shows what there is\n"
    );
    let (code, out, err) = world.run(&["job", "delete", "again", "nobody"]).await;
    assert_eq!((code, out.as_str()), (1, "delete job again successfully\n"));
    assert!(
        err.starts_with("error: job default/nobody not found\n") && err.ends_with("error: 1 of 2 failed\n"),
        "{err}"
    );
}

#[tokio::test]
async fn jobs_run_from_files() {
    let world = World::new().await;
    world.good(&["queue", "create", "root"]).await;
    world.good(&["queue", "create", "default"]).await;
    let job = |name: &str, extra: &str| {
        format!(
            "apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nmetadata: {{name: {name}}}\nspec:\n  minAvailable: 1\n{extra}  tasks:\n  - name: a\n    replicas: 1\n    template:\n      spec:\n        restartPolicy: Never\n        containers: [{{name: c, image: busybox}}]\n"
        )
    };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("jobs.yaml");
    let path = file.to_str().unwrap();
    std::fs::write(&file, format!("{}---\n{}", job("one", ""), job("two", ""))).unwrap();
    assert_eq!(
        world
            .good(&["job", "run", "-f", path, "-o", "name"])
            .await
            .lines()
            .count(),
        2
    );
    // The first exists; the third is new and still gets its turn.
    std::fs::write(&file, format!("{}---\n{}", job("one", ""), job("three", ""))).unwrap();
    let (code, out, err) = world.run(&["job", "run", "-f", path]).await;
    assert_eq!((code, out.lines().count()), (1, 1), "{err}");
    assert!(out.starts_with("run job three successfully"), "{out}");
    // A misspelt field is refused, with its name.
    std::fs::write(&file, job("four", "  minAvailabel: 1\n")).unwrap();
    let err = world.bad(1, &["job", "run", "-f", path]).await;
    assert!(err.contains("minAvailabel"), "{err}");
}

#[tokio::test]
async fn refusals_and_wrong_usage_are_told_apart() {
    let world = World::new().await;
    let err = world.bad(1, &["job", "run", "-N", "a", "-n", "nowhere"]).await;
    assert!(err.contains("nowhere"), "{err}");
    let err = world.bad(2, &["job", "run", "-N", "Not_A_Name"]).await;
    assert!(err.contains("Not_A_Name"), "{err}");
    world.bad(2, &["job", "run"]).await;
    world.bad(2, &["nonsense"]).await;
    assert!(world.good(&["job", "run", "--help"]).await.contains("Examples:"));
}

/// The server's refusals are tested elsewhere; here only what the words of the command line do.
async fn tree() -> World {
    let world = World::new().await;
    for line in [
        "queue create root",
        "queue create default",
        "queue create ml -w 2 --deserved cpu=8,memory=8Gi --capability cpu=16",
        "queue create vision --parent ml --deserved cpu=4",
        "queue create nlp --parent ml",
    ] {
        world.say(line).await;
    }
    world
}

#[tokio::test]
async fn queues_are_changed_by_patches() {
    let world = tree().await;
    assert_eq!(
        world
            .say("queue update ml --weight 5 --capability cpu=20,nvidia.com/gpu=1 --deserved memory-")
            .await,
        "update queue ml successfully\n"
    );
    let spec = world.queue("ml").await["spec"].take();
    assert_eq!((&spec["weight"], &spec["state"]), (&json!(5), &json!("Open")));
    assert_eq!(spec["capability"], json!({"cpu": "20", "nvidia.com/gpu": "1"}));
    assert_eq!(spec["deserved"], json!({"cpu": "8"}));
    world
        .say("queue update -n ml --capability none --state closed -o name")
        .await;
    let spec = world.queue("ml").await["spec"].take();
    assert_eq!((&spec["capability"], &spec["state"]), (&Value::Null, &json!("Closed")));
    assert_eq!(
        world.say("queue operate -a update -n ml -w 9").await,
        "update queue ml successfully\n"
    );
    assert_eq!(
        world.say("queue operate --action open --name ml").await,
        "open queue ml successfully\n"
    );
    let spec = world.queue("ml").await["spec"].take();
    assert_eq!((&spec["weight"], &spec["state"]), (&json!(9), &json!("Open")));
    for line in [
        &["queue", "update", "ml"][..],
        &["queue", "operate", "-a", "update", "-n", "ml"],
    ] {
        let err = world.bad(2, line).await;
        assert!(err.starts_with("error: ") && err.contains("hint: --help"), "{err}");
    }
    let err = world.bad(1, &["queue", "update", "nobody", "-w", "2"]).await;
    assert_eq!(
        err,
        "error: queue nobody not found\nhint: `vcctl queue list` shows what there is\n"
    );
}

#[tokio::test]
async fn several_queues_are_opened_and_closed_and_all_are_tried() {
    let world = tree().await;
    let (code, out, err) = world.run(&["queue", "close", "vision", "nobody", "nlp"]).await;
    assert_eq!(
        (code, out.as_str()),
        (1, "close queue vision successfully\nclose queue nlp successfully\n")
    );
    assert!(
        err.starts_with("error: queue nobody not found\n") && err.ends_with("error: 1 of 3 failed\n"),
        "{err}"
    );
    assert_eq!(world.queue("nlp").await["spec"]["state"], "Closed");
    let list: Value = serde_json::from_str(&world.say("queue open vision nlp -o json").await).unwrap();
    assert_eq!(
        (&list["kind"], &list["items"][1]["spec"]["state"]),
        (&json!("List"), &json!("Open"))
    );
    world.say("queue operate -a close -n ml").await;
    let (code, out, err) = world.run(&["queue", "open", "--name", "nlp"]).await;
    assert_eq!((code, out.as_str()), (0, "open queue nlp successfully\n"));
    assert_eq!(
        err,
        "Warning: queue nlp stays closed while ml above it is: `vcctl queue open ml`\n"
    );
    let (code, out, err) = world.run(&["queue", "delete", "default", "nobody"]).await;
    assert_eq!((code, out.as_str()), (1, ""));
    assert!(err.ends_with("error: 2 of 2 failed\n"), "{err}");
    world.bad(2, &["queue", "open"]).await;
    world.bad(2, &["queue", "delete", "a/status"]).await;
    world.bad(2, &["queue", "operate", "-a", "stop", "-n", "ml"]).await;
}

#[tokio::test]
async fn queues_are_viewed_with_their_children_and_events() {
    let world = tree().await;
    let event = json!({
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": "ml.1", "namespace": "default"}, "type": "Normal",
        "involvedObject": {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "name": "ml"},
        "reason": "Opened", "message": "takes new jobs", "lastTimestamp": "2026-11-15T10:00:00Z",
    });
    let event: k8s_openapi::api::core::v1::Event = serde_json::from_value(event).unwrap();
    let events: Api<k8s_openapi::api::core::v1::Event> = Api::namespaced(world.client.clone(), "default");
    events.create(&PostParams::default(), &event).await.expect("an event");
    let text = world.say("queue describe ml").await;
    for part in [
        "Children:     nlp, vision",
        "takes new jobs",
        "Wanted state: Open",
        "Weight:       2",
        "cpu ",
    ] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
    for word in ["view", "get"] {
        assert_eq!(
            world.good(&["queue", word, "-n", "ml"]).await.lines().next(),
            Some("Name:         ml")
        );
    }
    assert!(world.say("queue view ml -o wide").await.starts_with("Name   Weight"));
    assert!(world.say("queue view ml -o yaml").await.contains("\nkind: Queue\n"));
    assert_eq!(
        world.say("queue view ml -o name").await,
        "queue.scheduling.volcano.sh/ml\n"
    );
    world.bad(1, &["queue", "view", "nobody"]).await;
    world.bad(2, &["queue", "view"]).await;
}

#[tokio::test]
async fn the_tree_is_shown() {
    let world = tree().await;
    let drawn = world.say("queue tree").await;
    let names: Vec<&str> = drawn
        .lines()
        .map(|line| line.get(..13).unwrap_or(line).trim_end())
        .collect();
    assert_eq!(
        names,
        ["Name", "root", "  default", "  ml", "    nlp", "    vision"],
        "{drawn}"
    );
    assert!(drawn.lines().skip(1).all(|line| line.chars().count() == 100), "{drawn}");
    let data: Value = serde_json::from_str(&world.say("queue tree ml -o json").await).unwrap();
    assert_eq!(data["queues"][0]["children"], json!(["nlp", "vision"]));
    assert_eq!(data["queues"][2]["deserved"], json!({"cpu": "4"}));
    assert_eq!(data["queues"].as_array().map(Vec::len), Some(3));
    assert_eq!(
        world.say("queue tree --name vision -o name").await,
        "queue.scheduling.volcano.sh/vision\n"
    );
    let (code, _, err) = world.run(&["queue", "tree", "-r", "moons"]).await;
    assert_eq!((code, err.as_str()), (0, "Warning: no queue has any moons\n"));
    world.bad(1, &["queue", "tree", "nobody"]).await;
    let children = world.say("queue children ml -o name").await;
    assert_eq!(
        children,
        "queue.scheduling.volcano.sh/nlp\nqueue.scheduling.volcano.sh/vision\n"
    );
    assert_eq!(
        world.run(&["queue", "children", "-n", "nlp"]).await,
        (0, String::new(), "No resources found\n".to_owned())
    );
    world.bad(1, &["queue", "children", "nobody"]).await;
}

#[tokio::test]
async fn completion_and_version_need_no_server() {
    let world = World::new().await;
    for shell in ["bash", "zsh", "fish"] {
        let script = world.good(&["completion", shell]).await;
        assert!(script.contains("children") && script.contains("vcctl"), "{shell}");
    }
    assert!(
        world
            .good(&["version"])
            .await
            .contains("scheduling.volcano.sh/v1beta1 Queue")
    );
}
