//! Queues that move: a clean story is clean, and each planted bug in it is found, and nothing else.

use basalt_audit::{Auditor, Finding, Objects, QueueWatch, Write};
use serde_json::{Value, json};

const APPLIED: &str = "basalt.sh/applied-commands";

/// A world that is told of write by write.
#[derive(Default)]
struct Story {
    objects: Objects,
    watch: QueueWatch,
    findings: Vec<Finding>,
}

fn place<'a>(objects: &'a mut Objects, kind: &str) -> Option<&'a mut Vec<Value>> {
    match kind {
        "Queue" => Some(&mut objects.queues),
        "Job" => Some(&mut objects.jobs),
        "PodGroup" => Some(&mut objects.pod_groups),
        "Pod" => Some(&mut objects.pods),
        _ => None,
    }
}

impl Story {
    fn write(&mut self, kind: &str, name: &str, after: Option<Value>, by_user: bool) -> Value {
        let mut before = None;
        if let Some(list) = place(&mut self.objects, kind) {
            let at = list.iter().position(|object| object["metadata"]["name"] == name);
            before = at.map(|at| list.remove(at));
            list.extend(after.clone());
        }
        let write = Write {
            before: before.as_ref(),
            after: after.as_ref(),
            by_user,
        };
        self.findings.extend(self.watch.observe(write, &self.objects));
        before.unwrap_or_default()
    }

    /// Writes an object as a user.
    fn put(&mut self, object: Value) -> &mut Self {
        let (kind, name) = (object["kind"].clone(), object["metadata"]["name"].clone());
        self.write(
            kind.as_str().expect("a kind"),
            name.as_str().expect("a name"),
            Some(object),
            true,
        );
        self
    }

    /// Changes an object, as the system does.
    fn edit(&mut self, kind: &str, name: &str, edit: impl Fn(&mut Value)) -> &mut Self {
        let list = place(&mut self.objects, kind).expect("a kind that is kept");
        let found = list.iter().find(|object| object["metadata"]["name"] == name);
        let mut object = found.expect("an object of that name").clone();
        edit(&mut object);
        self.write(kind, name, Some(object), false);
        self
    }

    fn asks(&mut self, kind: &str, name: &str) -> &mut Self {
        let list = place(&mut self.objects, kind).expect("a kind that is kept");
        let found = list.iter().find(|object| object["metadata"]["name"] == name).cloned();
        self.watch.asked_to_delete(&found.expect("an object of that name"));
        self
    }

    fn gone(&mut self, kind: &str, name: &str) -> &mut Self {
        self.write(kind, name, None, false);
        self
    }

    /// A Command goes; it is kept nowhere but in the watch.
    fn command_gone(&mut self, command: &Value) -> &mut Self {
        let write = Write {
            before: Some(command),
            after: None,
            by_user: false,
        };
        self.findings.extend(self.watch.observe(write, &self.objects));
        self
    }

    #[track_caller]
    fn found(&mut self, title: &str, expected: &[&str]) {
        self.findings.extend(self.watch.settled());
        let found: Vec<&str> = self.findings.iter().map(|finding| finding.invariant.id()).collect();
        assert_eq!(found, expected, "{title}: {:#?}", self.findings);
    }
}

fn object(kind: &str, name: &str, spec: Value) -> Value {
    json!({"kind": kind, "metadata": {"name": name, "namespace": "default", "uid": format!("uid-{name}")}, "spec": spec})
}

fn queue(name: &str, parent: &str, state: &str) -> Value {
    object("Queue", name, json!({"parent": parent, "state": state}))
}

fn job(name: &str, queue: &str) -> Value {
    object("Job", name, json!({"queue": queue}))
}

fn command(action: &str, queue: &str) -> Value {
    json!({"kind": "Command", "metadata": {"name": "c", "namespace": "default", "uid": "uid-c"}, "action": action,
        "target": {"kind": "Queue", "name": queue, "uid": format!("uid-{queue}")}})
}

/// root, `a` with the child `b`, and `c`.
fn story() -> Story {
    let mut story = Story::default();
    story.put(queue("root", "", "Open")).put(queue("a", "root", "Open"));
    story.put(queue("b", "a", "Open")).put(queue("c", "root", "Open"));
    story
}

fn finished(job: &mut Value) {
    job["status"]["state"]["phase"] = json!("Completed");
}

#[test]
fn deliveries_go_only_where_they_may() {
    let check = |title: &str, edit: &dyn Fn(&mut Story), object: Value, expected: &[&str]| {
        let mut story = story();
        edit(&mut story);
        story.put(object).found(title, expected);
    };
    let nothing = |_: &mut Story| {};
    check("an open leaf", &nothing, job("j", "c"), &[]);
    check("a queue with a child", &nothing, job("j", "a"), &["Q1"]);
    check("root", &nothing, job("j", "root"), &["Q1"]);
    check("no such queue", &nothing, job("j", "d"), &["Q1"]);
    let closed = |story: &mut Story| {
        story.put(queue("a", "root", "Closed"));
    };
    check("closed from above", &closed, job("j", "b"), &["Q1"]);
    check("closed elsewhere", &closed, job("j", "c"), &[]);
    let going = |story: &mut Story| {
        story.asks("Queue", "c");
        story.edit("Queue", "c", |queue| {
            queue["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        });
    };
    check("on its way out", &going, job("j", "c"), &["Q1"]);
    let group = |owner: Value| {
        let mut group = object("PodGroup", "g", json!({"queue": "a"}));
        group["metadata"]["ownerReferences"] = json!([owner]);
        group
    };
    let held = |story: &mut Story| {
        story.put(job("j", "c"));
        story.edit("Job", "j", |job| job["spec"]["queue"] = json!("a"));
    };
    let of_job = json!({"kind": "Job", "apiVersion": "batch.volcano.sh/v1alpha1", "uid": "uid-j", "controller": true});
    check("a group of a Job that is there", &held, group(of_job.clone()), &[]);
    check("a group of a Job that is not", &nothing, group(of_job), &["Q1"]);
    let mut pod = object("Pod", "p", json!({}));
    pod["metadata"]["annotations"] = json!({"scheduling.volcano.sh/queue-name": "a"});
    check("a pod that names a queue", &nothing, pod, &["Q1"]);
    check("a pod that names none", &nothing, object("Pod", "p", json!({})), &[]);
    let moved = |story: &mut Story| {
        story.put(object("PodGroup", "g", json!({"queue": "c"})));
    };
    check(
        "a group is moved",
        &moved,
        object("PodGroup", "g", json!({"queue": "a"})),
        &["Q1"],
    );
}

#[test]
fn a_queue_vanishes_only_when_asked_and_empty() {
    let mut clean = story();
    clean.put(job("j", "c")).edit("Job", "j", finished).asks("Queue", "c");
    clean.edit("Queue", "c", |queue| {
        queue["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    });
    clean.gone("Job", "j").gone("Queue", "c").found("in order", &[]);
    let mut below = story();
    below
        .asks("Queue", "a")
        .gone("Queue", "b")
        .gone("Queue", "a")
        .found("children first", &[]);
    story().gone("Queue", "c").found("nobody asked", &["I8"]);
    story()
        .asks("Queue", "a")
        .gone("Queue", "a")
        .found("with a child", &["I8"]);
    let mut busy = story();
    busy.put(job("j", "c"))
        .asks("Queue", "c")
        .gone("Queue", "c")
        .found("with a Job", &["I8"]);
    let mut busy = story();
    busy.put(object("PodGroup", "g", json!({"queue": "c"})))
        .asks("Queue", "c");
    busy.gone("Queue", "c").found("with a group", &["I8"]);
    let mut busy = story();
    let mut pod = object("Pod", "p", json!({}));
    pod["metadata"]["annotations"] = json!({"scheduling.volcano.sh/queue-name": "c"});
    busy.put(pod)
        .asks("Queue", "c")
        .gone("Queue", "c")
        .found("with a pod", &["I8"]);
}

#[test]
fn nothing_is_lost() {
    let mut asked = story();
    asked
        .put(job("j", "c"))
        .asks("Job", "j")
        .gone("Job", "j")
        .found("asked", &[]);
    let mut lost = story();
    lost.put(job("j", "c")).gone("Job", "j").found("a Job", &["Q3"]);
    let mut lost = story();
    lost.put(job("j", "c")).edit("Job", "j", finished).gone("Job", "j");
    lost.found("a finished Job whose queue stays", &["Q3"]);
    let mut lost = story();
    lost.put(object("PodGroup", "g", json!({"queue": "c"})))
        .gone("PodGroup", "g")
        .found("a group", &["Q3"]);
    let mut lost = story();
    lost.put(object("Pod", "p", json!({})))
        .gone("Pod", "p")
        .found("a pod", &["Q3"]);
    let mut owned = story();
    let mut pod = object("Pod", "p", json!({}));
    pod["metadata"]["ownerReferences"] = json!([{"uid": "uid-j"}]);
    owned.put(pod).gone("Pod", "p").found("a pod of somebody", &[]);
}

#[test]
fn a_command_takes_effect_once() {
    let close = command("CloseQueue", "c");
    let obey = |queue: &mut Value| {
        queue["spec"]["state"] = json!("Closed");
        queue["metadata"]["annotations"][APPLIED] = json!("uid-c");
    };
    let mut clean = story();
    clean
        .put(close.clone())
        .edit("Queue", "c", obey)
        .command_gone(&close)
        .found("obeyed", &[]);
    let mut late = story();
    late.put(close.clone())
        .asks("Queue", "c")
        .gone("Queue", "c")
        .command_gone(&close);
    late.found("the queue went first", &[]);
    story().put(close.clone()).found("nobody obeys", &["Q2"]);
    story()
        .put(close.clone())
        .command_gone(&close)
        .found("forgotten", &["Q2"]);
    let mut unasked = story();
    unasked.edit("Queue", "c", |queue| queue["spec"]["state"] = json!("Closed"));
    unasked.found("closed unasked", &["Q2"]);
    let forget = |queue: &mut Value| queue["metadata"]["annotations"][APPLIED] = json!("");
    let mut twice = story();
    twice
        .put(close.clone())
        .edit("Queue", "c", obey)
        .edit("Queue", "c", forget)
        .edit("Queue", "c", obey);
    twice.command_gone(&close).found("twice", &["Q2"]);
    let mut wrong = story();
    wrong.put(close.clone()).edit("Queue", "b", obey).command_gone(&close);
    wrong.found("on another queue", &["Q2"]);
}

/// Queues as `name/parent/wanted`, jobs as `queue` or `queue!` (ended), and the states that must stand.
#[track_caller]
fn states(queues: &str, work: &str, expected: &str) {
    let mut objects = Objects::default();
    let wanted: Vec<(&str, &str)> = expected.split(' ').filter_map(|word| word.split_once('=')).collect();
    for words in queues.split(' ') {
        let parts: Vec<&str> = words.split('/').collect();
        let mut made = queue(parts[0], parts[1], parts[2]);
        let state = wanted.iter().find(|(name, _)| *name == parts[0]).expect("a state").1;
        made["status"] = json!({"state": state});
        objects.queues.push(made);
    }
    for (number, word) in work.split(' ').filter(|word| !word.is_empty()).enumerate() {
        let queue = word.trim_end_matches('!');
        let mut made = job(&format!("j{number}"), queue);
        if word.ends_with('!') {
            finished(&mut made);
        }
        let counter = if word.ends_with('!') { "completed" } else { "pending" };
        let at = objects
            .queues
            .iter()
            .position(|found| found["metadata"]["name"] == queue);
        let status = &mut objects.queues[at.expect("the queue")]["status"];
        status[counter] = json!(status[counter].as_i64().unwrap_or(0) + 1);
        objects.jobs.push(made);
    }
    let clean = Auditor::default().settled(&objects);
    assert_eq!(clean, Vec::new(), "{queues} with {work:?}");
    // Any other state is a finding.
    for at in 0..objects.queues.len() {
        for other in ["Open", "Closing", "Closed", ""] {
            let mut bad = objects.clone();
            let state = &mut bad.queues[at]["status"]["state"];
            if *state != other {
                *state = json!(other);
                let found = Auditor::default().settled(&bad);
                assert!(
                    found.iter().any(|finding| finding.invariant.id() == "L1"),
                    "{queues}: {other} passes"
                );
            }
        }
    }
}

#[test]
fn the_state_is_derived() {
    states("root//Open a/root/Open", "", "root=Open a=Open");
    states("root//Closed a/root/Open", "", "root=Open a=Open");
    states("root//Open a/root/Closed", "", "root=Open a=Closed");
    states("root//Open a/root/Closed", "a", "root=Open a=Closing");
    states("root//Open a/root/Closed", "a! a!", "root=Open a=Closed");
    states("root//Open a/root/Closed b/a/Open", "", "root=Open a=Closed b=Closed");
    states(
        "root//Open a/root/Closed b/a/Open",
        "b",
        "root=Open a=Closing b=Closing",
    );
    states("root//Open a/root/Open b/a/Closed", "b", "root=Open a=Open b=Closing");
    states(
        "root//Open a/root/Closed b/a/Open c/b/Open",
        "c b!",
        "root=Open a=Closing b=Closing c=Closing",
    );
}
