//! `ssh`: one key for all pods of a job, so that each can log in to every other.
//!
//! The Secret is written once, but for the list of hosts: a new key would lock out the pods that run. Where
//! Volcano makes an RSA key, this is Ed25519, in files of the same names; OpenSSH goes by what is in them.

use std::fmt::Write;
use std::sync::Arc;

use basalt_api::job::TaskSpec;
use basalt_api::job::plugins::{Plugin, SSH_FOLDER, Ssh};
use basalt_api::{Job, ObjectRef, resource_kind};
use ed25519_dalek::SigningKey;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{KeyToPath, PodSpec, SecretVolumeSource, Volume, VolumeMount};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use ssh_key::private::{Ed25519Keypair, Ed25519PrivateKey, KeypairData};
use ssh_key::public::Ed25519PublicKey;
use ssh_key::{LineEnding, PrivateKey};

use super::hosts::Gang;
use super::{Act, Wanted, edit, owned};
use crate::object;

const PRIVATE: &str = "id_rsa";
const PUBLIC: &str = "id_rsa.pub";
const AUTHORIZED: &str = "authorized_keys";
const CONFIG: &str = "config";
/// Folder inside the volume, which is mounted as the folder of keys.
const FOLDER: &str = ".ssh";
/// Hosts are listed one by one up to this size: a Secret holds 1 MiB.
const LISTED_MAX: u64 = 500_000;

/// Gives the pods a key.
#[derive(Debug)]
pub(super) struct Keys {
    settings: Ssh,
    gang: Arc<Gang>,
}

impl Keys {
    pub(super) fn new(settings: Ssh, gang: Arc<Gang>) -> Self {
        Self { settings, gang }
    }

    fn name(&self) -> String {
        format!("{}-ssh", self.gang.job)
    }

    /// The client's configuration: each host by name, as Volcano has it, then patterns, which also know the pods that come
    /// later: running pods never see a change of this file.
    fn config(&self) -> String {
        let port = self.settings.port.number();
        let mut text = "StrictHostKeyChecking no\nUserKnownHostsFile /dev/null\n".to_owned();
        let each = "Host \n  HostName .\n  Port 65535\n".len() as u64;
        let bytes = self.gang.tasks.iter().map(|task| {
            let hosts = &task.hosts;
            let fixed = (hosts.domain().len() as u64).saturating_add(each);
            let names = hosts.name_bytes().saturating_mul(2);
            names.saturating_add(fixed.saturating_mul(u64::from(hosts.count())))
        });
        if bytes.fold(0, u64::saturating_add) <= LISTED_MAX {
            for hosts in self.gang.tasks.iter().map(|task| &task.hosts) {
                for index in 0..hosts.count() {
                    let (name, address) = (hosts.name(index), hosts.address(index));
                    let _ = write!(text, "Host {name}\n  HostName {address}\n  Port {port}\n");
                }
            }
        }
        for hosts in self.gang.tasks.iter().map(|task| &task.hosts) {
            if let (Some(prefix), domain) = (hosts.prefix(), hosts.domain()) {
                let _ = write!(text, "Host {prefix}* !*.*\n  HostName %h.{domain}\n  Port {port}\n");
                let _ = write!(text, "Host {prefix}*.{domain}\n  Port {port}\n");
            }
        }
        text
    }

    /// The private and the public key.
    fn pair(&self, job: &Job, entropy: &[u8; 32]) -> (String, String) {
        let given = self.settings.private_key.text();
        if given.is_empty() {
            return make_pair(job, entropy);
        }
        let public = if self.settings.public_key.is_empty() {
            public_of(given)
        } else {
            self.settings.public_key.clone()
        };
        (given.to_owned(), public)
    }
}

/// A pair of keys that is a function of the entropy and of the job.
fn make_pair(job: &Job, entropy: &[u8; 32]) -> (String, String) {
    let mut seed = Sha256::new();
    seed.update(b"basalt job plugin ssh\0");
    seed.update(entropy);
    seed.update(job.metadata.uid.as_deref().unwrap_or_default());
    let key = SigningKey::from_bytes(&seed.finalize().into());
    let keypair = Ed25519Keypair {
        public: Ed25519PublicKey(key.verifying_key().to_bytes()),
        private: Ed25519PrivateKey::from_bytes(&key.to_bytes()),
    };
    let comment = job.metadata.name.clone().unwrap_or_default();
    let key = PrivateKey::new(KeypairData::Ed25519(keypair), comment).expect("a plain pair of keys is a key");
    let private = key
        .to_openssh(LineEnding::LF)
        .expect("a key without a password can be written");
    (private.to_string(), public_line(&key))
}

/// The public half of a private key in OpenSSH's format; empty for any other.
fn public_of(private: &str) -> String {
    PrivateKey::from_openssh(private).map_or(String::new(), |key| public_line(&key))
}

fn public_line(key: &PrivateKey) -> String {
    key.public_key().to_openssh().map_or(String::new(), |line| line + "\n")
}

impl Act for Keys {
    fn shape(&self, _: &TaskSpec, pod: &mut PodSpec) {
        let name = self.name();
        let folder = self.settings.key_file_path.path();
        let items = [PRIVATE, PUBLIC, AUTHORIZED, CONFIG].map(|key| KeyToPath {
            key: key.to_owned(),
            path: format!("{FOLDER}/{key}"),
            ..KeyToPath::default()
        });
        // The files are root's. Others can use them only if they can read them, and ssh minds that for own files only.
        let for_root = folder == SSH_FOLDER && !self.settings.no_root;
        let source = SecretVolumeSource {
            secret_name: Some(name.clone()),
            items: Some(items.to_vec()),
            default_mode: Some(if for_root { 0o600 } else { 0o644 }),
            ..SecretVolumeSource::default()
        };
        let volume = Volume {
            name: name.clone(),
            secret: Some(source),
            ..Volume::default()
        };
        let place = VolumeMount {
            name,
            mount_path: folder.to_owned(),
            sub_path: Some(FOLDER.to_owned()),
            ..VolumeMount::default()
        };
        edit::mount(pod, volume, &place);
    }

    fn wanted(&self, job: &Job, entropy: &[u8; 32]) -> Vec<Wanted> {
        let target = ObjectRef::new(resource_kind::SECRET, &self.gang.namespace, &self.name());
        let (private, public) = self.pair(job, entropy);
        let bytes = |text: String| object::value(&ByteString(text.into_bytes()));
        let config = bytes(self.config());
        let object: Value = json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "type": "Opaque",
            "metadata": object::value(&owned(job, &target)),
            "data": {
                PRIVATE: bytes(private),
                PUBLIC: bytes(public.clone()),
                AUTHORIZED: bytes(public),
                CONFIG: config,
            },
        });
        vec![Wanted::following(Plugin::Ssh, target, object, json!({CONFIG: config}))]
    }
}
