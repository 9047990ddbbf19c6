//! `vcctl job wait`: until a job is in a phase, has been in one, or is gone.

use std::time::Duration;

use basalt_api::job::JobPhase;
use basalt_api::json::{integer_or_zero, string_at};
use basalt_api::resource_kind::JOB;
use clap::Args;
use kube::api::DynamicObject;
use serde_json::Value;
use tokio::sync::watch;

use super::{PHASES, is_finished, parse_phase, phase, replicas};
use crate::cli::Namespace;
use crate::error::CliError;
use crate::name::job::Names;
use crate::session::Session;
use crate::tally::Tally;
use crate::terminal::neutral;
use crate::wait::{objects, span, until};

/// How often a terminal is told how long it takes already.
const TICK: Duration = Duration::from_secs(1);

#[derive(Debug, Args)]
#[command(
    after_help = "PHASE means that the job is in it now; condition=PHASE that it is or has been in it; finished is Completed, Failed or Terminated; delete that it is gone. A job that has ended in another phase, or is gone, ends the waiting with status 1.\n\nExamples:\n  vcctl job wait train\n  vcctl job wait train --for Running --timeout 10m\n  vcctl job wait a b --for finished\n  vcctl job wait train --for condition=Running"
)]
pub(crate) struct WaitArgs {
    #[command(flatten)]
    names: Names,
    #[command(flatten)]
    namespace: Namespace,
    /// What to wait for: PHASE[,PHASE…], condition=PHASE, finished or delete
    #[arg(long = "for", value_name = "WHAT", default_value = "Completed", value_parser = goal)]
    goal: Goal,
    /// How long to wait for each: seconds, or 90s, 10m, 1h30m
    #[arg(long, value_name = "TIME", default_value = "60", value_parser = span)]
    timeout: Duration,
}

/// What is waited for.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Goal {
    /// It is in one of these phases now.
    Now(Vec<JobPhase>),
    /// It is or was in this phase.
    Ever(JobPhase),
    /// It is gone.
    Gone,
}

fn goal(text: &str) -> Result<Goal, String> {
    if let Some(phase) = text.strip_prefix("condition=") {
        return parse_phase(phase).map(Goal::Ever);
    }
    match text.strip_prefix("phase=").unwrap_or(text) {
        "delete" => Ok(Goal::Gone),
        "finished" => Ok(Goal::Now(
            PHASES.into_iter().filter(|phase| phase.is_finished()).collect(),
        )),
        phases => {
            let phases: Result<Vec<JobPhase>, String> = phases.split(',').map(parse_phase).collect();
            phases
                .map(Goal::Now)
                .map_err(|why| format!("{why}, and condition=PHASE, finished, delete"))
        }
    }
}

impl std::fmt::Display for Goal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Now(phases) => {
                let words: Vec<&str> = phases.iter().map(|phase| phase.as_str()).collect();
                f.write_str(&words.join(" or "))
            }
            Self::Ever(phase) => write!(f, "{phase}, now or before"),
            Self::Gone => f.write_str("gone"),
        }
    }
}

/// How a job stands to a goal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Met,
    NotYet,
    /// It has ended otherwise.
    Never,
    /// It is gone, which was not the goal.
    Gone,
}

impl Goal {
    /// `job` is nothing once it is gone, or is another one of that name.
    fn judge(&self, job: Option<&Value>) -> Verdict {
        let Some(job) = job else {
            return if *self == Self::Gone {
                Verdict::Met
            } else {
                Verdict::Gone
            };
        };
        let now = phase(job);
        let met = match self {
            Self::Gone => return Verdict::NotYet,
            Self::Now(phases) => now.is_some_and(|now| phases.contains(&now)),
            Self::Ever(wanted) => {
                let conditions = job.pointer("/status/conditions").and_then(Value::as_array);
                let mut before = conditions.into_iter().flatten();
                now == Some(*wanted) || before.any(|condition| string_at(condition, "/status") == wanted.as_str())
            }
        };
        match met {
            true => Verdict::Met,
            false if is_finished(job) => Verdict::Never,
            false => Verdict::NotYet,
        }
    }
}

pub(crate) async fn execute(args: WaitArgs, session: &mut Session<'_>) -> Result<(), CliError> {
    let namespace = session.namespace(args.namespace.namespace).await?;
    let names = args.names.take();
    let mut tally = Tally::of(names.len());
    for name in &names {
        let outcome = wait(&args.goal, args.timeout, &namespace, name, session).await;
        session.progress("")?;
        if let Some(said) = tally.take(outcome, session)? {
            session.print(&format!("job {} is {}\n", neutral(name), neutral(&said)))?;
        }
    }
    tally.end()
}

/// Waits for one job, and gives the word for what it is then.
async fn wait(
    goal: &Goal,
    limit: Duration,
    namespace: &str,
    name: &str,
    session: &mut Session<'_>,
) -> Result<String, CliError> {
    let job = match session.get(JOB, Some(namespace), name).await {
        Err(CliError::NotFound { .. }) if *goal == Goal::Gone => return Ok("gone".to_owned()),
        job => job?,
    };
    let uid = string_at(&job, "/metadata/uid").to_owned();
    // Only the same job counts, not a later one of that name.
    let same = |object: &DynamicObject| object.metadata.uid.as_deref() == Some(uid.as_str());
    let (sender, states) = watch::channel(Some(job));
    let wanted = |object: Option<&DynamicObject>| {
        let job = object.filter(|object| same(object)).map(|object| object.data.clone());
        let decided = goal.judge(job.as_ref()) != Verdict::NotYet;
        sender.send_replace(job);
        decided
    };
    let objects = objects(JOB, Some(namespace), session).await?;
    let follow = tokio::time::timeout(limit, until(objects, name, wanted));
    tokio::pin!(follow);
    let begun = tokio::time::Instant::now();
    let mut tick = tokio::time::interval(TICK);
    let in_time = loop {
        tokio::select! {
            outcome = &mut follow => break outcome,
            _ = tick.tick() => {
                let line = progress(name, states.borrow().as_ref(), begun.elapsed());
                session.progress(&line)?;
            }
        }
    };
    let job = states.borrow().clone();
    let is = job.as_ref().map_or("gone", |job| string_at(job, "/status/state/phase"));
    let is = if is.is_empty() { "not looked at yet" } else { is };
    let place = format!("{namespace}/{name}");
    match in_time {
        Err(_) => Err(CliError::Timeout {
            what: format!("job {place} is {is}, not {goal}"),
            limit,
        }),
        Ok(outcome) => {
            outcome?;
            match goal.judge(job.as_ref()) {
                Verdict::Met => Ok(is.to_owned()),
                _ => Err(CliError::Unmet(format!("job {place} is {is}, and will not be {goal}"))),
            }
        }
    }
}

/// One line on how far a job is.
fn progress(name: &str, job: Option<&Value>, waited: Duration) -> String {
    let seconds = waited.as_secs();
    let Some(job) = job else {
        return format!("{name}: gone ({seconds}s)");
    };
    let phase = match string_at(job, "/status/state/phase") {
        "" => "not looked at yet",
        phase => phase,
    };
    let (running, all) = (integer_or_zero(job, "/status/running"), replicas(job));
    let (good, bad) = (
        integer_or_zero(job, "/status/succeeded"),
        integer_or_zero(job, "/status/failed"),
    );
    format!("{name}: {phase}, {running} of {all} pods run, {good} succeeded, {bad} failed ({seconds}s)")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn goals_are_read() {
        let check = |text: &str, shown: Option<&str>| {
            assert_eq!(goal(text).ok().map(|goal| goal.to_string()).as_deref(), shown, "{text}");
        };
        check("Running", Some("Running"));
        check("phase=running,Completed", Some("Running or Completed"));
        check("finished", Some("Completed or Terminated or Failed"));
        check("condition=aborted", Some("Aborted, now or before"));
        check("delete", Some("gone"));
        check("Flying", None);
        check("", None);
        check("condition=", None);
    }

    #[test]
    fn jobs_are_judged() {
        let job = |phase: &str, before: &[&str]| {
            let conditions: Vec<Value> = before.iter().map(|phase| json!({"status": phase})).collect();
            json!({"status": {"state": {"phase": phase}, "conditions": conditions}})
        };
        let check = |text: &str, job: Option<Value>, expected: Verdict| {
            assert_eq!(goal(text).unwrap().judge(job.as_ref()), expected, "{text} {job:?}");
        };
        check("Running", Some(job("Pending", &[])), Verdict::NotYet);
        check("Running", Some(job("Running", &[])), Verdict::Met);
        check("Running", Some(job("Completed", &["Running"])), Verdict::Never);
        check("Running", Some(job("Aborted", &["Running"])), Verdict::NotYet);
        check("condition=Running", Some(job("Completed", &["Running"])), Verdict::Met);
        check("condition=Running", Some(job("Failed", &["Pending"])), Verdict::Never);
        check("finished", Some(job("Terminated", &[])), Verdict::Met);
        check("Completed", Some(job("Failed", &[])), Verdict::Never);
        check("Completed", None, Verdict::Gone);
        check("delete", None, Verdict::Met);
        check("delete", Some(job("Completed", &[])), Verdict::NotYet);
        check("Pending", Some(json!({})), Verdict::NotYet);
    }

    #[test]
    fn progress_is_one_line() {
        let job = json!({"spec": {"tasks": [{"replicas": 3}]}, "status": {"state": {"phase": "Running"}, "running": 2, "succeeded": 1}});
        let after = Duration::from_millis(12_900);
        assert_eq!(
            progress("train", Some(&job), after),
            "train: Running, 2 of 3 pods run, 1 succeeded, 0 failed (12s)"
        );
        assert_eq!(
            progress("train", Some(&json!({})), after),
            "train: not looked at yet, 0 of 0 pods run, 0 succeeded, 0 failed (12s)"
        );
        assert_eq!(progress("train", None, after), "train: gone (12s)");
    }
}
