//! What a container sees: files, names, ids, environment, descriptors.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use basalt_node::local::plan::{ContainerPlan, Mount, User};

use crate::rig::{Rig, is_root, main_ended, shell};

/// What a line of shell prints in a container that is like this.
async fn check_output(line: &str, change: impl FnOnce(&Path, &mut ContainerPlan), expected: &[&str]) {
    let mut rig = Rig::new(vec![shell(line)]);
    let volumes = rig.folder.volume("");
    std::fs::create_dir_all(&volumes).unwrap();
    change(&volumes, rig.plan.containers.first_mut().unwrap());
    let state = rig.run().await;
    assert_eq!(
        rig.output(),
        expected,
        "{line}: {state:#?} {:?} {}",
        rig.log("main", 0),
        rig.complaints()
    );
    assert_eq!(
        main_ended(&state).exit_code,
        0,
        "{line}: {:?} {}",
        main_ended(&state),
        rig.complaints()
    );
}

fn same(_: &Path, _: &mut ContainerPlan) {}

pub(crate) fn mount(source: PathBuf, target: &str, read_only: bool) -> Mount {
    Mount {
        source,
        beneath: None,
        target: PathBuf::from(target),
        read_only,
    }
}

/// A volume with one file in it, that anybody may change.
pub(crate) fn volume(volumes: &Path, name: &str) -> PathBuf {
    let path = volumes.join(name);
    std::fs::create_dir_all(&path).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o777)).unwrap();
    std::fs::write(path.join("file"), format!("in {name}\n")).unwrap();
    path
}

#[tokio::test]
async fn names_and_places() {
    check_output(
        "hostname; cat /etc/hosts | tail -1",
        same,
        &["pod-0", "127.1.2.3 peer.test"],
    )
    .await;
    check_output("pwd; echo x > here && cat $PWD/here", same, &["/srv/pod", "x"]).await;
    check_output(
        "pwd",
        |_, plan| plan.working_folder = Some(PathBuf::from("/usr/bin")),
        &["/usr/bin"],
    )
    .await;
    check_output(
        "umask; ulimit -c; cat /proc/self/oom_score_adj",
        same,
        &["0022", "0", "0"],
    )
    .await;
}

#[tokio::test]
async fn the_environment_is_the_plans_and_nothing_else_comes_along() {
    let env = |_: &Path, plan: &mut ContainerPlan| {
        plan.command = vec!["env".to_owned()];
        plan.env = vec![
            ("PATH".to_owned(), "/usr/bin:/bin".to_owned()),
            ("TEXT".to_owned(), "a b=c $x".to_owned()),
        ];
    };
    check_output("", env, &["PATH=/usr/bin:/bin", "TEXT=a b=c $x"]).await;
    // 3 is the folder that `ls` reads.
    check_output("exec ls /proc/self/fd", same, &["0", "1", "2", "3"]).await;
    check_output("readlink /proc/self/fd/0; wc -c", same, &["/dev/null", "0"]).await;
    // Signals 32 and 33 are the C library's own.
    let line = "for x in Blk Ign; do echo $((0x$(grep Sig$x /proc/self/status | cut -f2) & 0x7fffffff)); done";
    check_output(line, same, &["0", "0"]).await;
}

#[tokio::test]
async fn output_can_be_opened_by_name() {
    let line = "echo a > /dev/stdout; echo b > /dev/stderr && echo c >> /proc/self/fd/1";
    check_output(line, same, &["a", "c"]).await;
}

#[tokio::test]
async fn ids() {
    let as_user = |_: &Path, plan: &mut ContainerPlan| {
        plan.user = Some(User {
            uid: 1234,
            gid: 2345,
            groups: vec![2345, 3456],
        });
    };
    let groups = if is_root() { "2345 3456" } else { "2345" };
    check_output(
        "id -u; id -g; id -G | sed 's/ 65534//g'; touch mine; stat -c '%u %g' mine",
        as_user,
        &["1234", "2345", groups, "1234 2345"],
    )
    .await;
    if is_root() {
        check_output("id -u; id -G", |_, plan| plan.user = None, &["0", "0"]).await;
        check_output(
            "grep -E 'CapEff|NoNewPrivs' /proc/self/status | tr -d '\\t'",
            as_user,
            &["CapEff:0000000000000000", "NoNewPrivs:1"],
        )
        .await;
    }
}

#[tokio::test]
async fn volumes_are_seen_where_they_are_mounted() {
    for target in [
        "/mnt",
        "/basalt-test/deep/er",
        "/srv/new",
        "/usr/share/basalt-test/x",
        "/dev/basalt-test",
        "/tmp",
    ] {
        let line = format!(
            "cat {target}/file; echo new > {target}/new; cat {target}/new; ls /usr/bin/env /dev/null /proc/self/comm"
        );
        let change = |volumes: &Path, plan: &mut ContainerPlan| {
            plan.mounts = vec![mount(volume(volumes, "v"), target, false)];
        };
        check_output(
            &line,
            change,
            &["in v", "new", "/dev/null", "/proc/self/comm", "/usr/bin/env"],
        )
        .await;
        assert!(
            !Path::new(target).join("file").exists(),
            "the machine has not seen {target}"
        );
    }
    for untouched in [
        "/basalt-test",
        "/srv/new",
        "/srv/pod",
        "/usr/share/basalt-test",
        "/dev/basalt-test",
        "/dev/termination-log",
    ] {
        assert!(!Path::new(untouched).exists(), "{untouched}");
    }
}

#[tokio::test]
async fn volumes_within_volumes_and_files() {
    let nested = |volumes: &Path, plan: &mut ContainerPlan| {
        plan.mounts = vec![
            mount(volume(volumes, "outer"), "/basalt-test", false),
            mount(volume(volumes, "inner"), "/basalt-test/a/b", true),
            mount(volume(volumes, "third").join("file"), "/basalt-test/one.txt", true),
            mount(volume(volumes, "fourth").join("file"), "/etc/basalt-test.conf", false),
        ];
    };
    let line = "cd /basalt-test; cat file a/b/file one.txt /etc/basalt-test.conf; echo x > new; \
                (echo x > a/b/new) 2>/dev/null || echo refused; (echo x > one.txt) 2>/dev/null || echo refused; test -e /etc/passwd && echo kept";
    check_output(
        line,
        nested,
        &[
            "in outer",
            "in inner",
            "in third",
            "in fourth",
            "refused",
            "refused",
            "kept",
        ],
    )
    .await;
    let read_only = |volumes: &Path, plan: &mut ContainerPlan| {
        plan.mounts = vec![
            mount(volume(volumes, "v"), "/basalt-test", true),
            mount(volume(volumes, "w"), "/basalt-test/below", false),
        ];
    };
    let line = "cd /basalt-test; cat file below/file; (echo x > new) 2>/dev/null || echo refused; echo x > below/new; cat below/new";
    check_output(line, read_only, &["in v", "in w", "refused", "x"]).await;
}

#[tokio::test]
async fn what_cannot_be_mounted_says_why() {
    let check = async |target: &str, source: &str, expected: &str| {
        let mut rig = Rig::new(vec![shell("exit 0")]);
        let source = if source.is_empty() {
            volume(rig.folder.path(), "v")
        } else {
            PathBuf::from(source)
        };
        rig.plan.containers.first_mut().unwrap().mounts = vec![mount(source, target, false)];
        assert_start_error(rig, expected).await;
    };
    check("relative", "", "must be absolute").await;
    check("/srv/../etc", "", "without `..`").await;
    check("/srv/x", "/no/such/volume", "volume /no/such/volume").await;
    check("/etc/passwd", "", "the volume is a folder and there is a file").await;
    check("/etc", "/etc/passwd", "the volume is a file and there is a folder").await;
}

#[tokio::test]
async fn a_working_folder_that_is_missing_says_so() {
    let mut rig = Rig::new(vec![shell("exit 0")]);
    rig.plan.containers.first_mut().unwrap().working_folder = Some(PathBuf::from("/no/such/folder"));
    assert_start_error(rig, "/no/such/folder").await;
}

/// The container did not begin, and this is part of why.
async fn assert_start_error(mut rig: Rig, expected: &str) {
    let state = rig.run().await;
    let ended = main_ended(&state);
    assert_eq!(
        (ended.exit_code, ended.reason.as_str()),
        (128, "StartError"),
        "{ended:?}"
    );
    assert!(ended.message.contains(expected), "{ended:?}");
}

/// The termination message, by line of shell.
async fn check_message(line: &str, path: &str, from_log: bool, expected: &str) {
    let mut rig = Rig::new(vec![shell(line)]);
    let plan = rig.plan.containers.first_mut().unwrap();
    (plan.message_path, plan.message_from_log) = (PathBuf::from(path), from_log);
    let state = rig.run().await;
    assert_eq!(main_ended(&state).message, expected, "{line}: {:?}", rig.log("main", 0));
}

#[tokio::test]
async fn last_words() {
    check_message(
        "echo bye > /dev/termination-log",
        "/dev/termination-log",
        false,
        "bye\n",
    )
    .await;
    check_message("echo bye > /basalt-test/log; exit 1", "/basalt-test/log", true, "bye\n").await;
    check_message("echo from log; exit 1", "/dev/termination-log", true, "from log").await;
    check_message("echo from log; exit 0", "/dev/termination-log", true, "").await;
    check_message("echo from log; exit 1", "/dev/termination-log", false, "").await;
    let long = "head -c 9000 /dev/zero | tr '\\0' x > /dev/termination-log";
    check_message(long, "/dev/termination-log", false, &"x".repeat(4096)).await;
}
