//! The webhook's authorities in the webhook configurations, where the API server looks for them.
//!
//! The configurations are not ours: somebody else makes them (the chart), and may make them anew at any time. Only
//! `caBundle` is written, and with `--webhook-url` the address, each beside a test that the entry is still the one meant.

use std::fmt;
use std::time::Duration;

use anyhow::Context;
use http::header;
use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration};
use kube::core::{ApiResource, DynamicObject};
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::sync::watch;

use super::Webhook;
use super::bell::{Bell, REPAIR_RETRY};

/// Somebody who always writes something else must not make us as busy as he is.
const BETWEEN_REPAIRS: Duration = Duration::from_millis(200);

/// The two kinds of configurations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Validating,
    Mutating,
}

/// One configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Configuration {
    kind: Kind,
    name: String,
}

impl std::str::FromStr for Configuration {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (kind, name) = match text.split_once('/') {
            Some(("validating", name)) => (Kind::Validating, name),
            Some(("mutating", name)) => (Kind::Mutating, name),
            _ => return Err("write validating/NAME or mutating/NAME".to_owned()),
        };
        if name.is_empty() || name.contains('/') {
            return Err(format!("{name:?} is no name"));
        }
        Ok(Self {
            kind,
            name: name.to_owned(),
        })
    }
}

impl fmt::Display for Configuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            Kind::Validating => "validating",
            Kind::Mutating => "mutating",
        };
        write!(f, "{kind}/{}", self.name)
    }
}

impl Configuration {
    fn resource(&self) -> ApiResource {
        match self.kind {
            Kind::Validating => ApiResource::erase::<ValidatingWebhookConfiguration>(&()),
            Kind::Mutating => ApiResource::erase::<MutatingWebhookConfiguration>(&()),
        }
    }
}

/// The operations of a JSON patch that make every webhook of a configuration trust `bundle`, and be called at `url` where
/// there is one; none where nothing is to be done.
pub(super) fn repairs(configuration: &Value, bundle: &str, url: Option<&str>) -> Vec<Value> {
    let bundle = json!(ByteString(bundle.as_bytes().to_vec()));
    let webhooks = configuration["webhooks"].as_array().map_or(&[][..], Vec::as_slice);
    let mut operations = Vec::new();
    for (index, webhook) in webhooks.iter().enumerate() {
        let client = &webhook["clientConfig"];
        let at = |field: &str| format!("/webhooks/{index}/{field}");
        let mut changes = Vec::new();
        if let Some(base) = url {
            let url = format!("{}{}", base.trim_end_matches('/'), path_of(client));
            if !client["service"].is_null() {
                changes.push(json!({"op": "remove", "path": at("clientConfig/service")}));
            }
            if client["url"] != url {
                changes.push(json!({"op": "add", "path": at("clientConfig/url"), "value": url}));
            }
        }
        if client["caBundle"] != bundle {
            changes.push(json!({"op": "add", "path": at("clientConfig/caBundle"), "value": bundle}));
        }
        if !changes.is_empty() {
            operations.push(json!({"op": "test", "path": at("name"), "value": webhook["name"]}));
            operations.append(&mut changes);
        }
    }
    operations
}

/// The path that a webhook is called with, with its slash.
fn path_of(client: &Value) -> &str {
    if let Some(path) = client["service"]["path"].as_str() {
        return path;
    }
    let after_scheme = client["url"].as_str().and_then(|url| url.split_once("://"));
    let slash = after_scheme.and_then(|(_, rest)| Some((rest, rest.find('/')?)));
    slash.and_then(|(rest, slash)| rest.get(slash..)).unwrap_or_default()
}

/// Keeps `bundle` and `url` in one configuration, for ever.
pub(super) async fn inject(
    webhook: Webhook,
    configuration: Configuration,
    mut bundle: watch::Receiver<String>,
    url: Option<String>,
) {
    let client = webhook.client();
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &configuration.resource());
    let mut bell = Bell::new(client, &configuration.resource(), None, &configuration.name);
    let mut backoff = REPAIR_RETRY;
    loop {
        let now = bundle.borrow_and_update().clone();
        let pause = match repair(client, &api, &configuration, &now, url.as_deref()).await {
            Ok(repaired) => {
                backoff.reset();
                if !now.is_empty() {
                    webhook.trusted(&configuration.to_string());
                }
                if repaired {
                    tokio::time::sleep(BETWEEN_REPAIRS).await;
                }
                Duration::MAX
            }
            Err(error) => {
                let name = &configuration.name;
                tracing::warn!(
                    name,
                    error = format!("{error:#}"),
                    "the authorities are not in the webhook configuration"
                );
                backoff.next_delay()
            }
        };
        tokio::select! {
            () = bell.rung(pause) => {}
            Ok(()) = bundle.changed() => {}
        }
    }
}

/// Looks at a configuration once, and repairs it; whether there was something to repair. Without a configuration there is
/// nothing to do: admission is switched off, or on its way.
async fn repair(
    client: &Client,
    api: &Api<DynamicObject>,
    configuration: &Configuration,
    bundle: &str,
    url: Option<&str>,
) -> anyhow::Result<bool> {
    if bundle.is_empty() {
        return Ok(false);
    }
    let Some(found) = api.get_opt(&configuration.name).await.context("reading")? else {
        tracing::debug!(name = configuration.name, "there is no such webhook configuration");
        return Ok(false);
    };
    let operations = repairs(&serde_json::to_value(found)?, bundle, url);
    if operations.is_empty() {
        return Ok(false);
    }
    let path = format!("{}/{}", api.resource_url(), configuration.name);
    let request = http::Request::patch(path)
        .header(header::CONTENT_TYPE, "application/json-patch+json")
        .body(serde_json::to_vec(&operations)?)?;
    let _patched: Value = client.request(request).await.context("writing")?;
    tracing::info!(
        name = configuration.name,
        "the authorities are in the webhook configuration"
    );
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `BUNDLE` in base64.
    const BUNDLE: &str = "QlVORExF";

    fn check(webhooks: Value, url: Option<&str>, expected: Value) {
        let configuration = json!({"webhooks": webhooks});
        let operations = json!(repairs(&configuration, "BUNDLE", url));
        assert_eq!(operations, expected, "{configuration} {url:?}");
        // Once repaired, it is left alone.
        let mut repaired = configuration.clone();
        let patch: json_patch::Patch = serde_json::from_value(operations).expect("a patch");
        json_patch::patch(&mut repaired, &patch).expect("the patch applies");
        assert!(repairs(&repaired, "BUNDLE", url).is_empty(), "{repaired}");
    }

    #[test]
    fn only_what_is_wrong_is_repaired() {
        let service = json!({"name": "w", "namespace": "s", "path": "/jobs/validate"});
        let test =
            |index: usize, name: &str| json!({"op": "test", "path": format!("/webhooks/{index}/name"), "value": name});
        let add = |index: usize, field: &str, value: &str| json!({"op": "add", "path": format!("/webhooks/{index}/clientConfig/{field}"), "value": value});
        check(json!([]), None, json!([]));
        check(Value::Null, None, json!([]));
        check(
            json!([{"name": "a", "clientConfig": {"service": service}}]),
            None,
            json!([test(0, "a"), add(0, "caBundle", BUNDLE)]),
        );
        check(
            json!([
                {"name": "a", "clientConfig": {"service": service, "caBundle": BUNDLE}},
                {"name": "b", "clientConfig": {"service": service, "caBundle": "b2xk"}},
            ]),
            None,
            json!([test(1, "b"), add(1, "caBundle", BUNDLE)]),
        );
        check(
            json!([{"name": "a", "clientConfig": {"service": service, "caBundle": BUNDLE}}]),
            None,
            json!([]),
        );
        let remove = json!({"op": "remove", "path": "/webhooks/0/clientConfig/service"});
        check(
            json!([{"name": "a", "clientConfig": {"service": service}}]),
            Some("https://127.0.0.1:9443/"),
            json!([
                test(0, "a"),
                remove,
                add(0, "url", "https://127.0.0.1:9443/jobs/validate"),
                add(0, "caBundle", BUNDLE)
            ]),
        );
        let before = json!({"url": "https://127.0.0.1:1/jobs/validate", "caBundle": BUNDLE});
        check(
            json!([{"name": "a", "clientConfig": before}]),
            Some("https://127.0.0.1:9443"),
            json!([test(0, "a"), add(0, "url", "https://127.0.0.1:9443/jobs/validate")]),
        );
        // An address is nothing to change where none was asked for.
        check(json!([{"name": "a", "clientConfig": before}]), None, json!([]));
    }

    #[test]
    fn a_configuration_is_named_with_its_kind() {
        for (text, good) in [
            ("validating/basalt-validate", true),
            ("mutating/basalt-mutate", true),
            ("basalt-validate", false),
            ("validating/", false),
            ("validating/a/b", false),
        ] {
            assert_eq!(text.parse::<Configuration>().is_ok(), good, "{text}");
        }
    }
}
