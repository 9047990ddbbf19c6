//! Manifests as people write them, through the types and back.

use basalt_api::job::{Action, Event};
use basalt_api::queue::{GuaranteePolicy, QueueState, WantedState};
use basalt_api::{
    Command, CronJob, HyperNode, Job, JobFlow, JobTemplate, NodeShard, Numatopology, PodGroup, Preserved, Queue,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

fn manifest(kind: &str) -> Value {
    let file = format!("{}/tests/manifests/{kind}.yaml", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{file}: {error}"));
    serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{file}: {error}"))
}

/// Everything that the manifest says comes back; what comes back beyond it are defaults that were filled in.
fn check<T: Serialize + DeserializeOwned>(kind: &str) -> T {
    let written = manifest(kind);
    let typed: T = serde_json::from_value(written.clone()).unwrap_or_else(|error| panic!("{kind}: {error}"));
    let back = serde_json::to_value(&typed).expect("json");
    contains(&back, &written, kind);
    // A second pass changes nothing, and the preserving view changes nothing at all.
    let again: T = serde_json::from_value(back.clone()).expect("reads its own output");
    assert_eq!(serde_json::to_value(&again).expect("json"), back);
    let preserved = Preserved::<T>::new(written.clone()).expect("reads");
    assert_eq!(preserved.to_value().expect("json"), written);
    typed
}

fn contains(have: &Value, want: &Value, path: &str) {
    match (have, want) {
        (Value::Object(have), Value::Object(want)) => {
            for (name, want) in want {
                let have = have.get(name).unwrap_or_else(|| panic!("{path}.{name} was lost"));
                contains(have, want, &format!("{path}.{name}"));
            }
        }
        (Value::Array(have), Value::Array(want)) => {
            assert_eq!(have.len(), want.len(), "{path}");
            for (index, (have, want)) in have.iter().zip(want).enumerate() {
                contains(have, want, &format!("{path}[{index}]"));
            }
        }
        _ => assert_eq!(have, want, "{path}"),
    }
}

#[test]
fn queue() {
    let queue: Queue = check("queue");
    assert_eq!(queue.spec.state, Some(WantedState::Closed));
    assert_eq!(
        queue.status.as_ref().and_then(|status| status.state),
        Some(QueueState::Closing)
    );
    assert_eq!(queue.spec.guarantee.policy, Some(GuaranteePolicy::Guaranteed));
    assert_eq!(
        queue
            .spec
            .guarantee
            .percentage
            .as_ref()
            .map(|share| share.value.floor_of(100)),
        Some(29)
    );
    assert_eq!(queue.parent(), Some("research"));
    assert!(queue.wants_closed() && !queue.is_reclaimable());
}

#[test]
fn pod_group() {
    let group: PodGroup = check("podgroup");
    assert_eq!(group.spec.min_task_member.get("worker"), Some(&3));
    let status = group.status.expect("a status");
    assert_eq!(
        status.reasons[0].message(),
        "queue \"research\": the queue would pass its capability: needs 8 cpu, has 2500m."
    );
}

#[test]
fn job() {
    let job: Job = check("job");
    assert_eq!(job.total_replicas(), 4);
    assert_eq!(job.spec.policies[0].action, Action::RestartJob);
    assert_eq!(
        job.spec.policies[1].all_events().cloned().collect::<Vec<_>>(),
        [Event::PodFailed, Event::PodEvicted]
    );
    assert_eq!(job.spec.tasks[1].min_available(), 2);
    assert_eq!(job.spec.tasks[0].min_available(), 1);
    assert!(!job.phase().is_finished());
}

#[test]
fn command() {
    let command: Command = check("command");
    assert_eq!(command.spec.action, Action::CloseQueue);
    assert_eq!(
        command.spec.target.map(|target| target.name).as_deref(),
        Some("research")
    );
}

#[test]
fn the_other_kinds() {
    let cron: CronJob = check("cronjob");
    assert_eq!(cron.spec.successful_jobs_history_limit, Some(5));
    let flow: JobFlow = check("jobflow");
    assert_eq!(
        flow.spec.flows[1]
            .depends_on
            .as_ref()
            .map(|depends| depends.targets.len()),
        Some(1)
    );
    let template: JobTemplate = check("jobtemplate");
    assert_eq!(template.spec.0.tasks.len(), 1);
    let hyper_node: HyperNode = check("hypernode");
    assert_eq!(hyper_node.spec.members.len(), 3);
    let numa: Numatopology = check("numatopology");
    assert_eq!(numa.spec.cpu_detail.len(), 2);
    let shard: NodeShard = check("nodeshard");
    assert_eq!(shard.spec.nodes_desired.len(), 2);
}

/// Defaults that the CRDs fill in are those of the types.
#[test]
fn empty_objects_have_the_same_defaults_as_the_definitions() {
    let specs: [(&str, Value); 4] = [
        (
            "queues",
            serde_json::to_value(basalt_api::queue::QueueSpec::default()).expect("json"),
        ),
        (
            "podgroups",
            serde_json::to_value(basalt_api::podgroup::PodGroupSpec::default()).expect("json"),
        ),
        (
            "jobs",
            serde_json::to_value(basalt_api::job::JobSpec::default()).expect("json"),
        ),
        (
            "cronjobs",
            serde_json::to_value(basalt_api::cronjob::CronJobSpec::default()).expect("json"),
        ),
    ];
    let definitions = basalt_api::crd::all();
    for (plural, typed) in specs {
        let definition = definitions
            .iter()
            .find(|definition| definition.spec.names.plural == plural)
            .expect("a definition");
        let json = serde_json::to_value(definition).expect("json");
        let fields = &json["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"];
        for (name, schema) in fields.as_object().expect("fields") {
            if let Some(default) = schema.get("default") {
                assert_eq!(typed.get(name), Some(default), "{plural}.spec.{name}");
            }
        }
    }
}
