//! The flags that say how a queue shall be, the same for creating one and for changing one.

use clap::{Args, ValueEnum};
use serde_json::{Map, Value, json};

use crate::resources::Changes;

/// What is wanted of a queue; what is not given stays as it is.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct SpecArgs {
    /// Share of the queue among its siblings
    #[arg(long, short = 'w', value_parser = clap::value_parser!(i32).range(1..=65_535))]
    pub(crate) weight: Option<i32>,
    /// Whether it takes new jobs
    #[arg(long, short = 'S', value_enum, ignore_case = true)]
    pub(crate) state: Option<State>,
    /// The queue above it
    #[arg(long, value_name = "QUEUE")]
    parent: Option<String>,
    /// Upper limit: cpu=64,memory=256Gi sets these two, memory- takes one away, none takes all away
    #[arg(long, value_name = "LIST")]
    capability: Option<Changes>,
    /// What it is entitled to; others may borrow it and must give it back
    #[arg(long, value_name = "LIST")]
    deserved: Option<Changes>,
    /// What is kept free for it
    #[arg(long, value_name = "LIST")]
    guarantee: Option<Changes>,
    /// Whether other queues may reclaim from it
    #[arg(long, num_args = 0..=1, default_missing_value = "true", require_equals = true, value_name = "true|false")]
    reclaimable: Option<bool>,
    /// Order among queues: higher first
    #[arg(long, value_parser = clap::value_parser!(i32).range(0..))]
    priority: Option<i32>,
}

/// The two states that can be asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum State {
    /// Takes new jobs
    #[value(name = "Open")]
    Open,
    /// Takes none
    #[value(name = "Closed")]
    Closed,
}

impl State {
    /// As the API writes it.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Open => "Open",
            Self::Closed => "Closed",
        }
    }
}

impl SpecArgs {
    /// As a merge patch of `spec`.
    pub(crate) fn patch(self) -> Map<String, Value> {
        let fields = [
            ("weight", self.weight.map(Value::from)),
            ("state", self.state.map(|state| state.word().into())),
            ("parent", self.parent.map(Value::from)),
            ("capability", self.capability.map(Changes::patch)),
            ("deserved", self.deserved.map(Changes::patch)),
            (
                "guarantee",
                self.guarantee.map(|list| json!({"resource": list.patch()})),
            ),
            ("reclaimable", self.reclaimable.map(Value::from)),
            ("priority", self.priority.map(Value::from)),
        ];
        let given = fields
            .into_iter()
            .filter_map(|(field, value)| Some((field.to_owned(), value?)));
        given.collect()
    }
}
