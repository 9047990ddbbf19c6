//! Seed 0: the states of a queue, and what each of them allows.

use super::cluster::{Cluster, PATIENCE, says};
use super::manifests::{group, job, job_with, pod, queue};
use super::{BUILT_IN, Story};
use crate::server::eventually;

pub(super) const STORIES: &[&Story] = &[&STATES, &LIMITS];

/// States: how they come about, and what they allow.
pub(super) const STATES: Story = Story {
    conf: BUILT_IN,
    steps: &[
        (&["0:100", "0:110-112", "0:164-165", "0:208"], no_state_is_open),
        (
            &["0:101", "0:96/set", "0:97/set", "0:98/set", "0:161"],
            creation_takes_two_states,
        ),
        (&["0:113", "0:118"], updates_take_two_states),
        (
            &["0:52-53", "0:66-67", "0:209", "0:211-212"],
            spec_steers_and_status_shows,
        ),
        (
            &["0:83", "0:219", "0:30-31/place", "0:96/schedule"],
            open_takes_everything,
        ),
        (&["0:96/delete", "0:38-40"], open_is_not_deleted),
        (
            &["0:87-90/first", "0:210-211", "0:84-86/spares"],
            with_tasks_it_is_closing,
        ),
        (&["0:98/receive", "0:102-103"], closing_takes_nothing),
        (&["0:98/delete", "0:114-115", "0:162"], closing_is_not_deleted),
        (&["0:98/schedule", "0:224-225"], closing_is_scheduled),
        (&["0:87-90/then"], at_the_end_it_is_closed),
        (&["0:84-86/refuses", "0:220", "0:41-42"], closed_takes_nothing),
        (
            &["0:96/deserved", "0:97/deserved", "0:98/deserved"],
            every_state_deserves_the_same,
        ),
        (&["0:97/delete", "0:104", "0:40"], closed_is_deleted),
        (&["0:116"], default_stays),
        (&["0:218"], no_name_is_default),
        (&["0:231", "0:232"], vcctl_creates_and_shows_states),
        (&["0:233", "0:235"], vcctl_changes_states_and_weights),
        (&["0:234"], vcctl_deletes),
    ],
};

fn no_state_is_open(c: &Cluster) {
    c.apply(&queue("plain", "weight: 1"));
    assert_eq!(c.field("queue/plain", ".spec.state"), "Open");
    c.wait_state("plain", "Open");
}

fn creation_takes_two_states(c: &Cluster) {
    c.apply(&(queue("opened", "state: Open") + &queue("shut", "state: Closed")));
    c.wait_state("opened", "Open");
    c.wait_state("shut", "Closed");
    for state in ["Closing", "Paused", "open"] {
        says(
            &c.apply_refused(&queue("wrong", &format!("state: {state}"))),
            &["state", state],
        );
    }
    says(&c.kubectl_refused("get queue wrong"), &["NotFound"]);
}

fn updates_take_two_states(c: &Cluster) {
    for state in ["Closing", "Unknown"] {
        let patch = format!(r#"{{"spec":{{"state":"{state}"}}}}"#);
        let said = c.kubectl_refused(&format!("patch queue plain --type=merge -p {patch}"));
        says(&said, &["state", state]);
    }
    assert_eq!(c.field("queue/plain", ".spec.state"), "Open");
}

fn spec_steers_and_status_shows(c: &Cluster) {
    says(&c.kubectl("explain queue.spec.state"), &["state"]);
    says(&c.kubectl("explain queue.status.state"), &["state"]);
    for (wanted, shown) in [("Closed", "Closed"), ("Open", "Open")] {
        let patch = format!(r#"{{"spec":{{"state":"{wanted}"}}}}"#);
        c.kubectl(&format!("patch queue plain --type=merge -p {patch}"));
        c.wait_state("plain", shown);
    }
    says(&c.kubectl("get queue plain"), &["STATE", "Open"]);
}

/// Four cores at most, which a job of three and a lone pod fill.
fn open_takes_everything(c: &Cluster) {
    c.vcctl("queue create work --capability cpu=4 --deserved cpu=4");
    c.apply(&(group("alone", "work") + &pod("lone", "work") + &job("three", "work", 3, 1)));
    c.wait_running("three", 3);
    c.kubectl("wait --for=condition=Ready pod/lone --timeout=30s");
    assert_eq!(c.field("vcjob/three", ".spec.queue"), "work");
    assert_eq!(c.group("three").expect("its PodGroup")["spec"]["queue"], "work");
    c.wait("queue/work", ".status.allocated.cpu", "4");
    c.kubectl("delete podgroup alone");
}

fn open_is_not_deleted(c: &Cluster) {
    says(&c.kubectl_refused("delete queue work"), &["work", "Closed"]);
    says(&c.vcctl_refused("queue delete opened"), &["opened", "Closed"]);
    assert_eq!(c.field("queue/work", ".metadata.deletionTimestamp"), "");
}

fn with_tasks_it_is_closing(c: &Cluster) {
    c.apply(&job("waits", "work", 1, 1));
    c.wait_reasons("waits");
    let before = c.running("three");
    c.vcctl("queue close work");
    c.wait_state("work", "Closing");
    assert_eq!(c.running("three"), before, "closing takes no pod away");
    assert_eq!(c.field("vcjob/waits", ".status.state.phase"), "Pending");
}

fn closing_takes_nothing(c: &Cluster) {
    nothing_gets_in(c, "work");
}

/// No Job, no PodGroup, no Pod.
fn nothing_gets_in(c: &Cluster, queue: &str) {
    says(&c.apply_refused(&job("late", queue, 1, 1)), &[queue, "closed"]);
    says(&c.apply_refused(&group("late", queue)), &[queue, "closed"]);
    says(&c.apply_refused(&pod("late", queue)), &[queue, "closed"]);
    for kind in ["vcjob", "podgroup", "pod"] {
        says(&c.kubectl_refused(&format!("get {kind} late")), &["NotFound"]);
    }
}

fn closing_is_not_deleted(c: &Cluster) {
    assert_eq!(c.field("queue/work", "['spec.state','status.state']"), "Closed Closing");
    says(&c.kubectl_refused("delete queue work"), &["work", "Closing"]);
}

fn closing_is_scheduled(c: &Cluster) {
    c.vcctl("queue update work --capability cpu=8");
    c.wait_running("waits", 1);
    assert_eq!(c.field("queue/work", ".status.state"), "Closing");
}

fn at_the_end_it_is_closed(c: &Cluster) {
    c.finish("three");
    c.kubectl("delete pod lone");
    assert_eq!(c.field("queue/work", ".status.state"), "Closing");
    c.finish("waits");
    c.wait_state("work", "Closed");
}

fn closed_takes_nothing(c: &Cluster) {
    nothing_gets_in(c, "work");
    c.vcctl("queue open work");
    c.apply(&job("again", "work", 1, 1));
    c.wait_running("again", 1);
}

fn every_state_deserves_the_same(c: &Cluster) {
    for (command, state) in [("open", "Open"), ("close", "Closing")] {
        c.vcctl(&format!("queue {command} work"));
        c.wait_state("work", state);
        c.wait("queue/work", ".status.deserved.cpu", "4");
    }
    c.finish("again");
    c.wait_state("work", "Closed");
    // The scheduler has seen the queue since: it shows that nothing is allocated any more.
    c.wait("queue/work", ".status.share", "0.000000");
    assert_eq!(c.field("queue/work", ".status.deserved.cpu"), "4");
}

fn closed_is_deleted(c: &Cluster) {
    c.kubectl("delete queue work --timeout=30s");
    c.kubectl("delete queue shut --timeout=30s");
    says(&c.kubectl_refused("get queue work"), &["NotFound"]);
}

fn default_stays(c: &Cluster) {
    says(&c.kubectl_refused("delete queue default"), &["default"]);
    c.vcctl("queue close default");
    c.wait_state("default", "Closed");
    says(&c.vcctl_refused("queue delete default"), &["default"]);
    c.vcctl("queue open default");
    c.wait_state("default", "Open");
}

fn no_name_is_default(c: &Cluster) {
    c.apply(&job("unnamed", "", 1, 1));
    assert_eq!(c.field("vcjob/unnamed", ".spec.queue"), "default");
    c.wait_running("unnamed", 1);
}

fn vcctl_creates_and_shows_states(c: &Cluster) {
    c.vcctl("queue create --name night --weight 3 --state Closed");
    c.wait_state("night", "Closed");
    let state = |line: &str| line.split_whitespace().nth(5).map(str::to_owned);
    let list = c.vcctl("queue list");
    let row = |name: &str| {
        list.lines()
            .find(|line| line.starts_with(&format!("{name} ")))
            .expect("a row")
            .to_owned()
    };
    assert_eq!(state(&row("Name")).as_deref(), Some("State"));
    assert_eq!(state(&row("night")).as_deref(), Some("Closed"));
    assert_eq!(state(&row("opened")).as_deref(), Some("Open"));
    says(&c.vcctl("queue view night"), &["State:        Closed"]);
    assert_eq!(
        c.basalt("vcctl queue view night -o json"),
        c.vcctl("queue get -n night -o json")
    );
}

fn vcctl_changes_states_and_weights(c: &Cluster) {
    c.vcctl("queue update night --weight 5 --state Open");
    c.wait_state("night", "Open");
    assert_eq!(c.field("queue/night", ".spec.weight"), "5");
    c.vcctl("queue operate -a close -n night");
    c.wait_state("night", "Closed");
    c.vcctl("queue operate -a update -n night -w 7");
    assert_eq!(c.field("queue/night", ".spec.weight"), "7");
    c.vcctl("queue operate -a open -n night");
    c.wait_state("night", "Open");
}

fn vcctl_deletes(c: &Cluster) {
    says(&c.vcctl_refused("queue delete night"), &["night", "Closed"]);
    c.vcctl("queue close night opened plain");
    for name in ["night", "opened", "plain"] {
        c.wait_state(name, "Closed");
    }
    c.vcctl("queue delete night opened plain --wait");
    assert_eq!(
        c.vcctl("queue children root -o name"),
        "queue.scheduling.volcano.sh/default\n"
    );
}

/// What the motivation says of shares and limits.
pub(super) const LIMITS: Story = Story {
    conf: BUILT_IN,
    steps: &[
        (&["0:22-23"], weights_divide),
        (&["0:23-24/most"], capability_bounds),
        (&["0:31-32"], limits_change_in_flight),
        (&["0:32-34"], idle_room_is_borrowed),
        (&["0:23-24/least", "0:25-30"], a_flood_leaves_room_for_others),
        (&["0:24-25"], one_user_two_queues),
        (&["0:30-31/order"], priority_goes_first),
    ],
};

/// With `default` four parts of forty cores.
fn weights_divide(c: &Cluster) {
    c.vcctl("queue create one --weight 1");
    c.vcctl("queue create two --weight 2");
    c.wait("queue/one", ".status.deserved.cpu", "10");
    c.wait("queue/two", ".status.deserved.cpu", "20");
}

fn capability_bounds(c: &Cluster) {
    c.vcctl("queue update one --capability cpu=6");
    c.apply(&job("bound", "one", 8, 1));
    c.wait_running("bound", 6);
    says(&c.wait_reasons("bound"), &["one", "cpu"]);
}

fn limits_change_in_flight(c: &Cluster) {
    c.vcctl("queue update one --capability cpu=7");
    c.wait_running("bound", 7);
    c.vcctl("queue update one --weight 3 --capability none");
    c.wait_running("bound", 8);
    c.wait("queue/one", ".status.deserved.cpu", "20");
}

/// `two` deserves 13 of 40 now.
fn idle_room_is_borrowed(c: &Cluster) {
    c.apply(&job("busy", "two", 20, 1));
    c.wait_running("busy", 20);
    eventually("two has more than its share", PATIENCE, || {
        let share: f64 = c.field("queue/two", ".status.share").parse().expect("a number");
        (share > 1.0).then_some(())
    });
    c.clear();
}

/// Four of the forty cores are kept for `careful`, and there is nothing in it.
fn a_flood_leaves_room_for_others(c: &Cluster) {
    c.vcctl("queue create careful --guarantee cpu=4 --deserved cpu=4");
    c.vcctl("queue create greedy");
    c.apply(&job("flood", "greedy", 44, 1));
    c.wait_running("flood", 36);
    c.wait_reasons("flood");
    c.apply(&job("modest", "careful", 4, 4));
    c.wait_running("modest", 4);
    assert_eq!(c.running("flood").len(), 36, "nobody had to go for it");
}

/// The same namespace, so the same user, uses both of its queues.
fn one_user_two_queues(c: &Cluster) {
    for queue in ["careful", "greedy"] {
        assert_eq!(c.field(&format!("queue/{queue}"), ".status.running"), "1");
    }
    c.clear();
}

/// Both want a whole node that is taken, and the later one has the higher priority.
fn priority_goes_first(c: &Cluster) {
    let node = c.kubectl("get nodes -o jsonpath={.items[0].metadata.name}");
    c.kubectl(&format!("label node {node} seed=one"));
    c.vcctl("queue create low --deserved cpu=4 --reclaimable=false");
    c.vcctl("queue create high --deserved cpu=4 --priority 10");
    let here = |name, queue| job_with(name, queue, 4, 4, "nodeSelector: {seed: one}");
    c.apply(&here("first", "low"));
    c.wait_running("first", 4);
    c.vcctl("queue update low --deserved cpu=8");
    c.apply(&here("ordinary", "low"));
    c.wait_reasons("ordinary");
    c.apply(&here("urgent", "high"));
    c.wait_reasons("urgent");
    c.kubectl("delete vcjob first");
    c.wait_running("urgent", 4);
    c.wait_reasons("ordinary");
    assert_eq!(c.running("ordinary").len(), 0);
    c.clear();
}
