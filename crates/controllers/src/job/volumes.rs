//! Volumes of a Job: claims that it makes or finds, mounted in all containers of all its pods.

use std::collections::BTreeSet;

use basalt_api::Job;
use basalt_api::job::VolumeSpec;
use basalt_api::stable_hash::StableHash;
use k8s_openapi::api::core::v1::{
    PersistentVolumeClaim, PersistentVolumeClaimVolumeSource, PodSpec, Volume, VolumeMount,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::change::Change;
use crate::object;

/// Letters of the part of a name that Volcano draws at random, and that here follows from the Job.
const LETTERS: &[u8; 36] = b"0123456789abcdefghijklmnopqrstuvwxyz";
const TOKEN_LENGTH: usize = 12;

/// Twelve letters that are a function of `text`: names must be the same at every look.
fn token(text: &str) -> String {
    // FNV-1a, of which two rounds with different beginnings give enough bits for twelve letters.
    let round = |mut hash: StableHash| {
        hash.update(text.as_bytes());
        hash.value()
    };
    let (first, second) = (
        round(StableHash::default()),
        round(StableHash::with_basis(0x6c62_272e_07bb_0142)),
    );
    let mut rest = u128::from(first) << 64 | u128::from(second);
    let mut letters = String::with_capacity(TOKEN_LENGTH);
    for _ in 0..TOKEN_LENGTH {
        let place = usize::try_from(rest % 36).unwrap_or(0);
        letters.push(LETTERS.get(place).copied().map_or('0', char::from));
        rest /= 36;
    }
    letters
}

/// The claim behind a volume: the one that is named, or the one that the Job makes.
pub(crate) fn claim_name(job: &Job, volume: &VolumeSpec) -> String {
    if !volume.volume_claim_name.is_empty() {
        return volume.volume_claim_name.clone();
    }
    let (name, uid) = (job.metadata.name.as_deref(), job.metadata.uid.as_deref());
    let own = token(&format!("{}/{}", uid.unwrap_or_default(), volume.mount_path));
    format!("{}-pvc-{own}", name.unwrap_or_default())
}

/// Makes the claim of a volume.
pub(crate) fn make(job: &Job, volume: &VolumeSpec) -> Option<Change> {
    let claim = PersistentVolumeClaim {
        metadata: ObjectMeta {
            name: Some(claim_name(job, volume)),
            namespace: job.metadata.namespace.clone(),
            owner_references: object::owned_by(job),
            ..ObjectMeta::default()
        },
        spec: volume.volume_claim.clone(),
        status: None,
    };
    object::create(&claim)
}

/// The name of the volume for a claim. It is a DNS label, which the name of a Job need not be: the Job's part is made
/// one, and what tells volumes apart follows it whole.
fn volume_name(job: &str, claim: &str) -> String {
    const LABEL_MAX: usize = 63;
    let room = LABEL_MAX.saturating_sub(TOKEN_LENGTH).saturating_sub(1);
    let prefix: String = job.replace('.', "-").chars().take(room).collect();
    format!("{prefix}-{}", token(claim))
}

/// Mounts the volumes of the Job. A claim that is named twice is one volume.
pub(crate) fn mount(job: &Job, spec: &mut PodSpec) {
    let mut seen = BTreeSet::new();
    for volume in &job.spec.volumes {
        let claim = claim_name(job, volume);
        if !seen.insert(claim.clone()) {
            continue;
        }
        let name = volume_name(job.metadata.name.as_deref().unwrap_or_default(), &claim);
        for container in &mut spec.containers {
            container.volume_mounts.get_or_insert_default().push(VolumeMount {
                name: name.clone(),
                mount_path: volume.mount_path.clone(),
                ..VolumeMount::default()
            });
        }
        spec.volumes.get_or_insert_default().push(Volume {
            name,
            persistent_volume_claim: Some(PersistentVolumeClaimVolumeSource {
                claim_name: claim,
                read_only: None,
            }),
            ..Volume::default()
        });
    }
}

#[cfg(test)]
mod tests {
    use super::{token, volume_name};

    #[test]
    fn tokens_are_short_and_differ() {
        let tokens: std::collections::BTreeSet<String> = (0..1000).map(|i| token(&format!("uid/{i}"))).collect();
        assert_eq!(tokens.len(), 1000);
        assert!(tokens.iter().all(|token| token.len() == 12));
        assert_eq!(token("a"), token("a"));
    }

    #[test]
    fn names_of_volumes_are_labels_and_differ() {
        for (job, prefix) in [
            ("train".to_owned(), "train-".to_owned()),
            ("v1.train".to_owned(), "v1-train-".to_owned()),
            ("x".repeat(61), format!("{}-", "x".repeat(50))),
        ] {
            let (data, more) = (volume_name(&job, "data"), volume_name(&job, "more"));
            assert!(
                data.len() <= 63 && data.starts_with(&prefix) && !data.contains('.'),
                "{data}"
            );
            assert_ne!(data, more);
        }
    }
}
