//! `cargo xtask rights`: the roles of the chart against what an API server noted down while everything was exercised.
//!
//! A request of ours that was refused is a right that is missing; a right that no request needed is one too many. Where
//! one process has several parts, its requests say which of them asks, and each is held against that part's own roles.

mod roles;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use roles::Roles;

/// A right that the suite need not exercise: whose (how the account's name ends), group, resource, verb, and why it is
/// needed all the same.
type Unseen = (&'static str, &'static str, &'static str, &'static str, &'static str);
/// All of these. What stands here is tested elsewhere.
const UNSEEN: &[Unseen] = &[
    (
        "scheduler",
        "",
        "pods",
        "delete",
        "a gang of which only a part could be bound is let go: it::short",
    ),
    (
        "",
        "",
        "pods",
        "get",
        "a bind that met a conflict is looked into: runtime::write::binder",
    ),
    (
        "",
        "",
        "secrets",
        "update",
        "certificates are renewed after weeks: webhook::secret",
    ),
];
/// How the names of our parts begin.
const OURS: &str = "basalt-";
/// Findings of one kind that are printed.
const SHOWN_MAX: usize = 50;

/// One thing that may be done: to what, where, how.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Atom {
    group: String,
    /// With its subresource: `pods/binding`.
    resource: String,
    verb: String,
    /// None: in all namespaces, and to objects without one.
    namespace: Option<String>,
    /// None: to objects of any name.
    name: Option<String>,
}

impl fmt::Display for Atom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.verb, self.resource)?;
        if !self.group.is_empty() {
            write!(f, ".{}", self.group)?;
        }
        if let Some(name) = &self.name {
            write!(f, " {name}")?;
        }
        if let Some(namespace) = &self.namespace {
            write!(f, " in {namespace}")?;
        }
        Ok(())
    }
}

impl Atom {
    /// Whether this right allows that request.
    fn allows(&self, request: &Self) -> bool {
        self.group == request.group
            && self.resource == request.resource
            && self.verb == request.verb
            && (self.namespace.is_none() || self.namespace == request.namespace)
            && (self.name.is_none() || self.name == request.name)
    }
}

/// A line of an audit log, as far as rights are concerned.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Event {
    #[serde(default)]
    verb: String,
    user: User,
    object_ref: Option<ObjectRef>,
    #[serde(rename = "requestURI", default)]
    uri: String,
    #[serde(default)]
    user_agent: String,
    response_status: Option<ResponseStatus>,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct User {
    #[serde(default)]
    username: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ObjectRef {
    api_group: String,
    resource: String,
    subresource: String,
    namespace: String,
    name: String,
}

#[derive(Deserialize)]
struct ResponseStatus {
    #[serde(default)]
    code: u16,
}

impl Event {
    /// Whether the request failed for want of a right; one that a webhook or a quota refuses had the right.
    fn is_denied(&self) -> bool {
        match self.annotations.get("authorization.k8s.io/decision") {
            Some(decision) => decision == "forbid",
            None => self.response_status.as_ref().is_some_and(|status| status.code == 403),
        }
    }

    /// Whose rights count: those of the account, or of the part that it says to be.
    fn account(&self, by_part: bool) -> String {
        let account = &self.user.username;
        let part = self.user_agent.split_once('/').map_or("", |(part, _)| part);
        match account.rsplit_once(':').filter(|_| by_part && part.starts_with(OURS)) {
            Some((namespace, _)) => format!("{namespace}:{part}"),
            None => account.clone(),
        }
    }

    /// What was asked for; none for paths that are no objects.
    fn atom(&self) -> Option<Atom> {
        let object = self.object_ref.as_ref()?;
        let filled = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let resource = match object.subresource.as_str() {
            "" => object.resource.clone(),
            subresource => format!("{}/{subresource}", object.resource),
        };
        Some(Atom {
            group: object.api_group.clone(),
            resource,
            verb: self.verb.clone(),
            namespace: filled(&object.namespace),
            name: filled(&object.name),
        })
    }
}

/// What the comparison brought.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Report {
    /// Requests that were refused, by account, and how often.
    missing: BTreeMap<(String, String), usize>,
    /// Rights that were never used, by account.
    unused: BTreeSet<(String, String)>,
    /// Requests of our accounts.
    requests: usize,
    /// Rights of our accounts.
    rights: usize,
}

impl Report {
    fn findings(&self) -> Vec<String> {
        let missing = self
            .missing
            .iter()
            .map(|((account, what), count)| format!("missing right: {account}: {what} (refused {count} times)"));
        let unused = self
            .unused
            .iter()
            .map(|(account, what)| format!("unused right: {account}: {what}"));
        missing.take(SHOWN_MAX).chain(unused.take(SHOWN_MAX)).collect()
    }
}

/// The comparison, fed line by line.
struct Comparison {
    roles: Roles,
    /// Requests count for the part that they say to come from.
    by_part: bool,
    unseen: &'static [Unseen],
    used: BTreeMap<String, BTreeSet<Atom>>,
    report: Report,
}

impl Comparison {
    fn new(roles: &str, by_part: bool, unseen: &'static [Unseen]) -> Result<Self> {
        let roles = Roles::read(roles)?;
        let rights = roles.accounts().map(|(_, atoms)| atoms.len()).sum();
        if rights == 0 {
            bail!("the roles grant nothing to any service account");
        }
        let report = Report {
            rights,
            ..Report::default()
        };
        Ok(Self {
            roles,
            by_part,
            unseen,
            used: BTreeMap::new(),
            report,
        })
    }

    fn take_in(&mut self, line: &str) -> Result<()> {
        if line.trim().is_empty() {
            return Ok(());
        }
        let event: Event = serde_json::from_str(line).context("not an audit event")?;
        let account = event.account(self.by_part);
        let Some(atoms) = self.roles.of(&account) else {
            return Ok(()); // somebody else
        };
        self.report.requests += 1;
        let atom = event.atom();
        let is_granted = |request: &Atom| atoms.iter().any(|right| right.allows(request));
        let granted = atom.as_ref().is_some_and(is_granted);
        if event.is_denied() && granted {
            return Ok(()); // right after its start an API server knows no roles yet, and refuses everybody everything
        }
        // What was allowed may have been so by a role of another part.
        let is_lent = self.by_part && !granted && atom.is_some();
        if event.is_denied() || is_lent {
            let what = atom.map_or_else(|| format!("{} {}", event.verb, event.uri), |atom| atom.to_string());
            *self.report.missing.entry((account, what)).or_default() += 1;
            return Ok(());
        }
        let Some(request) = atom else { return Ok(()) };
        let used = self.used.entry(account).or_default();
        for right in atoms.iter().filter(|right| right.allows(&request)) {
            if !used.contains(right) {
                used.insert(right.clone());
            }
        }
        Ok(())
    }

    fn end(mut self) -> Result<Report> {
        if self.report.requests == 0 {
            bail!("the audit logs have no request of any service account that the roles name");
        }
        for (account, atoms) in self.roles.accounts() {
            let used = self.used.get(account);
            let is_used = |atom: &Atom| used.is_some_and(|used| used.contains(atom));
            for atom in atoms {
                // A watch begins with a list, or with one in the stream, as the server offers.
                let watch = Atom {
                    verb: "watch".to_owned(),
                    ..atom.clone()
                };
                let this = (&*atom.group, &*atom.resource, &*atom.verb);
                let mut unseen = self.unseen.iter();
                let excused = unseen.any(|(whose, group, resource, verb, _)| {
                    account.ends_with(whose) && (*group, *resource, *verb) == this
                });
                let begins = atom.verb == "list" && is_used(&watch);
                if !(is_used(atom) || begins || excused) {
                    self.report.unused.insert((account.to_owned(), atom.to_string()));
                }
            }
        }
        Ok(self.report)
    }
}

/// Compares the roles in a rendered chart with audit logs; any finding is a failure.
pub(crate) fn run(roles: &Path, by_part: bool, audits: &[PathBuf]) -> Result<()> {
    let text = std::fs::read_to_string(roles).with_context(|| format!("reading {}", roles.display()))?;
    let mut comparison = Comparison::new(&text, by_part, UNSEEN).with_context(|| roles.display().to_string())?;
    for path in audits {
        let file = std::fs::File::open(path).with_context(|| format!("reading {}", path.display()))?;
        for (number, line) in BufReader::new(file).lines().enumerate() {
            let line = line.with_context(|| format!("reading {}", path.display()))?;
            let place = || format!("{}:{}", path.display(), number + 1);
            comparison.take_in(&line).with_context(place)?;
        }
    }
    let report = comparison.end()?;
    let whose = if by_part { "parts" } else { "accounts" };
    eprintln!("{} requests of our {whose}, {} rights", report.requests, report.rights);
    crate::report(Ok(report.findings()))
}

/// Reads `--roles FILE [--by-part] --audit FILE...`; a folder stands for the files in it.
pub(crate) fn main(words: &[&str]) -> Result<()> {
    let (mut roles, mut audits, mut flag, mut by_part) = (None, Vec::new(), "", false);
    for &word in words {
        match (word, flag) {
            ("--roles" | "--audit", _) => flag = word,
            ("--by-part", _) => by_part = true,
            (file, "--roles") if roles.is_none() => roles = Some(PathBuf::from(file)),
            (file, "--audit") => audits.extend(files(Path::new(file))?),
            _ => bail!("{word:?} is not expected: cargo xtask rights --roles FILE --audit FILE..."),
        }
    }
    let roles = roles.context("--roles FILE is missing: the output of `helm template`")?;
    if audits.is_empty() {
        bail!("--audit FILE... is missing: audit logs of kube-apiserver, at level Metadata");
    }
    run(&roles, by_part, &audits)
}

fn files(path: &Path) -> Result<Vec<PathBuf>> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let entries = std::fs::read_dir(path).with_context(|| format!("reading {}", path.display()))?;
    let mut files: Vec<PathBuf> = entries.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests;
