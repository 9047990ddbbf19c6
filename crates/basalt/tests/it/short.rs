//! Gangs on a cluster that binds pods one by one, and refuses some, in one way or another.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use basalt::up::{System, SystemOptions};
use basalt_api::{Job, slim};
use basalt_runtime::audited_objects;
use basalt_runtime::scheduler::{Face, Scheduler, SchedulerOptions};
use http::{Request, Response};
use kube::api::{ListParams, PostParams};
use kube::client::Body;
use kube::{Api, Client};
use serde_json::json;

const PATIENCE: Duration = Duration::from_mins(1);

/// How often the pod `gang-w-1` is refused a node, and with which code.
#[derive(Debug, Clone, Copy)]
struct Stubborn {
    times: usize,
    code: u16,
}

/// Surely not done, and perhaps done already: both may leave a gang short.
const CODES: [u16; 2] = [409, 403];

/// A client of a server that knows no gangs, and is stubborn.
fn client_of(inner: Client, stubborn: Stubborn) -> Client {
    let refusals = Arc::new(AtomicUsize::new(stubborn.times));
    let service = tower::service_fn(move |request: Request<Body>| {
        let (inner, refusals) = (inner.clone(), Arc::clone(&refusals));
        async move {
            let path = request.uri().path();
            if path.starts_with("/apis/basalt.sh/") {
                return Ok(refusal(404));
            }
            let less = |left: usize| left.checked_sub(1);
            if path.ends_with("/gang-w-1/binding")
                && refusals.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less).is_ok()
            {
                return Ok(refusal(stubborn.code));
            }
            inner.send(request).await
        }
    });
    Client::new(service, "default")
}

fn refusal(code: u16) -> Response<Body> {
    let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "message": "no", "reason": "no"});
    let response = Response::builder()
        .status(code)
        .body(Body::from(status.to_string().into_bytes()));
    response.expect("a response")
}

/// Runs a gang of three on such a cluster until all of it runs; returns the metrics at the end.
async fn check(stubborn: Stubborn, grace: Duration) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    let options = SystemOptions {
        scheduler: false,
        ..SystemOptions::scratch(folder.path(), 3).expect("options")
    };
    let system = System::start(options).await.expect("a system");
    let client = system.inside_client();
    let options = SchedulerOptions {
        gang_grace: grace,
        ..SchedulerOptions::default()
    };
    let clumsy = client_of(system.inside_client(), stubborn);
    let scheduler = Scheduler::new(clumsy, options).expect("a scheduler");
    let face = scheduler.face();
    let running = tokio::spawn(scheduler.run());
    let job: Job = serde_json::from_value(json!({
        "apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": "gang"},
        "spec": {"minAvailable": 3, "schedulerName": "volcano", "queue": "default", "tasks": [{
            "name": "w", "replicas": 3,
            "template": {"spec": {"restartPolicy": "Never", "containers": [
                {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": "100m"}}}]}},
        }]},
    }))
    .expect("a job");
    let jobs: Api<Job> = Api::default_namespaced(client.clone());
    jobs.create(&PostParams::default(), &job)
        .await
        .expect("the job is made");
    let metrics = until_whole(&client, &face).await;
    assert!(!running.is_finished(), "the scheduler goes on");
    running.abort();
    drop(client);
    system.stop().await.expect("a clean end");
    metrics
}

async fn until_whole(client: &Client, face: &Face) -> String {
    let begun = Instant::now();
    let pods: Api<slim::Pod> = Api::default_namespaced(client.clone());
    loop {
        let list = pods.list(&ListParams::default()).await.expect("the pods");
        let bound = list
            .items
            .iter()
            .filter(|pod| !pod.spec.node_name.is_empty() && !pod.is_deleting());
        let metrics = face.metrics().await;
        if bound.count() == 3 && metrics.contains("basalt_short_gangs_total") {
            let findings = basalt_audit::check(&audited_objects::objects(client).await.expect("all objects"));
            if findings.is_empty() {
                return metrics;
            }
        }
        assert!(begun.elapsed() < PATIENCE, "the gang never became whole\n{metrics}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gang_that_came_out_short_is_completed() {
    for code in CODES {
        let metrics = check(Stubborn { times: 1, code }, Duration::from_secs(30)).await;
        let completed = "basalt_short_gangs_total{outcome=\"completed\"} 1";
        assert!(metrics.contains(completed), "{code}: {metrics}");
        assert!(!metrics.contains("outcome=\"released\""), "{code}: {metrics}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gang_that_stays_short_is_released_and_tried_again() {
    for code in CODES {
        let metrics = check(Stubborn { times: 5, code }, Duration::from_millis(500)).await;
        let released = "basalt_short_gangs_total{outcome=\"released\"}";
        assert!(metrics.contains(released), "{code}: {metrics}");
    }
}
