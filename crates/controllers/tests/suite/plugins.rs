//! Job plugins: a job goes in, pods and objects come out. Cases are in `tests/plugins/`, one file per plugin.
//!
//! A case has the job's `spec`, and what to find: in `pods` (by name), in `objects` (by kind and name, all of them),
//! in `controlled`, or the `error`. A map may hold more than is listed, a list may not; null means absent.

mod random;

use std::collections::BTreeMap;
use std::path::Path;

use basalt_api::job::TaskSpec;
use basalt_api::{Job, names};
use basalt_controllers::job::plugins::{Plugins, Wanted};
use serde::Deserialize;
use serde_json::{Map, Value, json};

const ENTROPY: [u8; 32] = [7; 32];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    about: String,
    spec: Value,
    #[serde(default)]
    pods: BTreeMap<String, Value>,
    objects: Option<BTreeMap<String, Value>>,
    controlled: Option<BTreeMap<String, String>>,
    error: Option<String>,
}

fn job(spec: &Value) -> Job {
    let object = json!({
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "train", "namespace": "ns", "uid": "uid-1"},
        "spec": spec,
    });
    serde_json::from_value(object).expect("a job")
}

/// The pods of a task with these indices, as the job controller makes them: shaped once, stamped each.
fn pods(plugins: &Plugins, task: &TaskSpec, indices: impl Iterator<Item = u32>) -> Vec<Value> {
    let mut template = task.template.clone();
    plugins.shape(task, &mut template);
    let pattern = json!({"metadata": template.metadata, "spec": template.spec});
    let make = |index| {
        let mut pod = pattern.clone();
        if !pod["metadata"].is_object() {
            pod["metadata"] = json!({});
        }
        pod["metadata"]["name"] = json!(names::job_pod("train", &task.name, index));
        plugins.stamp(task, index, &mut pod);
        pod
    };
    indices.map(make).collect()
}

/// The pod of a name.
fn pod(plugins: &Plugins, job: &Job, name: &str) -> Value {
    let of_task = |task: &&TaskSpec| {
        let index = name.strip_prefix(&format!("train-{}-", task.name))?;
        Some(((*task).clone(), index.parse::<u32>().ok()?))
    };
    let (task, index) = job
        .spec
        .tasks
        .iter()
        .find_map(|task| of_task(&task))
        .expect("a pod of the job");
    pods(plugins, &task, index..=index).remove(0)
}

/// Where `seen` lacks something of `wanted`.
fn difference(at: &str, wanted: &Value, seen: &Value) -> Option<String> {
    match (wanted, seen) {
        (Value::Object(wanted), Value::Object(seen)) => wanted.iter().find_map(|(key, wanted)| {
            let seen = seen.get(key).unwrap_or(&Value::Null);
            difference(&format!("{at}.{key}"), wanted, seen)
        }),
        (Value::Array(wanted), Value::Array(seen)) if wanted.len() == seen.len() => {
            let mut pairs = wanted.iter().zip(seen).enumerate();
            pairs.find_map(|(index, (wanted, seen))| difference(&format!("{at}[{index}]"), wanted, seen))
        }
        (wanted, seen) => (wanted != seen).then(|| format!("{at}: wanted {wanted}, seen {seen}")),
    }
}

#[track_caller]
fn check(case: &Case) {
    let job = job(&case.spec);
    let about = &case.about;
    let plugins = match (Plugins::of(&job), &case.error) {
        (Err(error), Some(wanted)) => return assert_eq!(error.to_string(), *wanted, "{about}"),
        (Err(error), None) => panic!("{about}: {error}"),
        (Ok(_), Some(wanted)) => panic!("{about}: no error, but wanted {wanted}"),
        (Ok(plugins), None) => plugins,
    };
    for (name, wanted) in &case.pods {
        let seen = pod(&plugins, &job, name);
        assert_eq!(difference(name, wanted, &seen), None, "{about}");
        serde_json::from_value::<k8s_openapi::api::core::v1::Pod>(seen).expect("a pod");
    }
    if let Some(objects) = &case.objects {
        let seen = by_name(plugins.wanted(&job, ENTROPY));
        assert_eq!(
            seen.keys().collect::<Vec<_>>(),
            objects.keys().collect::<Vec<_>>(),
            "{about}"
        );
        for (name, wanted) in objects {
            assert_eq!(difference(name, wanted, &seen[name].object), None, "{about}");
        }
    }
    if let Some(controlled) = &case.controlled {
        assert_eq!(plugins.controlled(), *controlled, "{about}");
    }
}

fn by_name(wanted: Vec<Wanted>) -> BTreeMap<String, Wanted> {
    let entry = |wanted: Wanted| {
        let target = &wanted.target;
        let (object, owner) = (&wanted.object, &wanted.object["metadata"]["ownerReferences"][0]);
        assert_eq!(object["kind"], *target.kind);
        assert_eq!(object["apiVersion"], *target.api_version);
        assert_eq!(object["metadata"]["name"], *target.name);
        assert_eq!(object["metadata"]["namespace"], "ns");
        assert_eq!((&owner["uid"], &owner["controller"]), (&json!("uid-1"), &json!(true)));
        (format!("{}/{}", target.kind, target.name), wanted)
    };
    wanted.into_iter().map(entry).collect()
}

#[track_caller]
fn check_file(plugin: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/plugins/{plugin}.yaml"));
    let text = std::fs::read_to_string(&path).expect("a file of cases");
    let cases: Vec<Case> = serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{plugin}: {error}"));
    assert!(!cases.is_empty());
    cases.iter().for_each(check);
}

#[test]
fn env() {
    check_file("env");
}

#[test]
fn svc() {
    check_file("svc");
}

#[test]
fn ssh() {
    check_file("ssh");
}

#[test]
fn pytorch() {
    check_file("pytorch");
}

#[test]
fn tensorflow() {
    check_file("tensorflow");
}

#[test]
fn mpi() {
    check_file("mpi");
}

#[test]
fn ray() {
    check_file("ray");
}

#[test]
fn hcclrank() {
    check_file("hcclrank");
}

#[test]
fn together() {
    check_file("together");
}

/// A job with plugins and one task of this size.
fn sized(plugins: Value, replicas: u32) -> Job {
    job(&json!({
        "plugins": plugins,
        "tasks": [
            {"name": "master", "replicas": 1, "template": {"spec": {"containers": [{"name": "main"}]}}},
            {"name": "worker", "replicas": replicas, "template": {"spec": {"containers": [{"name": "main"}]}}},
        ],
    }))
}

fn wanted_of(job: &Job) -> BTreeMap<String, Wanted> {
    by_name(Plugins::of(job).expect("plugins").wanted(job, ENTROPY))
}

fn data(wanted: &Wanted) -> &Map<String, Value> {
    wanted.object["data"].as_object().expect("data")
}

/// The variables of the first container.
fn variables(pod: &Value) -> Vec<&str> {
    let env = pod["spec"]["containers"][0]["env"].as_array().expect("env");
    env.iter().filter_map(|variable| variable["name"].as_str()).collect()
}

fn mark(wanted: &Wanted) -> &str {
    let mark = &wanted.object["metadata"]["annotations"][names::CONTENT];
    mark.as_str().expect("a mark")
}

#[test]
fn scaling_updates_the_hosts_and_nothing_else() {
    let small = wanted_of(&sized(json!({"svc": [], "ssh": []}), 2));
    let large = wanted_of(&sized(json!({"svc": [], "ssh": []}), 3));
    for (name, wanted) in &large {
        let before = &small[name];
        assert_eq!(before.update(Some(mark_or(before))), None, "{name}: nothing changed");
        match name.as_str() {
            "ConfigMap/train-svc" => {
                let patch = wanted.update(Some(mark(before))).expect("a patch");
                let hosts = "train-worker-0.train\ntrain-worker-1.train\ntrain-worker-2.train";
                assert_eq!(patch["data"]["worker.host"], hosts);
                assert_eq!(patch["data"]["VC_WORKER_NUM"], "3");
                assert_eq!(patched(&before.object, patch), wanted.object);
                assert_eq!(wanted.update(None), Some(patch), "an object that has no mark yet");
            }
            "Secret/train-ssh" => {
                let patch = wanted.update(Some(mark(before))).expect("a patch");
                assert_eq!(
                    patch["data"].as_object().expect("data").keys().collect::<Vec<_>>(),
                    ["config"]
                );
                assert_eq!(patched(&before.object, patch), wanted.object, "the keys are the same");
            }
            _ => assert_eq!(wanted.follows, None, "{name} is written once"),
        }
    }
}

fn mark_or(wanted: &Wanted) -> &str {
    wanted.follows.as_ref().map_or("", |_| mark(wanted))
}

fn patched(object: &Value, patch: &Value) -> Value {
    let mut object = object.clone();
    json_patch::merge(&mut object, patch);
    object
}

/// Volcano #5471: a list that Linux does not take in an environment kept the containers from starting.
#[test]
fn lists_that_do_not_fit_the_environment_are_in_the_file_only() {
    // 23 or so bytes each: 128 KiB are reached between 5,000 and 6,000 pods.
    let fits = |replicas| {
        let job = sized(json!({"svc": []}), replicas);
        let plugins = Plugins::of(&job).expect("plugins");
        let wanted = wanted_of(&job);
        let data = data(&wanted["ConfigMap/train-svc"]);
        assert_eq!(
            data["worker.host"].as_str().expect("a list").lines().count(),
            replicas as usize
        );
        assert_eq!(data["VC_WORKER_NUM"], replicas.to_string());
        let list = data
            .get("VC_WORKER_HOSTS")
            .map(|list| list.as_str().expect("a list").len());
        let pod = pod(&plugins, &job, "train-worker-0");
        assert_eq!(
            variables(&pod).contains(&"VC_WORKER_HOSTS"),
            list.is_some(),
            "{replicas}"
        );
        assert!(variables(&pod).contains(&"VC_WORKER_NUM"));
        list
    };
    let bytes = |list: usize| "VC_WORKER_HOSTS=\0".len() + list;
    let (mut largest, mut too_large) = (5_000, 6_500);
    while largest + 1 < too_large {
        let middle = u32::midpoint(largest, too_large);
        *(if fits(middle).is_some() {
            &mut largest
        } else {
            &mut too_large
        }) = middle;
    }
    let list = fits(largest).expect("fits");
    assert!(
        bytes(list) <= 128 * 1024 && bytes(list) > 128 * 1024 - 64,
        "{largest}: {list}"
    );

    // Who scales past the limit takes the key away, and containers of old pods can still restart.
    let before = wanted_of(&sized(json!({"svc": []}), largest));
    let job = sized(json!({"svc": []}), largest + 1);
    let after = wanted_of(&job);
    let (before, after) = (&before["ConfigMap/train-svc"], &after["ConfigMap/train-svc"]);
    let patch = after.update(Some(mark(before))).expect("a patch");
    assert_eq!(patched(&before.object, patch), after.object);
    let plugins = Plugins::of(&sized(json!({"svc": []}), largest)).expect("plugins");
    let pod = pod(&plugins, &job, "train-worker-0");
    let env = pod["spec"]["containers"][0]["env"].as_array().expect("env");
    let hosts = env
        .iter()
        .find(|variable| variable["name"] == "VC_WORKER_HOSTS")
        .expect("hosts");
    assert_eq!(hosts["valueFrom"]["configMapKeyRef"]["optional"], true);
}

#[test]
fn a_config_map_is_never_too_large() {
    const LIMIT: usize = 1024 * 1024;
    for replicas in [10_000, 40_000, 50_000, 2_000_000_000] {
        let all = json!({"svc": [], "ssh": [], "tensorflow": [], "mpi": [], "env": [], "pytorch": []});
        let job = sized(all, replicas);
        let wanted = wanted_of(&job);
        let size = |name: &str| -> usize {
            let data = data(&wanted[name]).values();
            data.map(|text| text.as_str().expect("text").len()).sum()
        };
        assert!(size("ConfigMap/train-svc") < LIMIT, "{replicas}");
        assert!(size("Secret/train-ssh") < LIMIT, "{replicas}");
        let data = data(&wanted["ConfigMap/train-svc"]);
        assert_eq!(data.contains_key("worker.host"), replicas <= 40_000, "{replicas}");
        assert_eq!(data["master.host"], "train-master-0.train");
        assert_eq!(data["VC_WORKER_NUM"], replicas.to_string());
    }
    for replicas in (38_000..50_000).step_by(3_000) {
        let wanted = wanted_of(&sized(json!({"svc": []}), replicas));
        let data = data(&wanted["ConfigMap/train-svc"]).values();
        let size: usize = data.map(|text| text.as_str().expect("text").len()).sum();
        assert!(size < LIMIT, "{replicas}: {size}");
    }
}

#[test]
fn pods_of_a_large_job_are_no_larger() {
    let all = json!({"svc": [], "ssh": [], "tensorflow": [], "mpi": [], "env": [], "pytorch": [], "hcclrank": []});
    for replicas in [1_000, 10_000] {
        let job = sized(all.clone(), replicas);
        let plugins = Plugins::of(&job).expect("plugins");
        let pods = pods(&plugins, &job.spec.tasks[1], 0..replicas);
        let largest = pods.iter().map(|pod| pod.to_string().len()).max();
        assert!(largest.is_some_and(|bytes| bytes < 8 * 1024), "{replicas}: {largest:?}");
    }
}

#[test]
fn keys_are_a_function_of_job_and_entropy() {
    let keys = |uid: &str, entropy: [u8; 32]| {
        let mut job = sized(json!({"ssh": []}), 1);
        job.metadata.uid = Some(uid.to_owned());
        let wanted = Plugins::of(&job).expect("plugins").wanted(&job, entropy);
        text(&wanted[0], "id_rsa")
    };
    assert_eq!(keys("a", [1; 32]), keys("a", [1; 32]));
    assert_ne!(keys("a", [1; 32]), keys("b", [1; 32]));
    assert_ne!(keys("a", [1; 32]), keys("a", [2; 32]));
}

/// One entry of a Secret.
fn text(wanted: &Wanted, key: &str) -> String {
    let bytes: k8s_openapi::ByteString = serde_json::from_value(wanted.object["data"][key].clone()).expect("bytes");
    String::from_utf8(bytes.0).expect("text")
}

#[test]
fn keys_are_what_openssh_reads() {
    let wanted = wanted_of(&sized(json!({"ssh": []}), 1));
    let secret = &wanted["Secret/train-ssh"];
    let private = ssh_key::PrivateKey::from_openssh(text(secret, "id_rsa")).expect("a private key");
    let public = ssh_key::PublicKey::from_openssh(&text(secret, "id_rsa.pub")).expect("a public key");
    assert_eq!(private.public_key(), &public);
    assert_eq!(text(secret, "authorized_keys"), text(secret, "id_rsa.pub"));
    // With this very pair OpenSSH signed, and took its own signature.
    let line = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIMA513pN8BLX8JRaT6YCbCq9jGKdeEf2pTdc8VqAqZ7L train\n";
    assert_eq!(text(secret, "id_rsa.pub"), line);

    // A private key of one's own brings its public half.
    let mut job = sized(json!({"ssh": []}), 1);
    let words = vec!["--ssh-private-key".to_owned(), text(secret, "id_rsa")];
    job.spec.plugins.insert("ssh".to_owned(), words);
    job.metadata.uid = Some("uid-1".to_owned());
    let own = Plugins::of(&job).expect("plugins").wanted(&job, [9; 32]);
    for key in ["id_rsa", "id_rsa.pub", "authorized_keys"] {
        assert_eq!(text(&own[0], key), text(secret, key));
    }
}

#[test]
fn ssh_knows_every_host_and_those_to_come() {
    let config = |replicas| {
        text(
            &wanted_of(&sized(json!({"ssh": ["--ssh-port=2022"]}), replicas))["Secret/train-ssh"],
            "config",
        )
    };
    let expected = "\
StrictHostKeyChecking no
UserKnownHostsFile /dev/null
Host train-master-0
  HostName train-master-0.train
  Port 2022
Host train-worker-0
  HostName train-worker-0.train
  Port 2022
Host train-worker-1
  HostName train-worker-1.train
  Port 2022
Host train-master-* !*.*
  HostName %h.train
  Port 2022
Host train-master-*.train
  Port 2022
Host train-worker-* !*.*
  HostName %h.train
  Port 2022
Host train-worker-*.train
  Port 2022
";
    assert_eq!(config(2), expected);
    let large = config(10_000);
    assert!(
        !large.contains("train-worker-1\n") && large.contains("Host train-worker-* !*.*"),
        "patterns only"
    );
}
