use serde_json::json;

use super::Comparison;

const ROLES: &str = r#"
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: not read}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: scheduler
rules:
- {apiGroups: [""], resources: [pods], verbs: [get, list, watch]}
- {apiGroups: [""], resources: [pods/binding], verbs: [create]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: scheduler
roleRef: {kind: ClusterRole, name: scheduler}
subjects: [{kind: ServiceAccount, name: s, namespace: ours}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: lease
  namespace: v
rules:
- {apiGroups: [coordination.k8s.io], resources: [leases], resourceNames: [a], verbs: [update]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: lease
  namespace: v
roleRef: {kind: Role, name: lease}
subjects: [{kind: ServiceAccount, name: s, namespace: ours}]
"#;

/// A request as `ACCOUNT VERB RESOURCE[.GROUP] NAMESPACE NAME [DECISION]`; `-` is nothing.
fn event(line: &str) -> String {
    let words: Vec<&str> = line.split(' ').collect();
    let filled = |word: &str| if word == "-" { String::new() } else { word.to_owned() };
    let (resource, group) = words[2].split_once('.').unwrap_or((words[2], ""));
    let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
    let decision = words.get(5).copied().unwrap_or("allow");
    // What admission refuses has code 403 as well, and the right.
    let code = if decision == "refused" { 403 } else { 200 };
    let decision = if decision == "refused" { "allow" } else { decision };
    json!({
        "kind": "Event", "apiVersion": "audit.k8s.io/v1", "level": "Metadata", "stage": "ResponseComplete",
        "requestURI": "/x", "verb": words[1],
        "user": {"username": format!("system:serviceaccount:{}", words[0]), "groups": ["system:authenticated"]},
        "objectRef": {
            "resource": resource, "subresource": subresource, "apiGroup": group,
            "namespace": filled(words[3]), "name": filled(words[4]), "apiVersion": "v1",
        },
        "responseStatus": {"metadata": {}, "code": code},
        "annotations": {"authorization.k8s.io/decision": decision},
    })
    .to_string()
}

/// All that the roles grant.
const ALL: [&str; 4] = [
    "ours:s watch pods - -",
    "ours:s get pods d p",
    "ours:s create pods/binding d p",
    "ours:s update leases.coordination.k8s.io v a",
];

fn check(lines: &[&str], expected: &[&str]) {
    let mut comparison = Comparison::new(ROLES, false, &[]).expect("roles");
    for line in lines {
        comparison.take_in(&event(line)).expect("an event");
    }
    let findings = comparison.end().expect("a report").findings();
    let short = |finding: &String| finding.replace("system:serviceaccount:", "");
    assert_eq!(findings.iter().map(short).collect::<Vec<_>>(), expected, "{lines:?}");
}

fn all_but(left_out: usize, more: &[&'static str]) -> Vec<&'static str> {
    let kept = ALL.iter().enumerate().filter(|(index, _)| *index != left_out);
    kept.map(|(_, line)| *line).chain(more.iter().copied()).collect()
}

#[test]
fn roles_that_are_used_and_suffice_have_no_findings() {
    check(&ALL, &[]);
    // Others are none of our business, nor is what admission refuses.
    check(
        &all_but(9, &["ours:other delete pods d p forbid", "ours:s get pods d q refused"]),
        &[],
    );
}

#[test]
fn a_right_that_nothing_used_is_found() {
    check(
        &all_but(0, &["ours:s list pods - -"]),
        &["unused right: ours:s: watch pods"],
    );
    check(
        &all_but(0, &[]),
        &["unused right: ours:s: list pods", "unused right: ours:s: watch pods"],
    );
    check(&all_but(1, &[]), &["unused right: ours:s: get pods"]);
    check(
        &all_but(2, &["ours:s create pods d p forbid"]),
        &[
            "missing right: ours:s: create pods p in d (refused 1 times)",
            "unused right: ours:s: create pods/binding",
        ],
    );
    let lease = "unused right: ours:s: update leases.coordination.k8s.io a in v";
    check(&all_but(3, &[]), &[lease]);
    // Another name, another namespace, another group: not this right.
    check(&all_but(3, &["ours:s update leases.coordination.k8s.io v b"]), &[lease]);
    check(&all_but(3, &["ours:s update leases.coordination.k8s.io w a"]), &[lease]);
    check(&all_but(3, &["ours:s update leases v a"]), &[lease]);
    // Used by another account.
    check(
        &all_but(1, &["ours:t get pods d p"]),
        &["unused right: ours:s: get pods"],
    );
}

#[test]
fn a_request_that_was_refused_is_found() {
    check(
        &all_but(9, &["ours:s delete pods d p forbid", "ours:s delete pods d p forbid"]),
        &["missing right: ours:s: delete pods p in d (refused 2 times)"],
    );
    check(
        &all_but(9, &["ours:s list secrets - - forbid"]),
        &["missing right: ours:s: list secrets (refused 1 times)"],
    );
    // What was allowed at another time is there.
    check(
        &all_but(9, &["ours:s watch pods d p forbid", "ours:s watch pods d p"]),
        &[],
    );
}

#[test]
fn nothing_to_compare_is_an_error() {
    assert!(Comparison::new("kind: ConfigMap\n", false, &[]).is_err());
    let unbound = ROLES.replace("kind: ClusterRole, name: scheduler", "kind: ClusterRole, name: gone");
    assert!(
        Comparison::new(&unbound, false, &[]).is_err(),
        "a binding to a role that is not there"
    );
    let comparison = Comparison::new(ROLES, false, &[]).expect("roles");
    assert!(comparison.end().is_err(), "no request at all");
    let mut comparison = Comparison::new(ROLES, false, &[]).expect("roles");
    assert!(comparison.take_in("no JSON").is_err());
}

#[test]
fn a_right_that_need_not_be_seen_is_no_finding() {
    const OF_ANY: &[super::Unseen] = &[("", "", "pods", "get", "rare")];
    const OF_ANOTHER: &[super::Unseen] = &[(":t", "", "pods", "get", "rare")];
    for (unseen, findings) in [(OF_ANY, 0), (OF_ANOTHER, 1)] {
        let mut comparison = Comparison::new(ROLES, false, unseen).expect("roles");
        for line in all_but(1, &[]) {
            comparison.take_in(&event(line)).expect("an event");
        }
        assert_eq!(
            comparison.end().expect("a report").findings().len(),
            findings,
            "{unseen:?}"
        );
    }
}

#[test]
fn a_part_has_to_have_its_rights_itself() {
    let roles = ROLES.replace("name: s, namespace: ours", "name: basalt-s, namespace: ours");
    let of = |agent: &str, line: &str| {
        let mut event: serde_json::Value = serde_json::from_str(&event(line)).expect("an event");
        event["userAgent"] = json!(agent);
        event.to_string()
    };
    let check = |agent: &str, more: &str, expected: &[&str]| {
        let mut comparison = Comparison::new(&roles, true, &[]).expect("roles");
        for line in ALL.iter().map(|line| of("basalt-s/1", line)).chain([of(agent, more)]) {
            comparison
                .take_in(&line.replace("ours:s", "ours:manager"))
                .expect("an event");
        }
        let findings = comparison.end().expect("a report").findings();
        let short = |finding: &String| finding.replace("system:serviceaccount:", "");
        assert_eq!(
            findings.iter().map(short).collect::<Vec<_>>(),
            expected,
            "{agent} {more}"
        );
    };
    check("basalt-s/1", "ours:s get pods d q", &[]);
    // The server allowed it, by a role of another part.
    check(
        "basalt-s/1",
        "ours:s delete pods d p",
        &["missing right: ours:basalt-s: delete pods p in d (refused 1 times)"],
    );
    check("basalt-t/1", "ours:s delete pods d p", &[]);
}
