//! Probes and hooks.

use std::time::{Duration, Instant};

use basalt_node::local::plan::{Action, ContainerPlan, Probe, Restart};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use crate::rig::{Rig, main_ended, processes_with, shell};

fn exec(line: &str) -> Action {
    Action::Exec(["sh", "-c", line].map(str::to_owned).to_vec())
}

fn probe(action: Action) -> Probe {
    Probe {
        action,
        initial_delay_seconds: 0,
        period_seconds: 1,
        timeout_seconds: 1,
        success_threshold: 1,
        failure_threshold: 1,
        grace_seconds: None,
    }
}

/// A container that waits to be ended.
fn waiting(change: impl FnOnce(&mut ContainerPlan)) -> Rig {
    let mut plan = shell("trap 'echo told; exit 0' TERM; echo ready; while :; do sleep 0.01; done");
    change(&mut plan);
    Rig::new(vec![plan])
}

async fn until_ready(rig: &Rig, wanted: bool) {
    rig.until(&format!("ready {wanted}"), |state| {
        (state.containers.get("main")?.ready == wanted).then_some(())
    })
    .await;
}

#[tokio::test]
async fn readiness_follows_the_probe() {
    // The command sees the container's files, and runs in its folder, as its user, with its environment.
    let mut rig = waiting(|plan| {
        plan.env.push(("WANTED".to_owned(), "/srv/pod".to_owned()));
        plan.readiness = Some(probe(exec(
            "test \"$(pwd)\" = \"$WANTED\" && test -e ok && test $(hostname) = pod-0",
        )));
    });
    rig.start();
    rig.running("main").await;
    rig.until_output("ready").await;
    assert!(!rig.state().unwrap().containers.get("main").unwrap().ready);
    let file = rig.folder.scratch().join("work/ok");
    for wanted in [true, false] {
        if wanted {
            std::fs::write(&file, "").unwrap();
        } else {
            std::fs::remove_file(&file).unwrap();
        }
        until_ready(&rig, wanted).await;
    }
    rig.order(10);
    assert_eq!(main_ended(&rig.finish().await).exit_code, 0);
    assert!(rig.reasons().await.contains(&"Unhealthy".to_owned()));
}

/// A server that answers each call with these bytes.
async fn answering(answer: &'static str, tls: bool) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let made = rcgen::generate_simple_self_signed(["other.test".to_owned()]).unwrap();
    let key = rustls::pki_types::PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    let acceptor = tokio_rustls::TlsAcceptor::from(std::sync::Arc::new(config));
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut bytes = [0; 1024];
            if tls {
                let Ok(mut stream) = acceptor.accept(stream).await else {
                    continue;
                };
                let _ = stream.read(&mut bytes).await;
                let _ = stream.write_all(answer.as_bytes()).await;
                let _ = stream.shutdown().await;
            } else {
                let _ = stream.read(&mut bytes).await;
                let _ = stream.write_all(answer.as_bytes()).await;
            }
        }
    });
    port
}

/// Whether a probe finds a container ready.
async fn check_ready(action: Action, expected: bool) {
    let what = format!("{action:?}");
    let mut rig = waiting(|plan| plan.readiness = Some(probe(action)));
    rig.start();
    if expected {
        until_ready(&rig, true).await;
    } else {
        let heard = tokio::time::timeout(crate::rig::LONG, async {
            while let Some(heard) = rig.heard.recv().await {
                if format!("{heard:?}").contains("Readiness probe of container main failed") {
                    return true;
                }
            }
            false
        });
        assert!(heard.await.unwrap(), "{what}");
        assert!(!rig.state().unwrap().containers.get("main").unwrap().ready, "{what}");
    }
    rig.order(0);
    rig.finish().await;
}

#[tokio::test]
async fn probes_over_the_network() {
    let http = |port, tls| Action::Http {
        host: "127.0.0.1".to_owned(),
        port,
        path: "/live".to_owned(),
        tls,
        headers: vec![("X-Test".to_owned(), "yes".to_owned())],
    };
    let tcp = |port| Action::Tcp {
        host: "127.0.0.1".to_owned(),
        port,
    };
    check_ready(
        http(answering("HTTP/1.1 204 No Content\r\n\r\n", false).await, false),
        true,
    )
    .await;
    check_ready(
        http(answering("HTTP/1.1 302 Found\r\nLocation: /\r\n\r\n", true).await, true),
        true,
    )
    .await;
    check_ready(http(answering("HTTP/1.1 500 Oh\r\n\r\n", false).await, false), false).await;
    check_ready(http(answering("nonsense\r\n", false).await, false), false).await;
    check_ready(http(answering("HTTP/1.1 200 OK\r\n\r\n", false).await, true), false).await;
    check_ready(tcp(answering("", false).await), true).await;
    let closed = {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        listener.local_addr().unwrap().port()
    };
    check_ready(tcp(closed), false).await;
    check_ready(http(closed, false), false).await;
    check_ready(exec("sleep 4401"), false).await;
    assert_eq!(
        processes_with("4401"),
        Vec::<u32>::new(),
        "a probe that takes too long is killed"
    );
}

/// Which probe fails, and how often the container runs.
#[tokio::test]
async fn a_container_that_is_not_alive_is_started_again() {
    for startup in [true, false] {
        let mut rig = waiting(|plan| {
            let failing = Some(probe(exec("test -e ok")));
            if startup {
                plan.startup = failing;
            } else {
                plan.liveness = failing;
            }
        });
        rig.plan.restart = Restart::Always;
        rig.start();
        rig.until("a second run", |state| {
            (state.containers.get("main")?.restarts >= 1).then_some(())
        })
        .await;
        assert_eq!(rig.output(), ["ready", "told"]);
        std::fs::write(rig.folder.scratch().join("work/ok"), "").unwrap();
        rig.until("it has started", |state| {
            state.containers.get("main")?.started.then_some(())
        })
        .await;
        rig.order(10);
        rig.finish().await;
        let reasons = rig.reasons().await;
        assert!(
            ["Unhealthy", "Killing"]
                .iter()
                .all(|wanted| reasons.iter().any(|found| found == wanted)),
            "{reasons:?}"
        );
    }
}

#[tokio::test]
async fn hooks_run_at_both_ends() {
    let mut rig = waiting(|plan| {
        plan.post_start = Some(exec("echo started >> trace"));
        plan.pre_stop = Some(exec("echo stopping >> trace; exit 1"));
    });
    rig.start();
    until_ready(&rig, true).await;
    rig.until_output("ready").await;
    rig.order(10);
    assert_eq!(main_ended(&rig.finish().await).exit_code, 0);
    let trace = std::fs::read_to_string(rig.folder.scratch().join("work/trace")).unwrap();
    assert_eq!(trace, "started\nstopping\n");
    assert!(rig.reasons().await.contains(&"FailedPreStopHook".to_owned()));
}

#[tokio::test]
async fn a_start_hook_that_fails_ends_the_container() {
    let mut rig = waiting(|plan| plan.post_start = Some(exec("exit 7")));
    let state = rig.run().await;
    assert!(
        main_ended(&state).exit_code == 0 || main_ended(&state).exit_code == 143,
        "{state:?}"
    );
    assert!(rig.reasons().await.contains(&"FailedPostStartHook".to_owned()));
}

#[tokio::test]
async fn a_stop_hook_has_only_the_time_that_there_is() {
    let mut rig = waiting(|plan| plan.pre_stop = Some(Action::Sleep(30)));
    rig.start();
    rig.until_output("ready").await;
    let begin = Instant::now();
    rig.order(1);
    let state = rig.finish().await;
    // SIGTERM came after the hook.
    assert_eq!(
        (main_ended(&state).exit_code, rig.output().last().map(String::as_str)),
        (0, Some("told"))
    );
    assert!((Duration::from_secs(1)..Duration::from_secs(9)).contains(&begin.elapsed()));
    let mut rig = waiting(|plan| plan.pre_stop = Some(exec("sleep 4402")));
    rig.start();
    rig.until_output("ready").await;
    rig.order(30);
    tokio::time::sleep(Duration::from_millis(100)).await;
    rig.order(0);
    let state = rig.finish().await;
    assert_eq!(main_ended(&state).exit_code, 137, "a second order makes it shorter");
    assert_eq!(processes_with("4402"), Vec::<u32>::new());
}
