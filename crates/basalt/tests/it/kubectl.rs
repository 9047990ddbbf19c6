//! What a person does with `kubectl` on the first day, against the real binary.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::server::{Server, eventually, example, kubectl_present};

const PATIENCE: Duration = Duration::from_secs(30);

struct Manifest(tempfile::NamedTempFile);

impl Manifest {
    fn new(text: &str) -> Self {
        let mut file = tempfile::Builder::new()
            .suffix(".yaml")
            .tempfile()
            .expect("a temporary file");
        file.write_all(text.as_bytes()).expect("the manifest is written");
        Self(file)
    }

    fn path(&self) -> &str {
        self.0.path().to_str().expect("temporary paths are text")
    }
}

const CONFIG: &str = "
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, labels: {tier: a}}
data: {colour: blue}
";

const POD: &str = "
apiVersion: v1
kind: Pod
metadata: {name: lone}
spec:
  schedulerName: volcano
  containers:
  - {name: main, image: busybox, resources: {requests: {cpu: 100m}}}
";

#[test]
fn a_day_with_kubectl() {
    if !kubectl_present() {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let server = Server::start(folder.path(), &["--nodes", "3"]);
    nodes_and_discovery(&server);
    namespaces(&server);
    apply_edit_patch(&server);
    watch_and_wait(&server);
    pods(&server);
    custom_resources(&server);
    server.audit(true);
}

fn nodes_and_discovery(server: &Server) {
    let nodes = server.kubectl(&["get", "nodes"]);
    assert_eq!(
        nodes.lines().filter(|line| line.contains(" Ready ")).count(),
        3,
        "{nodes}"
    );
    let described = server.kubectl(&["describe", "node", "node-0"]);
    assert!(
        described.contains("Allocatable:") && described.contains("cpu:"),
        "{described}"
    );
    let resources = server.kubectl(&["api-resources"]);
    for kind in [
        "Pod",
        "Queue",
        "PodGroup",
        "Lease",
        "PriorityClass",
        "CustomResourceDefinition",
    ] {
        assert!(resources.contains(kind), "{kind} is missing in\n{resources}");
    }
    let jobs = resources
        .lines()
        .find(|line| line.starts_with("jobs ") && line.contains("batch.volcano.sh/v1alpha1"))
        .expect("our jobs are listed");
    assert!(jobs.contains("vcjob,vj"), "{jobs}");
    assert!(server.kubectl(&["explain", "queue.spec.weight"]).contains("weight"));
    assert!(server.kubectl(&["version"]).contains("Server Version"));
    assert!(server.kubectl(&["auth", "can-i", "create", "pods"]).contains("yes"));
    assert!(server.kubectl(&["cluster-info"]).contains("127.0.0.1"));
}

fn namespaces(server: &Server) {
    assert_eq!(
        server.kubectl(&["create", "ns", "team-a"]),
        "namespace/team-a created\n"
    );
    assert!(
        server
            .kubectl(&["get", "ns", "team-a", "-o", "yaml"])
            .contains("phase: Active")
    );
    server.kubectl(&["create", "configmap", "x", "-n", "team-a", "--from-literal=a=b"]);
    server.kubectl(&["create", "serviceaccount", "robot", "-n", "team-a"]);
    server.kubectl(&["create", "secret", "generic", "s", "-n", "team-a", "--from-literal=k=v"]);
    eventually("the default service account", PATIENCE, || {
        server
            .kubectl(&["get", "sa", "-n", "team-a"])
            .contains("default")
            .then_some(())
    });
    server.kubectl(&["delete", "ns", "team-a"]);
    let gone = server.kubectl_raw(&["get", "configmap", "x", "-n", "team-a"]);
    assert!(String::from_utf8_lossy(&gone.stderr).contains("NotFound"), "{gone:?}");
}

fn apply_edit_patch(server: &Server) {
    let manifest = Manifest::new(CONFIG);
    let dry = server.kubectl(&["apply", "-f", manifest.path(), "--dry-run=server"]);
    assert_eq!(dry, "configmap/settings created (server dry run)\n");
    assert_eq!(
        server.kubectl(&["apply", "-f", manifest.path()]),
        "configmap/settings created\n"
    );
    assert_eq!(
        server.kubectl(&["apply", "-f", manifest.path()]),
        "configmap/settings unchanged\n"
    );
    let edited = Manifest::new(&CONFIG.replace("blue", "red"));
    assert!(server.kubectl(&["diff", "-f", manifest.path()]).is_empty());
    assert_eq!(
        server.kubectl(&["apply", "-f", edited.path()]),
        "configmap/settings configured\n"
    );
    let get = |path: &str| server.kubectl(&["get", "configmap", "settings", "-o", &format!("jsonpath={{{path}}}")]);
    assert_eq!(get(".data.colour"), "red");

    // `kubectl edit` with an editor that is a program.
    let output = Command::new("kubectl")
        .env("KUBECONFIG", server.kubeconfig())
        .env("HOME", &server.data)
        .env("KUBE_EDITOR", "sed -i s/red/green/")
        .args(["edit", "configmap", "settings"])
        .output()
        .expect("kubectl edit runs");
    assert!(output.status.success(), "{output:?}");
    assert_eq!(get(".data.colour"), "green");

    server.kubectl(&[
        "patch",
        "configmap",
        "settings",
        "--type=json",
        "-p",
        r#"[{"op":"add","path":"/data/size","value":"9"}]"#,
    ]);
    server.kubectl(&[
        "patch",
        "configmap",
        "settings",
        "--type=merge",
        "-p",
        r#"{"data":{"colour":null}}"#,
    ]);
    server.kubectl(&["patch", "configmap", "settings", "-p", r#"{"data":{"shape":"round"}}"#]);
    assert_eq!(get(".data"), r#"{"shape":"round","size":"9"}"#);
    server.kubectl(&["label", "configmap", "settings", "tier=b", "--overwrite"]);
    server.kubectl(&["annotate", "configmap", "settings", "note=hello"]);
    assert_eq!(get(".metadata.labels.tier"), "b");
    assert_eq!(get(".metadata.annotations.note"), "hello");
    assert!(
        server
            .kubectl(&["get", "configmap", "-l", "tier=b"])
            .contains("settings")
    );
    let none = server.kubectl_raw(&["get", "configmap", "-l", "tier=none"]);
    assert!(
        String::from_utf8_lossy(&none.stderr).contains("No resources found"),
        "{none:?}"
    );
    deleted(server, "configmap", "settings");
}

/// Deletes an object of the default namespace; from 1.34 on kubectl also says from which namespace.
fn deleted(server: &Server, kind: &str, name: &str) {
    let said = server.kubectl(&["delete", kind, name]);
    let short = format!("{kind} \"{name}\" deleted\n");
    let long = format!("{kind} \"{name}\" deleted from default namespace\n");
    assert!(said == short || said == long, "{said}");
}

fn watch_and_wait(server: &Server) {
    server.kubectl(&["create", "configmap", "seen", "--from-literal=a=1"]);
    let mut child = Command::new("kubectl")
        .env("KUBECONFIG", server.kubeconfig())
        .env("HOME", &server.data)
        .args(["get", "configmap", "seen", "-w", "-o", "jsonpath={.data.a}{\"\\n\"}"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("kubectl get -w starts");
    let mut lines = BufReader::new(child.stdout.take().expect("stdout is piped")).lines();
    assert_eq!(lines.next().expect("a first line").expect("text"), "1");
    server.kubectl(&[
        "patch",
        "configmap",
        "seen",
        "--type=merge",
        "-p",
        r#"{"data":{"a":"2"}}"#,
    ]);
    assert_eq!(lines.next().expect("a second line").expect("text"), "2");
    let _ = child.kill();
    let _ = child.wait();

    server.kubectl(&["delete", "configmap", "seen", "--wait=false"]);
    server.kubectl(&["wait", "--for=delete", "configmap/seen", "--timeout=10s"]);
}

fn pods(server: &Server) {
    let manifest = Manifest::new(POD);
    server.kubectl(&["apply", "-f", manifest.path()]);
    server.kubectl(&["wait", "--for=condition=Ready", "pod/lone", "--timeout=10s"]);
    assert_eq!(
        server.kubectl(&["apply", "-f", manifest.path()]),
        "pod/lone unchanged\n"
    );
    let listed = server.kubectl(&["get", "pods", "-o", "wide"]);
    assert!(
        listed.contains("1/1") && listed.contains("Running") && listed.contains("node-"),
        "{listed}"
    );
    assert!(server.kubectl(&["describe", "pod", "lone"]).contains("Node:"));
    deleted(server, "pod", "lone");
}

fn custom_resources(server: &Server) {
    let definition = example("custom-resource.yaml");
    server.kubectl(&["apply", "-f", &definition]);
    server.kubectl(&[
        "wait",
        "--for=condition=Established",
        "crd/widgets.example.com",
        "--timeout=10s",
    ]);
    assert!(server.kubectl(&["apply", "-f", &definition]).contains("unchanged"));
    let widget = "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: w}\nspec: {size: 7}\n";
    let manifest = Manifest::new(widget);
    assert_eq!(
        server.kubectl(&["apply", "-f", manifest.path()]),
        "widget.example.com/w created\n"
    );
    assert_eq!(
        server.kubectl(&["apply", "-f", manifest.path()]),
        "widget.example.com/w unchanged\n"
    );
    let listed = server.kubectl(&["get", "wd"]);
    assert!(
        listed.contains("SIZE") && listed.contains("COLOUR") && listed.contains("grey"),
        "{listed}"
    );
    assert!(server.kubectl(&["explain", "widget.spec"]).contains("colour"));
    let too_big = Manifest::new(&widget.replace("size: 7", "size: 700"));
    let refused = server.kubectl_raw(&["apply", "-f", too_big.path()]);
    assert!(!refused.status.success());
    let text = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(text.contains("should be less than or equal to 100"), "{text}");
    server.kubectl(&[
        "patch",
        "widget",
        "w",
        "--type=merge",
        "--subresource=status",
        "-p",
        r#"{"status":{"ready":true}}"#,
    ]);
    server.kubectl(&[
        "wait",
        "--for=jsonpath={.status.ready}=true",
        "widget/w",
        "--timeout=10s",
    ]);
    server.kubectl(&["delete", "-f", &definition]);
    eventually("the kind is gone", PATIENCE, || {
        let answer = server.kubectl_raw(&["get", "widgets"]);
        (!answer.status.success()).then_some(())
    });
}
