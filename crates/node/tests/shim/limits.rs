//! Bounds that the kernel keeps, and what happens beyond them.

use std::path::Path;

use basalt_node::local::plan::{CgroupVersion, Limits};

use crate::rig::{Rig, main_ended, shell};

/// Whether this machine lets the test bound something by this file.
fn bounded(rig: &Rig, v1: &str, v2: &str) -> bool {
    rig.plan.isolation.cgroups.iter().any(|cgroup| {
        // Looked up in the folder above, which a file of limits has too unless it is the root of version 2.
        let file = if cgroup.version == CgroupVersion::V1 { v1 } else { v2 };
        let above = cgroup.folder.parent().unwrap_or(Path::new("/"));
        std::fs::create_dir_all(above).is_ok() && above.join(file).exists()
    })
}

#[tokio::test]
async fn memory_beyond_the_limit_is_told() {
    let python = "python3 -c 'x = bytearray(300_000_000); print(len(x))'";
    for of_pod in [true, false] {
        let mut rig = Rig::new(vec![shell(&format!("exec {python}"))]);
        if !bounded(&rig, "memory.limit_in_bytes", "memory.max") {
            return;
        }
        let limits = Limits {
            memory_bytes: Some(60_000_000),
            ..Limits::default()
        };
        if of_pod {
            rig.plan.limits = limits;
        } else {
            rig.plan.containers.first_mut().unwrap().limits = limits;
        }
        let state = rig.run().await;
        let ended = main_ended(&state);
        let found = (ended.exit_code, ended.signal, ended.reason.as_str());
        assert_eq!(
            found,
            (137, Some(9), "OOMKilled"),
            "pod {of_pod}: {ended:?} {:?}",
            rig.log("main", 0)
        );
    }
}

#[tokio::test]
async fn processes_beyond_the_limit_are_refused() {
    let line = "for i in 1 2 3 4 5 6 7 8 9 10; do sleep 0.2 & done; wait; echo done";
    let mut rig = Rig::new(vec![shell(line)]);
    if !bounded(&rig, "pids.max", "pids.max") {
        return;
    }
    rig.plan.containers.first_mut().unwrap().limits.processes = Some(5);
    let state = rig.run().await;
    assert_ne!(main_ended(&state).exit_code, 0, "{state:?}");
    let complaints = rig.log("main", 0).remove("stderr").unwrap_or_default();
    assert!(complaints.iter().any(|line| line.contains("fork")), "{complaints:?}");
}

#[tokio::test]
async fn processor_time_is_bounded() {
    let mut rig = Rig::new(vec![shell("cat $FILES")]);
    let plan = rig.plan.containers.first_mut().unwrap();
    plan.limits = Limits {
        cpu_millis: Some(250),
        cpu_request_millis: Some(500),
        ..Limits::default()
    };
    if !bounded(&rig, "cpu.cfs_quota_us", "cpu.max") {
        return;
    }
    let (mut files, mut expected) = (Vec::new(), Vec::new());
    for cgroup in &rig.plan.isolation.cgroups {
        let wanted = match cgroup.version {
            CgroupVersion::V1 => [("cpu.cfs_quota_us", "25000"), ("cpu.shares", "512")],
            CgroupVersion::V2 => [("cpu.max", "25000 100000"), ("cpu.weight", "20")],
        };
        let above = cgroup.folder.parent().unwrap();
        for (file, value) in wanted.into_iter().filter(|(file, _)| above.join(file).exists()) {
            files.push(cgroup.folder.join("main").join(file).display().to_string());
            expected.push(value);
        }
    }
    let plan = rig.plan.containers.first_mut().unwrap();
    plan.env.push(("FILES".to_owned(), files.join(" ")));
    rig.run().await;
    assert_eq!(rig.output(), expected);
}

#[tokio::test]
async fn a_fork_bomb_ends_with_its_pod() {
    let line = "bomb() { bomb | bomb & }; trap '' TERM; echo ready; bomb; while :; do sleep 1; done";
    let mut rig = Rig::new(vec![shell(line)]);
    if !bounded(&rig, "pids.max", "pids.max") {
        return;
    }
    rig.plan.containers.first_mut().unwrap().limits.processes = Some(60);
    rig.start();
    rig.running("main").await;
    rig.until_output("ready").await;
    rig.order(0);
    assert_eq!(main_ended(&rig.finish().await).exit_code, 137);
}

#[tokio::test]
async fn a_disk_that_is_full_does_not_hold_the_pod() {
    // A folder in place of the log's file refuses every write as a full disk does.
    let mut rig = Rig::new(vec![shell("head -c 1000000 /dev/zero | tr '\\0' x; echo end; exit 3")]);
    std::fs::create_dir_all(rig.folder.log("main", 0)).unwrap();
    let state = rig.run().await;
    assert_eq!(main_ended(&state).exit_code, 3);
    assert!(rig.complaints().contains("output is dropped"), "{}", rig.complaints());
}

#[tokio::test]
async fn a_machine_that_cannot_fork_is_told() {
    // The shim itself may have one process: the init container is in cgroups of its own, the next stage is not yet.
    let mut rig = Rig::new(vec![shell("exit 0")]);
    let Some(cgroup) = rig.plan.isolation.cgroups.iter().find(|cgroup| {
        let above = cgroup.folder.parent().unwrap();
        std::fs::create_dir_all(above).is_ok() && above.join("pids.max").exists()
    }) else {
        return;
    };
    let narrow = cgroup.folder.with_extension("shim");
    rig.plan.init = vec![basalt_node::local::plan::ContainerPlan {
        name: "init".to_owned(),
        ..shell("while ! test -e go; do sleep 0.01; done")
    }];
    rig.start();
    rig.running("init").await;
    std::fs::create_dir(&narrow).unwrap();
    std::fs::write(narrow.join("pids.max"), "1").unwrap();
    std::fs::write(narrow.join("cgroup.procs"), rig.state().unwrap().shim.pid.to_string()).unwrap();
    std::fs::write(rig.folder.scratch().join("work/go"), "").unwrap();
    let state = rig.finish().await;
    std::fs::remove_dir(&narrow).unwrap();
    let ended = main_ended(&state);
    assert_eq!(
        (ended.exit_code, ended.reason.as_str()),
        (128, "StartError"),
        "{ended:?}"
    );
    assert!(ended.message.contains("Resource temporarily unavailable"), "{ended:?}");
}

#[tokio::test]
async fn a_state_that_cannot_be_written_is_written_later() {
    // A folder in the way of the draft refuses it as a full disk does.
    let mut rig = Rig::new(vec![shell(
        "echo ready; while ! test -e go; do sleep 0.01; done; exit 3",
    )]);
    rig.start();
    rig.until_output("ready").await;
    rig.running("main").await;
    let draft = rig.folder.path().join("state.json.new");
    std::fs::create_dir(&draft).unwrap();
    std::fs::write(rig.folder.scratch().join("work/go"), "").unwrap();
    let begin = std::time::Instant::now();
    while !rig.complaints().contains("tried again until") {
        assert!(begin.elapsed() < crate::rig::LONG, "{}", rig.complaints());
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    std::fs::remove_dir(&draft).unwrap();
    assert_eq!(main_ended(&rig.finish().await).exit_code, 3);
}
