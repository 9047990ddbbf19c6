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
