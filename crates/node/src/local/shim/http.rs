//! As much of HTTP as a probe needs: one GET, and the number in the first line of the answer.

use std::io;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme};
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// Longest first line.
const LINE_MAX: u64 = 8192;

/// What is asked.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ask<'a> {
    pub(super) host: &'a str,
    pub(super) port: u16,
    pub(super) path: &'a str,
    pub(super) headers: &'a [(String, String)],
}

impl Ask<'_> {
    /// The request; what would break its lines is refused.
    fn text(&self) -> io::Result<String> {
        let named = |name: &str| self.headers.iter().any(|(own, _)| own.eq_ignore_ascii_case(name));
        let path = if self.path.starts_with('/') {
            self.path.to_owned()
        } else {
            format!("/{}", self.path)
        };
        let mut lines = vec![format!("GET {path} HTTP/1.1")];
        let usual = [
            ("Host", format!("{}:{}", self.host, self.port)),
            ("User-Agent", "kube-probe/basalt".to_owned()),
            ("Accept", "*/*".to_owned()),
            ("Connection", "close".to_owned()),
        ];
        lines.extend(
            usual
                .into_iter()
                .filter(|(name, _)| !named(name))
                .map(|(name, value)| format!("{name}: {value}")),
        );
        lines.extend(self.headers.iter().map(|(name, value)| format!("{name}: {value}")));
        if lines.iter().any(|line| line.contains(['\r', '\n'])) || path.contains(' ') {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "path or headers are not those of HTTP",
            ));
        }
        Ok(lines.join("\r\n") + "\r\n\r\n")
    }
}

/// Asks; the status.
pub(super) async fn get(ask: &Ask<'_>, tls: bool) -> io::Result<u16> {
    let stream = TcpStream::connect((ask.host, ask.port)).await?;
    if !tls {
        return converse(stream, ask).await;
    }
    let name = ServerName::try_from(ask.host.to_owned()).map_err(io::Error::other)?;
    let stream = TlsConnector::from(Arc::new(trusting()?)).connect(name, stream).await?;
    converse(stream, ask).await
}

async fn converse(mut stream: impl AsyncRead + AsyncWrite + Unpin, ask: &Ask<'_>) -> io::Result<u16> {
    stream.write_all(ask.text()?.as_bytes()).await?;
    let mut line = Vec::new();
    BufReader::new(stream)
        .take(LINE_MAX)
        .read_until(b'\n', &mut line)
        .await?;
    let line = String::from_utf8_lossy(&line);
    let mut words = line.split_ascii_whitespace();
    let status = words
        .next()
        .filter(|word| word.starts_with("HTTP/"))
        .and_then(|_| words.next()?.parse().ok());
    status.ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::InvalidData,
            format!("not an answer of HTTP: {:?}", line.trim_end()),
        )
    })
}

/// A probe asks its own pod, whose certificate is seldom made for that name: nothing is verified, as in Kubernetes.
fn trusting() -> io::Result<ClientConfig> {
    let provider = Arc::new(ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Trusting(provider)))
        .with_no_client_auth();
    Ok(config)
}

#[derive(Debug)]
struct Trusting(Arc<CryptoProvider>);

impl ServerCertVerifier for Trusting {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_whole_or_refused() {
        let check = |path: &str, headers: &[(&str, &str)], expected: Option<&str>| {
            let headers: Vec<_> = headers
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect();
            let ask = Ask {
                host: "127.1.2.3",
                port: 80,
                path,
                headers: &headers,
            };
            let text = ask.text().ok();
            let short = text.as_deref().map(|text| text.replace("\r\n", "|"));
            assert_eq!(short.as_deref(), expected, "{path:?} {headers:?}");
        };
        let usual = "User-Agent: kube-probe/basalt|Accept: */*|Connection: close|";
        check(
            "/live?x=1",
            &[],
            Some(&format!("GET /live?x=1 HTTP/1.1|Host: 127.1.2.3:80|{usual}|")),
        );
        check("", &[], Some(&format!("GET / HTTP/1.1|Host: 127.1.2.3:80|{usual}|")));
        check(
            "/",
            &[("host", "a"), ("X", "y")],
            Some(&format!("GET / HTTP/1.1|{usual}host: a|X: y||")),
        );
        check("/", &[("X", "y\r\nZ: z")], None);
        check("/ HTTP/1.1\r\nX: y", &[], None);
        check("/a b", &[], None);
    }
}
