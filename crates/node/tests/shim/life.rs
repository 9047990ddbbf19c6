//! Init containers, sidecars, restarts, deadlines.

use std::time::{Duration, Instant};

use basalt_node::local::plan::{ContainerPlan, Restart};
use basalt_node::local::state::Now;

use crate::rig::{Rig, ended, main_ended, processes_with, shell};

/// A line of shell under another name.
fn named(name: &str, line: &str) -> ContainerPlan {
    ContainerPlan {
        name: name.to_owned(),
        ..shell(line)
    }
}

fn sidecar(name: &str, line: &str) -> ContainerPlan {
    ContainerPlan {
        sidecar: true,
        ..named(name, line)
    }
}

/// All containers write into one file of the scratch folder that they share.
fn trace(rig: &Rig) -> Vec<String> {
    let text = std::fs::read_to_string(rig.folder.scratch().join("work/trace")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// Init containers and main ones: what they did in order, and whether the pod ended well.
async fn check_order(
    restart: Restart,
    init: Vec<ContainerPlan>,
    mains: Vec<ContainerPlan>,
    expected: &[&str],
    good: bool,
) {
    let mut rig = Rig::new(mains);
    (rig.plan.init, rig.plan.restart) = (init, restart);
    let state = rig.run().await;
    assert_eq!(trace(&rig), expected, "{state:#?} {}", rig.complaints());
    assert_eq!(state.over.unwrap().succeeded, good);
    assert_eq!(state.initialized, expected.contains(&"main"));
}

#[tokio::test]
async fn init_containers_come_first_and_in_order() {
    let main = || vec![shell("echo main >> trace")];
    let good = |name: &str| named(name, &format!("sleep 0.02; echo {name} >> trace"));
    let bad = || named("bad", "echo bad >> trace; exit 1");
    let flaky = || named("flaky", "echo flaky >> trace; test $(grep -c flaky trace) = 3");
    check_order(
        Restart::Never,
        vec![good("a"), good("b")],
        main(),
        &["a", "b", "main"],
        true,
    )
    .await;
    check_order(
        Restart::Never,
        vec![good("a"), bad(), good("b")],
        main(),
        &["a", "bad"],
        false,
    )
    .await;
    let thrice = ["a", "flaky", "flaky", "flaky", "main"];
    check_order(Restart::OnFailure, vec![good("a"), flaky()], main(), &thrice, true).await;
    check_order(Restart::Never, vec![flaky()], main(), &["flaky"], false).await;
}

#[tokio::test]
async fn a_sidecar_is_there_before_and_after() {
    // It says when it begins and when it is told to go, is started again when it ends, and does not count at the end.
    let line = "trap 'echo told >> trace; exit 9' TERM; echo begin >> trace; while :; do sleep 0.01; done";
    let wait = "while ! grep -q begin trace; do sleep 0.01; done; echo main >> trace";
    check_order(
        Restart::Never,
        vec![sidecar("side", line)],
        vec![shell(wait)],
        &["begin", "main", "told"],
        true,
    )
    .await;
    let twice = "echo begin >> trace; test $(grep -c begin trace) = 1 || sleep 4301";
    let wait = "while [ $(grep -c begin trace) != 2 ]; do sleep 0.01; done; echo main >> trace";
    check_order(
        Restart::Never,
        vec![sidecar("side", twice)],
        vec![shell(wait)],
        &["begin", "begin", "main"],
        true,
    )
    .await;
    assert_eq!(processes_with("4301"), Vec::<u32>::new());
}

#[tokio::test]
async fn a_stop_while_initializing_starts_nothing_more() {
    let mut rig = Rig::new(vec![shell("echo main >> trace")]);
    rig.plan.init = vec![sidecar("side", "sleep 4302"), named("slow", "sleep 4302")];
    rig.start();
    rig.running("slow").await;
    rig.order(10);
    let state = rig.finish().await;
    assert_eq!(trace(&rig), Vec::<String>::new());
    assert!(!state.over.unwrap().succeeded);
    assert_eq!(processes_with("4302"), Vec::<u32>::new());
    let main = state.containers.get("main").unwrap();
    assert!(
        matches!(&main.now, Now::Waiting { reason, .. } if reason == "PodInitializing"),
        "{main:?}"
    );
}

/// How often a container ran, and how it ended.
async fn check_restarts(restart: Restart, line: &str, restarts: u32, exit_code: i32) {
    let mut rig = Rig::new(vec![shell(line)]);
    rig.plan.restart = restart;
    let state = rig.run().await;
    let main = state.containers.get("main").unwrap();
    assert_eq!(
        (main.restarts, ended(main).exit_code),
        (restarts, exit_code),
        "{line} {main:?}"
    );
    assert_eq!(main.last.is_some(), restarts > 0, "{main:?}");
    let logs: Vec<bool> = (0..=restarts).map(|run| rig.folder.log("main", run).exists()).collect();
    let expected: Vec<bool> = (0..=restarts).map(|run| run + 1 >= restarts).collect();
    assert_eq!(logs, expected, "the logs of this run and the one before are kept");
}

#[tokio::test]
async fn restarts_follow_the_policy() {
    let third = "echo x >> trace; test $(wc -l < trace) = 3";
    check_restarts(Restart::OnFailure, third, 2, 0).await;
    check_restarts(Restart::Never, third, 0, 1).await;
    check_restarts(Restart::OnFailure, "exit 0", 0, 0).await;
}

#[tokio::test]
async fn a_container_that_crashes_waits_longer_each_time() {
    let mut rig = Rig::new(vec![shell("echo x >> trace; exit 4")]);
    (rig.plan.restart, rig.plan.backoff_ms) = (Restart::Always, (30, 60));
    let begin = Instant::now();
    rig.start();
    let message = rig
        .until("a fifth run", |state| {
            let main = state.containers.get("main")?;
            match &main.now {
                Now::Waiting { reason, message } if main.restarts == 4 && reason == "CrashLoopBackOff" => {
                    Some(message.clone())
                }
                _ => None,
            }
        })
        .await;
    // 0, 30, 60 and 60 milliseconds lie between five runs.
    assert!(begin.elapsed() >= Duration::from_millis(150), "{:?}", begin.elapsed());
    assert!(
        message.contains("back-off 0.06s") && message.contains("until 2"),
        "{message}"
    );
    rig.order(5);
    let state = rig.finish().await;
    assert_eq!(main_ended(&state).exit_code, 4);
    assert!(trace(&rig).len() >= 5);
    assert!(rig.reasons().await.contains(&"BackOff".to_owned()));
}

#[tokio::test]
async fn the_first_restart_is_at_once() {
    let mut rig = Rig::new(vec![shell("echo x >> trace; test $(wc -l < trace) = 2")]);
    (rig.plan.restart, rig.plan.backoff_ms) = (Restart::OnFailure, (600_000, 600_000));
    let state = rig.run().await;
    let main = state.containers.get("main").unwrap();
    assert_eq!((main.restarts, ended(main).exit_code), (1, 0), "{main:?}");
    assert_eq!(main.last.as_ref().map(|last| last.exit_code), Some(1), "{main:?}");
    assert!(!rig.reasons().await.contains(&"BackOff".to_owned()));
}

#[tokio::test]
async fn a_deadline_ends_the_pod() {
    let mut rig = Rig::new(vec![shell(
        "trap 'echo told >> trace; exit 0' TERM; while :; do sleep 0.01; done",
    )]);
    rig.plan.deadline = Some(jiff::Timestamp::now() + Duration::from_millis(300));
    let state = rig.run().await;
    let over = state.over.unwrap();
    assert_eq!((over.succeeded, over.reason.as_str()), (false, "DeadlineExceeded"));
    assert_eq!(trace(&rig), ["told"]);
}

#[tokio::test]
async fn a_signal_to_the_shim_is_an_order() {
    let mut rig = Rig::new(vec![shell(
        "trap 'echo told >> trace; exit 0' TERM; while :; do sleep 0.01; done",
    )]);
    rig.start();
    rig.running("main").await;
    let shim = rig.state().unwrap().shim;
    tokio::time::sleep(Duration::from_millis(100)).await;
    shim.signal(rustix::process::Signal::TERM).unwrap();
    let state = rig.finish().await;
    assert_eq!(
        (main_ended(&state).exit_code, trace(&rig)),
        (0, vec!["told".to_owned()])
    );
}
