//! `pod-shim exec`: a further command inside a running container, with its view, cgroups, user and environment.

use std::convert::Infallible;
use std::fs::File;
use std::io;
use std::os::fd::AsFd as _;
use std::process::ExitCode;

use nix::sched::{CloneFlags, setns};

use super::cgroups::Cgroups;
use super::program;
use super::stage::{self, Refusal};
use crate::local::folder::PodFolder;
use crate::local::plan::View;
use crate::local::process::Stat;

/// What a command is told on its command line, in this order, before the command itself.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry<'a> {
    /// The container.
    pub(crate) container: &'a str,
    /// Its first process.
    pub(crate) pid: u32,
    /// When that began.
    pub(crate) started: u64,
    /// Whether standard input is a terminal.
    pub(crate) terminal: bool,
    /// Whether it dies with who started it.
    pub(crate) kept: bool,
}

impl Entry<'_> {
    /// As words of a command line.
    pub(crate) fn words(&self) -> [String; 4] {
        [
            self.container.to_owned(),
            self.pid.to_string(),
            self.started.to_string(),
            format!(
                "{}{}",
                if self.terminal { 't' } else { '-' },
                if self.kept { 'k' } else { '-' }
            ),
        ]
    }

    /// Back from words.
    pub(crate) fn read<'a>(container: &'a str, pid: &str, started: &str, flags: &str) -> Option<Entry<'a>> {
        Some(Entry {
            container,
            pid: pid.parse().ok()?,
            started: started.parse().ok()?,
            terminal: flags.contains('t'),
            kept: flags.contains('k'),
        })
    }
}

/// Becomes the command; why not is said on standard error and by the exit code.
pub(crate) fn main(folder: &PodFolder, entry: Entry<'_>, command: &[&str]) -> ExitCode {
    match enter(folder, entry, command) {
        Ok(never) => match never {},
        Err(refusal) => {
            eprintln!("{}", refusal.message);
            ExitCode::from(refusal.code)
        }
    }
}

fn enter(folder: &PodFolder, entry: Entry<'_>, command: &[&str]) -> Result<Infallible, Refusal> {
    let keeper = entry.kept.then(rustix::process::getppid).flatten();
    let (plan, mut container) = stage::planned(folder, entry.container)?;
    rustix::process::setsid().map_err(|error| Refusal::setup("session", error))?;
    if entry.terminal {
        rustix::process::ioctl_tiocsctty(io::stdin().as_fd()).map_err(|error| Refusal::setup("terminal", error))?;
        if !container.env.iter().any(|(name, _)| name == "TERM") {
            container.env.push(("TERM".to_owned(), "xterm".to_owned()));
        }
    }
    Cgroups::of_container(&plan.isolation.cgroups, entry.container)
        .join()
        .map_err(|error| Refusal::setup("cgroup", error))?;
    program::bound();
    join_view(plan.isolation.view, entry)?;
    let command: Vec<String> = command.iter().map(|word| (*word).to_owned()).collect();
    let place = stage::place(folder, &plan, &container);
    program::become_it(&container, &command, &place, plan.isolation.view, keeper)
}

/// Moves into the container's namespaces; they are opened first, so that they are surely those of the process that is meant.
fn join_view(view: View, entry: Entry<'_>) -> Result<(), Refusal> {
    let wanted: &[(&str, CloneFlags)] = match view {
        View::Shared => &[],
        View::Namespaces => &[("mnt", CloneFlags::CLONE_NEWNS), ("uts", CloneFlags::CLONE_NEWUTS)],
        View::UserNamespaces => &[
            ("user", CloneFlags::CLONE_NEWUSER),
            ("mnt", CloneFlags::CLONE_NEWNS),
            ("uts", CloneFlags::CLONE_NEWUTS),
        ],
    };
    let gone = || Refusal::setup("container", format_args!("{} does not run", entry.container));
    let mut opened = Vec::new();
    for (name, flag) in wanted {
        let file = File::open(format!("/proc/{}/ns/{name}", entry.pid)).map_err(|_| gone())?;
        opened.push((file, *flag));
    }
    if !Stat::of(entry.pid).is_ok_and(|stat| stat.started == entry.started && stat.lives()) {
        return Err(gone());
    }
    for (file, flag) in opened {
        setns(file, flag).map_err(|error| Refusal::setup("namespaces", error))?;
    }
    Ok(())
}
