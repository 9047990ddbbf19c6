//! Admission of every kind: request and view in, decision out; pure.
//!
//! [`admit`] fills in defaults, then judges the result by a table of [`Rule`]s. The same function
//! answers inside the embedded API server and behind a webhook. An update is judged with defaults
//! filled into both the new and the stored object, so re-applying a manifest changes nothing.

#![cfg_attr(not(test), warn(clippy::disallowed_methods, clippy::disallowed_types))]

mod command;
mod decision;
mod delivery;
mod job;
mod pod;
mod podgroup;
mod quantities;
mod queue;
mod read;
mod request;
mod review;
mod rule;
mod view;

pub use decision::{AccessReview, Decision, Refusal, Verdict};
pub use request::{Operation, Request, Settings, User};
pub use review::{Review, ReviewError, Stage};
pub use rule::{Class, Rule};
pub use view::{View, lone_pod_queue};

use basalt_api::names;
use serde_json::Value;

use rule::Case;

/// The kinds that have rules or defaults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Command,
    Job,
    Pod,
    PodGroup,
    Queue,
}

impl Kind {
    fn of(group: &str, resource: &str) -> Option<Self> {
        match (group, resource) {
            ("", "pods") => Some(Self::Pod),
            (names::BATCH_GROUP, "jobs") => Some(Self::Job),
            (names::BUS_GROUP, "commands") => Some(Self::Command),
            (names::SCHEDULING_GROUP, "podgroups") => Some(Self::PodGroup),
            (names::SCHEDULING_GROUP, "queues") => Some(Self::Queue),
            _ => None,
        }
    }

    fn rules(self) -> &'static [&'static [Rule]] {
        match self {
            Self::Command => &[command::RULES],
            Self::Job => &[job::RULES, delivery::RULES],
            Self::Pod => &[pod::RULES, delivery::RULES],
            Self::PodGroup => &[podgroup::RULES, delivery::RULES],
            Self::Queue => &[queue::RULES, queue::DELETE_RULES],
        }
    }

    /// What holds for an object that is being deleted. It is only being let go: finalizers must come off whatever
    /// the other rules say.
    fn end_rules(self) -> &'static [&'static [Rule]] {
        match self {
            Self::Queue => &[queue::END_RULES],
            Self::Command | Self::Job | Self::Pod | Self::PodGroup => &[],
        }
    }

    /// The rules that a case is judged by. It is the stored object that says whether it is being deleted, not what
    /// comes; and while it is, what it asks for cannot change past the other rules.
    fn tables(self, case: &Case<'_>) -> &'static [&'static [Rule]] {
        let leaving = |old: &&Value| !basalt_api::json::value_or_null(old, "/metadata/deletionTimestamp").is_null();
        match case
            .old
            .filter(leaving)
            .filter(|_| case.request.operation == Operation::Update)
        {
            Some(old) if old.get("spec") == case.object.get("spec") => self.end_rules(),
            Some(_) if self == Self::Queue => &[queue::END_RULES, queue::RULES],
            _ => self.rules(),
        }
    }

    fn default(self, request: &Request<'_>, view: &View, settings: &Settings, object: &mut Value) {
        match self {
            Self::Job => job::default(request, settings, object),
            Self::PodGroup => podgroup::default(request, view, object),
            Self::Queue => queue::default(request, object),
            Self::Command | Self::Pod => {}
        }
    }
}

/// Every rule there is, each once.
pub fn rules() -> impl Iterator<Item = &'static Rule> {
    [
        command::RULES,
        delivery::RULES,
        job::RULES,
        pod::RULES,
        podgroup::RULES,
        queue::RULES,
        queue::DELETE_RULES,
        queue::END_RULES,
    ]
    .into_iter()
    .flatten()
}

/// Whether [`admit`] has anything to say about a resource: lets a caller skip the rest early.
pub fn concerns(group: &str, resource: &str) -> bool {
    Kind::of(group, resource).is_some()
}

/// Decides one request.
pub fn admit(request: &Request<'_>, view: &View, settings: &Settings) -> Decision {
    let allow = Decision {
        object: None,
        warnings: Vec::new(),
        verdict: Verdict::Allow,
    };
    let Some(kind) = Kind::of(request.group, request.resource) else {
        return allow;
    };
    // Subresources (status, binding) have one writer each and nothing to default.
    let Some(came) = request.object.or(request.old).filter(|_| request.subresource.is_none()) else {
        return allow;
    };
    let filled = |object: &Value| {
        let mut object = object.clone();
        if request.operation != Operation::Delete {
            kind.default(request, view, settings, &mut object);
        }
        object
    };
    let object = filled(came);
    let old = request.old.map(filled);
    let case = Case {
        request,
        view,
        settings,
        object: &object,
        old: old.as_ref(),
    };
    let verdict = rule::judge(kind.tables(&case), &case);
    let warnings = match kind {
        Kind::Queue if request.operation != Operation::Delete => queue::warnings(&case),
        Kind::Job => job::warnings(&case),
        _ => Vec::new(),
    };
    let changed = request.operation != Operation::Delete && &object != came;
    Decision {
        object: changed.then_some(object),
        warnings,
        verdict,
    }
}
