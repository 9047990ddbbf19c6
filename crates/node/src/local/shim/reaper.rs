//! Waits for every process below the shim: containers, and orphans that fell to it.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, ExitStatus};

use rustix::process::{WaitOptions, wait};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{Notify, oneshot};

/// The only one that waits, so that no exit is lost.
#[derive(Debug, Default)]
pub(super) struct Reaper {
    /// Who wants to know about whom.
    waiting: RefCell<HashMap<u32, oneshot::Sender<ExitStatus>>>,
    /// Whether the kernel says that nothing is below the shim.
    alone: Cell<bool>,
    /// Rung whenever something ended.
    changed: Notify,
}

/// How a process will have ended.
pub(super) type Exit = oneshot::Receiver<ExitStatus>;

impl Reaper {
    /// The bell that must be there before the first child.
    pub(super) fn bell() -> io::Result<Signal> {
        signal(SignalKind::child())
    }

    /// Starts a process and promises to tell its end.
    pub(super) fn spawn(&self, command: &mut Command) -> io::Result<(u32, Exit)> {
        let child = command.spawn()?;
        let (sender, exit) = oneshot::channel();
        self.alone.set(false);
        self.waiting.borrow_mut().insert(child.id(), sender);
        Ok((child.id(), exit))
    }

    /// Serves for ever.
    pub(super) async fn serve(&self, mut bell: Signal) {
        loop {
            self.reap();
            if bell.recv().await.is_none() {
                return;
            }
        }
    }

    /// Takes all that has ended.
    pub(super) fn reap(&self) {
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) => {
                    let exit = ExitStatus::from_raw(status.as_raw());
                    let told = self
                        .waiting
                        .borrow_mut()
                        .remove(&pid.as_raw_nonzero().get().unsigned_abs());
                    if let Some(sender) = told {
                        // Nobody may want to know any more.
                        let _ = sender.send(exit);
                    }
                }
                Ok(None) => break,
                Err(error) => {
                    self.alone.set(error == rustix::io::Errno::CHILD);
                    break;
                }
            }
        }
        self.changed.notify_waiters();
    }

    /// Whether nothing at all is below the shim.
    pub(super) fn alone(&self) -> bool {
        self.reap();
        self.alone.get()
    }

    /// Comes back when something ended.
    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }
}
