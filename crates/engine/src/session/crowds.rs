//! Crowds: jobs that wait alike. Whatever is found out about one of them holds for all, so a cycle looks at one and not
//! at a hundred thousand: the first in line stands for the rest, until it is served and the next one stands up.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

use basalt_api::reason::Reason;
use rustc_hash::{FxHashMap, FxHashSet};
use slab::Slab;
use smallvec::SmallVec;

use super::State;
use crate::model::{ClassId, CrowdId, Id, JobId, NamespaceId, QueueId, Role};
use crate::resources::Amounts;

/// All that rules can look at in a job of which no pod has a place, but for its age and its name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Likeness {
    pub queue: QueueId,
    pub namespace: NamespaceId,
    /// Let in already, or waiting to be.
    pub let_in: bool,
    pub priority: i32,
    pub min_member: u32,
    pub roles: SmallVec<[Role; 1]>,
    pub min_resources: Option<Amounts>,
    pub quota_asks: Option<Box<Amounts>>,
    pub sla_ms: Option<i64>,
    /// Its pods in the order in which they are tried; equal ones in a row are counted.
    pub pods: SmallVec<[(Kin, u32); 1]>,
}

/// All that rules can look at in a pod that waits and is not tied to others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Kin {
    pub class: ClassId,
    pub role: u16,
    pub priority: i32,
    pub preempts: bool,
}

/// Where a job stands in its crowd: by age, then by name, as jobs that are alike are served.
type Rank = (i64, Arc<str>);

/// Jobs that wait alike.
#[derive(Clone, Debug)]
pub(crate) struct Crowd {
    likeness: Arc<Likeness>,
    members: BTreeMap<Rank, JobId>,
    /// As a job's: one more than the state's `eased` when nothing more could be done for it.
    pub failed_at: u64,
    /// As a job's: the state's `moves` when the reasons were worked out.
    pub counted_at: u64,
    /// Why it waits, as its members were told, or will be.
    told: Arc<[Reason]>,
    /// How many are not told yet …
    untold: usize,
    /// … and who was told last: those after it come next, and after the last one the first.
    told_last: Option<Rank>,
    /// Members that were told otherwise when they came; some may have left again.
    strays: Vec<JobId>,
}

impl Crowd {
    /// What its members have in common.
    pub(crate) fn likeness(&self) -> &Likeness {
        &self.likeness
    }

    /// How many they are.
    pub(crate) fn len(&self) -> usize {
        self.members.len()
    }

    /// All of them, the first in line first.
    pub(crate) fn members(&self) -> impl Iterator<Item = JobId> {
        self.members.values().copied()
    }

    /// Why they wait.
    pub(crate) fn told(&self) -> &Arc<[Reason]> {
        &self.told
    }

    /// Takes out up to so many members that are not told yet.
    fn listeners(&mut self, most: usize) -> Vec<JobId> {
        let strays = self.strays.len().saturating_sub(most);
        let mut listeners = self.strays.split_off(strays);
        let count = self.untold.min(most - listeners.len());
        let (after, until) = match &self.told_last {
            Some(last) => (Bound::Excluded(last.clone()), Bound::Included(last.clone())),
            None => (Bound::Unbounded, Bound::Excluded((i64::MIN, Arc::from("")))),
        };
        let rest = self.members.range((after, Bound::Unbounded));
        let ring = rest.chain(self.members.range((Bound::Unbounded, until)));
        let mut last = None;
        for (rank, &job) in ring.take(count) {
            listeners.push(job);
            last = Some(rank.clone());
        }
        self.told_last = last.or(self.told_last.take());
        self.untold = (self.untold - count).min(self.members.len());
        listeners
    }

    /// The earliest time of making after a time.
    pub(crate) fn made_after(&self, time_ms: i64) -> Option<i64> {
        let from = Bound::Included((time_ms.checked_add(1)?, Arc::from("")));
        let mut later = self.members.range((from, Bound::Unbounded));
        later.next().map(|(&(created_ms, _), _)| created_ms)
    }
}

/// All crowds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Crowds {
    by_likeness: FxHashMap<Arc<Likeness>, CrowdId>,
    slots: Slab<Crowd>,
    /// Those that have something to tell their members, in turn.
    tell: VecDeque<CrowdId>,
}

impl Crowds {
    /// A crowd, if it has members yet.
    pub(crate) fn get(&self, id: CrowdId) -> Option<&Crowd> {
        self.slots.get(id.index())
    }

    pub(crate) fn get_mut(&mut self, id: CrowdId) -> Option<&mut Crowd> {
        self.slots.get_mut(id.index())
    }

    /// All of them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Crowd> {
        self.slots.iter().map(|(_, crowd)| crowd)
    }

    /// The crowd of a likeness, made if needed.
    fn find(&mut self, likeness: Likeness, failed_at: u64, told: &Arc<[Reason]>) -> CrowdId {
        if let Some(&id) = self.by_likeness.get(&likeness) {
            return id;
        }
        let likeness = Arc::new(likeness);
        let slot = self.slots.insert(Crowd {
            likeness: likeness.clone(),
            members: BTreeMap::new(),
            failed_at,
            counted_at: 0,
            told: told.clone(),
            untold: 0,
            told_last: None,
            strays: Vec::new(),
        });
        let id = CrowdId::from_index(slot);
        self.by_likeness.insert(likeness, id);
        id
    }

    /// All members of a crowd are to know why they wait.
    pub(crate) fn tell(&mut self, id: CrowdId, reasons: &Arc<[Reason]>) {
        if let Some(crowd) = self.get_mut(id)
            && crowd.told != *reasons
        {
            crowd.told = reasons.clone();
            crowd.untold = crowd.members.len();
            self.tell.push_back(id);
        }
    }

    /// Up to so many groups that wait for other reasons than they were told, if they are still of the crowd.
    pub(crate) fn listeners(&mut self, most: usize) -> Vec<(JobId, CrowdId, Arc<[Reason]>)> {
        let mut all = Vec::new();
        while all.len() < most
            && let Some(&id) = self.tell.front()
        {
            let Some(crowd) = self.get_mut(id) else {
                self.tell.pop_front();
                continue;
            };
            let (listeners, told) = (crowd.listeners(most - all.len()), crowd.told.clone());
            if crowd.untold == 0 && crowd.strays.is_empty() {
                self.tell.pop_front();
            }
            all.extend(listeners.into_iter().map(|job| (job, id, told.clone())));
        }
        all
    }

    /// Takes a member out; the last one takes the crowd with it.
    fn take_out(&mut self, id: CrowdId, rank: &Rank) {
        let Some(crowd) = self.get_mut(id) else { return };
        crowd.members.remove(rank);
        if crowd.members.is_empty() {
            let likeness = crowd.likeness.clone();
            self.by_likeness.remove(&likeness);
            self.slots.remove(id.index());
        }
    }
}

impl State {
    fn rank(&self, job: JobId) -> Rank {
        (self.model.jobs[job].stood_since_ms, self.model.jobs.name(job).clone())
    }

    /// A job that waits for these reasons joins those that are like it. If they were told long ago, its word is newer.
    pub(crate) fn join_crowd(&mut self, job: JobId, likeness: Likeness, told: &Arc<[Reason]>) {
        let id = self.crowds.find(likeness, self.eased_before + 1, told);
        let counted_at = self.model.jobs[job].counted_at;
        if let Some(crowd) = self.crowds.get_mut(id)
            && crowd.counted_at < counted_at
        {
            crowd.counted_at = counted_at;
            self.crowds.tell(id, told);
        }
        let record = &mut self.model.jobs[job];
        record.crowd = id;
        record.stood_since_ms = record.created_ms;
        let rank = self.rank(job);
        if let Some(crowd) = self.crowds.get_mut(id) {
            crowd.members.insert(rank, job);
            // It may stand before some that are not told yet.
            crowd.untold += usize::from(crowd.untold > 0);
            if crowd.told != *told {
                crowd.strays.push(job);
                self.crowds.tell.push_back(id);
            }
        }
    }

    /// A job is not like others any more, or may not be: it is looked at for itself.
    pub(crate) fn single_out(&mut self, job: JobId) {
        let record = &mut self.model.jobs[job];
        let id = std::mem::replace(&mut record.crowd, CrowdId::NONE);
        if id.is_some() {
            record.failed_at = 0;
            self.unsettled.push(job);
            let rank = self.rank(job);
            self.crowds.take_out(id, &rank);
        }
    }

    /// The one of its crowd that comes after a job, which may have left already.
    pub(crate) fn next_alike(&self, id: CrowdId, job: JobId) -> Option<JobId> {
        let after = Bound::Excluded(self.rank(job));
        let mut rest = self.crowds.get(id)?.members.range((after, Bound::Unbounded));
        rest.next().map(|(_, &next)| next)
    }

    /// Every job is looked at for itself again.
    pub(crate) fn dissolve_crowds(&mut self) {
        for (_, crowd) in std::mem::take(&mut self.crowds).slots {
            self.dissolve(&crowd);
        }
    }

    fn dissolve(&mut self, crowd: &Crowd) {
        for job in crowd.members() {
            let record = &mut self.model.jobs[job];
            record.crowd = CrowdId::NONE;
            record.failed_at = 0;
            self.unsettled.push(job);
        }
    }

    /// Whether somebody waits whose numbers may be others now, or who was not told them yet.
    pub(crate) fn is_behind(&self) -> bool {
        let outdated = |job: &JobId| {
            let record = &self.model.jobs[*job];
            record.unsettled && !record.crowd.is_some() && record.counted_at < self.moves
        };
        !self.crowds.tell.is_empty()
            || self.crowds.iter().any(|crowd| crowd.counted_at < self.moves)
            || self.unsettled.iter().any(outdated)
    }

    /// Jobs whose numbers are to be worked out again join those that a cycle looks at: as many as make up so many pods.
    pub(crate) fn outdated(&mut self, jobs: &mut Vec<JobId>, pods: usize) -> FxHashSet<JobId> {
        let mut chosen = FxHashSet::default();
        if pods == 0 {
            return chosen;
        }
        let crowds = self.crowds.iter().filter(|crowd| crowd.counted_at < self.moves);
        let first = crowds.filter_map(|crowd| crowd.members().next());
        let outdated = |job: &JobId| self.model.jobs[*job].counted_at < self.moves;
        let single = self.unsettled.iter().copied().filter(outdated);
        let mut outdated: Vec<JobId> = first.chain(single).collect();
        outdated.sort_unstable();
        let next = outdated.partition_point(|&job| Some(job) <= self.recounted);
        outdated.rotate_left(next);
        let mut count = 0;
        for job in outdated {
            if count >= pods {
                break;
            }
            count += self.model.jobs[job].tasks.len().max(1);
            chosen.insert(job);
            self.recounted = Some(job);
        }
        jobs.extend(&chosen);
        jobs.sort_unstable();
        jobs.dedup();
        chosen
    }

    /// Crowds for which something may have changed: the first of each. In a first-in-first-out queue every job has a
    /// place of its own.
    pub(super) fn hopeful_crowds(&mut self) -> Vec<JobId> {
        let mut first = Vec::new();
        let is_hopeful = |(_, crowd): &(usize, &Crowd)| crowd.failed_at != self.eased + 1;
        let hopeful = self.crowds.slots.iter().filter(is_hopeful);
        for at in hopeful.map(|(at, _)| at).collect::<Vec<_>>() {
            let Some(crowd) = self.crowds.slots.get(at) else {
                continue;
            };
            if self.model.queues[crowd.likeness.queue].fifo {
                for job in crowd.members().collect::<Vec<_>>() {
                    self.single_out(job);
                }
            } else {
                first.extend(crowd.members().next());
            }
        }
        first
    }
}
