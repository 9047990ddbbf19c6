//! The flags of admission, wherever it is served.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use basalt_admission::Settings;
use basalt_api::fraction::Fraction;
use basalt_api::rights::WEBHOOK_SECRET;
use kube::Client;

use super::Source;
use super::authority::{Seconds, Terms};
use super::inject::Configuration;
use super::limits::Limits;
use super::secret::{Keeper, SecretName};
use super::tls::{self, Given, InForce};

/// The flags of admission, wherever it is served.
#[derive(Debug, clap::Args)]
pub struct WebhookFlags {
    /// Where admission is served; port 0 takes a free one
    #[arg(long, value_name = "ADDR:PORT", default_value = "0.0.0.0:8443")]
    webhook_listen: SocketAddr,
    /// Certificate chain in PEM that somebody else renews; nothing is written into webhook configurations then
    #[arg(long, alias = "tls-cert-file", value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// Key of that certificate in PEM
    #[arg(long, alias = "tls-private-key-file", value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// The folder in which an authority of its own is made and kept
    #[arg(long, value_name = "DIR", conflicts_with = "tls_cert")]
    cert_dir: Option<PathBuf>,
    /// The Secret in which all replicas keep one authority and one certificate of their own [default: basalt-webhook-tls in
    /// the pod's namespace, outside of pods in basalt-system]
    #[arg(long, value_name = "NAMESPACE/NAME", conflicts_with_all = ["tls_cert", "cert_dir"])]
    tls_secret: Option<SecretName>,
    /// How long such a certificate lives; it is renewed after two thirds: 90d, 12h, 30s
    #[arg(long, value_name = "TIME", default_value = "90d", value_parser = lifetime)]
    cert_lifetime: Seconds,
    /// How long such an authority lives, at least three times as long; its successor is trusted beside it before it signs
    #[arg(long, value_name = "TIME", default_value = "1825d", value_parser = lifetime)]
    ca_lifetime: Seconds,
    /// Names and addresses that an own certificate is for; may be repeated [default: basalt-webhook.NAMESPACE.svc and
    /// basalt-webhook.NAMESPACE.svc.cluster.local of --tls-secret; with --cert-dir localhost and 127.0.0.1]
    #[arg(long, value_name = "NAME")]
    webhook_host: Vec<String>,
    /// Webhook configurations that shall trust the own authority
    #[arg(
        long,
        value_name = "KIND/NAME",
        value_delimiter = ',',
        default_values = ["validating/basalt-validate", "mutating/basalt-mutate"]
    )]
    webhook_configurations: Vec<Configuration>,
    /// Write into these configurations that the webhook is called at this address, not through its Service
    #[arg(long, value_name = "https://HOST:PORT", value_parser = base_url)]
    webhook_url: Option<String>,
    /// Leave webhook configurations alone
    #[arg(long)]
    no_inject: bool,
    /// Seconds that a review may take; fewer than timeoutSeconds of the webhook configurations
    #[arg(long, value_name = "SECONDS", default_value_t = 8, value_parser = clap::value_parser!(u64).range(1..=30))]
    review_timeout: u64,
    /// Reviews at the same time; the next is told to come back
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u16).range(1..))]
    review_concurrency: u16,
    /// Seconds to serve on after the end was asked for, until every API server has heard of it
    #[arg(long, value_name = "SECONDS", default_value_t = 0, value_parser = clap::value_parser!(u64).range(..=300))]
    webhook_drain: u64,
    /// Levels under root that the tree of queues may have
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u8).range(1..=32))]
    max_queue_depth: u8,
    /// The part of the cluster that all queues together may be guaranteed, from 0 to 1
    #[arg(long, value_name = "SHARE", default_value = "1.0")]
    guarantee_share: Fraction,
    /// Whoever delivers to a queue needs the right to use it (verb use on queues/NAME)
    #[arg(long)]
    queue_acl: bool,
}

/// Where a pod finds its namespace.
const POD_NAMESPACE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";
const DAY: Seconds = 86_400;
/// Below this, times in certificates are too coarse; above it, they end.
const LIFETIMES: std::ops::RangeInclusive<Seconds> = 3..=36_500 * DAY;

/// The namespace that this pod is in; outside of pods the usual one.
pub fn pod_namespace() -> String {
    match std::fs::read_to_string(POD_NAMESPACE) {
        Ok(namespace) => namespace.trim().to_owned(),
        Err(_) => "basalt-system".to_owned(),
    }
}

fn lifetime(text: &str) -> Result<Seconds, String> {
    let days = text.strip_suffix('d').and_then(|days| days.parse::<Seconds>().ok());
    let seconds = match days {
        Some(days) => days.checked_mul(DAY),
        None => text.parse::<jiff::SignedDuration>().ok().map(|span| span.as_secs()),
    };
    let good = seconds.filter(|seconds| LIFETIMES.contains(seconds));
    good.ok_or_else(|| "write a time from 3s to 36500d, such as 90d, 12h or 30s".to_owned())
}

fn base_url(text: &str) -> Result<String, String> {
    let wrong = || "write https://HOST:PORT".to_owned();
    let url: http::Uri = text.parse().map_err(|_| wrong())?;
    let plain = url.scheme_str() == Some("https") && url.host().is_some_and(|host| !host.is_empty());
    if !plain || !matches!(url.path(), "" | "/") || url.query().is_some() {
        return Err(wrong());
    }
    Ok(text.to_owned())
}

impl WebhookFlags {
    pub(super) fn settings(&self, schedulers: Arc<[String]>) -> Settings {
        Settings {
            queue_depth_max: self.max_queue_depth.into(),
            guarantee_share: self.guarantee_share,
            queue_acl: self.queue_acl,
            schedulers,
        }
    }

    pub(super) fn limits(&self) -> Limits {
        Limits {
            reviews: self.review_concurrency.into(),
            patience: Duration::from_secs(self.review_timeout),
            ..Limits::default()
        }
    }

    pub(super) fn listen_address(&self) -> SocketAddr {
        self.webhook_listen
    }

    /// How long it serves on after the end was asked for.
    pub fn drain(&self) -> Duration {
        Duration::from_secs(self.webhook_drain)
    }

    pub(super) fn url(&self) -> Option<&str> {
        self.webhook_url.as_deref()
    }

    /// The configurations to look after.
    pub(super) fn configurations(&self) -> Vec<Configuration> {
        if self.no_inject {
            Vec::new()
        } else {
            self.webhook_configurations.clone()
        }
    }

    /// Names and addresses to serve as: those that were given, or else `usual`; and in any case the one to be called at.
    fn hosts(&self, usual: Vec<String>) -> Vec<String> {
        let mut hosts = self.webhook_host.clone();
        if hosts.is_empty() {
            hosts = usual;
        }
        let url = self
            .webhook_url
            .as_deref()
            .and_then(|url| url.parse::<http::Uri>().ok());
        if let Some(host) = url.as_ref().and_then(http::Uri::host) {
            hosts.push(host.trim_matches(['[', ']']).to_owned());
        }
        hosts
    }

    fn secret(&self) -> SecretName {
        self.tls_secret.clone().unwrap_or_else(|| SecretName {
            namespace: pod_namespace(),
            name: WEBHOOK_SECRET.to_owned(),
        })
    }

    fn terms(&self, namespace: &str) -> anyhow::Result<Terms> {
        anyhow::ensure!(
            self.ca_lifetime >= self.cert_lifetime.saturating_mul(3),
            "--ca-lifetime must be at least three times --cert-lifetime: a certificate ends with its authority"
        );
        let service = format!("basalt-webhook.{namespace}.svc");
        let hosts = self.hosts(vec![format!("{service}.cluster.local"), service]);
        Ok(Terms {
            hosts: hosts.into_iter().collect::<BTreeSet<_>>(),
            certificate: self.cert_lifetime,
            authority: self.ca_lifetime,
        })
    }

    /// What to serve with.
    pub(super) fn source(&self, client: &Client) -> anyhow::Result<Source> {
        let in_force = InForce::new();
        Ok(match (&self.tls_cert, &self.tls_key, &self.cert_dir) {
            (Some(certificate), Some(key), _) => {
                let given = Given::read(certificate, key, in_force.clone())?;
                Source::Files(given, in_force)
            }
            (_, _, Some(folder)) => {
                let hosts = self.hosts(vec!["localhost".to_owned(), "127.0.0.1".to_owned()]);
                Source::Folder(tls::own(folder, &hosts)?)
            }
            _ => {
                let secret = self.secret();
                let terms = self.terms(&secret.namespace)?;
                let keeper = Keeper::new(client.clone(), secret, terms, in_force.clone());
                Source::Secret(keeper, in_force)
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        flags: WebhookFlags,
    }

    fn hosts(arguments: &str) -> Result<String, String> {
        let line = Line::try_parse_from(["webhook"].into_iter().chain(arguments.split_whitespace()));
        let flags = line.map_err(|error| error.to_string())?.flags;
        let terms = flags.terms(&flags.secret().namespace);
        let hosts = terms.map_err(|error| error.to_string())?.hosts;
        Ok(hosts.into_iter().collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn a_certificate_is_for_the_names_that_callers_use() {
        let usual = "basalt-webhook.basalt-system.svc basalt-webhook.basalt-system.svc.cluster.local";
        for (arguments, expected) in [
            ("", usual.to_owned()),
            ("--tls-secret batch/tls", usual.replace("basalt-system", "batch")),
            (
                "--webhook-host a.example --webhook-host 10.0.0.1",
                "10.0.0.1 a.example".to_owned(),
            ),
            ("--webhook-url https://127.0.0.1:9443", format!("127.0.0.1 {usual}")),
            ("--webhook-url https://[::1]:9443 --webhook-host a", "::1 a".to_owned()),
        ] {
            assert_eq!(hosts(arguments), Ok(expected), "{arguments}");
        }
    }

    #[test]
    fn what_cannot_work_is_refused() {
        for arguments in [
            "--cert-lifetime 10d --ca-lifetime 29d",
            "--cert-lifetime 2s",
            "--cert-lifetime soon",
            "--cert-lifetime 9999999999999999999d",
            "--tls-secret name",
            "--tls-secret a/b --cert-dir d",
            "--tls-cert c",
            "--webhook-url http://a:1",
            "--webhook-url https://a:1/path",
            "--webhook-configurations basalt",
            "--review-timeout 31",
            "--review-concurrency 0",
        ] {
            assert!(hosts(arguments).is_err(), "{arguments}");
        }
        assert!(hosts("--cert-lifetime 3s --ca-lifetime 9s").is_ok());
        assert!(hosts("--cert-lifetime 1h30m").is_ok());
    }
}
