//! Commands inside running containers.

use basalt_node::local::exec::{self, ExecError, ExecPlan, Execution};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::rig::{Rig, is_root, processes_with, program, shell};

fn plan(line: &str, stdin: bool, tty: bool) -> ExecPlan {
    ExecPlan {
        command: ["sh", "-c", line].map(str::to_owned).to_vec(),
        stdin,
        tty,
    }
}

async fn running() -> Rig {
    let mut container = shell("echo ready; sleep 4500 & wait");
    container.env.push(("TEXT".to_owned(), "of the plan".to_owned()));
    let mut rig = Rig::new(vec![container]);
    rig.start();
    rig.running("main").await;
    rig.until_output("ready").await;
    rig
}

async fn read_all(from: &mut Option<exec::Output>) -> String {
    let mut text = String::new();
    if let Some(from) = from {
        from.read_to_string(&mut text).await.unwrap();
    }
    text
}

fn start(rig: &Rig, plan: &ExecPlan) -> Execution {
    exec::start(program(), &rig.folder, "main", plan).unwrap()
}

/// A command with this input: output, errors, exit code.
async fn check(rig: &Rig, line: &str, input: Option<&str>, expected: (&str, &str, i32)) {
    let mut running = start(rig, &plan(line, input.is_some(), false));
    if let (Some(mut stdin), Some(input)) = (running.stdin.take(), input) {
        stdin.write_all(input.as_bytes()).await.unwrap();
    }
    let (mut stdout, mut stderr) = (running.stdout.take(), running.stderr.take());
    let (output, errors) = tokio::join!(read_all(&mut stdout), read_all(&mut stderr));
    let code = running.wait().await.unwrap();
    assert_eq!((output.as_str(), errors.as_str(), code), expected, "{line}");
}

#[tokio::test]
async fn a_command_is_inside_the_container() {
    let mut rig = running().await;
    check(&rig, "echo out; echo err >&2; exit 5", None, ("out\n", "err\n", 5)).await;
    check(&rig, "cat", Some("given\n"), ("given\n", "", 0)).await;
    check(&rig, "cat", None, ("", "", 0)).await;
    check(
        &rig,
        "hostname; pwd; echo $TEXT; tail -1 /etc/hosts",
        None,
        ("pod-0\n/srv/pod\nof the plan\n127.1.2.3 peer.test\n", "", 0),
    )
    .await;
    check(&rig, "kill -9 $$", None, ("", "", 137)).await;
    if is_root() {
        check(
            &rig,
            "id -u; grep CapEff /proc/self/status | tr -d '\\t'",
            None,
            ("65534\nCapEff:0000000000000000\n", "", 0),
        )
        .await;
    }
    check(&rig, "exec ls /proc/self/fd", None, ("0\n1\n2\n3\n", "", 0)).await;
    if let Some(cgroup) = rig.plan.isolation.cgroups.last() {
        let members = cgroup.folder.join("main/cgroup.procs");
        check(
            &rig,
            &format!("grep -c ^$$'$' {}", members.display()),
            None,
            ("1\n", "", 0),
        )
        .await;
    }
    let missing = ExecPlan {
        command: vec!["/no/such".to_owned()],
        ..ExecPlan::default()
    };
    let mut refused = start(&rig, &missing);
    assert_eq!(refused.wait().await.unwrap(), 127);
    assert_eq!(read_all(&mut refused.stderr).await, "/no/such: no such file\n");
    // A command that is running ends with the container.
    let mut left = start(
        &rig,
        &plan("echo here; trap '' TERM; sleep 4501; sleep 4501", false, false),
    );
    let mut bytes = [0; 5];
    left.stdout.as_mut().unwrap().read_exact(&mut bytes).await.unwrap();
    rig.order(0);
    rig.finish().await;
    assert_eq!(left.wait().await.unwrap(), 137);
    let gone = exec::start(program(), &rig.folder, "main", &missing);
    assert!(matches!(gone, Err(ExecError::NotRunning(_))), "{gone:?}");
}

#[tokio::test]
async fn a_terminal_is_one() {
    let mut rig = running().await;
    let mut running = start(
        &rig,
        &plan("read x; tty; echo got $x; stty size; echo $TERM; exit 6", true, true),
    );
    running.resize(123, 45).unwrap();
    running.stdin.as_mut().unwrap().write_all(b"typed\n").await.unwrap();
    let output = read_all(&mut running.stdout).await;
    assert_eq!(running.wait().await.unwrap(), 6, "{output}");
    let lines: Vec<&str> = output.split("\r\n").collect();
    assert!(
        matches!(lines[..], ["typed", tty, "got typed", "45 123", "xterm", ""] if tty.starts_with("/dev/pts/")),
        "{output:?}"
    );
    // Control-C reaches what runs on it.
    let mut running = start(&rig, &plan("echo begin; exec sleep 4502", true, true));
    let mut bytes = [0; 5];
    running.stdout.as_mut().unwrap().read_exact(&mut bytes).await.unwrap();
    running.stdin.as_mut().unwrap().write_all(b"\x03").await.unwrap();
    let output = read_all(&mut running.stdout).await;
    assert_eq!(running.wait().await.unwrap(), 130, "{output}");
    rig.order(0);
    rig.finish().await;
}

#[tokio::test]
async fn a_command_ends_with_its_container() {
    for with_cgroups in [true, false] {
        let mut rig = Rig::new(vec![shell("echo ready; until test -e end; do sleep 0.02; done")]);
        if !with_cgroups {
            rig.plan.isolation.cgroups.clear();
        }
        rig.start();
        rig.running("main").await;
        rig.until_output("ready").await;
        let mut running = start(&rig, &plan("echo begin; touch end; sleep 4504", false, false));
        let mut bytes = [0; 5];
        running.stdout.as_mut().unwrap().read_exact(&mut bytes).await.unwrap();
        rig.finish().await;
        assert_eq!(processes_with("4504"), Vec::<u32>::new(), "cgroups {with_cgroups}");
        drop(running);
    }
}

#[tokio::test]
async fn a_command_that_nobody_wants_any_more_is_killed() {
    let mut rig = running().await;
    for tty in [false, true] {
        let mut running = start(&rig, &plan("echo begin; sleep 4503 & sleep 4503", false, tty));
        let mut bytes = [0; 5];
        running.stdout.as_mut().unwrap().read_exact(&mut bytes).await.unwrap();
        drop(running);
        rig.until("it is killed", |_| processes_with("4503").is_empty().then_some(()))
            .await;
    }
    rig.order(0);
    rig.finish().await;
}
