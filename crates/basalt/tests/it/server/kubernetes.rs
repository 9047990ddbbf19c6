//! A real kube-apiserver with etcd and kube-controller-manager; on it the chart's objects, `basalt manager` under its own
//! service account with real webhooks, and fake nodes of `basalt nodes`.

use std::collections::BTreeSet;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use serde_json::Value;

use super::child::{self, Ends, Line};
use super::eventually;

/// Names the binary of xtask/kubernetes; where it is set, the suite runs on Kubernetes.
pub(crate) const ENGINE: &str = "BASALT_KUBERNETES";
/// Names the chart's objects, rendered.
const OBJECTS: &str = "BASALT_CHART_OBJECTS";
/// Names the objects that an uninstallation needs, rendered.
const UNINSTALL: &str = "BASALT_UNINSTALL_OBJECTS";
/// Names a folder in which the audit logs of all clusters are gathered.
const AUDIT_LOGS: &str = "BASALT_AUDIT_LOGS";
const NAMESPACE: &str = "basalt-system";
const PATIENCE: Duration = Duration::from_mins(2);
const VOLUMES: usize = 20;
/// Objects in which admission sets something.
const QUEUE: &str = "apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata: {name: probe}
spec: {weight: 1}
";
const GROUP: &str = "apiVersion: scheduling.volcano.sh/v1beta1
kind: PodGroup
metadata: {name: probe}
spec: {minMember: 1, queue: default}
";

/// Whether the suite runs on Kubernetes.
pub(crate) fn is_asked_for() -> bool {
    std::env::var_os(ENGINE).is_some()
}

fn path_of(variable: &str) -> PathBuf {
    PathBuf::from(
        std::env::var_os(variable).unwrap_or_else(|| panic!("{variable} is not set: use cargo xtask kube-test")),
    )
}

/// The cluster of one test. Parts end with it.
pub(crate) struct Cluster {
    folder: PathBuf,
    /// Flags of the manager and of the nodes, for another start.
    wishes: Wishes,
    pub(crate) nodes: Option<Ends>,
    pub(crate) manager: Option<Manager>,
    /// Last, so that the others do not miss it when all are dropped.
    engine: Ends,
}

/// A `basalt manager`.
pub(crate) struct Manager {
    pub(crate) process: Ends,
    /// Where it serves health and metrics.
    pub(crate) address: String,
}

/// What the flags of `basalt up` mean here.
#[derive(Debug, Default, Clone)]
struct Wishes {
    manager: Vec<String>,
    nodes: Vec<String>,
    has_conf: bool,
}

impl Wishes {
    fn read(arguments: &[&str]) -> Self {
        let mut wishes = Self::default();
        let mut words = arguments.iter();
        while let Some(&flag) = words.next() {
            let mut value = || {
                words
                    .next()
                    .map(|word| (*word).to_owned())
                    .expect("the flag has a value")
            };
            match flag {
                "--nodes" | "--node-cpu" | "--node-memory" | "--node-gpu" => {
                    wishes.nodes.extend([flag.to_owned(), value()]);
                }
                "--conf" | "--audit-period" => {
                    wishes.has_conf |= flag == "--conf";
                    wishes.manager.extend([flag.to_owned(), value()]);
                }
                "--strict-conf" | "--no-scheduler" | "--no-controllers" => wishes.manager.push(flag.to_owned()),
                _ => panic!(
                    "{flag} means nothing on Kubernetes: say in where.txt that this case is for the embedded server"
                ),
            }
        }
        wishes
    }
}

impl Cluster {
    /// Starts a cluster in a folder, or goes on with the one that was there.
    pub(crate) fn start(folder: &Path, arguments: &[&str]) -> Self {
        let is_new = !folder.join("etcd").exists();
        let engine = engine(folder);
        let mut cluster = Self {
            folder: folder.to_owned(),
            wishes: Wishes::read(arguments),
            nodes: None,
            manager: None,
            engine,
        };
        if is_new {
            cluster.install();
        }
        cluster.kubeconfig_of("manager");
        cluster.manager = Some(cluster.start_manager("manager", &[]));
        cluster.await_admission();
        cluster.await_leader();
        if !cluster.wishes.nodes.is_empty() {
            cluster.nodes = Some(cluster.start_nodes());
        }
        cluster
    }

    fn command(&self, program: &str, arguments: &[&str]) -> Output {
        Command::new(program)
            .env("KUBECONFIG", self.folder.join("kubeconfig"))
            .env("HOME", &self.folder)
            .args(arguments)
            .output()
            .expect("the program runs")
    }

    fn kubectl(&self, arguments: &[&str]) -> String {
        let output = self.command("kubectl", arguments);
        assert!(output.status.success(), "kubectl {arguments:?}: {output:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Installs the chart's objects, and volumes for those who claim some.
    fn install(&self) {
        let objects = path_of(OBJECTS);
        let objects = objects.to_str().expect("a path of text");
        self.kubectl(&["apply", "--server-side", "-f", objects]);
        let volumes = self.folder.join("volumes.yaml");
        std::fs::write(&volumes, (0..VOLUMES).map(volume).collect::<String>()).expect("a manifest");
        self.kubectl(&["apply", "-f", volumes.to_str().expect("a path of text")]);
        self.kubectl(&["wait", "--for=condition=Established", "crd", "--all", "--timeout=60s"]);
        // Its garbage collector would learn of new kinds only after half a minute.
        self.signal("kube-controller-manager", "KILL");
        eventually("namespaces have their service account", PATIENCE, || {
            let accounts = self.kubectl(&["get", "sa", "default", "--ignore-not-found", "-o", "name"]);
            (!accounts.is_empty()).then_some(())
        });
    }

    /// Makes a kubeconfig of a part's service account.
    fn kubeconfig_of(&self, part: &str) -> PathBuf {
        let account = format!("basalt-{part}");
        let token = self.kubectl(&["create", "token", &account, "-n", NAMESPACE, "--duration=2h"]);
        let admin = std::fs::read_to_string(self.folder.join("kubeconfig")).expect("a kubeconfig");
        let own = admin.replace("token: administrator", &format!("token: {}", token.trim()));
        let path = self.folder.join(format!("{part}.kubeconfig"));
        std::fs::write(&path, own).expect("a kubeconfig");
        path
    }

    /// Does what the chart's Job does before an uninstallation, under its account.
    pub(crate) fn uninstall(&self) -> Output {
        let rendered = std::fs::read_to_string(path_of(UNINSTALL)).expect("the objects");
        let is_job = |object: &&str| object.lines().any(|line| line == "kind: Job");
        let objects: Vec<&str> = rendered.split("\n---").filter(|object| !is_job(object)).collect();
        let file = self.folder.join("uninstall.yaml");
        std::fs::write(&file, objects.join("\n---")).expect("a manifest");
        self.kubectl(&["apply", "-f", file.to_str().expect("a path of text")]);
        Command::new(env!("CARGO_BIN_EXE_basalt"))
            .args(["uninstall", "--namespace", NAMESPACE, "--kubeconfig"])
            .arg(self.kubeconfig_of("uninstall"))
            .output()
            .expect("basalt uninstall runs")
    }

    /// Waits until our kinds are admitted: the API server takes a while to see the webhook's address and authority, and the
    /// webhook to see the queues.
    pub(crate) fn await_admission(&self) {
        let (kind, sets) = if self.wishes.manager.iter().any(|flag| flag == "--no-controllers") {
            (QUEUE, "{.spec.state}")
        } else {
            (GROUP, "{.spec.queue}")
        };
        let file = self.folder.join("probe.yaml");
        std::fs::write(&file, kind).expect("a manifest");
        let file = file.to_str().expect("a path of text");
        eventually("our kinds are admitted", PATIENCE, || {
            let path = format!("jsonpath={sets}");
            let output = self.command("kubectl", &["create", "--dry-run=server", "-o", &path, "-f", file]);
            (output.status.success() && !output.stdout.is_empty()).then_some(())
        });
    }

    /// After a crash the lease of the one before must run out first.
    pub(crate) fn await_leader(&self) {
        eventually("the manager leads", PATIENCE, || {
            let metrics = self.metrics();
            let leases = metrics.lines().filter(|line| line.starts_with("basalt_leader"));
            leases
                .clone()
                .all(|lease| lease.ends_with(" 1"))
                .then_some(leases.count() > 0)
        });
    }

    /// Starts one more manager; `name` names its log.
    pub(crate) fn start_manager(&self, name: &str, more: &[&str]) -> Manager {
        let (metrics, webhook) = (free_address(), free_address());
        let mut command = Command::new(env!("CARGO_BIN_EXE_basalt"));
        command
            .args(["manager", "--log", "info", "--kubeconfig"])
            .arg(self.folder.join("manager.kubeconfig"))
            .args(["--metrics-listen", &metrics, "--webhook-listen", &webhook])
            .args([
                "--webhook-url",
                &format!("https://{webhook}"),
                "--webhook-host",
                "127.0.0.1",
            ])
            .args(&self.wishes.manager)
            .args(more);
        if !self.wishes.has_conf {
            let conf = self.folder.join("scheduler.conf");
            std::fs::write(&conf, basalt_engine::conf::EMBEDDED).expect("a configuration");
            command.arg("--conf").arg(conf);
        }
        let log = std::fs::File::options()
            .create(true)
            .append(true)
            .open(self.folder.join("logs").join(name))
            .expect("a log");
        let process = command
            .stdout(Stdio::from(log.try_clone().expect("a log")))
            .stderr(Stdio::from(log))
            .spawn()
            .expect("basalt manager starts");
        let mut manager = Manager {
            process: Ends(process),
            address: metrics,
        };
        eventually("the manager is ready", PATIENCE, || {
            if let Some(status) = manager.process.0.try_wait().expect("a child") {
                panic!("the manager ended: {status}\n{}", self.log(name));
            }
            http_get(&manager.address, "/readyz").contains(" 200 ").then_some(())
        });
        manager
    }

    fn start_nodes(&self) -> Ends {
        let mut command = Command::new(env!("CARGO_BIN_EXE_basalt"));
        command
            .args(["nodes", "--kubeconfig"])
            .arg(self.folder.join("kubeconfig"))
            .args(&self.wishes.nodes);
        Ends(child::spawn(&mut command, Line("ready")))
    }

    /// The metrics of the manager.
    pub(crate) fn metrics(&self) -> String {
        let manager = self.manager.as_ref().expect("a manager runs");
        http_get(&manager.address, "/metrics")
    }

    /// The log of a part.
    pub(crate) fn log(&self, part: &str) -> String {
        std::fs::read_to_string(self.folder.join("logs").join(part)).unwrap_or_default()
    }

    /// Sends a signal to a part of the engine; one that ends is started again at once.
    pub(crate) fn signal(&self, part: &str, signal: &str) {
        let pid = std::fs::read_to_string(self.folder.join("pids").join(part)).expect("a pid");
        child::signal(pid.trim().parse().expect("a pid"), signal);
    }

    /// Everything ends at once.
    pub(crate) fn kill(&mut self) {
        for part in [self.manager.take().map(|manager| manager.process), self.nodes.take()] {
            drop(part);
        }
        child::kill(&mut self.engine.0);
    }

    /// The manager ends as it should; returns its exit code.
    pub(crate) fn stop(&mut self) -> Option<i32> {
        let manager = self.manager.as_mut().expect("a manager runs");
        child::stop(&mut manager.process.0)
    }

    /// What we were never allowed. Right after its start the API server allows nobody anything, which is no finding.
    fn denied(&self) -> BTreeSet<String> {
        let log = std::fs::read_to_string(self.folder.join("audit.log")).unwrap_or_default();
        let events = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let (mut allowed, mut denied) = (BTreeSet::new(), BTreeSet::new());
        for event in events {
            let user = event["user"]["username"].as_str().unwrap_or_default();
            if !user.starts_with("system:serviceaccount:basalt-system:") {
                continue;
            }
            let object = &event["objectRef"];
            let what = format!("{} {} {}", event["verb"], object["resource"], object["subresource"]);
            match event["annotations"]["authorization.k8s.io/decision"].as_str() {
                Some("allow") => allowed.insert(what),
                Some("forbid") => denied.insert(what),
                _ => false,
            };
        }
        &denied - &allowed
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = self.log("manager");
            let lines: Vec<&str> = log.lines().collect();
            let last = lines.len().saturating_sub(40);
            eprintln!("the manager's last words:\n{}", lines[last..].join("\n"));
            return;
        }
        self.manager = None;
        let denied = self.denied();
        assert!(denied.is_empty(), "rights are missing: {denied:#?}");
        if let Some(folder) = std::env::var_os(AUDIT_LOGS) {
            let name = format!("{}-{:?}.log", std::process::id(), std::thread::current().id());
            let gathered = Path::new(&folder).join(name.replace(['(', ')'], ""));
            let text = std::fs::read(self.folder.join("audit.log")).unwrap_or_default();
            let mut file = std::fs::File::options()
                .create(true)
                .append(true)
                .open(gathered)
                .expect("a file");
            std::io::Write::write_all(&mut file, &text).expect("the audit log is kept");
        }
    }
}

/// A volume that somebody may claim.
fn volume(number: usize) -> String {
    format!(
        "apiVersion: v1
kind: PersistentVolume
metadata: {{name: volume-{number}}}
spec:
  capacity: {{storage: 100Gi}}
  accessModes: [ReadWriteOnce, ReadWriteMany, ReadOnlyMany]
  hostPath: {{path: /volume-{number}}}
---
"
    )
}

/// etcd, kube-apiserver and kube-controller-manager.
fn engine(folder: &Path) -> Ends {
    let mut command = Command::new(path_of(ENGINE));
    command.arg("up").arg(folder);
    Ends(child::spawn(&mut command, Line("is ready")))
}

fn free_address() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("an address").to_string()
}

/// A plain HTTP GET; the answer as text, or nothing.
pub(crate) fn http_get(address: &str, path: &str) -> String {
    use std::io::{Read, Write};
    let Ok(mut stream) = std::net::TcpStream::connect(address) else {
        return String::new();
    };
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    let mut text = String::new();
    let done = stream
        .write_all(request.as_bytes())
        .and_then(|()| stream.read_to_string(&mut text));
    done.map(|_| text).unwrap_or_default()
}
