//! Processes that cannot be mistaken for others: number, start and boot.

use std::fs;
use std::io;
use std::sync::OnceLock;

use rustix::process::{Pid, Signal};

use super::state::ProcessId;

/// What `/proc/PID/stat` says that matters here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stat {
    /// Its number.
    pub pid: u32,
    /// `Z` and `X` are dead already.
    pub condition: char,
    /// Its parent.
    pub parent: u32,
    /// Its session.
    pub session: u32,
    /// Clock ticks after boot.
    pub started: u64,
}

impl Stat {
    /// Of this process.
    pub fn of(pid: u32) -> io::Result<Self> {
        let text = fs::read_to_string(format!("/proc/{pid}/stat"))?;
        Self::parse(&text)
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, format!("/proc/{pid}/stat: {text:?}")))
    }

    /// The name stands in brackets and may hold brackets and blanks itself: the rest begins after the last one.
    fn parse(text: &str) -> Option<Self> {
        let (before, after) = text.rsplit_once(')')?;
        let fields: Vec<&str> = after.split_ascii_whitespace().collect();
        Some(Self {
            pid: before.split_once(' ')?.0.parse().ok()?,
            condition: fields.first()?.chars().next()?,
            parent: fields.get(1)?.parse().ok()?,
            session: fields.get(3)?.parse().ok()?,
            started: fields.get(19)?.parse().ok()?,
        })
    }

    /// Whether it can still do anything.
    pub fn lives(&self) -> bool {
        !matches!(self.condition, 'Z' | 'X' | 'x')
    }

    /// All processes of the machine, as far as they can be read.
    pub fn all() -> io::Result<Vec<Self>> {
        Ok(fs::read_dir("/proc")?
            .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
            .filter_map(|pid| Self::of(pid).ok())
            .collect())
    }
}

/// Which boot this is.
pub fn boot() -> io::Result<String> {
    static BOOT: OnceLock<String> = OnceLock::new();
    if let Some(boot) = BOOT.get() {
        return Ok(boot.clone());
    }
    let read = fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
    Ok(BOOT.get_or_init(|| read.trim().to_owned()).clone())
}

impl ProcessId {
    /// The process that has this number now.
    pub fn of(pid: u32) -> io::Result<Self> {
        Ok(Self {
            pid,
            started: Stat::of(pid)?.started,
            boot: boot()?,
        })
    }

    /// Whether this very process still runs (one that has ended and was not yet waited for does not).
    pub fn alive(&self) -> bool {
        boot().is_ok_and(|boot| boot == self.boot)
            && Stat::of(self.pid).is_ok_and(|stat| stat.started == self.started && stat.lives())
    }

    /// Sends a signal to this very process; one that has gone is no error.
    pub fn signal(&self, signal: Signal) -> io::Result<()> {
        if self.alive() { kill(self.pid, signal) } else { Ok(()) }
    }
}

/// Sends a signal; a process that has gone is no error.
pub(crate) fn kill(pid: u32, signal: Signal) -> io::Result<()> {
    let Some(pid) = number(pid) else { return Ok(()) };
    match rustix::process::kill_process(pid, signal) {
        Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Sends a signal to a whole process group; one that has gone is no error.
pub(crate) fn kill_group(leader: u32, signal: Signal) -> io::Result<()> {
    let Some(leader) = number(leader) else { return Ok(()) };
    match rustix::process::kill_process_group(leader, signal) {
        Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// As the system calls want it.
fn number(pid: u32) -> Option<Pid> {
    Pid::from_raw(i32::try_from(pid).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stat_is_read_whatever_the_name() {
        let check = |text: &str, expected: Option<(u32, char, u32, u32, u64)>| {
            let found =
                Stat::parse(text).map(|stat| (stat.pid, stat.condition, stat.parent, stat.session, stat.started));
            assert_eq!(found, expected, "{text:?}");
        };
        let rest = "S 7 8 9 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 4242 100 200";
        check(&format!("12 (sleep) {rest}"), Some((12, 'S', 7, 9, 4242)));
        check(&format!("12 (a) b (c)) {rest}"), Some((12, 'S', 7, 9, 4242)));
        check("12 (short) S 7", None);
        check("", None);
    }

    #[test]
    fn a_process_is_not_mistaken_for_another() {
        let own = ProcessId::of(std::process::id()).unwrap();
        assert!(own.alive());
        let later = ProcessId {
            started: own.started + 1,
            ..own.clone()
        };
        assert!(!later.alive());
        let boot = ProcessId {
            boot: "another".to_owned(),
            ..own
        };
        assert!(!boot.alive());
    }
}
