//! `basalt bench`: each figure beside its limit or its peer, measured in the same run.

mod measure;
pub mod store;

/// What to measure.
#[derive(Debug, clap::Subcommand)]
pub enum Bench {
    /// Durable writes per second at several numbers of concurrent writers.
    Store(store::Args),
}

impl Bench {
    /// Measures, and prints the result.
    pub async fn run(self) -> anyhow::Result<()> {
        match self {
            Self::Store(args) => store::run(args).await,
        }
    }
}
