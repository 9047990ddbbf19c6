use std::time::Instant;

use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;

use super::*;
use basalt_admission::Settings;

use crate::Webhook;
use crate::inject::inject;
use crate::test_server as embedded;

const NAME: &str = "basalt-webhook-tls";

fn keeper(client: &Client, certificate: Seconds, authority: Seconds) -> Arc<Keeper> {
    let secret = SecretName {
        namespace: "default".to_owned(),
        name: NAME.to_owned(),
    };
    let terms = Terms {
        hosts: ["localhost".to_owned()].into(),
        certificate,
        authority,
    };
    Arc::new(Keeper::new(client.clone(), secret, terms, InForce::new()))
}

/// Until the end of the test.
fn start(keeper: &Arc<Keeper>) {
    let keeper = Arc::clone(keeper);
    tokio::spawn(async move { keeper.keep().await });
}

async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !holds().await {
        assert!(Instant::now() < deadline, "never: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn stored(client: &Client) -> Texts {
    let api: Api<Secret> = Api::namespaced(client.clone(), "default");
    let secret = api.get_opt(NAME).await.expect("an answer");
    secret.as_ref().map(texts_of).unwrap_or_default()
}

/// Whether a replica serves with what is stored, and that is whole.
async fn agrees(client: &Client, keeper: &Keeper) -> bool {
    let texts = stored(client).await;
    let whole = Need::of(Some(&texts), jiff::Timestamp::now().as_second(), &keeper.terms);
    let served = InForce::new();
    matches!(whole, Need::Nothing { .. })
        && *keeper.bundle.borrow() == texts.authorities
        && served.take(texts.certificate.as_bytes(), texts.key.as_bytes()).is_ok()
        && served.chain() == keeper.in_force.chain()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replicas_that_start_together_agree_and_repair_what_is_damaged() {
    let client = embedded::client().await;
    let keepers: Vec<_> = (0..5).map(|_| keeper(&client, 3600, 36_000)).collect();
    keepers.iter().for_each(start);
    for keeper in &keepers {
        until("a replica agrees", || agrees(&client, keeper)).await;
    }
    let before = stored(&client).await;

    let api: Api<Secret> = Api::namespaced(client.clone(), "default");
    let damage = json!({"data": {"tls.crt": "", "mine": "bWluZQ=="}});
    api.patch(NAME, &PatchParams::default(), &Patch::Merge(damage))
        .await
        .expect("damaged");
    until("the certificate is made anew", async || {
        let now = stored(&client).await;
        !now.certificate.is_empty() && now.certificate != before.certificate
    })
    .await;
    let now = api.get(NAME).await.expect("it is there").data.unwrap_or_default();
    assert_eq!(
        now.get("mine").map(|mine| &*mine.0),
        Some(&b"mine"[..]),
        "what others put in stays"
    );
    assert_eq!(
        stored(&client).await.authorities,
        before.authorities,
        "its authority is sound"
    );
    for keeper in &keepers {
        until("a replica agrees", || agrees(&client, keeper)).await;
    }

    api.delete(NAME, &DeleteParams::default()).await.expect("deleted");
    for keeper in &keepers {
        until("a replica agrees", || agrees(&client, keeper)).await;
    }
    assert_ne!(stored(&client).await.authorities, before.authorities);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lives_of_seconds_are_renewed_by_themselves() {
    let client = embedded::client().await;
    let keepers = [keeper(&client, 3, 9), keeper(&client, 3, 9)];
    keepers.iter().for_each(start);
    let mut seen = std::collections::BTreeSet::new();
    until("four certificates of two authorities", async || {
        let texts = stored(&client).await;
        seen.insert((texts.authority_key, texts.certificate));
        let authorities: std::collections::BTreeSet<_> = seen.iter().map(|(key, _)| key).collect();
        seen.len() >= 4 && authorities.len() >= 2
    })
    .await;
}

/// A configuration as the chart makes it.
fn configuration(name: &str) -> ValidatingWebhookConfiguration {
    serde_json::from_value(json!({
        "metadata": {"name": name},
        "webhooks": [{"name": "queues.validate.basalt.sh", "admissionReviewVersions": ["v1"], "sideEffects": "None",
            "clientConfig": {"service": {"name": "basalt-webhook", "namespace": "default", "path": "/queues/validate"}}}],
    }))
    .expect("a configuration")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_bundle_is_kept_in_the_configuration() {
    let client = embedded::client().await;
    let api: Api<ValidatingWebhookConfiguration> = Api::all(client.clone());
    let (bundle, follow) = watch::channel("one".to_owned());
    let target = "validating/basalt-validate".parse().expect("a target");
    let webhook = Webhook::new(client.clone(), Settings::default());
    tokio::spawn(inject(webhook, target, follow, None));
    let holds = async |text: &str| {
        let found = api.get_opt("basalt-validate").await.expect("an answer");
        let hooks = found.and_then(|found| found.webhooks).unwrap_or_default();
        let bundle = hooks.first().and_then(|hook| hook.client_config.ca_bundle.clone());
        bundle.is_some_and(|bundle| bundle.0 == text.as_bytes())
    };
    for name in ["basalt-validate", "others"] {
        api.create(&PostParams::default(), &configuration(name))
            .await
            .expect("made");
    }
    until("it is injected", || holds("one")).await;
    bundle.send_replace("two".to_owned());
    until("it follows", || holds("two")).await;
    api.delete("basalt-validate", &DeleteParams::default())
        .await
        .expect("deleted");
    api.create(&PostParams::default(), &configuration("basalt-validate"))
        .await
        .expect("made");
    until("it is injected again", || holds("two")).await;
    let change = json!([{"op": "remove", "path": "/webhooks/0/clientConfig/caBundle"}]);
    let request =
        http::Request::patch("/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/basalt-validate")
            .header("content-type", "application/json-patch+json")
            .body(change.to_string().into_bytes())
            .expect("a request");
    let _changed: serde_json::Value = client.request(request).await.expect("changed");
    until("it is repaired", || holds("two")).await;
    let others = api.get("others").await.expect("it is there");
    let untouched = others.webhooks.unwrap_or_default();
    assert!(
        untouched.iter().all(|hook| hook.client_config.ca_bundle.is_none()),
        "{untouched:?}"
    );
}
