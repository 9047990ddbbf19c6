//! What was told of an object.

use basalt_api::json::{integer_or_zero, string_at};
use basalt_api::resource_kind::EVENT;
use kube::api::ListParams;
use serde_json::Value;

use crate::error::CliError;
use crate::output::age::age;
use crate::output::table::{Cell, Table};
use crate::session::Session;
use crate::terminal::Colour;

/// As many of the last events are shown.
const SHOWN: usize = 10;

/// The events of this object, and of no other that had its name.
pub(crate) async fn of(object: &Value, session: &mut Session<'_>) -> Result<Vec<Value>, CliError> {
    let namespace = Some(string_at(object, "/metadata/namespace")).filter(|namespace| !namespace.is_empty());
    let selector = format!(
        "involvedObject.kind={},involvedObject.name={}",
        string_at(object, "/kind"),
        string_at(object, "/metadata/name")
    );
    let params = ListParams::default().fields(&selector);
    let mut events = session.list(EVENT, namespace, &params).await?;
    let uid = string_at(object, "/metadata/uid");
    events.retain(|event| ["", uid].contains(&string_at(event, "/involvedObject/uid")));
    Ok(events)
}

/// The last events, the newest at the end.
pub(crate) fn table(events: &[Value], now: jiff::Timestamp) -> Table {
    let mut events: Vec<&Value> = events.iter().collect();
    events.sort_by_key(|event| when(event));
    let skipped = events.len().saturating_sub(SHOWN);
    let mut table = Table::new(["Age", "Type", "Reason", "Count", "Message"]);
    for event in events.into_iter().skip(skipped) {
        let kind = string_at(event, "/type");
        table.row(vec![
            Cell::new(age(when(event), now)),
            Cell::from(kind).coloured((kind == "Warning").then_some(Colour::Yellow)),
            string_at(event, "/reason").into(),
            integer_or_zero(event, "/count").max(1).into(),
            string_at(event, "/message").into(),
        ]);
    }
    table
}

/// Conditions of an object as a table.
pub(crate) fn conditions(object: &Value, now: jiff::Timestamp) -> Table {
    let mut table = Table::new(["Type", "Status", "Reason", "Since", "Message"]);
    for condition in object["status"]["conditions"].as_array().into_iter().flatten() {
        table.row(vec![
            string_at(condition, "/type").into(),
            string_at(condition, "/status").into(),
            string_at(condition, "/reason").into(),
            Cell::new(age(string_at(condition, "/lastTransitionTime"), now)),
            string_at(condition, "/message").into(),
        ]);
    }
    table
}

/// When an event happened last; which field says so depends on who wrote it.
fn when(event: &Value) -> &str {
    let fields = [
        "/series/lastObservedTime",
        "/lastTimestamp",
        "/eventTime",
        "/metadata/creationTimestamp",
    ];
    let times = fields.iter().map(|field| string_at(event, field));
    times.into_iter().find(|time| !time.is_empty()).unwrap_or("")
}
