//! The parts of Basalt that work against a cluster, in one process: each with its lease, all with one face to operators.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context;
use basalt_api::names;
use kube::{Client, Config};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::connection::{self, ConnectionFlags};
use crate::lease::{Ballot, Election, ElectionFlags};
use crate::live::controllers::{self, ControllersOptions, Numbers};
use crate::live::lead::Ended;
use crate::live::scheduler::{Face, Scheduler, SchedulerOptions};
use crate::live::writer::Writer;
use crate::operations::{Desk, Part, Slot, fill};
use crate::process::{self, Stop};
use crate::tenure::Tenure;
use crate::webhook::{Webhook, WebhookFlags};

/// The lease of Volcano's controllers.
const CONTROLLERS_LEASE: &str = "vc-controller-manager";
/// All parts must have ended so long after they were told to.
const END_MAX: Duration = Duration::from_secs(15);

/// What to run.
pub struct Parts {
    /// What the process is called.
    pub name: &'static str,
    /// How to reach the cluster.
    pub connection: ConnectionFlags,
    /// Where operators look.
    pub metrics_listen: SocketAddr,
    /// Who leads.
    pub election: ElectionFlags,
    /// The scheduler.
    pub scheduler: Option<SchedulerOptions>,
    /// The controllers.
    pub controllers: Option<ControllersOptions>,
    /// Admission.
    pub webhook: Option<WebhookFlags>,
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
    client: Client,
    election: ElectionFlags,
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
        let election = Election::begin(&self.election, lease, &self.config)?;
        self.tenures.push(election.tenure().clone());
        self.ballots.extend(election.ballot());
        let writer = Writer::new(self.client.clone(), election.tenure().clone());
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
    fn admit(&mut self, flags: WebhookFlags) {
        self.patience += flags.drain();
        let webhook: Webhook = flags.webhook(self.client.clone());
        self.parts.push(Box::new(webhook.clone()));
        let mut stop = self.stop.subscribe();
        self.tasks.spawn(async move {
            let stopped = async move {
                // An error means that the sender is gone, which is an end as well.
                let _ = stop.wait_for(|stop| *stop).await;
            };
            flags.serve(&webhook, stopped).await.context("the webhook failed")
        });
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
        let config = self.connection.config().await?;
        let mut running = Running {
            client: connection::client(config.clone())?,
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
        let listener = process::listen(self.metrics_listen, "--metrics-listen").await?;
        if let Some(options) = self.scheduler {
            running.schedule(options)?;
        }
        if let Some(options) = self.controllers {
            running.control(options)?;
        }
        if let Some(flags) = self.webhook {
            running.admit(flags);
        }
        let mut parts = std::mem::take(&mut running.parts);
        parts.push(Box::new(running.ballots.clone()));
        parts.push(Box::new(running.writers.clone()));
        let desk = Desk::new(parts);
        println!("{}: health and metrics at http://{}", self.name, listener.local_addr()?);
        let serving = tokio::spawn(axum::serve(listener, desk.router()).into_future());
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

/// Works under a lease, and gives it up when the work has ended.
async fn under(mut election: Election, work: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<()> {
    let outcome = tokio::select! {
        outcome = work => outcome,
        failure = election.failed() => return Err(failure),
    };
    election.release().await;
    outcome
}

/// Schedules; a scheduler that does not lead any more makes room for one that stands by.
async fn schedule(writer: Writer, options: SchedulerOptions, slot: Slot<Face>) -> anyhow::Result<()> {
    loop {
        let scheduler = Scheduler::new(writer.clone(), options.clone())?;
        fill(&slot, scheduler.face());
        match scheduler.run().await.context("the scheduler failed")? {
            Ended::Retired => return Ok(()),
            Ended::Deposed => tracing::warn!("the scheduler does not lead any more, and stands by"),
        }
    }
}

/// The same for the controllers.
async fn control(writer: Writer, options: ControllersOptions, slot: Slot<Numbers>) -> anyhow::Result<()> {
    loop {
        let numbers = Numbers::default();
        fill(&slot, numbers.clone());
        let controllers = controllers::prepare(options.clone())?;
        match controllers
            .run(writer.clone(), numbers)
            .await
            .context("the controllers failed")?
        {
            Ended::Retired => return Ok(()),
            Ended::Deposed => tracing::warn!("the controllers do not lead any more, and stand by"),
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
