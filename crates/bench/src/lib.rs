//! `basalt-bench`: each figure beside its limit or its peer, measured in the same run.

pub mod api;
pub mod engine;
pub mod gang;
pub mod get;
pub mod hold;
pub mod live;
mod measure;
pub mod pods;
pub mod queues;
pub mod reservation;
pub mod store;

use anyhow::Context;

/// What to measure.
#[derive(Debug, clap::Subcommand)]
pub enum Bench {
    /// Durable writes per second at several numbers of concurrent writers
    Store(store::Args),
    /// Time from creating a Job to its gang being Running
    Gang(gang::GangOptions),
    /// Jobs on any cluster with any Volcano-compatible scheduler, beside the limit of its API server
    Api(Box<api::ApiOptions>),
    /// How fast the scheduler decides: gangs on many nodes, queues, reclaim
    Engine(engine::EngineOptions),
    /// In-process reads per second on one core
    Get(get::GetOptions),
    /// The live scheduler: time to a node, gangs through the API, idle with pods that fit nowhere
    Live(live::LiveOptions),
    /// A whole cluster in one process: memory, the time of a list, the time of a restart
    Hold(hold::HoldOptions),
    /// Queues, 10,000 of them: admission decisions, closing the tree, counters
    Queues(queues::QueuesOptions),
    /// Pods of this machine: what a process costs as a pod, and what is left of it
    Pods(pods::PodsOptions),
    /// Reserved nodes: a round that chooses them for every queue
    Reservation(reservation::ReservationOptions),
}

impl Bench {
    /// Measures, and prints the result.
    pub fn run(self) -> anyhow::Result<()> {
        // Decisions and reads are measured on one core; everything else has the machine.
        let mut builder = match self {
            Self::Engine(_) | Self::Get(_) | Self::Reservation(_) => tokio::runtime::Builder::new_current_thread(),
            _ => tokio::runtime::Builder::new_multi_thread(),
        };
        let runtime = builder.enable_all().build().context("starting the async runtime")?;
        runtime.block_on(async {
            match self {
                Self::Engine(options) => engine::run(options),
                Self::Store(options) => store::run(options).await,
                Self::Gang(options) => gang::run(options).await,
                Self::Api(options) => api::run(*options).await,
                Self::Get(options) => get::run(options).await,
                Self::Live(options) => live::run(options).await,
                Self::Hold(options) => hold::run(options).await,
                Self::Queues(options) => queues::run(options).await,
                Self::Pods(options) => pods::run(options).await,
                Self::Reservation(options) => reservation::run(options),
            }
        })
    }
}
