//! What the steps need of a cluster: a kubeconfig, `kubectl` and `vcctl`, and ten nodes of four cores and 16 Gi.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::server::{Server, eventually};

/// Nothing takes longer, unless it never comes.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);

/// Where the scheduler's configuration matters: which one.
#[derive(Debug, Clone, Copy)]
pub(super) struct Conf {
    /// Names the kubeconfig of a cluster that has it.
    pub(super) name: &'static str,
    /// The configuration; the built-in one if there is none.
    pub(super) text: Option<&'static str>,
}

/// A cluster to try things on.
pub(super) struct Cluster {
    kubeconfig: PathBuf,
    folder: tempfile::TempDir,
    /// Where the cluster is ours, the auditor can look into it.
    server: Option<Server>,
}

impl Cluster {
    /// A `basalt up` of its own; or, with `BASALT_SEEDS_CLUSTERS`, the cluster whose kubeconfig is in that folder
    /// under the configuration's name.
    pub(super) fn with(conf: Conf) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        if let Some(clusters) = std::env::var_os("BASALT_SEEDS_CLUSTERS") {
            let kubeconfig = Path::new(&clusters).join(format!("{}.kubeconfig", conf.name));
            assert!(kubeconfig.is_file(), "{} is missing", kubeconfig.display());
            return Self {
                kubeconfig,
                folder,
                server: None,
            };
        }
        let mut flags = vec!["--nodes", "10", "--node-cpu", "4", "--node-memory", "16Gi"];
        let file = folder.path().join("scheduler.conf");
        if let Some(text) = conf.text {
            std::fs::write(&file, text).expect("a configuration");
            flags.extend(["--conf", file.to_str().expect("a path of text"), "--strict-conf"]);
        }
        let server = Server::start(&folder.path().join("data"), &flags);
        Self {
            kubeconfig: server.kubeconfig(),
            folder,
            server: Some(server),
        }
    }

    /// Lets the auditor look; at rest also at what holds once nothing moves.
    pub(super) fn audit(&self, at_rest: bool) {
        if let Some(server) = &self.server {
            server.audit(at_rest);
        }
    }

    fn run(&self, program: &str, arguments: &[&str], input: &str) -> Output {
        let mut child = Command::new(program)
            .env("KUBECONFIG", &self.kubeconfig)
            .env("HOME", self.folder.path())
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{program} starts: {error}"));
        let mut stdin = child.stdin.take().expect("stdin is piped");
        // Who reads no input may be gone before it is written.
        let _ = stdin.write_all(input.as_bytes());
        drop(stdin);
        child.wait_with_output().expect("the program ends")
    }

    fn good(&self, program: &str, arguments: &[&str], input: &str) -> String {
        let output = self.run(program, arguments, input);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        assert!(output.status.success(), "{arguments:?} failed:\n{input}\n{out}\n{err}");
        out
    }

    /// Runs something that must be refused with exit status 1; returns what it said.
    fn bad(&self, program: &str, arguments: &[&str], input: &str) -> String {
        let output = self.run(program, arguments, input);
        assert_eq!(
            output.status.code(),
            Some(1),
            "{arguments:?} was not refused:\n{input}\n{output:?}"
        );
        String::from_utf8_lossy(&output.stderr).into_owned()
    }

    /// kubectl, which must succeed; arguments are divided at spaces.
    pub(super) fn kubectl(&self, line: &str) -> String {
        self.good("kubectl", &words(line), "")
    }

    /// kubectl, which must be refused; returns what it said.
    pub(super) fn kubectl_refused(&self, line: &str) -> String {
        self.bad("kubectl", &words(line), "")
    }

    /// vcctl, which must succeed.
    pub(super) fn vcctl(&self, line: &str) -> String {
        self.good(env!("CARGO_BIN_EXE_vcctl"), &words(line), "")
    }

    /// basalt itself, which must succeed.
    pub(super) fn basalt(&self, line: &str) -> String {
        self.good(env!("CARGO_BIN_EXE_basalt"), &words(line), "")
    }

    /// vcctl, which must be refused; returns what it said.
    pub(super) fn vcctl_refused(&self, line: &str) -> String {
        self.bad(env!("CARGO_BIN_EXE_vcctl"), &words(line), "")
    }

    /// Applies manifests.
    pub(super) fn apply(&self, manifests: &str) {
        self.good("kubectl", &["apply", "-f", "-"], manifests);
    }

    /// Applies manifests that must be refused; returns what was said.
    pub(super) fn apply_refused(&self, manifests: &str) -> String {
        self.bad("kubectl", &["apply", "-f", "-"], manifests)
    }

    /// A field of an object.
    pub(super) fn field(&self, object: &str, path: &str) -> String {
        self.kubectl(&format!("get {object} -o jsonpath={{{path}}}"))
    }

    /// Waits until a field of an object has a value.
    pub(super) fn wait(&self, object: &str, path: &str, value: &str) {
        let condition = format!("--for=jsonpath={{{path}}}={value}");
        let limit = format!("--timeout={}s", PATIENCE.as_secs());
        let mut arguments = vec!["wait", &condition, &limit];
        arguments.extend(words(object));
        let output = self.run("kubectl", &arguments, "");
        assert!(
            output.status.success(),
            "{object}{path} is not {value} but {}: {}",
            self.field(object, path),
            String::from_utf8_lossy(&output.stderr)
        );
    }

    /// Waits until a queue is in a state.
    pub(super) fn wait_state(&self, queue: &str, state: &str) {
        self.wait(&format!("queue/{queue}"), ".status.state", state);
    }

    /// Which of a job's pods run.
    pub(super) fn running(&self, job: &str) -> Vec<String> {
        let line = format!(
            "get pods -l volcano.sh/job-name={job} --field-selector=status.phase=Running -o jsonpath={{.items[*].metadata.uid}}"
        );
        self.kubectl(&line).split_whitespace().map(str::to_owned).collect()
    }

    /// Waits until so many of a job's pods run.
    pub(super) fn wait_running(&self, job: &str, pods: usize) {
        self.wait(&format!("vcjob/{job}"), ".status.running", &pods.to_string());
    }

    /// The PodGroup of a job.
    pub(super) fn group(&self, job: &str) -> Option<Value> {
        let groups: Value = serde_json::from_str(&self.kubectl("get podgroups -A -o json")).expect("JSON");
        let of_job = |group: &&Value| group["metadata"]["ownerReferences"][0]["name"] == job;
        groups["items"].as_array()?.iter().find(of_job).cloned()
    }

    /// Waits until the scheduler has looked at a job and said why it waits.
    pub(super) fn wait_reasons(&self, job: &str) -> String {
        self.wait_reason(job, "")
    }

    /// Waits until a job waits for a certain reason; gives all its reasons.
    pub(super) fn wait_reason(&self, job: &str, code: &str) -> String {
        eventually(&format!("{job} has a reason {code} to wait"), PATIENCE, || {
            let reasons = self.group(job)?["status"]["reasons"].take();
            let codes = reasons.as_array()?.iter().filter_map(|reason| reason["code"].as_str());
            let found = codes.into_iter().any(|found| code.is_empty() || found == code);
            found.then(|| reasons.to_string())
        })
    }

    /// Lets all pods of a job end well.
    pub(super) fn finish(&self, job: &str) {
        let pods = self.kubectl(&format!("get pods -l volcano.sh/job-name={job} -o name"));
        let done = r#"{"status":{"phase":"Succeeded"}}"#;
        for pod in pods.lines() {
            self.kubectl(&format!("patch {pod} --subresource=status --type=merge -p {done}"));
        }
        self.wait(&format!("vcjob/{job}"), ".status.state.phase", "Completed");
    }

    /// Takes away all jobs, groups, pods and queues, so that the next story begins with nothing.
    pub(super) fn clear(&self) {
        self.kubectl("delete vcjob,podgroup,pod --all --wait");
        let tree: Value = serde_json::from_str(&self.vcctl("queue tree -o json")).expect("JSON");
        let queues = tree["queues"].as_array().into_iter().flatten();
        let names = queues.filter_map(|queue| queue["name"].as_str());
        let ours: Vec<&str> = names.filter(|name| !["root", "default"].contains(name)).collect();
        if ours.is_empty() {
            return;
        }
        self.vcctl(&format!("queue close {}", ours.join(" ")));
        // The tree backwards: children before their parents.
        for queue in ours.iter().rev() {
            self.wait_state(queue, "Closed");
        }
        let last_first: Vec<&str> = ours.iter().rev().copied().collect();
        self.vcctl(&format!("queue delete {} --wait", last_first.join(" ")));
    }
}

fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

/// Whether a refusal says all of these.
pub(super) fn says(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part:?} is not said in: {text}");
    }
}
