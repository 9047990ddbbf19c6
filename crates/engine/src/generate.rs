//! Workloads of any size, for measurements: equal nodes, gangs of equal pods.

use std::sync::Arc;

use crate::facts::{Event, NodeFacts, Phase, PodFacts, PodGroupFacts, QueueFacts, Resources};

const GIB: i64 = 1 << 30;
const MIB: i64 = 1 << 20;

/// The size of a workload. Nodes have 16 cores, 64 GiB and room for 110 pods; pods ask for 1 core and about 1 GiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Workload {
    /// How many nodes.
    pub nodes: usize,
    /// How many gangs.
    pub jobs: usize,
    /// The size of each gang; all of its pods have one shape.
    pub pods_per_job: usize,
    /// How many shapes of pods, given to the gangs in turn.
    pub classes: usize,
    /// How many leaf queues, given to the gangs in turn.
    pub queues: usize,
    /// Levels of queues below `root`.
    pub depth: usize,
}

impl Default for Workload {
    fn default() -> Self {
        Workload {
            nodes: 1000,
            jobs: 500,
            pods_per_job: 20,
            classes: 1,
            queues: 1,
            depth: 1,
        }
    }
}

impl Workload {
    /// Everything as events: queues, nodes, groups, pods.
    pub fn events(&self) -> impl Iterator<Item = Event> {
        let this = *self;
        let queues = this.queue_events();
        let nodes = (0..this.nodes).map(|index| Event::Node(node(index)));
        let jobs = (0..this.jobs).flat_map(move |job| {
            let pods = (0..this.pods_per_job).map(move |index| Event::Pod(this.pod(job, index)));
            std::iter::once(Event::PodGroup(this.group(job))).chain(pods)
        });
        queues.into_iter().chain(nodes).chain(jobs)
    }

    fn queue_events(&self) -> Vec<Event> {
        let queue = |name: String, parent: String| {
            Event::Queue(QueueFacts {
                name: name.into(),
                parent: parent.into(),
                ..Default::default()
            })
        };
        let levels = self.depth.max(1);
        let above = |level: usize| {
            if level == 0 {
                "root".to_owned()
            } else {
                format!("level-{level}")
            }
        };
        let mut events = vec![queue("root".to_owned(), String::new())];
        events.extend((1..levels).map(|level| queue(above(level), above(level - 1))));
        events.extend((0..self.queues.max(1)).map(|index| queue(format!("queue-{index}"), above(levels - 1))));
        events
    }

    fn group(&self, job: usize) -> PodGroupFacts {
        PodGroupFacts {
            key: format!("bench/job-{job}").into(),
            uid: format!("00000000-0000-4000-8001-{job:012}").into(),
            created_ms: whole(job),
            queue: format!("queue-{}", job % self.queues.max(1)).into(),
            min_member: self.pods_per_job as u32,
            phase: Phase::Inqueue,
            ..Default::default()
        }
    }

    fn pod(&self, job: usize, index: usize) -> PodFacts {
        let memory = GIB + MIB * whole(job % self.classes.max(1));
        PodFacts {
            key: format!("bench/job-{job}-task-{index}").into(),
            uid: format!(
                "00000000-0000-4000-{:04}-{:012}",
                job % 10_000,
                job / 10_000 * self.pods_per_job + index
            )
            .into(),
            created_ms: whole(job),
            scheduler: basalt_api::names::SCHEDULER_NAME.into(),
            group: Some(format!("bench/job-{job}").into()),
            role: "task".into(),
            requests: Resources::from([(Arc::from("cpu"), 1000), (Arc::from("memory"), memory)]),
            ..Default::default()
        }
    }
}

fn node(index: usize) -> NodeFacts {
    NodeFacts {
        name: format!("node-{index}").into(),
        allocatable: Resources::from([
            (Arc::from("cpu"), 16_000),
            (Arc::from("memory"), 64 * GIB),
            (Arc::from("pods"), 110),
        ]),
        ..Default::default()
    }
}

fn whole(index: usize) -> i64 {
    i64::try_from(index).unwrap_or(i64::MAX)
}
