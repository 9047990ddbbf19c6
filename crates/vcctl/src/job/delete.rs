//! `vcctl job delete`

use basalt_api::json::string_at;
use basalt_api::resource_kind::JOB;
use clap::Args;
use kube::api::ListParams;

use crate::cli::Namespace;
use crate::error::CliError;
use crate::name::job::Names;
use crate::session::Session;
use crate::tally::Tally;
use crate::terminal::neutral;
use crate::wait::{self, Wait};

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  vcctl job delete --name hello -n ml\n  vcctl job delete hello goodbye --wait\n  vcctl job delete --all -n ml",
    mut_arg("name", |names| names.required_unless_present("all"))
)]
pub(crate) struct DeleteArgs {
    #[command(flatten)]
    names: Names,
    /// All jobs of the namespace
    #[arg(long, conflicts_with_all = ["name", "name_flag"])]
    all: bool,
    #[command(flatten)]
    namespace: Namespace,
    #[command(flatten)]
    wait: Wait,
}

pub(crate) async fn execute(args: DeleteArgs, session: &mut Session<'_>) -> Result<(), CliError> {
    let namespace = session.namespace(args.namespace.namespace).await?;
    let names = if args.all {
        let jobs = session.list(JOB, Some(&namespace), &ListParams::default()).await?;
        jobs.iter()
            .map(|job| string_at(job, "/metadata/name").to_owned())
            .collect()
    } else {
        args.names.take()
    };
    if names.is_empty() {
        return session.tell("No resources found");
    }
    let mut tally = Tally::of(names.len());
    for name in names {
        let outcome = wait::delete(JOB, Some(&namespace), &name, args.wait, session).await;
        if tally.take(outcome, session)?.is_some() {
            session.print(&format!("delete job {} successfully\n", neutral(&name)))?;
        }
    }
    tally.end()
}

#[cfg(test)]
mod tests {
    use crate::cli::Cli;
    use clap::Parser;

    #[test]
    fn a_name_comes_by_flag_or_as_an_argument() {
        let check = |flags: &[&str], good: bool| {
            let args = ["vcctl", "job", "delete"].iter().chain(flags);
            assert_eq!(Cli::try_parse_from(args).is_ok(), good, "{flags:?}");
        };
        check(&["-N", "a"], true);
        check(&["--name", "a", "-n", "ml", "--wait", "--timeout", "5"], true);
        check(&["a", "b", "--wait"], true);
        check(&["--all", "-n", "ml"], true);
        check(&["--all", "a"], false);
        check(&["a/status"], false);
        check(&["a", "-n", "b/c"], false);
        check(&[], false);
        check(&["a", "-N", "b"], false);
        check(&["a", "--timeout", "5"], false);
    }
}
