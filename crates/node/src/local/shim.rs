//! The shim: one small process per pod, `basalt pod-shim`.
//!
//! `pod-shim run FOLDER` is the shim itself; it starts each container through `pod-shim container FOLDER NAME`, which becomes
//! the container, and further commands in a running one through `pod-shim exec`.

mod action;
mod cgroups;
mod container;
pub(super) mod enter;
mod health;
mod http;
mod log;
mod mounts;
mod pod;
mod program;
mod reaper;
mod record;
mod run;
mod stage;
mod sweep;
mod talker;
mod tree;
mod view;

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, Stdio};

use super::folder::PodFolder;
use super::plan::PodPlan;

pub use sweep::sweep;
pub use view::find_view;

/// The first argument that makes the program a shim.
pub const WORD: &str = "pod-shim";
/// The form of `plan.json` that this shim reads.
pub const PLAN_VERSION: u32 = 1;

/// What the shim says by its own exit code when it has not run the pod.
pub const REFUSED: u8 = 3;

/// This very program, also after its file was replaced.
pub fn program() -> PathBuf {
    PathBuf::from("/proc/self/exe")
}

/// Starts the shim of a pod whose plan is in its folder. It has nothing of this process: no environment, no descriptors, and
/// soon a session of its own. Who drops the child need not wait for it: the runtime does.
pub fn start(program: &Path, folder: &PodFolder) -> io::Result<tokio::process::Child> {
    let complaints = OpenOptions::new()
        .create(true)
        .append(true)
        .mode(0o600)
        .open(folder.complaints())?;
    let mut command = tokio::process::Command::new(program);
    command
        .arg0("basalt")
        .args([WORD, "run"])
        .arg(std::path::absolute(folder.path())?)
        .env_clear()
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(complaints.try_clone()?)
        .stderr(complaints)
        .kill_on_drop(false);
    command.spawn()
}

/// The command line behind [`WORD`].
pub fn main(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    drop_inherited();
    let arguments: Vec<OsString> = arguments.collect();
    let words: Vec<&str> = arguments.iter().filter_map(|word| word.to_str()).collect();
    if words.len() != arguments.len() {
        return usage();
    }
    match words.as_slice() {
        [view::WORD] => view::main(),
        ["run", folder] => run_pod(PodFolder::at(PathBuf::from(folder))),
        ["container", folder, name] => stage::main(&PodFolder::at(PathBuf::from(folder)), name),
        ["exec", folder, container, pid, started, flags, command @ ..] => {
            let Some(entry) = enter::Entry::read(container, pid, started, flags) else {
                return usage();
            };
            enter::main(&PodFolder::at(PathBuf::from(folder)), entry, command)
        }
        _ => usage(),
    }
}

/// Closes what came with this process beside the three usual descriptors. The server opens its files so that they do not come,
/// but whoever started the server may have left some open.
fn drop_inherited() {
    let open = std::fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let numbers: Vec<i32> = open
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|number| *number > 2)
        .collect();
    for number in numbers {
        // One of them was the list itself, which is closed by now.
        let _ = nix::unistd::close(number);
    }
}

fn usage() -> ExitCode {
    eprintln!("usage: pod-shim run FOLDER (it is started by the server, not by hand)");
    ExitCode::from(2)
}

/// The shim itself.
fn run_pod(folder: PodFolder) -> ExitCode {
    match pod::main(folder) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("pod-shim: {error}");
            ExitCode::from(REFUSED)
        }
    }
}

/// What is to be run.
fn read_plan(folder: &PodFolder) -> io::Result<PodPlan> {
    let path = folder.plan();
    let about = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
    let text = std::fs::read(&path).map_err(about)?;
    let plan: PodPlan = serde_json::from_slice(&text).map_err(|error| about(error.into()))?;
    if plan.version != PLAN_VERSION {
        let what = format!(
            "the plan has version {}, this program knows {PLAN_VERSION}",
            plan.version
        );
        return Err(about(io::Error::new(io::ErrorKind::Unsupported, what)));
    }
    Ok(plan)
}
