//! What a hundred thousand placed pods cost the controllers' memory: `cargo run -p basalt-controllers --example hold`.

use std::collections::BTreeSet;

use basalt_controllers::cache::Origin;
use basalt_controllers::world::World;
use serde_json::json;

const JOBS: u32 = 100;
const PODS_PER_JOB: u32 = 1_000;

/// Resident memory in kB, where the system tells.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let number = line.and_then(|line| line.split_whitespace().next());
    number.and_then(|number| number.parse().ok()).unwrap_or(0)
}

fn main() {
    let mut world = World::new(BTreeSet::from(["volcano".to_owned()]));
    let before = resident();
    for job in 0..JOBS {
        let group = json!({
            "metadata": {"name": format!("job-{job}-10000000-0000-4000-8000-{job:012x}"), "namespace": "research"},
            "spec": {"queue": "team-a"},
        });
        world.upsert_group(serde_json::from_value(group).expect("a group"), Origin::Watch);
        for index in 0..PODS_PER_JOB {
            let number = u64::from(job) * u64::from(PODS_PER_JOB) + u64::from(index);
            let uid = format!("10000000-0000-4000-8000-{job:012x}");
            let owner = json!({"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": format!("job-{job}"), "uid": uid, "controller": true});
            let pod = json!({
                "metadata": {
                    "name": format!("job-{job}-worker-{index}"), "namespace": "research", "resourceVersion": (number + 1).to_string(),
                    "uid": format!("00000000-0000-4000-8000-{number:012x}"), "ownerReferences": [owner],
                    "annotations": {"scheduling.k8s.io/group-name": format!("job-{job}-{uid}"), "volcano.sh/queue-name": "team-a"},
                },
                "spec": {"nodeName": "node-1", "schedulerName": "volcano", "containers": [{"name": "c"}]},
                "status": {"phase": "Running", "containerStatuses": [{"name": "c", "ready": true}]},
            });
            world.upsert_pod(serde_json::from_value(pod).expect("a pod"), Origin::Watch);
        }
    }
    let pods = u64::from(JOBS * PODS_PER_JOB);
    let bytes = resident().saturating_sub(before) * 1024;
    println!("{pods} pods: {} MB, {} bytes a pod", bytes / 1_000_000, bytes / pods);
    drop(world);
}
