//! `vcctl job logs`: what the pods of a job say, also of those that come later.

use std::collections::BTreeSet;
use std::time::Duration;

use basalt_api::json::string_at;
use basalt_api::names;
use basalt_api::resource_kind::{JOB, POD};
use clap::Args;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{ListParams, LogParams};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::{is_finished, replicas};
use crate::cli::Namespace;
use crate::error::CliError;
use crate::lines::{Said, begun, read_lines};
use crate::name::checked;
use crate::name::job::Name;
use crate::pod::order;
use crate::session::Session;
use crate::terminal::{neutral, tint};
use crate::wait::span;

/// How often pods that are new are looked for.
const LOOK: Duration = Duration::from_millis(500);
/// Lines that were read and are not shown yet.
const LINES_AHEAD: usize = 1024;

#[derive(Debug, Args)]
#[command(
    after_help = "With several pods each line begins with the name of its pod. --follow goes on until the job has ended, and takes in pods that come later: an elastic job may grow, and a restarted one has new pods.\n\nExamples:\n  vcctl job logs train\n  vcctl job logs -N train -n ml --task worker --index 0\n  vcctl job logs train -f --tail 10\n  vcctl job logs train --previous --container main"
)]
pub(crate) struct LogsArgs {
    #[command(flatten)]
    name: Name,
    #[command(flatten)]
    namespace: Namespace,
    /// Only pods of this task
    #[arg(long, short = 't', value_name = "TASK", value_parser = checked)]
    task: Option<String>,
    /// Only the pods of this number in their tasks
    #[arg(long, short = 'i', value_name = "N")]
    index: Option<u32>,
    /// Go on until the job has ended
    #[arg(long, short = 'f', conflicts_with = "previous")]
    follow: bool,
    /// What the run of the container before this one said
    #[arg(long, short = 'p')]
    previous: bool,
    /// Only so many of the last lines of each pod
    #[arg(long, value_name = "N")]
    tail: Option<u32>,
    /// Only what is not older: seconds, or 90s, 10m, 1h30m
    #[arg(long, value_name = "TIME", value_parser = span)]
    since: Option<Duration>,
    /// Each line with its time
    #[arg(long)]
    timestamps: bool,
    /// The container [default: the pod's only one, or the one that its annotation names]
    #[arg(long, short = 'c', value_name = "NAME", value_parser = checked)]
    container: Option<String>,
}

impl LogsArgs {
    fn params(&self) -> LogParams {
        // Less than a second is a second: the API counts in whole ones, and 0 is none.
        let seconds = self.since.map(|since| since.as_secs().max(1));
        LogParams {
            container: self.container.clone(),
            follow: self.follow,
            previous: self.previous,
            since_seconds: seconds.and_then(|seconds| i64::try_from(seconds).ok()),
            tail_lines: self.tail.map(i64::from),
            timestamps: self.timestamps,
            ..LogParams::default()
        }
    }

    fn selector(&self, job: &str) -> ListParams {
        let mut labels = format!("{}={job}", names::JOB_NAME);
        if let Some(task) = &self.task {
            labels = format!("{labels},{}={task}", names::TASK_SPEC);
        }
        if let Some(index) = self.index {
            labels = format!("{labels},{}={index}", names::TASK_INDEX);
        }
        ListParams::default().labels(&labels)
    }
}

pub(crate) async fn execute(args: LogsArgs, session: &mut Session<'_>) -> Result<(), CliError> {
    let namespace = session.namespace(args.namespace.namespace.clone()).await?;
    let name = args.name.clone().take();
    let job = session.get(JOB, Some(&namespace), &name).await?;
    let client = session.rest().await?.client.clone();
    let mut logs = Logs {
        api: Api::namespaced(client, &namespace),
        selector: args.selector(&name),
        params: args.params(),
        prefixed: replicas(&job) > 1 && (args.task.is_none() || args.index.is_none()),
        shown: Vec::new(),
        namespace,
        job: name,
    };
    if args.follow {
        logs.follow(session).await
    } else {
        logs.show(session).await
    }
}

struct Logs {
    api: Api<Pod>,
    selector: ListParams,
    params: LogParams,
    namespace: String,
    job: String,
    /// Whether lines begin with the name of their pod.
    prefixed: bool,
    /// Pods of which something was shown; the place gives the colour.
    shown: Vec<String>,
}

impl Logs {
    async fn pods(&mut self, session: &mut Session<'_>) -> Result<Vec<Value>, CliError> {
        let mut pods = session.list(POD, Some(&self.namespace), &self.selector).await?;
        pods.sort_by(order);
        Ok(pods)
    }

    fn print(&mut self, pod: &str, line: &[u8], session: &mut Session<'_>) -> Result<(), CliError> {
        let line = String::from_utf8_lossy(line);
        if !self.prefixed {
            return session.print(&format!("{line}\n"));
        }
        let place = self.shown.iter().position(|shown| shown == pod).unwrap_or_else(|| {
            self.shown.push(pod.to_owned());
            self.shown.len().saturating_sub(1)
        });
        let name = neutral(pod);
        let name = if session.look.colour { tint(place, &name) } else { name };
        session.print(&format!("{name} {line}\n"))
    }

    /// All that there is now, pod after pod.
    async fn show(&mut self, session: &mut Session<'_>) -> Result<(), CliError> {
        let pods = self.pods(session).await?;
        if pods.is_empty() {
            return Err(CliError::Unmet(format!("job {} has no such pod now", self.job)));
        }
        self.prefixed = pods.len() > 1;
        let mut read = 0_usize;
        let mut silent = Vec::new();
        for pod in &pods {
            let name = string_at(pod, "/metadata/name").to_owned();
            let (say, mut said) = mpsc::channel(LINES_AHEAD);
            let reading = read_lines(self.api.clone(), name, self.params.clone(), say);
            let printing = async {
                let mut why = None;
                while let Some(Said { pod, line }) = said.recv().await {
                    match line {
                        Ok(line) => self.print(&pod, &line, session)?,
                        Err(refusal) => why = Some(format!("pod {pod}: {refusal}")),
                    }
                }
                Ok::<_, CliError>(why)
            };
            let ((), why) = tokio::join!(reading, printing);
            match why? {
                Some(why) => silent.push(why),
                None => read += 1,
            }
        }
        for why in &silent {
            session.tell(&neutral(why))?;
        }
        if read == 0 {
            let why = format!("no pod of job {} has anything to show", self.job);
            return Err(CliError::Unmet(why));
        }
        Ok(())
    }

    /// What is said from now on too, until the job has ended.
    async fn follow(&mut self, session: &mut Session<'_>) -> Result<(), CliError> {
        let (say, mut said) = mpsc::channel::<Said>(LINES_AHEAD);
        let mut readers = JoinSet::new();
        let mut known = BTreeSet::new();
        let mut look = tokio::time::interval(LOOK);
        loop {
            tokio::select! {
                Some(Said { pod, line }) = said.recv() => match line {
                    Ok(line) => {
                        self.print(&pod, &line, session)?;
                        if said.is_empty() {
                            session.flush()?;
                        }
                    }
                    Err(why) => session.tell(&neutral(&format!("pod {pod}: {why}")))?,
                },
                _ = look.tick() => {
                    while readers.try_join_next().is_some() {}
                    // Looked at before the pods, so that a pod that comes between the two is not missed.
                    let over = self.is_over(session).await?;
                    let before = known.len();
                    for (run, pod) in self.readable(session).await? {
                        if known.insert(run) {
                            readers.spawn(read_lines(self.api.clone(), pod, self.params.clone(), say.clone()));
                        }
                    }
                    if over && known.len() == before && readers.is_empty() && said.is_empty() {
                        return session.flush();
                    }
                }
            }
        }
    }

    /// Whether the job has ended or is gone.
    async fn is_over(&self, session: &mut Session<'_>) -> Result<bool, CliError> {
        match session.get(JOB, Some(&self.namespace), &self.job).await {
            Ok(job) => Ok(is_finished(&job)),
            Err(CliError::NotFound { .. }) => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// Runs of containers that have begun: who they are, and the name of their pod.
    async fn readable(&mut self, session: &mut Session<'_>) -> Result<Vec<(String, String)>, CliError> {
        let wanted = self.params.container.clone();
        let pods = self.pods(session).await?;
        self.prefixed |= pods.len() > 1;
        let run = |pod: &Value| {
            let begun = begun(pod, wanted.as_deref())?;
            let uid = string_at(pod, "/metadata/uid");
            Some((format!("{uid} {begun}"), string_at(pod, "/metadata/name").to_owned()))
        };
        Ok(pods.iter().filter_map(run).collect())
    }
}
