//! The table of rules: each has an id, a sentence, and one function.

use std::collections::BTreeSet;

use basalt_api::json::string_at;
use basalt_api::names;
use serde_json::Value;

use crate::decision::{AccessReview, Refusal, Verdict};
use crate::read::cut;
use crate::request::{Operation, Request, Settings};
use crate::view::View;

/// What a broken rule says about the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// The object is wrong in itself: 422 Invalid.
    Invalid,
    /// The object is right, but not here or not now: 403 Forbidden.
    Forbidden,
}

impl Class {
    fn code(self) -> u16 {
        match self {
            Self::Invalid => 422,
            Self::Forbidden => 403,
        }
    }

    fn reason(self) -> &'static str {
        match self {
            Self::Invalid => "Invalid",
            Self::Forbidden => "Forbidden",
        }
    }
}

/// One request with its defaults filled in, as rules see it.
#[derive(Clone, Copy)]
pub(crate) struct Case<'a> {
    pub(crate) request: &'a Request<'a>,
    pub(crate) view: &'a View,
    pub(crate) settings: &'a Settings,
    /// The new object; on delete the stored one.
    pub(crate) object: &'a Value,
    /// The stored object, with the same defaults filled in (update, delete).
    pub(crate) old: Option<&'a Value>,
}

impl Case<'_> {
    /// The object in words, as every message begins.
    pub(crate) fn subject(&self) -> String {
        let kind = match self.request.resource {
            "commands" => "Command",
            "jobs" => "Job",
            "podgroups" => "PodGroup",
            "pods" => "Pod",
            _ => "Queue",
        };
        let name = match self.request.name {
            "" => string_at(self.object, "/metadata/generateName"),
            name => name,
        };
        match self.request.namespace {
            "" => format!("{kind} {name}"),
            namespace => format!("{kind} {namespace}/{name}"),
        }
    }
}

/// How a rule is checked.
pub(crate) enum Check {
    /// Adds one clause for each way in which the rule is broken.
    Judge(Judge),
    /// What the user must be allowed to do as well, where the request needs it.
    Ask(Ask),
}

pub(crate) type Judge = fn(&Case<'_>, &mut Vec<String>);
pub(crate) type Ask = fn(&Case<'_>) -> Option<Access>;

/// A right that a request needs besides the one to make it.
pub(crate) struct Access {
    pub(crate) verb: &'static str,
    pub(crate) queue: String,
    pub(crate) denied: String,
}

/// One rule of admission.
pub struct Rule {
    /// Stable id: `kind/what`.
    pub id: &'static str,
    /// What must hold, in one sentence.
    pub about: &'static str,
    /// Status of a refusal.
    pub class: Class,
    /// When it applies.
    pub operations: &'static [Operation],
    pub(crate) check: Check,
}

impl Rule {
    /// A rule about what is written, on create and update: 422.
    pub(crate) const fn invalid(id: &'static str, about: &'static str, check: Judge) -> Self {
        Self {
            id,
            about,
            class: Class::Invalid,
            operations: &[Operation::Create, Operation::Update],
            check: Check::Judge(check),
        }
    }

    /// A rule about whether it may be here and now, on create and update: 403.
    pub(crate) const fn forbidden(id: &'static str, about: &'static str, check: Judge) -> Self {
        Self {
            class: Class::Forbidden,
            ..Self::invalid(id, about, check)
        }
    }

    /// A right that is needed besides, on create and update: 403.
    pub(crate) const fn access(id: &'static str, about: &'static str, ask: Ask) -> Self {
        Self {
            id,
            about,
            class: Class::Forbidden,
            operations: &[Operation::Create, Operation::Update],
            check: Check::Ask(ask),
        }
    }

    /// The same rule at other operations.
    pub(crate) const fn on(self, operations: &'static [Operation]) -> Self {
        Self { operations, ..self }
    }
}

/// Clauses of one refusal; more are counted. An object can have ten thousand faults.
const CLAUSES_MAX: usize = 20;
/// Characters of one clause: it quotes what came, which can be megabytes.
const CLAUSE_MAX: usize = 600;

/// How one rule is broken by this request. What is wrong in itself, and was so in the same words before, is
/// not this request's doing: what was stored before a rule existed can still be edited elsewhere.
fn broken(rule: &Rule, case: &Case<'_>) -> Vec<String> {
    let mut clauses = Vec::new();
    let Check::Judge(check) = rule.check else {
        return clauses;
    };
    check(case, &mut clauses);
    if let Some(old) = case.old.filter(|_| rule.class == Class::Invalid && !clauses.is_empty()) {
        let mut before = Vec::new();
        check(&Case { object: old, ..*case }, &mut before);
        let before: BTreeSet<String> = before.into_iter().collect();
        clauses.retain(|clause| !before.contains(clause));
    }
    clauses
}

/// Runs the rules that apply; all broken ones speak, the first names the refusal. Rights are asked
/// for only where everything else is well.
pub(crate) fn judge(tables: &[&'static [Rule]], case: &Case<'_>) -> Verdict {
    let applies = |rule: &&'static Rule| rule.operations.contains(&case.request.operation);
    let rules = || tables.iter().copied().flatten().filter(applies);
    let mut first: Option<&Rule> = None;
    let mut clauses = Vec::new();
    for rule in rules() {
        let more = broken(rule, case);
        if !more.is_empty() {
            first = first.or(Some(rule));
        }
        clauses.extend(more);
    }
    let Some(rule) = first else {
        let asked = rules().find_map(|rule| match rule.check {
            Check::Ask(ask) => ask(case).map(|access| review(rule, access)),
            Check::Judge(_) => None,
        });
        return asked.map_or(Verdict::Allow, Verdict::Review);
    };
    Verdict::Refuse(Refusal {
        rule: rule.id,
        code: rule.class.code(),
        reason: rule.class.reason(),
        message: message(&clauses),
    })
}

fn message(clauses: &[String]) -> String {
    let shown = clauses.iter().take(CLAUSES_MAX);
    let mut parts: Vec<String> = shown.map(|clause| cut(clause, CLAUSE_MAX)).collect();
    if let Some(more @ 1..) = clauses.len().checked_sub(CLAUSES_MAX) {
        parts.push(format!("and {more} more faults"));
    }
    parts.join("; ")
}

fn review(rule: &'static Rule, access: Access) -> AccessReview {
    AccessReview {
        rule: rule.id,
        verb: access.verb.to_owned(),
        group: names::SCHEDULING_GROUP.to_owned(),
        resource: "queues".to_owned(),
        namespace: String::new(),
        name: access.queue,
        denied: access.denied,
    }
}
