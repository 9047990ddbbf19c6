//! What this machine is and permits.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use basalt_api::quantity::{Format, Quantity};

use super::gpu::Gpus;

pub(crate) mod cgroups;
pub(crate) mod register;

/// Kept for the system and for Basalt itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reserve {
    /// Thousandths of a core.
    pub cpu_millis: u64,
    /// Bytes.
    pub memory_bytes: u64,
}

impl Default for Reserve {
    fn default() -> Self {
        Self {
            cpu_millis: 0,
            memory_bytes: 256 << 20,
        }
    }
}

/// The machine's size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Machine {
    /// The node's name.
    pub name: String,
    /// Thousandths of a core.
    pub cpu_millis: u64,
    /// Bytes.
    pub memory_bytes: u64,
    /// Bytes of the disk that holds the data folder.
    pub disk_bytes: u64,
    /// GPUs.
    pub gpus: Gpus,
}

impl Machine {
    /// Looks around; `data` lies on the disk that pods use.
    pub fn look(data: &Path) -> Self {
        let memory = fs::read_to_string("/proc/meminfo").ok();
        Self {
            name: node_name(
                &nix::unistd::gethostname()
                    .map(|n| n.to_string_lossy().into_owned())
                    .unwrap_or_default(),
            ),
            cpu_millis: cores().saturating_mul(1_000),
            memory_bytes: memory.and_then(|text| meminfo(&text, "MemTotal")).unwrap_or(0),
            disk_bytes: disk(data).map_or(0, |disk| disk.total),
            gpus: Gpus::find(),
        }
    }
}

/// The name that the node of this data folder keeps, whatever becomes of the host's: its pods are bound to it.
pub(crate) fn kept_name(data: &Path, stated: Option<&str>, host: &str) -> io::Result<String> {
    let file = data.join("node-name");
    let kept = match fs::read_to_string(&file) {
        Ok(text) => Some(text.trim().to_owned()).filter(|name| *name == node_name(name)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(error),
    };
    let name = stated.or(kept.as_deref()).unwrap_or(host).to_owned();
    if kept.as_deref() != Some(&name) {
        let draft = data.join("node-name.new");
        fs::write(&draft, &name)?;
        fs::rename(&draft, &file)?;
    }
    Ok(name)
}

fn cores() -> u64 {
    std::thread::available_parallelism().map_or(1, |n| n.get() as u64)
}

/// A host name as the name of a node: lower case, and nothing but letters, digits, `-` and `.`.
fn node_name(host: &str) -> String {
    let name: String = host
        .to_lowercase()
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' })
        .take(253)
        .collect();
    let name = name.trim_matches(|c: char| !c.is_ascii_alphanumeric());
    if name.is_empty() {
        "localhost".to_owned()
    } else {
        name.to_owned()
    }
}

/// A line of `/proc/meminfo`, in bytes.
fn meminfo(text: &str, key: &str) -> Option<u64> {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kilobytes.checked_mul(1_024)
}

/// Room on a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Disk {
    pub(crate) total: u64,
    pub(crate) free: u64,
    pub(crate) files: u64,
    pub(crate) files_free: u64,
}

/// The disk that this folder is on.
pub(crate) fn disk(folder: &Path) -> Option<Disk> {
    let found = rustix::fs::statvfs(folder).ok()?;
    Some(Disk {
        total: found.f_blocks.saturating_mul(found.f_frsize),
        free: found.f_bavail.saturating_mul(found.f_frsize),
        files: found.f_files,
        files_free: found.f_favail,
    })
}

/// What the machine is short of.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Pressure {
    pub(crate) memory: bool,
    pub(crate) disk: bool,
}

/// Less memory than this is pressure, as in Kubernetes.
const MEMORY_LEAST: u64 = 100 << 20;

impl Pressure {
    pub(crate) fn now(data: &Path) -> Self {
        let memory = fs::read_to_string("/proc/meminfo").ok();
        Self {
            memory: memory
                .and_then(|text| meminfo(&text, "MemAvailable"))
                .is_some_and(|available| available < MEMORY_LEAST),
            disk: disk(data).is_some_and(is_nearly_full),
        }
    }
}

/// Nearly full: less than 512 MiB and a twentieth is left, or less than a twentieth of the files.
fn is_nearly_full(disk: Disk) -> bool {
    let bytes = disk.free < (512 << 20) && disk.free < disk.total / 20;
    bytes || (disk.files > 0 && disk.files_free < disk.files / 20)
}

/// An amount of bytes as Kubernetes writes it.
pub(crate) fn bytes(amount: u64) -> Quantity {
    Quantity::from_units(i64::try_from(amount).unwrap_or(i64::MAX), Format::BinarySi)
}

/// Thousandths as Kubernetes writes them.
pub(crate) fn millis(amount: u64) -> Quantity {
    Quantity::from_milli(i64::try_from(amount).unwrap_or(i64::MAX))
}

/// Folders of the node below the data folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Places {
    pub(crate) data: PathBuf,
}

impl Places {
    /// One folder per pod.
    pub(crate) fn pods(&self) -> PathBuf {
        self.data.join("pods")
    }

    /// Claims' contents.
    pub(crate) fn claims(&self) -> PathBuf {
        self.data.join("volumes")
    }

    /// Where shims call.
    pub(crate) fn socket(&self) -> PathBuf {
        self.data.join("node.sock")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_nodes() {
        let check = |host: &str, expected: &str| assert_eq!(node_name(host), expected, "{host}");
        check("box", "box");
        check("Big_Box.Example.COM", "big-box.example.com");
        check("-x-", "x");
        check("", "localhost");
        check("___", "localhost");
    }

    #[test]
    fn a_node_keeps_its_name() {
        let data = tempfile::tempdir().unwrap();
        let check = |stated: Option<&str>, host: &str, expected: &str| {
            assert_eq!(
                kept_name(data.path(), stated, host).unwrap(),
                expected,
                "{stated:?} {host}"
            );
        };
        check(None, "first", "first");
        check(None, "second", "first");
        check(Some("stated"), "second", "stated");
        check(None, "third", "stated");
        fs::write(data.path().join("node-name"), "").unwrap();
        check(None, "third", "third");
    }

    #[test]
    fn memory_is_read() {
        let text = "MemTotal:       2048 kB\nMemFree: 1 kB\nMemAvailable:    1024 kB\nHugePages_Total: 3\n";
        let check = |key: &str, expected: Option<u64>| assert_eq!(meminfo(text, key), expected, "{key}");
        check("MemTotal", Some(2_097_152));
        check("MemAvailable", Some(1_048_576));
        check("Mem", None);
        check("HugePages_Total", None);
    }

    #[test]
    fn a_disk_that_is_nearly_full() {
        let check = |total: u64, free: u64, files: (u64, u64), expected: bool| {
            let disk = Disk {
                total,
                free,
                files: files.0,
                files_free: files.1,
            };
            assert_eq!(is_nearly_full(disk), expected, "{disk:?}");
        };
        let gib = 1_u64 << 30;
        check(100 * gib, 50 * gib, (100, 50), false);
        check(100 * gib, gib, (0, 0), false);
        check(100 * gib, gib / 4, (0, 0), true);
        check(gib, gib / 4, (0, 0), false);
        check(100 * gib, 50 * gib, (100, 4), true);
    }
}
