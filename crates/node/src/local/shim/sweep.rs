//! After a shim that was killed: what is left of its pod.

use std::fs;
use std::io;
use std::thread;
use std::time::{Duration, Instant};

use super::cgroups::Cgroups;
use super::tree::kill_all;
use crate::local::folder::PodFolder;
use crate::local::plan::PodPlan;
use crate::local::process::{self, Stat};
use crate::local::state::{Now, PodState, ProcessId};

/// The kernel takes processes away at once, unless they hang in it.
const PATIENCE: Duration = Duration::from_secs(10);

/// Kills whatever is left of a pod whose shim does not run any more, and removes its cgroups. Blocks until nothing is left.
pub fn sweep(folder: &PodFolder) -> io::Result<()> {
    let plan = super::read_plan(folder)?;
    let leaders = fs::read(folder.state())
        .ok()
        .and_then(|text| serde_json::from_slice::<PodState>(&text).ok())
        .map(leaders)
        .unwrap_or_default();
    let cgroups = Cgroups::of_pod(&plan.isolation.cgroups);
    let until = Instant::now() + PATIENCE;
    loop {
        cgroups.kill();
        let left = left(&plan, &leaders)?;
        if left.is_empty() && cgroups.members().is_empty() {
            return cgroups.remove(PATIENCE);
        }
        kill_all(&left);
        if Instant::now() >= until {
            let what = format!("processes of pod {} do not go: {left:?}", plan.uid);
            return Err(io::Error::new(io::ErrorKind::TimedOut, what));
        }
        thread::sleep(Duration::from_millis(2));
    }
}

/// First processes of the containers that ran; what ran before the machine was started anew has gone.
fn leaders(state: PodState) -> Vec<ProcessId> {
    let boot = process::boot().ok();
    let process = |now| match now {
        Now::Running { process, .. } => Some(process),
        _ => None,
    };
    state
        .containers
        .into_values()
        .filter_map(|container| process(container.now))
        .filter(|leader| boot.as_ref() == Some(&leader.boot))
        .collect()
}

/// Members of the containers' sessions, and who has the pod's files mounted.
fn left(plan: &PodPlan, leaders: &[ProcessId]) -> io::Result<Vec<u32>> {
    let all = Stat::all()?;
    // The number of a session is free again only when its last member has gone: a leader that began at another time leads another.
    let sessions: Vec<&ProcessId> = leaders
        .iter()
        .filter(|leader| {
            all.iter()
                .all(|stat| stat.pid != leader.pid || stat.started == leader.started)
        })
        .collect();
    let member = |stat: &Stat| {
        let leads = |leader: &&ProcessId| leader.pid == stat.session && stat.started >= leader.started;
        sessions.iter().any(leads)
    };
    let mark = format!("/{}/", plan.uid);
    let own = std::process::id();
    let ours = |stat: &&Stat| stat.pid != own && stat.lives() && (member(stat) || sees(stat.pid, &mark));
    Ok(all.iter().filter(ours).map(|stat| stat.pid).collect())
}

/// Whether a process has something mounted from the folder of a pod (the fourth field: what of the file system it is).
fn sees(pid: u32, mark: &str) -> bool {
    let text = fs::read_to_string(format!("/proc/{pid}/mountinfo")).unwrap_or_default();
    text.lines()
        .filter_map(|line| line.split(' ').nth(3))
        .any(|root| root.contains(mark))
}
