//! What is let in but does not run yet, and what runs beyond its minimum.
//!
//! A job's claims follow from its phase, its declared minimum and what it has. They are worked out when one of these is
//! settled (when a cycle opens, when the job's phase is set), never for all jobs, and they are put on the job's queue and
//! all queues above.

use crate::facts::Phase;
use crate::ledger::Ledger;
use crate::model::{Id, Job, JobId, Model};
use crate::resources::{Amounts, Columns, DimId, PODS};

/// A kind of claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    /// Let in, and still to come up to the declared minimum.
    Inqueue,
    /// Allocated beyond the declared minimum.
    Elastic,
    /// Declared by a job that has no pods yet.
    Expected,
    /// Promised to a job that is let in and has no pods yet: its namespace will use it.
    Promised,
}

/// One amount of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    kind: Kind,
    dim: DimId,
    amount: i64,
}

/// All claims of a job.
pub(crate) type Claims = Box<[Part]>;

/// The claims of all jobs, and their sums.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ClaimBook {
    by_job: Vec<Claims>,
    // By queue, every queue with all below it.
    pub(super) inqueue: Columns,
    pub(super) elastic: Columns,
    pub(super) expected: Columns,
    /// By namespace.
    pub(super) promised: Columns,
}

impl ClaimBook {
    pub(super) fn grow(&mut self, model: &Model) {
        let (queues, dims) = (model.queues.slots(), model.dims.count());
        self.by_job.resize_with(model.jobs.slots(), Claims::default);
        self.inqueue.reserve(queues, dims);
        self.elastic.reserve(queues, dims);
        self.expected.reserve(queues, dims);
        self.promised.reserve(model.namespaces.slots(), dims);
    }

    /// Puts a job's claims on the sums, or takes them off.
    pub(super) fn post(&mut self, model: &Model, job: JobId, sign: i64) {
        let ClaimBook {
            by_job,
            inqueue,
            elastic,
            expected,
            promised,
        } = self;
        let queue = model.jobs[job].queue;
        for part in &by_job[job.index()] {
            let column = match part.kind {
                Kind::Inqueue => &mut *inqueue,
                Kind::Elastic => &mut *elastic,
                Kind::Expected => &mut *expected,
                Kind::Promised => {
                    let namespace = model.jobs[job].namespace;
                    promised.shift_cell(namespace.index(), part.dim, part.amount * sign);
                    continue;
                }
            };
            for above in model.chain(queue) {
                column.shift_cell(above.index(), part.dim, part.amount * sign);
            }
        }
    }

    pub(super) fn clear(&mut self) {
        for columns in [
            &mut self.inqueue,
            &mut self.elastic,
            &mut self.expected,
            &mut self.promised,
        ] {
            columns.clear();
        }
    }

    /// Puts new claims in the place of a job's old ones, which are given back.
    pub(super) fn replace(&mut self, model: &Model, job: JobId, claims: Claims) -> Claims {
        self.post(model, job, -1);
        let old = std::mem::replace(&mut self.by_job[job.index()], claims);
        self.post(model, job, 1);
        old
    }
}

/// What a job claims as things stand.
fn claims_of(model: &Model, ledger: &Ledger, job: JobId) -> Claims {
    let record = &model.jobs[job];
    if !record.present || !record.queue.is_some() || record.phase == Phase::Completed {
        return Claims::default();
    }
    let mut parts = Vec::new();
    let allocated = ledger.job_allocated.row(job.index());
    let empty = Amounts::default();
    let minimum = record.min_resources.as_ref().unwrap_or(&empty);
    let counts = ledger.counts(job);
    let runs = record.phase == Phase::Running && counts.ready() >= record.min_member;
    if runs || record.phase == Phase::Inqueue {
        let gated = gated(model, record);
        for (dim, wanted) in minimum.iter() {
            let has = allocated.get(dim).unwrap_or(0);
            let gated = gated.get(dim).unwrap_or(0);
            push(&mut parts, Kind::Inqueue, dim, wanted - has - gated);
        }
    }
    for (dim, has) in allocated.iter() {
        let surplus = has - minimum.get(dim).unwrap_or(0);
        push(&mut parts, Kind::Elastic, dim, surplus);
    }
    if counts.total() == 0 {
        for (dim, wanted) in minimum.iter() {
            push(&mut parts, Kind::Expected, dim, wanted);
        }
        if record.phase == Phase::Inqueue && record.namespace.is_some() {
            let counted = record.quota_asks.as_deref().unwrap_or(minimum).iter();
            parts.extend(counted.filter(|&(_, amount)| amount > 0).map(|(dim, amount)| Part {
                kind: Kind::Promised,
                dim,
                amount,
            }));
        }
    }
    parts.into_boxed_slice()
}

fn push(parts: &mut Vec<Part>, kind: Kind, dim: DimId, amount: i64) {
    if amount > 0 && dim != PODS {
        parts.push(Part { kind, dim, amount });
    }
}

/// What the pods behind gates ask for: they do not come soon.
fn gated(model: &Model, job: &Job) -> Amounts {
    if job.odd_tasks == 0 {
        return Amounts::default();
    }
    let gated = job.tasks.iter().filter(|&&task| model.tasks[task].gated);
    Amounts::from_pairs(gated.flat_map(|&task| model.classes.request(model.tasks[task].class).iter()))
}

impl Ledger {
    /// Works out a job's claims again; the old ones are given back where they were others.
    pub(crate) fn claim(&mut self, model: &Model, job: JobId) -> Option<Claims> {
        let claims = claims_of(model, self, job);
        (claims != self.claims.by_job[job.index()]).then(|| self.claims.replace(model, job, claims))
    }

    /// Puts back claims that [`Ledger::claim`] gave back.
    pub(crate) fn unclaim(&mut self, model: &Model, job: JobId, before: Claims) {
        self.claims.replace(model, job, before);
    }

    /// What is let in and still to come, by queue with all below it.
    pub(crate) fn queue_inqueue(&self) -> &Columns {
        &self.claims.inqueue
    }

    /// What runs beyond its declared minimum, by queue with all below it.
    pub(crate) fn queue_elastic(&self) -> &Columns {
        &self.claims.elastic
    }

    /// What is promised to jobs without pods, by namespace.
    pub(crate) fn promised(&self) -> &Columns {
        &self.claims.promised
    }

    /// What jobs without pods declare, by queue with all below it.
    pub(crate) fn queue_expected(&self) -> &Columns {
        &self.claims.expected
    }
}
