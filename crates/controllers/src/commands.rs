//! Commands: orders to a queue or a job, carried out exactly once.
//!
//! The uid of a Command is recorded in the same write as its effect. After a crash at any point the next look either
//! finds no trace of it and does both again, or finds the record and only removes the Command.

use basalt_api::{Command, NamespacedName, ObjectRef, names};
use jiff::{SignedDuration, Timestamp};
use kube::Resource;

use crate::change::{Change, EventType, Outcome};
use crate::object;

/// Admission has seen the target; our own view of it may come later than the Command. After so long it is gone.
const GRACE: SignedDuration = SignedDuration::from_secs(5);

/// Whom a Command is for. Admission asks for the right to update that object by the same fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Addressee {
    /// A queue, by name.
    Queue(String),
    /// A Job in the Command's own namespace.
    Job(NamespacedName),
}

impl Addressee {
    /// Reads it from a Command; nothing for one that is for neither.
    pub(crate) fn of(command: &Command) -> Option<Self> {
        let target = command.spec.target.as_ref()?;
        let group = target.api_version.split_once('/').map(|(group, _)| group);
        match (group, target.kind.as_str()) {
            (Some(names::SCHEDULING_GROUP), "Queue") => Some(Self::Queue(target.name.clone())),
            (Some(names::BATCH_GROUP), "Job") => Some(Self::Job(NamespacedName::new(
                command.metadata.namespace.as_deref().unwrap_or_default(),
                &target.name,
            ))),
            _ => None,
        }
    }
}

enum Verdict<T> {
    Do(T),
    Wait(Timestamp),
    Drop {
        regarding: Option<(ObjectRef, String)>,
        message: String,
    },
}

/// The Commands that are to be carried out, in the order in which they were asked for, as `read` understands them; it says why
/// where it does not. Those that are not are removed, with a word.
pub(crate) fn heard<'a, K: Resource<DynamicType = ()>, T>(
    object: Option<&K>,
    commands: &[&'a Command],
    now: Timestamp,
    read: impl Fn(&Command) -> Result<T, String>,
    outcome: &mut Outcome,
) -> Vec<(&'a Command, T)> {
    let mut commands = commands.to_vec();
    commands.retain(|command| command.metadata.deletion_timestamp.is_none());
    commands.sort_by_key(|command| age(command));
    let mut accepted = Vec::new();
    for command in commands {
        match judge(object, command, now, &read) {
            Verdict::Do(order) => accepted.push((command, order)),
            Verdict::Wait(until) => outcome.wake(until),
            Verdict::Drop { regarding, message } => {
                outcome.changes.extend(regarding.map(|(regarding, uid)| Change::Event {
                    regarding,
                    uid,
                    reason: "CommandDropped".to_owned(),
                    message,
                    event_type: EventType::Warning,
                }));
                outcome.changes.extend(object::delete(command));
            }
        }
    }
    accepted
}

/// The oldest first; within a second, which is all that a time says, by what the store counted.
fn age(command: &Command) -> (Option<Timestamp>, u64, &str) {
    let meta = &command.metadata;
    let revision = meta
        .resource_version
        .as_deref()
        .and_then(|version| version.parse().ok());
    (
        meta.creation_timestamp.as_ref().map(|time| time.0),
        revision.unwrap_or_default(),
        meta.name.as_deref().unwrap_or_default(),
    )
}

fn judge<K: Resource<DynamicType = ()>, T>(
    object: Option<&K>,
    command: &Command,
    now: Timestamp,
    read: impl Fn(&Command) -> Result<T, String>,
) -> Verdict<T> {
    let noun = K::kind(&()).to_lowercase();
    let meta = &command.metadata;
    let (name, uid) = command
        .spec
        .target
        .as_ref()
        .map_or(("", ""), |target| (target.name.as_str(), target.uid.as_str()));
    let Some(found) = object.filter(|object| object::uid(*object) == Some(uid)) else {
        let created = meta
            .creation_timestamp
            .as_ref()
            .map_or(Timestamp::UNIX_EPOCH, |time| time.0);
        let until = created.saturating_add(GRACE).unwrap_or(now);
        if now < until {
            return Verdict::Wait(until);
        }
        let regarding = ObjectRef::of(command).zip(meta.uid.clone());
        let message = match object.and_then(object::uid) {
            Some(other) => format!(
                "{noun} {name} with uid {uid} does not exist any more, the one of that name has {other}: look again before steering it"
            ),
            None => format!("{noun} {name} does not exist"),
        };
        return Verdict::Drop { regarding, message };
    };
    let regarding = ObjectRef::of(found).zip(found.meta().uid.clone());
    let action = &command.spec.action;
    let of = |why: &str| {
        format!(
            "Command {}/{}: {why}",
            meta.namespace.as_deref().unwrap_or_default(),
            meta.name.as_deref().unwrap_or_default()
        )
    };
    if found.meta().deletion_timestamp.is_some() {
        let message = of(&format!("{action} came too late, {noun} {name} is being deleted"));
        return Verdict::Drop { regarding, message };
    }
    match read(command) {
        Ok(order) => Verdict::Do(order),
        Err(why) => Verdict::Drop {
            regarding,
            message: of(&why),
        },
    }
}
