//! Jobs that are scaled at random while nodes come and go end up with exactly the pods that they ask for.

use std::collections::BTreeMap;
use std::time::Duration;

use rand::{RngExt, SeedableRng, rngs::StdRng};
use serde_json::{Value, json};

use crate::helpers::{apply, job_in};
use crate::server::{Server, eventually, kubectl_present};

const PATIENCE: Duration = Duration::from_mins(1);
const JOBS: usize = 20;
const SCALINGS: u32 = 100;
const NODES: u32 = 10;

/// What a job was told last.
#[derive(Clone, Copy)]
struct Wish {
    replicas: u32,
    min: u32,
}

fn list(server: &Server, kind: &str) -> Vec<Value> {
    let text = server.kubectl(&["get", kind, "-o", "json"]);
    let mut list: Value = serde_json::from_str(&text).expect("JSON");
    match list["items"].take() {
        Value::Array(items) => items,
        other => panic!("{kind}: {other}"),
    }
}

fn text<'a>(object: &'a Value, path: &str) -> &'a str {
    object.pointer(path).and_then(Value::as_str).unwrap_or_default()
}

fn scale(server: &Server, job: usize, wish: Wish) {
    let patch = format!(
        r#"[{{"op":"replace","path":"/spec/minAvailable","value":{}}},{{"op":"replace","path":"/spec/tasks/0/replicas","value":{}}}]"#,
        wish.min, wish.replicas
    );
    server.kubectl(&["patch", "vcjob", &format!("j{job}"), "--type=json", "-p", &patch]);
}

/// A node goes with all that runs on it, and another one comes.
fn exchange_node(server: &Server, old: &str, new: &str) {
    let node = server.kubectl(&["get", "node", old, "-o", "json"]);
    let mut node: Value = serde_json::from_str(&node).expect("JSON");
    node["metadata"] = serde_json::json!({"name": new, "labels": node["metadata"]["labels"]});
    node["metadata"]["labels"]["kubernetes.io/hostname"] = new.into();
    if let Some(object) = node.as_object_mut() {
        object.remove("status");
    }
    server.kubectl(&["delete", "node", old]);
    apply(server, &node.to_string());
}

/// What is still wrong, in words; nothing if all is right.
fn wrong(server: &Server, wishes: &[Wish]) -> Option<String> {
    let mut running: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for pod in list(server, "pods") {
        let job = text(&pod, "/metadata/labels/volcano.sh~1job-name").to_owned();
        let name = text(&pod, "/metadata/name").to_owned();
        if text(&pod, "/status/phase") != "Running" || !pod["metadata"]["deletionTimestamp"].is_null() {
            return Some(format!("{name} does not run"));
        }
        running.entry(job).or_default().push(name);
    }
    let groups = list(server, "podgroups");
    let maps = list(server, "configmaps");
    for (number, wish) in wishes.iter().enumerate() {
        let job = format!("j{number}");
        let mut wanted: Vec<String> = (0..wish.replicas).map(|index| format!("{job}-w-{index}")).collect();
        let hosts: Vec<String> = wanted.iter().map(|pod| format!("{pod}.{job}")).collect();
        wanted.sort();
        let mut found = running.remove(&job).unwrap_or_default();
        found.sort();
        if found != wanted {
            return Some(format!("{job} has {found:?}, wants {wanted:?}"));
        }
        if let Some(wrong) = wrong_group(&groups, &job, *wish).or_else(|| wrong_hosts(&maps, &job, &hosts)) {
            return Some(format!("{job}: {wrong}"));
        }
    }
    (!running.is_empty()).then(|| format!("pods of nobody: {running:?}"))
}

/// What is wrong with the group of a job.
fn wrong_group(groups: &[Value], job: &str, wish: Wish) -> Option<String> {
    let mut groups = groups.iter();
    let group = groups.find(|group| text(group, "/metadata/ownerReferences/0/name") == job);
    let Some(group) = group else {
        return Some("there is no group".to_owned());
    };
    // As Volcano counts: by the names of quotas, too.
    let least = wish.min.to_string();
    let least = json!({"cpu": least, "requests.cpu": least, "pods": least, "count/pods": least});
    let wanted = json!({"minMember": wish.min, "minTaskMember": {"w": wish.replicas}, "minResources": least});
    let fields = wanted.as_object().into_iter().flatten();
    let mut wrong = fields.filter(|(field, value)| group["spec"][field.as_str()] != **value);
    wrong
        .next()
        .map(|(field, value)| format!("{field} is {}, not {value}", group["spec"][field.as_str()]))
}

/// What is wrong with the hosts of a job.
fn wrong_hosts(maps: &[Value], job: &str, hosts: &[String]) -> Option<String> {
    let name = format!("{job}-svc");
    let Some(map) = maps.iter().find(|map| text(map, "/metadata/name") == name) else {
        return Some("there is no hosts file".to_owned());
    };
    let listed: Vec<&str> = text(map, "/data/w.host").lines().collect();
    (listed != hosts).then(|| format!("the hosts are {listed:?}, not {hosts:?}"))
}

/// What is missing is wrong, and so is what does not follow the scaling.
#[test]
fn a_group_and_a_hosts_file_that_are_missing_or_old_are_seen() {
    let wish = Wish { replicas: 2, min: 1 };
    let owner = json!([{"name": "j"}]);
    let group = |min: u32, of_task: u32, cpu: &str| {
        let least = json!({"cpu": cpu, "requests.cpu": cpu, "pods": "1", "count/pods": "1"});
        let spec = json!({"minMember": min, "minTaskMember": {"w": of_task}, "minResources": least});
        json!({"metadata": {"ownerReferences": owner}, "spec": spec})
    };
    for (groups, wrong) in [
        (vec![], Some("there is no group")),
        (vec![group(2, 2, "1")], Some("minMember is 2, not 1")),
        (
            vec![group(1, 1, "1")],
            Some("minTaskMember is {\"w\":1}, not {\"w\":2}"),
        ),
        (
            vec![group(1, 2, "2")],
            Some(
                "minResources is {\"count/pods\":\"1\",\"cpu\":\"2\",\"pods\":\"1\",\"requests.cpu\":\"2\"}, \
                 not {\"count/pods\":\"1\",\"cpu\":\"1\",\"pods\":\"1\",\"requests.cpu\":\"1\"}",
            ),
        ),
        (vec![group(1, 2, "1")], None),
    ] {
        assert_eq!(wrong_group(&groups, "j", wish).as_deref(), wrong);
    }
    let map = |hosts: &str| vec![json!({"metadata": {"name": "j-svc"}, "data": {"w.host": hosts}})];
    let hosts = ["a".to_owned(), "b".to_owned()];
    assert_eq!(wrong_hosts(&[], "j", &hosts).as_deref(), Some("there is no hosts file"));
    assert!(wrong_hosts(&map("a"), "j", &hosts).is_some());
    assert_eq!(wrong_hosts(&map("a\nb"), "j", &hosts), None);
}

#[test]
fn a_hundred_random_scalings_while_nodes_come_and_go() {
    if !kubectl_present() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let nodes = NODES.to_string();
    let server = Server::start(folder.path(), &["--nodes", &nodes, "--node-cpu", "32"]);
    let mut wishes = vec![Wish { replicas: 2, min: 1 }; JOBS];
    for (number, wish) in wishes.iter().enumerate() {
        let manifest = job_in("default", &format!("j{number}"), (wish.replicas, wish.min), "1", "");
        // Keys take a while to make: one job has some.
        let plugins = if number == 0 { "{svc: [], ssh: []}" } else { "{svc: []}" };
        let plugins = format!("  plugins: {plugins}\n  tasks:");
        apply(&server, &manifest.replace("  tasks:", &plugins));
    }
    let mut dice = StdRng::seed_from_u64(4);
    let mut names: Vec<String> = list(&server, "nodes")
        .iter()
        .map(|node| text(node, "/metadata/name").to_owned())
        .collect();
    for turn in 0..SCALINGS {
        let job = dice.random_range(0..JOBS);
        let replicas = dice.random_range(1..=10);
        let wish = Wish {
            replicas,
            min: dice.random_range(1..=replicas),
        };
        scale(&server, job, wish);
        wishes[job] = wish;
        if turn % 5 == 0 {
            let place = dice.random_range(0..names.len());
            let new = format!("fresh-{turn}");
            exchange_node(&server, &names[place], &new);
            names[place] = new;
        }
    }
    let mut last = None;
    let begun = std::time::Instant::now();
    while begun.elapsed() < PATIENCE {
        last = wrong(&server, &wishes);
        if last.is_none() {
            break;
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    assert_eq!(last, None, "after {} s", PATIENCE.as_secs());
    eventually("every job runs", PATIENCE, || {
        let jobs = list(&server, "vcjob");
        let runs = |job: &Value| text(job, "/status/state/phase") == "Running";
        jobs.iter().all(runs).then_some(())
    });
    server.audit(true);
}
