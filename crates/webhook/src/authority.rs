//! The webhook's own authority, kept in a Secret: what its contents are worth at a moment, and what is to be done about
//! them.
//!
//! [`Need::of`] decides from texts and time alone; [`Need::fill`] makes what is needed. Whoever calls writes the result
//! only if the Secret is still the one that was judged, so that any number of replicas agree.

mod certificate;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fmt;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
};
use rustls::pki_types::CertificateDer;
use time::OffsetDateTime;

use certificate::{Certificate, read};

/// Seconds since the epoch.
pub(super) type Seconds = i64;

/// By how much the clocks of two machines may differ.
const CLOCKS_APART: Seconds = 300;

/// The four texts of the Secret, in PEM.
#[derive(Clone, Default, PartialEq, Eq)]
pub(super) struct Texts {
    /// Every authority that is trusted, the newest first: the bundle.
    pub(super) authorities: String,
    /// The key of one of them, which signs.
    pub(super) authority_key: String,
    /// The certificate to serve with.
    pub(super) certificate: String,
    /// Its key.
    pub(super) key: String,
}

/// Keys are not for logs.
impl fmt::Debug for Texts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Texts").finish_non_exhaustive()
    }
}

/// What is wanted of certificates.
#[derive(Clone, Debug)]
pub(super) struct Terms {
    /// Names and addresses to serve as.
    pub(super) hosts: BTreeSet<String>,
    /// How long a serving certificate lives.
    pub(super) certificate: Seconds,
    /// How long an authority lives.
    pub(super) authority: Seconds,
}

impl Terms {
    /// How long an authority is in the bundle before it signs: every API server has heard of it by then.
    fn settling(&self) -> Seconds {
        self.certificate.saturating_div(6).clamp(1, 60)
    }
}

/// What is to be done about the contents of the Secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Need {
    /// They are good until then.
    Nothing {
        /// When to look again.
        until: Seconds,
    },
    /// Nothing in them can be built on: an authority and a certificate.
    Everything {
        /// What is wrong.
        why: String,
    },
    /// Another authority beside those that are trusted already; what is served with stays.
    Authority {
        /// What is wrong with the one that signs.
        why: String,
    },
    /// A serving certificate.
    Certificate {
        /// Who it is for.
        names: BTreeSet<String>,
        /// What is wrong with the present one.
        why: String,
    },
    /// Authorities whose certificates are all gone are trusted no longer.
    Forget,
}

impl fmt::Display for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing { until } => write!(f, "nothing until {until}"),
            Self::Everything { why } => write!(f, "a new authority and certificate: {why}"),
            Self::Authority { why } => write!(f, "a new authority beside the old one: {why}"),
            Self::Certificate { why, .. } => write!(f, "a new certificate: {why}"),
            Self::Forget => write!(f, "old authorities are trusted no longer"),
        }
    }
}

/// The parts of the contents that are worth something.
struct Sound {
    /// The authorities that live.
    living: Vec<Certificate>,
    /// How many others are in the bundle.
    dead: usize,
    /// The one whose key is there.
    signer: Option<Certificate>,
    /// What is served with, or what is wrong with it.
    serving: Result<Certificate, String>,
}

impl Sound {
    fn of(texts: &Texts, now: Seconds) -> Result<Self, String> {
        let all = read(&texts.authorities).map_err(|why| format!("ca.crt {why}"))?;
        let count = all.len();
        let living: Vec<Certificate> = all
            .into_iter()
            .filter(|one| one.is_authority && one.life.holds(now))
            .collect();
        if living.is_empty() {
            return Err("ca.crt has no authority that lives".to_owned());
        }
        let signer = KeyPair::from_pem(&texts.authority_key)
            .ok()
            .and_then(|key| living.iter().find(|one| one.belongs_to(&key)).cloned());
        let serving = serving(texts, &living, now);
        Ok(Self {
            dead: count.saturating_sub(living.len()),
            signer,
            serving,
            living,
        })
    }

    /// Authorities that neither sign nor have signed anything that may still be served with.
    fn needless<'a>(
        &'a self,
        signer: &'a Certificate,
        terms: &Terms,
        now: Seconds,
    ) -> impl Iterator<Item = &'a Certificate> {
        let over = now >= needless_from(signer, terms);
        let in_use = move |one: &Certificate| self.serving.as_ref().is_ok_and(|serving| serving.is_signed_by(one));
        let old = self.living.iter().filter(move |one| one.der != signer.der);
        old.filter(move |one| over && !in_use(one))
    }
}

/// From when on nothing lives that was signed before `signer` was there.
fn needless_from(signer: &Certificate, terms: &Terms) -> Seconds {
    signer.life.born().saturating_add(terms.certificate)
}

fn serving(texts: &Texts, living: &[Certificate], now: Seconds) -> Result<Certificate, String> {
    let key = KeyPair::from_pem(&texts.key).map_err(|error| format!("tls.key is not a key ({error})"))?;
    let chain = read(&texts.certificate).map_err(|why| format!("tls.crt {why}"))?;
    let first = chain.into_iter().next().ok_or("tls.crt has no certificate")?;
    if !first.belongs_to(&key) {
        return Err("tls.key is not that of tls.crt".to_owned());
    }
    if !first.life.holds(now) {
        return Err("tls.crt has ended".to_owned());
    }
    if !living.iter().any(|one| first.is_signed_by(one)) {
        return Err("tls.crt is signed by no authority of ca.crt".to_owned());
    }
    Ok(first)
}

impl Need {
    /// What `found`, the contents of the Secret if there is one, need at the time `now`.
    pub(super) fn of(found: Option<&Texts>, now: Seconds, terms: &Terms) -> Self {
        let everything = |why: String| Self::Everything { why };
        let Some(found) = found else {
            return everything("there is no Secret".to_owned());
        };
        let sound = match Sound::of(found, now) {
            Ok(sound) => sound,
            Err(why) => return everything(why),
        };
        match (&sound.signer, &sound.serving) {
            (None, Err(why)) => everything(format!("ca.key is of no authority in ca.crt, and {why}")),
            (None, Ok(_)) => Self::Authority {
                why: "ca.key is of no authority in ca.crt".to_owned(),
            },
            (Some(signer), _) if now >= signer.life.renewal() => Self::Authority {
                why: "two thirds of its life are over".to_owned(),
            },
            (Some(_), Err(why)) => Self::Certificate {
                names: terms.hosts.clone(),
                why: why.clone(),
            },
            (Some(signer), Ok(serving)) => Self::of_sound(&sound, signer, serving, now, terms),
        }
    }

    fn of_sound(sound: &Sound, signer: &Certificate, serving: &Certificate, now: Seconds, terms: &Terms) -> Self {
        if let Some(missing) = terms.hosts.iter().find(|host| !serving.names.contains(*host)) {
            // Those of others are kept: two replicas that ask for different names would take turns for ever.
            return Self::Certificate {
                names: terms.hosts.union(&serving.names).cloned().collect(),
                why: format!("it is not for {missing}"),
            };
        }
        let mut due = serving.life.renewal();
        if !serving.is_signed_by(signer) {
            let settled = signer.life.born().saturating_add(terms.settling());
            let last = serving.life.until.saturating_sub(1);
            due = due.max(settled.min(last));
        }
        if now >= due {
            return Self::Certificate {
                names: terms.hosts.clone(),
                why: "two thirds of its life are over".to_owned(),
            };
        }
        if sound.dead > 0 || sound.needless(signer, terms, now).next().is_some() {
            return Self::Forget;
        }
        let mut until = due.min(signer.life.renewal());
        for old in sound.living.iter().filter(|one| one.der != signer.der) {
            let needless = needless_from(signer, terms).min(old.life.until);
            // One that is still in use is looked at again when the certificate is renewed.
            until = if needless > now { until.min(needless) } else { until };
        }
        Self::Nothing { until }
    }

    /// The contents with what is needed. `found` are those that were judged, at the same time.
    pub(super) fn fill(&self, found: Option<&Texts>, now: Seconds, terms: &Terms) -> anyhow::Result<Texts> {
        let found = found.cloned().unwrap_or_default();
        let sound = || Sound::of(&found, now).map_err(anyhow::Error::msg);
        Ok(match self {
            Self::Nothing { .. } => found,
            Self::Everything { .. } => {
                let (text, key) = authority(now, terms)?;
                let authority = first(&text)?;
                let issuer = Issuer::from_ca_cert_der(&CertificateDer::from(&*authority.der), &key)?;
                let (certificate, certificate_key) = leaf(&issuer, &authority, &terms.hosts, now, terms)?;
                Texts {
                    authorities: text,
                    authority_key: key.serialize_pem(),
                    certificate,
                    key: certificate_key,
                }
            }
            Self::Authority { .. } => {
                let (mut text, key) = authority(now, terms)?;
                text.extend(sound()?.living.iter().map(|one| &*one.text));
                Texts {
                    authorities: text,
                    authority_key: key.serialize_pem(),
                    ..found
                }
            }
            Self::Certificate { names, .. } => {
                let authority = sound()?
                    .signer
                    .ok_or_else(|| anyhow::anyhow!("there is nobody to sign"))?;
                let issuer = Issuer::from_ca_cert_der(
                    &CertificateDer::from(&*authority.der),
                    KeyPair::from_pem(&found.authority_key)?,
                )?;
                let (certificate, key) = leaf(&issuer, &authority, names, now, terms)?;
                Texts {
                    certificate,
                    key,
                    ..found
                }
            }
            Self::Forget => {
                let sound = sound()?;
                let signer = sound.signer.as_ref();
                let needless: BTreeSet<&[u8]> = signer
                    .map(|signer| sound.needless(signer, terms, now).map(|one| &*one.der).collect())
                    .unwrap_or_default();
                let kept = sound.living.iter().filter(|one| !needless.contains(&*one.der));
                Texts {
                    authorities: kept.map(|one| &*one.text).collect(),
                    ..found.clone()
                }
            }
        })
    }
}

/// A span of time as certificates have it. It begins a little in the past, for clocks that are behind ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Life {
    from: Seconds,
    until: Seconds,
}

impl Life {
    fn new(now: Seconds, length: Seconds) -> Self {
        let from = now.saturating_sub(Self::before(length));
        Self {
            from,
            until: from.saturating_add(length),
        }
    }

    /// The part of a span of this length that was over when it was made.
    fn before(length: Seconds) -> Seconds {
        length.saturating_div(20).min(CLOCKS_APART)
    }

    /// When it was made.
    fn born(self) -> Seconds {
        let length = self.until.saturating_sub(self.from);
        self.from.saturating_add(Self::before(length))
    }

    /// When two thirds of what it had are over.
    fn renewal(self) -> Seconds {
        let left = self.until.saturating_sub(self.born());
        self.born().saturating_add(left.saturating_div(3).saturating_mul(2))
    }

    /// Whether it has begun and not ended, for whoever's clock may be ahead of ours when it made it.
    fn holds(self, now: Seconds) -> bool {
        (self.from.saturating_sub(CLOCKS_APART)..self.until).contains(&now)
    }

    fn put_into(self, params: &mut CertificateParams) -> anyhow::Result<()> {
        params.not_before = OffsetDateTime::from_unix_timestamp(self.from)?;
        params.not_after = OffsetDateTime::from_unix_timestamp(self.until)?;
        Ok(())
    }
}

fn first(text: &str) -> anyhow::Result<Certificate> {
    let all = read(text).map_err(anyhow::Error::msg)?;
    all.into_iter().next().ok_or_else(|| anyhow::anyhow!("no certificate"))
}

/// A new authority: its certificate and its key.
fn authority(now: Seconds, terms: &Terms) -> anyhow::Result<(String, KeyPair)> {
    let key = KeyPair::generate()?;
    let mut params = CertificateParams::new(Vec::new())?;
    // A name of its own: where two are trusted, a verifier finds the right one at once.
    let name = format!("basalt-webhook-ca-{now}");
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    Life::new(now, terms.authority).put_into(&mut params)?;
    Ok((params.self_signed(&key)?.pem(), key))
}

/// A serving certificate and its key. It does not outlive its authority.
fn leaf(
    issuer: &Issuer<'_, impl rcgen::SigningKey>,
    authority: &Certificate,
    names: &BTreeSet<String>,
    now: Seconds,
    terms: &Terms,
) -> anyhow::Result<(String, String)> {
    let key = KeyPair::generate()?;
    let mut params = CertificateParams::new(names.iter().cloned().collect::<Vec<_>>())?;
    params.distinguished_name.push(DnType::CommonName, "basalt-webhook");
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.use_authority_key_identifier_extension = true;
    let left = authority.life.until.saturating_sub(now);
    Life::new(now, terms.certificate.min(left)).put_into(&mut params)?;
    Ok((params.signed_by(&key, issuer)?.pem(), key.serialize_pem()))
}
