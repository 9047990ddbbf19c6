//! Label and field selectors, facets.

use basalt_apimachinery::selector::{CompactStringMap, FieldSelector, LabelSelector, facets, facets_of_paths};
use serde_json::json;

fn labels(text: &str) -> CompactStringMap {
    let pairs = text.split_whitespace().filter_map(|pair| pair.split_once('='));
    let mut found: Vec<(String, String)> = pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
    found.sort();
    found.into_iter().collect()
}

#[test]
fn label_selectors_match() {
    let check = |selector: &str, object: &str, expected: bool| {
        let parsed = LabelSelector::parse(selector).unwrap_or_else(|error| panic!("{selector}: {error}"));
        assert_eq!(parsed.matches(&labels(object)), expected, "{selector} on {object}");
    };
    check("", "a=b", true);
    check("a=b", "a=b", true);
    check("a==b", "a=b c=d", true);
    check(" a = b , c = d ", "a=b c=d", true);
    check("a=b,c=e", "a=b c=d", false);
    check("a=", "a=", true);
    check("a=", "b=c", false);
    check("a!=b", "a=c", true);
    check("a!=b", "x=y", true);
    check("a!=b", "a=b", false);
    check("a", "a=b", true);
    check("a", "b=a", false);
    check("!a", "b=a", true);
    check("! a", "a=b", false);
    check("a in (b,c)", "a=c", true);
    check("a in (b, c)", "a=d", false);
    check("a in(b)", "a=b", true);
    check("a in (,b)", "a=", true);
    check("a notin (b,c)", "a=d", true);
    check("a notin (b,c)", "x=y", true);
    check("a notin (b,c)", "a=b", false);
    check("example.com/a-b.c=D_1", "example.com/a-b.c=D_1", true);
    check("n>5", "n=7", true);
    check("n>5", "n=5", false);
    check("n<5", "n=x", false);
    check("in=in,notin in (notin)", "in=in notin=notin", true);
}

#[test]
fn bad_label_selectors_say_why() {
    let check = |selector: &str, expected: &str| {
        let error = LabelSelector::parse(selector).expect_err(selector);
        assert!(error.to_string().contains(expected), "{selector}: {error}");
    };
    check(
        "a b",
        "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt",
    );
    check("=a", "found '=', expected: !, identifier, or 'end of string'");
    check("a,", "found '', expected: identifier after ','");
    check("a in b", "found 'b' expected: '('");
    check("a in (b", "found '', expected: ',' or ')'");
    check("a in ()", "for 'in', 'notin' operators, values set can't be empty");
    check("a=b c", "found 'c', expected: ',' or 'end of string'");
    check("a=(", "found '(', expected: identifier");
    check("!", "found '', expected: identifier");
    check("-a=b", "name part must consist of alphanumeric characters");
    check("a=-b", "a valid label must be an empty string or consist of");
    check("a/b/c=d", "a valid label key must consist of");
    check(&format!("a={}", "x".repeat(64)), "must be no more than 63 characters");
    check("n>x", "for 'Gt', 'Lt' operators, the value must be an integer");
}

#[test]
fn label_selector_objects_match() {
    let selector = json!({
        "matchLabels": { "app": "web" },
        "matchExpressions": [
            { "key": "tier", "operator": "In", "values": ["a", "b"] },
            { "key": "old", "operator": "DoesNotExist" },
        ],
    });
    let selector = LabelSelector::from_object(&selector).expect("valid");
    assert!(selector.matches(&labels("app=web tier=b")));
    assert!(!selector.matches(&labels("app=web tier=c")));
    assert!(!selector.matches(&labels("app=web tier=b old=1")));
    assert!(LabelSelector::from_object(&json!({ "matchExpressions": [{ "key": "a", "operator": "Has" }] })).is_err());
}

#[test]
fn field_selectors_match() {
    let fields = labels("spec.nodeName=n1 status.phase=Running");
    let check = |selector: &str, expected: bool| {
        let parsed = FieldSelector::parse(selector).and_then(|parsed| parsed.for_resource("pods", &[]));
        let parsed = parsed.unwrap_or_else(|error| panic!("{selector}: {error}"));
        assert_eq!(parsed.matches("ns", "p", &fields), expected, "{selector}");
    };
    check("", true);
    check("metadata.name=p", true);
    check("metadata.name==p,metadata.namespace=ns", true);
    check("metadata.name=q", false);
    check("spec.nodeName=n1", true);
    check("spec.nodeName=", false);
    check("spec.schedulerName=", true);
    check("spec.hostNetwork=false", true);
    check("status.phase!=Succeeded,status.phase!=Failed", true);
    check("status.phase!=Running", false);
    check("metadata.name=a\\,b", false);
}

#[test]
fn bad_field_selectors_say_why() {
    let check = |resource: &str, selector: &str, expected: &str| {
        let error = FieldSelector::parse(selector).and_then(|parsed| parsed.for_resource(resource, &[]));
        assert_eq!(error.expect_err(selector).to_string(), expected);
    };
    check("pods", "abc", "invalid selector: 'abc'; can't understand 'abc'");
    check("pods", "spec.foo=1", "field label not supported: spec.foo");
    check(
        "queues.scheduling.volcano.sh",
        "spec.weight=1",
        "field label not supported: spec.weight",
    );
    check(
        "pods",
        "metadata.name=a\\b",
        "invalid field selector: invalid escape sequence: \\b",
    );
    let event = FieldSelector::parse("regarding.name=x").and_then(|parsed| parsed.for_resource("events", &[]));
    assert_eq!(event.expect("an alias").terms[0].path, "involvedObject.name");
    assert!(
        FieldSelector::parse("spec.a=1")
            .and_then(|parsed| parsed.for_resource("x.y", &["spec.a"]))
            .is_ok()
    );
}

#[test]
fn facets_are_what_selectors_need() {
    let check = |resource: &str, object: serde_json::Value, expected: [&str; 2]| {
        let (found_labels, found_fields) = facets(resource, object.to_string().as_bytes());
        assert_eq!(found_labels, labels(expected[0]), "{resource}");
        assert_eq!(found_fields, labels(expected[1]), "{resource}");
    };
    let pod = json!({
        "metadata": { "name": "p", "labels": { "b": "2", "a": "1" }, "annotations": { "x": "\"y\"" } },
        "spec": { "nodeName": "n1", "schedulerName": "volcano", "containers": [{ "name": "c" }], "hostNetwork": true },
        "status": { "phase": "Running", "podIP": "10.0.0.1" },
    });
    let fields =
        "spec.hostNetwork=true spec.nodeName=n1 spec.schedulerName=volcano status.phase=Running status.podIP=10.0.0.1";
    check("pods", pod, ["a=1 b=2", fields]);
    let event = json!({
        "metadata": { "name": "e" }, "reason": "Failed", "type": "Warning", "reportingComponent": "sched",
        "involvedObject": { "kind": "Pod", "name": "p", "namespace": "ns", "uid": "u" },
    });
    let fields = "involvedObject.kind=Pod involvedObject.name=p involvedObject.namespace=ns involvedObject.uid=u \
                  reason=Failed reportingComponent=sched source=sched type=Warning";
    check("events", event, ["", fields]);
    check(
        "nodes",
        json!({ "metadata": {}, "spec": { "unschedulable": true } }),
        ["", "spec.unschedulable=true"],
    );
    check(
        "namespaces",
        json!({ "metadata": {}, "status": { "phase": "Active" } }),
        ["", "status.phase=Active"],
    );
    check(
        "secrets",
        json!({ "metadata": { "labels": null }, "type": "Opaque" }),
        ["", "type=Opaque"],
    );
    check(
        "queues.scheduling.volcano.sh",
        json!({ "metadata": { "labels": { "q": "1" } }, "spec": 7 }),
        ["q=1", ""],
    );
    check("pods", json!(["not", "a", "pod"]), ["", ""]);
    let custom = json!({ "metadata": { "labels": { "q": "1" } }, "spec": { "color": "red", "size": 3 } });
    let (_, fields) = facets_of_paths(&["spec.size", "spec.color", "spec.none"], custom.to_string().as_bytes());
    assert_eq!(fields, labels("spec.color=red spec.size=3"));
}
