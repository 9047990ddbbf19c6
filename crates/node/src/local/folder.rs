//! Where a pod's files are: one private folder per pod, `<data>/pods/<uid>`.

use std::path::{Path, PathBuf};

/// A pod's folder (mode 0700, owned by the user of the server).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodFolder(PathBuf);

impl PodFolder {
    /// The folder of the pod with this uid under the folder of all pods.
    pub fn of(pods: &Path, uid: &str) -> Self {
        Self(pods.join(uid))
    }

    /// The folder that a shim was told.
    pub fn at(path: PathBuf) -> Self {
        Self(path)
    }

    /// The folder itself.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// What is to be run; written once by the agent, whole, before the shim starts.
    pub fn plan(&self) -> PathBuf {
        self.0.join("plan.json")
    }

    /// What has happened; replaced as a whole by the shim at every change.
    pub fn state(&self) -> PathBuf {
        self.0.join("state.json")
    }

    /// What the shim itself complains of: its standard error.
    pub fn complaints(&self) -> PathBuf {
        self.0.join("shim.log")
    }

    /// The hosts file that the pod's processes see as /etc/hosts.
    pub fn hosts(&self) -> PathBuf {
        self.0.join("hosts")
    }

    /// Contents of a volume that the pod owns (emptyDir, configMap, secret, downwardAPI, projected).
    pub fn volume(&self, name: &str) -> PathBuf {
        self.0.join("volumes").join(name)
    }

    /// Room for what the shim mounts (upper layers and the like).
    pub fn scratch(&self) -> PathBuf {
        self.0.join("scratch")
    }

    /// Where a container writes its termination message (`terminationMessagePath` is mounted from here).
    pub fn message(&self, container: &str) -> PathBuf {
        self.0.join("messages").join(container)
    }

    /// Logs of one container: files named after the run (`0.log`, `1.log`, …), each rotated to `N.log.1`, `N.log.2`, …
    pub fn logs(&self, container: &str) -> PathBuf {
        self.0.join("logs").join(container)
    }

    /// The log of one run of a container, in CRI's format: `2026-11-16T01:02:03.000000004Z stdout F text`.
    pub fn log(&self, container: &str, run: u32) -> PathBuf {
        self.logs(container).join(format!("{run}.log"))
    }
}
