//! Volumes: folders and files of this machine that a pod's containers see at their mount paths.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Component, Path, PathBuf};

use k8s_openapi::api::core::v1::{Container, HostPathVolumeSource, Pod, Volume};

use super::environment::{Sources, Variables};
use super::fields::Surroundings;
use super::folder::PodFolder;
use super::plan::Mount;
use super::trouble::Trouble;

mod content;
pub(crate) mod files;

pub(crate) use content::{contents, has_contents};
use files::Owner;

/// What volumes may be made of here.
#[derive(Debug, Clone)]
pub(crate) struct Rules {
    /// Folder of all claims: `<namespace>/<claim>` below it.
    pub(crate) claims: PathBuf,
    /// hostPath volumes must lie in one of these.
    pub(crate) host_paths: Vec<PathBuf>,
}

/// Names of objects that a pod refers to.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct References {
    pub(crate) config_maps: BTreeSet<String>,
    pub(crate) secrets: BTreeSet<String>,
    pub(crate) claims: BTreeSet<String>,
}

impl References {
    /// Of a pod: its volumes and its variables.
    pub(crate) fn of(pod: &Pod) -> Self {
        let mut all = Self::default();
        let volumes = pod.spec.as_ref().and_then(|s| s.volumes.as_ref());
        for volume in volumes.into_iter().flatten() {
            all.add_volume(volume);
        }
        let (init, main) = super::status::containers_of(pod);
        for container in init.iter().chain(main) {
            for from in container.env_from.iter().flatten() {
                all.config_maps
                    .extend(from.config_map_ref.as_ref().map(|r| r.name.clone()));
                all.secrets.extend(from.secret_ref.as_ref().map(|r| r.name.clone()));
            }
            for from in container.env.iter().flatten().filter_map(|v| v.value_from.as_ref()) {
                all.config_maps
                    .extend(from.config_map_key_ref.as_ref().map(|r| r.name.clone()));
                all.secrets.extend(from.secret_key_ref.as_ref().map(|r| r.name.clone()));
            }
        }
        all
    }

    fn add_volume(&mut self, volume: &Volume) {
        self.config_maps
            .extend(volume.config_map.as_ref().map(|v| v.name.clone()));
        self.secrets
            .extend(volume.secret.as_ref().and_then(|v| v.secret_name.clone()));
        self.claims
            .extend(volume.persistent_volume_claim.as_ref().map(|v| v.claim_name.clone()));
        let projected = volume.projected.as_ref().and_then(|p| p.sources.as_ref());
        for source in projected.into_iter().flatten() {
            self.config_maps
                .extend(source.config_map.as_ref().map(|v| v.name.clone()));
            self.secrets.extend(source.secret.as_ref().map(|v| v.name.clone()));
        }
    }
}

/// A volume that is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Laid {
    path: PathBuf,
    read_only: bool,
}

/// Who uses a pod's volumes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Users {
    /// Whom files are given to; absent: to nobody, for the server is not root.
    pub(crate) owner: Owner,
    /// Whether the group was asked for (`fsGroup`): what is made in a folder belongs to it as well.
    pub(crate) shared_group: bool,
}

/// Makes all volumes of a pod.
pub(crate) fn lay_all(
    pod: &Pod,
    folder: &PodFolder,
    around: &Surroundings,
    sources: &Sources,
    rules: &Rules,
    users: Users,
) -> Result<BTreeMap<String, Laid>, Trouble> {
    let volumes = pod.spec.as_ref().and_then(|s| s.volumes.as_ref());
    let mut laid = BTreeMap::new();
    for volume in volumes.into_iter().flatten() {
        if plain_name(&volume.name).is_none() {
            return Err(Trouble::refused(
                "InvalidVolume",
                format!("{:?} is no name of a volume", volume.name),
            ));
        }
        let one = lay(pod, volume, folder, around, sources, rules, users)?;
        laid.insert(volume.name.clone(), one);
    }
    Ok(laid)
}

fn lay(
    pod: &Pod,
    volume: &Volume,
    folder: &PodFolder,
    around: &Surroundings,
    sources: &Sources,
    rules: &Rules,
    users: Users,
) -> Result<Laid, Trouble> {
    let failed = |error: io::Error| Trouble::mount(format!("volume {:?}: {error}", volume.name));
    let own = folder.volume(&volume.name);
    if let Some(path) = own.parent() {
        fs::create_dir_all(path).map_err(failed)?;
    }
    if has_contents(volume) {
        let files = contents(pod, volume, around, sources)?;
        let stamp = jiff::Timestamp::now().as_nanosecond().to_string();
        files::replace(&own, &files, users.owner, &stamp).map_err(failed)?;
        return Ok(Laid {
            path: own,
            read_only: true,
        });
    }
    if volume.empty_dir.is_some() {
        open_folder(&own, users).map_err(failed)?;
        return Ok(Laid {
            path: own,
            read_only: false,
        });
    }
    if let Some(host) = &volume.host_path {
        return host_path(&volume.name, host, &rules.host_paths);
    }
    if let Some(claim) = &volume.persistent_volume_claim {
        let read_only = claim.read_only == Some(true);
        return claim_folder(pod, &claim.claim_name, sources, rules, users).map(|path| Laid { path, read_only });
    }
    Err(Trouble::refused(
        "UnsupportedVolume",
        format!("volume {:?} is of a kind that this node does not have", volume.name),
    ))
}

/// A folder that everyone in the pod may use; those outside do not get to it, for it lies in a private one.
fn open_folder(path: &Path, users: Users) -> io::Result<()> {
    files::folder(path, open_mode(users), users.owner)
}

fn open_mode(users: Users) -> u32 {
    if users.shared_group { 0o2777 } else { 0o777 }
}

fn claim_folder(pod: &Pod, claim: &str, sources: &Sources, rules: &Rules, users: Users) -> Result<PathBuf, Trouble> {
    if !sources.claims.iter().any(|known| known == claim) {
        return Err(Trouble::mount(format!("persistentvolumeclaim {claim:?} not found")));
    }
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    let (Some(namespace), Some(name)) = (plain_name(namespace), plain_name(claim)) else {
        return Err(Trouble::refused(
            "InvalidVolume",
            format!("{claim:?} is no name of a claim"),
        ));
    };
    let parent = rules.claims.join(namespace);
    let path = parent.join(name);
    fs::create_dir_all(&parent)
        .and_then(|()| open_folder(&path, users))
        .map_err(|error| Trouble::mount(format!("claim {claim:?}: {error}")))?;
    Ok(path)
}

/// A name that is one part of a path, and nothing else.
fn plain_name(name: &str) -> Option<&str> {
    let mut parts = Path::new(name).components();
    match (parts.next(), parts.next()) {
        (Some(Component::Normal(part)), None) if part == name => Some(name),
        _ => None,
    }
}

/// A path below another: relative, and it never goes up.
pub(crate) fn is_below(path: &Path) -> bool {
    path.components()
        .all(|part| matches!(part, Component::Normal(_) | Component::CurDir))
}

/// A path of the machine, if it is allowed and what it is said to be.
fn host_path(name: &str, source: &HostPathVolumeSource, allowed: &[PathBuf]) -> Result<Laid, Trouble> {
    let path = Path::new(&source.path);
    let kind = source.type_.as_deref().unwrap_or_default();
    let refuse = |message: String| Trouble::refused("HostPathNotAllowed", format!("volume {name:?}: {message}"));
    let forbidden = || {
        let message = if allowed.is_empty() {
            "no hostPath is allowed here".to_owned()
        } else {
            format!("hostPath {} is not within an allowed folder", source.path)
        };
        refuse(format!("{message}; basalt up --allow-host-path PREFIX allows one"))
    };
    let absent = |what: &str| Trouble::mount(format!("volume {name:?}: hostPath {} {what}", source.path));
    if !path.is_absolute() || path.components().any(|part| part == Component::ParentDir) {
        return Err(refuse(format!(
            "hostPath {:?} is not an absolute path without ..",
            source.path
        )));
    }
    // What may be made is made only where it is allowed, so the deepest folder that exists decides first.
    let existing = path
        .ancestors()
        .find(|p| p.symlink_metadata().is_ok())
        .unwrap_or(Path::new("/"));
    let real = existing.canonicalize().map_err(|error| absent(&error.to_string()))?;
    let within = |real: &Path| {
        allowed
            .iter()
            .filter_map(|prefix| prefix.canonicalize().ok())
            .any(|prefix| real.starts_with(prefix))
    };
    if !within(&real) {
        return Err(forbidden());
    }
    if existing != path {
        let made = match kind {
            "DirectoryOrCreate" => fs::create_dir_all(path),
            "FileOrCreate" => fs::File::create_new(path).map(drop),
            _ => return Err(absent("does not exist")),
        };
        made.map_err(|error| absent(&error.to_string()))?;
    }
    let real = path.canonicalize().map_err(|error| absent(&error.to_string()))?;
    if !within(&real) {
        return Err(forbidden());
    }
    let found = fs::metadata(&real)
        .map_err(|error| absent(&error.to_string()))?
        .file_type();
    let fits = match kind {
        "" => true,
        "Directory" | "DirectoryOrCreate" => found.is_dir(),
        "File" | "FileOrCreate" => found.is_file(),
        "Socket" => found.is_socket(),
        "CharDevice" => found.is_char_device(),
        "BlockDevice" => found.is_block_device(),
        _ => return Err(refuse(format!("{kind:?} is no type of hostPath"))),
    };
    if !fits {
        return Err(absent(&format!("is no {kind}")));
    }
    Ok(Laid {
        path: real,
        read_only: false,
    })
}

/// The mounts of one container, parents before what lies in them.
pub(crate) fn mounts(
    container: &Container,
    laid: &BTreeMap<String, Laid>,
    variables: &Variables,
    users: Users,
) -> Result<Vec<Mount>, Trouble> {
    let refuse = |message: String| Trouble::refused("InvalidMount", format!("container {}: {message}", container.name));
    let mut all = Vec::new();
    for mount in container.volume_mounts.iter().flatten() {
        let volume = laid
            .get(&mount.name)
            .ok_or_else(|| refuse(format!("there is no volume {:?}", mount.name)))?;
        let target = Path::new("/").join(&mount.mount_path);
        if target.components().any(|part| part == Component::ParentDir) || target == Path::new("/") {
            return Err(refuse(format!("{:?} is no place for a volume", mount.mount_path)));
        }
        if is_kernels(&target) {
            let what = format!("{:?} is the kernel's: no place for a volume", mount.mount_path);
            return Err(refuse(what));
        }
        let expression = mount.sub_path_expr.as_deref().filter(|e| !e.is_empty());
        let below = match (expression, mount.sub_path.as_deref().filter(|s| !s.is_empty())) {
            (Some(expression), _) => Some(variables.expand(expression)),
            (None, below) => below.map(str::to_owned),
        };
        if let Some(below) = &below {
            sub_path(volume, Path::new(below), users)
                .map_err(|why| refuse(format!("subPath {below:?} of volume {:?} {why}", mount.name)))?;
        }
        let source = volume.path.canonicalize();
        all.push(Mount {
            source: source.map_err(|error| Trouble::mount(format!("volume {:?}: {error}", mount.name)))?,
            beneath: below.map(PathBuf::from),
            target,
            read_only: volume.read_only || mount.read_only == Some(true),
        });
    }
    all.sort_by_key(|mount| mount.target.components().count());
    Ok(all)
}

/// A part of a volume; made if it can be, and never outside of it whatever links there are.
fn sub_path(volume: &Laid, below: &Path, users: Users) -> Result<(), String> {
    if !is_below(below) {
        return Err("leaves the volume".to_owned());
    }
    let path = volume.path.join(below);
    if !path.exists() {
        if volume.read_only {
            return Err("does not exist".to_owned());
        }
        make_below(&volume.path, below, users)?;
    }
    let resolve = |path: &Path| path.canonicalize().map_err(|error| error.to_string());
    let real = resolve(&path)?;
    if !real.starts_with(resolve(&volume.path)?) {
        return Err("leaves the volume".to_owned());
    }
    Ok(())
}

/// Makes folders in a volume. Pods write there at the same time: each step begins at a folder that is held, and follows no link.
fn make_below(root: &Path, below: &Path, users: Users) -> Result<(), String> {
    let words = |error: io::Error| error.to_string();
    let mut at = files::hold(root).map_err(words)?;
    let parts = below.components().filter(|part| *part != Component::CurDir);
    for part in parts {
        let name = Path::new(part.as_os_str());
        at = files::folder_in(&at, name, open_mode(users), users.owner).map_err(|error| {
            if files::is_link(&at, name) {
                "leaves the volume".to_owned()
            } else {
                words(error)
            }
        })?;
    }
    Ok(())
}

/// Whether a path is of the kernel's own file systems, where nothing may be mounted.
pub(crate) fn is_kernels(path: &Path) -> bool {
    path.starts_with("/proc") || path.starts_with("/sys")
}

/// Makes a pod's private folder.
pub(crate) fn private_folder(path: &Path) -> io::Result<()> {
    fs::create_dir_all(path)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o700))
}

#[cfg(test)]
mod tests;
