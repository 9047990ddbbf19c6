//! `vcctl queue create`

use basalt_api::resource_kind::QUEUE;
use clap::Args;
use serde_json::{Value, json};

use super::spec::{SpecArgs, State};
use crate::error::CliError;
use crate::name::queue::Name;
use crate::output::ObjectFormat;
use crate::session::Session;

#[derive(Debug, Args)]
#[command(
    after_help = "A new queue has the weight 1, is Open and stands below root, unless told otherwise.\n\nExamples:\n  vcctl queue create --name myqueue --weight 10\n  vcctl queue create vision --parent ml --deserved cpu=64,nvidia.com/gpu=8 --capability cpu=128\n  vcctl queue create research --guarantee nvidia.com/gpu=64 --guarantee-policy Guaranteed\n  vcctl queue create team-a --guarantee-percentage 0.2 --guarantee-dimensions cpu,memory\n  vcctl queue create later --state Closed"
)]
pub(crate) struct CreateArgs {
    #[command(flatten)]
    name: Name,
    #[command(flatten)]
    spec: SpecArgs,
    /// How to show what was made
    #[arg(long, short = 'o', value_enum)]
    output: Option<ObjectFormat>,
}

pub(crate) async fn execute(args: CreateArgs, session: &mut Session<'_>) -> Result<(), CliError> {
    let format = args.output;
    let made = session.create(QUEUE, None, &args.queue()).await?;
    super::show_done("create", made, format, session)
}

impl CreateArgs {
    /// A patch of nothing: what it would take away is simply not there.
    fn queue(self) -> Value {
        let mut spec = self.spec;
        spec.weight.get_or_insert(1);
        spec.state.get_or_insert(State::Open);
        let mut spec = Value::Object(spec.patch());
        remove_nulls(&mut spec);
        let name = self.name.take();
        json!({"apiVersion": QUEUE.api_version, "kind": QUEUE.kind, "metadata": {"name": name}, "spec": spec})
    }
}

/// Takes away nulls, and lists that are empty without them.
fn remove_nulls(value: &mut Value) {
    let Value::Object(fields) = value else { return };
    fields.values_mut().for_each(remove_nulls);
    fields.retain(|_, field| !field.is_null() && field.as_object().is_none_or(|inner| !inner.is_empty()));
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
        Ok(args.queue()["spec"].take())
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
        let all = "-n q -w 2 --parent ml --capability cpu=8 --deserved cpu=4 --guarantee cpu=1 --reclaimable=false --priority 3";
        let all: Vec<&str> = all.split(' ').collect();
        let expected = json!({
            "weight": 2, "state": "Open", "parent": "ml", "capability": {"cpu": "8"}, "deserved": {"cpu": "4"},
            "guarantee": {"resource": {"cpu": "1"}}, "reclaimable": false, "priority": 3,
        });
        assert_eq!(parse(&all).unwrap(), expected);
        assert_eq!(parse(&["q", "--reclaimable"]).unwrap()["reclaimable"], true);
        let nothing = ["q", "--capability", "none", "--deserved", "cpu-", "--guarantee", "none"];
        assert_eq!(parse(&nothing).unwrap(), json!({"weight": 1, "state": "Open"}));
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
            &["a/b"],
        ] {
            assert!(parse(flags).is_err(), "{flags:?}");
        }
    }
}
