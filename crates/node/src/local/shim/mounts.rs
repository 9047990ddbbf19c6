//! A file system view of the container's own: volumes at their paths, the machine's files elsewhere.
//!
//! A path to mount at that does not exist on the machine is made without touching it: the deepest folder above it that exists
//! is covered, in the private namespace, by a small tmpfs in which everything that was there is bound again.

use std::ffi::OsStr;
use std::fs::{self, Metadata};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::{Component, Path, PathBuf};

use nix::errno::Errno;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags, StatVfsMountFlags, statvfs};

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
    #[error("mount {}: what lies at or below /proc and /sys is the kernel's own", .0.display())]
    Kernel(PathBuf),
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

/// Whether a path, without links, leads to what the kernel shows of itself. Whoever covers that deceives those who read it.
fn is_kernels(path: &Path) -> bool {
    ["/proc", "/sys"].iter().any(|own| path.starts_with(own))
}

/// What is shown, with the source held open: what is mounted before it may cover its path.
#[derive(Debug)]
struct Held<'a> {
    shown: &'a Mount,
    source: OwnedFd,
}

/// A path to what a descriptor stands for, whatever has become of its names.
fn path_of(held: &impl AsRawFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", held.as_raw_fd()))
}

/// Holds what is at a path on which there are no links.
fn hold(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    Ok(rustix::fs::openat2(
        CWD,
        path,
        flags,
        Mode::empty(),
        ResolveFlags::NO_SYMLINKS,
    )?)
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
        if is_kernels(&mount.target) {
            return Err(MountError::Kernel(mount.target.clone()));
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
    let root = hold(&shown.source).map_err(at("volume", &shown.source))?;
    let Some(part) = &shown.beneath else { return Ok(root) };
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    rustix::fs::openat2(&root, part, OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), resolve)
        .map_err(|error| at("volume", part)(error.into()))
}

fn is_folder(found: &OwnedFd) -> io::Result<bool> {
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
    let staging = staging.canonicalize().map_err(at("folder", staging))?;
    cover(Path::new("/"), &staging, first_name(&first.target, Path::new("/")))?;
    let root = hold(Path::new("/")).map_err(at("folder", Path::new("/")))?;
    for (number, mount) in missing.iter().enumerate() {
        // What lies below another volume is made in that volume.
        let before = missing.get(..number).unwrap_or_default();
        if !before.iter().any(|other| mount.target.starts_with(&other.target)) {
            let is_folder = is_folder(&open_source(mount)?).map_err(at("volume", &mount.source))?;
            let below = mount.target.strip_prefix("/").unwrap_or(&mount.target);
            make(&root, below, is_folder).map_err(at("cannot make", &mount.target))?;
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
    let (target, source) = (&mount.shown.target, &mount.source);
    let source_is_folder = is_folder(source).map_err(at("volume", &mount.shown.source))?;
    if !target.exists() {
        make_target(target, source_is_folder, before, covered)?;
    }
    // Whatever links there are on the way, they are followed once: here.
    let real = target.canonicalize().map_err(at("mount", target))?;
    if is_kernels(&real) {
        return Err(MountError::Kernel(target.clone()));
    }
    let place = hold(&real).map_err(at("mount", target))?;
    let place_is_folder = is_folder(&place).map_err(at("mount", target))?;
    if place_is_folder != source_is_folder {
        return Err(MountError::Kind {
            path: target.clone(),
            source_kind: kind(source_is_folder),
            target_kind: kind(place_is_folder),
        });
    }
    bind(&path_of(source), &path_of(&place)).map_err(at("cannot mount", target))?;
    if mount.shown.read_only {
        shut(&real, source).map_err(at("cannot make read-only", target))?;
    }
    Ok(())
}

/// Makes what was just mounted read-only, if it is still that which is found there.
fn shut(place: &Path, source: &OwnedFd) -> io::Result<()> {
    let mounted = hold(place)?;
    let (found, wanted) = (rustix::fs::fstat(&mounted)?, rustix::fs::fstat(source)?);
    if (found.st_dev, found.st_ino) != (wanted.st_dev, wanted.st_ino) {
        return Err(io::Error::other("something else is there now"));
    }
    read_only(&path_of(&mounted))
}

/// Makes something to mount at.
fn make_target(
    target: &Path,
    is_folder: bool,
    before: &[Held<'_>],
    covered: &mut Vec<PathBuf>,
) -> Result<(), MountError> {
    if let Some((volume, below)) = volume_above(target, before) {
        return make(&volume.source, below, is_folder).map_err(at("cannot make", target));
    }
    let parent = target
        .ancestors()
        .skip(1)
        .find(|path| path.is_dir())
        .unwrap_or(Path::new("/"));
    let below = target.strip_prefix(parent).unwrap_or(target);
    let real = parent.canonicalize().map_err(at("folder", parent))?;
    if is_kernels(&real) {
        return Err(MountError::Kernel(target.to_owned()));
    }
    // The machine's own links can lead into a volume as well.
    if let Some((volume, below)) = volume_above(&real.join(below), before) {
        return make(&volume.source, below, is_folder).map_err(at("cannot make", target));
    }
    if !covered.contains(&real) {
        cover(&real, &real, first_name(target, parent))?;
        covered.push(real.clone());
    }
    let folder = hold(&real).map_err(at("folder", &real))?;
    make(&folder, below, is_folder).map_err(at("cannot make", target))
}

/// The volume that a path lies in, and where in it: there a mount point is made in the volume itself, as container runtimes do.
fn volume_above<'a, 'b>(path: &'b Path, before: &'a [Held<'a>]) -> Option<(&'a Held<'a>, &'b Path)> {
    let within = |mount: &&Held<'_>| path != mount.shown.target && path.starts_with(&mount.shown.target);
    let volume = before.iter().rev().find(within)?;
    Some((volume, path.strip_prefix(&volume.shown.target).ok()?))
}

/// Covers a folder by one that can be changed, with the same content but for one name. The root is not covered but replaced,
/// by what is made at `place`.
fn cover(folder: &Path, place: &Path, without: &OsStr) -> Result<(), MountError> {
    let below = hold(folder).map_err(at("folder", folder))?;
    let beneath = path_of(&below);
    let entries = fs::read_dir(&beneath).map_err(at("folder", folder))?;
    let entries: Vec<_> = entries.take(ENTRIES_MAX + 1).filter_map(Result::ok).collect();
    if entries.len() > ENTRIES_MAX {
        return Err(MountError::Crowded(folder.to_owned()));
    }
    let like = fs::metadata(&beneath).map_err(at("folder", folder))?;
    tmpfs(place, &like).map_err(at("cannot cover", folder))?;
    if place != folder {
        // It lies inside what is bound next, and must not be copied into itself.
        change(place, MsFlags::MS_UNBINDABLE).map_err(at("cannot cover", folder))?;
    }
    let fresh = hold(place).map_err(at("cannot cover", folder))?;
    let dispensable = folder == Path::new("/dev");
    for entry in entries {
        let name = entry.file_name();
        if name == without || (dispensable && numbered_console(&name)) {
            continue;
        }
        repeat(&beneath.join(&name), &fresh, &name).map_err(at("cannot keep", &folder.join(&name)))?;
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

/// A small file system in memory, for whom the folder is that it covers: it holds little more than names.
fn tmpfs(place: &Path, like: &Metadata) -> io::Result<()> {
    let options = format!("mode={:o},size=16m", like.mode() & 0o7777);
    let owned = format!("{options},uid={},gid={}", like.uid(), like.gid());
    let mount_with = |options: &str| mount(Some("tmpfs"), place, Some("tmpfs"), MsFlags::empty(), Some(options));
    match mount_with(&owned) {
        // In a user namespace most owners are nobody that anything can be given to.
        Err(Errno::EINVAL) => Ok(mount_with(&options)?),
        other => Ok(other?),
    }
}

/// How a mount behaves from now on.
fn change(place: &Path, flags: MsFlags) -> io::Result<()> {
    let none: Option<&Path> = None;
    Ok(mount(none, place, none, flags, none)?)
}

/// The same file, folder or link in another folder.
fn repeat(from: &Path, folder: &OwnedFd, name: &OsStr) -> io::Result<()> {
    let kind = match fs::symlink_metadata(from) {
        Ok(found) => found.file_type(),
        // It has gone meanwhile.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    let to = path_of(folder).join(name);
    if kind.is_symlink() {
        return symlink(fs::read_link(from)?, to);
    }
    make(folder, Path::new(name), kind.is_dir())?;
    match bind(from, &to) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// An empty file or folder below a folder that is held, with what lies between. No link is followed: a pod may have made it.
fn make(folder: &OwnedFd, below: &Path, is_folder: bool) -> io::Result<()> {
    let mut names = below.iter().peekable();
    let mut above = folder.try_clone()?;
    while let Some(name) = names.next() {
        above = match step(&above, name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                if is_folder || names.peek().is_some() {
                    rustix::fs::mkdirat(&above, name, Mode::from_raw_mode(0o755))?;
                } else {
                    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::WRONLY | OFlags::CLOEXEC;
                    rustix::fs::openat(&above, name, flags, Mode::from_raw_mode(0o644))?;
                }
                step(&above, name)?
            }
            other => other?,
        };
    }
    Ok(())
}

/// One name further.
fn step(above: &OwnedFd, name: &OsStr) -> io::Result<OwnedFd> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    rustix::fs::openat2(above, name, OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), resolve).map_err(|error| {
        if error == rustix::io::Errno::LOOP {
            io::Error::other(format!("{} is a link", name.display()))
        } else {
            error.into()
        }
    })
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
    let found = statvfs(target)?.f_flag;
    let kept = [
        (StatVfsMountFlags::NOSUID, MsFlags::MS_NOSUID),
        (StatVfsMountFlags::NODEV, MsFlags::MS_NODEV),
        (StatVfsMountFlags::NOEXEC, MsFlags::MS_NOEXEC),
        (StatVfsMountFlags::NOATIME, MsFlags::MS_NOATIME),
        (StatVfsMountFlags::NODIRATIME, MsFlags::MS_NODIRATIME),
        (StatVfsMountFlags::RELATIME, MsFlags::MS_RELATIME),
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
