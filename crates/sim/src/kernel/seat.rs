//! An actor's place: its watches, and how far each has come.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::Who;
use crate::actor::Actor;
use crate::api::{Api, Key, Kind, Report};
use crate::whim::Whim;

/// How far a watch has come in the journal of its kind.
#[derive(Clone, Copy, Debug)]
struct Watch {
    kind: Kind,
    /// Reports that were told.
    seen: usize,
    /// Whether there was a list since the actor started.
    listed: bool,
    /// Steps for which it tells nothing.
    asleep: usize,
}

/// How often, in percent, a watch falls asleep when it has told something …
const SLEEPS: u64 = 10;
/// … and for how many steps at most.
const SLEEP_MAX: usize = 100;

/// An actor and its watches.
pub(super) struct Seat {
    pub(super) who: Who,
    pub(super) actor: Box<dyn Actor>,
    watches: Vec<Watch>,
    /// It has nothing to do until something happens.
    pub(super) idle: bool,
    /// It is dead, and nobody has started it again yet.
    pub(super) down: bool,
}

impl Seat {
    pub(super) fn new(who: Who, actor: Box<dyn Actor>) -> Self {
        let watches = actor.watches().iter().map(|kind| Watch {
            kind: *kind,
            seen: 0,
            listed: false,
            asleep: 0,
        });
        Self {
            who,
            watches: watches.collect(),
            actor,
            idle: false,
            down: false,
        }
    }

    /// The actor died; another takes its place, and will not see less than it had seen.
    pub(super) fn reborn(&mut self, actor: Box<dyn Actor>) {
        self.actor = actor;
        (self.idle, self.down) = (false, false);
        for watch in &mut self.watches {
            watch.listed = false;
        }
    }

    /// Whether it has a whole view: nobody acts before.
    pub(super) fn is_complete(&self) -> bool {
        self.watches.iter().all(|watch| watch.listed)
    }

    /// A step has passed.
    pub(super) fn pass(&mut self) {
        for watch in &mut self.watches {
            watch.asleep = watch.asleep.saturating_sub(1);
        }
    }

    /// Wakes all watches; whether there was one to wake.
    pub(super) fn wake(&mut self) -> bool {
        let slept = self.watches.iter().any(|watch| watch.asleep > 0);
        for watch in &mut self.watches {
            watch.asleep = 0;
        }
        slept
    }

    /// The kinds of which there is more to tell now.
    pub(super) fn behind(&self, api: &Api) -> impl Iterator<Item = Kind> {
        let watches = self.watches.iter();
        watches
            .filter(|watch| watch.asleep == 0 && (!watch.listed || watch.seen < api.journal(watch.kind).len()))
            .map(|watch| watch.kind)
    }

    /// Tells something of a kind: the list that a watch begins with, else some of the next reports. Returns how far it is.
    pub(super) fn tell(&mut self, kind: Kind, api: &Api, now: Timestamp, whim: &mut Whim) -> usize {
        self.idle = false;
        let Some(watch) = self.watches.iter_mut().find(|watch| watch.kind == kind) else {
            return 0;
        };
        let journal = api.journal(kind);
        let new = journal.len().saturating_sub(watch.seen);
        let least = usize::from(watch.listed);
        let newest = !watch.listed && self.actor.lists_the_newest();
        let upto = if whim.is_none() || newest {
            journal.len()
        } else {
            watch.seen + least + whim.below(new + 1 - least.min(new))
        };
        let upto = upto.min(journal.len());
        if watch.listed {
            for report in journal.get(watch.seen..upto).unwrap_or_default() {
                self.actor.take_in(report, now);
            }
        } else {
            let mut there: BTreeMap<&Key, &Report> = BTreeMap::new();
            for report in journal.get(..upto).unwrap_or_default() {
                if report.gone {
                    there.remove(&report.key);
                } else {
                    there.insert(&report.key, report);
                }
            }
            for report in there.into_values() {
                self.actor.take_in(report, now);
            }
            self.actor.listed(kind, now);
            watch.listed = true;
        }
        watch.seen = upto;
        if whim.yes(SLEEPS) {
            watch.asleep = whim.below(SLEEP_MAX);
        }
        upto
    }
}
