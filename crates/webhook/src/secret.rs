//! The Secret that all replicas of the webhook share: an authority and a serving certificate, made by whoever comes
//! first and renewed by whoever sees first that it is time.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::PostParams;
use kube::core::ApiResource;
use kube::{Api, Client};
use tokio::sync::watch;

use super::authority::{Need, Seconds, Terms, Texts};
use super::bell::{Bell, REPAIR_RETRY};
use super::tls::InForce;

/// Which Secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SecretName {
    pub(super) namespace: String,
    pub(super) name: String,
}

impl std::str::FromStr for SecretName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('/') {
            Some((namespace, name)) if !namespace.is_empty() && !name.is_empty() && !name.contains('/') => Ok(Self {
                namespace: namespace.to_owned(),
                name: name.to_owned(),
            }),
            _ => Err("write NAMESPACE/NAME".to_owned()),
        }
    }
}

impl std::fmt::Display for SecretName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// Looks after the Secret, and after what is served with.
pub(super) struct Keeper {
    client: Client,
    secret: SecretName,
    terms: Terms,
    in_force: Arc<InForce>,
    /// The authorities to trust.
    bundle: watch::Sender<String>,
}

/// What came of a look at the Secret.
enum Outcome {
    /// It is good for so long.
    Good(Duration),
    /// It was changed, by us or by somebody else at the same time: look again.
    Changed,
}

impl Keeper {
    pub(super) fn new(client: Client, secret: SecretName, terms: Terms, in_force: Arc<InForce>) -> Self {
        Self {
            client,
            secret,
            terms,
            in_force,
            bundle: watch::Sender::default(),
        }
    }

    /// The authorities to trust; empty until the Secret was read.
    pub(super) fn bundle(&self) -> watch::Receiver<String> {
        self.bundle.subscribe()
    }

    /// Keeps the Secret, for ever.
    pub(super) async fn keep(&self) {
        let kind = ApiResource::erase::<Secret>(&());
        let mut bell = Bell::new(&self.client, &kind, Some(&self.secret.namespace), &self.secret.name);
        let mut backoff = REPAIR_RETRY;
        loop {
            let pause = match self.look(jiff::Timestamp::now().as_second()).await {
                Ok(Outcome::Good(pause)) => {
                    backoff.reset();
                    pause
                }
                Ok(Outcome::Changed) => Duration::ZERO,
                Err(error) => {
                    let secret = &self.secret;
                    tracing::warn!(%secret, error = format!("{error:#}"), "the certificate in force stays, trying again");
                    backoff.next_delay()
                }
            };
            bell.rung(pause).await;
        }
    }

    /// Looks at the Secret once, and does what it needs.
    async fn look(&self, now: Seconds) -> anyhow::Result<Outcome> {
        let api: Api<Secret> = Api::namespaced(self.client.clone(), &self.secret.namespace);
        let found = api.get_opt(&self.secret.name).await.context("reading")?;
        let texts = found.as_ref().map(texts_of);
        let need = Need::of(texts.as_ref(), now, &self.terms);
        if let (Need::Nothing { until }, Some(texts)) = (&need, &texts) {
            self.take(texts)?;
            let left = u64::try_from(until.saturating_sub(now)).unwrap_or_default();
            return Ok(Outcome::Good(Duration::from_secs(left.max(1))));
        }
        let filled = need
            .fill(texts.as_ref(), now, &self.terms)
            .context("making certificates")?;
        if write(&api, &self.secret.name, found, &filled).await? {
            tracing::info!(secret = %self.secret, "made {need}");
        }
        Ok(Outcome::Changed)
    }

    /// Serves with what was found. The authorities are told of first: they should be trusted before they are needed.
    fn take(&self, texts: &Texts) -> anyhow::Result<()> {
        self.bundle.send_if_modified(|bundle| {
            let changed = *bundle != texts.authorities;
            bundle.clone_from(&texts.authorities);
            changed
        });
        self.in_force
            .take(texts.certificate.as_bytes(), texts.key.as_bytes())
            .context("tls.crt and tls.key")
    }
}

/// The label of a Secret that the webhook made: its key and its value.
pub const MADE_BY: [&str; 2] = ["app.kubernetes.io/managed-by", "basalt"];

const AUTHORITIES: &str = "ca.crt";
const AUTHORITY_KEY: &str = "ca.key";
const CERTIFICATE: &str = "tls.crt";
const KEY: &str = "tls.key";

/// The texts of a Secret; what is missing or no text is empty.
fn texts_of(secret: &Secret) -> Texts {
    let text = |key: &str| {
        let bytes = secret.data.as_ref().and_then(|data| data.get(key));
        bytes
            .and_then(|bytes| String::from_utf8(bytes.0.clone()).ok())
            .unwrap_or_default()
    };
    Texts {
        authorities: text(AUTHORITIES),
        authority_key: text(AUTHORITY_KEY),
        certificate: text(CERTIFICATE),
        key: text(KEY),
    }
}

/// Writes the texts, if the Secret is still as it was found; whether it was.
async fn write(api: &Api<Secret>, name: &str, found: Option<Secret>, texts: &Texts) -> anyhow::Result<bool> {
    let entries = [
        (AUTHORITIES, &texts.authorities),
        (AUTHORITY_KEY, &texts.authority_key),
        (CERTIFICATE, &texts.certificate),
        (KEY, &texts.key),
    ];
    let exists = found.is_some();
    let mut secret = found.unwrap_or_else(|| Secret {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            labels: Some(BTreeMap::from([MADE_BY.map(str::to_owned).into()])),
            ..ObjectMeta::default()
        },
        type_: Some("kubernetes.io/tls".to_owned()),
        ..Secret::default()
    });
    let data = secret.data.get_or_insert_default();
    for (key, text) in entries {
        data.insert(key.to_owned(), ByteString(text.clone().into_bytes()));
    }
    // With the resourceVersion that was found: whoever was faster is right.
    let written = if exists {
        api.replace(name, &PostParams::default(), &secret).await
    } else {
        api.create(&PostParams::default(), &secret).await
    };
    match written {
        Ok(_) => Ok(true),
        Err(kube::Error::Api(status)) if status.code == 409 || (exists && status.code == 404) => Ok(false),
        Err(error) => Err(error).context("writing"),
    }
}
