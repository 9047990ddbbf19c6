//! A folder of small files that is replaced as a whole, as Kubernetes does it: the names are links into `..data`, which is a
//! link to the folder of the moment; whoever reads through `..data` sees all of the old or all of the new.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{PermissionsExt, chown, fchown, symlink};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;

/// One file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FileText {
    /// Below the volume; relative, without `..`.
    pub(crate) path: PathBuf,
    /// What is in it.
    pub(crate) bytes: Vec<u8>,
    /// Permissions.
    pub(crate) mode: u32,
}

/// Who the files belong to; absent: to the server's user.
pub(crate) type Owner = Option<(u32, u32)>;

const DATA: &str = "..data";

const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// Makes the folder hold exactly these files. Nothing is written if it does already.
pub(crate) fn replace(root: &Path, files: &[FileText], owner: Owner, stamp: &str) -> io::Result<bool> {
    folder(root, 0o755, owner)?;
    let current = root.join(DATA);
    if current.exists() && same(&current, files)? {
        return Ok(false);
    }
    let old = fs::read_link(&current).ok();
    let fresh_name = format!("..{stamp}");
    let fresh = root.join(&fresh_name);
    // Left by a write that did not come to its end.
    absent_is_fine(fs::remove_dir_all(&fresh))?;
    folder(&fresh, 0o755, owner)?;
    for file in files {
        let path = fresh.join(&file.path);
        make_parents(&fresh, &file.path, owner)?;
        fs::write(&path, &file.bytes)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(file.mode))?;
        give(&path, owner)?;
    }
    let next = root.join("..data_tmp");
    absent_is_fine(fs::remove_file(&next))?;
    symlink(&fresh_name, &next)?;
    fs::rename(&next, &current)?;
    link_names(root, files)?;
    if let Some(old) = old.filter(|old| old.as_os_str() != fresh_name.as_str()) {
        absent_is_fine(fs::remove_dir_all(root.join(old)))?;
    }
    Ok(true)
}

/// Links for the first parts of all paths; links of names that are gone go too.
fn link_names(root: &Path, files: &[FileText]) -> io::Result<()> {
    let wanted: BTreeSet<&std::ffi::OsStr> = files
        .iter()
        .filter_map(|file| file.path.components().next())
        .map(std::path::Component::as_os_str)
        .collect();
    for name in &wanted {
        match symlink(Path::new(DATA).join(name), root.join(name)) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
    }
    for entry in fs::read_dir(root)? {
        let name = entry?.file_name();
        if !name.to_string_lossy().starts_with("..") && !wanted.contains(name.as_os_str()) {
            absent_is_fine(fs::remove_file(root.join(name)))?;
        }
    }
    Ok(())
}

fn same(folder: &Path, files: &[FileText]) -> io::Result<bool> {
    let mut found = 0_usize;
    count(folder, &mut found)?;
    if found != files.len() {
        return Ok(false);
    }
    for file in files {
        let path = folder.join(&file.path);
        match (fs::read(&path), fs::metadata(&path)) {
            (Ok(bytes), Ok(meta)) if bytes == file.bytes && meta.permissions().mode() & 0o7777 == file.mode => {}
            _ => return Ok(false),
        }
    }
    Ok(true)
}

fn count(folder: &Path, found: &mut usize) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            count(&entry.path(), found)?;
        } else {
            *found += 1;
        }
    }
    Ok(())
}

fn make_parents(root: &Path, path: &Path, owner: Owner) -> io::Result<()> {
    let mut at = root.to_owned();
    let parts = path.parent().into_iter().flat_map(Path::components);
    for part in parts {
        at.push(part);
        folder(&at, 0o755, owner)?;
    }
    Ok(())
}

/// Makes a folder with its permissions and owner, if it is not there.
pub(crate) fn folder(path: &Path, mode: u32, owner: Owner) -> io::Result<()> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(ErrorKind::InvalidInput.into());
    };
    folder_in(&hold(parent)?, Path::new(name), mode, owner).map(drop)
}

/// Opens a folder to begin at.
pub(crate) fn hold(path: &Path) -> io::Result<OwnedFd> {
    Ok(rustix::fs::open(path, FOLDER, Mode::empty())?)
}

/// Makes a folder in another, if it is not there; whoever puts a link in its place meanwhile gains nothing.
pub(crate) fn folder_in(parent: &OwnedFd, name: &Path, mode: u32, owner: Owner) -> io::Result<OwnedFd> {
    let made = match rustix::fs::mkdirat(parent, name, Mode::RWXU) {
        Ok(()) => true,
        Err(Errno::EXIST) => false,
        Err(error) => return Err(error.into()),
    };
    let folder = rustix::fs::openat(parent, name, FOLDER | OFlags::NOFOLLOW, Mode::empty())?;
    // What was made is the server's; another folder that was moved there is not, and stays as it is.
    if made && rustix::fs::fstat(&folder)?.st_uid == rustix::process::geteuid().as_raw() {
        let held = fs::File::from(folder);
        // The owner first: a change of the owner may take permissions away.
        if let Some((user, group)) = owner {
            fchown(&held, Some(user), Some(group))?;
        }
        held.set_permissions(fs::Permissions::from_mode(mode))?;
        return Ok(held.into());
    }
    Ok(folder)
}

/// Whether a name in a folder is a link.
pub(crate) fn is_link(parent: &OwnedFd, name: &Path) -> bool {
    rustix::fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW)
        .is_ok_and(|found| FileType::from_raw_mode(found.st_mode) == FileType::Symlink)
}

pub(crate) fn give(path: &Path, owner: Owner) -> io::Result<()> {
    owner.map_or(Ok(()), |(user, group)| chown(path, Some(user), Some(group)))
}

fn absent_is_fine(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
        let (outside, volume) = (folder.path().join("outside"), folder.path().join("volume"));
        for path in [&outside, &volume] {
            super::folder(path, 0o700, None).unwrap();
        }
        symlink(&outside, volume.join("link")).unwrap();
        let held = hold(&volume).unwrap();
        folder_in(&held, Path::new("link"), 0o777, None).unwrap_err();
        assert!(is_link(&held, Path::new("link")));
        assert_eq!(mode(&outside), 0o700);
        let owner = rustix::process::geteuid().is_root().then_some((65_534, 65_534));
        folder_in(&held, Path::new("own"), 0o2777, owner).unwrap();
        assert_eq!(mode(&volume.join("own")), 0o2777);
        // What was there before stays as it is.
        folder_in(&held, Path::new("own"), 0o700, owner).unwrap();
        assert_eq!(mode(&volume.join("own")), 0o2777);
    }

    #[test]
    fn files_are_replaced_as_a_whole() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("v");
        let mut stamp = 0;
        let mut check = |wanted: &[(&str, &str, u32)], written: bool| {
            stamp += 1;
            let files: Vec<FileText> = wanted
                .iter()
                .map(|(path, text, mode)| FileText {
                    path: path.into(),
                    bytes: text.as_bytes().to_vec(),
                    mode: *mode,
                })
                .collect();
            assert_eq!(
                replace(&root, &files, None, &stamp.to_string()).unwrap(),
                written,
                "{wanted:?}"
            );
            for (path, text, mode) in wanted {
                assert_eq!(fs::read_to_string(root.join(path)).unwrap(), *text, "{path}");
                let meta = fs::metadata(root.join(path)).unwrap();
                assert_eq!(meta.permissions().mode() & 0o777, *mode, "{path}");
            }
            let mut names: Vec<String> = fs::read_dir(&root)
                .unwrap()
                .map(|e| e.unwrap().file_name().into_string().unwrap())
                .filter(|name| !name.starts_with(".."))
                .collect();
            names.sort();
            let mut expected: Vec<String> = wanted
                .iter()
                .map(|(path, ..)| path.split('/').next().unwrap().to_owned())
                .collect();
            expected.dedup();
            assert_eq!(names, expected);
            let hidden = fs::read_dir(&root)
                .unwrap()
                .filter(|e| e.as_ref().unwrap().file_name().to_string_lossy().starts_with(".."));
            assert_eq!(hidden.count(), 2, "the link and one folder");
        };
        check(&[("a", "1", 0o644), ("b/c", "2", 0o600), ("b/d", "3", 0o644)], true);
        check(&[("a", "1", 0o644), ("b/c", "2", 0o600), ("b/d", "3", 0o644)], false);
        check(&[("a", "1", 0o400), ("b/c", "2", 0o600), ("b/d", "3", 0o644)], true);
        check(&[("a", "9", 0o644)], true);
        check(&[], true);
        check(&[("b", "now a file", 0o644)], true);
    }
}
