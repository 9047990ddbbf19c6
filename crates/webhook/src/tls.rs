//! The webhook's side of TLS.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use basalt_apiserver::http::Pki;
use rustls::ServerConfig;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio::sync::watch;

/// How often the files are looked at: a cluster renews certificates days before they end.
const LOOK: Duration = Duration::from_secs(10);

/// The certificate that is served with now. It can change between any two connections.
#[derive(Debug)]
pub(super) struct InForce {
    provider: Arc<CryptoProvider>,
    now: watch::Sender<Option<Arc<CertifiedKey>>>,
}

impl ResolvesServerCert for InForce {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.now.borrow().clone()
    }
}

impl InForce {
    /// None yet.
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            provider: Arc::new(rustls::crypto::ring::default_provider()),
            now: watch::Sender::default(),
        })
    }

    /// What serves with it: HTTP/2 and HTTP/1.1.
    pub(super) fn config(self: &Arc<Self>) -> anyhow::Result<Arc<ServerConfig>> {
        let mut config = ServerConfig::builder_with_provider(Arc::clone(&self.provider))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_cert_resolver(Arc::clone(self) as _);
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }

    /// Resolves when there is one.
    pub(super) async fn there(&self) {
        let mut now = self.now.subscribe();
        // It fails only when the sender is gone, which is ours.
        let _there = now.wait_for(Option::is_some).await;
    }

    /// The chain that is served with.
    #[cfg(test)]
    pub(super) fn chain(&self) -> Option<Vec<CertificateDer<'static>>> {
        self.now.borrow().as_ref().map(|now| now.cert.clone())
    }

    /// Puts a chain and a key (PEM) into force, if they go together.
    pub(super) fn take(&self, chain: &[u8], key: &[u8]) -> anyhow::Result<()> {
        let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(chain)
            .collect::<Result<_, _>>()
            .context("the certificate cannot be read")?;
        anyhow::ensure!(!chain.is_empty(), "there is no certificate");
        let key = PrivateKeyDer::from_pem_slice(key).context("the key cannot be read")?;
        let found =
            CertifiedKey::from_der(chain, key, &self.provider).context("certificate and key do not belong together")?;
        let changed = self.now.send_if_modified(|now| {
            let changed = now.as_ref().is_none_or(|now| now.cert != found.cert);
            if changed {
                *now = Some(Arc::new(found));
            }
            changed
        });
        if changed {
            tracing::info!("a new certificate is in force");
        }
        Ok(())
    }
}

/// A certificate that somebody else made, and makes anew in the same files before it ends.
#[derive(Debug)]
pub(super) struct Given {
    certificate: PathBuf,
    key: PathBuf,
    in_force: Arc<InForce>,
}

impl Given {
    pub(super) fn read(certificate: &Path, key: &Path, in_force: Arc<InForce>) -> anyhow::Result<Self> {
        let given = Self {
            certificate: certificate.to_owned(),
            key: key.to_owned(),
            in_force,
        };
        given.look()?;
        Ok(given)
    }

    /// Takes in new files for ever. Files that do not go together (one of the two is being written, say) are told of, and
    /// the certificate in force stays.
    pub(super) async fn renew(&self) {
        loop {
            tokio::time::sleep(LOOK).await;
            if let Err(error) = self.look() {
                tracing::warn!(error = format!("{error:#}"), "the certificate in force stays");
            }
        }
    }

    fn look(&self) -> anyhow::Result<()> {
        let read = |flag: &str, path: &Path| std::fs::read(path).with_context(|| format!("{flag} {}", path.display()));
        let (chain, key) = (read("--tls-cert", &self.certificate)?, read("--tls-key", &self.key)?);
        let about = || {
            format!(
                "--tls-cert {}, --tls-key {}",
                self.certificate.display(),
                self.key.display()
            )
        };
        self.in_force.take(&chain, &key).with_context(about)
    }
}

/// With a certificate for `hosts` by an authority of its own, which is kept in `folder` as `ca.crt`.
pub(super) fn own(folder: &Path, hosts: &[String]) -> anyhow::Result<Arc<ServerConfig>> {
    let pki = Pki::load_or_create(folder, hosts).with_context(|| format!("--cert-dir {}", folder.display()))?;
    Ok(pki.server_config()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(folder: &Path, name: &str) -> (PathBuf, PathBuf) {
        let made = rcgen::generate_simple_self_signed([name.to_owned()]).expect("a certificate");
        let (certificate, key) = (folder.join("tls.crt"), folder.join("tls.key"));
        std::fs::write(&certificate, made.cert.pem()).expect("written");
        std::fs::write(&key, made.signing_key.serialize_pem()).expect("written");
        (certificate, key)
    }

    fn in_force(given: &Given) -> Vec<CertificateDer<'static>> {
        given.in_force.chain().expect("there is one")
    }

    #[tokio::test(start_paused = true)]
    async fn a_renewed_certificate_comes_into_force_and_a_broken_one_does_not() {
        let folder = tempfile::tempdir().expect("a folder");
        let (certificate, key) = write(folder.path(), "one.example");
        let given = Arc::new(Given::read(&certificate, &key, InForce::new()).expect("they go together"));
        let renewing = Arc::clone(&given);
        let renewal = tokio::spawn(async move { renewing.renew().await });
        let first = in_force(&given);

        std::fs::write(&certificate, "half a certif").expect("written");
        tokio::time::sleep(LOOK * 2).await;
        assert_eq!(in_force(&given), first, "a broken file changes nothing");

        write(folder.path(), "two.example");
        tokio::time::sleep(LOOK * 2).await;
        assert_ne!(in_force(&given), first, "the new one is in force");
        renewal.abort();
    }
}
