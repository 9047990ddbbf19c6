//! What is kept by differences equals what is counted from scratch, whatever came and went.

use std::collections::{BTreeMap, BTreeSet};

use basalt_api::NamespacedName;
use basalt_controllers::cache::Origin;
use basalt_controllers::queue::tally::Tally;
use basalt_controllers::world::World;
use proptest::prelude::*;
use serde_json::{Value, json};

/// `default` is among them: whoever names no queue is there.
const QUEUES: [&str; 5] = ["default", "a", "b", "c", "root"];
const JOB_PHASES: [&str; 6] = ["Pending", "Running", "Completed", "Failed", "Aborted", "Terminating"];
const GROUP_PHASES: [&str; 4] = ["Pending", "Inqueue", "Running", "Completed"];
const POD_PHASES: [&str; 4] = ["Pending", "Running", "Succeeded", "Failed"];

/// One object, by small numbers.
#[derive(Clone, Debug)]
enum Step {
    Job {
        name: usize,
        queue: usize,
        phase: usize,
    },
    /// Of Job `job`, or, with 2, of nobody.
    Group {
        name: usize,
        job: usize,
        queue: usize,
        phase: usize,
    },
    /// In group `group`, or in none; naming a queue by annotation or not.
    Pod {
        name: usize,
        group: usize,
        queue: usize,
        phase: usize,
    },
    Queue {
        name: usize,
        parent: usize,
        wanted: bool,
        state: usize,
        cpu: u32,
    },
    /// The n-th of a kind goes.
    Remove {
        kind: usize,
        name: usize,
    },
    /// It goes and comes back with another uid.
    Anew {
        kind: usize,
        name: usize,
    },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..2_usize, 0..4_usize, 0..6_usize).prop_map(|(name, queue, phase)| Step::Job { name, queue, phase }),
        4 => (0..3_usize, 0..3_usize, 0..4_usize, 0..4_usize)
            .prop_map(|(name, job, queue, phase)| Step::Group { name, job, queue, phase }),
        6 => (0..4_usize, 0..5_usize, 0..5_usize, 0..4_usize)
            .prop_map(|(name, group, queue, phase)| Step::Pod { name, group, queue, phase }),
        4 => (0..4_usize, 0..6_usize, any::<bool>(), 0..3_usize, 0..4_u32)
            .prop_map(|(name, parent, wanted, state, cpu)| Step::Queue { name, parent, wanted, state, cpu }),
        3 => (0..4_usize, 0..4_usize).prop_map(|(kind, name)| Step::Remove { kind, name }),
        1 => (0..4_usize, 0..4_usize).prop_map(|(kind, name)| Step::Anew { kind, name }),
    ]
}

const KINDS: [&str; 4] = ["Job", "PodGroup", "Pod", "Queue"];

fn name_of(kind: &str, number: usize) -> String {
    match kind {
        "Queue" => QUEUES[number % QUEUES.len()].to_owned(),
        // The first two are those that the two Jobs make.
        "PodGroup" if number < 2 => format!("job{number}-uid-job{number}"),
        "PodGroup" => "lone".to_owned(),
        kind => format!("{}{number}", kind.to_lowercase()),
    }
}

fn manifest(step: &Step) -> Value {
    let pick = |words: &[&str], number: usize| words[number % words.len()].to_owned();
    match *step {
        Step::Job { name, queue, phase } => json!({
            "kind": "Job", "metadata": {"name": name_of("Job", name), "namespace": "n", "uid": format!("uid-job{name}")},
            "spec": {"queue": if queue == 0 { String::new() } else { pick(&QUEUES, queue) }},
            "status": {"state": {"phase": pick(&JOB_PHASES, phase)}},
        }),
        Step::Group {
            name,
            job,
            queue,
            phase,
        } => {
            let owner = json!({"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": format!("job{job}"),
                "uid": format!("uid-job{job}"), "controller": true});
            json!({
                "kind": "PodGroup", "metadata": {"name": name_of("PodGroup", name), "namespace": "n",
                    "ownerReferences": if job == 2 { json!([]) } else { json!([owner]) }},
                "spec": {"queue": pick(&QUEUES, queue)}, "status": {"phase": pick(&GROUP_PHASES, phase)},
            })
        }
        Step::Pod {
            name,
            group,
            queue,
            phase,
        } => {
            let mut annotations = json!({});
            if group < 4 {
                annotations["scheduling.k8s.io/group-name"] = json!(if group == 3 {
                    "gone".to_owned()
                } else {
                    name_of("PodGroup", group)
                });
            }
            if queue < 4 {
                annotations["scheduling.volcano.sh/queue-name"] = json!(pick(&QUEUES, queue));
            }
            json!({
                "kind": "Pod", "metadata": {"name": name_of("Pod", name), "namespace": "n", "annotations": annotations},
                "spec": {"schedulerName": "volcano", "nodeName": if name % 2 == 0 { "node" } else { "" }},
                "status": {"phase": pick(&POD_PHASES, phase)},
            })
        }
        Step::Queue {
            name,
            parent,
            wanted,
            state,
            cpu,
        } => json!({
            "kind": "Queue", "metadata": {"name": name_of("Queue", name),
                "creationTimestamp": format!("2026-01-01T00:00:0{name}Z")},
            "spec": {"parent": if parent == 5 { "gone".to_owned() } else { pick(&QUEUES, parent) },
                "state": if wanted { "Closed" } else { "Open" },
                "deserved": if cpu == 0 { json!({}) } else { json!({"cpu": cpu}) }},
            "status": {"state": pick(&["Open", "Closing", "Closed"], state)},
        }),
        Step::Remove { .. } | Step::Anew { .. } => Value::Null,
    }
}

type Objects = BTreeMap<(String, String), Value>;

fn new_world() -> World {
    World::new(BTreeSet::from(["volcano".to_owned()]))
}

fn upsert(world: &mut World, object: &Value) {
    let text = object.to_string();
    let origin = Origin::Watch;
    match object["kind"].as_str().expect("kind") {
        "Job" => drop(world.upsert_job(serde_json::from_str(&text).expect("a job"), origin)),
        "PodGroup" => drop(world.upsert_group(serde_json::from_str(&text).expect("a group"), origin)),
        "Pod" => drop(world.upsert_pod(serde_json::from_str(&text).expect("a pod"), origin)),
        _ => drop(world.upsert_queue(serde_json::from_str(&text).expect("a queue"), origin)),
    }
}

fn remove(world: &mut World, object: &Value) {
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
    let (key, uid) = (NamespacedName::new(&text("namespace"), &text("name")), text("uid"));
    match object["kind"].as_str().expect("kind") {
        "Job" => drop(world.remove_job(&key, &uid)),
        "PodGroup" => drop(world.remove_group(&key, &uid)),
        "Pod" => drop(world.remove_pod(&key, &uid)),
        _ => drop(world.remove_queue(&key, &uid)),
    }
}

fn play(world: &mut World, objects: &mut Objects, step: &Step, revision: usize) {
    let (kind, mut object) = match step {
        Step::Remove { kind, name } | Step::Anew { kind, name } => {
            let kind = KINDS[*kind];
            let key = (kind.to_owned(), name_of(kind, *name));
            let Some(object) = objects.remove(&key) else { return };
            remove(world, &object);
            let uid = object["metadata"]["uid"].as_str().expect("a uid").to_owned();
            objects.insert(("Dead".to_owned(), uid), Value::Null);
            if matches!(step, Step::Remove { .. }) {
                return;
            }
            (kind, object)
        }
        _ => {
            let object = manifest(step);
            (
                KINDS.into_iter().find(|kind| object["kind"] == *kind).expect("a kind"),
                object,
            )
        }
    };
    let key = (
        kind.to_owned(),
        object["metadata"]["name"].as_str().expect("a name").to_owned(),
    );
    let proposed = object["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
    let known = objects.get(&key).map(|old| old["metadata"]["uid"].clone());
    // What was deleted never comes back under its old uid.
    let usable = !proposed.is_empty() && !objects.contains_key(&("Dead".to_owned(), proposed.clone()));
    let fresh = if usable {
        proposed
    } else {
        format!("{}-{revision}", key.1)
    };
    object["metadata"]["uid"] = known.unwrap_or_else(|| json!(fresh));
    object["metadata"]["resourceVersion"] = json!(revision.to_string());
    upsert(world, &object);
    objects.insert(key, object);
}

/// Counted by walking over everything, from the wire form.
fn count(objects: &Objects, queue: &str) -> Tally {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let of = |kind: &'static str| objects.values().filter(move |object| object["kind"] == kind);
    let named = |name: &Value| {
        if text(name).is_empty() {
            "default".to_owned()
        } else {
            text(name)
        }
    };
    let owner = |group: &Value| text(&group["metadata"]["ownerReferences"][0]["uid"]);
    let group_of = |pod: &Value| text(&pod["metadata"]["annotations"]["scheduling.k8s.io/group-name"]);
    let ended = |pod: &Value| ["Succeeded", "Failed"].contains(&text(&pod["status"]["phase"]).as_str());
    let mut tally = Tally::default();
    for job in of("Job").filter(|job| named(&job["spec"]["queue"]) == queue) {
        let (name, uid) = (text(&job["metadata"]["name"]), text(&job["metadata"]["uid"]));
        let let_in = of("PodGroup").any(|group| {
            group["status"]["phase"] == "Inqueue"
                && owner(group) == uid
                && group["metadata"]["name"] == format!("{name}-{uid}")
        });
        tally.jobs += 1;
        let phase = text(&job["status"]["state"]["phase"]);
        tally.unfinished_jobs += u32::from(!["Completed", "Failed"].contains(&phase.as_str()));
        *match phase.as_str() {
            "Pending" if let_in => &mut tally.inqueue,
            "Pending" => &mut tally.pending,
            "Completed" => &mut tally.completed,
            "Failed" => &mut tally.failed,
            "Aborted" => &mut tally.aborted,
            _ => &mut tally.running,
        } += 1;
    }
    for group in of("PodGroup").filter(|group| named(&group["spec"]["queue"]) == queue) {
        let members: Vec<&Value> = of("Pod")
            .filter(|pod| group["metadata"]["name"] == group_of(pod))
            .collect();
        let living = members.iter().any(|pod| !ended(pod));
        let done = !living && (group["status"]["phase"] == "Completed" || !members.is_empty());
        tally.groups += 1;
        tally.unknown += u32::from(owner(group).is_empty());
        tally.undone_groups += u32::from(!done);
    }
    for pod in of("Pod").filter(|pod| !ended(pod)) {
        let group = group_of(pod);
        let grouped = of("PodGroup").any(|other| other["metadata"]["name"] == group);
        let written = text(&pod["metadata"]["annotations"]["scheduling.volcano.sh/queue-name"]);
        let free = group.is_empty() && text(&pod["spec"]["nodeName"]).is_empty();
        let counts = if written.is_empty() {
            free && queue == "default"
        } else {
            written == queue
        };
        tally.lone_pods += u32::from(!grouped && counts);
    }
    tally
}

/// The words of a view of a queue, its metadata aside.
fn view(world: &World, name: &str) -> Option<String> {
    let view = world.queue_view(name)?;
    Some(format!(
        "{:?} {:?} {} {} {:?} {:?}",
        view.tally, view.closed_by, view.children, view.unsettled, view.damage, view.overcommit
    ))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn what_is_kept_by_differences_equals_what_is_counted(steps in prop::collection::vec(step(), 1..60)) {
        let (mut world, mut objects) = (new_world(), Objects::new());
        for (revision, step) in steps.iter().enumerate() {
            play(&mut world, &mut objects, step, revision + 1);
        }
        let mut fresh = new_world();
        for object in objects.values().rev().filter(|object| !object.is_null()) {
            upsert(&mut fresh, object);
        }
        for name in QUEUES {
            prop_assert_eq!(view(&world, name), view(&fresh, name), "{}", name);
            let Some(seen) = world.queue_view(name) else { continue };
            prop_assert_eq!(seen.tally, count(&objects, name), "{}", name);
            let parent = |queue: &Value| queue["spec"]["parent"].as_str().unwrap_or_default().to_owned();
            let children: Vec<&Value> = objects
                .values()
                .filter(|queue| queue["kind"] == "Queue" && queue["metadata"]["name"] != "root" && parent(queue) == name)
                .collect();
            let settled = |queue: &&&Value| {
                let child = queue["metadata"]["name"].as_str().unwrap_or_default();
                queue["status"]["state"] == "Closed" && count(&objects, child).is_idle()
            };
            prop_assert_eq!(seen.children, children.len());
            prop_assert_eq!(seen.unsettled, children.len() - children.iter().filter(settled).count());
        }
    }
}
