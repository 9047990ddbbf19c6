//! A file system view of the container's own: volumes at their paths, the machine's files elsewhere.
//!
//! A path to mount at that does not exist on the machine is made without touching it: the deepest folder above it that exists
//! is covered, in the private namespace, by a small tmpfs in which everything that was there is bound again.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, symlink};
use std::path::{Component, Path, PathBuf};

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sys::statvfs::{FsFlags, statvfs};
use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags};

use crate::local::plan::Mount;

/// A folder with more entries than this is not bound again one by one.
const ENTRIES_MAX: usize = 4096;

/// What can go wrong, with the path where it did.
#[derive(Debug, thiserror::Error)]
pub(super) enum MountError {
    #[error("{what} {}: {source}", path.display())]
    Path {
        what: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    #[error("mount {}: the path must be absolute and without `..`", .0.display())]
    Relative(PathBuf),
    #[error("mount {}: the volume is a {source_kind} and there is a {target_kind}", path.display())]
    Kind {
        path: PathBuf,
        source_kind: &'static str,
        target_kind: &'static str,
    },
    #[error("mount {}: there are more than {ENTRIES_MAX} files beside it", .0.display())]
    Crowded(PathBuf),
}

fn at(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> MountError {
    move |source| MountError::Path {
        what,
        path: path.to_owned(),
        source,
    }
}

fn bind(source: &Path, target: &Path) -> io::Result<()> {
    let none: Option<&Path> = None;
    Ok(mount(
        Some(source),
        target,
        none,
        MsFlags::MS_BIND | MsFlags::MS_REC,
        none,
    )?)
}

fn kind(is_folder: bool) -> &'static str {
    if is_folder { "folder" } else { "file" }
}

/// What is shown, with the source held open: what is mounted before it may cover its path.
#[derive(Debug)]
struct Held<'a> {
    shown: &'a Mount,
    source: OwnedFd,
}

impl Held<'_> {
    fn source(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.source.as_raw_fd()))
    }
}

/// Makes the view, in a mount namespace of one's own. What the machine mounts later is still seen; nothing goes the other way.
/// `staging` is an empty folder for a new root, should one be needed.
pub(super) fn make_view(staging: &Path, mounts: &[Mount]) -> Result<(), MountError> {
    let root = Path::new("/");
    change(root, MsFlags::MS_SLAVE | MsFlags::MS_REC).map_err(at("cannot separate", root))?;
    for mount in mounts {
        let plain = mount
            .target
            .components()
            .all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
        if !mount.target.is_absolute() || !plain {
            return Err(MountError::Relative(mount.target.clone()));
        }
    }
    extend_root(staging, mounts)?;
    let mut held = Vec::new();
    for shown in mounts {
        let source = open_source(shown)?;
        held.push(Held { shown, source });
    }
    let mut covered = Vec::new();
    for (number, mount) in held.iter().enumerate() {
        show(mount, held.get(..number).unwrap_or_default(), &mut covered)?;
    }
    Ok(())
}

/// Opens what is shown. Nobody can lead it elsewhere by a link: not above the volume, and not from outside of it.
fn open_source(shown: &Mount) -> Result<OwnedFd, MountError> {
    let open = |from, path: &Path, resolve| {
        rustix::fs::openat2(from, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), resolve)
            .map_err(|error| at("volume", path)(error.into()))
    };
    let root = open(CWD, &shown.source, ResolveFlags::NO_SYMLINKS)?;
    match &shown.beneath {
        Some(part) => open(root.as_fd(), part, ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS),
        None => Ok(root),
    }
}

fn is_folder(found: &OwnedFd) -> rustix::io::Result<bool> {
    Ok(FileType::from_raw_mode(rustix::fs::fstat(found)?.st_mode).is_dir())
}

/// Makes a new root if the first name of a path is missing in the machine's: before anything else, because nothing that was
/// opened in the old root can be mounted in the new one.
fn extend_root(staging: &Path, mounts: &[Mount]) -> Result<(), MountError> {
    let missing = |mount: &&Mount| {
        let first = mount.target.components().nth(1).map(|name| Path::new("/").join(name));
        first.is_some_and(|first| !first.exists())
    };
    let missing: Vec<&Mount> = mounts.iter().filter(missing).collect();
    let Some(first) = missing.first() else { return Ok(()) };
    cover(Path::new("/"), staging, first_name(&first.target, Path::new("/")))?;
    for (number, mount) in missing.iter().enumerate() {
        // What lies below another volume is made in that volume.
        let before = missing.get(..number).unwrap_or_default();
        if !before.iter().any(|other| mount.target.starts_with(&other.target)) {
            let is_folder =
                is_folder(&open_source(mount)?).map_err(|error| at("volume", &mount.source)(error.into()))?;
            make(&mount.target, is_folder).map_err(at("cannot make", &mount.target))?;
        }
    }
    Ok(())
}

/// The name below a folder on the way to a path.
fn first_name<'a>(path: &'a Path, folder: &Path) -> &'a OsStr {
    let rest = path.strip_prefix(folder).ok().and_then(|rest| rest.components().next());
    rest.map_or(OsStr::new(""), Component::as_os_str)
}

/// Shows a file or folder.
fn show(mount: &Held<'_>, before: &[Held<'_>], covered: &mut Vec<PathBuf>) -> Result<(), MountError> {
    let (target, source) = (&mount.shown.target, mount.source());
    let is_folder = is_folder(&mount.source).map_err(|error| at("volume", &mount.shown.source)(error.into()))?;
    make_target(target, is_folder, before, covered)?;
    let found = fs::metadata(target).map_err(at("mount", target))?.is_dir();
    if found != is_folder {
        return Err(MountError::Kind {
            path: target.clone(),
            source_kind: kind(is_folder),
            target_kind: kind(found),
        });
    }
    bind(&source, target).map_err(at("cannot mount", target))?;
    if mount.shown.read_only {
        read_only(target).map_err(at("cannot make read-only", target))?;
    }
    Ok(())
}

/// Sees to it that there is something to mount at.
fn make_target(
    target: &Path,
    is_folder: bool,
    before: &[Held<'_>],
    covered: &mut Vec<PathBuf>,
) -> Result<(), MountError> {
    if target.exists() {
        return Ok(());
    }
    // Below a volume the mount point is made in the volume itself, as container runtimes do.
    let within = |mount: &&Held<'_>| target != mount.shown.target && target.starts_with(&mount.shown.target);
    let volume = before.iter().rev().find(within);
    if let Some((volume, rest)) =
        volume.and_then(|volume| Some((volume, target.strip_prefix(&volume.shown.target).ok()?)))
    {
        return make(&volume.source().join(rest), is_folder).map_err(at("cannot make", target));
    }
    let parent = target
        .ancestors()
        .skip(1)
        .find(|path| path.is_dir())
        .unwrap_or(Path::new("/"));
    if !covered.iter().any(|covered| covered == parent) {
        cover(parent, parent, first_name(target, parent))?;
        covered.push(parent.to_owned());
    }
    make(target, is_folder).map_err(at("cannot make", target))
}

/// Covers a folder by one that can be changed, with the same content but for one name. The root is not covered but replaced,
/// by what is made at `place`.
fn cover(folder: &Path, place: &Path, without: &OsStr) -> Result<(), MountError> {
    let below = File::open(folder).map_err(at("folder", folder))?;
    let entries = fs::read_dir(folder).map_err(at("folder", folder))?;
    let entries: Vec<_> = entries.take(ENTRIES_MAX + 1).filter_map(Result::ok).collect();
    if entries.len() > ENTRIES_MAX {
        return Err(MountError::Crowded(folder.to_owned()));
    }
    tmpfs(place, below.metadata().map_err(at("folder", folder))?.mode()).map_err(at("cannot cover", folder))?;
    if place != folder {
        // It lies inside what is bound next, and must not be copied into itself.
        change(place, MsFlags::MS_UNBINDABLE).map_err(at("cannot cover", folder))?;
    }
    let beneath = PathBuf::from(format!("/proc/self/fd/{}", below.as_raw_fd()));
    let dispensable = folder == Path::new("/dev");
    for entry in entries {
        let name = entry.file_name();
        if name == without || (dispensable && numbered_console(&name)) {
            continue;
        }
        let (from, to) = (beneath.join(&name), place.join(&name));
        repeat(&from, &to).map_err(at("cannot keep", &folder.join(&name)))?;
    }
    if place != folder {
        enter(place).map_err(at("cannot make the root", place))?;
    }
    Ok(())
}

/// Consoles, loop devices and RAM disks: dozens of files that no container has a use for, and each costs time.
fn numbered_console(name: &OsStr) -> bool {
    let Some(name) = name.to_str() else { return false };
    ["ttyS", "tty", "vcsa", "vcsu", "vcs", "loop", "ram", "nbd"]
        .iter()
        .filter_map(|prefix| name.strip_prefix(prefix))
        .any(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}

/// A small file system in memory: it holds little more than names.
fn tmpfs(place: &Path, mode: u32) -> io::Result<()> {
    let options = format!("mode={:o},size=16m", mode & 0o7777);
    Ok(mount(
        Some("tmpfs"),
        place,
        Some("tmpfs"),
        MsFlags::empty(),
        Some(options.as_str()),
    )?)
}

/// How a mount behaves from now on.
fn change(place: &Path, flags: MsFlags) -> io::Result<()> {
    let none: Option<&Path> = None;
    Ok(mount(none, place, none, flags, none)?)
}

/// The same file, folder or link at another place.
fn repeat(from: &Path, to: &Path) -> io::Result<()> {
    let kind = match fs::symlink_metadata(from) {
        Ok(found) => found.file_type(),
        // It has gone meanwhile.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    if kind.is_symlink() {
        return symlink(fs::read_link(from)?, to);
    }
    make(to, kind.is_dir())?;
    match bind(from, to) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// An empty file or folder, with what lies above it.
fn make(path: &Path, is_folder: bool) -> io::Result<()> {
    let mut folders = DirBuilder::new();
    folders.recursive(true).mode(0o755);
    if is_folder {
        return folders.create(path);
    }
    if let Some(parent) = path.parent() {
        folders.create(parent)?;
    }
    OpenOptions::new()
        .create(true)
        .append(true)
        .mode(0o644)
        .open(path)
        .map(drop)
}

/// The new root becomes the root, the old one goes.
fn enter(root: &Path) -> io::Result<()> {
    change(root, MsFlags::MS_PRIVATE)?;
    rustix::process::chdir(root)?;
    rustix::process::pivot_root(".", ".")?;
    umount2(".", MntFlags::MNT_DETACH)?;
    rustix::process::chdir("/")?;
    Ok(())
}

/// What the machine has forbidden there must stay forbidden, else the kernel refuses.
fn read_only(target: &Path) -> io::Result<()> {
    let found = statvfs(target)?.flags();
    let kept = [
        (FsFlags::ST_NOSUID, MsFlags::MS_NOSUID),
        (FsFlags::ST_NODEV, MsFlags::MS_NODEV),
        (FsFlags::ST_NOEXEC, MsFlags::MS_NOEXEC),
        (FsFlags::ST_NOATIME, MsFlags::MS_NOATIME),
        (FsFlags::ST_NODIRATIME, MsFlags::MS_NODIRATIME),
        (FsFlags::ST_RELATIME, MsFlags::MS_RELATIME),
    ];
    let kept: MsFlags = kept
        .into_iter()
        .filter(|(here, _)| found.contains(*here))
        .map(|(_, kept)| kept)
        .collect();
    change(
        target,
        MsFlags::MS_REMOUNT | MsFlags::MS_BIND | MsFlags::MS_RDONLY | kept,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn consoles_are_told_from_devices() {
        let check = |name: &str, expected: bool| assert_eq!(numbered_console(OsStr::new(name)), expected, "{name}");
        for name in ["tty0", "tty63", "ttyS1", "loop7", "ram0", "vcsa1"] {
            check(name, true);
        }
        for name in [
            "tty",
            "null",
            "nvidia0",
            "nvidiactl",
            "loop-control",
            "ttyUSB0",
            "kvm",
            "shm",
            "pts",
            "ptmx",
        ] {
            check(name, false);
        }
    }
}
