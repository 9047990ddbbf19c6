//! Every sum equals a recount, whatever was done and rolled back.

use std::collections::BTreeMap;

use basalt_testkit::workload::GangWorkload;
use proptest::prelude::*;
use proptest::sample::select;

use crate::facts::{Event, Phase};
use crate::ledger::Status;
use crate::model::{Id, JobId, NodeId, TaskId};
use crate::resources::{Amounts, Columns, DimId};
use crate::session::{Checkpoint, State};
use crate::testing::workload_events;

#[derive(Clone, Debug)]
enum Step {
    Set(usize, Status, usize),
    Phase(usize, Phase),
    Mark,
    Back,
    Told(Box<Event>),
}

fn status() -> impl Strategy<Value = Status> {
    select(vec![
        Status::Pending,
        Status::Allocated,
        Status::Pipelined,
        Status::Running,
        Status::Releasing,
        Status::Succeeded,
    ])
}

fn workload() -> GangWorkload {
    GangWorkload {
        nodes: 3,
        jobs: 4,
        pods_per_job: 4,
        classes: 2,
        queues: 3,
        depth: 3,
        locked: 0,
    }
}

/// The events of the workload; every other group declares a minimum.
fn events() -> Vec<Event> {
    let mut events = workload_events(&workload());
    for (at, event) in events.iter_mut().enumerate() {
        if let Event::PodGroup(group) = event
            && at % 2 == 0
        {
            group.min_resources = Some([("cpu".into(), 3000), ("limits.cpu".into(), 9000)].into());
        }
    }
    events
}

fn step() -> impl Strategy<Value = Step> {
    let phase = select(vec![Phase::Pending, Phase::Inqueue, Phase::Running, Phase::Completed]);
    prop_oneof![
        6 => (0usize..16, status(), 0usize..3).prop_map(|(task, status, node)| Step::Set(task, status, node)),
        2 => (0usize..4, phase).prop_map(|(job, phase)| Step::Phase(job, phase)),
        2 => Just(Step::Mark),
        2 => Just(Step::Back),
        3 => (select(events()), 0usize..5).prop_map(|(event, queue)| Step::Told(Box::new(moved(event, queue)))),
    ]
}

/// A group that names another queue, a queue that hangs elsewhere, or something that is gone.
fn moved(event: Event, at: usize) -> Event {
    match event {
        Event::PodGroup(group) if at == 4 => Event::PodGroupGone {
            key: group.key,
            uid: None,
        },
        Event::PodGroup(mut group) => {
            group.queue = format!("queue-{at}").into();
            Event::PodGroup(group)
        }
        Event::Queue(mut queue) => {
            queue.parent = format!("level-{at}").into();
            Event::Queue(queue)
        }
        Event::Node(node) if at > 2 => Event::NodeGone {
            name: node.name,
            uid: None,
        },
        Event::Pod(pod) if at > 2 => Event::PodGone {
            key: pod.key,
            uid: None,
        },
        other => other,
    }
}

type Sums = BTreeMap<(&'static str, usize, u16), i64>;

fn add(sums: &mut Sums, what: &'static str, row: usize, amounts: &Amounts, sign: i64) {
    for (dim, amount) in amounts.iter() {
        *sums.entry((what, row, dim.0)).or_default() += sign * amount;
    }
}

fn recounted(state: &State) -> Sums {
    let (model, ledger) = (&state.model, &state.ledger);
    let mut sums = Sums::new();
    for node in model.nodes.ids().filter(|&node| model.nodes[node].present) {
        add(&mut sums, "total", 0, &model.nodes[node].allocatable, 1);
        add(&mut sums, "idle", 0, &ledger.idle().row(node.index()), 1);
    }
    for task in model.tasks.ids() {
        let record = &model.tasks[task];
        if !record.job.is_some() {
            continue;
        }
        let what = match ledger.status(task) {
            Status::Pending => "waiting",
            status if status.is_charged() => "allocated",
            _ => continue,
        };
        for queue in model.chain(model.jobs[record.job].queue) {
            add(&mut sums, what, queue.index(), model.classes.request(record.class), 1);
        }
    }
    for job in model.jobs.ids().filter(|&job| model.jobs[job].queue.is_some()) {
        *sums.entry(("jobs", model.jobs[job].queue.index(), 0)).or_default() += 1;
    }
    sums.retain(|_, amount| *amount != 0);
    sums
}

fn kept(state: &State) -> Sums {
    let (model, ledger) = (&state.model, &state.ledger);
    let mut sums = Sums::new();
    add(&mut sums, "total", 0, &ledger.total(), 1);
    for dim in (0..model.dims.count()).map(|dim| DimId(dim as u16)) {
        sums.insert(("idle", 0, dim.0), ledger.cluster_idle(dim));
    }
    for queue in model.queues.ids() {
        add(
            &mut sums,
            "allocated",
            queue.index(),
            &ledger.queue_allocated().row(queue.index()),
            1,
        );
        add(
            &mut sums,
            "waiting",
            queue.index(),
            &ledger.queue_waiting().row(queue.index()),
            1,
        );
        sums.insert(("jobs", queue.index(), 0), i64::from(ledger.queue_jobs(queue)));
    }
    sums.retain(|_, amount| *amount != 0);
    sums
}

/// What a job claims, by the book.
fn claims(state: &State, job: JobId) -> [BTreeMap<u16, i64>; 3] {
    let (record, counts) = (&state.model.jobs[job], state.ledger.counts(job));
    let mut claims: [BTreeMap<u16, i64>; 3] = Default::default();
    if record.phase == Phase::Completed || !record.present {
        return claims;
    }
    let has = |dim: DimId| state.ledger.job_allocated().get(job.index(), dim);
    let cpu = crate::resources::CPU;
    let declared = record
        .min_resources
        .as_ref()
        .and_then(|minimum| minimum.get(cpu))
        .unwrap_or(0);
    let admitted =
        record.phase == Phase::Inqueue || (record.phase == Phase::Running && counts.ready() >= record.min_member);
    claims[0].insert(cpu.0, if admitted { (declared - has(cpu)).max(0) } else { 0 });
    claims[1].insert(cpu.0, (has(cpu) - declared).max(0));
    claims[2].insert(cpu.0, if counts.total() == 0 { declared } else { 0 });
    claims
}

fn assert_claims(state: &State) -> Result<(), TestCaseError> {
    let cpu = crate::resources::CPU;
    let columns: [&Columns; 3] = [
        state.ledger.queue_inqueue(),
        state.ledger.queue_elastic(),
        state.ledger.queue_expected(),
    ];
    for queue in state.model.queues.ids() {
        for (at, column) in columns.iter().enumerate() {
            let below = |job: &JobId| state.model.chain(state.model.jobs[*job].queue).contains(&queue);
            let jobs = state.model.jobs.ids().filter(below);
            let sum: i64 = jobs.map(|job| claims(state, job)[at].values().sum::<i64>()).sum();
            prop_assert_eq!(column.get(queue.index(), cpu), sum);
        }
    }
    Ok(())
}

proptest! {
    #[test]
    fn sums_are_what_a_recount_says(steps in prop::collection::vec(step(), 0..60)) {
        let mut state = State::default();
        for event in events() {
            state.apply(&event, &|_| true);
        }
        let mut marks: Vec<(Checkpoint, crate::ledger::Ledger)> = Vec::new();
        state.open();
        for step in steps {
            match step {
                Step::Set(task, status, node) => {
                    let (task, node) = (TaskId::from_index(task), NodeId::from_index(node));
                    let known = task.index() < state.model.tasks.slots() && state.ledger.status(task) != Status::Out;
                    let placed = !matches!(status, Status::Pending | Status::Succeeded);
                    if known && (!placed || node.index() < state.model.nodes.slots()) {
                        state.set(task, status, if placed { node } else { NodeId::NONE });
                    }
                }
                Step::Phase(job, phase) => {
                    let job = JobId::from_index(job);
                    if job.index() < state.model.jobs.slots() && state.model.jobs[job].present {
                        state.set_phase(job, phase);
                    }
                }
                Step::Mark => marks.push((state.checkpoint(), state.ledger.clone())),
                Step::Back => if let Some((mark, ledger)) = marks.pop() {
                    state.rollback(mark);
                    prop_assert!(state.ledger == ledger);
                },
                Step::Told(event) => {
                    // Events come between cycles.
                    marks.clear();
                    state.settle();
                    state.apply(&event, &|_| true);
                    state.open();
                }
            }
            prop_assert_eq!(kept(&state), recounted(&state));
        }
        let all: Vec<JobId> = state.model.jobs.ids().collect();
        for job in all {
            state.mark(job);
        }
        state.settle_claims();
        assert_claims(&state)?;

    }
}
