//! The cycles after the first: one gang comes, takes the room of the one before, and is placed.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use basalt_engine::facts::{Phase, PodFacts, PodGroupFacts, PodPhase, PriorityClassFacts, Resources};
use basalt_engine::offline::OfflineCluster;
use basalt_engine::{Engine, Event, Plan};
use basalt_testkit::workload::{CORES_PER_NODE, GangWorkload};

use super::{EngineOptions, milliseconds};

const URGENT: &str = "urgent";
/// From one cycle to the next: long enough that each also works out numbers again for some of those that wait.
const PAUSE_MS: i64 = 1_000;

/// The times of the cycles, in milliseconds. What happens between them is not timed: the API shows the binds, and the gang before ends.
pub(super) fn measure(engine: Engine, first: &Plan, workload: &GangWorkload, options: &EngineOptions) -> Vec<f64> {
    if options.cycles == 0 {
        return Vec::new();
    }
    let mut cluster = OfflineCluster::with_known(engine, workload.events());
    first.binds().for_each(|bind| cluster.start_pod(bind));
    cluster.apply(Event::PriorityClass(PriorityClassFacts {
        name: URGENT.into(),
        value: 1000,
        ..PriorityClassFacts::default()
    }));
    if options.waiting > 0 {
        fill(&mut cluster, first, workload, options.gang);
    }
    let mut before = Gang::new(workload, options.gang, "new-first", 0);
    before.come(&mut cluster);
    let mut now_ms = PAUSE_MS;
    let mut decided = cluster.engine_mut().cycle(now_ms, 0);
    before.begin(&mut cluster, &decided);
    for index in 0..options.waiting.div_ceil(workload.pods_per_job) {
        let gang = workload.gang(&format!("waiting-{index}"), workload.jobs + index);
        gang.for_each(|event| cluster.apply(event));
    }
    // The backlog is looked at, and all of it is told why it waits, before the clock counts.
    let engine = cluster.engine_mut();
    engine.cycle(now_ms, 0);
    while let Some(due_ms) = engine.next_wake().filter(|&due| due < now_ms + PAUSE_MS) {
        now_ms = due_ms;
        engine.cycle(now_ms, 0);
    }
    let (mut times, mut placed) = (Vec::new(), 0);
    for round in 0..options.cycles {
        before.go(&mut cluster);
        // Always of the one queue that has room for it.
        let like = round * workload.queues.max(1);
        let gang = Gang::new(workload, options.gang, &format!("new-{round}"), like);
        gang.come(&mut cluster);
        now_ms += PAUSE_MS;
        let start = Instant::now();
        decided = cluster.engine_mut().cycle(now_ms, 0);
        times.push(milliseconds(start));
        placed += usize::from(gang.begin(&mut cluster, &decided));
        before = gang;
    }
    if placed < options.cycles {
        eprintln!("note: {placed} of {} gangs found room", options.cycles);
    }
    times
}

/// A gang that is more important than what waits.
struct Gang(Vec<Event>);

impl Gang {
    fn new(workload: &GangWorkload, size: usize, name: &str, like: usize) -> Self {
        let workload = GangWorkload {
            pods_per_job: size,
            ..*workload
        };
        Gang(workload.gang(name, like).map(urgent).collect())
    }

    fn come(&self, cluster: &mut OfflineCluster) {
        for event in &self.0 {
            cluster.apply(event.clone());
        }
    }

    /// Starts its pods where the plan says; true if there is room for all of them.
    fn begin(&self, cluster: &mut OfflineCluster, plan: &Plan) -> bool {
        let pods: BTreeSet<&str> = self.0.iter().filter_map(pod_key).collect();
        let binds = plan.binds().filter(|bind| pods.contains(&*bind.pod));
        let started = binds.map(|bind| cluster.start_pod(bind)).count();
        started == pods.len()
    }

    fn go(&self, cluster: &mut OfflineCluster) {
        for event in self.0.iter().rev() {
            match event {
                Event::Pod(pod) => cluster.apply(Event::PodGone {
                    key: pod.key.clone(),
                    uid: None,
                }),
                Event::PodGroup(group) => cluster.apply(Event::PodGroupGone {
                    key: group.key.clone(),
                    uid: None,
                }),
                _ => {}
            }
        }
    }
}

fn pod_key(event: &Event) -> Option<&str> {
    match event {
        Event::Pod(pod) => Some(&pod.key),
        _ => None,
    }
}

/// Each queue has all that it deserves, and runs it in one group: one pod on each of its nodes, as large as what is left of
/// the node. Only the first queue has less, by the room for one gang.
fn fill(cluster: &mut OfflineCluster, first: &Plan, workload: &GangWorkload, gang: usize) {
    let mut used: BTreeMap<&str, usize> = BTreeMap::new();
    for bind in first.binds() {
        *used.entry(&bind.node).or_default() += 1;
    }
    let (mut spared, queues) = (0, workload.queues.max(1));
    for queue in 0..queues {
        cluster.apply(Event::PodGroup(PodGroupFacts {
            key: format!("bench/ballast-{queue}").into(),
            uid: format!("ballast-{queue}").into(),
            queue: format!("queue-{queue}").into(),
            phase: Phase::Running,
            ..PodGroupFacts::default()
        }));
    }
    for index in 0..workload.nodes {
        let queue = index * queues / workload.nodes;
        let node = format!("node-{index}");
        let free = CORES_PER_NODE.saturating_sub(used.get(node.as_str()).copied().unwrap_or(0));
        let spare = free.min(gang.saturating_sub(spared));
        spared += spare;
        if free > spare {
            cluster.apply(Event::Pod(PodFacts {
                key: format!("bench/ballast-{queue}-{index}").into(),
                uid: format!("ballast-{queue}-{index}").into(),
                scheduler: basalt_api::names::SCHEDULER_NAME.into(),
                group: Some(format!("bench/ballast-{queue}").into()),
                node: Some(node.into()),
                phase: PodPhase::Running,
                requests: Resources::from([("cpu".into(), i64::try_from(free - spare).unwrap_or(0) * 1000)]),
                ..PodFacts::default()
            }));
        }
    }
}

fn urgent(event: Event) -> Event {
    match event {
        Event::PodGroup(group) => Event::PodGroup(PodGroupFacts {
            priority_class: URGENT.into(),
            ..group
        }),
        other => other,
    }
}
