//! A full cluster, and a large gang that wants back the half that its queue deserves.

use basalt_engine::facts::{Event, Phase, PodFacts, PodGroupFacts, PodPhase, Tally};

use super::{CORES_PER_NODE, GangWorkload, node, queue, whole};

/// Two queues that deserve half of the nodes each: `queue-0` has them all, and one gang of `queue-1` asks for its half.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReclaimWorkload {
    /// How many nodes.
    pub nodes: usize,
    /// Pods of each running job.
    pub pods_per_job: usize,
    /// Whether the running jobs are gangs, of which all or none must go.
    pub gangs: bool,
}

impl ReclaimWorkload {
    /// Pods of the gang that waits.
    pub fn wanted(&self) -> usize {
        self.nodes * CORES_PER_NODE / 2
    }

    /// Everything as events.
    pub fn events(&self) -> impl Iterator<Item = Event> {
        let this = *self;
        let half = whole(this.nodes / 2);
        let queues = [
            queue("root".to_owned(), String::new(), 0),
            queue("queue-0".to_owned(), "root".to_owned(), half),
            queue("queue-1".to_owned(), "root".to_owned(), whole(this.nodes) - half),
        ];
        let nodes = (0..this.nodes).map(|index| Event::Node(node(index)));
        let running = GangWorkload {
            pods_per_job: this.pods_per_job.max(1),
            ..GangWorkload::default()
        };
        let slots = this.nodes * CORES_PER_NODE;
        let jobs = slots / running.pods_per_job;
        let running = (0..jobs).flat_map(move |job| {
            let events = running.gang(&format!("running-{job}"), job).enumerate();
            events.map(move |(at, event)| this.started(event, job * this.pods_per_job.max(1) + at.saturating_sub(1)))
        });
        let waiting = GangWorkload {
            pods_per_job: this.wanted(),
            queues: 2,
            ..GangWorkload::default()
        };
        let queues = queues.into_iter().chain(nodes);
        queues.chain(running).chain(waiting.gang("large", 1))
    }

    /// The pod in this slot of the cluster runs.
    fn started(&self, event: Event, slot: usize) -> Event {
        match event {
            Event::Pod(pod) => Event::Pod(PodFacts {
                node: Some(format!("node-{}", slot / CORES_PER_NODE).into()),
                phase: PodPhase::Running,
                ..pod
            }),
            Event::PodGroup(group) => Event::PodGroup(PodGroupFacts {
                phase: Phase::Running,
                min_member: if self.gangs { group.min_member } else { 1 },
                tally: Tally {
                    running: group.min_member,
                    ..Tally::default()
                },
                ..group
            }),
            other => other,
        }
    }
}
