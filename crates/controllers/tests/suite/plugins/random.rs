//! Whatever somebody writes: pods and objects that Kubernetes takes.

use std::collections::BTreeSet;

use basalt_api::Job;
use basalt_controllers::job::plugins::Plugins;
use proptest::prelude::{Just, ProptestConfig, Strategy, any, prop, prop_oneof, proptest};
use serde_json::{Value, json};

use super::{ENTROPY, data, job, pods};

const PLUGINS: [&str; 8] = ["env", "svc", "ssh", "pytorch", "tensorflow", "mpi", "ray", "hcclrank"];
const FLAGS: [&str; 14] = [
    "--master",
    "--worker",
    "-port",
    "--ps",
    "--head",
    "--headContainer",
    "--dashboardPort",
    "--wait-master-enabled",
    "--wait-master-timeout",
    "--inject-hosts-env",
    "--ssh-key-file-path",
    "--ssh-private-key",
    "--no-root",
    "--",
];
const VALUES: [&str; 12] = [
    "master",
    "worker",
    "a",
    "",
    "0",
    "80",
    "70000",
    "-1",
    "false",
    "/x",
    "ü\u{202e}",
    "$(A)",
];
const TASKS: [&str; 5] = ["master", "worker", "head", "ps", "a-b"];

fn word() -> impl Strategy<Value = String> {
    let flag = || prop::sample::select(&FLAGS[..]);
    let value = || prop::sample::select(&VALUES[..]);
    prop_oneof![
        (flag(), value()).prop_map(|(flag, value)| format!("{flag}={value}")),
        flag().prop_map(str::to_owned),
        value().prop_map(str::to_owned),
        any::<String>(),
    ]
}

/// A container that may have some of what plugins add.
fn container() -> impl Strategy<Value = Value> {
    let variable = prop::sample::select(&["RANK", "TF_CONFIG", "MPI_HOST", "VC_WORKER_NUM", "MINE"][..]);
    let path = prop::sample::select(&["/etc/volcano", "/etc/volcano/", "/root/.ssh", "/data"][..]);
    let name = prop::sample::select(&["head", "worker", "main"][..]);
    (
        name,
        prop::option::of(variable),
        prop::option::of(path),
        prop::option::of(0..3_i32),
    )
        .prop_map(|(name, variable, path, port)| {
            let ports = [22, 23456, 6379].map(|number| json!({"containerPort": number, "name": "gcs"}));
            json!({
                "name": name,
                "env": variable.map(|name| json!([{"name": name, "value": "1"}])),
                "volumeMounts": path.map(|path| json!([{"name": "mine", "mountPath": path}])),
                "ports": port.and_then(|port| ports.get(port as usize)).map(|port| json!([port])),
            })
        })
}

fn task(name: &'static str) -> impl Strategy<Value = Value> {
    let replicas = prop_oneof![0..4_i32, 300..400_i32, 5_000..7_000_i32, Just(i32::MAX), Just(-1)];
    let hostname = prop::option::of(prop::sample::select(&["", "boss"][..]));
    let containers = || prop::collection::vec(container(), 0..3);
    (replicas, hostname, containers(), containers()).prop_map(move |(replicas, hostname, first, main)| {
        json!({
            "name": name,
            "replicas": replicas,
            "template": {"spec": {
                "hostname": hostname,
                "volumes": [{"name": "mine", "emptyDir": {}}],
                "initContainers": first,
                "containers": main,
            }},
        })
    })
}

fn spec() -> impl Strategy<Value = Value> {
    let plugins = prop::sample::subsequence(&PLUGINS[..], 1..=PLUGINS.len());
    let words = prop::collection::vec(prop::collection::vec(word(), 0..3), PLUGINS.len());
    // Mostly all tasks, so that most plugins find theirs.
    let some = prop::sample::subsequence(&TASKS[..], 0..=TASKS.len());
    let tasks = prop_oneof![4 => Just(TASKS.to_vec()), 1 => some];
    let tasks = tasks.prop_flat_map(|names| names.into_iter().map(task).collect::<Vec<_>>());
    (plugins, words, tasks).prop_map(|(plugins, words, tasks)| {
        let plugins: serde_json::Map<String, Value> = plugins
            .into_iter()
            .zip(words)
            .map(|(name, words)| (name.to_owned(), json!(words)))
            .collect();
        json!({"plugins": plugins, "tasks": tasks})
    })
}

/// Each value of a field of a list once.
fn assert_unique(list: &Value, field: &str) {
    let mut seen = BTreeSet::new();
    for entry in list.as_array().into_iter().flatten() {
        let value = entry[field].to_string().replace("/\"", "\"");
        assert!(entry[field].is_null() || seen.insert(value), "{field} twice in {list}");
    }
}

fn assert_sound(pod: &Value) {
    let typed: k8s_openapi::api::core::v1::Pod = serde_json::from_value(pod.clone()).expect("a pod");
    let spec = typed.spec.expect("a spec");
    assert_unique(&pod["spec"]["volumes"], "name");
    for list in ["initContainers", "containers"] {
        for container in pod["spec"][list].as_array().into_iter().flatten() {
            assert_unique(&container["env"], "name");
            assert_unique(&container["volumeMounts"], "mountPath");
            assert_unique(&container["ports"], "name");
            assert_unique(&container["ports"], "containerPort");
        }
    }
    let volumes: BTreeSet<String> = spec.volumes.into_iter().flatten().map(|volume| volume.name).collect();
    for container in spec.init_containers.into_iter().flatten().chain(spec.containers) {
        for mount in container.volume_mounts.into_iter().flatten() {
            assert!(volumes.contains(&mount.name), "{} is no volume", mount.name);
            assert!(mount.mount_path.starts_with('/'));
        }
        for port in container.ports.into_iter().flatten() {
            assert!((1..=65_535).contains(&port.container_port), "{}", port.container_port);
        }
        for variable in container.env.into_iter().flatten() {
            assert!(
                variable.value.is_none() || variable.value_from.is_none(),
                "{}",
                variable.name
            );
            assert!(
                variable.value.is_none_or(|value| value.len() <= 16 * 1024),
                "{}",
                variable.name
            );
        }
    }
}

fn assert_all_sound(job: &Job) {
    let Ok(plugins) = Plugins::of(job) else { return };
    for task in &job.spec.tasks {
        for pod in pods(&plugins, task, [0, 3_000_000_000].into_iter()) {
            assert_sound(&pod);
        }
    }
    for wanted in plugins.wanted(job, ENTROPY) {
        if wanted.object["data"].is_object() {
            let size: usize = data(&wanted)
                .values()
                .map(|text| text.as_str().map_or(0, str::len))
                .sum();
            assert!(size <= 1024 * 1024, "{}: {size}", wanted.target.name);
        }
        assert_unique(&wanted.object["spec"]["ports"], "port");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn whatever_is_written_makes_sound_pods(spec in spec()) {
        assert_all_sound(&job(&spec));
    }
}
