use std::sync::Mutex;

use basalt_controllers::Change;
use basalt_engine::plan::Purpose;
use kube::Client;
use serde_json::{Value, json};

use super::narrate::pod_target;
use super::*;
use crate::scripted_server::{self, Answer};

/// A loop whose server knows nothing, and that has not decided anything yet.
async fn at_work() -> (Loop, Frame<News>) {
    at_work_with(scripted_server::client(|_, _| Answer::Refusal(404))).await
}

async fn at_work_with(client: Client) -> (Loop, Frame<News>) {
    let options = SchedulerOptions {
        built_in: scene::conf,
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
    let known = at_work.engine.state().model.jobs.find("a/g");
    assert_eq!(known.is_some(), expected, "{asked:?}");
}

#[tokio::test]
async fn a_group_that_asks_for_another_scheduler_is_left_alone() {
    check_scheduler(None, true).await;
    check_scheduler(Some("volcano"), true).await;
    check_scheduler(Some("basalt-null"), false).await;
}

/// An eviction is answered so: is the pod believed to stay, and left in peace?
async fn check_eviction(fate: Fate, expected: bool) {
    let (mut at_work, _frame) = at_work().await;
    at_work.take_in(running_pod());
    let eviction = Box::new(Eviction {
        pod: "a/p".into(),
        uid: "p".into(),
        node: "n".into(),
        purpose: Purpose::Shuffle,
    });
    assert!(at_work.evictor.begin(&eviction).is_some());
    at_work.take_in(News::Evicted(eviction.clone(), fate.clone()));
    assert!(at_work.evictor.begin(&eviction).is_some(), "{fate:?}: it is answered");
    let model = &at_work.engine.state().model;
    let task = model.tasks.find("a/p").expect("the pod is known");
    assert_eq!(model.tasks[task].spared, expected, "{fate:?}");
}

#[tokio::test]
async fn only_an_eviction_that_surely_failed_is_taken_back() {
    check_eviction(Fate::Going, false).await;
    check_eviction(Fate::Unknown("no answer".to_owned()), false).await;
    check_eviction(Fate::Blocked("a budget".to_owned()), true).await;
    check_eviction(Fate::Failed("no".to_owned()), true).await;
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

/// A cluster with room for one pod that waits.
fn cluster() -> Vec<News> {
    let ready = json!([{"type": "Ready", "status": "True"}]);
    vec![
        News::Queue(read(
            json!({"metadata": {"name": "default", "uid": "q"}, "spec": {"weight": 1}}),
        )),
        News::Node(read(json!({
            "metadata": {"name": "n", "uid": "n"},
            "status": {"allocatable": {"cpu": "4", "pods": "10"}, "conditions": ready},
        }))),
        News::PodGroup(read(json!({
            "metadata": {"name": "g", "namespace": "a", "uid": "g"},
            "spec": {"minMember": 1, "queue": "default"}, "status": {"phase": "Inqueue"},
        }))),
        News::Pod(read(json!({
            "metadata": {"name": "p", "namespace": "a", "uid": "p", "annotations": {"scheduling.k8s.io/group-name": "g"}},
            "spec": {"schedulerName": "volcano", "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]},
        }))),
    ]
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
    let (mut at_work, mut frame) = at_work_with(client).await;
    for news in cluster() {
        at_work.take_in(news);
    }
    let change = Change::Strategic {
        target: pod_target("a/p"),
        subresource: Some("status".to_owned()),
        uid: "p".to_owned(),
        patch: json!({"status": {"conditions": [{"type": "PodScheduled", "status": "False"}]}}),
    };
    at_work.outlets.pods.put(pod_target("a/p"), change);
    if has_left {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    at_work.cycle(&mut frame);
    tokio::time::sleep(Duration::from_mins(1)).await;
    let asked = asked.lock().expect("no panic");
    assert_eq!(*asked, expected, "{has_left}");
}

#[tokio::test(start_paused = true)]
async fn no_condition_of_a_waiting_pod_arrives_after_its_bind() {
    check_order(false, &[("bind", 0)]).await;
    check_order(true, &[("condition", 0), ("bind", 10)]).await;
}
