//! `vcctl job scale`: how many pods each task has, and how many must run.

use std::collections::BTreeSet;

use basalt_api::json::{integer_or_zero, string_at};
use basalt_api::resource_kind::JOB;
use clap::Args;
use serde_json::{Value, json};

use super::tasks;
use crate::cli::Namespace;
use crate::error::CliError;
use crate::name::job::Name;
use crate::output::{self, ObjectFormat};
use crate::session::Session;
use crate::terminal::neutral;

/// How often it is tried anew when somebody else changed the job meanwhile.
const TRIES: usize = 10;

#[derive(Debug, Args)]
#[command(
    after_help = "All of it is one change. Of a task that shrinks, the pods with the highest numbers go.\n\nExamples:\n  vcctl job scale train --replicas worker=8\n  vcctl job scale train --replicas ps=2,worker=8 --min-available 6\n  vcctl job scale train --replicas 3 --task-min worker-"
)]
pub(crate) struct ScaleArgs {
    #[command(flatten)]
    name: Name,
    #[command(flatten)]
    namespace: Namespace,
    /// Pods by task; a number alone where there is one task only
    #[arg(long, short = 'r', value_name = "TASK=N,…", value_delimiter = ',', value_parser = replicas)]
    replicas: Vec<Count>,
    /// How many pods must run for the job to run
    #[arg(long, short = 'm', value_name = "N", value_parser = clap::value_parser!(i32).range(1..))]
    min_available: Option<i32>,
    /// How many pods of a task must run; worker- takes that away, and it follows the replicas again
    #[arg(long, value_name = "TASK=N,…", value_delimiter = ',', value_parser = task_min)]
    task_min: Vec<Count>,
    /// How to show the result
    #[arg(long, short = 'o', value_enum)]
    output: Option<ObjectFormat>,
}

/// A number for a task, or none any more.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Count {
    /// Nothing where the job's only task is meant.
    task: Option<String>,
    number: Option<i32>,
}

fn count(text: &str) -> Result<i32, String> {
    let count = text.trim().parse().ok().filter(|count| *count >= 0);
    count.ok_or_else(|| format!("{text:?} is not a number of pods"))
}

fn replicas(text: &str) -> Result<Count, String> {
    let (task, number) = match text.split_once('=') {
        Some((task, number)) => (Some(task.trim().to_owned()), number),
        None => (None, text),
    };
    if task.as_ref().is_some_and(String::is_empty) {
        return Err(format!("{text:?} names no task; write worker=3"));
    }
    Ok(Count {
        task,
        number: Some(count(number)?),
    })
}

fn task_min(text: &str) -> Result<Count, String> {
    match text.trim().strip_suffix('-') {
        Some(task) if !task.is_empty() && !task.contains('=') => Ok(Count {
            task: Some(task.to_owned()),
            number: None,
        }),
        _ => replicas(text),
    }
}

pub(crate) async fn execute(args: ScaleArgs, session: &mut Session<'_>) -> Result<(), CliError> {
    if args.replicas.is_empty() && args.task_min.is_empty() && args.min_available.is_none() {
        return Err(CliError::Usage(
            "nothing to change: give --replicas task=N, --min-available N or --task-min task=N".to_owned(),
        ));
    }
    let name = args.name.clone().take();
    let namespace = session.namespace(args.namespace.namespace.clone()).await?;
    let (job, said) = scale(&args, &namespace, &name, session).await?;
    let shown = match (args.output, said.as_str()) {
        (Some(format), _) => output::made(JOB, vec![job], 1, format)?,
        (None, "") => format!("job {} is so already\n", neutral(&name)),
        (None, said) => format!("scale job {} successfully: {}\n", neutral(&name), neutral(said)),
    };
    session.print(&shown)
}

/// Reads, changes, writes; anew if somebody else wrote in between, but never to another job of that name.
async fn scale(
    args: &ScaleArgs,
    namespace: &str,
    name: &str,
    session: &mut Session<'_>,
) -> Result<(Value, String), CliError> {
    let mut job = session.get(JOB, Some(namespace), name).await?;
    let uid = string_at(&job, "/metadata/uid").to_owned();
    for _ in 0..TRIES {
        let Some((patch, said)) = args.change(&job).map_err(|message| refused(namespace, name, message))? else {
            return Ok((job, String::new()));
        };
        match session.patch("scale", JOB, Some(namespace), name, &patch).await {
            Err(CliError::Conflict { .. }) => job = session.get(JOB, Some(namespace), name).await?,
            outcome => return Ok((outcome?, said)),
        }
        if string_at(&job, "/metadata/uid") != uid {
            return Err(refused(
                namespace,
                name,
                "it was deleted and made anew meanwhile".to_owned(),
            ));
        }
    }
    let message = format!("somebody else changed it {TRIES} times meanwhile");
    Err(refused(namespace, name, message))
}

fn refused(namespace: &str, name: &str, message: String) -> CliError {
    CliError::Refused {
        action: format!("scale job {namespace}/{name}"),
        message,
    }
}

impl ScaleArgs {
    /// The patch, bound to the job as it was read, and what it changes; nothing if all is so already.
    fn change(&self, job: &Value) -> Result<Option<(Value, String)>, String> {
        let mut all: Vec<Value> = tasks(job).cloned().collect();
        let mut said = Vec::new();
        edit(&mut all, &self.replicas, "replicas", "", &mut said)?;
        edit(&mut all, &self.task_min, "minAvailable", " min", &mut said)?;
        let mut spec = json!({});
        if !said.is_empty() {
            spec["tasks"] = Value::Array(all);
        }
        let min = integer_or_zero(job, "/spec/minAvailable");
        if let Some(wanted) = self.min_available.filter(|wanted| i64::from(*wanted) != min) {
            spec["minAvailable"] = json!(wanted);
            said.push(format!("min available {min} -> {wanted}"));
        }
        if said.is_empty() {
            return Ok(None);
        }
        let metadata = json!({
            "uid": string_at(job, "/metadata/uid"),
            "resourceVersion": string_at(job, "/metadata/resourceVersion"),
        });
        Ok(Some((json!({"metadata": metadata, "spec": spec}), said.join(", "))))
    }
}

/// Sets a field of tasks, and says what changes.
fn edit(all: &mut [Value], counts: &[Count], field: &str, word: &str, said: &mut Vec<String>) -> Result<(), String> {
    let names: Vec<String> = all.iter().map(|task| string_at(task, "/name").to_owned()).collect();
    let mut seen = BTreeSet::new();
    for count in counts {
        let at = match (&count.task, names.as_slice()) {
            (Some(task), names) => names
                .iter()
                .position(|name| name == task)
                .ok_or_else(|| format!("it has no task {task:?}; its tasks are {}", names.join(", ")))?,
            (None, [_]) => 0,
            (None, names) => {
                return Err(format!(
                    "it has several tasks, so say which: {}",
                    names
                        .iter()
                        .map(|name| format!("{name}=N"))
                        .collect::<Vec<_>>()
                        .join(",")
                ));
            }
        };
        let (Some(task), Some(name)) = (all.get_mut(at).and_then(Value::as_object_mut), names.get(at)) else {
            return Err("its tasks cannot be read".to_owned());
        };
        if !seen.insert(at) {
            return Err(format!("task {name:?} is named twice"));
        }
        let old = task.get(field).and_then(Value::as_i64);
        // Absent replicas are 0; an absent minimum follows the replicas.
        let same = match count.number {
            Some(new) => old.unwrap_or(if field == "replicas" { 0 } else { -1 }) == i64::from(new),
            None => old.is_none(),
        };
        if same {
            continue;
        }
        let show = |number: Option<i64>| number.map_or("unset".to_owned(), |number| number.to_string());
        said.push(format!(
            "{name}{word} {} -> {}",
            show(old),
            show(count.number.map(i64::from))
        ));
        match count.number {
            Some(number) => drop(task.insert(field.to_owned(), json!(number))),
            None => drop(task.remove(field)),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Cli, Command};
    use crate::job::JobCommand;
    use clap::Parser;

    fn parse(flags: &str) -> Result<ScaleArgs, String> {
        let args = ["vcctl", "job", "scale", "train"].into_iter();
        let cli = Cli::try_parse_from(args.chain(flags.split_whitespace())).map_err(|e| e.kind().to_string())?;
        let Command::Job {
            command: JobCommand::Scale(args),
        } = cli.command
        else {
            panic!("another command")
        };
        Ok(args)
    }

    fn job() -> Value {
        json!({
            "metadata": {"name": "train", "uid": "u1", "resourceVersion": "7"},
            "spec": {"minAvailable": 3, "tasks": [
                {"name": "ps", "replicas": 1, "minAvailable": 1, "template": {"unknown": true}},
                {"name": "worker", "replicas": 2, "newField": [1]},
            ]},
        })
    }

    /// What the flags do to the job: the patch's spec without templates, and the words; or the error.
    fn check(flags: &str, expected: Result<Option<(Value, &str)>, &str>) {
        let changed = parse(flags).and_then(|args| args.change(&job()));
        match (changed, expected) {
            (Ok(Some((patch, said))), Ok(Some((spec, words)))) => {
                assert_eq!(patch["metadata"], json!({"uid": "u1", "resourceVersion": "7"}));
                assert_eq!((&patch["spec"], said.as_str()), (&spec, words), "{flags}");
            }
            (Ok(None), Ok(None)) => {}
            (Err(got), Err(expected)) => assert!(got.contains(expected), "{flags}: {got}"),
            (got, expected) => panic!("{flags}: {got:?} is not {expected:?}"),
        }
    }

    #[test]
    fn one_patch_changes_what_is_given_and_keeps_the_rest() {
        let tasks = |ps: Value, worker: Value| {
            let mut all = job()["spec"]["tasks"].clone();
            for (at, change) in [ps, worker].into_iter().enumerate() {
                for (field, value) in change.as_object().unwrap() {
                    all[at][field] = value.clone();
                }
            }
            all
        };
        check(
            "--replicas worker=5",
            Ok(Some((
                json!({"tasks": tasks(json!({}), json!({"replicas": 5}))}),
                "worker 2 -> 5",
            ))),
        );
        check(
            "-r ps=2,worker=4 --min-available 5",
            Ok(Some((
                json!({"minAvailable": 5, "tasks": tasks(json!({"replicas": 2}), json!({"replicas": 4}))}),
                "ps 1 -> 2, worker 2 -> 4, min available 3 -> 5",
            ))),
        );
        check("-m 1", Ok(Some((json!({"minAvailable": 1}), "min available 3 -> 1"))));
        check(
            "--task-min worker=1",
            Ok(Some((
                json!({"tasks": tasks(json!({}), json!({"minAvailable": 1}))}),
                "worker min unset -> 1",
            ))),
        );
        check("-r worker=2 -m 3 --task-min ps=1", Ok(None));
        check("--task-min worker-", Ok(None));
        let Ok(Some((patch, said))) = parse("--task-min ps-").unwrap().change(&job()) else {
            panic!("a change")
        };
        assert_eq!(said, "ps min 1 -> unset");
        assert!(patch["spec"]["tasks"][0].get("minAvailable").is_none());
        assert_eq!(patch["spec"]["tasks"][0]["template"], json!({"unknown": true}));
    }

    #[test]
    fn wrong_tasks_and_flags_are_told() {
        check("-r workr=3", Err("it has no task \"workr\"; its tasks are ps, worker"));
        check("-r 3", Err("it has several tasks, so say which: ps=N,worker=N"));
        check("-r worker=3,worker=4", Err("task \"worker\" is named twice"));
        for flags in [
            "-r worker=",
            "-r worker=-1",
            "-r =3",
            "-m 0",
            "-r worker=x",
            "--task-min -",
            "-r a=1=2",
        ] {
            assert!(parse(flags).is_err(), "{flags}");
        }
    }

    #[test]
    fn a_number_alone_means_the_only_task() {
        let job = json!({"metadata": {}, "spec": {"tasks": [{"name": "w", "replicas": 1}]}});
        let changed = parse("--replicas 4").unwrap().change(&job).unwrap().unwrap();
        assert_eq!(changed.1, "w 1 -> 4");
        let odd = json!({"spec": {"tasks": ["odd"]}});
        assert!(parse("--replicas 4").unwrap().change(&odd).is_err());
        assert!(parse("--replicas 4").unwrap().change(&json!({})).is_err());
    }
}
