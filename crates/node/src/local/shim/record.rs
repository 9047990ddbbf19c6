//! What has happened so far: in a file first, then on the socket.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;

use tokio::sync::Notify;

use crate::local::folder::PodFolder;
use crate::local::state::{ContainerState, Now, PodState};
use crate::local::talk::FromShim;

/// More things told than this are not kept for an agent that is away: the oldest go.
const TOLD_MAX: usize = 256;

/// The pod's state, and what the agent has not heard yet.
#[derive(Debug)]
pub(super) struct Record {
    folder: PodFolder,
    state: RefCell<PodState>,
    told: RefCell<VecDeque<FromShim>>,
    /// Whether the file lags behind because the disk refused it.
    unwritten: Cell<bool>,
    changed: Notify,
}

impl Record {
    /// Begins with this state, which is written at once: whoever finds it knows that the pod has been started.
    pub(super) fn begin(folder: PodFolder, state: PodState) -> io::Result<Self> {
        let record = Self {
            folder,
            state: RefCell::new(state),
            told: RefCell::default(),
            unwritten: Cell::new(false),
            changed: Notify::new(),
        };
        record.write()?;
        Ok(record)
    }

    /// Changes the state; the file is replaced before anybody can hear of it.
    pub(super) fn change(&self, change: impl FnOnce(&mut PodState)) {
        {
            let mut state = self.state.borrow_mut();
            let before = state.clone();
            change(&mut state);
            if *state == before {
                return;
            }
            state.sequence = state.sequence.saturating_add(1);
        }
        self.save();
        self.changed.notify_waiters();
    }

    /// Changes one container together with the next [`Self::change`], which is sure to follow at once.
    pub(super) fn container_soon(&self, name: &str, change: impl FnOnce(&mut ContainerState)) {
        if let Some(container) = self.state.borrow_mut().containers.get_mut(name) {
            change(container);
        }
    }

    /// Changes one container.
    pub(super) fn container(&self, name: &str, change: impl FnOnce(&mut ContainerState)) {
        self.change(|state| {
            if let Some(container) = state.containers.get_mut(name) {
                change(container);
            }
        });
    }

    /// Something that belongs into an event.
    pub(super) fn tell(&self, warning: bool, reason: &str, message: String) {
        let mut told = self.told.borrow_mut();
        if told.len() >= TOLD_MAX {
            told.pop_front();
        }
        told.push_back(FromShim::Told {
            warning,
            reason: reason.to_owned(),
            message,
        });
        self.changed.notify_waiters();
    }

    /// The oldest that was told and not sent.
    pub(super) fn next_told(&self) -> Option<FromShim> {
        self.told.borrow_mut().pop_front()
    }

    /// Puts back what could not be sent.
    pub(super) fn untold(&self, told: FromShim) {
        self.told.borrow_mut().push_front(told);
    }

    /// As it is now.
    pub(super) fn state(&self) -> PodState {
        self.state.borrow().clone()
    }

    /// The number of the last change.
    pub(super) fn sequence(&self) -> u64 {
        self.state.borrow().sequence
    }

    /// Comes back at the next change, or thing told.
    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Writes the file again if it lags behind; true when it does not any more.
    pub(super) fn catch_up(&self) -> bool {
        if self.unwritten.get() {
            self.save();
        }
        !self.unwritten.get()
    }

    fn save(&self) {
        match self.write() {
            Ok(()) => self.unwritten.set(false),
            Err(error) => {
                if !self.unwritten.replace(true) {
                    eprintln!("state: {error}; tried again until it can be written");
                }
            }
        }
    }

    fn write(&self) -> io::Result<()> {
        let text = serde_json::to_vec(&*self.state.borrow())?;
        let draft = self.folder.path().join("state.json.new");
        let mut file = OpenOptions::new()
            .create(true)
            .write(true)
            .truncate(true)
            .mode(0o600)
            .open(&draft)?;
        file.write_all(&text)?;
        fs::rename(&draft, self.folder.state())
    }
}

/// A container that has not begun.
pub(super) fn waiting(reason: &str) -> ContainerState {
    ContainerState {
        now: Now::Waiting {
            reason: reason.to_owned(),
            message: String::new(),
        },
        last: None,
        restarts: 0,
        ready: false,
        started: false,
    }
}
