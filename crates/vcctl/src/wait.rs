//! Waiting until something that was deleted is gone.

use std::time::Duration;

use clap::Args;
use kube::api::{Api, DynamicObject};
use kube::core::{ApiResource, GroupVersionKind};
use kube::runtime::wait::{await_condition, conditions};
use serde_json::Value;

use crate::error::CliError;
use crate::output::text;
use crate::rest::Kind;
use crate::session::Session;

/// Whether to wait, and how long.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct Wait {
    /// Wait until they are gone
    #[arg(long)]
    wait: bool,
    /// How many seconds to wait for each
    #[arg(long, default_value_t = 60, value_name = "SECONDS", requires = "wait")]
    timeout: u64,
}

/// Deletes an object and, if it is asked for, waits until it is gone.
pub(crate) async fn delete(
    kind: Kind,
    namespace: Option<&str>,
    name: &str,
    wait: Wait,
    session: &mut Session<'_>,
) -> Result<(), CliError> {
    let answer = session.delete(kind, namespace, name).await?;
    let Some(uid) = uid(&answer).filter(|_| wait.wait) else {
        return Ok(());
    };
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(kind.group, kind.version, kind.title));
    let client = session.rest().await?.client.clone();
    let objects: Api<DynamicObject> = match namespace {
        Some(namespace) => Api::namespaced_with(client, namespace, &resource),
        None => Api::all_with(client, &resource),
    };
    let place = namespace.map_or_else(|| name.to_owned(), |namespace| format!("{namespace}/{name}"));
    let what = format!("the deletion of {} {place}", kind.singular);
    let gone = await_condition(objects, name, conditions::is_deleted(uid));
    match tokio::time::timeout(Duration::from_secs(wait.timeout), gone).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => Err(CliError::Refused {
            action: format!("follow {what}"),
            message: error.to_string(),
        }),
        Err(_) => Err(CliError::Timeout {
            what,
            seconds: wait.timeout,
        }),
    }
}

/// The uid of what is being deleted: the server answers with the object, or with a Status about it.
fn uid(answer: &Value) -> Option<&str> {
    [text(answer, "/metadata/uid"), text(answer, "/details/uid")]
        .into_iter()
        .find(|uid| !uid.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_uid_is_found_in_both_answers() {
        assert_eq!(uid(&json!({"kind": "Job", "metadata": {"uid": "u"}})), Some("u"));
        assert_eq!(
            uid(&json!({"kind": "Status", "metadata": {}, "details": {"uid": "u"}})),
            Some("u")
        );
        assert_eq!(uid(&json!({"kind": "Status"})), None);
    }
}
