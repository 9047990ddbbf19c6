//! This machine as a node: real shims, real processes, the real API server in memory.

#[path = "shared/scene.rs"]
mod scene;
#[path = "shared/world.rs"]
mod world;

use std::path::Path;

use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod, PodStatus};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use scene::{NODE, Scene, exit_code, main_status, shell, until_true};
use world::{is_true, until, within};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pods_run_and_end_as_they_do() {
    let scene = Scene::new().await;
    for (name, script, phase, code) in [
        ("well", "echo hello; exit 0", "Succeeded", 0),
        ("ill", "echo bad >&2; exit 7", "Failed", 7),
        ("killed", "kill -9 $$$$", "Failed", 137),
    ] {
        let pod = scene.script(name, script).await;
        let status = scene.world.until_phase(name, phase).await;
        assert_eq!(exit_code(&status), Some(code), "{name}");
        assert!(
            status.pod_ip.as_deref().is_some_and(|ip| ip.starts_with("127.64.")),
            "{status:?}"
        );
        assert!(is_true(Some(&status), "PodScheduled") && !is_true(Some(&status), "Ready"));
        assert_eq!(status.qos_class.as_deref(), Some("BestEffort"));
        assert!(scene.folder(&pod).exists(), "logs stay until the object goes");
        scene.until_event(name, "ImageNotPulled").await;
        scene.delete(name).await;
        let folder = scene.folder(&pod);
        until_true("the folder's end", || !folder.exists()).await;
    }
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_node_tells_what_the_machine_has() {
    let scene = Scene::new().await;
    let ready = |node: Option<&Node>| {
        let status = node.and_then(|n| n.status.as_ref());
        let conditions = status.and_then(|s| s.conditions.as_deref()).unwrap_or_default();
        conditions.iter().any(|c| c.type_ == "Ready" && c.status == "True")
    };
    let nodes: Api<Node> = Api::all(scene.world.client.clone());
    let node = until(nodes.clone(), NODE, ready).await.expect("the node");
    let allocatable = node.status.and_then(|s| s.allocatable).expect("allocatable");
    assert_eq!(allocatable["pods"].0, "500");
    assert!(
        allocatable.contains_key("cpu") && allocatable.contains_key("memory"),
        "{allocatable:?}"
    );
    // Somebody deletes it: it comes back, for the machine is still there.
    nodes.delete(NODE, &DeleteParams::default()).await.expect("deleted");
    until(nodes, NODE, ready).await.expect("the node again");
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deleted_pod_ends_within_its_grace() {
    let scene = Scene::new().await;
    let pod = scene
        .script(
            "long",
            "trap 'echo term; exit 3' TERM; echo up; while :; do sleep 0.05; done",
        )
        .await;
    scene.world.until_phase("long", "Running").await;
    scene.until_log(&pod, "up").await;
    scene.delete("long").await;
    // A pod that does not listen is killed.
    let deaf = scene
        .pod(
            "deaf",
            json!({"containers": [shell("trap '' TERM; echo up; sleep 60")], "terminationGracePeriodSeconds": 1}),
        )
        .await;
    scene.until_log(&deaf, "up").await;
    scene.delete("deaf").await;
    let folders = scene.data.path().join("pods");
    until_true("no folders", || std::fs::read_dir(&folders).expect("pods").count() == 0).await;
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_pod_is_given() {
    let scene = Scene::new().await;
    let maps: Api<ConfigMap> = Api::namespaced(scene.world.client.clone(), "default");
    let map = |text: &str| json!({"metadata": {"name": "m"}, "data": {"key": text}});
    let pod = scene
        .pod(
            "given",
            json!({
                "volumes": [
                    {"name": "files", "configMap": {"name": "m"}},
                    {"name": "empty", "emptyDir": {}},
                    {"name": "labels", "downwardAPI": {"items": [{"path": "app", "fieldRef": {"fieldPath": "metadata.labels['app']"}}]}},
                ],
                "hostname": "given-host", "subdomain": "group",
                "containers": [{
                    "name": "main", "image": "x",
                    "command": ["sh", "-c", "echo \"$A|$B|$IP|$(cat /files/key)|$(cat /labels/app)|$(hostname)|$HOME\"; touch /empty/x && echo wrote; id -u; grep -c group.default.svc.cluster.local /etc/hosts; while [ \"$(cat /files/key)\" = one ]; do sleep 0.02; done; cat /files/key"],
                    "env": [
                        {"name": "A", "value": "1"}, {"name": "B", "value": "$(A)2"},
                        {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
                    ],
                    "volumeMounts": [
                        {"name": "files", "mountPath": "/files"}, {"name": "empty", "mountPath": "/empty"},
                        {"name": "labels", "mountPath": "/labels"},
                    ],
                }],
            }),
        )
        .await;
    // It waits for the ConfigMap, and says so.
    scene.until_event("given", "FailedMount").await;
    let one = serde_json::from_value(map("one")).expect("a map");
    maps.create(&PostParams::default(), &one).await.expect("created");
    scene.until_log(&pod, "wrote").await;
    let status = scene.world.until_phase("given", "Running").await;
    let address = status.pod_ip.expect("an address");
    // The file follows the object.
    maps.patch("m", &PatchParams::default(), &Patch::Merge(map("two")))
        .await
        .expect("patched");
    scene.world.until_phase("given", "Succeeded").await;
    let user = if rustix::process::geteuid().is_root() {
        "65534".to_owned()
    } else {
        rustix::process::geteuid().as_raw().to_string()
    };
    assert_eq!(
        scene.log(&pod),
        format!("1|12|{address}|one|given|given-host|/tmp\nwrote\n{user}\n1\ntwo")
    );
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_is_refused_with_a_reason() {
    let scene = Scene::new().await;
    let with_volume = |volume: Value| json!({"volumes": [volume], "containers": [shell("true")]});
    for (name, spec, reason) in [
        (
            "no-command",
            json!({"containers": [{"name": "main", "image": "nginx"}]}),
            "NoCommand",
        ),
        (
            "host-path",
            with_volume(json!({"name": "v", "hostPath": {"path": "/etc"}})),
            "HostPathNotAllowed",
        ),
        (
            "nfs",
            with_volume(json!({"name": "v", "nfs": {"server": "s", "path": "/"}})),
            "UnsupportedVolume",
        ),
        (
            "large",
            json!({"containers": [{"name": "main", "image": "x", "command": ["true"], "resources": {"requests": {"cpu": "100000"}}}]}),
            "OutOfcpu",
        ),
        (
            "gpu",
            json!({"containers": [{"name": "main", "image": "x", "command": ["true"], "resources": {"limits": {"nvidia.com/gpu": "1000"}}}]}),
            "OutOfnvidia.com/gpu",
        ),
    ] {
        let pod = scene.pod(name, spec).await;
        let status = scene.world.until_phase(name, "Failed").await;
        assert_eq!(status.reason.as_deref(), Some(reason), "{status:?}");
        assert!(status.message.is_some_and(|m| !m.is_empty()));
        scene.until_event(name, reason).await;
        assert!(!scene.folder(&pod).exists());
        scene.delete(name).await;
    }
    // A deadline holds while the pod waits.
    let mut waiting = with_volume(json!({"name": "v", "configMap": {"name": "never"}}));
    waiting["activeDeadlineSeconds"] = json!(1);
    scene.pod("waiting", waiting).await;
    let status = scene.world.until_phase("waiting", "Failed").await;
    assert_eq!(status.reason.as_deref(), Some("DeadlineExceeded"), "{status:?}");
    scene.delete("waiting").await;
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pods_outlive_the_agent() {
    let mut scene = Scene::new().await;
    let go = scene.data.path().join("go");
    let wait = "echo began; while [ ! -e /share/go ]; do sleep 0.02; done; echo done";
    let mounted = |claim: &str| {
        json!({
            "volumes": [{"name": "work", "persistentVolumeClaim": {"claimName": claim}}],
            "containers": [{"name": "main", "image": "x", "command": ["sh", "-c", wait], "volumeMounts": [{"name": "work", "mountPath": "/share"}]}],
        })
    };
    let claims: Api<k8s_openapi::api::core::v1::PersistentVolumeClaim> =
        Api::namespaced(scene.world.client.clone(), "default");
    for name in ["slow", "stopped"] {
        let claim = serde_json::from_value(json!({"metadata": {"name": name}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}})).expect("a claim");
        claims.create(&PostParams::default(), &claim).await.expect("created");
    }
    let slow = scene.pod("slow", mounted("slow")).await;
    let ends = scene.pod("ends", mounted("stopped")).await;
    let gone = scene.script("gone", "echo began; sleep 60").await;
    for pod in [&slow, &ends, &gone] {
        scene.until_log(pod, "began").await;
    }
    let before = scene.world.until_phase("slow", "Running").await;
    scene.stop_agent().await;
    assert!(!go.exists());
    // One ends meanwhile, one's object goes meanwhile.
    let folders = scene.data.path().join("volumes/default");
    std::fs::write(folders.join("stopped/go"), "").expect("written");
    scene.until_log(&ends, "done").await;
    let now = DeleteParams::default().grace_period(0);
    scene.world.pods().delete("gone", &now).await.expect("deleted");
    scene.start_agent();
    let status = scene.world.until_phase("ends", "Succeeded").await;
    assert_eq!((exit_code(&status), main_status(&status).restart_count), (Some(0), 0));
    scene.script("fresh", "true").await;
    let fresh = scene.world.until_phase("fresh", "Succeeded").await;
    assert_ne!(
        fresh.pod_ip, before.pod_ip,
        "an address that somebody has is not given again"
    );
    let gone_folder = scene.folder(&gone);
    until_true("the folder of the pod that is gone", || !gone_folder.exists()).await;
    std::fs::write(folders.join("slow/go"), "").expect("written");
    let after = scene.world.until_phase("slow", "Succeeded").await;
    assert_eq!(before.pod_ip, after.pod_ip);
    assert_eq!(scene.log(&slow), "began\ndone", "it ran once");
    assert!(folders.join("slow/go").exists(), "a claim's contents stay");
    let bound = |claim: Option<&k8s_openapi::api::core::v1::PersistentVolumeClaim>| {
        claim.and_then(|c| c.status.as_ref()?.phase.as_deref()) == Some("Bound")
    };
    until(claims, "slow", bound).await.expect("the claim is bound");
    scene.end().await;
}

/// What a pod's shim wrote last.
fn state_of(folder: &Path) -> Value {
    let text = std::fs::read(folder.join("state.json")).unwrap_or_default();
    serde_json::from_slice(&text).unwrap_or_default()
}

fn kill_shim(folder: &Path) {
    let pid = state_of(folder)["shim"]["pid"].as_i64().expect("the shim's number");
    let pid = rustix::process::Pid::from_raw(i32::try_from(pid).expect("a number")).expect("a process");
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("killed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_shim_costs_a_run_and_no_more() {
    for away in [false, true] {
        let mut scene = Scene::new().await;
        let never = scene.script("never", "echo began; sleep 60").await;
        let spec = json!({"restartPolicy": "Always", "containers": [shell("echo began; sleep 60")]});
        let always = scene.pod("always", spec).await;
        for (name, pod) in [("never", &never), ("always", &always)] {
            scene.until_log(pod, "began").await;
            scene.world.until_phase(name, "Running").await;
        }
        if away {
            scene.stop_agent().await;
        }
        kill_shim(&scene.folder(&never));
        kill_shim(&scene.folder(&always));
        if away {
            scene.start_agent();
        }
        let status = scene.world.until_phase("never", "Failed").await;
        assert_eq!(status.reason.as_deref(), Some("ShimLost"));
        assert_eq!(exit_code(&status), Some(137));
        let again = |pod: Option<&Pod>| {
            let status = pod.and_then(|pod| pod.status.as_ref());
            status.is_some_and(|s| is_true(Some(s), "Ready") && main_status(s).restart_count == 1)
        };
        until(scene.world.pods(), "always", again).await.expect("it runs again");
        scene.delete("always").await;
        scene.delete("never").await;
        scene.end().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn folders_that_a_killed_server_left() {
    let mut scene = Scene::new().await;
    scene.stop_agent().await;
    let unbegun = scene.script("unbegun", "echo once").await;
    // Killed before the plan was written.
    std::fs::create_dir_all(scene.folder(&unbegun).join("volumes/x")).expect("made");
    let stray = scene.data.path().join("pods/no-such-pod");
    std::fs::create_dir_all(&stray).expect("made");
    scene.start_agent();
    scene.world.until_phase("unbegun", "Succeeded").await;
    assert_eq!(scene.log(&unbegun), "once");
    assert!(!stray.exists());
    scene.stop_agent().await;
    // Killed between the plan and the shim.
    let planned = scene.folder(&unbegun);
    std::fs::remove_file(planned.join("state.json")).expect("removed");
    std::fs::remove_dir_all(planned.join("logs")).expect("removed");
    scene.start_agent();
    until_true("its second shim", || state_of(&planned)["over"].is_object()).await;
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_server_finds_when_it_comes_back() {
    let mut scene = Scene::with(|options| options.host_paths = vec![std::env::temp_dir()]).await;
    let shared = tempfile::tempdir().expect("a folder");
    let open_to_all = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(shared.path(), open_to_all).expect("opened");
    let spec = |restart: &str, text: &str| {
        let mut container = shell(text);
        container["volumeMounts"] = json!([{"name": "v", "mountPath": "/share"}]);
        json!({
            "restartPolicy": restart, "volumes": [{"name": "v", "hostPath": {"path": shared.path()}}],
            "containers": [container],
        })
    };
    let wait = "echo began; while [ ! -e /share/go ]; do sleep 0.02; done; echo done";
    let kept = scene.pod("kept", spec("Never", wait)).await;
    let deleted = scene
        .pod("deleted", spec("Always", "echo began | tee -a /share/runs; sleep 60"))
        .await;
    for (name, pod) in [("kept", &kept), ("deleted", &deleted)] {
        scene.until_log(pod, "began").await;
        scene.world.until_phase(name, "Running").await;
    }
    let nodes: Api<Node> = Api::all(scene.world.client.clone());
    let ghost = json!({
        "metadata": {"name": "ghost", "labels": {"basalt.sh/local": "true"}},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    });
    let ghost = serde_json::from_value(ghost).expect("a node");
    nodes.create(&PostParams::default(), &ghost).await.expect("created");
    scene.stop_agent().await;
    let plan = scene.folder(&kept).join("plan.json");
    let mode = std::fs::metadata(&plan).expect("a plan").permissions();
    assert_eq!(std::os::unix::fs::PermissionsExt::mode(&mode) & 0o777, 0o600);
    // One plan cannot be read any more, and the pod is there; another's shim is gone, and the pod is to go.
    std::fs::write(&plan, "{").expect("written");
    kill_shim(&scene.folder(&deleted));
    let params = DeleteParams::default();
    scene.world.pods().delete("deleted", &params).await.expect("deleted");
    scene.start_agent();
    scene.world.until_gone("deleted").await;
    let runs = std::fs::read_to_string(shared.path().join("runs")).expect("runs");
    assert_eq!(runs, "began\n", "what is deleted is not run again");
    let unserved = |node: Option<&Node>| {
        let conditions = node.and_then(|node| node.status.as_ref()?.conditions.as_ref());
        conditions.is_some_and(|all| all.iter().any(|c| c.type_ == "Ready" && c.status == "Unknown"))
    };
    until(nodes, "ghost", unserved).await.expect("nobody serves it");
    std::fs::write(shared.path().join("go"), "").expect("written");
    scene.world.until_phase("kept", "Succeeded").await;
    assert_eq!(scene.log(&kept), "began\ndone", "it ran once");
    scene.delete("kept").await;
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pods_find_each_other_by_name() {
    let scene = Scene::new().await;
    let services: Api<k8s_openapi::api::core::v1::Service> = Api::namespaced(scene.world.client.clone(), "default");
    let service = json!({"metadata": {"name": "group"}, "spec": {"clusterIP": "None", "selector": {"app": "first"}}});
    let service = serde_json::from_value(service).expect("a service");
    services
        .create(&PostParams::default(), &service)
        .await
        .expect("created");
    let member =
        |hostname: &str, text: &str| json!({"hostname": hostname, "subdomain": "group", "containers": [shell(text)]});
    let wait = "until grep -q \"second.group.default.svc.cluster.local\" /etc/hosts; do sleep 0.02; done; getent hosts second.group; sleep 60";
    let first = scene.pod("first", member("first", wait)).await;
    let second = scene
        .pod(
            "second",
            member("second", "until getent hosts group; do sleep 0.02; done; sleep 60"),
        )
        .await;
    let address = |status: PodStatus| status.pod_ip.expect("an address");
    let first_address = address(scene.world.until_phase("first", "Running").await);
    let second_address = address(scene.world.until_phase("second", "Running").await);
    assert_ne!(first_address, second_address);
    scene.until_log(&first, &second_address).await;
    scene.until_log(&second, &first_address).await;
    // Who goes is forgotten.
    scene.delete("second").await;
    let hosts = scene.folder(&first).join("hosts");
    until_true("the name's end", || {
        !std::fs::read_to_string(&hosts).unwrap_or_default().contains("second")
    })
    .await;
    scene.delete("first").await;
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn logs_are_read_while_they_grow() {
    use futures::StreamExt;
    let scene = Scene::new().await;
    let pod = scene
        .script("talks", "for i in 1 2 3; do echo $i; sleep 0.05; done")
        .await;
    scene.until_log(&pod, "1").await;
    let pods = scene.data.path().join("pods");
    let wish = basalt_node::local::logs::LogWish {
        follow: true,
        ..Default::default()
    };
    let uid = pod.metadata.uid.as_deref().expect("a uid");
    let log = basalt_node::local::logs::read(&pods, uid, "main", wish).expect("a log");
    let pieces: Vec<_> = within("the log's end", log.collect::<Vec<_>>()).await;
    let text: Vec<u8> = pieces
        .into_iter()
        .flat_map(|piece| piece.expect("read").to_vec())
        .collect();
    assert_eq!(String::from_utf8_lossy(&text), "1\n2\n3\n");
    scene.delete("talks").await;
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pods_end_with_the_server_if_that_is_wanted() {
    let open = tempfile::tempdir().expect("a folder");
    std::fs::write(open.path().join("seen"), "from the machine\n").expect("written");
    let allowed = open.path().to_owned();
    let mut scene = Scene::with(move |options| {
        options.stop_pods = true;
        options.host_paths = vec![allowed];
    })
    .await;
    let mut container = shell("cat /host/seen; sleep 60");
    container["volumeMounts"] = json!([{"name": "host", "mountPath": "/host"}]);
    // The folder of the test is private, and the pod is another user.
    let open_to_all = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(open.path(), open_to_all).expect("opened");
    let spec = json!({
        "volumes": [{"name": "host", "hostPath": {"path": open.path()}}],
        "containers": [container], "terminationGracePeriodSeconds": 1,
    });
    let pod = scene.pod("long", spec).await;
    scene.until_log(&pod, "from the machine").await;
    scene.world.until_phase("long", "Running").await;
    // One has not called yet when the server leaves.
    let late = scene.script("late", "sleep 60").await;
    let plan = scene.folder(&late).join("plan.json");
    until_true("the plan", || plan.exists()).await;
    scene.stop_agent().await;
    let status = scene.world.until_phase("long", "Failed").await;
    assert_eq!(exit_code(&status), Some(143));
    assert!(state_of(&scene.folder(&late))["over"].is_object());
}
