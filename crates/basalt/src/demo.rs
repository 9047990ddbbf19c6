//! `basalt up --demo`: a small company's queues and jobs as real processes, and a screen to watch them on.

mod company;
mod lines;
mod machine;
mod screen;
mod view;

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use anyhow::Context;
use basalt_vcctl::lines::{Said, begun, read_lines};
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::Pod;
use kube::api::LogParams;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, ResourceExt};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::up::{System, UpOptions};
use basalt_runtime::process::{self, Stop};
use company::Company;
use view::View;

/// How often what is shown is looked at anew.
const LOOK: Duration = Duration::from_millis(200);
/// Lines that were read and are not shown yet.
const LINES_AHEAD: usize = 1024;

/// How the showing ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Left {
    /// All jobs have ended.
    Over,
    /// The screen was left; the server goes on.
    Screen,
    /// Everything is to end.
    All,
}

/// Starts the system with the company's jobs in it and shows them.
pub fn main(options: UpOptions) -> anyhow::Result<()> {
    let begun = Instant::now();
    process::run(|mut stop| async move {
        let (options, _folder) = options.for_demo()?;
        let mut system = System::start(options).await?;
        let client = system.inside_client();
        let company = Company::read()?;
        company.apply(&client).await?;
        let (say, said) = mpsc::channel(LINES_AHEAD);
        let listening = tokio::spawn(listen(client.clone(), say));
        let stage = Stage {
            client,
            company,
            begun,
            url: system.url().to_owned(),
            cpu: machine::Cpu::default(),
        };
        let showing = async {
            if std::io::stdout().is_terminal() {
                screen::show(stage, said).await
            } else {
                lines::show(stage, said).await
            }
        };
        let left = tokio::select! {
            left = showing => left,
            () = stop.wished() => Ok(Left::All),
            failure = system.failed() => Err(failure),
        };
        listening.abort();
        if left? == Left::Screen {
            go_on(&mut system, &mut stop).await?;
        }
        system.stop().await
    })
}

/// Says what to type next, and keeps the server up for it.
async fn go_on(system: &mut System, stop: &mut Stop) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "The server goes on at {}; in another terminal:\n", system.url())?;
    writeln!(out, "  export KUBECONFIG={}", system.kubeconfig().display())?;
    for line in [
        "kubectl get queues,vcjob,pods",
        "kubectl logs -f train-vision-worker-0",
        "vcctl queue tree",
        "vcctl job explain monthly-report",
        "vcctl job logs augment -f",
        "kubectl apply -f examples/local/all-reduce.yaml",
    ] {
        writeln!(out, "  {line}")?;
    }
    writeln!(
        out,
        "\nCtrl-C ends it. `basalt up` without --demo keeps its data; `--data DIR` says where."
    )?;
    out.flush()?;
    drop(out);
    tokio::select! {
        () = stop.wished() => Ok(()),
        failure = system.failed() => Err(failure),
    }
}

/// What is shown, and where it comes from.
struct Stage {
    client: Client,
    company: Company,
    begun: Instant,
    url: String,
    cpu: machine::Cpu,
}

impl Stage {
    /// How everything stands now. The elastic job is scaled on the way, as its owner would.
    async fn look(&mut self) -> anyhow::Result<View> {
        let machine = machine::Use::now(&mut self.cpu);
        let view = View::read(&self.client, &self.company, machine, &self.url, self.begun.elapsed()).await?;
        self.company.scale(&self.client, &view).await?;
        Ok(view)
    }
}

/// Hands on every line of every pod of the company's jobs.
async fn listen(client: Client, say: mpsc::Sender<Said>) -> anyhow::Result<()> {
    let pods: Api<Pod> = Api::default_namespaced(client);
    let selection = watcher::Config::default().labels(basalt_api::names::JOB_NAME);
    let changes = watcher(pods.clone(), selection).default_backoff().applied_objects();
    let mut changes = std::pin::pin!(changes.map_err(anyhow::Error::from));
    let mut known = std::collections::BTreeSet::new();
    let mut readers = JoinSet::new();
    let params = LogParams {
        follow: true,
        ..LogParams::default()
    };
    while let Some(pod) = changes.next().await {
        while readers.try_join_next().is_some() {}
        let Ok(pod) = pod else { continue };
        let value = serde_json::to_value(&pod).context("a pod as JSON")?;
        if let Some(run) = begun_once(&value, &mut known, &pod) {
            readers.spawn(read_lines(pods.clone(), run, params.clone(), say.clone()));
        }
    }
    Ok(())
}

/// The pod's name, if a run of its container has begun that was not known.
fn begun_once(
    value: &serde_json::Value,
    known: &mut std::collections::BTreeSet<(String, i64)>,
    pod: &Pod,
) -> Option<String> {
    let run = begun(value, None)?;
    known
        .insert((pod.uid().unwrap_or_default(), run))
        .then(|| pod.name_any())
}
