//! The second stage: a process that becomes the container.
//!
//! It runs alone and without a runtime, because namespaces and ids are changed for one thread at a time. What goes wrong is
//! said over its standard input, which is a socket to the shim; when the program begins, that socket closes by itself.

use std::convert::Infallible;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use nix::sched::{CloneFlags, unshare};
use rustix::process::Pid;
use serde::{Deserialize, Serialize};

use super::cgroups::Cgroups;
use super::mounts::{self, MountError};
use super::program;
use crate::local::folder::PodFolder;
use crate::local::plan::{self, ContainerPlan, Mount, PodPlan};

/// Where a container without a working folder starts, if it has a view of its own.
pub(super) const WORK: &str = "/srv/pod";

/// Why a container could not begin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Refusal {
    /// 126: found and cannot be run; 127: not found; 128: something before it failed.
    pub(super) code: u8,
    /// In words.
    pub(super) message: String,
}

impl Refusal {
    /// Something failed before the program was looked for.
    pub(super) fn setup(what: &str, error: impl std::fmt::Display) -> Self {
        Self {
            code: 128,
            message: format!("{what}: {error}"),
        }
    }
}

impl From<MountError> for Refusal {
    fn from(error: MountError) -> Self {
        Self {
            code: 128,
            message: error.to_string(),
        }
    }
}

/// Becomes the container, or says why not.
pub(super) fn main(folder: &PodFolder, container: &str) -> ExitCode {
    let shim = rustix::process::getppid();
    let mut told = match take_socket() {
        Ok(told) => told,
        Err(error) => {
            eprintln!("standard input: {error}");
            return ExitCode::from(128);
        }
    };
    let refusal = match begin(folder, container, shim) {
        Ok(never) => match never {},
        Err(refusal) => refusal,
    };
    let text = serde_json::to_vec(&refusal).unwrap_or_default();
    if told.write_all(&text).is_err() {
        eprintln!("{}", refusal.message);
    }
    ExitCode::from(refusal.code)
}

/// The socket moves away from standard input, where the container finds nothing.
fn take_socket() -> io::Result<UnixStream> {
    let socket = rustix::io::fcntl_dupfd_cloexec(io::stdin().as_fd(), 3)?;
    rustix::stdio::dup2_stdin(File::open("/dev/null")?)?;
    Ok(UnixStream::from(socket))
}

/// Reads the plan and finds one container in it.
pub(super) fn planned(folder: &PodFolder, container: &str) -> Result<(PodPlan, ContainerPlan), Refusal> {
    let plan = super::read_plan(folder).map_err(|error| Refusal::setup("plan", error))?;
    let found = plan
        .init
        .iter()
        .chain(&plan.containers)
        .find(|found| found.name == container)
        .cloned();
    let found = found.ok_or_else(|| Refusal::setup("plan", format_args!("there is no container {container:?}")))?;
    Ok((plan, found))
}

fn begin(folder: &PodFolder, name: &str, shim: Option<Pid>) -> Result<Infallible, Refusal> {
    let (plan, container) = planned(folder, name)?;
    rustix::process::setsid().map_err(|error| Refusal::setup("session", error))?;
    Cgroups::of_container(&plan.isolation.cgroups, name)
        .join()
        .map_err(|error| Refusal::setup("cgroup", error))?;
    program::bound();
    match plan.isolation.view {
        plan::View::Shared => {}
        plan::View::Namespaces => {
            unshare(CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWUTS)
                .map_err(|error| Refusal::setup("namespaces", error))?;
            make_view(folder, &plan, &container)?;
        }
        plan::View::UserNamespaces => {
            unshare_as_user(&container)?;
            make_view(folder, &plan, &container)?;
        }
    }
    let place = place(folder, &plan, &container);
    program::become_it(&container, &container.command, &place, plan.isolation.view, shim)
}

/// Without root: inside, the wanted user stands for the one who runs the server.
fn unshare_as_user(container: &ContainerPlan) -> Result<(), Refusal> {
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let (inner_uid, inner_gid) = container.user.as_ref().map_or((uid, gid), |user| (user.uid, user.gid));
    unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWUTS)
        .map_err(|error| Refusal::setup("user namespace", error))?;
    let lines = [
        ("/proc/self/setgroups", "deny".to_owned()),
        ("/proc/self/uid_map", format!("{inner_uid} {uid} 1")),
        ("/proc/self/gid_map", format!("{inner_gid} {gid} 1")),
    ];
    for (file, line) in lines {
        fs::write(file, line).map_err(|error| Refusal::setup(file, error))?;
    }
    Ok(())
}

/// Where the container starts.
pub(super) fn place(folder: &PodFolder, plan: &PodPlan, container: &ContainerPlan) -> PathBuf {
    match (&container.working_folder, plan.isolation.view) {
        (Some(place), _) => place.clone(),
        (None, plan::View::Shared) => work(folder),
        (None, _) => PathBuf::from(WORK),
    }
}

/// The pod's own scratch folder.
pub(super) fn work(folder: &PodFolder) -> PathBuf {
    folder.scratch().join("work")
}

/// The folder that becomes the root of a container for which the machine's root lacks something.
pub(super) fn staging(folder: &PodFolder) -> PathBuf {
    folder.scratch().join("root")
}

fn make_view(folder: &PodFolder, plan: &PodPlan, container: &ContainerPlan) -> Result<(), Refusal> {
    rustix::system::sethostname(plan.hostname.as_bytes()).map_err(|error| Refusal::setup("host name", error))?;
    // No pod can make a link on the way to its own folder.
    let shown = |source: PathBuf, target: &Path| {
        let source = source
            .canonicalize()
            .map_err(|error| Refusal::setup("pod's folder", format_args!("{}: {error}", source.display())))?;
        Ok::<Mount, Refusal>(Mount {
            source,
            beneath: None,
            target: target.to_owned(),
            read_only: false,
        })
    };
    let mut mounts = Vec::new();
    if folder.hosts().exists() {
        mounts.push(shown(folder.hosts(), Path::new("/etc/hosts"))?);
    }
    if container.working_folder.is_none() {
        mounts.push(shown(work(folder), Path::new(WORK))?);
    }
    mounts.extend(container.mounts.iter().cloned());
    if !container.message_path.as_os_str().is_empty() {
        mounts.push(shown(folder.message(&container.name), &container.message_path)?);
    }
    Ok(mounts::make_view(&staging(folder), &mounts)?)
}
