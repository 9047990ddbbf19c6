//! A job as text: blocks as `kubectl describe` has them.

use basalt_api::json::{integer_or_zero, string_at};
use basalt_api::names;
use serde_json::{Map, Value};

use super::super::{colour, group, is_finished, queue, replicas, tasks};
use crate::events;
use crate::output::age::age;
use crate::output::page::{Page, moment};
use crate::output::table::{Cell, Table};
use crate::pod;
use crate::resources;
use crate::terminal::Look;

/// As many pods are shown; `vcctl pod list` has all.
const PODS: usize = 20;

/// A job and what is around it; where that could not be read, why.
pub(super) struct Subject<'a> {
    pub(super) job: &'a Value,
    pub(super) group: Result<Option<Value>, String>,
    pub(super) pods: Result<Vec<Value>, String>,
    pub(super) events: Result<Vec<Value>, String>,
}

impl Subject<'_> {
    pub(super) fn describe(&self, now: jiff::Timestamp, look: Look) -> String {
        let job = self.job;
        let mut page = Page::new(look);
        head(&mut page, job, now);
        spec(&mut page, job);
        let group = self.group.as_ref().map(Option::as_ref);
        match group {
            Ok(Some(group)) => {
                page.line("Pod group", string_at(group, "/metadata/name"));
                page.line("Group phase", string_at(group, "/status/phase"));
                let waits = if is_finished(job) {
                    Vec::new()
                } else {
                    group::reasons(group)
                };
                let sentences: Vec<String> = waits.iter().map(ToString::to_string).collect();
                page.sentences("Waits for", &sentences);
            }
            Ok(None) => page.line("Pod group", "none"),
            Err(why) => page.line("Pod group", &format!("not readable: {why}")),
        }
        page.block("Tasks", &task_table(job));
        page.block_or(
            "Pods",
            self.pods
                .as_ref()
                .map(|pods| pod::Columns::default().table(pods.get(..PODS).unwrap_or(pods), now)),
        );
        if let Some(more) = self
            .pods
            .as_ref()
            .ok()
            .and_then(|pods| pods.len().checked_sub(PODS + 1))
        {
            let name = string_at(job, "/metadata/name");
            page.line("More pods", &format!("{}, see `vcctl pod list -j {name}`", more + 1));
        }
        page.block("Timeline", &timeline(job, now));
        let conditions = match group {
            Ok(group) => Ok(events::conditions(group.unwrap_or(&Value::Null), now)),
            Err(why) => Err(why),
        };
        page.block_or("Conditions", conditions);
        page.block_or("Events", self.events.as_ref().map(|events| events::table(events, now)));
        page.finish()
    }
}

fn head(page: &mut Page, job: &Value, now: jiff::Timestamp) {
    page.line("Name", string_at(job, "/metadata/name"));
    page.line("Namespace", string_at(job, "/metadata/namespace"));
    page.line("Created", &moment(string_at(job, "/metadata/creationTimestamp"), now));
    let deleted = string_at(job, "/metadata/deletionTimestamp");
    if !deleted.is_empty() {
        page.line("Deleted", &format!("{}, not gone yet", moment(deleted, now)));
    }
    page.line_if_any("Labels", &pairs(&job["metadata"]["labels"]));
    page.line_if_any("Annotations", &pairs(&job["metadata"]["annotations"]));
    let phase = string_at(job, "/status/state/phase");
    page.painted("Phase", phase, colour(phase));
    page.line_if_any("Reason", string_at(job, "/status/state/reason"));
    page.line_if_any("Message", string_at(job, "/status/state/message"));
    page.line_if_any("Ran for", string_at(job, "/status/runningDuration"));
    let retries = integer_or_zero(job, "/status/retryCount");
    page.line(
        "Retries",
        &format!("{retries} of {}", integer_or_zero(job, "/spec/maxRetry")),
    );
}

fn spec(page: &mut Page, job: &Value) {
    let spec = &job["spec"];
    page.line("Queue", queue(job));
    page.line("Scheduler", string_at(spec, "/schedulerName"));
    page.line_if_any("Priority", string_at(spec, "/priorityClassName"));
    let need = integer_or_zero(spec, "/minAvailable");
    page.line("Pods", &format!("{}, {need} must run together", replicas(job)));
    if let Some(success) = spec["minSuccess"].as_i64() {
        page.line("Min success", &format!("{success} pods"));
    }
    if let Some(ttl) = spec["ttlSecondsAfterFinished"].as_i64() {
        page.line("Kept for", &format!("{ttl} s after its end"));
    }
    let plugins = spec["plugins"].as_object();
    let plugin = |(name, arguments): (&String, &Value)| {
        let arguments: Vec<&str> = words(arguments).collect();
        format!("{name} {}", arguments.join(" ")).trim_end().to_owned()
    };
    let mut plugins: Vec<String> = plugins.into_iter().flatten().map(plugin).collect();
    plugins.sort();
    page.line_if_any("Plugins", &plugins.join(", "));
    page.line_if_any("Policies", &policies(spec));
}

/// `PodFailed: RestartJob, exit code 3: AbortJob`
fn policies(of: &Value) -> String {
    let one = |policy: &Value| {
        let mut when: Vec<String> = Some(string_at(policy, "/event"))
            .filter(|event| !event.is_empty())
            .into_iter()
            .chain(words(&policy["events"]))
            .map(str::to_owned)
            .collect();
        when.extend(policy["exitCode"].as_i64().map(|code| format!("exit code {code}")));
        let timeout = string_at(policy, "/timeout");
        let after = if timeout.is_empty() {
            String::new()
        } else {
            format!(" after {timeout}")
        };
        format!("{}: {}{after}", when.join("|"), string_at(policy, "/action"))
    };
    let all: Vec<String> = of["policies"].as_array().into_iter().flatten().map(one).collect();
    all.join(", ")
}

fn words(list: &Value) -> impl Iterator<Item = &str> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str)
}

/// Labels or annotations on one line; kubectl's own copy of the manifest is no news.
fn pairs(map: &Value) -> String {
    let mut pairs: Vec<String> = map
        .as_object()
        .into_iter()
        .flat_map(Map::iter)
        .filter(|(key, _)| *key != names::LAST_APPLIED)
        .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
        .collect();
    pairs.sort();
    pairs.join(",")
}

/// One row a task.
fn task_table(job: &Value) -> Table {
    let mut table = Table::new([
        "Task",
        "Replicas",
        "Min",
        "Pending",
        "Running",
        "Succeeded",
        "Failed",
        "Requests",
        "Image",
        "DependsOn",
        "Policies",
    ]);
    for task in tasks(job) {
        let name = string_at(task, "/name");
        let counts = &job["status"]["taskStatusCount"][name]["phase"];
        let containers = || {
            let containers = task.pointer("/template/spec/containers").and_then(Value::as_array);
            containers.into_iter().flatten()
        };
        let replicas = integer_or_zero(task, "/replicas");
        let mut row: Vec<Cell> = vec![
            name.into(),
            replicas.into(),
            task["minAvailable"].as_i64().unwrap_or(replicas).into(),
        ];
        row.extend(
            ["Pending", "Running", "Succeeded", "Failed"].map(|phase| Cell::from(integer_or_zero(&counts[phase], ""))),
        );
        let images: Vec<&str> = containers().map(|container| string_at(container, "/image")).collect();
        let requests = resources::sum(containers().map(|container| &container["resources"]["requests"]));
        let before: Vec<&str> = words(&task["dependsOn"]["name"]).collect();
        row.extend([
            Cell::new(resources::show(&requests)),
            Cell::new(images.join(",")),
            Cell::new(before.join(",")),
            Cell::new(policies(task)),
        ]);
        table.row(row);
    }
    table
}

/// The phases that it went through, when, and how long each lasted.
fn timeline(job: &Value, now: jiff::Timestamp) -> Table {
    let created = string_at(job, "/metadata/creationTimestamp");
    let mut steps = vec![(created, "Created")];
    let conditions = job.pointer("/status/conditions").and_then(Value::as_array);
    let phases = conditions.into_iter().flatten();
    steps.extend(phases.map(|condition| {
        (
            string_at(condition, "/lastTransitionTime"),
            string_at(condition, "/status"),
        )
    }));
    // All end with Z, so the order of the texts is that of the times; equal ones stay as they were written.
    steps.sort_by_key(|(time, _)| *time);
    let between = |from: &str, to: &str| to.parse().map_or(String::new(), |to| age(from, to));
    let mut table = Table::new(["Time", "After", "Phase", "Lasted"]);
    for (at, (time, phase)) in steps.iter().enumerate() {
        let lasted = match steps.get(at + 1) {
            Some((next, _)) => between(time, next),
            None if is_finished(job) => String::new(),
            None => age(time, now),
        };
        table.row(vec![
            (*time).into(),
            Cell::new(between(created, time)),
            Cell::from(*phase).coloured(colour(phase)),
            Cell::new(lasted),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn now() -> jiff::Timestamp {
        "2026-11-15T10:00:00Z".parse().unwrap()
    }

    fn train() -> Value {
        json!({
            "metadata": {
                "name": "train", "namespace": "ml", "creationTimestamp": "2026-11-15T09:40:00Z",
                "labels": {"team": "vision", "app": "x"}, "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}", "note": "a\u{1b}[2J"},
            },
            "spec": {
                "queue": "research", "schedulerName": "volcano", "minAvailable": 3, "maxRetry": 5, "priorityClassName": "high",
                "minSuccess": 2, "ttlSecondsAfterFinished": 600,
                "plugins": {"svc": ["--publish-not-ready-addresses=true"], "env": []},
                "policies": [{"event": "PodEvicted", "action": "RestartJob"}, {"exitCode": 3, "action": "AbortJob"}, {"events": ["PodFailed", "PodPending"], "action": "RestartTask", "timeout": "10m"}],
                "tasks": [
                    {"name": "ps", "replicas": 1, "template": {"spec": {"containers": [{"image": "ps:1", "resources": {"requests": {"cpu": "500m"}}}, {"image": "side:2", "resources": {"requests": {"cpu": "1500m", "memory": "1Gi"}}}]}}},
                    {"name": "worker", "replicas": 4, "minAvailable": 2, "dependsOn": {"name": ["ps"]}, "policies": [{"event": "TaskCompleted", "action": "CompleteJob"}], "template": {"spec": {"containers": [{"image": "w:1"}]}}},
                ],
            },
            "status": {
                "state": {"phase": "Running", "reason": "Scaled", "message": "4 of 5"}, "retryCount": 1, "runningDuration": "5m0s",
                "taskStatusCount": {"ps": {"phase": {"Running": 1}}, "worker": {"phase": {"Running": 3, "Pending": 1}}},
                "conditions": [
                    {"status": "Running", "lastTransitionTime": "2026-11-15T09:55:00Z"},
                    {"status": "Pending", "lastTransitionTime": "2026-11-15T09:40:01Z"},
                ],
            },
        })
    }

    #[test]
    fn everything_about_a_job() {
        let pod = |n: usize| json!({"metadata": {"name": format!("train-worker-{n}"), "creationTimestamp": "2026-11-15T09:41:00Z"}, "spec": {"containers": [{}]}, "status": {"phase": "Running"}});
        let group = json!({
            "metadata": {"name": "train-u1"},
            "status": {
                "phase": "Inqueue", "reasons": [{"code": "GangNotReady", "dimension": "pods", "need": "3", "have": "2"}],
                "conditions": [{"type": "Unschedulable", "status": "True", "reason": "NotEnoughResources", "message": "no room", "lastTransitionTime": "2026-11-15T09:41:00Z"}],
            },
        });
        let event = json!({"type": "Warning", "reason": "PodGroupPending", "message": "waits", "lastTimestamp": "2026-11-15T09:59:00Z"});
        let job = train();
        let subject = Subject {
            job: &job,
            group: Ok(Some(group)),
            pods: Ok((0..23).map(pod).collect()),
            events: Ok(vec![event]),
        };
        let text = subject.describe(now(), Look::default());
        insta::assert_snapshot!("whole", text);
        assert!(!text.contains('\u{1b}'));
        let look = Look {
            colour: true,
            ..Look::default()
        };
        assert!(subject.describe(now(), look).contains("\u{1b}[32mRunning\u{1b}[0m"));
    }

    #[test]
    fn a_job_that_is_new_or_odd() {
        let new = json!({"metadata": {"name": "new", "creationTimestamp": "soon"}, "spec": {"tasks": [3, {"name": []}], "plugins": 1, "policies": [1]}, "status": {"conditions": {"a": 1}}});
        let why = || "forbidden".to_owned();
        let subject = Subject {
            job: &new,
            group: Err(why()),
            pods: Err(why()),
            events: Err(why()),
        };
        insta::assert_snapshot!("new", subject.describe(now(), Look::default()));
        let bare = Subject {
            job: &new,
            group: Ok(None),
            pods: Ok(Vec::new()),
            events: Ok(Vec::new()),
        };
        assert!(bare.describe(now(), Look::default()).contains("Pod group:    none\n"));
    }
}
