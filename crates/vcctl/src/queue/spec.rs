//! The flags that say how a queue shall be, the same for creating one and for changing one.

use basalt_api::fraction::{Fraction, FractionError};
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
    #[command(flatten)]
    guarantee: GuaranteeArgs,
    /// Whether other queues may reclaim from it
    #[arg(long, num_args = 0..=1, default_missing_value = "true", require_equals = true, value_name = "true|false")]
    reclaimable: Option<bool>,
    /// Order among queues: higher first
    #[arg(long, value_parser = clap::value_parser!(i32).range(0..))]
    priority: Option<i32>,
}

/// What is kept for a queue, and how.
#[derive(Debug, Clone, Default, Args)]
struct GuaranteeArgs {
    /// What is kept free for it; none alone takes all that is guaranteed away, also a percentage
    #[arg(long, value_name = "LIST")]
    guarantee: Option<Changes>,
    /// Whether pods of others are evicted to make it good
    #[arg(long, value_enum, ignore_case = true)]
    guarantee_policy: Option<Policy>,
    /// Keep this part of the nodes for it, 0.2 is a fifth; none takes it away
    #[arg(long, value_name = "SHARE")]
    guarantee_percentage: Option<Percentage>,
    /// Resources that a node must offer to be counted in the percentage
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    guarantee_dimensions: Option<Vec<String>>,
}

/// How hard a guarantee is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Policy {
    /// Waits for pods of others to end
    #[value(name = "Best-Effort")]
    BestEffort,
    /// Evicts them
    #[value(name = "Guaranteed")]
    Guaranteed,
}

/// A part of the nodes, or none any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Percentage(Option<Fraction>);

impl std::str::FromStr for Percentage {
    type Err = FractionError;

    fn from_str(text: &str) -> Result<Self, FractionError> {
        match text {
            "none" => Ok(Self(None)),
            share => share.parse().map(|share| Self(Some(share))),
        }
    }
}

impl GuaranteeArgs {
    /// As a merge patch of `spec.guarantee`.
    fn patch(self) -> Option<Value> {
        let mut fields = Map::new();
        if let Some(policy) = self.guarantee_policy {
            let word = match policy {
                Policy::BestEffort => "Best-Effort",
                Policy::Guaranteed => "Guaranteed",
            };
            fields.insert("policy".to_owned(), word.into());
        }
        let mut percentage = Map::new();
        if let Some(Percentage(Some(share))) = self.guarantee_percentage {
            percentage.insert("value".to_owned(), json!(share));
        }
        if let Some(dimensions) = self.guarantee_dimensions {
            percentage.insert("dimensions".to_owned(), json!(dimensions));
        }
        let gone = self.guarantee_percentage == Some(Percentage(None));
        if gone || !percentage.is_empty() {
            let percentage = if gone { Value::Null } else { Value::Object(percentage) };
            fields.insert("percentage".to_owned(), percentage);
        }
        let resource = self.guarantee.map(Changes::patch);
        // Turned off: nothing else is said about it.
        if fields.is_empty() && resource == Some(Value::Null) {
            return resource;
        }
        fields.extend(resource.map(|list| ("resource".to_owned(), list)));
        (!fields.is_empty()).then_some(Value::Object(fields))
    }
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
            ("guarantee", self.guarantee.patch()),
            ("reclaimable", self.reclaimable.map(Value::from)),
            ("priority", self.priority.map(Value::from)),
        ];
        let given = fields
            .into_iter()
            .filter_map(|(field, value)| Some((field.to_owned(), value?)));
        given.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        spec: SpecArgs,
    }

    #[test]
    fn guarantees_are_merge_patches() {
        let read = |line: &str| {
            let words = std::iter::once("x").chain(line.split(' ').filter(|word| !word.is_empty()));
            Line::try_parse_from(words).map(|line| Value::Object(line.spec.patch()))
        };
        let check = |line: &str, expected: Value| assert_eq!(read(line).unwrap(), expected, "{line}");
        check("", json!({}));
        check("--guarantee cpu=2", json!({"guarantee": {"resource": {"cpu": "2"}}}));
        check("--guarantee none", json!({"guarantee": null}));
        check("--guarantee cpu-", json!({"guarantee": {"resource": {"cpu": null}}}));
        check(
            "--guarantee-policy guaranteed",
            json!({"guarantee": {"policy": "Guaranteed"}}),
        );
        let share = json!({"value": 0.2, "dimensions": ["cpu", "memory"]});
        check(
            "--guarantee-percentage 0.2 --guarantee-dimensions cpu,memory --guarantee-policy Best-Effort",
            json!({"guarantee": {"policy": "Best-Effort", "percentage": share}}),
        );
        check(
            "--guarantee-percentage 0.3",
            json!({"guarantee": {"percentage": {"value": 0.3}}}),
        );
        check(
            "--guarantee-percentage none",
            json!({"guarantee": {"percentage": null}}),
        );
        check(
            "--guarantee none --guarantee-percentage 0.2",
            json!({"guarantee": {"resource": null, "percentage": {"value": 0.2}}}),
        );
        check(
            "--guarantee cpu=2 --guarantee-percentage none",
            json!({"guarantee": {"resource": {"cpu": "2"}, "percentage": null}}),
        );
        for bad in [
            "--guarantee-percentage 1.2",
            "--guarantee-percentage 20%",
            "--guarantee-policy Always",
            "--guarantee cpu=2c",
        ] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }
}
