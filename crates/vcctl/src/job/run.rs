//! `vcctl job run`: one task from flags, or whatever the files say.

use std::path::PathBuf;

use basalt_api::json::string_at;
use basalt_api::names;
use basalt_api::resource_kind::JOB;
use clap::Args;
use serde_json::{Value, json};

use super::manifest;
use crate::cli::Namespace;
use crate::error::CliError;
use crate::name::job::MaybeName;
use crate::output::{self, ObjectFormat};
use crate::resources::Resources;
use crate::session::Session;
use crate::tally::Tally;
use crate::terminal::neutral;

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  vcctl job run hello --image busybox --replicas 3 --min 3 -q research -- sleep 10\n  vcctl job run --name hello --command \"sh -c 'sleep 10'\"\n  vcctl job run -f train.yaml\n  kustomize build . | vcctl job run -f -",
    group = clap::ArgGroup::new("what").args(["name", "name_flag", "filename"]).required(true).multiple(true)
)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    name: MaybeName,
    #[command(flatten)]
    namespace: Namespace,
    /// Queue that the job goes to [default: the file's, else default]
    #[arg(long, short = 'q')]
    queue: Option<String>,
    /// Image of the container [default: busybox]
    #[arg(long, short = 'i')]
    image: Option<String>,
    /// How many pods [default: 1]
    #[arg(long, short = 'r', value_parser = clap::value_parser!(i32).range(1..))]
    replicas: Option<i32>,
    /// How many of them must run together for the job to start [default: 1]
    #[arg(long, short = 'm', value_parser = clap::value_parser!(i32).range(1..))]
    min: Option<i32>,
    /// What each pod asks for [default: cpu=1000m,memory=100Mi]
    #[arg(long, short = 'R')]
    requests: Option<Resources>,
    /// What each pod may use at most [default: what it asks for]
    #[arg(long, short = 'L')]
    limits: Option<Resources>,
    /// Scheduler that places the pods [default: volcano]
    #[arg(long, short = 'S')]
    scheduler: Option<String>,
    /// Command to run instead of the image's own, split as a shell does
    #[arg(long, short = 'c', value_parser = parse_command)]
    command: Option<CommandLine>,
    /// Jobs to run instead: a YAML or JSON file, a folder of them, or - for stdin
    #[arg(long, short = 'f', value_name = "PATH")]
    filename: Option<PathBuf>,
    /// The same command, after `--`
    #[arg(value_name = "COMMAND", last = true, conflicts_with = "command")]
    words: Vec<String>,
    /// How to show what was made
    #[arg(long, short = 'o', value_enum)]
    output: Option<ObjectFormat>,
}

/// The words of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
struct CommandLine(Vec<String>);

pub(crate) async fn execute(args: RunArgs, session: &mut Session<'_>) -> Result<(), CliError> {
    let output = args.output;
    let jobs = match &args.filename {
        Some(path) => {
            if let Some(warning) = args.in_vain() {
                session.tell(&warning)?;
            }
            manifest::read(path, args.namespace.namespace.as_deref(), args.queue.as_deref())?
        }
        None => vec![from_flags(args)?],
    };
    let all = jobs.len();
    let mut tally = Tally::of(all);
    let mut made = Vec::new();
    for job in jobs {
        let outcome = create(job, session).await;
        let Some(job) = tally.take(outcome, session)? else {
            continue;
        };
        if output.is_none() {
            session.print(&success(&job))?;
        }
        made.push(job);
    }
    if let Some(format) = output {
        session.print(&output::made(JOB, made, all, format)?)?;
    }
    tally.end()
}

async fn create(mut job: Value, session: &mut Session<'_>) -> Result<Value, CliError> {
    let given = Some(string_at(&job, "/metadata/namespace").to_owned()).filter(|n| !n.is_empty());
    let namespace = session.namespace(given).await?;
    job["metadata"]["namespace"] = json!(namespace);
    session.create(JOB, Some(&namespace), &job).await
}

fn success(job: &Value) -> String {
    let (namespace, name) = (
        neutral(string_at(job, "/metadata/namespace")),
        neutral(string_at(job, "/metadata/name")),
    );
    let queue = neutral(string_at(job, "/spec/queue"));
    format!("run job {name} successfully in queue {queue}; `vcctl job view {name} -n {namespace}` shows how it goes\n")
}

impl RunArgs {
    /// What was said about one job though the jobs come from a file. Volcano passes over it without a word.
    fn in_vain(&self) -> Option<String> {
        let given = [
            ("the name", self.name.clone().take().is_some()),
            ("--image", self.image.is_some()),
            ("--replicas", self.replicas.is_some()),
            ("--min", self.min.is_some()),
            ("--requests", self.requests.is_some()),
            ("--limits", self.limits.is_some()),
            ("--scheduler", self.scheduler.is_some()),
            ("the command", self.command.is_some() || !self.words.is_empty()),
        ];
        let flags: Vec<&str> = given
            .iter()
            .filter(|(_, given)| *given)
            .map(|(flag, _)| *flag)
            .collect();
        (!flags.is_empty()).then(|| {
            format!(
                "warning: with --filename the file says it all: {} ignored",
                flags.join(", ")
            )
        })
    }
}

/// The name of the container: the job's, as Volcano has it, as far as it is one for a container.
fn container_name(job: &str) -> String {
    const LABEL_MAX: usize = 63;
    let label: String = job.replace('.', "-").chars().take(LABEL_MAX).collect();
    label.trim_end_matches('-').to_owned()
}

fn from_flags(args: RunArgs) -> Result<Value, CliError> {
    let Some(name) = args.name.take() else {
        return Err(CliError::Usage(
            "a job needs a name, or a file that has one (-f)".to_owned(),
        ));
    };
    let (min, replicas) = (args.min.unwrap_or(1), args.replicas.unwrap_or(1));
    if min > replicas {
        return Err(CliError::Usage(format!(
            "--min {min} is more than --replicas {replicas}: the job could never start"
        )));
    }
    let image = args.image.as_deref().unwrap_or("busybox");
    let mut container = json!({"name": container_name(&name), "image": image, "imagePullPolicy": "IfNotPresent"});
    let words = args.command.map_or(args.words, |CommandLine(words)| words);
    if !words.is_empty() {
        container["command"] = json!(words);
    }
    let requests = match args.requests {
        Some(requests) => requests,
        None => "cpu=1000m,memory=100Mi".parse().map_err(CliError::Usage)?,
    };
    let limits = args.limits.unwrap_or_else(|| requests.clone());
    if let Some(requests) = requests.json() {
        container["resources"]["requests"] = requests;
    }
    if let Some(limits) = limits.json() {
        container["resources"]["limits"] = limits;
    }
    let template = json!({
        "metadata": {"labels": {names::CLI_JOB: name}},
        "spec": {"restartPolicy": "Never", "containers": [container]},
    });
    let mut job = json!({
        "apiVersion": JOB.api_version,
        "kind": JOB.kind,
        "metadata": {"name": name, "labels": {names::CLI_JOB: name}},
        "spec": {
            "schedulerName": args.scheduler.as_deref().unwrap_or(names::SCHEDULER_NAME),
            "minAvailable": min,
            "queue": args.queue.as_deref().unwrap_or(names::DEFAULT_QUEUE),
            "tasks": [{"replicas": replicas, "template": template}],
        },
    });
    if let Some(namespace) = args.namespace.namespace {
        job["metadata"]["namespace"] = json!(namespace);
    }
    Ok(job)
}

/// Splits words as a shell does: blanks, single and double quotes, backslashes; nothing is expanded.
fn parse_command(line: &str) -> Result<CommandLine, String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote: Option<char> = None;
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (Some('\''), c) => word.get_or_insert_default().push(c),
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (_, '\\') => {
                let next = chars.next().ok_or("it ends with a backslash")?;
                word.get_or_insert_default().push(next);
            }
            (None, c) if c.is_whitespace() => words.extend(word.take()),
            (_, c) => word.get_or_insert_default().push(c),
        }
    }
    if quote.is_some() {
        return Err("a quote is not closed".to_owned());
    }
    words.extend(word);
    if words.is_empty() {
        return Err("it is empty".to_owned());
    }
    Ok(CommandLine(words))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Cli, Command};
    use crate::job::JobCommand;
    use clap::Parser;

    fn read(flags: &[&str]) -> Result<RunArgs, String> {
        let args = ["vcctl", "job", "run"].iter().chain(flags);
        let cli = Cli::try_parse_from(args).map_err(|e| e.kind().to_string())?;
        let Command::Job {
            command: JobCommand::Run(args),
        } = cli.command
        else {
            panic!("another command")
        };
        Ok(args)
    }

    fn parse(flags: &[&str]) -> Result<Value, String> {
        from_flags(read(flags)?).map_err(|e| e.to_string())
    }

    #[test]
    fn what_is_said_besides_a_file_is_warned_of() {
        let check = |flags: &[&str], expected: Option<&str>| {
            let warning = read(flags).unwrap().in_vain();
            assert_eq!(
                warning.as_deref(),
                expected
                    .map(|flags| format!("warning: with --filename the file says it all: {flags} ignored"))
                    .as_deref()
            );
        };
        check(&["-f", "job.yaml"], None);
        check(&["-f", "job.yaml", "-n", "ml", "-q", "research", "-o", "json"], None);
        check(&["-f", "job.yaml", "-N", "a"], Some("the name"));
        check(
            &["a", "-f", "job.yaml", "-r", "3", "--", "y"],
            Some("the name, --replicas, the command"),
        );
    }

    #[test]
    fn the_container_has_the_name_of_the_job() {
        let check = |job: &str, container: &str| assert_eq!(container_name(job), container);
        check("hello", "hello");
        check("v1.hello", "v1-hello");
        check(&"a".repeat(70), &"a".repeat(63));
        check(&format!("{}.b", "a".repeat(62)), &"a".repeat(62));
    }

    #[test]
    fn a_job_is_made_of_flags() {
        insta::assert_json_snapshot!("defaults", parse(&["-N", "hello"]).unwrap());
        let all = [
            "-N",
            "hello",
            "-n",
            "ml",
            "-i",
            "python:3",
            "-r",
            "4",
            "-m",
            "2",
            "-R",
            "cpu=500m,nvidia.com/gpu=1",
            "-L",
            "",
            "-S",
            "mine",
            "-q",
            "research",
            "-c",
            "python -c 'print(\"a b\")'",
        ];
        insta::assert_json_snapshot!("all_flags", parse(&all).unwrap());
    }

    #[test]
    fn a_command_may_come_last() {
        let command = |flags: &[&str]| {
            let job = parse(flags).unwrap();
            job["spec"]["tasks"][0]["template"]["spec"]["containers"][0]["command"].clone()
        };
        assert_eq!(
            command(&["a", "--", "sleep", "-x", "1 2"]),
            json!(["sleep", "-x", "1 2"])
        );
        assert_eq!(command(&["a", "-c", "sleep 10"]), json!(["sleep", "10"]));
        assert_eq!(command(&["a"]), Value::Null);
    }

    #[test]
    fn wrong_flags_are_refused() {
        for flags in [
            &["a", "-c", "x", "--", "y"][..],
            &["a", "-N", "b"],
            &["a/b"],
            &[],
            &["-N", ""],
            &["-N", "a", "-r", "0"],
            &["-N", "a", "-m", "3"],
            &["-N", "a", "-R", "cpu=2c"],
            &["-N", "a", "-c", "echo 'open"],
            &["-N", "a", "-o", "wide"],
        ] {
            assert!(parse(flags).is_err(), "{flags:?}");
        }
    }

    #[test]
    fn commands_are_split_as_in_a_shell() {
        let check = |line: &str, expected: Option<&[&str]>| {
            let words = parse_command(line).ok().map(|c| c.0);
            assert_eq!(
                words,
                expected.map(|w| w.iter().map(|w| (*w).to_owned()).collect()),
                "{line}"
            );
        };
        check("sleep 10", Some(&["sleep", "10"]));
        check("  sh  -c 'a && b' ", Some(&["sh", "-c", "a && b"]));
        check(
            r#"echo "a \"b\" 'c'" d\ e '' x"y"z"#,
            Some(&["echo", r#"a "b" 'c'"#, "d e", "", "xyz"]),
        );
        check(r"echo 'a\b'", Some(&["echo", r"a\b"]));
        check("", None);
        check("   ", None);
        check("echo 'a", None);
        check(r"echo \", None);
    }
}
