//! Policies, Commands and restarts: what happens to a Job, and what becomes of it, also when the controllers die after any
//! write on the way.

use serde_json::{Value, json};

use crate::script::{check, play, task, with};

/// One task of three pods that must all run, with these policies of the job.
fn job(policies: &Value) -> Value {
    json!({"minAvailable": 3, "tasks": [task("w", 3)], "policies": policies})
}

fn on(event: &str, action: &str) -> Value {
    job(&json!([{"event": event, "action": action}]))
}

const STARTED: &str = "let-in\n run\n = phase Running\n note-group\n";

fn life(spec: &Value, script: &str) {
    check(spec, &format!("{STARTED}{script}"));
}

#[test]
fn restart_of_the_job() {
    life(
        &on("PodFailed", "RestartJob"),
        "fail w-1
         = phase Restarting
         = reason PodFailed
         = retry 1
         = version 1
         = pods
         = leaving w-0 w-1 w-2
         reap
         = phase Pending
         = group other
         let-in
         = pods w-0 w-1 w-2
         run
         = phase Running
         = restarts 0
         = version 1",
    );
}

#[test]
fn retries_end_and_what_failed_stays_to_be_looked_at() {
    let spec = with(on("PodFailed", "RestartJob"), &json!({"maxRetry": 2}));
    life(
        &spec,
        "fail w-0
         reap
         let-in
         run
         = phase Running
         = retry 1
         fail w-2
         = phase Failed
         = retry 2
         = pods w-2
         = leaving w-0 w-1
         reap
         = group none
         = counts 0 0 0 1",
    );
}

/// Volcano #5385: restarting a pod took the PodGroup, and with it the whole job.
#[test]
fn restart_of_a_pod_restarts_that_pod_and_nothing_else() {
    life(
        &on("PodFailed", "RestartPod"),
        "fail w-1
         = phase Restarting
         = retry 1
         = version 0
         = pods w-0 w-2
         = leaving w-1
         reap
         = pods w-0 w-1 w-2
         = group same
         run w-1
         = phase Running
         = retry 1
         fail w-1
         = retry 2
         reap
         run w-1
         = group same
         = phase Running",
    );
}

#[test]
fn several_pods_that_fail_together_are_one_restart() {
    life(
        &on("PodFailed", "RestartPod"),
        "down
         fail w-0
         fail w-2
         up
         = leaving w-0 w-2
         = retry 1
         reap
         run
         = phase Running",
    );
}

#[test]
fn restart_of_a_task() {
    let workers = with(
        task("w", 2),
        &json!({"policies": [{"event": "PodFailed", "action": "RestartTask"}]}),
    );
    let spec = json!({"minAvailable": 3, "tasks": [task("m", 1), workers], "policies": [{"event": "PodFailed", "action": "AbortJob"}]});
    // The task's policy comes before the job's.
    life(
        &spec,
        "fail w-0
         = leaving w-0 w-1
         = pods m-0
         reap
         = pods m-0 w-0 w-1
         = group same
         run
         = phase Running
         fail m-0
         = phase Aborting",
    );
}

#[test]
fn restart_of_a_partition() {
    let workers = with(
        task("w", 6),
        &json!({"partitionPolicy": {"totalPartitions": 3, "partitionSize": 2}}),
    );
    let spec = json!({"minAvailable": 6, "tasks": [workers], "policies": [{"event": "PodFailed", "action": "RestartPartition"}]});
    life(
        &spec,
        "fail w-3
         = leaving w-2 w-3
         = pods w-0 w-1 w-4 w-5
         reap
         run
         = phase Running
         = retry 1",
    );
}

#[test]
fn orders_that_end_the_job() {
    for (action, during, after) in [
        ("AbortJob", "Aborting", "Aborted"),
        ("TerminateJob", "Terminating", "Terminated"),
        ("CompleteJob", "Completing", "Completed"),
    ] {
        let script = format!(
            "succeed w-0
             fail w-1
             = phase {during}
             = pods w-0 w-1
             = leaving w-2
             = group same
             reap
             = phase {after}
             = group none
             = version 1
             = counts 0 0 1 1
             = retry 0"
        );
        life(&on("PodFailed", action), &script);
    }
}

#[test]
fn exit_codes_decide() {
    let spec = job(&json!([{"exitCode": 3, "action": "RestartJob"}, {"event": "PodFailed", "action": "TerminateJob"}]));
    life(&spec, "fail w-0 3\n = phase Restarting");
    life(&spec, "fail w-0 4\n = phase Terminating");
    let only = job(&json!([{"exitCode": 3, "action": "RestartJob"}]));
    life(&only, "fail w-0 4\n = phase Running\n = counts 0 2 0 1");
}

#[test]
fn any_event_means_any_but_waiting_and_updates() {
    let any = on("*", "RestartJob");
    check(&any, "let-in\n = phase Pending\n = retry 0");
    life(&any, "fail w-0\n = retry 1");
    life(&any, "evict w-0\n = retry 1");
    life(&any, "scale w 4\n run\n = retry 0\n = pods w-0 w-1 w-2 w-3");
}

#[test]
fn a_task_that_is_completed_completes_the_job() {
    let master = with(
        task("m", 1),
        &json!({"policies": [{"event": "TaskCompleted", "action": "CompleteJob"}]}),
    );
    let spec = json!({"minAvailable": 3, "tasks": [master, task("w", 2)]});
    life(
        &spec,
        "succeed w-0
         = phase Running
         succeed m-0
         = phase Completing
         = leaving w-1
         reap
         = phase Completed
         = counts 0 0 2 0",
    );
}

#[test]
fn containers_that_restart_for_ever_fail_the_task() {
    let workers = with(
        task("w", 3),
        &json!({"maxRetry": 4, "policies": [{"event": "TaskFailed", "action": "TerminateJob"}]}),
    );
    let spec = json!({"minAvailable": 3, "tasks": [workers]});
    life(
        &spec,
        "restarts w-0 3\n = phase Running\n restarts w-1 1\n = phase Terminating",
    );
}

#[test]
fn a_group_that_lost_its_place_is_an_event() {
    life(
        &on("Unknown", "RestartJob"),
        "group Unknown
         = phase Restarting
         reap
         = group other
         let-in
         run
         = phase Running
         = retry 1",
    );
}

/// Volcano #5885: a pod that is told to go often fails on the way out, which fired PodFailed first.
#[test]
fn an_evicted_pod_is_evicted_and_has_not_failed() {
    let spec = job(&json!([
        {"event": "PodEvicted", "action": "RestartJob"}, {"event": "PodFailed", "action": "TerminateJob"},
    ]));
    life(
        &spec,
        "evict w-1\n = phase Restarting\n fail w-1\n = phase Restarting\n reap\n let-in\n run\n = phase Running\n = retry 1",
    );
    life(&spec, "down\n evict w-1\n fail w-1\n up\n = phase Restarting");
}

/// Volcano #4814: the pods that a restart took away were evicted pods to the policy that had asked for the restart.
#[test]
fn a_restart_does_not_ask_for_the_next_one() {
    for action in ["RestartJob", "RestartTask", "RestartPod"] {
        life(
            &on("PodEvicted", action),
            "evict w-1
             = retry 1
             reap
             let-in
             run
             = phase Running
             = retry 1",
        );
    }
}

#[test]
fn a_pod_that_vanished_was_evicted() {
    life(
        &on("PodEvicted", "RestartJob"),
        "gone w-1\n = phase Restarting\n = retry 1",
    );
    life(
        &on("PodEvicted", "RestartPod"),
        "gone w-1\n = retry 1\n = pods w-0 w-1 w-2\n run\n = phase Running\n = retry 1",
    );
    // Nobody looked when it happened.
    life(&on("PodEvicted", "AbortJob"), "down\n gone w-1\n up\n = phase Aborting");
    life(
        &on("PodFailed", "AbortJob"),
        "gone w-1\n = pods w-0 w-1 w-2\n run\n = phase Running",
    );
}

/// Volcano #3967: what failed while the controller was down never fired its policy.
#[test]
fn failures_in_downtime_fire_their_policies() {
    life(
        &on("PodFailed", "RestartJob"),
        "down\n fail w-1\n up\n = phase Restarting\n = retry 1",
    );
    life(
        &on("PodFailed", "RestartPod"),
        "down\n fail w-1\n up\n = leaving w-1\n = retry 1",
    );
    let all = "down\n fail w-0\n fail w-1\n fail w-2\n up\n = phase Restarting\n = retry 1";
    life(&on("PodFailed", "RestartJob"), all);
}

#[test]
fn waiting_for_long_is_an_event_and_time_goes_on_over_restarts() {
    let spec = job(&json!([{"event": "PodPending", "action": "TerminateJob", "timeout": "1m"}]));
    check(
        &spec,
        "let-in\n pass 59\n = phase Pending\n pass 1\n = phase Terminating",
    );
    check(&spec, "let-in\n pass 30\n run\n pass 60\n = phase Running");
    // Volcano #4743: with RestartPod nothing came of it.
    let spec = job(&json!([{"event": "PodPending", "action": "RestartPod", "timeout": "1m"}]));
    check(
        &spec,
        "let-in\n run w-0 w-1\n pass 60\n = leaving w-2\n reap\n = pods w-0 w-1 w-2\n = retry 1\n run\n = phase Running",
    );
}

#[test]
fn an_action_can_wait() {
    let spec = job(&json!([{"event": "PodFailed", "action": "RestartJob", "timeout": "30s"}]));
    life(
        &spec,
        "fail w-1\n = phase Running\n pass 29\n = phase Running\n pass 1\n = phase Restarting",
    );
    let spec = job(&json!([{"event": "PodEvicted", "action": "AbortJob", "timeout": "30s"}]));
    life(
        &spec,
        "evict w-1\n pass 29\n = phase Running\n pass 1\n = phase Aborting",
    );
    life(
        &spec,
        "gone w-1\n pass 29\n = phase Pending\n pass 1\n = phase Aborting",
    );
    // What waits does so over a restart of the controllers, and does not when the successor runs.
    life(
        &spec,
        "gone w-1\n pass 20\n down\n up\n pass 9\n = phase Pending\n pass 1\n = phase Aborting",
    );
    life(
        &spec,
        "down\n gone w-1\n up\n = pods w-0 w-1 w-2\n pass 29\n = phase Pending\n pass 1\n = phase Aborting",
    );
    life(
        &spec,
        "gone w-1\n pass 20\n run\n down\n up\n pass 20\n = phase Running",
    );
    let spec = job(&json!([{"event": "PodEvicted", "action": "RestartPod", "timeout": "30s"}]));
    life(
        &spec,
        "gone w-1\n down\n up\n pass 30\n = retry 1\n reap\n = pods w-0 w-1 w-2\n pass 60\n = retry 1\n run\n = retry 1",
    );
}

#[test]
fn commands_are_carried_out_once() {
    let plain = job(&json!([]));
    life(
        &plain,
        "command AbortJob
         = phase Aborting
         = commands 0
         reap
         = phase Aborted
         = group none
         command ResumeJob
         = phase Pending
         = retry 0
         let-in
         run
         = phase Running
         = version 2
         command TerminateJob
         reap
         = phase Terminated
         command ResumeJob
         = phase Terminated
         = commands 0",
    );
    life(
        &plain,
        "command RestartJob\n = phase Restarting\n = retry 1\n reap\n let-in\n run\n = phase Running\n = retry 1",
    );
    life(&plain, "command CompleteJob\n reap\n = phase Completed");
    // Both at once: what ran before is still stopped, for its events would count for nothing.
    life(
        &plain,
        "down\n command AbortJob\n command ResumeJob\n up\n = phase Restarting\n = leaving w-0 w-1 w-2\n reap\n run\n = phase Running",
    );
    life(&plain, "command RestartPod\n = phase Running\n = commands 0");
    life(
        &plain,
        "command AbortJob\n command ResumeJob\n reap\n = phase Pending\n run\n = phase Running",
    );
}

#[test]
fn a_resumed_job_goes_on_where_it_was() {
    life(
        &on("PodFailed", "AbortJob"),
        "succeed w-0
         command AbortJob
         reap
         = phase Aborted
         = pods w-0
         command ResumeJob
         let-in
         = pods w-0 w-1 w-2
         run
         succeed
         = phase Completed
         = counts 0 0 3 0",
    );
}

#[test]
fn suspending_often_is_no_failure() {
    let again = "command AbortJob\n reap\n = phase Aborted\n command ResumeJob\n let-in\n run\n = phase Running\n";
    play(&job(&json!([])), &format!("{STARTED}{}", again.repeat(5)), None);
}

#[test]
fn a_command_to_another_incarnation_is_dropped() {
    let stage = check(&job(&json!([])), STARTED);
    let mut cluster = stage.cluster;
    let target = json!({"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "train", "uid": "other"});
    let command = |name: &str, target: &Value| {
        json!({
            "apiVersion": "bus.volcano.sh/v1alpha1", "kind": "Command", "metadata": {"name": name, "namespace": "n"},
            "action": "AbortJob", "target": target,
        })
    };
    cluster.put(command("late", &target));
    let nobody = with(target.clone(), &json!({"name": "nobody"}));
    cluster.put(command("lost", &nobody));
    cluster.settle();
    assert_eq!(
        cluster.names("Command"),
        ["late", "lost"],
        "the job may only be unknown yet"
    );
    cluster.pass(5);
    assert_eq!(cluster.names("Command"), [""; 0]);
    assert_eq!(
        cluster.get("Job", "n", "train").expect("the job")["status"]["state"]["phase"],
        "Running"
    );
    assert!(
        cluster
            .events
            .iter()
            .any(|event| event.contains("job nobody does not exist")),
        "{:?}",
        cluster.events
    );
}

#[test]
fn people_are_told_what_is_done_and_why() {
    let stage = check(&on("PodFailed", "TerminateJob"), &format!("{STARTED} fail w-1 7"));
    let told = "Job train: ExecuteAction: Start to execute action TerminateJob: PodFailed of pod train-w-1 with exit code 7: TerminateJob";
    assert!(
        stage.cluster.events.iter().any(|event| event == told),
        "{:?}",
        stage.cluster.events
    );
}

/// Volcano has no time for it at all; the containers tell only of their last restart, and a wait begins with the first.
#[test]
fn a_task_that_fails_for_long_is_answered_when_its_time_is_over() {
    let workers = with(
        task("w", 1),
        &json!({"maxRetry": 2, "policies": [{"event": "TaskFailed", "action": "TerminateJob", "timeout": "60s"}]}),
    );
    let spec = json!({"minAvailable": 1, "tasks": [workers]});
    life(
        &spec,
        "pass 1000
         crash w-0 1
         pass 100
         crash w-0 2
         = phase Running
         pass 40
         crash w-0 3
         = phase Running
         pass 19
         = phase Running
         pass 1
         = phase Terminating",
    );
}

/// What the job takes away itself is no eviction, also where it wants other pods in these places soon.
#[test]
fn scaling_down_and_up_again_within_the_grace_period_is_no_eviction() {
    let spec = on("PodEvicted", "RestartJob");
    let script = "scale w 1 1
         = leaving w-1 w-2
         scale w 3
         = phase Running
         = retry 0
         = pods w-0
         gone w-2
         = pods w-0 w-2
         = retry 0
         reap
         = pods w-0 w-1 w-2
         run
         = retry 0
         = surplus 0
         = group same
         = phase Running";
    life(&spec, script);
    // Those that took their places can be evicted as any other.
    life(&spec, &format!("{script}\n evict w-2\n = retry 1"));
    life(
        &spec,
        "scale w 1 1\n scale w 3\n gone w-2\n run w-2\n evict w-2\n = retry 1",
    );
    // Down and up, step by step, and while nobody looks.
    life(
        &spec,
        "scale w 2 1\n scale w 3\n scale w 1\n scale w 2\n reap\n run\n = pods w-0 w-1\n = retry 0\n = surplus 0",
    );
    life(
        &spec,
        "scale w 1 1\n down\n scale w 3\n reap\n up\n run\n = pods w-0 w-1 w-2\n = retry 0\n = surplus 0",
    );
}
