//! `vcctl job view`: everything about one job, for a person.

mod describe;

use std::collections::BTreeMap;

use basalt_api::json::string_at;
use basalt_api::names;
use basalt_api::resource_kind::{JOB, POD};
use clap::Args;
use kube::api::ListParams;
use serde_json::Value;

use super::group;
use super::list::Columns;
use crate::cli::Namespace;
use crate::error::CliError;
use crate::events;
use crate::name::job::Name;
use crate::output::{self, Format};
use crate::pod;
use crate::session::Session;
use describe::Subject;

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  vcctl job view train\n  vcctl job get --name train -n ml -o yaml\n  vcctl job describe train"
)]
pub(crate) struct ViewArgs {
    #[command(flatten)]
    name: Name,
    #[command(flatten)]
    namespace: Namespace,
    /// How to show it
    #[arg(long, short = 'o', value_enum)]
    output: Option<Format>,
}

pub(crate) async fn execute(args: ViewArgs, session: &mut Session<'_>) -> Result<(), CliError> {
    let namespace = session.namespace(args.namespace.namespace).await?;
    let job = session.get(JOB, Some(&namespace), &args.name.take()).await?;
    let now = jiff::Timestamp::now();
    let shown = match args.output {
        Some(Format::Json) => output::to_json(job)?,
        Some(Format::Yaml) => output::to_yaml(job)?,
        Some(Format::Name) => output::to_names(JOB, &[job]),
        Some(Format::Wide) => {
            let group = group::of(&job, session).await?;
            let uid = string_at(&job, "/metadata/uid").to_owned();
            let columns = Columns {
                namespaces: false,
                now,
                groups: &group.map(|group| (uid, group)).into_iter().collect::<BTreeMap<_, _>>(),
            };
            columns.table(&[job], true).render(session.look.colour)
        }
        None => {
            // Who may read the job need not be allowed to read what is around it.
            let group = group::of(&job, session).await.map_err(|error| error.to_string());
            let subject = Subject {
                pods: pods(&job, session).await.map_err(|error| error.to_string()),
                events: told(&job, group.as_ref().ok().and_then(Option::as_ref), session)
                    .await
                    .map_err(|error| error.to_string()),
                job: &job,
                group,
            };
            subject.describe(now, session.look)
        }
    };
    session.print(&shown)
}

/// The pods of this job, and of no other that had its name.
async fn pods(job: &Value, session: &mut Session<'_>) -> Result<Vec<Value>, CliError> {
    let (name, uid) = (string_at(job, "/metadata/name"), string_at(job, "/metadata/uid"));
    let params = ListParams::default().labels(&format!("{}={name}", names::JOB_NAME));
    let mut pods = session
        .list(POD, Some(string_at(job, "/metadata/namespace")), &params)
        .await?;
    pods.retain(|pod| {
        let owners = pod.pointer("/metadata/ownerReferences").and_then(Value::as_array);
        owners
            .into_iter()
            .flatten()
            .any(|owner| string_at(owner, "/uid") == uid)
    });
    pods.sort_by(pod::order);
    Ok(pods)
}

/// What was told of the job and of its PodGroup.
async fn told(job: &Value, group: Option<&Value>, session: &mut Session<'_>) -> Result<Vec<Value>, CliError> {
    let mut told = events::of(job, session).await?;
    if let Some(group) = group {
        told.extend(events::of(group, session).await?);
    }
    Ok(told)
}
