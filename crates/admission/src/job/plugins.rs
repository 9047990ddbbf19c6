//! The plugins of a Job. What they are called and take, and what they need, is one table of the API.

use basalt_api::job::Job;
use basalt_api::job::plugins::{Plugin, PluginError, PluginWarning, check, mounted};
use basalt_api::json::value_or_null;
use serde_json::{Value, json};

use crate::quantities::entries;
use crate::request::Operation::Create;
use crate::rule::{Case, Rule};

pub(super) const KNOWN: Rule =
    Rule::invalid("job/plugins-known", "every plugin is one that exists", known).on(&[Create]);
pub(super) const TASKS: Rule = Rule::invalid(
    "job/plugin-tasks",
    "the task that a plugin cannot do without is there: mpi's master, ray's head",
    plugin_tasks,
)
.on(&[Create]);

/// The job's plugins, and its tasks for their sake; nothing where it has none, or cannot be read, which its schema says.
fn typed(job: &Value) -> Option<Job> {
    entries(value_or_null(job, "/spec/plugins")).next()?;
    let spec = json!({"plugins": value_or_null(job, "/spec/plugins"), "tasks": value_or_null(job, "/spec/tasks")});
    let job = json!({"metadata": {"name": value_or_null(job, "/metadata/name")}, "spec": spec});
    serde_json::from_value::<Job>(job).ok()
}

/// What the API's table says of the job's plugins.
fn checked(job: &Value) -> (Vec<PluginError>, Vec<PluginWarning>) {
    typed(job).map_or((Vec::new(), Vec::new()), |job| check(&job))
}

/// Where plugins mount something in every container.
pub(super) fn folders(job: &Value) -> Vec<(Plugin, String)> {
    typed(job).map_or_else(Vec::new, |job| mounted(&job))
}

fn known(case: &Case<'_>, broken: &mut Vec<String>) {
    for (name, _) in entries(value_or_null(case.object, "/spec/plugins")) {
        if Plugin::of_name(name).is_none() {
            broken.push(format!(
                "{}: spec.plugins has {name:?}, known are {}",
                case.subject(),
                Plugin::ALL.map(Plugin::name).join(", ")
            ));
        }
    }
}

fn plugin_tasks(case: &Case<'_>, broken: &mut Vec<String>) {
    let missing = |error: &PluginError| matches!(error, PluginError::NoTask { .. });
    let errors = checked(case.object).0;
    broken.extend(
        errors
            .iter()
            .filter(|error| missing(error))
            .map(|error| format!("{}: spec.plugins: {error}", case.subject())),
    );
}

/// What the user should know though nothing is refused: arguments that nobody reads, tasks that are not there.
pub(super) fn warnings(case: &Case<'_>) -> Vec<String> {
    let warnings = checked(case.object).1.into_iter();
    warnings
        .map(|warning| format!("{}: spec.plugins: {warning}", case.subject()))
        .collect()
}
