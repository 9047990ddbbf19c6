//! `vcctl job explain`: all that keeps a job from starting, with numbers.
//!
//! The reasons are the scheduler's own (`PodGroup.status.reasons`); what is added is read from objects. Nothing is guessed:
//! there is no forecast.

mod check;
mod place;

use basalt_api::json::{integer_or_zero, string_at};
use basalt_api::resource_kind::{JOB, QUEUE};
use clap::{Args, ValueEnum};
use kube::api::ListParams;
use serde_json::{Value, json};

use super::{colour, group, phase, queue, replicas};
use crate::cli::Namespace;
use crate::error::CliError;
use crate::name::job::Name;
use crate::output;
use crate::output::age::age;
use crate::session::Session;
use crate::terminal::neutral;
use basalt_api::job::JobPhase;
use check::Check;
use place::Places;

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  vcctl job explain train\n  vcctl job explain -N train -n ml -o json")]
pub(crate) struct ExplainArgs {
    #[command(flatten)]
    name: Name,
    #[command(flatten)]
    namespace: Namespace,
    /// How to show it
    #[arg(long, short = 'o', value_enum)]
    output: Option<ExplainFormat>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ExplainFormat {
    /// The same as JSON
    Json,
    /// The same as YAML
    Yaml,
}

pub(crate) async fn execute(args: ExplainArgs, session: &mut Session<'_>) -> Result<(), CliError> {
    let namespace = session.namespace(args.namespace.namespace).await?;
    let job = session.get(JOB, Some(&namespace), &args.name.take()).await?;
    let group = group::of(&job, session).await?;
    // Who may read a job need not be allowed to read queues: then paths and amounts are not there.
    let queues = session.list(QUEUE, None, &ListParams::default()).await;
    let (queues, unreadable) = match queues {
        Ok(queues) => (queues, None),
        Err(error) => (Vec::new(), Some(error)),
    };
    if let Some(error) = unreadable {
        session.tell(&format!("Warning: queues are not shown: {error}"))?;
    }
    let explanation = Explanation::of(&job, group.as_ref(), &Places::of(&queues));
    let shown = match args.output {
        Some(ExplainFormat::Json) => output::to_json(explanation.data())?,
        Some(ExplainFormat::Yaml) => output::to_yaml(explanation.data())?,
        None => explanation.text(jiff::Timestamp::now(), session.look.colour),
    };
    session.print(&shown)
}

/// Why a job stands where it stands.
struct Explanation<'a> {
    job: &'a Value,
    /// From the top of the tree down to the job's queue.
    path: Vec<String>,
    /// Jobs that wait in that queue, this one counted, if its status says so.
    waiting: Option<i64>,
    /// One sentence, where no check says more.
    verdict: String,
    checks: Vec<Check>,
}

impl<'a> Explanation<'a> {
    fn of(job: &'a Value, group: Option<&Value>, places: &Places<'_>) -> Self {
        let over = phase(job).is_some_and(|phase| phase.is_finished() || is_suspended(phase));
        let reasons = group.filter(|_| !over).map(group::reasons).unwrap_or_default();
        let checks: Vec<Check> = reasons.into_iter().map(|reason| Check::of(reason, places)).collect();
        Self {
            job,
            path: places.path(queue(job)),
            waiting: places.waiting(queue(job)),
            verdict: verdict(job, group, checks.len()),
            checks,
        }
    }

    fn text(&self, now: jiff::Timestamp, coloured: bool) -> String {
        let job = self.job;
        let word = match string_at(job, "/status/state/phase") {
            "" => "Pending",
            word => word,
        };
        let painted = match colour(word).filter(|_| coloured) {
            Some(colour) => colour.paint(word),
            None => neutral(word),
        };
        let waiting = self
            .waiting
            .map_or(String::new(), |waiting| format!(" ({waiting} waiting)"));
        let mut page = format!(
            "{}  {painted} {}  queue {}{waiting}  {} of {} pods run, {} needed\n {}{}\n",
            neutral(string_at(job, "/metadata/name")),
            age(since(job), now),
            neutral(&self.path.join("/")),
            integer_or_zero(job, "/status/running"),
            replicas(job),
            integer_or_zero(job, "/spec/minAvailable"),
            neutral(&self.verdict),
            if self.checks.is_empty() { "" } else { ":" },
        );
        let digits = self.checks.len().to_string().len();
        for (at, check) in self.checks.iter().enumerate() {
            let line = format!("  {:>digits$} {:<9} {}", at + 1, check.word, check.text());
            page.push_str(neutral(&line).trim_end());
            page.push('\n');
        }
        page
    }

    fn data(&self) -> Value {
        let job = self.job;
        let pods = |counter: &str| integer_or_zero(&job["status"], &format!("/{counter}"));
        json!({
            "name": string_at(job, "/metadata/name"),
            "namespace": string_at(job, "/metadata/namespace"),
            "phase": string_at(job, "/status/state/phase"),
            "since": since(job),
            "queue": {"name": queue(job), "path": self.path, "waiting": self.waiting},
            "pods": {
                "wanted": replicas(job),
                "needed": integer_or_zero(job, "/spec/minAvailable"),
                "pending": pods("pending"),
                "running": pods("running"),
                "succeeded": pods("succeeded"),
                "failed": pods("failed"),
            },
            "verdict": self.verdict,
            "checks": self.checks.iter().map(Check::data).collect::<Vec<Value>>(),
        })
    }
}

fn is_suspended(phase: JobPhase) -> bool {
    matches!(phase, JobPhase::Aborting | JobPhase::Aborted)
}

/// When it came to where it stands.
fn since(job: &Value) -> &str {
    match string_at(job, "/status/state/lastTransitionTime") {
        "" => string_at(job, "/metadata/creationTimestamp"),
        time => time,
    }
}

/// One sentence on what the rest is about.
fn verdict(job: &Value, group: Option<&Value>, checks: usize) -> String {
    let phase = phase(job).unwrap_or_default();
    let (running, wanted) = (integer_or_zero(job, "/status/running"), replicas(job));
    let told = [
        string_at(job, "/status/state/reason"),
        string_at(job, "/status/state/message"),
    ];
    let told: Vec<&str> = told.into_iter().filter(|part| !part.is_empty()).collect();
    let because = if told.is_empty() {
        String::new()
    } else {
        format!(": {}", told.join(": "))
    };
    let noun = if checks == 1 { "check" } else { "checks" };
    match phase {
        phase if phase.is_finished() => format!("nothing holds it back, it has ended{because}"),
        phase if is_suspended(phase) => format!("it is suspended{because}"),
        _ if checks > 0 && running > 0 => {
            format!("{running} of {wanted} pods run; the rest is held back by {checks} {noun} that must pass")
        }
        _ if checks > 0 => format!("held back by {checks} {noun} that must pass"),
        JobPhase::Pending if group.is_none() => "the job controller has made no pod group for it yet".to_owned(),
        JobPhase::Pending => {
            "no reason is written: its scheduler has not looked at it yet, or it starts now".to_owned()
        }
        _ => format!("nothing holds it back{because}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queues() -> Vec<Value> {
        let queue = |name: &str, parent: &str, gpus: u32, status: Value| {
            let mut queue = json!({"metadata": {"name": name}, "spec": {"parent": parent}, "status": {"allocated": {"nvidia.com/gpu": gpus.to_string()}}});
            for (field, value) in status.as_object().unwrap() {
                queue["status"][field] = value.clone();
            }
            queue
        };
        vec![
            queue("root", "", 60, json!({})),
            queue("ml", "root", 60, json!({})),
            queue("vision", "ml", 24, json!({"pending": 40, "inqueue": 1})),
            queue("nlp", "ml", 36, json!({})),
            queue("lost", "gone", 0, json!({})),
            queue("turn", "turn", 0, json!({})),
        ]
    }

    fn job(phase: &str, queue: &str, running: u32) -> Value {
        json!({
            "metadata": {"name": "train-7", "namespace": "ml", "creationTimestamp": "2026-11-15T09:40:00Z"},
            "spec": {"queue": queue, "minAvailable": 8, "tasks": [{"name": "w", "replicas": 8}]},
            "status": {"state": {"phase": phase, "lastTransitionTime": "2026-11-15T09:46:00Z"}, "running": running, "pending": 8 - running},
        })
    }

    fn now() -> jiff::Timestamp {
        "2026-11-15T10:00:00Z".parse().unwrap()
    }

    fn explain(job: &Value, reasons: Option<Value>) -> (String, Value) {
        let group = reasons.map(|reasons| json!({"status": {"reasons": reasons}}));
        let queues = queues();
        let explanation = Explanation::of(job, group.as_ref(), &Places::of(&queues));
        (explanation.text(now(), false), explanation.data())
    }

    fn blocked() -> Value {
        json!([
            {"code": "AncestorOverCapability", "queue": "ml", "dimension": "nvidia.com/gpu", "need": "76", "have": "64"},
            {"code": "NotEnoughResources", "dimension": "pods", "need": "8", "have": "3"},
            {"code": "NotEnoughResources", "dimension": "nvidia.com/gpu", "need": "2", "have": "1", "nodes": {"not enough nvidia.com/gpu": 180, "taint": 24, "not ready": 8}},
        ])
    }

    #[test]
    fn all_that_blocks_is_said_with_numbers() {
        let (text, data) = explain(&job("Pending", "vision", 0), Some(blocked()));
        insta::assert_snapshot!("blocked", text);
        insta::assert_snapshot!("blocked_json", output::to_json(data).unwrap());
    }

    #[test]
    fn every_rule_has_its_line() {
        let reasons = json!([
            {"code": "QueueOverCapability", "queue": "vision", "dimension": "cpu", "need": "9", "have": "8"},
            {"code": "QueueOverDeserved", "queue": "vision", "dimension": "cpu", "need": "9", "have": "8"},
            {"code": "ReservedForOthers", "queue": "vision", "dimension": "cpu", "need": "9", "have": "8"},
            {"code": "QueueOvercommitted", "queue": "vision", "dimension": "deserved cpu", "need": "9", "have": "8"},
            {"code": "QueueNotFound", "queue": "nowhere"},
            {"code": "QueueClosed", "queue": "vision"},
            {"code": "QueueNotLeaf", "queue": "ml", "dimension": "nlp"},
            {"code": "QueueTreeBroken", "queue": "lost", "dimension": "gone"},
            {"code": "QueueHeadBlocks", "queue": "vision"},
            {"code": "GangNotReady", "dimension": "pods", "need": "8", "have": "3"},
            {"code": "GangNotReady", "dimension": "pods of task \"w\"", "need": "8", "have": "3"},
            {"code": "WaitingForEviction", "dimension": "pods", "need": "8", "have": "3"},
            {"code": "NoFittingNode", "nodes": {"taint": 3, "affinity": 5}},
            {"code": "NotEnoughResources"},
            {"code": "NodeLocked", "nodes": {"locked": 2}},
            {"code": "ClusterOvercommitted", "dimension": "cpu", "need": "9", "have": "8"},
            {"code": "QuotaExceeded", "dimension": "team: cpu", "need": "9", "have": "8"},
            {"code": "NotSupported", "dimension": "networkTopology"},
            {"code": "Gated", "dimension": "pods", "need": "2"},
            {"code": "BindFailed"},
            {"code": "PodGroupNotFound"},
            {"code": "Mars\u{1b}[2J"},
        ]);
        insta::assert_snapshot!("every_rule", explain(&job("Pending", "vision", 0), Some(reasons)).0);
    }

    #[test]
    fn where_nothing_blocks_that_is_said() {
        let check = |job: &Value, reasons: Option<Value>, expected: &str| {
            let (text, _) = explain(job, reasons);
            assert_eq!(text.lines().nth(1), Some(format!(" {expected}").as_str()), "{text}");
        };
        check(
            &job("Pending", "vision", 0),
            None,
            "the job controller has made no pod group for it yet",
        );
        check(
            &job("Pending", "vision", 0),
            Some(json!([])),
            "no reason is written: its scheduler has not looked at it yet, or it starts now",
        );
        check(&job("Running", "vision", 8), Some(json!([])), "nothing holds it back");
        check(
            &job("Running", "vision", 5),
            Some(json!([{"code": "BindFailed"}])),
            "5 of 8 pods run; the rest is held back by 1 check that must pass:",
        );
        check(&job("Aborted", "vision", 0), Some(blocked()), "it is suspended");
        let mut failed = job("Failed", "vision", 0);
        failed["status"]["state"]["reason"] = json!("MaxRetryReached");
        failed["status"]["state"]["message"] = json!("3 of 3 retries");
        check(
            &failed,
            Some(blocked()),
            "nothing holds it back, it has ended: MaxRetryReached: 3 of 3 retries",
        );
    }

    #[test]
    fn damaged_trees_and_new_jobs_are_shown() {
        let first = |job: &Value| explain(job, None).0.lines().next().unwrap_or_default().to_owned();
        assert_eq!(
            first(&json!({"metadata": {"name": "new", "creationTimestamp": "2026-11-15T09:59:00Z"}})),
            "new  Pending 60s  queue default  0 of 0 pods run, 0 needed"
        );
        assert!(first(&job("Pending", "lost", 0)).contains("queue gone/lost (0 waiting)"));
        assert!(first(&job("Pending", "turn", 0)).contains("queue turn (0 waiting)"));
        let painted = {
            let queues = queues();
            let job = job("Pending", "vision", 0);
            Explanation::of(&job, None, &Places::of(&queues)).text(now(), true)
        };
        assert!(painted.contains("\u{1b}[33mPending\u{1b}[0m"));
    }
}
