//! Bad input gets the code and reason that Kubernetes gives.

use axum::body::Body;
use http::Request;
use serde_json::{Value, json};

use crate::world::{TOKEN, World, answer, config_map, pod};

const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const PODS: &str = "/api/v1/namespaces/default/pods";

struct Case {
    what: &'static str,
    method: &'static str,
    path: String,
    content_type: &'static str,
    body: String,
    code: u16,
    reason: &'static str,
    /// A part of the message.
    says: &'static str,
}

fn case(
    what: &'static str,
    (method, path, content_type): (&'static str, &str, &'static str),
    body: impl Into<String>,
    (code, reason, says): (u16, &'static str, &'static str),
) -> Case {
    Case {
        what,
        method,
        path: path.to_owned(),
        content_type,
        body: body.into(),
        code,
        reason,
        says,
    }
}

fn with(mut object: Value, pointer: &str, value: Value) -> String {
    let (parent, key) = pointer.rsplit_once('/').expect("a pointer");
    object.pointer_mut(parent).expect("the parent")[key] = value;
    object.to_string()
}

fn get(path: &str) -> (&'static str, &str, &'static str) {
    ("GET", path, "")
}

fn bodies() -> Vec<Case> {
    let create = ("POST", MAPS, JSON);
    let strict = format!("{PODS}?fieldValidation=Strict");
    let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
    vec![
        case("wrong JSON", create, "{\"a\":", (400, "BadRequest", "json parse error")),
        case("not an object", create, "[]", (400, "BadRequest", "not a JSON object")),
        case("nothing", create, "", (400, "BadRequest", "")),
        case(
            "4 MiB",
            create,
            "x".repeat(4 << 20),
            (413, "RequestEntityTooLarge", "limit is 3145728"),
        ),
        case("depth 10,000", create, deep, (400, "BadRequest", "max depth")),
        case(
            "deep YAML",
            ("POST", MAPS, "application/yaml"),
            "[".repeat(100_000),
            (400, "BadRequest", "yaml"),
        ),
        case(
            "unknown media type",
            ("POST", MAPS, "text/plain"),
            "{}",
            (415, "UnsupportedMediaType", "application/json"),
        ),
        case(
            "unknown field under Strict",
            ("POST", &strict, JSON),
            with(pod("x"), "/spec/nonsense", json!(1)),
            (
                400,
                "BadRequest",
                "strict decoding error: unknown field \"spec.nonsense\"",
            ),
        ),
        case(
            "duplicate field under Strict",
            ("POST", &strict, JSON),
            r#"{"metadata":{"name":"x","name":"y"},"spec":{"containers":[{"name":"m","image":"i"}]}}"#,
            (400, "BadRequest", "duplicate field \"metadata.name\""),
        ),
        case(
            "wrong type",
            ("POST", PODS, JSON),
            with(pod("x"), "/spec/containers", json!("none")),
            (400, "BadRequest", "cannot unmarshal string"),
        ),
    ]
}

fn objects() -> Vec<Case> {
    let create = ("POST", MAPS, JSON);
    vec![
        case(
            "wrong apiVersion",
            create,
            with(config_map("x"), "/apiVersion", json!("v2")),
            (
                400,
                "BadRequest",
                "the API version in the data (v2) does not match the expected API version (v1)",
            ),
        ),
        case(
            "wrong kind",
            create,
            with(config_map("x"), "/kind", json!("Pod")),
            (400, "BadRequest", "ConfigMap"),
        ),
        case(
            "no name",
            create,
            r#"{"data":{}}"#,
            (422, "Invalid", "name or generateName is required"),
        ),
        case(
            "name of 254 characters",
            create,
            config_map(&"a".repeat(254)).to_string(),
            (422, "Invalid", "must be no more than 253 characters"),
        ),
        case(
            "upper case name",
            create,
            config_map("Nope").to_string(),
            (422, "Invalid", "RFC 1123 subdomain"),
        ),
        case(
            "bad label",
            create,
            with(config_map("x"), "/metadata/labels", json!({"a b": "c"})),
            (422, "Invalid", "metadata.labels"),
        ),
        case(
            "another namespace",
            create,
            with(config_map("x"), "/metadata/namespace", json!("other")),
            (400, "BadRequest", "does not match the namespace sent on the request"),
        ),
        case(
            "pod without containers",
            ("POST", PODS, JSON),
            r#"{"metadata":{"name":"x"},"spec":{}}"#,
            (422, "Invalid", "spec.containers"),
        ),
        case(
            "unknown priority class",
            ("POST", PODS, JSON),
            with(pod("x"), "/spec/priorityClassName", json!("nope")),
            (403, "Forbidden", "no PriorityClass with name nope was found"),
        ),
    ]
}

fn paths() -> Vec<Case> {
    let seen = format!("{MAPS}/seen");
    vec![
        case("unknown path", get("/nothing"), "", (404, "NotFound", "could not find")),
        case(
            "unknown group",
            get("/apis/apps/v1/deployments"),
            "",
            (404, "NotFound", "could not find"),
        ),
        case(
            "unknown resource",
            get("/api/v1/namespaces/default/widgets"),
            "",
            (404, "NotFound", "could not find"),
        ),
        case(
            "missing object",
            get("/api/v1/namespaces/default/pods/no"),
            "",
            (404, "NotFound", "pods \"no\" not found"),
        ),
        case(
            "missing object of a group",
            get("/apis/scheduling.k8s.io/v1/priorityclasses/no"),
            "",
            (404, "NotFound", "priorityclasses.scheduling.k8s.io \"no\" not found"),
        ),
        case("openapi v2", get("/openapi/v2"), "", (404, "NotFound", "")),
        case(
            "verb that is not there",
            ("POST", &seen, JSON),
            "{}",
            (405, "MethodNotAllowed", "does not allow this method"),
        ),
        case(
            "put of a collection",
            ("PUT", MAPS, JSON),
            "{}",
            (405, "MethodNotAllowed", ""),
        ),
        case(
            "taken name",
            ("POST", MAPS, JSON),
            config_map("seen").to_string(),
            (409, "AlreadyExists", "configmaps \"seen\" already exists"),
        ),
        case(
            "missing namespace",
            ("POST", "/api/v1/namespaces/none/configmaps", JSON),
            config_map("x").to_string(),
            (404, "NotFound", "namespaces \"none\" not found"),
        ),
    ]
}

fn changes() -> Vec<Case> {
    let seen = format!("{MAPS}/seen");
    vec![
        case(
            "stale resourceVersion",
            ("PUT", &seen, JSON),
            with(config_map("seen"), "/metadata/resourceVersion", json!("2")),
            (
                409,
                "Conflict",
                "the object has been modified; please apply your changes to the latest version",
            ),
        ),
        case(
            "another uid",
            ("PUT", &seen, JSON),
            with(config_map("seen"), "/metadata/uid", json!("other")),
            (409, "Conflict", "Precondition failed: UID in precondition: other"),
        ),
        case(
            "another name",
            ("PUT", &seen, JSON),
            config_map("x").to_string(),
            (400, "BadRequest", "does not match the name on the URL"),
        ),
        case(
            "patch of a missing object",
            ("PATCH", &format!("{MAPS}/none"), MERGE),
            "{}",
            (404, "NotFound", "configmaps \"none\""),
        ),
        case(
            "patch that is no JSON",
            ("PATCH", &seen, MERGE),
            "{",
            (400, "BadRequest", "error decoding patch"),
        ),
        case(
            "failed test of a JSON patch",
            ("PATCH", &seen, "application/json-patch+json"),
            r#"[{"op":"test","path":"/data/a","value":"no"}]"#,
            (422, "Invalid", ""),
        ),
        case(
            "apply patch",
            ("PATCH", &seen, "application/apply-patch+yaml"),
            "{}",
            (415, "UnsupportedMediaType", "server-side apply"),
        ),
        case(
            "delete with a stale uid",
            ("DELETE", &seen, JSON),
            r#"{"preconditions":{"uid":"x"}}"#,
            (409, "Conflict", "Precondition failed"),
        ),
        case(
            "delete of nothing",
            ("DELETE", &format!("{MAPS}/none"), ""),
            "",
            (404, "NotFound", ""),
        ),
        case(
            "negative grace",
            ("DELETE", &seen, JSON),
            r#"{"gracePeriodSeconds":-1}"#,
            (422, "Invalid", "gracePeriodSeconds"),
        ),
    ]
}

fn queries() -> Vec<Case> {
    vec![
        case(
            "bad selector",
            get(&format!("{MAPS}?labelSelector=a%20b")),
            "",
            (400, "BadRequest", ""),
        ),
        case(
            "bad field",
            get(&format!("{MAPS}?fieldSelector=data.a%3D1")),
            "",
            (400, "BadRequest", "field label not supported"),
        ),
        case(
            "bad continue",
            get(&format!("{MAPS}?continue=x")),
            "",
            (400, "BadRequest", "continue key is not valid"),
        ),
        case(
            "bad revision",
            get(&format!("{MAPS}?resourceVersion=x")),
            "",
            (400, "BadRequest", "resourceVersion"),
        ),
        case(
            "future",
            get(&format!("{MAPS}?resourceVersion=99999999")),
            "",
            (504, "Timeout", "Too large resource version"),
        ),
        case(
            "watch of the future",
            get(&format!("{MAPS}?watch=true&resourceVersion=99999999")),
            "",
            (504, "Timeout", "Too large resource version"),
        ),
        case(
            "match without revision",
            get(&format!("{MAPS}?resourceVersionMatch=Exact")),
            "",
            (422, "Invalid", "forbidden unless"),
        ),
        case(
            "bad dry run",
            ("POST", &format!("{MAPS}?dryRun=Some"), JSON),
            config_map("x").to_string(),
            (422, "Invalid", "dryRun"),
        ),
        case(
            "protected namespace",
            ("DELETE", "/api/v1/namespaces/default", ""),
            "",
            (403, "Forbidden", "may not be deleted"),
        ),
        case(
            "bad escape",
            get("/api/v1/namespaces/default/pods/%zz"),
            "",
            (400, "BadRequest", "URL escape"),
        ),
    ]
}

#[tokio::test]
async fn bad_input_is_refused_as_kubernetes_refuses_it() {
    let world = World::new().await;
    world.made(MAPS, config_map("seen")).await;
    for case in [bodies(), objects(), paths(), changes(), queries()]
        .into_iter()
        .flatten()
    {
        let got = world.send(case.method, &case.path, case.content_type, case.body).await;
        assert_eq!(
            (got.code, got.reason()),
            (case.code, case.reason),
            "{}: {}",
            case.what,
            got.body
        );
        assert!(got.message().contains(case.says), "{}: {}", case.what, got.message());
        assert_eq!(got.body["kind"], "Status", "{}", case.what);
        assert_eq!(got.body["code"], case.code, "{}", case.what);
    }
}

#[tokio::test]
async fn only_the_token_gets_in() {
    let world = World::new().await;
    let cases = [
        ("/api/v1/pods", None, 401),
        ("/api/v1/pods", Some("Bearer forged".to_owned()), 401),
        ("/api/v1/pods", Some(format!("Basic {TOKEN}")), 401),
        ("/api/v1/pods", Some(format!("Bearer {TOKEN}")), 200),
        ("/apis", None, 401),
        ("/version", None, 200),
        ("/healthz", None, 200),
        ("/livez", None, 200),
        ("/readyz", Some("Bearer forged".to_owned()), 200),
    ];
    for (path, authorization, code) in cases {
        let mut request = Request::builder().uri(path);
        if let Some(value) = &authorization {
            request = request.header("authorization", value);
        }
        let got = answer(world.raw(request.body(Body::empty()).expect("a request")).await).await;
        assert_eq!(got.code, code, "{path} {authorization:?}");
        if code == 401 {
            assert_eq!(got.reason(), "Unauthorized");
        }
    }
}

#[tokio::test]
async fn answers_that_cannot_be_made_are_refused() {
    let world = World::new().await;
    for (accept, code) in [
        ("application/vnd.kubernetes.protobuf", 406),
        ("application/vnd.kubernetes.protobuf,application/json", 200),
        ("*/*", 200),
        ("text/html", 406),
    ] {
        let request = Request::builder().uri("/api/v1/pods").header("accept", accept);
        let request = request.header("authorization", format!("Bearer {TOKEN}"));
        let got = answer(world.raw(request.body(Body::empty()).expect("a request")).await).await;
        assert_eq!(got.code, code, "{accept}");
    }
}
