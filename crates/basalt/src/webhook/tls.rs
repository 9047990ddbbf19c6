//! The webhook's side of TLS.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use basalt_apiserver::face::Pki;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// With a certificate that somebody else made.
pub(super) fn given(certificate: &Path, key: &Path) -> anyhow::Result<Arc<ServerConfig>> {
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
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .context("--tls-cert and --tls-key do not belong together")?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// With a certificate for `hosts` by an authority of its own, which is kept in `folder` as `ca.crt`.
pub(super) fn own(folder: &Path, hosts: &[String]) -> anyhow::Result<Arc<ServerConfig>> {
    let pki = Pki::load_or_create(folder, hosts).with_context(|| format!("--cert-dir {}", folder.display()))?;
    Ok(pki.server_config()?)
}
