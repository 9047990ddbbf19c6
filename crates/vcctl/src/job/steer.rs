//! `vcctl job suspend` and `resume`: orders to the job controller, as Volcano's vcctl gives them.

use basalt_api::job::{Action, JobPhase};
use basalt_api::json::string_at;
use basalt_api::resource_kind::{COMMAND, JOB};
use clap::Args;
use serde_json::{Value, json};

use super::{is_finished, phase};
use crate::cli::Namespace;
use crate::error::CliError;
use crate::name::job::Names;
use crate::output::{self, ObjectFormat};
use crate::session::Session;
use crate::tally::Tally;
use crate::terminal::neutral;

#[derive(Debug, Args)]
pub(crate) struct SteerArgs {
    #[command(flatten)]
    names: Names,
    #[command(flatten)]
    namespace: Namespace,
    /// How to show the Commands that were made
    #[arg(long, short = 'o', value_enum)]
    output: Option<ObjectFormat>,
}

/// An order to a job.
#[derive(Debug)]
pub(super) struct Order {
    verb: &'static str,
    action: Action,
}

/// Stop it; it can be resumed.
pub(super) const SUSPEND: Order = Order {
    verb: "suspend",
    action: Action::AbortJob,
};
/// Go on with it.
pub(super) const RESUME: Order = Order {
    verb: "resume",
    action: Action::ResumeJob,
};

/// Gives the order to all jobs.
pub(super) async fn execute(order: Order, args: SteerArgs, session: &mut Session<'_>) -> Result<(), CliError> {
    let namespace = session.namespace(args.namespace.namespace).await?;
    let names = args.names.take();
    let all = names.len();
    let mut tally = Tally::of(all);
    let mut made = Vec::new();
    for name in &names {
        let outcome = order.give(&namespace, name, session).await;
        let Some(command) = tally.take(outcome, session)? else {
            continue;
        };
        if args.output.is_none() {
            session.print(&format!("{} job {} successfully\n", order.verb, neutral(name)))?;
        }
        made.push(command);
    }
    if let Some(format) = args.output {
        session.print(&output::made(COMMAND, made, all, format)?)?;
    }
    tally.end()
}

impl Order {
    async fn give(&self, namespace: &str, name: &str, session: &mut Session<'_>) -> Result<Value, CliError> {
        let job = session.get(JOB, Some(namespace), name).await?;
        if is_finished(&job) {
            let phase = string_at(&job, "/status/state/phase");
            return Err(CliError::Refused {
                action: format!("{} job {namespace}/{name}", self.verb),
                message: format!("it has ended, it is {phase}"),
            });
        }
        let suspended = matches!(phase(&job), Some(JobPhase::Aborted | JobPhase::Aborting));
        if self.action == Action::ResumeJob && !suspended {
            // It may have been suspended a moment ago, so the order is given all the same.
            session.tell(&format!("Warning: job {} is not suspended", neutral(name)))?;
        }
        session
            .create(COMMAND, Some(namespace), &self.command(namespace, &job))
            .await
    }

    /// The Command: owned by the job, so that it goes with it, and aimed at its uid, so that no other job gets it.
    fn command(&self, namespace: &str, job: &Value) -> Value {
        let (name, action) = (string_at(job, "/metadata/name"), self.action.as_str());
        let target = json!({
            "apiVersion": JOB.api_version,
            "kind": JOB.kind,
            "name": name,
            "uid": string_at(job, "/metadata/uid"),
            "controller": true,
            "blockOwnerDeletion": true,
        });
        json!({
            "apiVersion": COMMAND.api_version,
            "kind": COMMAND.kind,
            "metadata": {
                "generateName": format!("{name}-{}-", action.to_lowercase()),
                "namespace": namespace,
                "ownerReferences": [target],
            },
            "action": action,
            "target": target,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_as_volcanos_vcctl_makes_them() {
        let job = json!({"metadata": {"name": "train", "namespace": "ml", "uid": "u1"}});
        insta::assert_json_snapshot!("suspend", SUSPEND.command("ml", &job));
        let resume = RESUME.command("ml", &job);
        assert_eq!(
            (&resume["metadata"]["generateName"], &resume["action"]),
            (&json!("train-resumejob-"), &json!("ResumeJob"))
        );
    }
}
