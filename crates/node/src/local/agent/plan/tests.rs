use super::super::super::fields::tests::around;
use super::super::super::plan::{Cgroup, CgroupVersion};
use super::*;
use serde_json::{Value, json};

fn plan(spec: Value, view: View) -> Result<PodPlan, String> {
    let pod: Pod = serde_json::from_value(json!({"metadata": {"name": "p", "namespace": "n"}, "spec": spec})).unwrap();
    let making = Making {
        pod: &pod,
        uid: "u",
        socket: "/s".into(),
        address: Ipv4Addr::new(127, 64, 0, 1),
        around: &around(),
        sources: &Sources::default(),
        laid: &BTreeMap::new(),
        users: Users {
            owner: None,
            shared_group: false,
        },
        powers: Powers {
            own: 0,
            allow_root: false,
        },
        isolation: Isolation {
            view,
            cgroups: vec![Cgroup {
                folder: "/c".into(),
                version: CgroupVersion::V2,
            }],
        },
        backoff_ms: (1, 2),
        gpus: &BTreeMap::from([("g".to_owned(), vec!["G0".to_owned(), "G1".to_owned()])]),
        taken: jiff::Timestamp::UNIX_EPOCH,
    };
    making.plan().map_err(|trouble| match trouble {
        Trouble::Waits { waiting, .. } => waiting.to_owned(),
        Trouble::Refused { reason, .. } => reason.to_owned(),
    })
}

fn container(more: Value) -> Value {
    let mut container = json!({"name": "c", "image": "i", "command": ["run", "$(A)"], "args": ["$$x"], "env": [{"name": "A", "value": "1"}]});
    if let (Value::Object(into), Value::Object(from)) = (&mut container, more) {
        into.extend(from);
    }
    container
}

#[test]
fn a_pod_becomes_a_plan() {
    let spec = json!({
        "restartPolicy": "OnFailure", "activeDeadlineSeconds": 60, "terminationGracePeriodSeconds": 5, "hostname": "h",
        "initContainers": [{"name": "i", "command": ["init"], "restartPolicy": "Always", "resources": {"limits": {"cpu": "1", "memory": "2Ki"}}}],
        "containers": [container(json!({
            "resources": {"limits": {"cpu": "500m", "memory": "1Ki"}, "requests": {"cpu": "250m"}},
            "ports": [{"name": "web", "containerPort": 80}],
            "livenessProbe": {"httpGet": {"port": "web", "path": "x", "scheme": "HTTPS"}, "periodSeconds": 0},
            "readinessProbe": {"tcpSocket": {"port": 81}, "failureThreshold": 9},
            "lifecycle": {"preStop": {"sleep": {"seconds": 2}}, "postStart": {"exec": {"command": ["x"]}}},
            "terminationMessagePolicy": "FallbackToLogsOnError",
        }))],
    });
    let plan = plan(spec, View::Namespaces).unwrap();
    assert_eq!(
        (plan.restart, plan.grace_seconds, plan.hostname.as_str()),
        (Restart::OnFailure, 5, "h")
    );
    assert_eq!(plan.deadline, Some(jiff::Timestamp::from_second(60).unwrap()));
    assert!(plan.init[0].sidecar && !plan.containers[0].sidecar);
    let c = &plan.containers[0];
    assert_eq!(c.command, ["run", "1", "$x"]);
    assert_eq!(c.user.as_ref().map(|u| (u.uid, u.gid)), Some((65_534, 65_534)));
    assert_eq!(
        (c.limits.cpu_millis, c.limits.memory_bytes, c.limits.cpu_request_millis),
        (Some(500), Some(1024), Some(250))
    );
    assert_eq!(
        (plan.limits.cpu_millis, plan.limits.memory_bytes),
        (Some(1_500), Some(3 * 1024))
    );
    let live = c.liveness.as_ref().unwrap();
    assert_eq!(
        (live.period_seconds, live.timeout_seconds, live.failure_threshold),
        (10, 1, 3)
    );
    let expected = Action::Http {
        host: "127.64.0.1".to_owned(),
        port: 80,
        path: "/x".to_owned(),
        tls: true,
        headers: Vec::new(),
    };
    assert_eq!(live.action, expected);
    assert_eq!(c.readiness.as_ref().unwrap().failure_threshold, 9);
    assert_eq!(
        (&c.pre_stop, &c.post_start),
        (&Some(Action::Sleep(2)), &Some(Action::Exec(vec!["x".to_owned()])))
    );
    assert!(c.message_from_log && c.message_path == std::path::Path::new("/dev/termination-log"));
}

#[test]
fn a_pod_is_bound_by_what_runs_at_a_time() {
    // Mains, sidecars and init containers in order: `s3` is a sidecar with a limit of 3 cores, `i-` an init container with none.
    let check = |init: &str, main: &str, cpu: Option<u64>| {
        let all = |words: &str| -> Value {
            let one = |(number, word): (usize, &str)| {
                let (kind, limit) = word.split_at(1);
                let mut one = container(json!({"name": format!("c{number}{kind}")}));
                if kind == "s" {
                    one["restartPolicy"] = json!("Always");
                }
                if limit != "-" {
                    one["resources"] = json!({"limits": {"cpu": limit}});
                }
                one
            };
            words.split_whitespace().enumerate().map(one).collect()
        };
        let spec = json!({"initContainers": all(init), "containers": all(main)});
        let limits = plan(spec, View::Namespaces).unwrap().limits;
        assert_eq!(limits.cpu_millis, cpu.map(|cores| cores * 1_000), "{init} / {main}");
    };
    check("", "m1 m2", Some(3));
    check("i2", "m1", Some(2));
    check("i1 i4 i2", "m1 m2", Some(4));
    check("s3", "m1", Some(4));
    check("s3 i4", "m1", Some(7));
    check("i4 s3", "m2", Some(5));
    check("i-", "m1", None);
    check("s-", "m1", None);
    check("i1", "m1 m-", None);
}

#[test]
fn gpus_are_seen_by_those_who_have_them() {
    let check = |name: &str, expected: &str| {
        let named = container(json!({"name": name, "env": [{"name": "CUDA_VISIBLE_DEVICES", "value": "all"}]}));
        let plan = plan(json!({"containers": [named]}), View::Namespaces).unwrap();
        let found = plan.containers[0]
            .env
            .iter()
            .find(|(key, _)| key == "CUDA_VISIBLE_DEVICES");
        assert_eq!(found.map(|(_, value)| value.as_str()), Some(expected));
    };
    check("g", "G0,G1");
    check("c", "");
}

#[test]
fn what_cannot_be_planned() {
    let check = |more: Value, expected: &str| {
        let found = plan(json!({"containers": [container(more.clone())]}), View::Namespaces);
        assert_eq!(found.err().as_deref(), Some(expected), "{more}");
    };
    check(json!({"command": null}), "NoCommand");
    check(json!({"command": [], "args": ["x"]}), "NoCommand");
    check(json!({"livenessProbe": {"grpc": {"port": 1}}}), "Unsupported");
    check(json!({"livenessProbe": {"tcpSocket": {"port": "none"}}}), "Unsupported");
    check(json!({"livenessProbe": {"tcpSocket": {"port": 70000}}}), "Unsupported");
    check(json!({"resources": {"limits": {"cpu": "odd"}}}), "Unsupported");
    check(json!({"securityContext": {"runAsUser": 0}}), "RootNotAllowed");
    check(json!({"terminationMessagePath": "/proc/x"}), "Unsupported");
    check(
        json!({"volumeMounts": [{"name": "v", "mountPath": "/v"}]}),
        "InvalidMount",
    );
    check(
        json!({"env": [{"name": "X", "valueFrom": {"configMapKeyRef": {"name": "m", "key": "k"}}}]}),
        "CreateContainerConfigError",
    );
}

#[test]
fn names_of_hosts() {
    let check = |name: &str, hostname: Option<&str>, expected: &str| {
        let pod = json!({"metadata": {"name": name}, "spec": {"hostname": hostname, "containers": []}});
        assert_eq!(hostname_of(&serde_json::from_value(pod).unwrap()), expected);
    };
    check("p", None, "p");
    check("p", Some("h"), "h");
    check("p", Some(""), "p");
    check(&"x".repeat(80), None, &"x".repeat(63));
    check(&format!("{}-{}", "x".repeat(62), "y"), None, &"x".repeat(62));
}
