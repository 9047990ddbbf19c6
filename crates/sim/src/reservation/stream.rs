//! A gang that needs 64 of 80 nodes at once, beside a stream of one-node jobs that never ends. Small jobs take every node that
//! becomes free, so the gang starves, unless nodes are locked for its queue.

use basalt_api::json::string_at;
use basalt_engine::Conf;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::cluster;
use crate::api::{Key, Kind, Request};
use crate::kernel::{Kernel, Stuck};
use crate::queues::NAMESPACE;
use crate::whim::Whim;

const NODES: usize = 80;
const GANG: usize = 64;
const CORES: u32 = 4;
/// Small jobs that always wait.
const BACKLOG: usize = 10;
/// A small job runs so many seconds at least, and so many more at most.
const RUN_TIME: (usize, usize) = (60, 540);
const TICK: SignedDuration = SignedDuration::from_secs(10);

/// What is tried.
#[derive(Clone, Copy, Debug)]
pub struct Stream {
    /// Nodes are locked for the gang's queue from the moment on at which the gang is there.
    pub reserved: bool,
    /// Seconds of the stream before the gang comes.
    pub before: i64,
    /// Seconds that are looked at after that.
    pub after: i64,
    /// Which small jobs there are.
    pub seed: u64,
}

/// What came of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Curve {
    /// Seconds since the gang came, and the nodes that are free for it or already its own.
    pub points: Vec<(i64, usize)>,
    /// When all of the gang ran.
    pub started: Option<i64>,
    /// Seconds that the small jobs which ran when the gang came had still to run, the longest.
    pub remaining: i64,
    /// Small jobs that ended after the gang came.
    pub finished: usize,
}

fn queue(name: &str, spec: Value) -> Request {
    let key = Key::new(Kind::Queue, "", name);
    let object =
        json!({"apiVersion": key.kind.api_version(), "kind": "Queue", "metadata": {"name": name}, "spec": spec});
    Request::Create { key, object }
}

fn job(name: &str, queue: &str, pods: usize, run_time: Option<usize>) -> Request {
    let key = Key::new(Kind::Job, NAMESPACE, name);
    let annotations = run_time.map_or(
        json!({}),
        |seconds| json!({"basalt.sh/run-time": format!("{seconds}s")}),
    );
    let pod = json!({"schedulerName": "volcano", "restartPolicy": "Never", "containers": [
        {"name": "c", "image": "i", "resources": {"requests": {"cpu": CORES.to_string()}}}]});
    let object = json!({"apiVersion": key.kind.api_version(), "kind": "Job",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"queue": queue, "minAvailable": pods, "schedulerName": "volcano", "ttlSecondsAfterFinished": 0,
            "tasks": [{"name": "t", "replicas": pods,
                "template": {"metadata": {"annotations": annotations}, "spec": pod}}]}});
    Request::Create { key, object }
}

/// The world, and who sends small jobs into it.
struct Scene {
    kernel: Kernel,
    whim: Whim,
    sent: usize,
}

impl Scene {
    fn pods(&self) -> impl Iterator<Item = &Value> {
        self.kernel.api().of_kind(Kind::Pod).map(|(_, pod)| &**pod)
    }

    fn living(&self, of_gang: bool) -> impl Iterator<Item = &Value> {
        let lives = |pod: &&Value| string_at(pod, "/status/phase") == "Running";
        let is_gang = |pod: &Value| string_at(pod, "/metadata/name").starts_with("gang-");
        self.pods().filter(lives).filter(move |pod| is_gang(pod) == of_gang)
    }

    /// Sends small jobs until enough of them wait, and lets some time pass.
    fn pass(&mut self) -> Result<(), Stuck> {
        let jobs = self.kernel.api().of_kind(Kind::Job);
        let waits = |job: &Value| ["", "Pending"].contains(&string_at(job, "/status/state/phase"));
        let waiting = jobs
            .filter(|(_, job)| string_at(job, "/spec/queue") == "stream" && waits(job))
            .count();
        for _ in waiting..BACKLOG {
            self.sent += 1;
            let run_time = RUN_TIME.0 + self.whim.below(RUN_TIME.1);
            let request = job(&format!("s{}", self.sent), "stream", 1, Some(run_time));
            // A stream that is refused would show in the curve at once.
            let _sent = self.kernel.ask(&request);
        }
        let end = self.kernel.now().saturating_add(TICK).unwrap_or(Timestamp::MAX);
        self.kernel.run_to(end)
    }

    /// Seconds until the last of the small jobs that run now ends.
    fn remaining(&self) -> i64 {
        let left = self.living(false).filter_map(|pod| {
            let run = string_at(pod, "/metadata/annotations/basalt.sh~1run-time");
            let run: i64 = run.strip_suffix('s')?.parse().ok()?;
            let begun: Timestamp = string_at(pod, "/status/startTime").parse().ok()?;
            Some(begun.as_second() + run - self.kernel.now().as_second())
        });
        left.max().unwrap_or(0)
    }

    fn small_jobs(&self) -> usize {
        let jobs = self.kernel.api().of_kind(Kind::Job);
        jobs.filter(|(_, job)| string_at(job, "/spec/queue") == "stream")
            .count()
    }
}

/// Plays it, and draws the curve.
pub fn run_stream(conf: &Conf, stream: Stream) -> Result<Curve, Stuck> {
    let world = cluster(conf, &[CORES; NODES])?;
    let mut scene = Scene {
        kernel: Kernel::new(&world, conf, Whim::none()),
        whim: Whim::seeded(stream.seed),
        sent: 0,
    };
    // Nobody takes from the stream: what it has, it keeps to its end.
    for request in [
        queue("stream", json!({"reclaimable": false})),
        queue("big", json!({"reclaimable": false})),
    ] {
        let _made = scene.kernel.ask(&request);
    }
    while scene.kernel.now().as_second() < world.now().as_second() + stream.before {
        scene.pass()?;
    }
    let begun = scene.kernel.now().as_second();
    let ended_before = scene.sent - scene.small_jobs();
    let mut curve = Curve {
        remaining: scene.remaining(),
        ..Curve::default()
    };
    if stream.reserved {
        let cores = GANG as u64 * u64::from(CORES);
        let _reserved = scene.kernel.ask(&Request::Patch {
            key: Key::new(Kind::Queue, "", "big"),
            status: false,
            merge: json!({"spec": {"guarantee": {"resource": {"cpu": cores.to_string()}}}}),
        });
    }
    let _sent = scene.kernel.ask(&job("gang", "big", GANG, None));
    while scene.kernel.now().as_second() < begun + stream.after {
        scene.pass()?;
        let at = scene.kernel.now().as_second() - begun;
        let gang = scene.living(true).count();
        curve
            .points
            .push((at, NODES.saturating_sub(scene.living(false).count())));
        if gang == GANG && curve.started.is_none() {
            curve.started = Some(at);
        }
    }
    curve.finished = (scene.sent - scene.small_jobs()).saturating_sub(ended_before);
    Ok(curve)
}
