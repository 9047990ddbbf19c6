//! Which cgroups the machine lets us have: found out by making one.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::super::plan::{Cgroup, CgroupVersion};

/// Where the kernel shows them.
const ROOT: &str = "/sys/fs/cgroup";
/// Our folder in each hierarchy.
const OURS: &str = "basalt";
/// Hierarchies of version 1 that limits and ends of pods need.
const CONTROLLERS: [&str; 4] = ["memory", "cpu", "pids", "freezer"];

/// Folders in which pods can have cgroups; empty: there are none to have.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Hierarchies(Vec<(PathBuf, CgroupVersion)>);

impl Hierarchies {
    /// Tries everything; leaves only our own empty folders behind.
    pub(crate) fn find() -> Self {
        let root = Path::new(ROOT);
        if root.join("cgroup.controllers").exists() {
            return Self(unified(root).into_iter().collect());
        }
        let mut found: Vec<_> = CONTROLLERS
            .iter()
            .map(|controller| root.join(controller).join(OURS))
            .filter(|ours| can_have(ours).is_ok())
            .map(|ours| (ours, CgroupVersion::V1))
            .collect();
        found.dedup();
        // Beside version 1 the unified one has no controllers, but it can end a whole tree at once. So can the freezer, and
        // joining the unified one makes the kernel wait for all cores: some 15 ms.
        if !found.iter().any(|(folder, _)| folder.starts_with(root.join("freezer"))) {
            found.extend(unified(&root.join("unified")));
        }
        Self(found)
    }

    /// The cgroups of one pod.
    pub(crate) fn of_pod(&self, uid: &str) -> Vec<Cgroup> {
        self.0
            .iter()
            .map(|(folder, version)| Cgroup {
                folder: folder.join(uid),
                version: *version,
            })
            .collect()
    }

    /// In words.
    pub(crate) fn words(&self) -> String {
        let versions: Vec<CgroupVersion> = self.0.iter().map(|(_, version)| *version).collect();
        match (
            versions.contains(&CgroupVersion::V1),
            versions.contains(&CgroupVersion::V2),
        ) {
            (true, _) => "cgroups v1".to_owned(),
            (false, true) => "cgroups v2".to_owned(),
            (false, false) => "no cgroups: limits are not kept".to_owned(),
        }
    }
}

/// Our folder in the unified hierarchy: at its root, or, without root, below the cgroup that we were given.
fn unified(root: &Path) -> Option<(PathBuf, CgroupVersion)> {
    if !root.join("cgroup.procs").exists() {
        return None;
    }
    let own = fs::read_to_string("/proc/self/cgroup").ok();
    let own = own.and_then(|text| {
        text.lines()
            .find_map(|line| line.strip_prefix("0::/").map(str::to_owned))
    });
    [Some(root.to_owned()), own.map(|own| root.join(own))]
        .into_iter()
        .flatten()
        .find_map(|parent| {
            pass_on(&parent);
            let ours = parent.join(OURS);
            can_have(&ours).ok()?;
            pass_on(&ours);
            Some((ours, CgroupVersion::V2))
        })
}

/// Lets the folders below have the controllers; one that is not there is no reason to do without the others.
fn pass_on(folder: &Path) {
    for controller in ["cpu", "memory", "pids"] {
        let _ = fs::write(folder.join("cgroup.subtree_control"), format!("+{controller}"));
    }
}

/// Makes our folder, and one in it for a moment.
fn can_have(ours: &Path) -> io::Result<()> {
    match fs::create_dir(ours) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let trial = ours.join(format!("trial-{}", std::process::id()));
    fs::create_dir(&trial)?;
    let joined = fs::OpenOptions::new()
        .write(true)
        .open(trial.join("cgroup.procs"))
        .map(drop);
    fs::remove_dir(&trial)?;
    joined
}
