//! Certificates and the admin's token: made once, kept in the data folder, the same after a restart.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use serde_json::json;

/// Why there are no certificates.
#[derive(Debug, thiserror::Error)]
pub enum PkiError {
    /// A file cannot be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// Which file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A kept file is not what it should be.
    #[error("{} is damaged: {why}", path.display())]
    Damaged {
        /// Which file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// A certificate cannot be made.
    #[error("cannot make a certificate: {0}")]
    Certificate(#[from] rcgen::Error),
    /// TLS cannot be set up with what was made.
    #[error("cannot set up TLS: {0}")]
    Tls(#[from] rustls::Error),
    /// The system has no randomness.
    #[error("the system has no source of randomness")]
    NoRandomness,
}

/// The authority, the server's certificate and the admin's token.
pub struct Pki {
    authority: String,
    certificate: CertificateDer<'static>,
    key: PrivatePkcs8KeyDer<'static>,
    token: Arc<str>,
}

impl std::fmt::Debug for Pki {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pki").finish_non_exhaustive()
    }
}

impl Pki {
    /// Loads the authority and the token from `folder`, or makes them; the server's certificate for `hosts` (names and
    /// addresses) is made anew each time.
    pub fn load_or_create(folder: &Path, hosts: &[String]) -> Result<Pki, PkiError> {
        fs::create_dir_all(folder).map_err(|source| PkiError::Io {
            path: folder.to_owned(),
            source,
        })?;
        let key_path = folder.join("ca.key");
        let key = keep(&key_path, || Ok(KeyPair::generate()?.serialize_pem()))?;
        let key = KeyPair::from_pem(&key).map_err(|error| PkiError::Damaged {
            path: key_path,
            why: error.to_string(),
        })?;
        let params = authority()?;
        let authority = keep(&folder.join("ca.crt"), || Ok(params.self_signed(&key)?.pem()))?;
        let token = keep(&folder.join("token"), random_token)?;
        let issuer = Issuer::new(params, key);
        let server_key = KeyPair::generate()?;
        let mut server = CertificateParams::new(hosts.to_vec())?;
        server.distinguished_name.push(DnType::CommonName, "basalt-apiserver");
        server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        server.use_authority_key_identifier_extension = true;
        let certificate = server.signed_by(&server_key, &issuer)?.der().clone();
        let key = PrivatePkcs8KeyDer::from(server_key.serialize_der());
        Ok(Pki {
            authority,
            certificate,
            key,
            token: token.trim().into(),
        })
    }

    /// The admin's bearer token.
    pub fn token(&self) -> Arc<str> {
        self.token.clone()
    }

    /// The authority's certificate, for clients.
    pub fn authority_pem(&self) -> &str {
        &self.authority
    }

    /// The server's side of TLS: HTTP/2 and HTTP/1.1.
    pub fn server_config(&self) -> Result<Arc<rustls::ServerConfig>, PkiError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(
                vec![self.certificate.clone()],
                PrivateKeyDer::Pkcs8(self.key.clone_key()),
            )?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }

    /// A kubeconfig of the admin for a server at `url`.
    pub fn kubeconfig(&self, url: &str) -> String {
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "basalt", "preferences": {},
            "clusters": [{"name": "basalt", "cluster": {
                "server": url, "certificate-authority-data": STANDARD.encode(&self.authority)}}],
            "contexts": [{"name": "basalt", "context": {"cluster": "basalt", "user": "basalt"}}],
            "users": [{"name": "basalt", "user": {"token": &*self.token}}],
        });
        // JSON is YAML, and needs no quoting rules of its own.
        format!("{config:#}\n")
    }

    /// Writes a kubeconfig that only its owner can read.
    pub fn write_kubeconfig(&self, path: &Path, url: &str) -> Result<(), PkiError> {
        write_private(path, self.kubeconfig(url).as_bytes()).map_err(|source| PkiError::Io {
            path: path.to_owned(),
            source,
        })
    }
}

/// The authority is always described the same way, so that its kept key can sign new certificates.
fn authority() -> Result<CertificateParams, PkiError> {
    let mut params = CertificateParams::new(Vec::new())?;
    params.distinguished_name.push(DnType::CommonName, "basalt-ca");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    Ok(params)
}

fn random_token() -> Result<String, PkiError> {
    let mut bytes = [0_u8; 32];
    getrandom::fill(&mut bytes).map_err(|_| PkiError::NoRandomness)?;
    Ok(URL_SAFE_NO_PAD.encode(bytes))
}

/// The file's text; it is made first where there is none.
fn keep(path: &Path, make: impl FnOnce() -> Result<String, PkiError>) -> Result<String, PkiError> {
    let failed = |source| PkiError::Io {
        path: path.to_owned(),
        source,
    };
    match fs::read_to_string(path) {
        Ok(text) if text.trim().is_empty() => Err(PkiError::Damaged {
            path: path.to_owned(),
            why: "it is empty".to_owned(),
        }),
        Ok(text) => Ok(text),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let text = make()?;
            write_private(path, text.as_bytes()).map_err(failed)?;
            Ok(text)
        }
        Err(error) => Err(failed(error)),
    }
}

/// Writes a file of mode 0600 at once or not at all.
fn write_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        fs::create_dir_all(folder)?;
    }
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.tmp", std::process::id()));
    let temporary = path.with_file_name(name);
    let _stale = fs::remove_file(&temporary);
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&temporary)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&temporary, path)
}
