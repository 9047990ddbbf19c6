//! Field selectors: `spec.nodeName=n1,status.phase!=Failed`.

use super::{CompactStringMap, SelectorError};

/// One comparison of a field selector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldTerm {
    /// Path of the field.
    pub path: String,
    /// Whether the value must be equal (or else different).
    pub equal: bool,
    /// The value to compare with.
    pub value: String,
}

/// A field selector: all terms must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSelector {
    /// The terms, in the order given.
    pub terms: Vec<FieldTerm>,
}

const METADATA: [&str; 2] = ["metadata.name", "metadata.namespace"];
const EVENT: &[&str] = &[
    "involvedObject.apiVersion",
    "involvedObject.fieldPath",
    "involvedObject.kind",
    "involvedObject.name",
    "involvedObject.namespace",
    "involvedObject.resourceVersion",
    "involvedObject.uid",
    "reason",
    "reportingComponent",
    "source",
    "type",
];
const POD: &[&str] = &[
    "spec.hostNetwork",
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.schedulerName",
    "spec.serviceAccountName",
    "status.nominatedNodeName",
    "status.phase",
    "status.podIP",
];

/// Which paths besides name and namespace a stored resource (`pods`, `queues.scheduling.volcano.sh`) can be selected by.
pub(super) fn supported(resource: &str) -> &'static [&'static str] {
    match resource {
        "pods" => POD,
        "events" | "events.events.k8s.io" => EVENT,
        "secrets" => &["type"],
        "nodes" => &["spec.unschedulable"],
        "namespaces" => &["status.phase"],
        _ => &[],
    }
}

impl FieldSelector {
    /// Reads the text form of the `fieldSelector` query parameter.
    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        let mut terms = Vec::new();
        for part in split(text) {
            if part.is_empty() {
                continue;
            }
            terms
                .push(term(part).ok_or_else(|| {
                    SelectorError(format!("invalid selector: '{text}'; can't understand '{part}'"))
                })??);
        }
        Ok(Self { terms })
    }

    /// Refuses paths that the resource cannot be selected by, and turns aliases into the stored paths.
    /// `selectable` are the `selectableFields` paths of a custom resource, without the leading dot.
    pub fn for_resource(mut self, resource: &str, selectable: &[&str]) -> Result<Self, SelectorError> {
        let event = resource == "events" || resource == "events.events.k8s.io";
        for term in &mut self.terms {
            if event {
                if let Some(rest) = term.path.strip_prefix("regarding.") {
                    term.path = format!("involvedObject.{rest}");
                } else if term.path == "reportingController" {
                    "reportingComponent".clone_into(&mut term.path);
                }
            }
            let path = term.path.as_str();
            let known = METADATA.contains(&path) || supported(resource).contains(&path) || selectable.contains(&path);
            if !known {
                return Err(SelectorError(format!("field label not supported: {path}")));
            }
            if matches!(path, "spec.unschedulable" | "spec.hostNetwork") && term.value == "false" {
                // An absent field is `false`, and facets leave it out.
                term.value.clear();
            }
        }
        Ok(self)
    }

    /// Whether the selector selects everything.
    pub fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }

    /// The name that `metadata.name=NAME` asks for, if any: a list can then be a get.
    pub fn required_name(&self) -> Option<&str> {
        let term = self.terms.iter().find(|term| term.equal && term.path == METADATA[0])?;
        Some(&term.value)
    }

    /// Whether an object with this namespace, name and fields satisfies every term.
    /// A field that is absent counts as empty.
    pub fn matches(&self, namespace: &str, name: &str, fields: &CompactStringMap) -> bool {
        self.terms.iter().all(|term| {
            let have = match term.path.as_str() {
                "metadata.name" => name,
                "metadata.namespace" => namespace,
                path => fields.get(path).unwrap_or_default(),
            };
            (have == term.value) == term.equal
        })
    }
}

/// Splits at commas that are not escaped.
fn split(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut start = 0;
    let mut escaped = false;
    for (position, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b',' => {
                parts.push(&text[start..position]);
                start = position + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

fn term(part: &str) -> Option<Result<FieldTerm, SelectorError>> {
    let position = part.find("!=").into_iter().chain(part.find('=')).min()?;
    let (path, rest) = part.split_at(position);
    let (equal, value) = if let Some(value) = rest.strip_prefix("!=") {
        (false, value)
    } else {
        (
            true,
            rest.strip_prefix("==")
                .or_else(|| rest.strip_prefix('='))
                .unwrap_or(rest),
        )
    };
    Some(unescape(value).map(|value| FieldTerm {
        path: path.to_owned(),
        equal,
        value,
    }))
}

fn unescape(text: &str) -> Result<String, SelectorError> {
    let mut value = String::with_capacity(text.len());
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => match letters.next() {
                Some(next @ ('\\' | ',' | '=')) => value.push(next),
                other => {
                    let sequence: String = std::iter::once('\\').chain(other).collect();
                    return Err(SelectorError(format!(
                        "invalid field selector: invalid escape sequence: {sequence}"
                    )));
                }
            },
            ',' | '=' => {
                let message = format!(
                    "invalid field selector: unescaped character in value: {}",
                    letter as u32
                );
                return Err(SelectorError(message));
            }
            other => value.push(other),
        }
    }
    Ok(value)
}
