//! When a loop may decide: never while another leads, and after a change of hands only on a view that is newer than that.

use std::time::Duration;

use crate::event_loop::Frame;
use crate::leader_election::write_fence::{Standing, Tenure};

/// Who may not decide looks up so often.
const IDLE: Duration = Duration::from_secs(1);

/// Why a loop ended, if nothing failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// It does not lead any more: what it believes of its own doings is worth nothing, and a new one has to begin.
    Deposed,
    /// It was told to, and what was under way is done.
    Retired,
    /// It was told to, and something that was under way was not answered in time: it may still arrive.
    CutOff,
}

/// What a loop does in this round.
#[derive(Debug, PartialEq, Eq)]
pub enum Turn {
    /// Look on.
    Wait,
    /// Decide.
    Decide,
    /// Bring to an end what is under way.
    Retire,
    /// End at once.
    Deposed,
}

/// The part of a loop in the election.
#[derive(Debug)]
pub struct Lead {
    tenure: Tenure,
    leads: bool,
}

impl Ended {
    /// What became of a loop that was told to end, and of which all that was under way has ended, or not.
    pub fn told(all_ended: bool) -> Self {
        if all_ended { Self::Retired } else { Self::CutOff }
    }
}

impl Lead {
    /// The lead of a loop that is about to begin: what it comes to know is newer than this.
    pub fn new(tenure: &Tenure) -> Self {
        let tenure = tenure.clone();
        let leads = tenure.standing() == Standing::Leads;
        if leads {
            tenure.bind();
        }
        Self { tenure, leads }
    }

    /// What to do now.
    pub fn turn<M: Send + 'static>(&mut self, frame: &mut Frame<M>) -> Turn {
        match self.tenure.standing() {
            Standing::Retires => return Turn::Retire,
            Standing::StandsBy if self.leads => return Turn::Deposed,
            Standing::StandsBy => return Turn::Wait,
            Standing::Leads if !self.leads => {
                // The watches may lag behind the last writes of who led before: everything is listed anew.
                self.leads = true;
                self.tenure.bind();
                frame.renew();
            }
            Standing::Leads => {}
        }
        if frame.is_complete() { Turn::Decide } else { Turn::Wait }
    }

    /// How long the loop may sleep: so long if it may decide.
    pub fn patience<M: Send + 'static>(&self, frame: &Frame<M>, wish: impl FnOnce() -> Duration) -> Duration {
        if self.leads && frame.is_complete() {
            wish()
        } else {
            IDLE
        }
    }
}
