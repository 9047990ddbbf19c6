//! `vcctl job delete`

use clap::Args;

use crate::cli::Namespace;
use crate::error::CliError;
use crate::rest::JOB;
use crate::session::Session;
use crate::tally::Tally;
use crate::terminal::neutral;
use crate::wait::{self, Wait};

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
    #[command(flatten)]
    wait: Wait,
}

pub(crate) async fn execute(args: DeleteArgs, session: &mut Session<'_>) -> Result<(), CliError> {
    let namespace = session.namespace(args.namespace.namespace.clone()).await?;
    let names: Vec<&String> = args.names.iter().chain(&args.name).collect();
    if names.iter().any(|name| name.is_empty()) {
        return Err(CliError::Usage("a name must not be empty".to_owned()));
    }
    let mut tally = Tally::of(names.len());
    for name in names {
        let outcome = wait::delete(JOB, Some(&namespace), name, args.wait, session).await;
        if tally.take(outcome, session)?.is_some() {
            session.print(&format!("delete job {} successfully\n", neutral(name)))?;
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
        check(&[], false);
        check(&["a", "-N", "b"], false);
        check(&["a", "--timeout", "5"], false);
    }
}
