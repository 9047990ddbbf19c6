//! `vcctl queue create`

use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use crate::error::CliError;
use crate::output::{self, ObjectFormat};
use crate::resources::Resources;
use crate::rest::QUEUE;
use crate::session::Session;
use crate::terminal::neutral;

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  vcctl queue create --name myqueue --weight 10\n  vcctl queue create vision --parent ml --deserved cpu=64,nvidia.com/gpu=8 --capability cpu=128"
)]
pub(crate) struct CreateArgs {
    /// Name of the queue
    #[arg(value_name = "NAME", required_unless_present = "name_flag")]
    name: Option<String>,
    /// Name of the queue
    #[arg(long = "name", short = 'n', value_name = "NAME", conflicts_with = "name")]
    name_flag: Option<String>,
    /// Share of the queue among its siblings
    #[arg(long, short = 'w', default_value_t = 1, value_parser = clap::value_parser!(i32).range(1..=65_535))]
    weight: i32,
    /// Whether it takes new jobs
    #[arg(long, short = 'S', value_enum, ignore_case = true, default_value_t = State::Open)]
    state: State,
    /// The queue above it [default: root]
    #[arg(long, value_name = "QUEUE")]
    parent: Option<String>,
    /// Upper limit, for example cpu=64,memory=256Gi
    #[arg(long, default_value = "", hide_default_value = true)]
    capability: Resources,
    /// What it is entitled to; others may borrow it and must give it back
    #[arg(long, default_value = "", hide_default_value = true)]
    deserved: Resources,
    /// What is kept free for it
    #[arg(long, default_value = "", hide_default_value = true)]
    guarantee: Resources,
    /// Whether other queues may reclaim from it
    #[arg(long, num_args = 0..=1, default_missing_value = "true", require_equals = true, value_name = "true|false")]
    reclaimable: Option<bool>,
    /// Order among queues: higher first
    #[arg(long, value_parser = clap::value_parser!(i32).range(0..))]
    priority: Option<i32>,
    /// How to show what was made
    #[arg(long, short = 'o', value_enum)]
    output: Option<ObjectFormat>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum State {
    /// Takes new jobs
    #[value(name = "Open")]
    Open,
    /// Takes none
    #[value(name = "Closed")]
    Closed,
}

pub(crate) async fn execute(args: CreateArgs, session: &mut Session<'_>) -> Result<(), CliError> {
    let format = args.output;
    let queue = args.queue()?;
    let made = session.create(QUEUE, None, &queue).await?;
    let shown = match format {
        Some(ObjectFormat::Json) => output::to_json(made)?,
        Some(ObjectFormat::Yaml) => output::to_yaml(made)?,
        Some(ObjectFormat::Name) => output::to_names(QUEUE, &[made]),
        None => format!(
            "create queue {} successfully\n",
            neutral(output::text(&made, "/metadata/name"))
        ),
    };
    session.print(&shown)
}

impl CreateArgs {
    fn queue(self) -> Result<Value, CliError> {
        let name = self.name.or(self.name_flag).unwrap_or_default();
        if name.is_empty() {
            return Err(CliError::Usage("the name must not be empty".to_owned()));
        }
        let state = if self.state == State::Open { "Open" } else { "Closed" };
        let mut spec = json!({"weight": self.weight, "state": state});
        let fields = [
            ("parent", self.parent.map(Value::from)),
            ("capability", self.capability.json()),
            ("deserved", self.deserved.json()),
            (
                "guarantee",
                self.guarantee.json().map(|resource| json!({"resource": resource})),
            ),
            ("reclaimable", self.reclaimable.map(Value::from)),
            ("priority", self.priority.map(Value::from)),
        ];
        for (field, value) in fields {
            if let Some(value) = value {
                spec[field] = value;
            }
        }
        Ok(json!({"apiVersion": QUEUE.api_version(), "kind": QUEUE.title, "metadata": {"name": name}, "spec": spec}))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Cli, Command};
    use crate::queue::QueueCommand;
    use clap::Parser;

    fn parse(flags: &[&str]) -> Result<Value, String> {
        let args = ["vcctl", "queue", "create"].iter().chain(flags);
        let cli = Cli::try_parse_from(args).map_err(|e| e.kind().to_string())?;
        let Command::Queue {
            command: QueueCommand::Create(args),
        } = cli.command
        else {
            panic!("another command")
        };
        args.queue().map(|mut q| q["spec"].take()).map_err(|e| e.to_string())
    }

    #[test]
    fn a_queue_is_made_of_flags() {
        assert_eq!(
            parse(&["--name", "myqueue", "--weight", "10"]).unwrap(),
            json!({"weight": 10, "state": "Open"})
        );
        assert_eq!(
            parse(&["myqueue", "-S", "closed"]).unwrap(),
            json!({"weight": 1, "state": "Closed"})
        );
        let all = [
            "-n",
            "q",
            "-w",
            "2",
            "--parent",
            "ml",
            "--capability",
            "cpu=8",
            "--deserved",
            "cpu=4",
            "--guarantee",
            "cpu=1",
            "--reclaimable=false",
            "--priority",
            "3",
        ];
        let expected = json!({
            "weight": 2, "state": "Open", "parent": "ml", "capability": {"cpu": "8"}, "deserved": {"cpu": "4"},
            "guarantee": {"resource": {"cpu": "1"}}, "reclaimable": false, "priority": 3,
        });
        assert_eq!(parse(&all).unwrap(), expected);
        assert_eq!(parse(&["q", "--reclaimable"]).unwrap()["reclaimable"], true);
    }

    #[test]
    fn wrong_flags_are_refused() {
        for flags in [
            &[][..],
            &[""],
            &["a", "--name", "b"],
            &["a", "-w", "0"],
            &["a", "-w", "65536"],
            &["a", "-S", "Closing"],
            &["a", "--deserved", "cpu"],
            &["a", "--priority", "-1"],
        ] {
            assert!(parse(flags).is_err(), "{flags:?}");
        }
    }
}
