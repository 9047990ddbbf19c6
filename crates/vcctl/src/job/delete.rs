//! `vcctl job delete`

use std::time::Duration;

use clap::Args;
use kube::api::{Api, DynamicObject};
use kube::core::{ApiResource, GroupVersionKind};
use kube::runtime::wait::{await_condition, conditions};
use serde_json::Value;

use crate::cli::Namespace;
use crate::error::CliError;
use crate::output::text;
use crate::rest::JOB;
use crate::session::Session;
use crate::terminal::neutral;

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  vcctl job delete --name hello -n ml\n  vcctl job delete hello goodbye --wait")]
pub(crate) struct DeleteArgs {
    /// Names of jobs
    #[arg(value_name = "NAME", required_unless_present = "name")]
    names: Vec<String>,
    /// Name of the job
    #[arg(long, short = 'N', conflicts_with = "names")]
    name: Option<String>,
    #[command(flatten)]
    namespace: Namespace,
    /// Wait until the jobs are gone
    #[arg(long)]
    wait: bool,
    /// How many seconds to wait for each job
    #[arg(long, default_value_t = 60, value_name = "SECONDS", requires = "wait")]
    timeout: u64,
}

pub(crate) async fn execute(args: DeleteArgs, session: &mut Session<'_>) -> Result<(), CliError> {
    let namespace = session.namespace(args.namespace.namespace.clone()).await?;
    let names: Vec<&String> = args.names.iter().chain(&args.name).collect();
    if names.iter().any(|name| name.is_empty()) {
        return Err(CliError::Usage("a name must not be empty".to_owned()));
    }
    let mut failed = 0;
    for name in &names {
        let result = delete(&namespace, name, &args, session).await;
        match result {
            Ok(()) => session.print(&format!("delete job {} successfully\n", neutral(name)))?,
            Err(error) if names.len() == 1 => return Err(error),
            Err(error) => {
                session.tell_error(&error)?;
                failed += 1;
            }
        }
    }
    match failed {
        0 => Ok(()),
        failed => Err(CliError::Several {
            failed,
            all: names.len(),
        }),
    }
}

async fn delete(namespace: &str, name: &str, args: &DeleteArgs, session: &mut Session<'_>) -> Result<(), CliError> {
    let answer = session.delete(JOB, Some(namespace), name).await?;
    if !args.wait {
        return Ok(());
    }
    let Some(uid) = uid(&answer) else { return Ok(()) };
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(JOB.group, JOB.version, JOB.title));
    let client = session.rest().await?.client.clone();
    let jobs: Api<DynamicObject> = Api::namespaced_with(client, namespace, &resource);
    let gone = await_condition(jobs, name, conditions::is_deleted(uid));
    let what = format!("the deletion of job {namespace}/{name}");
    match tokio::time::timeout(Duration::from_secs(args.timeout), gone).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => Err(CliError::Refused {
            action: format!("follow {what}"),
            message: error.to_string(),
        }),
        Err(_) => Err(CliError::Timeout {
            what,
            seconds: args.timeout,
        }),
    }
}

/// The uid of what is being deleted: the server answers with the object, or with a Status about it.
fn uid(answer: &Value) -> Option<&str> {
    [text(answer, "/metadata/uid"), text(answer, "/details/uid")]
        .into_iter()
        .find(|uid| !uid.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Cli;
    use clap::Parser;
    use serde_json::json;

    #[test]
    fn a_name_comes_by_flag_or_as_an_argument() {
        let check = |flags: &[&str], good: bool| {
            let args = ["vcctl", "job", "delete"].iter().chain(flags);
            assert_eq!(Cli::try_parse_from(args).is_ok(), good, "{flags:?}");
        };
        check(&["-N", "a"], true);
        check(&["--name", "a", "-n", "ml", "--wait", "--timeout", "5"], true);
        check(&["a", "b", "--wait"], true);
        check(&[], false);
        check(&["a", "-N", "b"], false);
        check(&["a", "--timeout", "5"], false);
    }

    #[test]
    fn the_uid_is_found_in_both_answers() {
        assert_eq!(uid(&json!({"kind": "Job", "metadata": {"uid": "u"}})), Some("u"));
        assert_eq!(
            uid(&json!({"kind": "Status", "metadata": {}, "details": {"uid": "u"}})),
            Some("u")
        );
        assert_eq!(uid(&json!({"kind": "Status"})), None);
    }
}
