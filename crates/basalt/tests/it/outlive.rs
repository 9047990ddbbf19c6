//! `kill -9` of the real server at random moments while real processes run on this machine: every job ends as it would have
//! without, and no process ran more often than it was allowed to.
//!
//! `BASALT_LOCAL_KILLS` sets the number of kills (a short slice by default; the long run does 100).

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use kube::api::{ApiResource, DynamicObject, GroupVersionKind, ListParams, PostParams};
use kube::{Api, Client, ResourceExt};
use rand::{RngExt, SeedableRng, rngs::StdRng};
use serde_json::{Value, json};

use crate::server::Server;

/// How long the last jobs may take after the last kill.
const PATIENCE: Duration = Duration::from_mins(3);
/// Jobs that are under way at most: the machine is small, and each kill is to hit some.
const UNDER_WAY: usize = 12;

/// What a job does, how it ends, and how often each of its processes may have run until then.
struct Kind {
    name: &'static str,
    /// What its processes do after they have left their mark in `/marks`.
    script: &'static str,
    restart: &'static str,
    policies: Value,
    max_retry: u32,
    tasks: &'static [(&'static str, u32, &'static [&'static str])],
    ends: &'static str,
    /// At least and at most, each process.
    runs: (usize, usize),
}

/// One job of each kind, over and over.
fn kinds() -> Vec<Kind> {
    let plain = |name, script, ends| Kind {
        name,
        script,
        restart: "Never",
        policies: json!([]),
        max_retry: 3,
        tasks: &[("w", 2, &[])],
        ends,
        runs: (1, 1),
    };
    vec![
        plain("quick", "true", "Completed"),
        plain("slow", "sleep 0.7", "Completed"),
        Kind {
            tasks: &[("first", 1, &[]), ("then", 2, &["first"])],
            ..plain("pipeline", "sleep 0.1", "Completed")
        },
        Kind {
            policies: json!([{"event": "PodFailed", "action": "AbortJob"}]),
            ..plain("aborts", "sleep 0.2; exit 3", "Aborted")
        },
        Kind {
            policies: json!([{"event": "PodFailed", "action": "RestartJob"}]),
            max_retry: 2,
            tasks: &[("w", 1, &[])],
            runs: (1, 3),
            ..plain("retries", "sleep 0.1; exit 4", "Failed")
        },
        Kind {
            restart: "OnFailure",
            runs: (2, 2),
            ..plain("again", "sleep 0.1; test $(wc -l < /marks/$POD) -ge 2", "Completed")
        },
    ]
}

fn manifest(kind: &Kind, name: &str, marks: &Path) -> DynamicObject {
    let task = |(task, replicas, after): &(&str, u32, &[&str])| {
        let mut spec = json!({
            "name": task, "replicas": replicas,
            "template": {"spec": {
                "restartPolicy": kind.restart,
                "terminationGracePeriodSeconds": 1,
                "volumes": [{"name": "marks", "hostPath": {"path": marks}}],
                "containers": [{
                    "name": "c", "image": "none",
                    "command": ["sh", "-c", format!("echo run >> /marks/$POD; {}", kind.script)],
                    "env": [{"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
                    "volumeMounts": [{"name": "marks", "mountPath": "/marks"}],
                    "resources": {"requests": {"cpu": "10m"}},
                }],
            }},
        });
        if !after.is_empty() {
            spec["dependsOn"] = json!({"name": after});
        }
        spec
    };
    let job = json!({
        "apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": name},
        "spec": {
            "schedulerName": "volcano", "maxRetry": kind.max_retry, "policies": kind.policies,
            "tasks": kind.tasks.iter().map(task).collect::<Vec<_>>(),
        },
    });
    serde_json::from_value(job).expect("a job")
}

fn jobs(client: &Client) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("batch.volcano.sh", "v1alpha1", "Job");
    Api::default_namespaced_with(client.clone(), &ApiResource::from_gvk(&kind))
}

fn phase(job: &DynamicObject) -> String {
    let phase = job.data.pointer("/status/state/phase");
    phase.and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// The jobs that have not ended as they must.
async fn unfinished(client: &Client, wanted: &BTreeMap<String, &'static str>) -> Option<Vec<String>> {
    let list = jobs(client).list(&ListParams::default()).await.ok()?;
    let found: BTreeMap<String, String> = list.iter().map(|job| (job.name_any(), phase(job))).collect();
    let short = wanted
        .iter()
        .filter(|(name, ends)| found.get(*name).map(String::as_str) != Some(ends));
    Some(
        short
            .map(|(name, ends)| format!("{name}: {:?}, to be {ends}", found.get(name)))
            .collect(),
    )
}

/// Creates jobs as long as the server lives and few are under way.
async fn submit(client: Client, kinds: &[Kind], marks: &Path, wanted: &mut BTreeMap<String, &'static str>) {
    loop {
        let Some(open) = unfinished(&client, wanted).await else {
            return;
        };
        if open.len() >= UNDER_WAY {
            tokio::time::sleep(Duration::from_millis(20)).await;
            continue;
        }
        let kind = &kinds[wanted.len() % kinds.len()];
        let name = format!("{}-{}", kind.name, wanted.len());
        // Wanted from the moment at which it may have been created.
        wanted.insert(name.clone(), kind.ends);
        if jobs(&client)
            .create(&PostParams::default(), &manifest(kind, &name, marks))
            .await
            .is_err()
        {
            wanted.remove(&name);
            return;
        }
    }
}

/// How often each process has run, by pod.
fn runs(marks: &Path) -> BTreeMap<String, usize> {
    let files = fs::read_dir(marks).expect("the folder of marks");
    files
        .map(|file| {
            let file = file.expect("a mark");
            let text = fs::read_to_string(file.path()).expect("a mark is text");
            (file.file_name().to_string_lossy().into_owned(), text.lines().count())
        })
        .collect()
}

fn judge(kinds: &[Kind], wanted: &BTreeMap<String, &'static str>, marks: &Path) -> usize {
    let runs = runs(marks);
    for name in wanted.keys() {
        let kind = kinds
            .iter()
            .find(|kind| name.starts_with(kind.name))
            .expect("a kind of ours");
        for (task, replicas, _) in kind.tasks {
            for index in 0..*replicas {
                let pod = format!("{name}-{task}-{index}");
                let ran = runs.get(&pod).copied().unwrap_or_default();
                let (least, most) = kind.runs;
                // A job that is aborted may be so before its second process began.
                let least = if kind.ends == "Aborted" { 0 } else { least };
                assert!(
                    (least..=most).contains(&ran),
                    "{pod} ran {ran} times, allowed are {least} to {most}"
                );
            }
        }
    }
    runs.values().sum()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_end_as_they_must_though_the_server_is_killed() {
    let kills: u32 = std::env::var("BASALT_LOCAL_KILLS").map_or(6, |text| text.parse().expect("a number of kills"));
    let folder = tempfile::tempdir().expect("a temporary folder");
    let marks = tempfile::tempdir().expect("a folder for marks");
    fs::set_permissions(marks.path(), fs::Permissions::from_mode(0o777)).expect("everybody may leave marks");
    let allow = marks.path().to_str().expect("text").to_owned();
    let arguments = ["--allow-host-path", allow.as_str()];
    let kinds = kinds();
    let mut wanted = BTreeMap::new();
    let mut dice = StdRng::seed_from_u64(20_261_116);
    for _ in 0..kills {
        let mut server = Server::start(folder.path(), &arguments);
        let client = server.client().await;
        server.watchman.look(&client).await;
        let life = Duration::from_millis(dice.random_range(5..1200));
        let _ = tokio::time::timeout(life, submit(client, &kinds, marks.path(), &mut wanted)).await;
        server.kill();
        // A create that was cut off may or may not have been taken in: only what is there counts.
    }
    let mut server = Server::start(folder.path(), &arguments);
    let client = server.client().await;
    let there: Vec<String> = jobs(&client)
        .list(&ListParams::default())
        .await
        .expect("a list")
        .iter()
        .map(ResourceExt::name_any)
        .collect();
    wanted.retain(|name, _| there.contains(name));
    let begun = Instant::now();
    loop {
        let open = unfinished(&client, &wanted).await.expect("the server lives");
        if open.is_empty() {
            break;
        }
        assert!(begun.elapsed() < PATIENCE, "not ended: {open:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let processes = judge(&kinds, &wanted, marks.path());
    server.watchman.settle(&client).await;
    println!(
        "{kills} kills, {} jobs ended as they must, {processes} processes ran",
        wanted.len()
    );
    assert!(wanted.len() >= kinds.len(), "there was work");
    server.stop();
}
