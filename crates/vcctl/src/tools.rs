//! Volcano's small tools: the same commands under names of their own, with `-n` for the name and `-N` for the namespace.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use clap::{ArgMatches, Args, CommandFactory, FromArgMatches, Parser};

use crate::cli::{Cli, Command, Global};
use crate::job::{JobCommand, delete, list, run, steer, view};
use crate::name;
use crate::queue::{self, QueueCommand};

/// A tool, chosen by the name that the program is called by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tool {
    Vsub,
    Vjobs,
    Vqueues,
    Vcancel,
    Vsuspend,
    Vresume,
}

impl Tool {
    const ALL: [Self; 6] = [
        Self::Vsub,
        Self::Vjobs,
        Self::Vqueues,
        Self::Vcancel,
        Self::Vsuspend,
        Self::Vresume,
    ];
    /// Their names.
    pub(crate) const NAMES: [&'static str; 6] = ["vsub", "vjobs", "vqueues", "vcancel", "vsuspend", "vresume"];

    fn name(self) -> &'static str {
        match self {
            Self::Vsub => "vsub",
            Self::Vjobs => "vjobs",
            Self::Vqueues => "vqueues",
            Self::Vcancel => "vcancel",
            Self::Vsuspend => "vsuspend",
            Self::Vresume => "vresume",
        }
    }

    /// The tool that a program's path names.
    pub(crate) fn of(program: &OsStr) -> Option<Self> {
        let stem = Path::new(program).file_stem()?;
        Self::ALL.into_iter().find(|tool| stem == tool.name())
    }

    /// What it takes: the arguments of the command that it stands for.
    fn command(self) -> clap::Command {
        let base = clap::Command::new(self.name()).version(env!("CARGO_PKG_VERSION"));
        let base = Global::augment_args(base);
        let (command, about, examples) = match self {
            Self::Vsub => (
                from_environment(run::RunArgs::augment_args(base)),
                "Run a job",
                "  vsub -n hello -i busybox -r 3 -m 3 -c \"sleep 10\"\n  vsub hello -N ml -- sleep 10",
            ),
            Self::Vjobs => (
                name::job::MaybeName::augment_args(list::ListArgs::augment_args(base)),
                "List jobs, or show one",
                "  vjobs\n  vjobs -n hello -N ml\n  vjobs --all-namespaces",
            ),
            Self::Vqueues => (
                name::queue::MaybeName::augment_args(queue::list::ListArgs::augment_args(base)),
                "List queues, or show one",
                "  vqueues\n  vqueues -n research",
            ),
            Self::Vcancel => (
                delete::DeleteArgs::augment_args(base),
                "Delete jobs",
                "  vcancel -n hello -N ml\n  vcancel hello goodbye",
            ),
            Self::Vsuspend => (
                steer::SteerArgs::augment_args(base),
                "Suspend jobs",
                "  vsuspend -n hello -N ml",
            ),
            Self::Vresume => (
                steer::SteerArgs::augment_args(base),
                "Resume suspended jobs",
                "  vresume -n hello -N ml",
            ),
        };
        let command = if self == Self::Vqueues {
            command
        } else {
            swapped(command)
        };
        command.about(about).after_help(format!("Examples:\n{examples}"))
    }

    /// The command that it stands for.
    fn meaning(self, matches: &ArgMatches) -> Result<Command, clap::Error> {
        let named = || ["name", "name_flag"].iter().any(|id| matches.contains_id(id));
        let job = match self {
            Self::Vsub => JobCommand::Run(run::RunArgs::from_arg_matches(matches)?),
            Self::Vjobs if named() => JobCommand::View(view::ViewArgs::from_arg_matches(matches)?),
            Self::Vjobs => JobCommand::List(list::ListArgs::from_arg_matches(matches)?),
            Self::Vcancel => JobCommand::Delete(delete::DeleteArgs::from_arg_matches(matches)?),
            Self::Vsuspend => JobCommand::Suspend(steer::SteerArgs::from_arg_matches(matches)?),
            Self::Vresume => JobCommand::Resume(steer::SteerArgs::from_arg_matches(matches)?),
            Self::Vqueues => {
                let command = if named() {
                    QueueCommand::View(queue::view::ViewArgs::from_arg_matches(matches)?)
                } else {
                    QueueCommand::List(queue::list::ListArgs::from_arg_matches(matches)?)
                };
                return Ok(Command::Queue { command });
            }
        };
        Ok(Command::Job { command: job })
    }
}

/// The two shorthands that the tools have the other way round.
fn swapped(command: clap::Command) -> clap::Command {
    command
        .mut_arg("name_flag", |arg| arg.short('n'))
        .mut_arg("namespace", |arg| arg.short('N'))
}

/// What `vsub` takes from the environment.
fn from_environment(command: clap::Command) -> clap::Command {
    command
        .mut_arg("namespace", |arg| {
            arg.env("VOLCANO_DEFAULT_JOB_NAMESPACE").hide_env_values(true)
        })
        .mut_arg("image", |arg| arg.env("VOLCANO_DEFAULT_IMAGE").hide_env_values(true))
        .mut_arg("scheduler", |arg| {
            arg.env("VOLCANO_SCHEDULER_NAME").hide_env_values(true)
        })
}

/// The definitions of all tools.
pub(crate) fn commands() -> Vec<clap::Command> {
    Tool::ALL.into_iter().map(Tool::command).collect()
}

/// Reads a command line; the first argument says as what.
pub(crate) fn parse(args: impl IntoIterator<Item = OsString>) -> Result<(Global, Command), clap::Error> {
    let args: Vec<OsString> = args.into_iter().collect();
    let Some(tool) = args.first().and_then(|program| Tool::of(program)) else {
        let cli = Cli::try_parse_from(args)?;
        return Ok((cli.global, cli.command));
    };
    let mut command = tool.command();
    let parsed = command.try_get_matches_from_mut(args).and_then(|matches| {
        let global = Global::from_arg_matches(&matches)?;
        Ok((global, tool.meaning(&matches)?))
    });
    parsed.map_err(|error| error.format(&mut command))
}

/// The definition of `vcctl`.
pub(crate) fn main_command() -> clap::Command {
    Cli::command()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The debug form of what is meant must contain all parts, or parsing must fail.
    fn check(line: &str, parts: Option<&[&str]>) {
        let parsed = parse(line.split(' ').map(OsString::from));
        match (parsed, parts) {
            (Ok((_, command)), Some(parts)) => {
                let shown = format!("{command:?}");
                for part in parts {
                    assert!(shown.contains(part), "{line}: {part} is not in {shown}");
                }
            }
            (Err(error), None) => assert_eq!(error.exit_code(), 2, "{line}"),
            (parsed, _) => panic!("{line}: {parsed:?}"),
        }
    }

    #[test]
    fn tools_are_known_by_the_programs_name() {
        for (name, tool) in Tool::NAMES.iter().zip(Tool::ALL) {
            assert_eq!(tool.name(), *name);
            assert_eq!(Tool::of(OsStr::new(&format!("/usr/local/bin/{name}"))), Some(tool));
        }
        for other in ["vcctl", "basalt", "", "/", "vsubs"] {
            assert_eq!(Tool::of(OsStr::new(other)), None, "{other}");
        }
    }

    #[test]
    fn tools_mean_commands_with_swapped_shorthands() {
        let train = r#"name_flag: Some("train")"#;
        let ml = r#"namespace: Some("ml")"#;
        check(
            "vsub -n train -N ml -r 3 -m 2",
            Some(&["Run(", train, ml, "replicas: Some(3)"]),
        );
        check("vsub train -- sleep 10", Some(&["Run(", r#""sleep", "10""#]));
        check("/bin/vjobs", Some(&["Job", "List("]));
        check("vjobs -N ml -q research", Some(&["List(", ml, "research"]));
        check("vjobs -n train -N ml -o yaml", Some(&["View(", train, ml, "Yaml"]));
        check("vjobs train", Some(&["View(", r#"name: Some("train")"#]));
        check("vqueues", Some(&["Queue", "List("]));
        check("vqueues -n research", Some(&["Queue", "View(", "research"]));
        check("vcancel -n train -N ml", Some(&["Delete(", r#"["train"]"#, ml]));
        check("vsuspend -n train -N ml", Some(&["Suspend(", r#"["train"]"#, ml]));
        check("vresume train other", Some(&["Resume(", r#"["train", "other"]"#]));
        check(
            "vcctl job resume -N train -n ml",
            Some(&["Resume(", r#"["train"]"#, ml]),
        );
        check("vcancel", None);
        check("vcancel -n a/b", None);
        check("vjobs --replicas 3", None);
        check("vqueues -N ml", None);
        check("vsub", None);
        check("vsuspend -N ml", None);
    }
}
