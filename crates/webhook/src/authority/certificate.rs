//! One certificate, as far as it matters here.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, Ipv6Addr};

use rcgen::KeyPair;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer, X509Certificate};

use super::Life;

/// More than any bundle of ours has.
const CERTIFICATES_MAX: usize = 16;
const BEGIN: &str = "-----BEGIN CERTIFICATE-----";
const END: &str = "-----END CERTIFICATE-----";

#[derive(Clone, Debug)]
pub(super) struct Certificate {
    pub(super) der: Vec<u8>,
    /// In PEM, with the end of its line.
    pub(super) text: String,
    pub(super) life: Life,
    pub(super) is_authority: bool,
    /// Names and addresses that it is for.
    pub(super) names: BTreeSet<String>,
    public_key: Vec<u8>,
}

impl Certificate {
    fn read(text: &str) -> Result<Self, String> {
        let der = CertificateDer::from_pem_slice(text.as_bytes()).map_err(|error| error.to_string())?;
        let (_, parsed) = X509Certificate::from_der(&der).map_err(|error| error.to_string())?;
        let validity = parsed.validity();
        let alternatives = parsed.subject_alternative_name().map_err(|error| error.to_string())?;
        let names = alternatives.map(|names| names.value.general_names.iter().filter_map(name).collect());
        Ok(Self {
            text: format!("{text}\n"),
            life: Life {
                from: validity.not_before.timestamp(),
                until: validity.not_after.timestamp(),
            },
            is_authority: parsed.is_ca(),
            names: names.unwrap_or_default(),
            public_key: parsed.public_key().subject_public_key.data.to_vec(),
            der: der.to_vec(),
        })
    }

    pub(super) fn belongs_to(&self, key: &KeyPair) -> bool {
        self.public_key == key.public_key_raw()
    }

    /// Whether `authority` signed it, not only one of the same name.
    pub(super) fn is_signed_by(&self, authority: &Self) -> bool {
        let (Ok((_, own)), Ok((_, other))) = (
            X509Certificate::from_der(&self.der),
            X509Certificate::from_der(&authority.der),
        ) else {
            return false;
        };
        own.issuer() == other.subject() && own.verify_signature(Some(other.public_key())).is_ok()
    }
}

fn name(name: &GeneralName<'_>) -> Option<String> {
    match name {
        GeneralName::DNSName(name) => Some((*name).to_owned()),
        GeneralName::IPAddress(bytes) => match bytes.len() {
            4 => Some(Ipv4Addr::from(<[u8; 4]>::try_from(*bytes).ok()?).to_string()),
            _ => Some(Ipv6Addr::from(<[u8; 16]>::try_from(*bytes).ok()?).to_string()),
        },
        _ => None,
    }
}

/// Every certificate of a text; or what is wrong with the text.
pub(super) fn read(text: &str) -> Result<Vec<Certificate>, String> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some((_, after)) = rest.split_once(BEGIN) {
        let (body, after) = after.split_once(END).ok_or("is cut off")?;
        if found.len() == CERTIFICATES_MAX {
            return Err(format!("has more than {CERTIFICATES_MAX} certificates"));
        }
        let block = format!("{BEGIN}{body}{END}");
        found.push(Certificate::read(&block).map_err(|why| format!("cannot be read ({why})"))?);
        rest = after;
    }
    if found.is_empty() {
        return Err("has no certificate".to_owned());
    }
    Ok(found)
}
