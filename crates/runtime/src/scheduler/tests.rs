use std::sync::Mutex;

use basalt_api::{Change, ObjectRef, resource_kind};
use basalt_engine::plan::Bind;
use basalt_scheduler::{StatusWrite, StatusWriter};
use kube::Client;
use serde_json::{Value, json};

use super::*;
use crate::scripted_server::{self, Answer};

/// A configuration that only places pods.
fn conf() -> Conf {
    Conf::parse("actions: allocate\ntiers: [{plugins: [{name: gang}, {name: predicates}]}]").expect("a configuration")
}

/// A loop whose server knows nothing, and that has not decided anything yet.
async fn at_work() -> (Loop, Frame<News>) {
    at_work_with(scripted_server::client(|_, _| Answer::Refusal(404))).await
}

async fn at_work_with(client: Client) -> (Loop, Frame<News>) {
    let options = SchedulerOptions {
        built_in: || Ok(conf()),
        audit_every: Duration::from_millis(1),
        ..SchedulerOptions::default()
    };
    let scheduler = Scheduler::new(client, options).expect("a scheduler");
    scheduler.begin().await.expect("a loop")
}

fn read<K: serde::de::DeserializeOwned>(value: Value) -> FeedEvent<K> {
    FeedEvent::Upsert(Box::new(serde_json::from_value(value).expect("an object")))
}

fn running_pod() -> News {
    News::Pod(read(json!({
        "metadata": {"name": "p", "namespace": "a", "uid": "p", "annotations": {"scheduling.k8s.io/group-name": "g"}},
        "spec": {"nodeName": "n", "schedulerName": "volcano", "containers": [{"name": "c"}]},
        "status": {"phase": "Running"},
    })))
}

/// A PodGroup asks for this scheduler; is it ours?
async fn check_scheduler(asked: Option<&str>, expected: bool) {
    let (mut at_work, _frame) = at_work().await;
    let mut group = json!({"metadata": {"name": "g", "namespace": "a", "uid": "g"}, "spec": {"minMember": 1}});
    if let Some(name) = asked {
        group["metadata"]["annotations"] = json!({"basalt.sh/scheduler-name": name});
    }
    at_work.take_in(News::PodGroup(read(group)));
    let known = at_work.core.engine().group("a/g");
    assert_eq!(known.is_some(), expected, "{asked:?}");
}

#[tokio::test]
async fn a_group_that_asks_for_another_scheduler_is_left_alone() {
    check_scheduler(None, true).await;
    check_scheduler(Some("volcano"), true).await;
    check_scheduler(Some("basalt-null"), false).await;
}

/// The auditor's next look, when its time has come.
async fn next_look(at_work: &mut Loop) -> Option<impl FnOnce() -> Look + Send + use<>> {
    tokio::time::sleep(Duration::from_millis(2)).await;
    at_work.mirror.begin()
}

#[tokio::test]
async fn an_auditor_that_stumbles_begins_anew() {
    let (mut at_work, _frame) = at_work().await;
    at_work.take_in(running_pod());
    assert!(next_look(&mut at_work).await.is_some(), "the look that fails");
    at_work.take_in(running_pod());
    assert!(next_look(&mut at_work).await.is_none(), "it is still under way");
    let news = work::looked(|| panic!("a planted bug")).await;
    assert!(matches!(&news, News::AuditFailed(why) if why.contains("planted")));
    at_work.take_in(news);
    assert_eq!(at_work.metrics.audit_failures.get(), 1);
    let look = next_look(&mut at_work).await.expect("another look");
    let news = work::looked(look).await;
    assert!(matches!(&news, News::Audited(_)));
    at_work.take_in(news);
    assert_eq!(at_work.metrics.audits.get(), 1);
}

/// A group of one pod that is to be bound.
fn transaction() -> Box<Transaction> {
    let bind = Bind {
        pod: "a/p".into(),
        uid: "p".into(),
        node: "n".into(),
    };
    Box::new(Transaction {
        pod_group: "a/g".into(),
        uid: "g".into(),
        spec_hash: 0,
        min_member: 1,
        binds: vec![bind],
        evictions: Vec::new(),
        pipelined: Vec::new(),
        phase: None,
        tally: None,
    })
}

/// A condition of the pod waits to be written, or has left and is never answered; then the pod is bound. After how many
/// seconds is each of them asked of the server?
async fn check_order(has_left: bool, expected: &[(&str, u64)]) {
    let begun = tokio::time::Instant::now();
    let asked: Arc<Mutex<Vec<(&str, u64)>>> = Arc::default();
    let seen = Arc::clone(&asked);
    let client = scripted_server::client(move |_, path| {
        let what = match path {
            "/api/v1/namespaces/a/pods/p/status" => "condition",
            "/api/v1/namespaces/a/pods/p/binding" => "bind",
            _ => return Answer::Refusal(404),
        };
        seen.lock().expect("no panic").push((what, begun.elapsed().as_secs()));
        Answer::Silence
    });
    let (at_work, mut frame) = at_work_with(client).await;
    let pod = ObjectRef::new(resource_kind::POD, "a", "p");
    let change = Change::Strategic {
        target: pod.clone(),
        subresource: Some("status".to_owned()),
        uid: "p".to_owned(),
        patch: json!({"status": {"conditions": [{"type": "PodScheduled", "status": "False"}]}}),
    };
    at_work.writers.write(StatusWrite {
        writer: StatusWriter::PodConditions,
        target: pod.clone(),
        sequence: 1,
        change,
        delay: Duration::ZERO,
    });
    if has_left {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    at_work.bind(transaction(), vec![pod], &mut frame);
    tokio::time::sleep(Duration::from_mins(1)).await;
    let asked = asked.lock().expect("no panic");
    assert_eq!(*asked, expected, "{has_left}");
}

#[tokio::test(start_paused = true)]
async fn no_condition_of_a_waiting_pod_arrives_after_its_bind() {
    check_order(false, &[("bind", 0)]).await;
    check_order(true, &[("condition", 0), ("bind", 10)]).await;
}
