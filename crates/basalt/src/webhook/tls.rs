//! The webhook's side of TLS.

use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use anyhow::Context;
use basalt_apiserver::face::Pki;
use rustls::ServerConfig;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

/// How often the files are looked at: a cluster renews certificates days before they end.
const LOOK: Duration = Duration::from_secs(10);

/// A certificate that somebody else made, and makes anew in the same files before it ends.
#[derive(Debug)]
pub(super) struct Given {
    certificate: PathBuf,
    key: PathBuf,
    provider: Arc<CryptoProvider>,
    now: RwLock<Arc<CertifiedKey>>,
}

impl ResolvesServerCert for Given {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.now.read().unwrap_or_else(PoisonError::into_inner)))
    }
}

impl Given {
    pub(super) fn read(certificate: &Path, key: &Path) -> anyhow::Result<Arc<Self>> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let now = RwLock::new(Arc::new(load(certificate, key, &provider)?));
        Ok(Arc::new(Self {
            certificate: certificate.to_owned(),
            key: key.to_owned(),
            provider,
            now,
        }))
    }

    pub(super) fn config(self: &Arc<Self>) -> anyhow::Result<Arc<ServerConfig>> {
        let mut config = ServerConfig::builder_with_provider(Arc::clone(&self.provider))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_cert_resolver(Arc::clone(self) as _);
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }

    /// Takes in new files for ever. Files that do not go together (one of the two is being written, say) are told of, and
    /// the certificate in force stays.
    pub(super) async fn renew(self: Arc<Self>) {
        loop {
            tokio::time::sleep(LOOK).await;
            match load(&self.certificate, &self.key, &self.provider) {
                Ok(found) => self.take(found),
                Err(error) => tracing::warn!(%error, "the certificate in force stays"),
            }
        }
    }

    fn take(&self, found: CertifiedKey) {
        let mut now = self.now.write().unwrap_or_else(PoisonError::into_inner);
        if now.cert != found.cert {
            tracing::info!(file = %self.certificate.display(), "a new certificate is in force");
            *now = Arc::new(found);
        }
    }
}

fn load(certificate: &Path, key: &Path, provider: &CryptoProvider) -> anyhow::Result<CertifiedKey> {
    let about = |path: &Path| path.display().to_string();
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_file_iter(certificate)
        .and_then(Iterator::collect)
        .with_context(|| format!("--tls-cert {}", about(certificate)))?;
    anyhow::ensure!(
        !chain.is_empty(),
        "--tls-cert {}: there is no certificate in it",
        about(certificate)
    );
    let key = PrivateKeyDer::from_pem_file(key).with_context(|| format!("--tls-key {}", about(key)))?;
    CertifiedKey::from_der(chain, key, provider).context("--tls-cert and --tls-key do not belong together")
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
        given.now.read().expect("no panic").cert.clone()
    }

    #[tokio::test(start_paused = true)]
    async fn a_renewed_certificate_comes_into_force_and_a_broken_one_does_not() {
        let folder = tempfile::tempdir().expect("a folder");
        let (certificate, key) = write(folder.path(), "one.example");
        let given = Given::read(&certificate, &key).expect("they go together");
        let renewal = tokio::spawn(Arc::clone(&given).renew());
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
