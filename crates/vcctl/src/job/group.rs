//! The PodGroups of jobs: there the scheduler writes why something waits.

use std::collections::BTreeMap;

use basalt_api::json::string_at;
use basalt_api::names;
use basalt_api::reason::Reason;
use basalt_api::resource_kind::{JOB, POD_GROUP};
use kube::api::ListParams;
use serde_json::Value;

use crate::error::CliError;
use crate::session::Session;

/// The PodGroup of a job, if there is one: by its name, or by the one that older versions gave it.
pub(super) async fn of(job: &Value, session: &mut Session<'_>) -> Result<Option<Value>, CliError> {
    let (name, uid) = (string_at(job, "/metadata/name"), string_at(job, "/metadata/uid"));
    let namespace = Some(string_at(job, "/metadata/namespace"));
    for candidate in [&names::job_pod_group(name, uid), name] {
        match session.get(POD_GROUP, namespace, candidate).await {
            Ok(group) if owner(&group) == Some(uid) => return Ok(Some(group)),
            Ok(_) | Err(CliError::NotFound { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

/// The PodGroups of jobs, by the uid of the job.
pub(super) async fn all(
    namespace: Option<&str>,
    session: &mut Session<'_>,
) -> Result<BTreeMap<String, Value>, CliError> {
    let groups = session.list(POD_GROUP, namespace, &ListParams::default()).await?;
    let owned = groups
        .into_iter()
        .filter_map(|group| Some((owner(&group)?.to_owned(), group)));
    Ok(owned.collect())
}

/// The uid of the job that owns it.
fn owner(group: &Value) -> Option<&str> {
    let owners = group.pointer("/metadata/ownerReferences").and_then(Value::as_array);
    let mut owners = owners.into_iter().flatten();
    let job = owners
        .find(|owner| string_at(owner, "/kind") == JOB.kind && string_at(owner, "/apiVersion") == JOB.api_version)?;
    job["uid"].as_str()
}

/// Why it waits; what makes no sense is left out.
pub(super) fn reasons(group: &Value) -> Vec<Reason> {
    let reasons = group.pointer("/status/reasons").and_then(Value::as_array);
    let read = |reason: &Value| serde_json::from_value(reason.clone()).ok();
    reasons.into_iter().flatten().filter_map(read).collect()
}
