//! How pods end: by themselves, by order, by accident.

use std::time::Instant;

use basalt_node::local::process::Stat;
use basalt_node::local::shim;
use basalt_node::local::state::{Now, ProcessId};
use basalt_node::local::talk::FromShim;

use crate::rig::{self, Rig, container, main_ended, processes_with, shell};

/// Exit code, reason, and a part of the message.
async fn check_end(mut rig: Rig, exit_code: i32, reason: &str, message: &str) {
    let what = rig.plan.containers.first().unwrap().command.clone();
    let state = rig.run().await;
    let ended = main_ended(&state);
    assert_eq!(
        (ended.exit_code, ended.reason.as_str()),
        (exit_code, reason),
        "{what:?}: {ended:?}"
    );
    assert!(ended.message.contains(message), "{what:?}: {ended:?}");
    let over = state.over.as_ref().unwrap();
    assert_eq!(over.succeeded, exit_code == 0, "{what:?}");
    assert!(ended.began <= ended.ended);
    // What was said last is what the file says.
    let mut last = None;
    while let Some(heard) = rig.heard.recv().await {
        if let FromShim::State(state) = heard {
            last = Some(*state);
        }
    }
    assert_eq!(last.as_ref(), Some(&state), "{what:?}");
}

#[tokio::test]
async fn exits_are_told() {
    for (line, exit_code, reason) in [
        ("exit 0", 0, "Completed"),
        ("exit 3", 3, "Error"),
        ("kill -TERM $$", 143, "Error"),
        ("kill -KILL $$", 137, "Error"),
    ] {
        check_end(Rig::new(vec![shell(line)]), exit_code, reason, "").await;
    }
}

#[tokio::test]
async fn what_cannot_be_run_says_why() {
    for (command, exit_code, message) in [
        ("/no/such/program", 127, "/no/such/program: no such file"),
        ("no-such-program", 127, "not found in PATH"),
        ("/etc/passwd", 126, "not executable"),
        ("/etc", 126, "is a folder"),
    ] {
        check_end(
            Rig::new(vec![container("main", &[command])]),
            exit_code,
            "ContainerCannotRun",
            message,
        )
        .await;
    }
}

#[tokio::test]
async fn output_is_kept_by_stream() {
    let mut rig = Rig::new(vec![shell("echo one; echo two >&2; printf three")]);
    rig.run().await;
    let log = rig.log("main", 0);
    assert_eq!(log.get("stdout").unwrap(), &["one", "three"]);
    assert_eq!(log.get("stderr").unwrap(), &["two"]);
}

/// A pod that is told to stop while it runs: how it ends, and how long that may take.
async fn check_stop(line: &str, with_cgroups: bool, grace_seconds: u32, exit_code: i32, seconds: std::ops::Range<u64>) {
    let mut rig = Rig::new(vec![shell(line)]);
    if !with_cgroups {
        rig.plan.isolation.cgroups.clear();
    }
    rig.start();
    rig.running("main").await;
    rig.until_output("ready").await;
    let begin = Instant::now();
    rig.order(grace_seconds);
    let state = rig.finish().await;
    let what = format!(
        "{line:?}, cgroups {with_cgroups}, took {:?}: {state:?}",
        begin.elapsed()
    );
    assert_eq!(main_ended(&state).exit_code, exit_code, "{what}");
    assert!(seconds.contains(&begin.elapsed().as_secs()), "{what}");
    let reasons = rig.reasons().await;
    assert!(reasons.contains(&"Killing".to_owned()), "{reasons:?}");
}

#[tokio::test]
async fn a_stop_ends_the_whole_tree() {
    let marks = ["4201.1", "4201.2", "4201.3"];
    for with_cgroups in [true, false] {
        check_stop(
            "trap 'exit 0' TERM; echo ready; while :; do sleep 0.01; done",
            with_cgroups,
            20,
            0,
            0..9,
        )
        .await;
        check_stop("echo ready; exec sleep 4201.1", with_cgroups, 20, 143, 0..9).await;
        check_stop(
            "trap '' TERM; echo ready; while :; do sleep 4201.1; done",
            with_cgroups,
            1,
            137,
            1..9,
        )
        .await;
        check_stop(
            "trap '' TERM; echo ready; while :; do sleep 4201.1; done",
            with_cgroups,
            0,
            137,
            0..9,
        )
        .await;
        // What was left by double forks, in sessions of their own too, and does not care for SIGTERM.
        let daemons =
            "trap '' TERM; (setsid sleep 4201.2 & ) ; (setsid setsid sleep 4201.3 &) ; echo ready; sleep 4201.1";
        check_stop(daemons, with_cgroups, 1, 137, 1..9).await;
        for mark in marks {
            assert_eq!(processes_with(mark), Vec::<u32>::new(), "{mark}");
        }
    }
}

#[tokio::test]
async fn a_pod_runs_without_an_agent_and_calls_one_that_comes_later() {
    let mut rig = Rig::new(vec![shell("echo ready; sleep 4202 & wait")]);
    rig.start_alone();
    rig.running("main").await;
    rig.until_output("ready").await;
    rig.listen();
    let heard = rig.heard.recv().await.unwrap();
    let FromShim::State(state) = heard else {
        panic!("the first line is a state: {heard:?}");
    };
    assert_eq!(Some(*state), rig.state());
    rig.order(0);
    assert_eq!(main_ended(&rig.finish().await).exit_code, 137);
}

#[tokio::test]
async fn a_pod_runs_once() {
    let mut rig = Rig::new(vec![shell("echo ran")]);
    rig.run().await;
    for _ in 0..2 {
        let status = shim::start(rig::program(), &rig.folder).unwrap().wait().await.unwrap();
        assert_eq!(status.code(), Some(i32::from(shim::REFUSED)), "{}", rig.complaints());
    }
    assert_eq!(rig.output(), ["ran"]);
}

#[tokio::test]
async fn what_a_killed_shim_leaves_is_swept() {
    for with_cgroups in [true, false] {
        let mut rig = Rig::new(vec![shell("(setsid sleep 4203 &); echo ready; sleep 4203")]);
        if !with_cgroups {
            rig.plan.isolation.cgroups.clear();
        }
        rig.start();
        rig.running("main").await;
        rig.until_output("ready").await;
        rig.kill_shim().await;
        shim::sweep(&rig.folder).unwrap();
        assert_eq!(processes_with("4203"), Vec::<u32>::new(), "cgroups {with_cgroups}");
        rig.assert_clean();
    }
}

/// The numbers of processes begin anew at each boot, and what has one of them then is not the pod's.
#[tokio::test]
async fn a_sweep_spares_who_only_has_the_same_number() {
    let check = async |change: fn(&mut ProcessId)| {
        let mut rig = Rig::new(vec![shell("exit 0")]);
        rig.plan.isolation.cgroups.clear();
        let mut state = rig.run().await;
        let mut other = tokio::process::Command::new("setsid")
            .args(["sleep", "4204"])
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let pid = other.id().unwrap();
        rig.until("a session", |_| (Stat::of(pid).ok()?.session == pid).then_some(()))
            .await;
        let mut process = ProcessId::of(pid).unwrap();
        change(&mut process);
        state.containers.get_mut("main").unwrap().now = Now::Running {
            process,
            since: jiff::Timestamp::now(),
        };
        std::fs::write(rig.folder.state(), serde_json::to_vec(&state).unwrap()).unwrap();
        shim::sweep(&rig.folder).unwrap();
        assert!(other.try_wait().unwrap().is_none(), "it was killed");
        other.kill().await.unwrap();
    };
    check(|process| process.boot = "another".to_owned()).await;
    check(|process| process.started += 1).await;
}

/// Whoever removes the folder of all pods is rid of them, even if there is another of that name at once.
#[tokio::test]
async fn a_pod_without_a_folder_ends() {
    let check = async |word: &str, again: bool| {
        let mut rig = Rig::new(vec![shell(&format!("sleep {word} & wait"))]);
        rig.start_alone();
        let shim = rig.until("the shim", |state| Some(state.shim.clone())).await;
        rig.running("main").await;
        if again {
            std::fs::rename(rig.folder.path(), rig.folder.path().with_extension("old")).unwrap();
            std::fs::create_dir(rig.folder.path()).unwrap();
        } else {
            std::fs::remove_dir_all(rig.folder.path()).unwrap();
        }
        let begun = Instant::now();
        while shim.alive() || !processes_with(word).is_empty() {
            assert!(begun.elapsed().as_secs() < 30, "the shim lives on");
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    };
    tokio::join!(check("4600", false), check("4601", true));
}
