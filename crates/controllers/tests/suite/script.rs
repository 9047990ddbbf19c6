//! Lives of a Job, told line by line; each is lived once undisturbed, and once more for every write after which the
//! controllers can die.

use serde_json::{Value, json};

use crate::cluster::Cluster;

/// A Job and its cluster.
pub(crate) struct Stage {
    pub(crate) cluster: Cluster,
    group: Option<Value>,
    commands: usize,
}

/// A task whose pods ask for one CPU.
pub(crate) fn task(name: &str, replicas: i32) -> Value {
    let container = json!({"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}});
    json!({"name": name, "replicas": replicas, "template": {"spec": {"containers": [container]}}})
}

/// The task with more in it.
pub(crate) fn with(mut task: Value, more: &Value) -> Value {
    json_patch::merge(&mut task, more);
    task
}

/// The Job `train` as admission lets it in.
pub(crate) fn job(mut spec: Value) -> Value {
    for (key, value) in [
        ("queue", json!("default")),
        ("schedulerName", json!("volcano")),
        ("maxRetry", json!(3)),
    ] {
        if spec[key].is_null() {
            spec[key] = value;
        }
    }
    json!({
        "apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": "train", "namespace": "n"}, "spec": spec,
    })
}

/// Plays the script, then again with a crash after each write; the end must be the same.
pub(crate) fn check(spec: &Value, script: &str) -> Stage {
    let stage = play(spec, script, None);
    for crash in 1..=stage.cluster.log.len() {
        let crashed = play(spec, script, Some(crash));
        assert_eq!(
            crashed.summary(),
            stage.summary(),
            "killed after write {crash} of {:?}",
            stage.cluster.log
        );
    }
    stage
}

/// Plays the script once; the controllers die after a write.
pub(crate) fn play(spec: &Value, script: &str, crash_after: Option<usize>) -> Stage {
    let mut stage = Stage::new(spec, crash_after);
    for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let words: Vec<&str> = line.split_whitespace().collect();
        if let Some((&"=", expected)) = words.split_first() {
            let found = stage.ask(expected);
            let expected = expected.get(1..).unwrap_or_default().join(" ");
            assert_eq!(
                found, expected,
                "{line}, with a crash after {crash_after:?} of {:?}, events {:?}",
                stage.cluster.log, stage.cluster.events
            );
        } else {
            stage.line(line);
        }
    }
    stage
}

impl Stage {
    /// A stage with the Job, looked at for the first time.
    pub(crate) fn new(spec: &Value, crash_after: Option<usize>) -> Self {
        let mut stage = Self {
            cluster: Cluster::with_jobs(vec![job(spec.clone())]),
            group: None,
            commands: 0,
        };
        stage.cluster.crash_after = crash_after;
        stage.cluster.settle();
        stage
    }

    /// Something happens, and the controllers do what they can.
    pub(crate) fn line(&mut self, line: &str) {
        let words: Vec<&str> = line.split_whitespace().collect();
        self.act(&words);
        self.cluster.settle();
    }

    /// Whether a pod is there and has not ended.
    pub(crate) fn lives(&self, name: &str) -> bool {
        !matches!(self.pod(name)["status"]["phase"].as_str(), Some("Succeeded" | "Failed"))
    }

    pub(crate) fn pod_names(&self, leaving: bool) -> Vec<String> {
        let names = self.cluster.names("Pod");
        let is_leaving = |name: &&&str| self.pod(name)["metadata"]["deletionTimestamp"].is_null() != leaving;
        let names = names
            .iter()
            .filter(is_leaving)
            .map(|name| name.trim_start_matches("train-").to_owned());
        names.collect()
    }

    fn pod(&self, name: &str) -> &Value {
        let name = format!("train-{}", name.trim_start_matches("train-"));
        self.cluster
            .get("Pod", "n", &name)
            .unwrap_or_else(|| panic!("pod {name}"))
    }

    pub(crate) fn job(&self) -> &Value {
        self.cluster.get("Job", "n", "train").expect("the job")
    }

    fn group_uid(&self) -> Option<Value> {
        let name = self.cluster.names("PodGroup").first().map(|name| (*name).to_owned())?;
        Some(self.cluster.get("PodGroup", "n", &name)?["metadata"]["uid"].clone())
    }

    /// All that must not depend on a crash.
    fn summary(&self) -> Value {
        let status = &self.job()["status"];
        let pods: Vec<Value> = self
            .pod_names(false)
            .iter()
            .map(|name| {
                let annotations = &self.pod(name)["metadata"]["annotations"];
                json!([
                    name,
                    annotations["volcano.sh/job-version"],
                    annotations["volcano.sh/job-retry-count"]
                ])
            })
            .collect();
        let mut beside: Vec<&str> = [
            "Service",
            "ConfigMap",
            "Secret",
            "NetworkPolicy",
            "PersistentVolumeClaim",
            "Command",
        ]
        .iter()
        .flat_map(|kind| self.cluster.names(kind))
        .collect();
        beside.sort_unstable();
        json!([
            status["state"]["phase"],
            status["retryCount"],
            status["version"],
            status["running"],
            status["succeeded"],
            status["failed"],
            pods,
            beside
        ])
    }

    /// The answer to a line that begins with `=`.
    fn ask(&self, words: &[&str]) -> String {
        let status = &self.job()["status"];
        let number = |field: &str| status[field].as_i64().unwrap_or(0).to_string();
        match words.first().copied() {
            Some("phase") => status["state"]["phase"].as_str().unwrap_or_default().to_owned(),
            Some("reason") => status["state"]["reason"].as_str().unwrap_or_default().to_owned(),
            Some("pods") => self.pod_names(false).join(" "),
            Some("leaving") => self.pod_names(true).join(" "),
            Some("retry") => number("retryCount"),
            Some("version") => number("version"),
            Some("counts") => ["pending", "running", "succeeded", "failed"].map(number).join(" "),
            Some("group") if self.group_uid().is_none() => "none".to_owned(),
            Some("group") if self.group_uid() == self.group => "same".to_owned(),
            Some("group") => "other".to_owned(),
            Some("commands") => self.cluster.names("Command").len().to_string(),
            Some("restarts") => status["restarts"].as_array().map_or(0, Vec::len).to_string(),
            Some("surplus") => status["surplus"].as_array().map_or(0, Vec::len).to_string(),
            other => panic!("unknown question {other:?}"),
        }
    }

    fn act(&mut self, words: &[&str]) {
        match words {
            ["let-in"] => self.group_phase("Inqueue"),
            ["group", phase] => self.group_phase(phase),
            ["note-group"] => self.group = self.group_uid(),
            ["run", pods @ ..] => self.each(pods, |name, stage| stage.pod_phase(name, "Running", None)),
            ["succeed", pods @ ..] => self.each(pods, |name, stage| stage.pod_phase(name, "Succeeded", Some(0))),
            ["fail", pod] => self.pod_phase(pod, "Failed", Some(1)),
            ["fail", pod, code] => self.pod_phase(pod, "Failed", Some(code.parse().expect("a code"))),
            ["restarts", pod, count] => {
                let count: i32 = count.parse().expect("a count");
                let status =
                    json!({"status": {"containerStatuses": [{"name": "c", "restartCount": count, "ready": true}]}});
                self.cluster.merge("Pod", "n", &format!("train-{pod}"), &status);
            }
            ["crash", pod, count] => {
                let now = jiff::Timestamp::from_second(self.cluster.now)
                    .expect("in range")
                    .to_string();
                let count: i32 = count.parse().expect("a count");
                let last = json!({"terminated": {"exitCode": 1, "finishedAt": now}});
                let container = json!({"name": "c", "restartCount": count, "ready": true, "lastState": last});
                let status = json!({"status": {"containerStatuses": [container]}});
                self.cluster.merge("Pod", "n", &format!("train-{pod}"), &status);
            }
            ["stranger", pod] => self.cluster.put(json!({
                "apiVersion": "v1", "kind": "Pod", "metadata": {"name": format!("train-{pod}"), "namespace": "n"},
            })),
            ["evict", pod] => self.cluster.delete("Pod", "n", &format!("train-{pod}")),
            ["gone", pod] => self.cluster.force_remove("Pod", "n", &format!("train-{pod}")),
            ["reap"] => {
                for name in self.pod_names(true) {
                    self.cluster.force_remove("Pod", "n", &format!("train-{name}"));
                }
            }
            ["pass", seconds] => self.cluster.pass(seconds.parse().expect("seconds")),
            ["down"] => self.cluster.go_down(),
            ["up"] => self.cluster.come_up(),
            ["command", action] => self.command(action),
            ["scale", task, replicas] => self.scale(task, replicas, None),
            ["scale", task, replicas, min] => self.scale(task, replicas, Some(min)),
            ["claim", name] => self.cluster.put(json!({
                "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name, "namespace": "n"},
            })),
            other => panic!("unknown line {other:?}"),
        }
    }

    /// The pods of these names, or all that are not leaving and have not ended.
    fn each(&mut self, pods: &[&str], act: impl Fn(&str, &mut Self)) {
        let names: Vec<String> = if pods.is_empty() {
            self.pod_names(false)
                .into_iter()
                .filter(|name| self.lives(name))
                .collect()
        } else {
            pods.iter().map(|name| (*name).to_owned()).collect()
        };
        for name in names {
            act(&name, self);
        }
    }

    fn pod_phase(&mut self, name: &str, phase: &str, code: Option<i32>) {
        let now = jiff::Timestamp::from_second(self.cluster.now)
            .expect("in range")
            .to_string();
        let state = code.map(|code| json!({"terminated": {"exitCode": code, "finishedAt": now}}));
        let container = json!({"name": "c", "ready": phase == "Running", "state": state});
        let status = json!({"status": {"phase": phase, "containerStatuses": [container]}});
        self.cluster.merge("Pod", "n", &format!("train-{name}"), &status);
    }

    fn group_phase(&mut self, phase: &str) {
        let names: Vec<String> = self
            .cluster
            .names("PodGroup")
            .iter()
            .map(|name| (*name).to_owned())
            .collect();
        for name in names {
            self.cluster
                .merge("PodGroup", "n", &name, &json!({"status": {"phase": phase}}));
        }
    }

    fn command(&mut self, action: &str) {
        self.commands += 1;
        let target = json!({"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "train", "uid": self.job()["metadata"]["uid"]});
        self.cluster.put(json!({
            "apiVersion": "bus.volcano.sh/v1alpha1", "kind": "Command",
            "metadata": {"name": format!("command-{}", self.commands), "namespace": "n"}, "action": action, "target": target,
        }));
    }

    fn scale(&mut self, task: &str, replicas: &str, min: Option<&str>) {
        let mut spec = self.job()["spec"].clone();
        let tasks = spec["tasks"].as_array_mut().expect("tasks");
        let found = tasks.iter_mut().find(|each| each["name"] == task).expect("the task");
        found["replicas"] = json!(replicas.parse::<i32>().expect("a number"));
        if let Some(min) = min {
            spec["minAvailable"] = json!(min.parse::<i32>().expect("a number"));
        }
        self.cluster.merge("Job", "n", "train", &json!({"spec": spec}));
    }
}
