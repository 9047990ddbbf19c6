//! Every manifest of `examples/jobs` ends in the phase that it names, on fake nodes; those of `examples/local` on this machine.
//!
//! `# Ends: PHASE` says in which (`gone`: cleaned away), `# Then: COMMAND` what a person does once the job runs, and
//! `# Sees: TEXT` what the pods have said before that.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::server::{Server, eventually, kubectl_present};

const PATIENCE: Duration = Duration::from_mins(1);

/// What a manifest says of itself.
struct Example {
    file: PathBuf,
    name: String,
    ends: String,
    steps: Vec<Step>,
}

/// What a person waits for, or does.
enum Step {
    Sees(String),
    Then(String),
}

impl Step {
    fn read(line: &str) -> Option<Self> {
        let sees = line
            .strip_prefix("# Sees:")
            .map(|text| Self::Sees(text.trim().to_owned()));
        sees.or_else(|| {
            line.strip_prefix("# Then:")
                .map(|text| Self::Then(text.trim().to_owned()))
        })
    }
}

impl Example {
    fn read(file: PathBuf) -> Self {
        let text = std::fs::read_to_string(&file).expect("a manifest");
        let all = |mark: &str| {
            let lines = text.lines().filter_map(|line| line.strip_prefix(mark));
            lines.map(|line| line.trim().to_owned()).collect::<Vec<_>>()
        };
        let ends = all("# Ends:");
        let name = file.file_stem().expect("a name").to_string_lossy().into_owned();
        assert_eq!(ends.len(), 1, "{name} names one end");
        assert!(
            text.contains(&format!("\n  name: {name}\n")),
            "{name}: the job has the name of its file"
        );
        Self {
            steps: text.lines().filter_map(Step::read).collect(),
            ends: ends.concat(),
            name,
            file,
        }
    }

    fn all(folder: &str) -> Vec<Self> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../examples")
            .join(folder);
        let entries = std::fs::read_dir(folder).expect("a folder of examples");
        let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
        files.sort();
        files.into_iter().map(Self::read).collect()
    }

    fn phase(&self, server: &Server) -> String {
        let path = "-o=jsonpath={.status.state.phase}";
        server.kubectl(&["get", "vcjob", &self.name, "--ignore-not-found", path])
    }

    fn is_absent(&self, server: &Server) -> bool {
        let found = server.kubectl(&["get", "vcjob", &self.name, "--ignore-not-found", "-o=name"]);
        found.trim().is_empty()
    }

    /// Does what a person does once the job runs.
    fn act(&self, server: &Server) {
        if !self.steps.iter().any(|step| matches!(step, Step::Then(_))) {
            return;
        }
        eventually(&format!("{} runs", self.name), PATIENCE, || {
            (self.phase(server) == "Running").then_some(())
        });
        for step in &self.steps {
            let line = match step {
                Step::Then(line) => line,
                Step::Sees(text) => {
                    self.sees(server, text);
                    continue;
                }
            };
            let words: Vec<&str> = line.split_whitespace().collect();
            match words.split_first() {
                Some((&"kubectl", rest)) => server.kubectl(rest),
                Some((&"vcctl", rest)) => server.vcctl(rest),
                _ => panic!("{}: neither kubectl nor vcctl: {line}", self.name),
            };
        }
    }

    /// Waits until a pod has said it.
    fn sees(&self, server: &Server, text: &str) {
        eventually(&format!("{} says {text:?}", self.name), PATIENCE, || {
            let said = server.vcctl_raw(&["job", "logs", &self.name]);
            String::from_utf8_lossy(&said.stdout).contains(text).then_some(())
        });
    }

    fn has_ended(&self, server: &Server) -> bool {
        let phase = self.phase(server);
        let ends = ["Completed", "Failed", "Terminated", "Aborted"];
        assert!(
            phase == self.ends || phase == "Aborted" || !ends.contains(&phase.as_str()) || self.ends == "gone",
            "{} ended in {phase}, not {}",
            self.name,
            self.ends
        );
        // It was there, for it was applied; before anybody has looked at it, it has no phase.
        if self.ends == "gone" {
            self.is_absent(server)
        } else {
            phase == self.ends
        }
    }
}

#[test]
fn every_example_of_a_job_ends_as_it_says() {
    if !kubectl_present() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let server = Server::start(folder.path(), &["--nodes", "20", "--node-cpu", "16"]);
    let examples = Example::all("jobs");
    assert!(examples.len() >= 30, "there are only {} examples", examples.len());
    for example in &examples {
        server.kubectl(&["apply", "-f", &example.file.to_string_lossy()]);
        assert!(
            example.ends != "gone" || !example.is_absent(&server),
            "{} is cleaned away before it was seen",
            example.name
        );
        server.audit(false);
    }
    for example in &examples {
        example.act(&server);
    }
    for example in &examples {
        eventually(&format!("{} ends as {}", example.name, example.ends), PATIENCE, || {
            example.has_ended(&server).then_some(())
        });
        println!("{}: {}", example.name, example.ends);
    }
    server.audit(true);
}

#[test]
fn every_local_example_ends_as_it_says() {
    if !kubectl_present() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let server = Server::start(folder.path(), &["--stop-pods"]);
    let python = Path::new("/usr/bin/python3").exists();
    let examples = Example::all("local");
    assert!(examples.len() >= 6, "there are only {} examples", examples.len());
    // One after another: they are real programs, and this machine may be small.
    for example in examples.iter().filter(|example| python || example.name != "all-reduce") {
        server.kubectl(&["apply", "-f", &example.file.to_string_lossy()]);
        example.act(&server);
        eventually(&format!("{} ends as {}", example.name, example.ends), PATIENCE, || {
            example.has_ended(&server).then_some(())
        });
        for step in &example.steps {
            if let Step::Sees(text) = step
                && !example.steps.iter().any(|step| matches!(step, Step::Then(_)))
            {
                example.sees(&server, text);
            }
        }
        println!("{}: {}", example.name, example.ends);
    }
    server.audit(true);
}
