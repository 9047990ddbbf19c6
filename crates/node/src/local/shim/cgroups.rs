//! The pod's cgroups: made, limited, joined, emptied, removed. Which files a folder has says what it can do.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::local::plan::{Cgroup, CgroupVersion, Limits};
use crate::local::process;

/// Microseconds in which a quota counts.
const PERIOD_MICROS: u64 = 100_000;
/// Least quota that the kernel takes.
const QUOTA_MIN_MICROS: u64 = 1_000;

/// The folders of the pod or of one container, one in each hierarchy.
#[derive(Debug, Clone)]
pub(super) struct Cgroups(Vec<Cgroup>);

impl Cgroups {
    /// The pod's, as planned. Where controllers are those of version 1, the unified hierarchy beside them bounds nothing, and to
    /// join it would cost more than all else together (see [`Self::join`]).
    pub(super) fn of_pod(planned: &[Cgroup]) -> Self {
        let first = planned.iter().any(|cgroup| cgroup.version == CgroupVersion::V1);
        let wanted = |cgroup: &&Cgroup| !first || cgroup.version == CgroupVersion::V1;
        Self(planned.iter().filter(wanted).cloned().collect())
    }

    /// A container's, below the pod's.
    pub(super) fn of_container(planned: &[Cgroup], name: &str) -> Self {
        let mut cgroups = Self::of_pod(planned);
        for cgroup in &mut cgroups.0 {
            cgroup.folder.push(name);
        }
        cgroups
    }

    /// Whether there are any.
    pub(super) fn any(&self) -> bool {
        !self.0.is_empty()
    }

    /// Makes them with their limits.
    pub(super) fn make(&self, limits: &Limits) -> io::Result<()> {
        for cgroup in &self.0 {
            fs::create_dir_all(&cgroup.folder).map_err(|error| about(&cgroup.folder, error))?;
            limit(cgroup, limits)?;
        }
        Ok(())
    }

    /// Lets the folders below have the controllers too (version 2 asks for it, and a controller that is not there is no error).
    pub(super) fn open_below(&self) {
        for cgroup in self.0.iter().filter(|cgroup| cgroup.version == CgroupVersion::V2) {
            for controller in ["+cpu", "+memory", "+pids"] {
                let _ = fs::write(cgroup.folder.join("cgroup.subtree_control"), controller);
            }
        }
    }

    /// The calling process moves in; it has one thread. To move a thread by itself costs microseconds; to move a process, the
    /// kernel waits until no processor is forking any more, which takes up to 16 ms. Version 2 knows only the latter.
    pub(super) fn join(&self) -> io::Result<()> {
        for cgroup in &self.0 {
            let file = cgroup.folder.join(match cgroup.version {
                CgroupVersion::V1 => "tasks",
                CgroupVersion::V2 => "cgroup.procs",
            });
            fs::write(&file, "0").map_err(|error| about(&file, error))?;
        }
        Ok(())
    }

    /// Whether nobody is in them; one hierarchy is enough, because all are joined together.
    pub(super) fn empty(&self) -> bool {
        let mut found = Vec::new();
        if let Some(cgroup) = self.0.first() {
            collect_members(&cgroup.folder, 0, &mut found);
        }
        found.is_empty()
    }

    /// Who is in them, or below them.
    pub(super) fn members(&self) -> Vec<u32> {
        let mut found = Vec::new();
        for cgroup in &self.0 {
            collect_members(&cgroup.folder, 0, &mut found);
        }
        found.sort_unstable();
        found.dedup();
        found
    }

    /// Kills all members once; those that are being born meanwhile are for the next time.
    pub(super) fn kill(&self) {
        let freezers: Vec<PathBuf> = self
            .0
            .iter()
            .map(|cgroup| cgroup.folder.join("freezer.state"))
            .collect();
        for file in freezers.iter().filter(|file| file.exists()) {
            let _ = fs::write(file, "FROZEN");
        }
        for cgroup in &self.0 {
            let _ = fs::write(cgroup.folder.join("cgroup.kill"), "1");
        }
        for pid in self.members() {
            if let Err(error) = process::kill(pid, Signal::KILL) {
                eprintln!("cannot kill {pid}: {error}");
            }
        }
        for file in freezers.iter().filter(|file| file.exists()) {
            let _ = fs::write(file, "THAWED");
        }
    }

    /// How many processes the kernel has killed here for want of memory.
    pub(super) fn out_of_memory_kills(&self) -> u64 {
        let read = |cgroup: &Cgroup| {
            let file = match cgroup.version {
                CgroupVersion::V1 => "memory.oom_control",
                CgroupVersion::V2 => "memory.events",
            };
            let text = fs::read_to_string(cgroup.folder.join(file)).ok()?;
            text.lines()
                .find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse::<u64>().ok())
        };
        self.0.iter().filter_map(read).sum()
    }

    /// Removes the folders and all below; a member that is just going makes the kernel refuse for a moment.
    pub(super) fn remove(&self, patience: Duration) -> io::Result<()> {
        let until = Instant::now() + patience;
        for cgroup in &self.0 {
            loop {
                match remove_folder(&cgroup.folder, 0) {
                    Ok(()) => break,
                    Err(error) if Instant::now() >= until => return Err(about(&cgroup.folder, error)),
                    Err(_) => thread::sleep(Duration::from_millis(2)),
                }
            }
        }
        Ok(())
    }
}

/// Folders within folders that are looked at; a container may make some of its own.
const DEPTH_MAX: u32 = 8;

fn folders_in(folder: &Path) -> Vec<PathBuf> {
    // Two links are its name and its own dot; each folder below has one more. To list the dozens of files costs much more.
    if fs::metadata(folder).is_ok_and(|found| found.nlink() == 2) {
        return Vec::new();
    }
    let Ok(entries) = fs::read_dir(folder) else {
        return Vec::new();
    };
    entries
        .filter_map(Result::ok)
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
        .collect()
}

fn collect_members(folder: &Path, depth: u32, found: &mut Vec<u32>) {
    let text = fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default();
    found.extend(
        text.lines()
            .filter_map(|line| line.parse::<u32>().ok())
            .filter(|pid| *pid > 0),
    );
    if depth < DEPTH_MAX {
        for below in folders_in(folder) {
            collect_members(&below, depth + 1, found);
        }
    }
}

fn remove_folder(folder: &Path, depth: u32) -> io::Result<()> {
    match fs::remove_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(_) if depth < DEPTH_MAX => {}
        other => return other,
    }
    for below in folders_in(folder) {
        remove_folder(&below, depth + 1)?;
    }
    fs::remove_dir(folder)
}

fn about(path: &Path, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

/// Writes what the folder has files for. The kernel may refuse a value (too small a quota for the hierarchy): that is an error.
fn limit(cgroup: &Cgroup, limits: &Limits) -> io::Result<()> {
    let write = |file: &str, value: String| {
        let path = cgroup.folder.join(file);
        match fs::metadata(&path) {
            Ok(_) => fs::write(&path, value).map_err(|error| about(&path, error)),
            Err(_) => Ok(()),
        }
    };
    if let Some(millis) = limits.cpu_millis {
        let quota = (millis.saturating_mul(PERIOD_MICROS) / 1000).max(QUOTA_MIN_MICROS);
        match cgroup.version {
            CgroupVersion::V1 => write("cpu.cfs_quota_us", quota.to_string())?,
            CgroupVersion::V2 => write("cpu.max", format!("{quota} {PERIOD_MICROS}"))?,
        }
    }
    if let Some(millis) = limits.cpu_request_millis {
        // As Kubernetes: 1024 shares a core, and the range [2, 262144] of shares is the range [1, 10000] of weights.
        let shares = (millis.saturating_mul(1024) / 1000).clamp(2, 262_144);
        match cgroup.version {
            CgroupVersion::V1 => write("cpu.shares", shares.to_string())?,
            CgroupVersion::V2 => write("cpu.weight", (1 + (shares - 2) * 9999 / 262_142).to_string())?,
        }
    }
    if let Some(bytes) = limits.memory_bytes {
        match cgroup.version {
            CgroupVersion::V1 => {
                write("memory.limit_in_bytes", bytes.to_string())?;
                write("memory.memsw.limit_in_bytes", bytes.to_string())?;
            }
            CgroupVersion::V2 => {
                write("memory.max", bytes.to_string())?;
                write("memory.swap.max", "0".to_owned())?;
            }
        }
    }
    if let Some(processes) = limits.processes {
        write("pids.max", processes.to_string())?;
    }
    Ok(())
}
