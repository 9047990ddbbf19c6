//! Workloads of any size: equal nodes, gangs of equal pods, a tree of queues.

mod reclaim;

use std::sync::Arc;

use basalt_engine::facts::{Event, NodeFacts, Phase, PodFacts, PodGroupFacts, QueueFacts, Resources};

pub use self::reclaim::ReclaimWorkload;

const GIB: i64 = 1 << 30;
const MIB: i64 = 1 << 20;
/// The cores of a node, which is also how many pods of a workload it takes.
pub const CORES_PER_NODE: usize = 16;

/// The size of a workload. Nodes have 16 cores, 64 GiB and room for 110 pods; pods ask for 1 core and about 1 GiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GangWorkload {
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
    /// How many of 100 nodes are locked for leaf queues, in turn; these are guaranteed all of them.
    pub locked: usize,
}

impl Default for GangWorkload {
    fn default() -> Self {
        GangWorkload {
            nodes: 1000,
            jobs: 500,
            pods_per_job: 20,
            classes: 1,
            queues: 1,
            depth: 1,
            locked: 0,
        }
    }
}

impl GangWorkload {
    /// Everything as events: queues, nodes, groups, pods.
    pub fn events(&self) -> impl Iterator<Item = Event> {
        let this = *self;
        let nodes = (0..this.nodes).map(|index| Event::Node(node(index)));
        let jobs = (0..this.jobs).flat_map(move |job| this.gang(&format!("job-{job}"), job));
        this.queue_events().into_iter().chain(nodes).chain(jobs)
    }

    /// One gang of a name: its group and its pods. Its shape, queue and age are those of gang number `job`.
    pub fn gang(&self, name: &str, job: usize) -> impl Iterator<Item = Event> + use<> {
        let (this, name): (GangWorkload, Arc<str>) = (*self, name.into());
        let group = Event::PodGroup(this.group(&name, job));
        let pods = (0..this.pods_per_job).map(move |index| Event::Pod(this.pod(&name, job, index)));
        std::iter::once(group).chain(pods)
    }

    /// `root` and a tree below it that widens evenly down to the leaves `queue-N`. Each queue deserves what its leaves do: an equal part of
    /// the nodes.
    fn queue_events(&self) -> Vec<Event> {
        let (levels, leaves) = (self.depth.max(1), self.queues.max(1));
        let width = |level: usize| -> usize {
            let wide = (leaves as f64).powf(level as f64 / levels as f64);
            if level == levels {
                leaves
            } else {
                (wide.round() as usize).clamp(1, leaves)
            }
        };
        let name = |level: usize, index: usize| match level {
            0 => "root".to_owned(),
            level if level == levels => format!("queue-{index}"),
            level => format!("level-{level}-{index}"),
        };
        let part = |leaf: usize| whole(self.nodes * (leaf + 1) / leaves - self.nodes * leaf / leaves);
        let mut events = vec![queue("root".to_owned(), String::new(), 0)];
        for level in 1..=levels {
            for index in 0..width(level) {
                let above = index * width(level - 1) / width(level);
                let ancestor = |leaf: usize| (level..levels).rev().fold(leaf, |at, l| at * width(l) / width(l + 1));
                let below = (0..leaves).filter(|&leaf| ancestor(leaf) == index);
                let nodes = below.map(part).sum();
                let locks = if level == levels { self.locks(index) } else { Vec::new() };
                events.push(Event::Queue(QueueFacts {
                    target: offer(whole(locks.len())),
                    evicts: true,
                    locks,
                    ..queue_facts(name(level, index), name(level - 1, above), nodes)
                }));
            }
        }
        events
    }

    /// The nodes that are locked for a leaf.
    fn locks(&self, leaf: usize) -> Vec<Arc<str>> {
        let all = 0..(self.nodes * self.locked / 100).min(self.nodes);
        let own = all.filter(|index| index % self.queues.max(1) == leaf);
        let mut names: Vec<Arc<str>> = own.map(|index| format!("node-{index}").into()).collect();
        names.sort_unstable();
        names
    }

    fn group(&self, name: &str, job: usize) -> PodGroupFacts {
        let count = whole(self.pods_per_job);
        let needs = self.request(job).into_iter();
        PodGroupFacts {
            key: format!("bench/{name}").into(),
            uid: format!("group-{name}").into(),
            created_ms: whole(job),
            queue: format!("queue-{}", job % self.queues.max(1)).into(),
            min_member: self.pods_per_job as u32,
            min_resources: Some(needs.map(|(name, one)| (name, one.saturating_mul(count))).collect()),
            phase: Phase::Pending,
            ..Default::default()
        }
    }

    fn request(&self, job: usize) -> Resources {
        let memory = GIB + MIB * whole(job % self.classes.max(1));
        Resources::from([(Arc::from("cpu"), 1000), (Arc::from("memory"), memory)])
    }

    fn pod(&self, name: &str, job: usize, index: usize) -> PodFacts {
        PodFacts {
            key: format!("bench/{name}-task-{index}").into(),
            uid: format!("pod-{name}-{index:06}").into(),
            created_ms: whole(job),
            scheduler: basalt_api::names::SCHEDULER_NAME.into(),
            group: Some(format!("bench/{name}").into()),
            role: "task".into(),
            requests: self.request(job),
            ..Default::default()
        }
    }
}

/// A queue that deserves so many nodes; 0: it does not say.
fn queue(name: String, parent: String, nodes: i64) -> Event {
    Event::Queue(queue_facts(name, parent, nodes))
}

fn queue_facts(name: String, parent: String, nodes: i64) -> QueueFacts {
    QueueFacts {
        name: name.into(),
        parent: parent.into(),
        deserved: offer(nodes),
        ..Default::default()
    }
}

/// What so many nodes offer; 0: nothing.
fn offer(nodes: i64) -> Resources {
    let one = [("cpu", whole(CORES_PER_NODE) * 1000), ("memory", 64 * GIB)];
    let one = one.into_iter().filter(|_| nodes > 0);
    one.map(|(name, one)| (Arc::from(name), one * nodes)).collect()
}

fn node(index: usize) -> NodeFacts {
    NodeFacts {
        name: format!("node-{index}").into(),
        allocatable: Resources::from([
            (Arc::from("cpu"), whole(CORES_PER_NODE) * 1000),
            (Arc::from("memory"), 64 * GIB),
            (Arc::from("pods"), 110),
        ]),
        ..Default::default()
    }
}

fn whole(index: usize) -> i64 {
    i64::try_from(index).unwrap_or(i64::MAX)
}
