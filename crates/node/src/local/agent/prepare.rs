//! From a bound pod to its started shim.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::net::Ipv4Addr;
use std::os::unix::fs::OpenOptionsExt as _;
use std::sync::Arc;

use futures::future::try_join_all;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, Pod, Secret};
use kube::Client;
use kube::api::Api;

use super::super::environment::Sources;
use super::super::fields::Surroundings;
use super::super::folder::PodFolder;
use super::super::hosts;
use super::super::machine::register::HOST_ADDRESS;
use super::super::plan::Isolation;
use super::super::status::containers_of;
use super::super::trouble::Trouble;
use super::super::volumes::{self, References, Users};
use super::plan::Making;
use super::{Shared, users};

/// What the agent decided before.
pub(super) struct Order {
    pub(super) uid: String,
    pub(super) pod: Arc<Pod>,
    pub(super) address: Ipv4Addr,
    pub(super) gpus: BTreeMap<String, Vec<String>>,
    pub(super) hosts: String,
    pub(super) taken: Timestamp,
}

/// Resolves everything, fills the folder, and starts the shim.
pub(super) async fn start(shared: Arc<Shared>, order: Order) -> Result<tokio::process::Child, Trouble> {
    let references = References::of(&order.pod);
    let sources = gather(&shared.client, &order.pod, &references).await?;
    let folder = PodFolder::of(&shared.places.pods(), &order.uid);
    let program = shared.options.program.clone();
    let filled = {
        let (shared, folder) = (Arc::clone(&shared), folder.clone());
        tokio::task::spawn_blocking(move || fill(&shared, &order, &folder, &sources)).await
    };
    filled.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))?;
    super::super::shim::start(&program, &folder).map_err(|error| {
        // Without a plan the folder is begun anew.
        let _ = fs::remove_file(folder.plan());
        Trouble::Waits {
            waiting: "CreateContainerError",
            event: "FailedCreatePodSandBox",
            message: format!("the pod's shim cannot be started: {error}"),
        }
    })
}

/// Reads the objects that a pod refers to.
pub(super) async fn gather(client: &Client, pod: &Pod, references: &References) -> Result<Sources, Trouble> {
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    let failed = |error: kube::Error| Trouble::config(format!("the API server does not answer: {error}"));
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace);
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(client.clone(), namespace);
    let found = try_join_all(references.config_maps.iter().map(|name| maps.get_opt(name)));
    let config_maps = found.await.map_err(failed)?;
    let found = try_join_all(references.secrets.iter().map(|name| secrets.get_opt(name)));
    let secrets = found.await.map_err(failed)?;
    let found = try_join_all(references.claims.iter().map(|name| claims.get_opt(name)));
    let claims = found.await.map_err(failed)?;
    let named = |names: &std::collections::BTreeSet<String>| names.iter().cloned().collect::<Vec<_>>();
    let zip = |names: Vec<String>, present: Vec<bool>| {
        names
            .into_iter()
            .zip(present)
            .filter(|(_, present)| *present)
            .map(|(name, _)| name)
            .collect()
    };
    Ok(Sources {
        claims: zip(named(&references.claims), claims.iter().map(Option::is_some).collect()),
        config_maps: named(&references.config_maps)
            .into_iter()
            .zip(config_maps)
            .filter_map(|(name, map)| Some((name, map?)))
            .collect(),
        secrets: named(&references.secrets)
            .into_iter()
            .zip(secrets)
            .filter_map(|(name, secret)| Some((name, secret?)))
            .collect(),
    })
}

/// What a pod is told about where it is.
pub(super) fn surroundings(shared: &Shared, address: Ipv4Addr) -> Surroundings {
    Surroundings {
        address: address.to_string(),
        host_address: HOST_ADDRESS.to_string(),
        cpu: shared.allocatable("cpu"),
        memory: shared.allocatable("memory"),
        storage: shared.allocatable("ephemeral-storage"),
    }
}

/// Whom the pod's volumes belong to: who its first container runs as, and the group that it asks for.
pub(super) fn volume_users(shared: &Shared, pod: &Pod) -> Result<Users, Trouble> {
    let context = pod.spec.as_ref().and_then(|s| s.security_context.as_ref());
    let group = context.and_then(|c| c.fs_group).and_then(|g| u32::try_from(g).ok());
    let first = containers_of(pod).1.first();
    let user = first
        .map(|c| users::user_of(pod, c, shared.powers))
        .transpose()?
        .flatten();
    Ok(Users {
        owner: user.map(|user| (user.uid, group.unwrap_or(user.gid))),
        shared_group: group.is_some(),
    })
}

/// Fills the folder; the plan comes last, for with it the pod counts as begun.
fn fill(shared: &Shared, order: &Order, folder: &PodFolder, sources: &Sources) -> Result<(), Trouble> {
    let failed = |error: std::io::Error| Trouble::mount(format!("the pod's folder cannot be written: {error}"));
    let pod = order.pod.as_ref();
    // What an interrupted start left behind has never run.
    match fs::remove_dir_all(folder.path()) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(failed(error)),
        _ => {}
    }
    volumes::private_folder(folder.path()).map_err(failed)?;
    let result = (|| {
        let users = volume_users(shared, pod)?;
        let around = surroundings(shared, order.address);
        let laid = volumes::lay_all(pod, folder, &around, sources, &shared.volume_rules, users)?;
        hosts::write(&folder.hosts(), &order.hosts).map_err(failed)?;
        let making = Making {
            pod,
            uid: &order.uid,
            socket: shared.places.socket(),
            address: order.address,
            around: &around,
            sources,
            laid: &laid,
            users,
            powers: shared.powers,
            isolation: Isolation {
                view: shared.view,
                cgroups: shared.hierarchies.of_pod(&order.uid),
            },
            backoff_ms: shared.options.backoff_ms,
            gpus: &order.gpus,
            taken: order.taken,
        };
        let plan = serde_json::to_vec(&making.plan()?).map_err(|error| failed(error.into()))?;
        let draft = folder.path().join("plan.json.new");
        // It tells the environment, secrets included.
        let file = fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&draft);
        file.and_then(|mut file| file.write_all(&plan))
            .and_then(|()| fs::rename(&draft, folder.plan()))
            .map_err(failed)
    })();
    if result.is_err() {
        let _ = fs::remove_dir_all(folder.path());
    }
    result
}

/// Brings the volumes that are made of objects up to date.
pub(super) async fn refresh(shared: Arc<Shared>, uid: String, pod: Arc<Pod>, address: Ipv4Addr) -> Result<(), Trouble> {
    let sources = gather(&shared.client, &pod, &References::of(&pod)).await?;
    let work = move || {
        let folder = PodFolder::of(&shared.places.pods(), &uid);
        let users = volume_users(&shared, &pod)?;
        let around = surroundings(&shared, address);
        let volumes = pod.spec.as_ref().and_then(|s| s.volumes.as_ref());
        for volume in volumes.into_iter().flatten().filter(|v| volumes::has_contents(v)) {
            let files = volumes::contents(&pod, volume, &around, &sources)?;
            let stamp = Timestamp::now().as_nanosecond().to_string();
            volumes::files::replace(&folder.volume(&volume.name), &files, users.owner, &stamp)
                .map_err(|error| Trouble::mount(format!("volume {:?}: {error}", volume.name)))?;
        }
        Ok(())
    };
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))
}
