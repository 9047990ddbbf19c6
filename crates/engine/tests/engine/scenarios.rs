//! The project's own scenarios: every file must pass.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use basalt_engine::scenario::{Scenario, Verdict};

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("the scenarios' folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "yaml") {
            files.push(path);
        }
    }
}

#[test]
fn own_scenarios_pass() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    let mut files = Vec::new();
    collect(&root, &mut files);
    files.sort();
    assert!(!files.is_empty(), "there are scenarios in {}", root.display());
    let mut failures = String::new();
    for file in files {
        let name = file.strip_prefix(&root).unwrap_or(&file).display();
        let text = std::fs::read_to_string(&file).expect("a readable file");
        match Scenario::parse(&text).map(|scenario| scenario.run(true).verdict) {
            Ok(Verdict::Passed) => {}
            Ok(Verdict::Failed(mismatches)) => {
                for mismatch in mismatches {
                    let _ = writeln!(failures, "{name}: {mismatch}");
                }
            }
            Ok(Verdict::NotSupported(what)) => {
                let _ = writeln!(failures, "{name}: not supported: {}", what.join("; "));
            }
            Err(error) => {
                let _ = writeln!(failures, "{name}: {error}");
            }
        }
    }
    assert!(failures.is_empty(), "\n{failures}");
}

/// Two nodes; `go` (two pods) fits, `big` (one pod of 9 cores) does not, `old` runs.
const CLUSTER: &str = "
conf: {actions: 'enqueue, allocate', tiers: [{plugins: [{name: gang}, {name: predicates}]}]}
objects:
- {apiVersion: scheduling.volcano.sh/v1beta1, kind: Queue, metadata: {name: q}, spec: {weight: 1}}
- {apiVersion: v1, kind: Node, metadata: {name: n1}, status: {allocatable: {cpu: '2', pods: '9'}}}
- {apiVersion: v1, kind: Node, metadata: {name: n2}, status: {allocatable: {cpu: '1', pods: '9'}}}
- {apiVersion: scheduling.volcano.sh/v1beta1, kind: PodGroup, metadata: {name: go, namespace: a, uid: g1}, spec: {minMember: 2, queue: q}}
- {apiVersion: scheduling.volcano.sh/v1beta1, kind: PodGroup, metadata: {name: big, namespace: a, uid: g2}, spec: {minMember: 1, queue: q}}
- {apiVersion: scheduling.volcano.sh/v1beta1, kind: PodGroup, metadata: {name: old, namespace: a, uid: g3}, spec: {minMember: 1, queue: q}, status: {phase: Running}}
- {apiVersion: v1, kind: Pod, metadata: {name: p1, namespace: a, uid: p1, annotations: {scheduling.k8s.io/group-name: go}}, spec: {schedulerName: volcano, containers: [{name: m, resources: {requests: {cpu: '1'}}}]}}
- {apiVersion: v1, kind: Pod, metadata: {name: p2, namespace: a, uid: p2, annotations: {scheduling.k8s.io/group-name: go}}, spec: {schedulerName: volcano, containers: [{name: m, resources: {requests: {cpu: '1'}}}]}}
- {apiVersion: v1, kind: Pod, metadata: {name: p3, namespace: a, uid: p3, annotations: {scheduling.k8s.io/group-name: big}}, spec: {schedulerName: volcano, containers: [{name: m, resources: {requests: {cpu: '9'}}}]}}
- {apiVersion: v1, kind: Pod, metadata: {name: p4, namespace: a, uid: p4, annotations: {scheduling.k8s.io/group-name: old}}, spec: {schedulerName: volcano, nodeName: n1, containers: [{name: m, resources: {requests: {cpu: '1'}}}]}, status: {phase: Running}}
";

fn verdict(more: &str) -> Verdict {
    let scenario = Scenario::parse(&format!("{CLUSTER}{more}")).unwrap_or_else(|error| panic!("{more}: {error}"));
    scenario.run(false).verdict
}

#[test]
fn every_key_of_expect_tells_right_from_wrong() {
    for (right, wrong) in [
        ("binds: {a/p1: n1, a/p2: n2}", "binds: {a/p1: n1}"),
        (
            "binds: {a/p1: [n1, n2], a/p2: [n1, n2]}",
            "binds: {a/p1: [n2], a/p2: n2}",
        ),
        ("bindCount: 2", "bindCount: 1"),
        ("boundPods: [a/p2, a/p1]", "boundPods: [a/p1, a/p2, a/p3]"),
        ("bindCountByPodGroup: {a/go: 2, a/big: 0}", "bindCountByPodGroup: {}"),
        ("bindCountsByHyperNode: []", "bindCountsByHyperNode: [2]"),
        ("evicted: []", "evicted: [a/p4]"),
        ("evictCountByPodGroup: {a/old: 0}", "evictCountByPodGroup: {a/old: 1}"),
        ("pipelined: {a/big: []}", "pipelined: {a/big: [n1]}"),
        (
            "podGroupPhase: {a/go: Inqueue, a/old: Running}",
            "podGroupPhase: {a/go: Pending}",
        ),
        (
            "taskStatus: {a/go: {Binding: 2}, a/old: {Running: 1}}",
            "taskStatus: {a/big: {Binding: 1}}",
        ),
        (
            "reasons: {a/big: [NotEnoughResources], a/go: []}",
            "reasons: {a/big: []}",
        ),
        (
            "queues: {q: {allocated: {cpu: '3'}}}",
            "queues: {q: {allocated: {cpu: '2'}}}",
        ),
    ] {
        assert_eq!(verdict(&format!("expect: {{{right}}}")), Verdict::Passed, "{right}");
        let failed = verdict(&format!("expect: {{{wrong}}}"));
        assert!(
            matches!(&failed, Verdict::Failed(list) if list.len() == 1),
            "{wrong}: {failed:?}"
        );
    }
    let unknown = verdict("expect: {bound: 2}");
    assert!(
        matches!(unknown, Verdict::Failed(_)),
        "a key that nobody checks is no pass"
    );
}

#[test]
fn observed_keys_are_notes_unless_strict() {
    let scenario = Scenario::parse(&format!(
        "{CLUSTER}expect: {{bindCount: 2, evicted: [a/p4]}}\nobserved: [evicted]"
    ));
    let scenario = scenario.expect("a scenario");
    let lenient = scenario.run(false);
    assert_eq!((lenient.verdict, lenient.notes.len()), (Verdict::Passed, 1));
    assert!(matches!(scenario.run(true).verdict, Verdict::Failed(_)));
}

#[test]
fn what_we_lack_is_never_passed() {
    for (from, to, what) in [
        (
            "{name: gang}",
            "{name: gang}, {name: numa-aware}",
            "plugin \"numa-aware\"",
        ),
        (
            "conf:",
            "options: {sharding: {mode: hard}}\nconf:",
            "option \"sharding\"",
        ),
        (
            "kind: Node, metadata: {name: n2}",
            "kind: HyperNode, metadata: {name: h}",
            "kind HyperNode",
        ),
        (
            "minMember: 2,",
            "minMember: 2, networkTopology: {mode: hard},",
            "constraint networkTopology",
        ),
    ] {
        let text = format!("{CLUSTER}expect: {{evicted: []}}").replacen(from, to, 1);
        let outcome = Scenario::parse(&text).expect("a scenario").run(false);
        assert!(
            matches!(&outcome.verdict, Verdict::NotSupported(list) if list.iter().any(|item| item.contains(what))),
            "{what}: {outcome:?}"
        );
    }
    let expected = CLUSTER.replacen("minMember: 2,", "minMember: 2, networkTopology: {mode: hard},", 1);
    let expected = format!("{expected}expect: {{binds: {{}}, reasons: {{a/go: [NotSupported]}}}}");
    assert_eq!(
        Scenario::parse(&expected).expect("a scenario").run(true).verdict,
        Verdict::Passed
    );
}

#[test]
fn a_bad_file_says_what_is_wrong() {
    for (text, part) in [
        ("title: [", "not valid YAML"),
        ("title: x", "conf must be a mapping"),
        (
            "conf: {actions: fly}\nobjects: []\nexpect: {binds: {}}",
            "unknown action \"fly\"",
        ),
        ("conf: {}\nobjects: []", "expect must be a mapping"),
        ("conf: {}\nexpect: {binds: {}}", "objects must be a list"),
        ("conf: {}\nobjects: []\nexpects: {}", "unknown key \"expects\""),
        (
            "conf: {}\nobjects: []\nexpect: {binds: {}}\ncycles: 0",
            "cycles must be",
        ),
        (
            "conf: {}\nobjects: [{kind: Pod}]\nexpect: {binds: {}}",
            "objects[0]: apiVersion is missing",
        ),
        (
            "conf: {}\nobjects: [{apiVersion: v1, kind: Node, metadata: {name: n1}, status: {allocatable: {cpu: x}}}]\nexpect: {binds: {}}",
            "objects[0]: Node \"n1\", field status.allocatable.cpu:",
        ),
    ] {
        let error = Scenario::parse(text).expect_err(text).to_string();
        assert!(error.contains(part), "{text}: {error}");
    }
}
