//! The table of rules: each has an id, a sentence, and one function.

use serde_json::Value;

use crate::decision::{Refusal, Verdict};
use crate::read::text;
use crate::request::{Operation, Request, View};

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
pub(crate) struct Case<'a> {
    pub(crate) request: &'a Request<'a>,
    pub(crate) view: &'a dyn View,
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
            "" => text(self.object, "/metadata/generateName"),
            name => name,
        };
        match self.request.namespace {
            "" => format!("{kind} {name}"),
            namespace => format!("{kind} {namespace}/{name}"),
        }
    }
}

/// Adds one clause for each way in which the rule is broken.
pub(crate) type Check = fn(&Case<'_>, &mut Vec<String>);

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

/// Runs the rules that apply; all broken ones speak, the first names the refusal.
pub(crate) fn judge(tables: &[&'static [Rule]], case: &Case<'_>) -> Verdict {
    let mut first: Option<&Rule> = None;
    let mut clauses = Vec::new();
    for rule in tables
        .iter()
        .copied()
        .flatten()
        .filter(|rule| rule.operations.contains(&case.request.operation))
    {
        let before = clauses.len();
        (rule.check)(case, &mut clauses);
        if clauses.len() > before {
            first = first.or(Some(rule));
        }
    }
    let Some(rule) = first else { return Verdict::Allow };
    Verdict::Refuse(Refusal {
        rule: rule.id,
        code: rule.class.code(),
        reason: rule.class.reason(),
        message: clauses.join("; "),
    })
}
