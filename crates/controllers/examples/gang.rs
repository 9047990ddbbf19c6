//! What one Job costs its controller, from submission to completion: `cargo run --release -p basalt-controllers --example gang`.
//!
//! The pods are made, bound, started and finished; each of these arrives in fifty portions, with a look at the Job after each,
//! as the pauses of the live loop make it for a large job. No API server is in it: this is the controller alone.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use basalt_api::NamespacedName;
use basalt_controllers::cache::Origin;
use basalt_controllers::world::{Work, World};
use basalt_controllers::{Change, Outcome};
use jiff::Timestamp;
use serde_json::{Value, json};

/// Portions in which news arrives.
const PORTIONS: usize = 50;

struct Bench {
    world: World,
    revision: u64,
    spent: Duration,
    looks: u32,
    pods: Vec<Value>,
    job: Value,
}

fn stored(mut object: Value, revision: &mut u64) -> Value {
    *revision += 1;
    let meta = &mut object["metadata"];
    meta["resourceVersion"] = json!(revision.to_string());
    if meta["uid"].is_null() {
        meta["uid"] = json!(format!("00000000-0000-4000-8000-{revision:012x}"));
        meta["creationTimestamp"] = json!("2026-01-01T00:00:00Z");
    }
    object
}

impl Bench {
    fn new(pods: usize) -> Self {
        let container = json!({"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}});
        let task = json!({"name": "w", "replicas": pods, "template": {"spec": {"containers": [container]}}});
        let policies = json!([{"event": "PodFailed", "action": "RestartJob"}]);
        let spec = json!({"minAvailable": pods, "queue": "default", "maxRetry": 3, "tasks": [task], "policies": policies, "plugins": {"svc": [], "env": []}});
        let job = json!({
            "apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": "gang", "namespace": "n"}, "spec": spec,
        });
        let mut revision = 0;
        Self {
            world: World::new(BTreeSet::from(["volcano".to_owned()])),
            job: stored(job, &mut revision),
            revision,
            spent: Duration::ZERO,
            looks: 0,
            pods: Vec::new(),
        }
    }

    fn timed<T>(&mut self, work: impl FnOnce(&mut World) -> T) -> T {
        let begin = Instant::now();
        let result = work(&mut self.world);
        self.spent += begin.elapsed();
        result
    }

    fn tell(&mut self, object: &Value) {
        let text = object.to_string();
        let read = |text: &str| serde_json::from_str::<Value>(text).expect("JSON");
        match object["kind"].as_str() {
            Some("Job") => {
                let job = serde_json::from_value(read(&text)).expect("a job");
                self.timed(|world| drop(world.upsert_job(job, Origin::Watch)));
            }
            Some("PodGroup") => {
                let group = serde_json::from_value(read(&text)).expect("a group");
                self.timed(|world| drop(world.upsert_group(group, Origin::Watch)));
            }
            Some("Pod") => {
                let pod = serde_json::from_value(read(&text)).expect("a pod");
                self.timed(|world| drop(world.upsert_pod(pod, Origin::Watch)));
            }
            Some(kind) => {
                let meta = serde_json::from_value(object["metadata"].clone()).expect("metadata");
                self.timed(|world| drop(world.upsert_companion(kind, &meta, Origin::Watch)));
            }
            None => panic!("no kind"),
        }
    }

    fn look(&mut self) {
        let key = NamespacedName::new("n", "gang");
        let work = Work::Job(key);
        let now = Timestamp::from_second(1_800_000_000).expect("in range");
        let Outcome { changes, .. } = self.timed(|world| world.look_at(&work, now));
        self.looks += 1;
        for change in changes {
            match change {
                Change::Create { object, .. } => {
                    let mut object = stored(object, &mut self.revision);
                    if object["kind"] == "PodGroup" {
                        object["status"]["phase"] = json!("Inqueue");
                    }
                    self.tell(&object);
                    if object["kind"] == "Pod" {
                        self.pods.push(object);
                    }
                }
                Change::Patch { target, merge, .. } if target.kind == "Job" => {
                    let mut job = self.job.clone();
                    json_patch::merge(&mut job, &merge);
                    self.job = stored(job, &mut self.revision);
                    let job = self.job.clone();
                    self.tell(&job);
                }
                _ => {}
            }
        }
    }

    /// Something happens to all pods, in portions.
    fn all(&mut self, merge: &Value) {
        let mut pods = std::mem::take(&mut self.pods);
        let size = pods.len().div_ceil(PORTIONS).max(1);
        for portion in pods.chunks_mut(size) {
            for pod in portion {
                json_patch::merge(pod, merge);
                *pod = stored(std::mem::take(pod), &mut self.revision);
                self.tell(pod);
            }
            self.look();
        }
        self.pods = pods;
    }
}

fn main() {
    println!("{:>8} {:>7} {:>12} {:>10}", "pods", "looks", "ms", "µs/pod");
    for pods in [1_000, 10_000] {
        let mut bench = Bench::new(pods);
        let job = bench.job.clone();
        bench.tell(&job);
        for _ in 0..3 {
            bench.look();
        }
        assert_eq!(bench.pods.len(), pods, "all pods are made");
        let container = |ready: bool| json!([{"name": "c", "ready": ready}]);
        bench.all(&json!({"spec": {"nodeName": "node"}}));
        bench.all(&json!({"status": {"phase": "Running", "containerStatuses": container(true)}}));
        bench.all(&json!({"status": {"phase": "Succeeded", "containerStatuses": container(false)}}));
        assert_eq!(bench.job["status"]["state"]["phase"], "Completed");
        let micros = bench.spent.as_secs_f64() * 1e6;
        println!(
            "{pods:>8} {:>7} {:>12.1} {:>10.1}",
            bench.looks,
            micros / 1e3,
            micros / f64::from(u32::try_from(pods).expect("few"))
        );
    }
}
