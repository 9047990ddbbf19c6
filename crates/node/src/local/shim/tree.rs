//! Who belongs to a container, and how all of them are ended.

use std::collections::HashMap;
use std::fs;
use std::time::Duration;

use basalt_api::backoff::Backoff;
use rustix::process::Signal;
use tokio::time::{Instant, sleep_until};

use super::cgroups::Cgroups;
use super::reaper::Reaper;
use crate::local::process::{self, Stat};

/// Delays until processes that are still there are killed again.
const KILL_AGAIN: Backoff = Backoff::new(Duration::from_millis(1), Duration::from_millis(100));

/// All processes of one run of a container.
#[derive(Debug)]
pub(super) struct Tree {
    cgroups: Cgroups,
    /// The first process, leader of its session.
    leader: u32,
    /// Its mount namespace, if it has one of its own.
    view: Option<String>,
}

impl Tree {
    /// Of this first process, while it lives.
    pub(super) fn of(cgroups: Cgroups, leader: u32) -> Self {
        let own = namespace("self");
        let view = namespace(&leader.to_string()).filter(|view| Some(view) != own.as_ref());
        Self { cgroups, leader, view }
    }

    /// Who is left. With cgroups the kernel knows; else it is who came from the shim and has the container's session or view.
    fn members(&self) -> Vec<u32> {
        if self.cgroups.any() {
            return self.cgroups.members();
        }
        let all = Stat::all().unwrap_or_default();
        let below = descendants(&all, std::process::id());
        all.iter()
            .filter(|stat| stat.lives())
            .filter(|stat| {
                let seen = self.view.is_some() && namespace(&stat.pid.to_string()) == self.view;
                seen || (stat.session == self.leader && below.contains(&stat.pid))
            })
            .map(|stat| stat.pid)
            .collect()
    }

    /// Whether nothing is left; cheap where nothing ever was.
    pub(super) fn gone(&self, reaper: &Reaper) -> bool {
        // Who is not below the shim was started by the server, for `exec`: it is in the cgroups, or else it has the view.
        if reaper.alone() && (self.cgroups.any() || self.view.is_none()) {
            return self.cgroups.empty();
        }
        self.members().is_empty()
    }

    /// Comes back when nothing is left, or the time has come.
    pub(super) async fn wait_gone(&self, reaper: &Reaper, until: Instant) {
        while !self.gone(reaper) && Instant::now() < until {
            let again = until.min(Instant::now() + Duration::from_millis(50));
            tokio::select! {
                () = reaper.changed() => {}
                () = sleep_until(again) => {}
            }
        }
    }

    /// Kills until nothing is left.
    pub(super) async fn kill(&self, reaper: &Reaper) {
        let mut backoff = KILL_AGAIN;
        while !self.gone(reaper) {
            if self.cgroups.any() {
                self.cgroups.kill();
            } else {
                kill_all(&self.members());
            }
            let again = Instant::now() + backoff.next_delay();
            tokio::select! {
                () = reaper.changed() => {}
                () = sleep_until(again) => {}
            }
        }
    }
}

/// Kills everything below the shim until nothing is left: orphans that belong to no container any more.
pub(super) async fn kill_below(reaper: &Reaper) {
    let mut backoff = KILL_AGAIN;
    while !reaper.alone() {
        let all = Stat::all().unwrap_or_default();
        kill_all(&descendants(&all, std::process::id()));
        let again = Instant::now() + backoff.next_delay();
        tokio::select! {
            () = reaper.changed() => {}
            () = sleep_until(again) => {}
        }
    }
}

/// Stopped first, so that none gets away by forking while the others are killed.
pub(super) fn kill_all(pids: &[u32]) {
    for signal in [Signal::STOP, Signal::KILL] {
        for pid in pids {
            if let Err(error) = process::kill(*pid, signal) {
                eprintln!("cannot kill {pid}: {error}");
            }
        }
    }
}

/// The mount namespace of a process.
pub(super) fn namespace(pid: &str) -> Option<String> {
    let link = fs::read_link(format!("/proc/{pid}/ns/mnt")).ok()?;
    Some(link.to_str()?.to_owned())
}

/// All below a process.
pub(super) fn descendants(all: &[Stat], root: u32) -> Vec<u32> {
    let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
    for stat in all {
        children.entry(stat.parent).or_default().push(stat.pid);
    }
    let mut found = Vec::new();
    let mut open = children.remove(&root).unwrap_or_default();
    while let Some(pid) = open.pop() {
        found.push(pid);
        open.extend(children.remove(&pid).unwrap_or_default());
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descendants_of_descendants_are_found() {
        let stat = |(pid, parent)| Stat {
            pid,
            condition: 'S',
            parent,
            session: 1,
            started: 0,
        };
        let check = |parents: &[(u32, u32)], root, expected: &[u32]| {
            let all: Vec<Stat> = parents.iter().copied().map(stat).collect();
            let mut found = descendants(&all, root);
            found.sort_unstable();
            assert_eq!(found, expected);
        };
        check(&[], 1, &[]);
        check(&[(2, 1), (3, 2), (4, 3), (5, 1), (6, 9)], 1, &[2, 3, 4, 5]);
        check(&[(2, 1), (3, 2), (4, 3), (5, 1), (6, 9)], 2, &[3, 4]);
        check(&[(2, 2)], 2, &[2]);
    }
}
