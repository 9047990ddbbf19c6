//! Raw objects for the auditor, all read at one revision.

use anyhow::Context;
use basalt_api::{ResourceKind, resource_kind};
use basalt_audit::Objects;
use kube::Client;
use serde_json::Value;

/// Collections that are audited; the first one's revision is the one at which all are read.
const COLLECTIONS: [ResourceKind; 5] = [
    resource_kind::POD,
    resource_kind::NODE,
    resource_kind::POD_GROUP,
    resource_kind::QUEUE,
    resource_kind::JOB,
];

/// Reads everything that is audited.
pub async fn objects(client: &Client) -> anyhow::Result<Objects> {
    let mut objects = Objects::default();
    let mut at = String::new();
    for kind in COLLECTIONS {
        let collection = kind.collection_path("");
        let request = http::Request::get(format!("{collection}{at}")).body(Vec::new())?;
        let mut list: Value = client
            .request(request)
            .await
            .with_context(|| format!("reading {collection}"))?;
        if at.is_empty() {
            let revision = list["metadata"]["resourceVersion"].as_str();
            let revision = revision.with_context(|| format!("{collection} has no revision"))?;
            at = format!("?resourceVersion={revision}&resourceVersionMatch=Exact");
        }
        let kind = list["kind"].as_str().and_then(|kind| kind.strip_suffix("List"));
        let kind = kind.unwrap_or_default().to_owned();
        let items = list["items"].as_array_mut();
        for item in items.with_context(|| format!("{collection} has no items"))? {
            let mut item = item.take();
            item["kind"] = Value::from(kind.as_str()); // items of a list may leave it out
            anyhow::ensure!(objects.insert(item), "{kind} is not audited");
        }
    }
    Ok(objects)
}
