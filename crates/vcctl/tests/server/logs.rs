//! `vcctl job logs` against the real API server, with a host of pods that follows a script.

use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use basalt_apiserver::http::pod_host::{ExecAsk, HostedContainer, LogAsk, LogStream, PodHost, Session};
use basalt_apiserver::http::{ApiError, ApiResult};
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, stream};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::json;
use tokio::sync::watch;

use crate::world::World;

/// Says two lines of each pod; followed logs go on until they are let go.
struct Scripted(watch::Receiver<bool>);

impl PodHost for Scripted {
    fn logs(&self, of: HostedContainer, ask: LogAsk) -> BoxFuture<'static, ApiResult<LogStream>> {
        let mut held = self.0.clone();
        async move {
            let which = if ask.previous { "before" } else { "now" };
            let tail = ask.tail_lines.map_or(2, |lines| lines.min(2));
            let lines = [
                format!("first of {} {which}\n", of.container),
                "second, unended".to_owned(),
            ];
            let skipped = usize::try_from(2_u64.saturating_sub(tail)).expect("small");
            let lines = stream::iter(lines.into_iter().skip(skipped).map(|line| Ok(line.into())));
            if !ask.follow {
                return Ok(lines.boxed());
            }
            let last = stream::once(async move {
                let _ = held.wait_for(|over| *over).await;
                Ok("\nlast\n".into())
            });
            Ok(lines.chain(last).boxed())
        }
        .boxed()
    }

    fn check_exec(&self, _: &HostedContainer) -> ApiResult<()> {
        Err(ApiError::bad_request("not here"))
    }

    fn exec(&self, _: HostedContainer, _: ExecAsk) -> BoxFuture<'static, ApiResult<Session>> {
        async { Err(ApiError::bad_request("not here")) }.boxed()
    }
}

/// A pod of the job `train`, which runs if it is so wanted.
async fn pod(world: &World, task: &str, index: u32, runs: bool, restarted: bool) {
    let pods: Api<Pod> = Api::default_namespaced(world.client.clone());
    let name = format!("train-{task}-{index}");
    let labels = json!({"volcano.sh/job-name": "train", "volcano.sh/task-spec": task,
        "volcano.sh/task-index": index.to_string()});
    let made = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels},
        "spec": {"nodeName": "n", "containers": [{"name": "main", "image": "x"}]}});
    let made: Pod = serde_json::from_value(made).expect("a pod");
    pods.create(&PostParams::default(), &made).await.expect("a pod");
    let state = if runs {
        json!({"running": {}})
    } else {
        json!({"waiting": {"reason": "Slow"}})
    };
    let last = if restarted {
        json!({"terminated": {"exitCode": 1}})
    } else {
        json!({})
    };
    let status = json!({"status": {"phase": "Running", "containerStatuses": [{"name": "main", "image": "x", "imageID": "",
        "ready": true, "restartCount": i32::from(restarted), "state": state, "lastState": last}]}});
    let patch = Patch::Merge(status);
    pods.patch_status(&name, &PatchParams::default(), &patch)
        .await
        .expect("a status");
}

async fn world(replicas: u32) -> (World, watch::Sender<bool>) {
    let world = World::new().await;
    let (release, held) = watch::channel(false);
    world.server.set_host(Arc::new(Scripted(held)));
    for line in ["queue create root", "queue create default"] {
        world.say(line).await;
    }
    world.say(&format!("job run train -q default -r {replicas}")).await;
    (world, release)
}

#[tokio::test]
async fn logs_of_one_pod_are_plain_and_of_several_are_prefixed() {
    let (world, _release) = world(1).await;
    let none = world.bad(1, &["job", "logs", "train"]).await;
    assert!(none.contains("job train has no such pod now"), "{none}");
    pod(&world, "w", 0, true, true).await;
    for (line, expected) in [
        ("job logs train", "first of main now\nsecond, unended\n"),
        ("job logs -N train -n default --tail 1", "second, unended\n"),
        ("job logs train --previous", "first of main before\nsecond, unended\n"),
    ] {
        assert_eq!(world.say(line).await, expected, "{line}");
    }
    pod(&world, "w", 10, true, false).await;
    pod(&world, "w", 2, true, false).await;
    pod(&world, "ps", 0, true, false).await;
    let tail = "second, unended\n";
    for (line, pods) in [
        (
            "job logs train --tail 1",
            &["train-ps-0", "train-w-0", "train-w-2", "train-w-10"][..],
        ),
        (
            "job logs train --tail 1 --task w",
            &["train-w-0", "train-w-2", "train-w-10"],
        ),
        ("job logs train --tail 1 --index 0", &["train-ps-0", "train-w-0"]),
    ] {
        let expected: Vec<String> = pods.iter().map(|pod| format!("{pod} {tail}")).collect();
        assert_eq!(world.say(line).await, expected.concat(), "{line}");
    }
    assert_eq!(world.say("job logs train --tail 1 --task w --index 10").await, tail);
    let missing = world.bad(1, &["job", "logs", "other"]).await;
    assert!(missing.contains("job default/other not found"), "{missing}");
    let container = world.bad(1, &["job", "logs", "train", "-c", "no"]).await;
    assert!(
        container.contains("container no is not valid for pod train-ps-0"),
        "{container}"
    );
}

#[tokio::test]
async fn a_pod_that_waits_is_named_beside_what_others_say() {
    let (world, _release) = world(2).await;
    pod(&world, "w", 0, false, false).await;
    pod(&world, "w", 1, true, false).await;
    let (code, out, err) = world.run(&["job", "logs", "train", "--tail", "1"]).await;
    assert_eq!((code, out.as_str()), (0, "train-w-1 second, unended\n"));
    assert_eq!(
        err,
        "pod train-w-0: container \"main\" in pod \"train-w-0\" is waiting to start: Slow\n"
    );
}

/// What was written so far, while the writer goes on.
#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("whole").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Shared {
    async fn until(&self, lines: &[&str]) {
        let deadline = std::time::Instant::now() + Duration::from_secs(20);
        loop {
            let text = String::from_utf8_lossy(&self.0.lock().expect("whole")).into_owned();
            if lines.iter().all(|line| text.lines().any(|written| written == *line)) {
                return;
            }
            assert!(std::time::Instant::now() < deadline, "{lines:?} is not in\n{text}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

#[tokio::test]
async fn following_takes_in_later_pods_and_ends_with_the_job() {
    let (world, release) = world(1).await;
    let out = Shared::default();
    let following = {
        let (client, mut out) = (world.client.clone(), out.clone());
        tokio::spawn(async move {
            let args = ["vcctl", "job", "logs", "train", "-f"].map(std::ffi::OsString::from);
            basalt_vcctl::run_with(client, args, &mut out, &mut std::io::sink()).await
        })
    };
    pod(&world, "w", 0, true, false).await;
    out.until(&["first of main now"]).await;
    pod(&world, "w", 1, true, false).await;
    out.until(&["train-w-1 first of main now"]).await;
    world.finish("train").await;
    assert!(!following.is_finished(), "the pods still speak");
    release.send_replace(true);
    out.until(&["train-w-0 second, unended", "train-w-0 last", "train-w-1 last"])
        .await;
    let code = tokio::time::timeout(Duration::from_secs(20), following).await;
    assert_eq!(code.expect("it ends with the job").expect("no panic"), 0);
}

impl World {
    async fn finish(&self, job: &str) {
        let jobs: Api<basalt_api::Job> = Api::default_namespaced(self.client.clone());
        let status = json!({"status": {"state": {"phase": "Completed"}}});
        let done = jobs
            .patch_status(job, &PatchParams::default(), &Patch::Merge(status))
            .await;
        done.expect("a status");
    }
}
