//! Seed 4: a job is scaled up and down while it runs.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;

use super::cluster::{Cluster, says};
use super::{BUILT_IN, Story};
use crate::server;

pub(super) const STORIES: &[&Story] = &[&SCALING];

pub(super) const SCALING: Story = Story {
    conf: BUILT_IN,
    steps: &[
        (
            &["4:21", "4:23", "4:25", "4:27", "4:29"],
            a_new_job_gets_all_that_it_needs,
        ),
        (
            &[
                "4:7-11", "4:35-36", "4:40", "4:42", "4:53", "4:83", "4:85", "4:87", "4:89",
            ],
            more_pods,
        ),
        (&["4:46-47", "4:61"], what_was_there_stays),
        (&["4:59"], hosts_are_mounted),
        (&["4:44", "4:91"], fewer_pods),
        (&["4:94"], the_highest_go_first),
        (&["4:49", "4:50", "4:54-55"], the_change_is_told),
        (&["4:100/replicas", "4:100/min", "4:100/rest"], only_numbers_change),
        (&["4:101", "4:103"], numbers_that_do_not_go_together),
    ],
};

/// Waits until something holds.
fn eventually(what: &str, probe: impl FnMut() -> Option<()>) {
    server::eventually(what, Duration::from_secs(30), probe);
}

/// Servers and workers that find each other, and a volume.
fn manifest(workers: u32, min: u32) -> String {
    format!(
        "apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {{name: train}}
spec:
  minAvailable: {min}
  schedulerName: volcano
  plugins: {{env: [], svc: []}}
  volumes:
  - mountPath: /data
    volumeClaim: {{accessModes: [ReadWriteOnce], resources: {{requests: {{storage: 1Gi}}}}}}
  tasks:
  - name: server
    replicas: 1
    template: &pod
      spec:
        restartPolicy: Never
        containers:
        - {{name: main, image: busybox, resources: {{requests: {{cpu: 1}}}}}}
  - name: worker
    replicas: {workers}
    minAvailable: 1
    template: *pod
"
    )
}

fn json(c: &Cluster, line: &str) -> Value {
    serde_json::from_str(&c.kubectl(&format!("{line} -o json"))).expect("JSON")
}

/// The pods of the job: name and uid.
fn pods(c: &Cluster) -> BTreeMap<String, String> {
    let list = json(c, "get pods -l volcano.sh/job-name=train");
    let text = |pod: &Value, field: &str| pod["metadata"][field].as_str().unwrap_or_default().to_owned();
    let items = list["items"].as_array().expect("a list");
    items.iter().map(|pod| (text(pod, "name"), text(pod, "uid"))).collect()
}

fn workers(c: &Cluster) -> Vec<String> {
    let names = pods(c).into_keys().filter(|name| name.contains("-worker-"));
    names.collect()
}

fn hosts(c: &Cluster, task: &str) -> Vec<String> {
    let list = json(c, "get configmap train-svc")["data"][format!("{task}.host")].take();
    let list = list.as_str().expect("a list of hosts").to_owned();
    list.lines().map(str::to_owned).collect()
}

fn wait_hosts(c: &Cluster, workers: u32) {
    let names: Vec<String> = (0..workers)
        .map(|index| format!("train-worker-{index}.train"))
        .collect();
    eventually("the list of hosts is right", || {
        (hosts(c, "worker") == names).then_some(())
    });
}

/// Where a container has a variable from, or its value.
fn variable(pod: &Value, name: &str) -> Value {
    let list = pod["spec"]["containers"][0]["env"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    list.into_iter().find(|entry| entry["name"] == name).unwrap_or_default()
}

fn a_new_job_gets_all_that_it_needs(c: &Cluster) {
    c.apply(&manifest(2, 2));
    c.wait_running("train", 3);
    assert_eq!(c.field("service/train", ".spec.clusterIP"), "None");
    wait_hosts(c, 2);
    assert_eq!(hosts(c, "server"), ["train-server-0.train"]);
    let claims = c.kubectl("get pvc -o name");
    assert_eq!(claims.lines().count(), 1, "{claims}");
    let group = c.group("train").expect("a group");
    assert_eq!(group["spec"]["minMember"], 2);
    assert_eq!(group["spec"]["minTaskMember"]["worker"], 1);
    assert_eq!(
        pods(c).into_keys().collect::<Vec<_>>(),
        ["train-server-0", "train-worker-0", "train-worker-1"]
    );
    let pod = json(c, "get pod train-worker-1");
    assert_eq!(variable(&pod, "VC_TASK_INDEX")["value"], "1");
    assert!(!variable(&pod, "VC_WORKER_HOSTS").is_null());
    let mounts = pod["spec"]["containers"][0]["volumeMounts"].to_string();
    says(&mounts, &["/etc/volcano", "/data"]);
}

fn more_pods(c: &Cluster) {
    c.vcctl("job scale train --replicas worker=4 --min-available 3");
    c.wait_running("train", 5);
    wait_hosts(c, 4);
    let group = c.group("train").expect("a group");
    assert_eq!(group["spec"]["minMember"], 3);
    assert_eq!(group["spec"]["minResources"]["cpu"], "3");
    assert_eq!(c.kubectl("get pvc -o name").lines().count(), 1);
    let newest = json(c, "get pod train-worker-3");
    assert_eq!(variable(&newest, "VC_TASK_INDEX")["value"], "3");
    says(
        &newest["spec"]["containers"][0]["volumeMounts"].to_string(),
        &["/etc/volcano", "/data"],
    );
}

fn what_was_there_stays(c: &Cluster) {
    let (pods_before, service) = (pods(c), c.field("service/train", ".metadata.uid"));
    let environment = json(c, "get pod train-worker-0")["spec"]["containers"][0]["env"].take();
    c.apply(&manifest(5, 3));
    c.wait_running("train", 6);
    let after = pods(c);
    for (name, uid) in &pods_before {
        assert_eq!(after.get(name), Some(uid), "{name} is the same");
    }
    assert_eq!(c.field("service/train", ".metadata.uid"), service);
    assert_eq!(
        json(c, "get pod train-worker-0")["spec"]["containers"][0]["env"].take(),
        environment
    );
}

/// The map of hosts is what the pods see; what is in it now is what they will read next.
fn hosts_are_mounted(c: &Cluster) {
    let pod = json(c, "get pod train-worker-0");
    let volumes = pod["spec"]["volumes"].as_array().expect("volumes").clone();
    let volume = volumes.iter().find(|volume| volume["configMap"]["name"] == "train-svc");
    let name = volume.expect("the map is a volume")["name"].clone();
    let mounts = pod["spec"]["containers"][0]["volumeMounts"]
        .as_array()
        .expect("mounts")
        .clone();
    let mount = mounts
        .iter()
        .find(|mount| mount["name"] == name)
        .expect("it is mounted");
    assert_eq!(mount["mountPath"], "/etc/volcano");
    assert!(mount["subPath"].is_null(), "a part of a volume is never refreshed");
    wait_hosts(c, 5);
}

fn fewer_pods(c: &Cluster) {
    c.kubectl(r#"patch vcjob train --type=json -p [{"op":"replace","path":"/spec/tasks/1/replicas","value":3}]"#);
    c.wait("vcjob/train", ".status.running", "4");
    eventually("the surplus is gone", || (workers(c).len() == 3).then_some(()));
    wait_hosts(c, 3);
}

fn the_highest_go_first(c: &Cluster) {
    assert_eq!(workers(c), ["train-worker-0", "train-worker-1", "train-worker-2"]);
    c.vcctl("job scale train --replicas worker=2");
    eventually("the highest is gone", || {
        (workers(c) == ["train-worker-0", "train-worker-1"]).then_some(())
    });
    c.wait_running("train", 3);
}

/// Events on the job say that it was updated, and that UpdateJob was done.
fn the_change_is_told(c: &Cluster) {
    eventually("events say so", || {
        let events = c.kubectl("get events --field-selector=involvedObject.name=train -o json");
        (events.contains("JobUpdated") && events.contains("UpdateJob")).then_some(())
    });
    wait_hosts(c, 2);
}

fn only_numbers_change(c: &Cluster) {
    let refused = |path: &str, value: &str| {
        let patch = format!(r#"[{{"op":"add","path":"{path}","value":{value}}}]"#);
        c.kubectl_refused(&format!("patch vcjob train --type=json -p {patch}"))
    };
    let changes = [
        ("/spec/queue", r#""other""#),
        ("/spec/maxRetry", "7"),
        ("/spec/tasks/0/name", r#""servers""#),
        ("/spec/tasks/1/template/spec/containers/0/image", r#""other""#),
        ("/spec/plugins/ssh", "[]"),
        ("/spec/policies", r#"[{"event":"PodFailed","action":"AbortJob"}]"#),
    ];
    for (path, value) in changes {
        says(&refused(path, value), &["train"]);
    }
    c.kubectl(r#"patch vcjob train --type=merge -p {"spec":{"minAvailable":1}}"#);
    eventually("the group follows", || {
        (c.group("train")?["spec"]["minMember"] == 1).then_some(())
    });
    c.kubectl(r#"patch vcjob train --type=json -p [{"op":"replace","path":"/spec/tasks/1/replicas","value":1}]"#);
    c.wait_running("train", 2);
}

fn numbers_that_do_not_go_together(c: &Cluster) {
    let patch = |min: i32| format!(r#"patch vcjob train --type=merge -p {{"spec":{{"minAvailable":{min}}}}}"#);
    says(&c.kubectl_refused(&patch(9)), &["minAvailable", "9", "2"]);
    says(&c.kubectl_refused(&patch(0)), &["minAvailable"]);
    says(&c.kubectl_refused(&patch(-1)), &["minAvailable"]);
    says(
        &c.vcctl_refused("job scale train --replicas worker=0,server=0"),
        &["minAvailable"],
    );
    c.wait_running("train", 2);
    c.kubectl("delete vcjob train");
    eventually("nothing is left of it", || {
        let left = c.kubectl("get pods,podgroups,services,configmaps,pvc -o name");
        (!left.contains("train")).then_some(())
    });
}
