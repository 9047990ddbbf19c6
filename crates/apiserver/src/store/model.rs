//! The words of the store: keys, objects, writes, events and errors.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use basalt_apimachinery::selector::CompactStringMap;
use bytes::{Buf, Bytes};

/// A point in the store's one history. Every write gets its own; they only grow.
pub type Revision = u64;

/// The revision of a store that nothing was written to yet. Not 0: on the wire "0" means "any".
pub const FIRST_REVISION: Revision = 1;

/// Where an object lives. Ordered by resource, namespace, name.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// `pods`, or with its group: `queues.scheduling.volcano.sh`.
    pub resource: Arc<str>,
    /// Empty for cluster-scoped resources.
    pub namespace: Arc<str>,
    /// The object's name.
    pub name: Arc<str>,
}

impl Key {
    /// A key from its three parts.
    pub fn new(resource: impl Into<Arc<str>>, namespace: impl Into<Arc<str>>, name: impl Into<Arc<str>>) -> Self {
        Self {
            resource: resource.into(),
            namespace: namespace.into(),
            name: name.into(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.resource.len() + self.namespace.len() + self.name.len()
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.namespace.is_empty() {
            write!(f, "{}/{}", self.resource, self.name)
        } else {
            write!(f, "{}/{}/{}", self.resource, self.namespace, self.name)
        }
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// What selectors look at, taken out of the body once, by [`Indexer`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facets {
    /// Label pairs.
    pub labels: CompactStringMap,
    /// Field pairs (`spec.nodeName`).
    pub fields: CompactStringMap,
}

impl Facets {
    /// The value of a label.
    pub fn label(&self, key: &str) -> Option<&str> {
        self.labels.get(key)
    }

    /// The value of a field.
    pub fn field(&self, path: &str) -> Option<&str> {
        self.fields.get(path)
    }
}

/// Computes the facets of a body. It runs before the revision is known, so it must not look at
/// `metadata.resourceVersion`; it must be a pure function of the rest.
pub type Indexer = fn(&Key, &[u8]) -> Facets;

/// The place of an object in the tables that the store keeps by place: all its versions have the same.
/// It is given at creation and given again after deletion, so it means nothing to anybody else.
pub(super) type Row = u32;

/// One version of one object.
#[derive(Clone, Debug)]
pub struct Object {
    /// Where it lives.
    pub key: Key,
    /// When it was written.
    pub revision: Revision,
    /// The complete JSON, `metadata.resourceVersion` included.
    pub body: Bytes,
    /// What selectors look at.
    pub facets: Facets,
    pub(super) row: Row,
}

impl PartialEq for Object {
    fn eq(&self, other: &Self) -> bool {
        self.revision == other.revision
            && self.key == other.key
            && self.body == other.body
            && self.facets == other.facets
    }
}

impl Eq for Object {}

/// The digits of the largest revision.
const DIGITS: usize = 20;

/// A body with a hole, into which the store writes the digits of the new revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Draft {
    /// The hole is as wide as it can have to be, and filled with zeros.
    bytes: Vec<u8>,
    /// Where the hole ends.
    hole: usize,
}

impl Draft {
    /// `before`: up to and including the opening quote of `resourceVersion`'s value; `after`: from its closing quote on.
    pub fn new(before: &[u8], after: &[u8]) -> Self {
        let hole = before.len() + DIGITS;
        let mut bytes = Vec::with_capacity(hole + after.len());
        bytes.extend_from_slice(before);
        bytes.extend_from_slice(&[b'0'; DIGITS]);
        bytes.extend_from_slice(after);
        Self { bytes, hole }
    }

    /// What comes after the revision, to be appended to; what [`Draft::new`] was given stays.
    pub fn after(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// As it will be, with another revision.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The body with its revision. The hole is closed from the left, for that part is short.
    pub(crate) fn seal(self, revision: Revision) -> Bytes {
        let Self { bytes, hole } = self;
        // A buffer that has grown may be much too large to be kept.
        let mut bytes = if bytes.capacity() - bytes.len() > bytes.len() / 8 {
            Box::from(&*bytes)
        } else {
            bytes.into_boxed_slice()
        };
        let mut at = hole;
        let mut rest = revision;
        while at > 0 {
            at -= 1;
            if let Some(digit) = bytes.get_mut(at) {
                *digit = b'0' + (rest % 10) as u8;
            }
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        let spare = at.saturating_sub(hole.saturating_sub(DIGITS));
        bytes.copy_within(..at - spare, spare);
        let mut body = Bytes::from(bytes);
        body.advance(spare);
        body
    }
}

/// What a write demands of the current state of its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// Nothing. (A delete still needs something to delete.)
    Any,
    /// The key holds nothing.
    Absent,
    /// The key holds some object.
    Present,
    /// The key holds exactly this version.
    Revision(Revision),
}

impl Expect {
    /// Whether `found` (the revision that the key holds, if any) is what is expected.
    pub fn holds(self, found: Option<Revision>) -> bool {
        match self {
            Self::Any => true,
            Self::Absent => found.is_none(),
            Self::Present => found.is_some(),
            Self::Revision(revision) => found == Some(revision),
        }
    }
}

/// One step of a transaction. Steps see the effects of the steps before them.
#[derive(Clone, Debug)]
pub enum Write {
    /// Creates or replaces.
    Put {
        /// Where.
        key: Key,
        /// On what condition.
        expect: Expect,
        /// The new body.
        draft: Draft,
    },
    /// Removes.
    Delete {
        /// Where.
        key: Key,
        /// On what condition; beyond it, there must be something to delete.
        expect: Expect,
        /// The final state, for the DELETED event.
        last: Draft,
    },
    /// Changes nothing, but the transaction happens only if the condition holds.
    Check {
        /// Where.
        key: Key,
        /// The condition.
        expect: Expect,
    },
}

impl Write {
    /// The key that this step is about.
    pub fn key(&self) -> &Key {
        match self {
            Self::Put { key, .. } | Self::Delete { key, .. } | Self::Check { key, .. } => key,
        }
    }
}

/// A transaction that is durable.
#[derive(Clone, Debug)]
pub struct Commit {
    /// The revision at which it was complete: that of its last write.
    pub revision: Revision,
    /// One per step, in order. Put: the new object; Delete: the final state; Check: what the key
    /// held, or revision 0 and an empty body where it held nothing.
    pub objects: Vec<Arc<Object>>,
}

/// What happened to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// There was none before.
    Added,
    /// It replaced `previous`.
    Modified,
    /// It is gone; `object` is its final state.
    Deleted,
}

/// One change, as watchers see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// What happened.
    pub kind: EventKind,
    /// The new version (Deleted: the final state, at the revision of the deletion).
    pub object: Arc<Object>,
    /// The version before. Always there for Modified and Deleted.
    pub previous: Option<Arc<Object>>,
    /// The revision of this change, unique to it.
    pub revision: Revision,
    /// The revision at which the transaction of this change was complete.
    pub complete: Revision,
}

/// All objects asked for, as they were at one revision, in key order.
#[derive(Clone, Debug, Default)]
pub struct Listing {
    /// The revision: watching after it misses nothing and repeats nothing.
    pub revision: Revision,
    /// The objects.
    pub objects: Vec<Arc<Object>>,
}

/// The history that was asked for is no longer kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("revision {requested} has been compacted; the oldest that can be asked for is {oldest}")]
pub struct Compacted {
    /// What was asked for.
    pub requested: Revision,
    /// The oldest revision from which history is complete.
    pub oldest: Revision,
}

/// Why a transaction did not happen.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CommitError {
    /// A condition did not hold; nothing was changed.
    #[error("{key}: expected {expect:?}, found {}", match found { Some(revision) => format!("revision {revision}"), None => "nothing".to_owned() })]
    Conflict {
        /// Whose condition.
        key: Key,
        /// The condition.
        expect: Expect,
        /// What the key holds.
        found: Option<Revision>,
    },
    /// The transaction is larger than the store takes; nothing was changed.
    #[error("a transaction of {bytes} bytes is over the limit of {max}")]
    TooLarge {
        /// Its size.
        bytes: usize,
        /// The limit.
        max: usize,
    },
    /// The store has been closed; nothing was changed.
    #[error("the store is closed")]
    Closed,
    /// The disk failed while this or an earlier transaction was written. It is not visible now;
    /// whether it is there after a restart depends on what reached the disk. Until then the store
    /// answers reads from what is known to be durable and refuses every write.
    #[error("the store cannot write to its disk: {0}")]
    Io(Arc<str>),
}

/// Why a store could not be opened. The folder is left as it was.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process (or another store in this one) has it open.
    #[error("{} is in use by {}", path.display(), match pid { Some(pid) => format!("process {pid}"), None => "another process".to_owned() })]
    Locked {
        /// The folder.
        path: PathBuf,
        /// Who wrote itself into the lock file.
        pid: Option<u32>,
    },
    /// It is not empty and not a store.
    #[error("{} is not a Basalt store: {why}", path.display())]
    Foreign {
        /// The folder.
        path: PathBuf,
        /// What gave it away.
        why: String,
    },
    /// It was written by another version of Basalt, in a format that this one does not know.
    #[error("{} has store format {found}; this version of Basalt knows format {known} only", path.display())]
    Version {
        /// The folder.
        path: PathBuf,
        /// Its format.
        found: String,
        /// Ours.
        known: u32,
    },
    /// Its contents contradict themselves.
    #[error("the store in {} is damaged: {what}", path.display())]
    Corrupt {
        /// The folder.
        path: PathBuf,
        /// What was found.
        what: String,
    },
    /// The file system refused.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What it said.
        source: std::io::Error,
    },
}
