//! The parts of Basalt that work against a cluster, in one process: each with its lease, all with one face to operators.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context;
use basalt_api::names;
use kube::Config;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::flags::connection::{self, ConnectionFlags};
use crate::monitoring::{Desk, Part, Slot, fill};
use basalt_runtime::controllers::{self, ControllersOptions, Numbers};
use basalt_runtime::leader_election::leader_gate::Ended;
use basalt_runtime::leader_election::write_fence::Tenure;
use basalt_runtime::leader_election::{Ballot, Election, ElectionFlags};
use basalt_runtime::process::{self, Stop};
use basalt_runtime::scheduler::{Face, Scheduler, SchedulerOptions};
use basalt_runtime::write::writer::Writer;
use basalt_webhook::{Webhook, WebhookFlags};

/// The lease of Volcano's controllers.
const CONTROLLERS_LEASE: &str = "vc-controller-manager";
/// All parts must have ended so long after they were told to.
const END_MAX: Duration = Duration::from_secs(15);

/// Where operators look.
#[derive(Debug, Clone, clap::Args)]
pub struct MonitoringFlags {
    /// Where /healthz, /readyz, /metrics and /log are served; port 0 takes a free one
    #[arg(
        long,
        alias = "listen-address",
        value_name = "ADDR:PORT",
        default_value = "127.0.0.1:8080"
    )]
    metrics_listen: SocketAddr,
}

/// What to run.
pub struct Parts {
    /// What the process is called.
    pub name: &'static str,
    /// How to reach the cluster.
    pub connection: ConnectionFlags,
    /// Where operators look.
    pub monitoring: MonitoringFlags,
    /// Who leads, where only one may.
    pub election: Option<ElectionFlags>,
    /// The scheduler.
    pub scheduler: Option<SchedulerOptions>,
    /// The controllers.
    pub controllers: Option<ControllersOptions>,
    /// Admission, and the schedulers that are ours.
    pub webhook: Option<(WebhookFlags, Vec<String>)>,
}

/// The lease of a scheduler of these names, as Volcano names it.
fn scheduler_lease(schedulers: &[String]) -> &str {
    match schedulers {
        [only] => only,
        _ => names::SCHEDULER_NAME,
    }
}

/// What runs, and what is known of it.
struct Running {
    config: Config,
    election: Option<ElectionFlags>,
    tasks: JoinSet<anyhow::Result<()>>,
    tenures: Vec<Tenure>,
    ballots: Vec<Ballot>,
    writers: Vec<(&'static str, Writer)>,
    parts: Vec<Box<dyn Part>>,
    stop: watch::Sender<bool>,
    /// How long the end may take.
    patience: Duration,
}

impl Running {
    /// Contends for a lease; returns what writes while it is held.
    fn contend(&mut self, part: &'static str, lease: &str) -> anyhow::Result<(Election, Writer)> {
        let flags = self.election.as_ref().context("who leads is not said: this is a bug")?;
        let config = connection::named(&self.config, part);
        let election = Election::begin(flags, flags.name().unwrap_or(lease), &config)?;
        self.tenures.push(election.tenure().clone());
        self.ballots.extend(election.ballot());
        let writer = Writer::new(connection::client(config)?, election.tenure().clone());
        self.writers.push((part, writer.clone()));
        Ok((election, writer))
    }

    fn schedule(&mut self, options: SchedulerOptions) -> anyhow::Result<()> {
        // A bad configuration is told before anything begins.
        options.conf.load(options.built_in)?;
        let (election, writer) = self.contend("scheduler", scheduler_lease(&options.engine.scheduler_names))?;
        let slot: Slot<Face> = Slot::default();
        self.parts.push(Box::new(slot.clone()));
        self.tasks.spawn(under(election, schedule(writer, options, slot)));
        Ok(())
    }

    fn control(&mut self, options: ControllersOptions) -> anyhow::Result<()> {
        options.conf.load(options.built_in)?;
        let (election, writer) = self.contend("controllers", CONTROLLERS_LEASE)?;
        let slot: Slot<Numbers> = Slot::default();
        self.parts.push(Box::new(slot.clone()));
        self.tasks.spawn(under(election, control(writer, options, slot)));
        Ok(())
    }

    /// Admission is served by every copy, whoever leads.
    fn admit(&mut self, flags: WebhookFlags, schedulers: Vec<String>) -> anyhow::Result<()> {
        self.patience += flags.drain();
        let client = connection::client(connection::named(&self.config, "webhook"))?;
        let webhook: Webhook = flags.webhook(client, schedulers);
        self.parts.push(Box::new(webhook.clone()));
        let mut stop = self.stop.subscribe();
        self.tasks.spawn(async move {
            let stopped = async move {
                // An error means that the sender is gone, which is an end as well.
                let _ = stop.wait_for(|stop| *stop).await;
            };
            flags.serve(&webhook, stopped).await.context("the webhook failed")
        });
        Ok(())
    }

    /// Resolves with the first part that ends unasked.
    async fn failed(&mut self) -> anyhow::Error {
        match self.tasks.join_next().await {
            Some(Ok(Err(error))) => error,
            Some(Ok(Ok(()))) => anyhow::anyhow!("a part ended"),
            Some(Err(error)) => anyhow::Error::new(error).context("a part panicked: this is a bug"),
            None => std::future::pending().await,
        }
    }

    /// Lets everything come to an end: no new decision, what is under way is done, leases are given up.
    async fn end(mut self) -> anyhow::Result<()> {
        for tenure in &self.tenures {
            tenure.retire();
        }
        self.stop.send_replace(true);
        let all = async {
            let mut outcome = Ok(());
            while let Some(ended) = self.tasks.join_next().await {
                outcome = outcome.and(ended.context("a part panicked: this is a bug").flatten());
            }
            outcome
        };
        match tokio::time::timeout(self.patience, all).await {
            Ok(outcome) => outcome,
            Err(_) => anyhow::bail!("what was under way did not end within {} s", self.patience.as_secs()),
        }
    }
}

impl Parts {
    /// Runs the parts until the process is told to stop, or one of them cannot go on.
    pub async fn run(self, mut stop: Stop) -> anyhow::Result<()> {
        let named = self.election.as_ref().and_then(ElectionFlags::name);
        if let (Some(name), Some(_), Some(_)) = (named, &self.scheduler, &self.controllers) {
            anyhow::bail!(
                "two parts cannot share the Lease {name}: give --leader-elect-resource-name to `basalt scheduler` or `basalt \
                 controllers`, or run one part only"
            );
        }
        let config = self.connection.config().await?;
        let mut running = Running {
            config,
            election: self.election,
            tasks: JoinSet::new(),
            tenures: Vec::new(),
            ballots: Vec::new(),
            writers: Vec::new(),
            parts: Vec::new(),
            stop: watch::Sender::new(false),
            patience: END_MAX,
        };
        let listener = process::listen(self.monitoring.metrics_listen, "--metrics-listen").await?;
        if let Some(options) = self.scheduler {
            running.schedule(options)?;
        }
        if let Some(options) = self.controllers {
            running.control(options)?;
        }
        if let Some((flags, schedulers)) = self.webhook {
            running.admit(flags, schedulers)?;
        }
        let mut parts = std::mem::take(&mut running.parts);
        parts.push(Box::new(running.ballots.clone()));
        parts.push(Box::new(running.writers.clone()));
        let desk = Desk::new(parts);
        println!("{}: health and metrics at http://{}", self.name, listener.local_addr()?);
        let serving = tokio::spawn(desk.clone().serve(listener));
        let failure = tokio::select! {
            () = stop.wished() => None,
            failure = running.failed() => Some(failure),
        };
        desk.leave();
        let outcome = running.end().await;
        serving.abort();
        failure.map_or(outcome, Err)
    }
}

/// Works under a lease, and gives it up when the work has ended. Where something of it may still arrive at the server, the
/// lease runs out by itself: nobody else may lead before that.
async fn under(mut election: Election, work: impl Future<Output = anyhow::Result<Ended>>) -> anyhow::Result<()> {
    let ended = tokio::select! {
        ended = work => ended?,
        failure = election.failed() => return Err(failure),
    };
    match ended {
        Ended::Retired => election.release().await,
        Ended::CutOff | Ended::Deposed => tracing::warn!("not all was answered in time: the lease is not given up"),
    }
    Ok(())
}

/// Schedules; a scheduler that does not lead any more makes room for one that stands by.
async fn schedule(writer: Writer, options: SchedulerOptions, slot: Slot<Face>) -> anyhow::Result<Ended> {
    loop {
        let scheduler = Scheduler::new(writer.anew(), options.clone())?;
        fill(&slot, scheduler.face());
        match scheduler.run().await.context("the scheduler failed")? {
            Ended::Deposed => tracing::warn!("the scheduler does not lead any more, and stands by"),
            ended => return Ok(ended),
        }
    }
}

/// The same for the controllers.
async fn control(writer: Writer, options: ControllersOptions, slot: Slot<Numbers>) -> anyhow::Result<Ended> {
    loop {
        let numbers = Numbers::default();
        fill(&slot, numbers.clone());
        let controllers = controllers::prepare(options.clone())?;
        match controllers
            .run(writer.anew(), numbers)
            .await
            .context("the controllers failed")?
        {
            Ended::Deposed => tracing::warn!("the controllers do not lead any more, and stand by"),
            ended => return Ok(ended),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schedulers_lease_is_named_as_volcano_names_it() {
        let check = |names: &[&str], expected: &str| {
            let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
            assert_eq!(scheduler_lease(&names), expected, "{names:?}");
        };
        check(&["volcano"], "volcano");
        check(&["team-a"], "team-a");
        check(&["volcano", "basalt"], "volcano");
        check(&["team-a", "team-b"], "volcano");
    }
}
