//! Lists: pages, selectors, revisions, forms.

use axum::body::Body;
use basalt_apiserver::http::Identity;
use http::Request;
use serde_json::{Value, json};

use crate::world::{Answer, World, answer, config_map, pod};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

async fn accept(world: &World, path: &str, accept: &str) -> Answer {
    let mut request = Request::builder()
        .uri(path)
        .header("accept", accept)
        .body(Body::empty())
        .expect("a request");
    request.extensions_mut().insert(Identity::admin("tester"));
    answer(world.raw(request).await).await
}

fn names(list: &Value) -> Vec<String> {
    let items = list["items"].as_array().into_iter().flatten();
    items
        .map(|item| item["metadata"]["name"].as_str().unwrap_or_default().to_owned())
        .collect()
}

#[tokio::test]
async fn pages_are_of_one_moment() {
    let world = World::new().await;
    for n in 0..5 {
        world.made(MAPS, config_map(&format!("m{n}"))).await;
    }
    let first = world.get(&format!("{MAPS}?limit=2")).await.body;
    assert_eq!(names(&first), ["m0", "m1"]);
    assert_eq!(first["metadata"]["remainingItemCount"], 3);
    world.delete(&format!("{MAPS}/m3"), json!({})).await;
    world.made(MAPS, config_map("m22")).await;
    let token = first["metadata"]["continue"].as_str().expect("a token").to_owned();
    let second = world.get(&format!("{MAPS}?limit=2&continue={token}")).await.body;
    assert_eq!(
        names(&second),
        ["m2", "m3"],
        "the deleted one is still in this list, the new one is not"
    );
    assert_eq!(
        second["metadata"]["resourceVersion"],
        first["metadata"]["resourceVersion"]
    );
    let token = second["metadata"]["continue"].as_str().expect("a token").to_owned();
    let third = world.get(&format!("{MAPS}?limit=2&continue={token}")).await.body;
    assert_eq!(names(&third), ["m4"]);
    assert!(third["metadata"].get("continue").is_none());

    world.server.store().compact(world.server.store().revision());
    // {"v":"meta.k8s.io/v1","rv":2,"start":"default/m2"}: a list of which nothing is kept any more.
    let old = "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6Miwic3RhcnQiOiJkZWZhdWx0L20yIn0";
    let expired = world.get(&format!("{MAPS}?limit=2&continue={old}")).await;
    assert_eq!((expired.code, expired.reason()), (410, "Expired"));
    let token = expired.body["metadata"]["continue"]
        .as_str()
        .expect("a way on")
        .to_owned();
    let rest = world.get(&format!("{MAPS}?continue={token}")).await.body;
    assert_eq!(names(&rest), ["m22", "m4"]);
}

#[tokio::test]
async fn revisions_select_the_moment() {
    let world = World::new().await;
    let one = world.made(MAPS, config_map("a")).await;
    let then = one["metadata"]["resourceVersion"]
        .as_str()
        .expect("a revision")
        .to_owned();
    world.made(MAPS, config_map("b")).await;
    let cases = [
        (String::new(), 200, 2),
        ("?resourceVersion=0".to_owned(), 200, 2),
        (format!("?resourceVersion={then}"), 200, 2),
        (
            format!("?resourceVersion={then}&resourceVersionMatch=NotOlderThan"),
            200,
            2,
        ),
        (format!("?resourceVersion={then}&resourceVersionMatch=Exact"), 200, 1),
    ];
    for (query, code, count) in cases {
        let got = world.get(&format!("{MAPS}{query}")).await;
        assert_eq!((got.code, names(&got.body).len()), (code, count), "{query}");
    }
    world.server.store().compact(world.server.store().revision());
    let old = world
        .get(&format!("{MAPS}?resourceVersion={then}&resourceVersionMatch=Exact"))
        .await;
    assert_eq!((old.code, old.reason()), (410, "Expired"));
}

#[tokio::test]
async fn selectors_select() {
    let world = World::new().await;
    for (name, labels, node) in [
        ("a", json!({"app": "x"}), "n1"),
        ("b", json!({"app": "y"}), "n2"),
        ("c", json!({}), "n1"),
    ] {
        let mut wanted = pod(name);
        wanted["metadata"]["labels"] = labels;
        wanted["spec"]["nodeName"] = node.into();
        world.made("/api/v1/namespaces/default/pods", wanted).await;
    }
    let cases: [(&str, &[&str]); 10] = [
        ("labelSelector=app%3Dx", &["a"]),
        ("labelSelector=app+in+(x,y)", &["a", "b"]),
        ("labelSelector=!app", &["c"]),
        ("labelSelector=app!%3Dx", &["b", "c"]),
        ("fieldSelector=spec.nodeName%3Dn1", &["a", "c"]),
        (
            "fieldSelector=spec.nodeName%3Dn1,status.phase!%3DFailed&labelSelector=app",
            &["a"],
        ),
        ("fieldSelector=metadata.name%3Db", &["b"]),
        ("fieldSelector=metadata.name%3Db,spec.nodeName%3Dn1", &[]),
        ("fieldSelector=metadata.name%3Dnone", &[]),
        ("fieldSelector=status.phase%3DRunning", &[]),
    ];
    for (query, expected) in cases {
        for scope in ["/api/v1/pods", "/api/v1/namespaces/default/pods"] {
            let got = world.get(&format!("{scope}?{query}")).await;
            assert_eq!(names(&got.body), expected, "{query}: {}", got.body);
        }
    }
    assert_eq!(
        names(&world.get("/api/v1/namespaces/kube-system/pods").await.body),
        Vec::<String>::new()
    );
}

#[tokio::test]
async fn tables_and_metadata() {
    let world = World::new().await;
    world.made("/api/v1/namespaces/default/pods", pod("p")).await;
    let table = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
    for path in ["/api/v1/pods", "/api/v1/namespaces/default/pods/p"] {
        let got = accept(&world, path, table).await.body;
        assert_eq!(
            (&got["kind"], &got["columnDefinitions"][0]["name"]),
            (&json!("Table"), &json!("Name")),
            "{path}"
        );
        assert_eq!(
            (&got["rows"][0]["cells"][0], &got["rows"][0]["cells"][2]),
            (&json!("p"), &json!("Pending"))
        );
        assert_eq!(got["rows"][0]["object"]["kind"], "PartialObjectMetadata");
        assert!(got["metadata"]["resourceVersion"].is_string());
    }
    let partial = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";
    let got = accept(&world, "/api/v1/pods", partial).await.body;
    assert_eq!(
        (&got["kind"], &got["items"][0]["metadata"]["name"]),
        (&json!("PartialObjectMetadataList"), &json!("p"))
    );
    assert!(got["items"][0].get("spec").is_none());
}

#[tokio::test]
async fn discovery_in_three_forms() {
    let world = World::new().await;
    let aggregated =
        |version: &str| format!("application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList");
    for version in ["v2", "v2beta1"] {
        let core = accept(&world, "/api", &aggregated(version)).await.body;
        assert_eq!(core["apiVersion"], format!("apidiscovery.k8s.io/{version}"));
        let resources = core["items"][0]["versions"][0]["resources"]
            .as_array()
            .expect("resources")
            .clone();
        let pods = resources
            .iter()
            .find(|found| found["resource"] == "pods")
            .expect("pods");
        assert_eq!(
            (&pods["scope"], &pods["shortNames"]),
            (&json!("Namespaced"), &json!(["po"]))
        );
        let subs = pods["subresources"].as_array().into_iter().flatten();
        assert!(
            subs.clone()
                .any(|sub| sub["subresource"] == "eviction" && sub["responseKind"]["group"] == "policy")
        );
        let groups = accept(&world, "/apis", &aggregated(version)).await.body;
        let names: Vec<&Value> = groups["items"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|group| &group["metadata"]["name"])
            .collect();
        assert!(
            names.contains(&&json!("basalt.sh")) && !names.contains(&&json!("apps")),
            "{names:?}"
        );
    }
    assert_eq!(world.get("/api").await.body["versions"], json!(["v1"]));
    assert_eq!(world.get("/apis").await.body["kind"], "APIGroupList");
    assert_eq!(
        world.get("/apis/policy").await.body["preferredVersion"]["groupVersion"],
        "policy/v1"
    );
    assert_eq!(world.get("/api/v1").await.body["kind"], "APIResourceList");
    let index = world.get("/openapi/v3").await.body;
    let url = index["paths"]["api/v1"]["serverRelativeURL"]
        .as_str()
        .expect("a document")
        .to_owned();
    let document = world.get(&url).await.body;
    let patch = &document["paths"]["/api/v1/namespaces/{namespace}/pods/{name}"]["patch"];
    assert!(
        patch["parameters"]
            .as_array()
            .into_iter()
            .flatten()
            .any(|found| found["name"] == "fieldValidation")
    );
}
