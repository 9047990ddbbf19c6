//! Waiting for an object: until something that was deleted is gone, or until it is as wanted.

use std::time::Duration;

use basalt_api::ResourceKind;
use basalt_api::json::string_at;
use clap::Args;
use kube::api::{Api, DynamicObject};
use kube::core::{ApiResource, GroupVersionKind};
use kube::runtime::wait::{Condition, await_condition, conditions};
use serde_json::Value;

use crate::error::CliError;
use crate::session::Session;

/// Whether to wait, and how long.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct Wait {
    /// Wait until they are gone
    #[arg(long)]
    wait: bool,
    /// How long to wait for each: seconds, or 90s, 10m, 1h30m
    #[arg(long, default_value = "60", value_name = "TIME", requires = "wait", value_parser = span)]
    timeout: Duration,
}

/// A span of time as a flag writes it: seconds, or as Go does.
pub(crate) fn span(text: &str) -> Result<Duration, String> {
    if let Ok(seconds) = text.parse::<u32>() {
        return Ok(Duration::from_secs(seconds.into()));
    }
    let span = basalt_api::duration::Duration::parse(text).map_err(|error| error.to_string())?;
    let nanos = u64::try_from(span.as_nanos()).map_err(|_| "a time to wait is not negative".to_owned())?;
    Ok(Duration::from_nanos(nanos))
}

/// Deletes an object and, if it is asked for, waits until it is gone.
pub(crate) async fn delete(
    kind: ResourceKind,
    namespace: Option<&str>,
    name: &str,
    wait: Wait,
    session: &mut Session<'_>,
) -> Result<(), CliError> {
    let answer = session.delete(kind, namespace, name).await?;
    let Some(uid) = uid(&answer).filter(|_| wait.wait) else {
        return Ok(());
    };
    let objects = objects(kind, namespace, session).await?;
    let place = namespace.map_or_else(|| name.to_owned(), |namespace| format!("{namespace}/{name}"));
    let gone = until(objects, name, conditions::is_deleted(uid));
    match tokio::time::timeout(wait.timeout, gone).await {
        Ok(outcome) => outcome.map(|_| ()),
        Err(_) => Err(CliError::Timeout {
            what: format!("{} {place} is not gone", kind.singular()),
            limit: wait.timeout,
        }),
    }
}

/// The objects of a kind, to be watched.
pub(crate) async fn objects(
    kind: ResourceKind,
    namespace: Option<&str>,
    session: &mut Session<'_>,
) -> Result<Api<DynamicObject>, CliError> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(kind.group(), kind.version(), kind.kind));
    let client = session.rest().await?.client.clone();
    Ok(match namespace {
        Some(namespace) => Api::namespaced_with(client, namespace, &resource),
        None => Api::all_with(client, &resource),
    })
}

/// Follows an object until it is as wanted; gives it as it was then.
pub(crate) async fn until(
    objects: Api<DynamicObject>,
    name: &str,
    wanted: impl Condition<DynamicObject>,
) -> Result<Option<DynamicObject>, CliError> {
    await_condition(objects, name, wanted)
        .await
        .map_err(|error| CliError::Refused {
            action: format!("follow {name}"),
            message: error.to_string(),
        })
}

/// The uid of what is being deleted: the server answers with the object, or with a Status about it.
fn uid(answer: &Value) -> Option<&str> {
    [string_at(answer, "/metadata/uid"), string_at(answer, "/details/uid")]
        .into_iter()
        .find(|uid| !uid.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn spans_are_seconds_or_go_durations() {
        let check = |text: &str, millis: Option<u64>| {
            assert_eq!(span(text).ok(), millis.map(Duration::from_millis), "{text}");
        };
        check("90", Some(90_000));
        check("1h30m", Some(5_400_000));
        check("500ms", Some(500));
        check("0", Some(0));
        check("-1s", None);
        check("soon", None);
        check("", None);
    }

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
