//! Anything may happen to a Job, in any order, and the controllers may die after any write: when it is over, everything is as it should be.

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::script::{Stage, task, with};

/// Two tasks with a policy for everything.
fn spec(failed: &str, evicted: &str) -> Value {
    let policies = json!([
        {"event": "PodFailed", "action": failed},
        {"event": "PodEvicted", "action": evicted},
        {"exitCode": 7, "action": "RestartTask"},
    ]);
    let workers = with(
        task("w", 3),
        &json!({"partitionPolicy": {"totalPartitions": 3, "partitionSize": 1}, "policies": [{"event": "TaskCompleted", "action": "SyncJob"}]}),
    );
    json!({"minAvailable": 2, "maxRetry": 4, "tasks": [task("m", 1), workers], "policies": policies})
}

/// One line of the script, from four random numbers; nothing where it cannot be.
fn line(stage: &Stage, (what, which, number, _): (u8, usize, u8, u8)) -> Option<String> {
    let pods = stage.pod_names(false);
    let pod = || pods.get(which.checked_rem(pods.len())?).cloned();
    let lives = |pod: &String| stage.lives(pod);
    Some(match what {
        0 | 1 => "run".to_owned(),
        2 => "let-in".to_owned(),
        3 => "reap".to_owned(),
        4 => format!("fail {} {}", pod().filter(lives)?, if number % 3 == 0 { 7 } else { 1 }),
        5 => format!("succeed {}", pod().filter(lives)?),
        6 => format!("evict {}", pod()?),
        7 => format!("gone {}", pod()?),
        8 => format!("scale w {} 1", number % 6),
        9 => format!("scale m {} 1", 1 + number % 2),
        10 => {
            let actions = ["AbortJob", "ResumeJob", "RestartJob", "SyncJob", "ResumeJob"];
            format!("command {}", actions[usize::from(number) % actions.len()])
        }
        11 => "group Unknown".to_owned(),
        12 => "down".to_owned(),
        _ => "up".to_owned(),
    })
}

/// Nothing more happens but what nodes and the scheduler do by themselves.
fn calm(stage: &mut Stage) {
    stage.line("up");
    for _ in 0..8 {
        for line in ["reap", "let-in", "run"] {
            stage.line(line);
        }
    }
}

fn judge(stage: &mut Stage, story: &[String]) {
    let status = stage.job()["status"].clone();
    let phase = status["state"]["phase"].as_str().unwrap_or_default().to_owned();
    let replicas: Vec<(String, i64)> = stage.job()["spec"]["tasks"]
        .as_array()
        .expect("tasks")
        .iter()
        .map(|task| {
            (
                task["name"].as_str().expect("a name").to_owned(),
                task["replicas"].as_i64().unwrap_or(0),
            )
        })
        .collect();
    let mut wanted: Vec<String> = replicas
        .iter()
        .flat_map(|(task, n)| (0..*n).map(move |i| format!("{task}-{i}")))
        .collect();
    wanted.sort_unstable();
    let pods = stage.pod_names(false);
    let living = pods.iter().filter(|pod| stage.lives(pod)).count();
    match phase.as_str() {
        "Pending" | "Running" => {
            assert_eq!(pods, wanted, "{phase} after {story:?}");
            assert_eq!(stage.cluster.names("PodGroup").len(), 1, "after {story:?}");
        }
        "Aborted" | "Failed" | "Completed" => {
            assert_eq!(
                (living, stage.cluster.names("PodGroup").len()),
                (0, 0),
                "{phase} after {story:?}"
            );
        }
        other => panic!("{other} is not a place to rest, after {story:?}"),
    }
    assert_eq!(
        status["running"].as_u64().unwrap_or(0),
        living as u64,
        "{phase} after {story:?}"
    );
    assert!(status["retryCount"].as_i64().unwrap_or(0) <= 4, "after {story:?}");
    assert_eq!(stage.cluster.names("Command"), [""; 0], "after {story:?}");
    assert!(status["restarts"].is_null(), "{status} after {story:?}");
    let writes = stage.cluster.log.len();
    stage.line("down");
    stage.line("up");
    assert_eq!(
        stage.cluster.log.len(),
        writes,
        "a restart at rest writes nothing; after {story:?}: {:?}",
        stage.cluster.log
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]
    #[test]
    fn whatever_happens_to_a_job_it_comes_to_rest_whole(
        (failed, evicted) in (0_usize..4, 0_usize..4),
        steps in prop::collection::vec((0_u8..14, any::<usize>(), any::<u8>(), 0_u8..6), 1..24),
    ) {
        let actions = ["RestartJob", "RestartPod", "RestartTask", "RestartPartition"];
        let mut stage = Stage::new(&spec(actions[failed], actions[evicted]), None);
        let mut story = Vec::new();
        for step in steps {
            let Some(line) = line(&stage, step) else { continue };
            if step.3 == 0 {
                stage.cluster.crash_after = Some(stage.cluster.log.len() + 1 + usize::from(step.2 % 5));
            }
            stage.line(&line);
            story.push(line);
        }
        stage.cluster.crash_after = None;
        calm(&mut stage);
        judge(&mut stage, &story);
    }
}
