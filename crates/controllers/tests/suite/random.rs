//! Random lives: whatever happens to its pods, group and spec, a Job ends each time with exactly the
//! pods it should have and a status that counts them.

use basalt_api::slim::{Pod, PodPhase};
use proptest::prelude::*;
use serde_json::json;

use crate::world::{World, task};

#[derive(Clone, Debug)]
enum Happening {
    /// The scheduler writes a phase into the group.
    Group(&'static str),
    /// The kubelet writes a phase into the n-th pod.
    Pod(usize, &'static str),
    /// The n-th pod vanishes.
    Lost(usize),
    /// The n-th pod begins to stop.
    Stopping(usize),
    /// Everything that is stopping has stopped.
    Stopped,
    /// A task gets this many replicas.
    Scale(usize, i32),
    /// The controller dies after that many more changes.
    Crash(usize),
}

fn happening() -> impl Strategy<Value = Happening> {
    let group = prop::sample::select(vec!["Pending", "Inqueue", "Running", "Unknown", "Completed"]);
    let phase = prop::sample::select(vec![
        "Pending",
        "Running",
        "Running",
        "Running",
        "Succeeded",
        "Failed",
        "Unknown",
    ]);
    prop_oneof![
        2 => group.prop_map(Happening::Group),
        6 => (0..8_usize, phase).prop_map(|(pod, phase)| Happening::Pod(pod, phase)),
        1 => (0..8_usize).prop_map(Happening::Lost),
        1 => (0..8_usize).prop_map(Happening::Stopping),
        1 => Just(Happening::Stopped),
        2 => (0..2_usize, 0..5_i32).prop_map(|(task, replicas)| Happening::Scale(task, replicas)),
        1 => (1..4_usize).prop_map(Happening::Crash),
    ]
}

fn apply(world: &mut World, happening: &Happening) {
    let nth = |world: &World, n: usize| world.names("Pod").get(n).cloned();
    match happening {
        Happening::Group(phase) if !world.names("PodGroup").is_empty() => world.group_phase(phase),
        Happening::Group(_) => {}
        Happening::Pod(n, phase) => drop(nth(world, *n).map(|name| world.pods(phase, &[&name]))),
        Happening::Lost(n) => drop(nth(world, *n).map(|name| world.objects.remove(&("Pod".to_owned(), name)))),
        Happening::Stopping(n) => {
            if let Some(name) = nth(world, *n) {
                world.raw("Pod", &name)["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
            }
        }
        Happening::Stopped => world
            .objects
            .retain(|_, object| object["metadata"]["deletionTimestamp"].is_null()),
        Happening::Scale(task, replicas) => {
            world.raw("Job", "train")["spec"]["tasks"][*task]["replicas"] = json!(replicas);
        }
        Happening::Crash(after) => world.crash_after = Some(world.executed + after),
    }
}

/// What must hold whenever the controller is content.
fn check(world: &World) -> Result<(), TestCaseError> {
    let job = world.job();
    let status = job.status.clone().expect("status");
    let phase = job.phase().to_string();
    let runs = ["Pending", "Running", "Restarting"].contains(&phase.as_str());
    let pods: Vec<Pod> = world
        .names("Pod")
        .iter()
        .filter_map(|name| world.get("Pod", name))
        .collect();
    let stays = |pod: &&Pod| !pod.is_deleting();
    let wanted: Vec<String> = job
        .spec
        .tasks
        .iter()
        .flat_map(|task| {
            (0..task.replicas)
                .map(|index| format!("train-{}-{index}", task.name))
                .collect::<Vec<_>>()
        })
        .collect();
    let present: Vec<String> = pods
        .iter()
        .filter(stays)
        .filter_map(|pod| pod.metadata.name.clone())
        .collect();
    if runs {
        for name in &present {
            prop_assert!(wanted.contains(name), "{} is not wanted", name);
        }
        let count = |phase: PodPhase| pods.iter().filter(stays).filter(|pod| pod.phase() == phase).count();
        let counted = [
            status.pending,
            status.running,
            status.succeeded,
            status.failed,
            status.unknown,
        ];
        let phases = [
            PodPhase::Pending,
            PodPhase::Running,
            PodPhase::Succeeded,
            PodPhase::Failed,
            PodPhase::Unknown,
        ];
        prop_assert_eq!(
            counted.map(|count| usize::try_from(count).expect("not negative")),
            phases.map(count)
        );
    } else {
        prop_assert!(
            pods.iter().filter(stays).all(Pod::is_finished),
            "a stopped job has living pods"
        );
    }
    let names = world.names("PodGroup");
    let let_in = names
        .first()
        .and_then(|name| world.get::<basalt_api::PodGroup>("PodGroup", name));
    let let_in = let_in
        .and_then(|group| group.status?.phase)
        .is_some_and(|phase| format!("{phase:?}") != "Pending");
    if runs && let_in {
        let held = |name: &String| pods.iter().any(|pod| pod.metadata.name.as_ref() == Some(name));
        prop_assert!(wanted.iter().all(held), "pods are missing: {wanted:?} {present:?}");
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn a_job_always_ends_with_the_pods_it_should_have(
        min in 1..4_i32,
        min_success in prop::option::of(1..3_i32),
        happenings in prop::collection::vec(happening(), 1..25),
    ) {
        let spec = json!({"minAvailable": min, "minSuccess": min_success, "tasks": [task("a", 2), task("b", 2)]});
        let mut world = World::with_job(spec);
        world.settle();
        let mut finished: Option<String> = None;
        for happening in &happenings {
            apply(&mut world, happening);
            world.settle();
            check(&world)?;
            prop_assert_eq!(world.look().changes, []);
            if let Some(end) = &finished {
                prop_assert_eq!(&world.phase(), end, "an end is final");
            }
            finished = Some(world.phase()).filter(|phase| ["Completed", "Failed"].contains(&phase.as_str()));
        }
    }
}
