//! Kinds that are defined at run time.

use basalt_apiserver::store::{Backend, Options};
use futures::FutureExt;
use serde_json::{Value, json};

use crate::world::{World, widget, widgets};

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";

#[tokio::test]
async fn a_definition_is_served_at_once_and_goes_with_its_objects() {
    let world = World::new().await;
    assert_eq!(world.get(WIDGETS).await.code, 404);
    let crd = world.made(CRDS, widgets()).await;
    let established = crd["status"]["conditions"].as_array().into_iter().flatten();
    assert!(
        established
            .clone()
            .any(|found| found["type"] == "Established" && found["status"] == "True"),
        "{crd}"
    );
    assert_eq!(crd["status"]["storedVersions"], json!(["v1"]));
    assert_eq!(crd["spec"]["names"]["listKind"], "WidgetList");

    let made = world.made(WIDGETS, widget("a")).await;
    assert_eq!(made["spec"]["size"], 3, "defaults of the schema");
    assert_eq!(made["metadata"]["generation"], 1);
    let listed = world.get("/apis/example.com/v1").await.body;
    assert!(
        listed["resources"]
            .as_array()
            .into_iter()
            .flatten()
            .any(|found| found["name"] == "widgets/status")
    );

    let mut held = widget("held");
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    world.made(WIDGETS, held).await;
    world.delete(&format!("{CRDS}/widgets.example.com"), json!({})).await;
    let late = world.post(WIDGETS, widget("late")).await;
    assert_eq!(
        (late.code, late.reason()),
        (405, "MethodNotAllowed"),
        "nothing new while it goes"
    );
    world
        .merge(&format!("{WIDGETS}/held"), json!({"metadata": {"finalizers": null}}))
        .await;
    world.gone(&format!("{CRDS}/widgets.example.com")).await;
    assert_eq!(world.get(WIDGETS).await.code, 404);
    assert!(
        world
            .server
            .store()
            .list("widgets.example.com", None)
            .objects
            .is_empty()
    );
}

#[tokio::test]
async fn other_versions_show_the_same_object() {
    let world = World::new().await;
    world.made(CRDS, widgets()).await;
    let made = world.made(WIDGETS, widget("a")).await;
    let beta = "/apis/example.com/v1beta1/namespaces/default/widgets";
    let mut seen = world.get(&format!("{beta}/a")).await.body;
    assert_eq!(seen["apiVersion"], "example.com/v1beta1");
    seen["apiVersion"] = "example.com/v1".into();
    assert_eq!(seen, made);
    let mut other = widget("b");
    other["apiVersion"] = "example.com/v1beta1".into();
    assert_eq!(world.made(beta, other).await["apiVersion"], "example.com/v1beta1");
    let list = world.get(WIDGETS).await.body;
    assert_eq!(list["items"][1]["apiVersion"], "example.com/v1");
    assert_eq!(list["kind"], "WidgetList");
}

#[tokio::test]
async fn schemas_check_prune_and_select() {
    let world = World::new().await;
    world.made(CRDS, widgets()).await;
    let mut bad = widget("bad");
    bad["spec"]["size"] = (-1).into();
    let refused = world.post(WIDGETS, bad.clone()).await;
    assert_eq!((refused.code, refused.reason()), (422, "Invalid"));
    assert!(
        refused
            .message()
            .starts_with("Widget.example.com \"bad\" is invalid: spec.size"),
        "{}",
        refused.message()
    );
    assert_eq!(refused.body["details"]["causes"][0]["field"], "spec.size");

    bad["spec"] = json!({"size": 1, "odd": 2});
    let strict = world
        .post(&format!("{WIDGETS}?fieldValidation=Strict"), bad.clone())
        .await;
    assert_eq!((strict.code, strict.reason()), (400, "BadRequest"));
    assert!(
        strict.message().contains("unknown field \"spec.odd\""),
        "{}",
        strict.message()
    );
    let warned = world.post(WIDGETS, bad).await;
    assert_eq!((warned.code, warned.warnings.len()), (201, 1));
    assert!(warned.body["spec"].get("odd").is_none());

    world.made(WIDGETS, widget("red")).await;
    let found = world
        .get(&format!("{WIDGETS}?fieldSelector=spec.color%3Dred"))
        .await
        .body;
    assert_eq!(found["items"].as_array().map(Vec::len), Some(1));
    let refused = world.get(&format!("{WIDGETS}?fieldSelector=spec.size%3D1")).await;
    assert_eq!(refused.code, 400);
}

#[tokio::test]
async fn status_scale_and_generation() {
    let world = World::new().await;
    world.made(CRDS, widgets()).await;
    let mut wanted = widget("a");
    wanted["status"] = json!({"replicas": 9});
    let made = world.made(WIDGETS, wanted).await;
    assert!(made.get("status").is_none());
    let path = format!("{WIDGETS}/a");
    let got = world
        .merge(
            &format!("{path}/status"),
            json!({"status": {"replicas": 2}, "spec": {"size": 9}}),
        )
        .await
        .body;
    assert_eq!(
        (&got["status"]["replicas"], &got["spec"]["size"]),
        (&json!(2), &json!(3))
    );
    assert_eq!(got["metadata"]["generation"], 1);
    let scaled = world
        .merge(&format!("{path}/scale"), json!({"spec": {"replicas": 5}}))
        .await
        .body;
    assert_eq!(
        (
            &scaled["kind"],
            &scaled["spec"]["replicas"],
            &scaled["status"]["replicas"]
        ),
        (&json!("Scale"), &json!(5), &json!(2))
    );
    let got = world.get(&path).await.body;
    assert_eq!(
        (&got["spec"]["replicas"], &got["metadata"]["generation"]),
        (&json!(5), &json!(2))
    );
    let labelled = world
        .merge(&path, json!({"metadata": {"labels": {"a": "b"}}}))
        .await
        .body;
    assert_eq!(labelled["metadata"]["generation"], 2);
    let blind = world.put(&path, widget("a")).await;
    assert_eq!((blind.code, blind.reason()), (422, "Invalid"));
    let strategic = world
        .send("PATCH", &path, "application/strategic-merge-patch+json", "{}")
        .await;
    assert_eq!((strategic.code, strategic.reason()), (415, "UnsupportedMediaType"));
}

#[tokio::test]
async fn bad_definitions_are_refused() {
    let world = World::new().await;
    let mut misnamed = widgets();
    misnamed["metadata"]["name"] = "other.example.com".into();
    let refused = world.post(CRDS, misnamed).await;
    assert_eq!((refused.code, refused.reason()), (422, "Invalid"));
    world.made(CRDS, widgets()).await;
    let mut rival = widgets();
    rival["metadata"]["name"] = "gadgets.example.com".into();
    rival["spec"]["names"] = json!({"plural": "gadgets", "kind": "Widget"});
    let made = world.made(CRDS, rival).await;
    let conditions = made["status"]["conditions"].as_array().into_iter().flatten();
    assert!(
        conditions
            .clone()
            .any(|found| found["type"] == "NamesAccepted" && found["status"] == "False"),
        "{made}"
    );
    assert_eq!(world.get("/apis/example.com/v1/gadgets").await.code, 404);
}

#[tokio::test]
async fn our_own_kinds_pass_admission() {
    let world = World::new().await;
    for crd in basalt_api::crd::all() {
        world.made(CRDS, serde_json::to_value(&crd).expect("JSON")).await;
    }
    let queues = "/apis/scheduling.volcano.sh/v1beta1/queues";
    let queue = |name: &str| json!({"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": name}, "spec": {"weight": 1}});
    for name in ["root", "default"] {
        world.made(queues, queue(name)).await;
    }
    let made = world.made(queues, queue("q")).await;
    assert_eq!(
        (&made["spec"]["parent"], &made["spec"]["state"]),
        (&json!("root"), &json!("Open")),
        "filled in"
    );
    let jobs = "/apis/batch.volcano.sh/v1alpha1/namespaces/default/jobs";
    let job = json!({"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": "j"},
        "spec": {"queue": "none", "minAvailable": 1, "tasks": [{"name": "t", "replicas": 1,
            "template": {"spec": {"containers": [{"name": "c", "image": "busybox"}]}}}]}});
    let refused = world.post(jobs, job.clone()).await;
    assert!(matches!(refused.code, 403 | 422), "{}", refused.body);
    // kubectl shows only causes of an invalid object, so they tell everything.
    let cause = &refused.body["details"]["causes"][0];
    assert_eq!(
        (&cause["reason"], &cause["field"], &cause["message"]),
        (
            &json!("AdmissionRule"),
            &json!("delivery/queue-exists"),
            &refused.body["message"]
        )
    );
    let mut job = job;
    job["spec"]["queue"] = "q".into();
    world.made(jobs, job).await;
    let closed = world
        .merge(&format!("{queues}/q"), json!({"spec": {"state": "Closed"}}))
        .await;
    assert_eq!(closed.code, 200, "{}", closed.body);
    let protected = world.send("DELETE", &format!("{queues}/default"), "", "").await;
    assert!(matches!(protected.code, 403 | 422), "{}", protected.body);
}

#[tokio::test]
async fn a_client_that_goes_away_leaves_nothing_half_done() {
    let folder = tempfile::tempdir().expect("a folder");
    let world = World::with(Options::new(Backend::Disk(folder.path().join("store")))).await;
    {
        let creation = world.post(CRDS, widgets());
        // One step: the write is on its way to disk, and nobody waits for it any more.
        assert!(creation.now_or_never().is_none());
    }
    world.until(WIDGETS, |answer| answer.code == 200).await;
    world.made(WIDGETS, widget("a")).await;
}

#[tokio::test]
async fn whole_floats_are_stored_as_integers() {
    let world = World::new().await;
    world.made(CRDS, widgets()).await;
    let sized = |name: &str, size: &str| {
        let object = widget(name)
            .to_string()
            .replace("\"red\"", &format!("\"red\",\"size\":{size}"));
        serde_json::from_str::<Value>(&object).expect("JSON")
    };
    for (name, size, stored) in [
        ("whole", "2.0", Some(json!(2))),
        ("power", "1e3", Some(json!(1000))),
        ("largest", "9223372036854775807", Some(json!(i64::MAX))),
        ("larger", "9223372036854775808", None),
        ("inexact", "1e17", None),
        ("half", "2.5", None),
    ] {
        let made = world.post(WIDGETS, sized(name, size)).await;
        match stored {
            Some(stored) => assert_eq!(made.body["spec"]["size"].to_string(), stored.to_string(), "{size}"),
            None => assert_eq!(made.code, 422, "{size}: {}", made.body),
        }
    }
    let patch = json!({"spec": {"size": 4.0}});
    let patched = world.merge(&format!("{WIDGETS}/whole"), patch).await.body;
    assert_eq!(patched["spec"]["size"].to_string(), "4");
}
