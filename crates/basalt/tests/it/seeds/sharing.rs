//! Seed 1: queues share the cluster.

use super::cluster::{Cluster, Conf, says};
use super::manifests::{Job, group, job, queue};
use super::{BUILT_IN, Story};

pub(super) const STORIES: &[&Story] = &[&COUNTED, &PROPORTION, &BACKFILL];

/// The API, its counters, admission and the command line.
pub(super) const COUNTED: Story = Story {
    conf: BUILT_IN,
    steps: &[
        (&["1:7"], no_name_is_default),
        (&["1:11"], namespaces_share_a_queue),
        (&["1:38-39", "1:40-41", "1:42-43", "1:44-45"], jobs_are_counted),
        (&["1:46-47"], aborted_jobs_are_counted),
        (&["1:36-37", "1:69"], foreign_groups_are_unknown),
        (&["1:55"], counters_follow),
        (&["1:62"], no_queue_no_job),
        (&["1:63"], a_queue_that_goes_takes_nothing),
        (&["1:56"], a_queue_takes_its_jobs_with_it),
        (&["1:31-32"], weights_are_shares),
        (&["1:77-81", "1:85-89", "1:93-99"], vcctl_creates_shows_and_lists),
    ],
};

fn no_name_is_default(c: &Cluster) {
    c.apply(&job("first", "", 1, 1));
    c.apply(
        "apiVersion: scheduling.volcano.sh/v1beta1\nkind: PodGroup\nmetadata: {name: bare}\nspec: {minMember: 1}\n",
    );
    assert_eq!(c.field("vcjob/first", ".spec.queue"), "default");
    assert_eq!(c.field("podgroup/bare", ".spec.queue"), "default");
    c.wait("queue/default", ".status.running", "1");
    c.clear();
}

fn namespaces_share_a_queue(c: &Cluster) {
    says(
        &c.kubectl("api-resources --api-group=scheduling.volcano.sh --namespaced=false"),
        &["queues"],
    );
    c.vcctl("queue create shared --capability cpu=5");
    for (namespace, pods) in [("red", 2), ("blue", 3)] {
        c.kubectl(&format!("create namespace {namespace}"));
        c.apply(
            &job("team", "shared", pods, 1).replace("{name: team}", &format!("{{name: team, namespace: {namespace}}}")),
        );
    }
    c.wait("vcjob/team -n red", ".status.running", "2");
    c.wait("vcjob/team -n blue", ".status.running", "3");
    c.wait("queue/shared", ".status.allocated.cpu", "5");
    c.wait("queue/shared", ".status.running", "2");
    c.kubectl("delete namespace red blue --timeout=30s");
    c.wait("queue/shared", ".status.running", "0");
    c.clear();
}

/// One job of each kind; `pending` waits for more than there is.
fn jobs_are_counted(c: &Cluster) {
    c.vcctl("queue create counted");
    let ending = |name, annotations| Job {
        name,
        queue: "counted",
        pods: 1,
        min: 1,
        pod_spec: "",
        annotations,
    };
    let good = ending("good", "basalt.sh/run-time: 1ms").yaml();
    let bad = ending("bad", "basalt.sh/run-time: 1ms, basalt.sh/exit-code: '1'").yaml();
    c.apply(&(job("runs", "counted", 2, 2) + &job("pending", "counted", 400, 400) + &good + &bad));
    for (counter, jobs) in [("running", "1"), ("completed", "1"), ("failed", "1")] {
        c.wait("queue/counted", &format!(".status.{counter}"), jobs);
    }
    c.wait_reasons("pending");
    let waiting = c.field("queue/counted", "['status.pending','status.inqueue']");
    assert!(["1 0", "0 1"].contains(&waiting.as_str()), "{waiting}");
}

/// Until jobs take commands, the first half of an abort is written by hand.
fn aborted_jobs_are_counted(c: &Cluster) {
    c.apply(&job("stops", "counted", 1, 1));
    c.wait_running("stops", 1);
    let aborting = r#"{"status":{"state":{"phase":"Aborting"}}}"#;
    c.kubectl(&format!(
        "patch vcjob stops --subresource=status --type=merge -p {aborting}"
    ));
    c.kubectl("delete pod -l volcano.sh/job-name=stops");
    c.wait("queue/counted", ".status.aborted", "1");
}

fn foreign_groups_are_unknown(c: &Cluster) {
    c.apply(&(group("theirs", "counted") + &group("others", "counted")));
    c.wait("queue/counted", ".status.unknown", "2");
}

fn counters_follow(c: &Cluster) {
    c.finish("runs");
    c.wait("queue/counted", ".status.completed", "2");
    c.wait("queue/counted", ".status.running", "0");
    c.kubectl("delete podgroup theirs");
    c.wait("queue/counted", ".status.unknown", "1");
    c.kubectl("delete vcjob pending good");
    c.wait("queue/counted", ".status.completed", "1");
    c.wait("queue/counted", ".status.pending", "0");
    c.wait("queue/counted", ".status.inqueue", "0");
}

fn no_queue_no_job(c: &Cluster) {
    for manifest in [job("lost", "nowhere", 1, 1), group("lost", "nowhere")] {
        says(&c.apply_refused(&manifest), &["nowhere", "does not exist"]);
    }
}

/// Somebody else's finalizer keeps it from going, so that it can be looked at.
fn a_queue_that_goes_takes_nothing(c: &Cluster) {
    c.apply(&queue("going", "state: Closed"));
    c.wait_state("going", "Closed");
    let kept = r#"[{"op":"add","path":"/metadata/finalizers/-","value":"example.com/keep"}]"#;
    c.wait("queue/going", ".metadata.finalizers[0]", "basalt.sh/queue");
    c.kubectl(&format!("patch queue going --type=json -p {kept}"));
    c.kubectl("delete queue going --wait=false");
    for manifest in [job("late", "going", 1, 1), group("late", "going")] {
        says(&c.apply_refused(&manifest), &["going", "being deleted"]);
    }
    let gone = r#"{"metadata":{"finalizers":null}}"#;
    c.kubectl(&format!("patch queue going --type=merge -p {gone}"));
}

/// What is finished goes with it; what is not would have kept it from being Closed.
fn a_queue_takes_its_jobs_with_it(c: &Cluster) {
    c.kubectl("delete vcjob stops");
    c.kubectl("delete podgroup others");
    c.vcctl("queue close counted");
    c.wait_state("counted", "Closed");
    assert_eq!(c.kubectl("get vcjob -o name").lines().count(), 2);
    c.vcctl("queue delete counted --wait");
    c.kubectl("wait --for=delete vcjob --all --timeout=30s");
    c.kubectl("wait --for=delete podgroup --all --timeout=30s");
    assert_eq!(c.kubectl("get vcjob,podgroup -o name"), "");
}

fn weights_are_shares(c: &Cluster) {
    c.vcctl("queue create light --weight 1");
    c.vcctl("queue create heavy --weight 8");
    c.wait("queue/light", ".status.deserved.cpu", "4");
    c.wait("queue/heavy", ".status.deserved.cpu", "32");
    c.clear();
}

fn vcctl_creates_shows_and_lists(c: &Cluster) {
    c.vcctl("queue create --name myqueue --weight 10");
    c.apply(&(job("a", "myqueue", 1, 1) + &job("b", "myqueue", 400, 400)));
    c.wait("queue/myqueue", ".status.running", "1");
    c.wait_reasons("b");
    let created = c.field("queue/myqueue", ".metadata.creationTimestamp");
    says(
        &c.vcctl("queue view myqueue"),
        &["myqueue", &created, "Weight:       10"],
    );
    let list = c.vcctl("queue list");
    let head: Vec<&str> = list.lines().next().unwrap_or("").split_whitespace().collect();
    assert_eq!(
        head.join(" "),
        "Name Weight Total Pending Running State Parent Inqueue Unknown Completed Failed Aborted"
    );
    let row = list.lines().find(|line| line.starts_with("myqueue ")).expect("a row");
    let cells: Vec<&str> = row.split_whitespace().collect();
    let (pending, inqueue) = (cells[3], cells[7]);
    assert_eq!((cells[1], cells[2], cells[4]), ("10", "2", "1"), "{list}");
    assert!([("1", "0"), ("0", "1")].contains(&(pending, inqueue)), "{list}");
}

/// Proportion alone: shares by weight, and reclaim.
const BY_WEIGHT: Conf = Conf {
    name: "proportion",
    text: Some(
        "actions: \"enqueue, allocate, reclaim\"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}]
- plugins: [{name: predicates}, {name: proportion}, {name: nodeorder}]
",
    ),
};

pub(super) const PROPORTION: Story = Story {
    conf: BY_WEIGHT,
    steps: &[
        (&["1:109/all", "1:109/due"], reclaim_gives_everyone_their_due),
        (&["1:105/deserved", "1:105/bound"], shares_are_by_weight),
        (&["1:109/gang"], gangs_stay_whole),
        (&["1:113/idle"], too_big_for_their_queues),
    ],
};

/// `one` has everything as long as it is alone.
fn reclaim_gives_everyone_their_due(c: &Cluster) {
    for (name, weight) in [("one", 1), ("two", 2), ("five", 5)] {
        c.vcctl(&format!("queue create {name} --weight {weight}"));
    }
    c.apply(&job("of-one", "one", 40, 1));
    c.wait_running("of-one", 40);
    for (queue, cores) in [("five", 25), ("two", 10)] {
        let (first, more) = (format!("of-{queue}"), format!("more-{queue}"));
        c.apply(&job(&first, queue, cores, cores));
        c.wait_running(&first, cores as usize);
        c.apply(&job(&more, queue, 10, 10));
        c.wait_reasons(&more);
        assert_eq!(c.running(&more).len(), 0, "{more} is beyond what {queue} deserves");
    }
    c.wait_running("of-one", 5);
}

/// All three ask for more than their share, so that the first round of the shares is the last one.
fn shares_are_by_weight(c: &Cluster) {
    for (queue, cores) in [("one", "5"), ("two", "10"), ("five", "25")] {
        c.wait(&format!("queue/{queue}"), ".status.deserved.cpu", cores);
        c.wait(&format!("queue/{queue}"), ".status.allocated.cpu", cores);
    }
    c.clear();
}

fn gangs_stay_whole(c: &Cluster) {
    c.vcctl("queue create calm --weight 1");
    c.vcctl("queue create late --weight 1");
    c.apply(&job("whole", "calm", 40, 40));
    c.wait_running("whole", 40);
    let before = c.running("whole");
    c.apply(&job("comes", "late", 1, 1));
    c.wait_reasons("comes");
    assert_eq!(c.running("whole"), before, "a gang was broken");
    c.clear();
}

/// Two gangs of 24, and 20 cores for each queue.
fn too_big_for_their_queues(c: &Cluster) {
    two_big_gangs(c);
    for job in ["big-a", "big-b"] {
        c.wait_reason(job, "QueueOverDeserved");
    }
    assert_eq!((c.running("big-a").len(), c.running("big-b").len()), (0, 0));
}

/// Both are there before any node takes pods: alone, the first would be entitled to the whole cluster.
fn two_big_gangs(c: &Cluster) {
    c.vcctl("queue create a");
    c.vcctl("queue create b");
    let nodes = c.kubectl("get nodes -o jsonpath={.items[*].metadata.name}");
    c.kubectl(&format!("cordon {nodes}"));
    c.apply(&(job("big-a", "a", 24, 24) + &job("big-b", "b", 24, 24)));
    for job in ["big-a", "big-b"] {
        c.wait_reasons(job);
    }
    c.kubectl(&format!("uncordon {nodes}"));
}

const WITH_BACKFILL: Conf = Conf {
    name: "proportion-backfill",
    text: Some(
        "actions: \"enqueue, allocate, reclaim, backfill\"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}]
- plugins: [{name: predicates}, {name: proportion}, {name: nodeorder}]
",
    ),
};

pub(super) const BACKFILL: Story = Story {
    conf: WITH_BACKFILL,
    steps: &[
        (&["1:113/fill"], backfill_starts_one_of_them),
        (&["1:113/small"], a_smaller_job_still_starts),
    ],
};

fn backfill_starts_one_of_them(c: &Cluster) {
    two_big_gangs(c);
    let runs = crate::server::eventually("one of the gangs runs", std::time::Duration::from_secs(30), || {
        let running = [c.running("big-a").len(), c.running("big-b").len()];
        [[24, 0], [0, 24]].contains(&running).then_some(running)
    });
    let waits = if runs[0] == 0 { "big-a" } else { "big-b" };
    c.wait_reasons(waits);
    assert_eq!(c.running(waits).len(), 0, "{waits}");
}

/// The 16 cores that are idle still serve a job that fits.
fn a_smaller_job_still_starts(c: &Cluster) {
    let queue = if c.running("big-a").is_empty() { "a" } else { "b" };
    c.apply(&job("small", queue, 10, 10));
    c.wait_running("small", 10);
}
