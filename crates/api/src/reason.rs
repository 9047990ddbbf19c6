//! Why something waits: one type, with numbers, for the event, the condition, the command line and the page.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::quantity::Quantity;
use crate::wire::{unset, words};

/// Why a PodGroup waits.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["code"]))]
pub struct Reason {
    /// Which rule holds it back.
    pub code: Code,
    /// The queue that the rule is about.
    #[serde(skip_serializing_if = "unset")]
    pub queue: String,
    /// The resource that is short, `pods` for members of a gang, or the feature that is missing.
    #[serde(skip_serializing_if = "unset")]
    pub dimension: String,
    /// How much is needed.
    #[serde(skip_serializing_if = "unset")]
    pub need: Option<Quantity>,
    /// How much there is.
    #[serde(skip_serializing_if = "unset")]
    pub have: Option<Quantity>,
    /// Number of nodes by what speaks against them.
    #[schemars(range(min = 0))]
    #[serde(skip_serializing_if = "unset")]
    pub nodes: BTreeMap<String, i32>,
}

words! {
    /// The rule that holds something back.
    Code (free) {
        /// No set of nodes has room for the gang.
        NotEnoughResources = "NotEnoughResources",
        /// No node passes the filters: taints, affinity, ports, volumes.
        NoFittingNode = "NoFittingNode",
        /// Fewer pods exist than the gang needs.
        GangNotReady = "GangNotReady",
        /// Pods name a PodGroup that does not exist.
        PodGroupNotFound = "PodGroupNotFound",
        /// The queue does not exist; nothing is deleted because of that.
        QueueNotFound = "QueueNotFound",
        /// The queue is closed and takes no new work.
        QueueClosed = "QueueClosed",
        /// The queue has children, and only leaves hold work.
        QueueNotLeaf = "QueueNotLeaf",
        /// The queue stands under a missing parent, or in a cycle.
        QueueTreeBroken = "QueueTreeBroken",
        /// The queue asks for more than its parent has left, and is the youngest to do so.
        QueueOvercommitted = "QueueOvercommitted",
        /// The queue would pass its own upper limit.
        QueueOverCapability = "QueueOverCapability",
        /// An ancestor of the queue would pass its upper limit.
        AncestorOverCapability = "AncestorOverCapability",
        /// The queue has what it deserves, and others want the rest.
        QueueOverDeserved = "QueueOverDeserved",
        /// The head of a first-in-first-out queue is waiting.
        QueueHeadBlocks = "QueueHeadBlocks",
        /// The rest of the cluster is guaranteed to other queues.
        ReservedForOthers = "ReservedForOthers",
        /// Nodes are locked for another queue.
        NodeLocked = "NodeLocked",
        /// More work is let in than the cluster can hold.
        ClusterOvercommitted = "ClusterOvercommitted",
        /// A namespace quota is used up.
        QuotaExceeded = "QuotaExceeded",
        /// Needs something that this scheduler does not do.
        NotSupported = "NotSupported",
        /// Pods carry scheduling gates.
        Gated = "Gated",
        /// Others are being evicted to make room.
        WaitingForEviction = "WaitingForEviction",
        /// The API refused the bind; it is tried again.
        BindFailed = "BindFailed",
    }
}

impl Reason {
    /// A reason without numbers.
    pub fn new(code: Code) -> Self {
        Self {
            code,
            ..Self::default()
        }
    }

    /// About this queue.
    #[must_use]
    pub fn queue(mut self, queue: impl Into<String>) -> Self {
        self.queue = queue.into();
        self
    }

    /// In this dimension, so much is needed and so much is there.
    #[must_use]
    pub fn amounts(mut self, dimension: impl Into<String>, need: Quantity, have: Quantity) -> Self {
        self.dimension = dimension.into();
        self.need = Some(need);
        self.have = Some(have);
        self
    }

    /// About this resource or feature.
    #[must_use]
    pub fn dimension(mut self, dimension: impl Into<String>) -> Self {
        self.dimension = dimension.into();
        self
    }

    /// So many nodes are out for this.
    #[must_use]
    pub fn nodes(mut self, why: impl Into<String>, count: usize) -> Self {
        let entry = self.nodes.entry(why.into()).or_default();
        *entry = entry.saturating_add(i32::try_from(count).unwrap_or(i32::MAX));
        self
    }

    /// One sentence for people, with all numbers.
    pub fn message(&self) -> String {
        self.to_string()
    }

    fn sentence(&self) -> &'static str {
        match self.code {
            Code::NotEnoughResources => "not enough free resources for the whole gang",
            Code::NoFittingNode => "no node fits",
            Code::GangNotReady => "the gang is not complete yet",
            Code::PodGroupNotFound => "the pod group does not exist",
            Code::QueueNotFound => "the queue does not exist",
            Code::QueueClosed => "the queue is closed",
            Code::QueueNotLeaf => "the queue has children; only leaf queues hold work",
            Code::QueueTreeBroken => "the queue stands under a missing parent or in a cycle",
            Code::QueueOvercommitted => "the queue asks for more than its parent has left",
            Code::QueueOverCapability => "the queue would pass its capability",
            Code::AncestorOverCapability => "a queue above would pass its capability",
            Code::QueueOverDeserved => "the queue has what it deserves",
            Code::QueueHeadBlocks => "an earlier job of the queue goes first",
            Code::ReservedForOthers => "the rest is guaranteed to other queues",
            Code::NodeLocked => "nodes are locked for another queue",
            Code::ClusterOvercommitted => "too much work is waiting for the cluster already",
            Code::QuotaExceeded => "the namespace's quota is used up",
            Code::NotSupported => "it needs something that this scheduler does not do",
            Code::Gated => "its pods carry scheduling gates",
            Code::WaitingForEviction => "waiting for evicted pods to end",
            Code::BindFailed => "binding failed and is tried again",
            Code::Other(_) => "held back",
        }
    }
}

/// `queue "research": the queue would pass its capability: needs 8 cpu, has 3; 0/5 nodes: 5 not enough cpu`
impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.queue.is_empty() {
            write!(f, "queue {:?}: ", self.queue)?;
        }
        f.write_str(self.sentence())?;
        if let Code::Other(word) = &self.code {
            write!(f, " ({word})")?;
        }
        match (self.need, self.have, self.dimension.is_empty()) {
            (Some(need), Some(have), false) => write!(f, ": needs {need} {}, has {have}", self.dimension)?,
            (Some(need), Some(have), true) => write!(f, ": needs {need}, has {have}")?,
            (Some(need), None, _) => write!(f, ": needs {need} {}", self.dimension)?,
            (None, _, false) => write!(f, ": {}", self.dimension)?,
            (None, _, true) => {}
        }
        if !self.nodes.is_empty() {
            let total = self.nodes.values().fold(0_i64, |sum, count| sum + i64::from(*count));
            write!(f, "; 0/{total} nodes: ")?;
            for (index, (why, count)) in self.nodes.iter().enumerate() {
                if index > 0 {
                    f.write_str(", ")?;
                }
                write!(f, "{count} {why}")?;
            }
        }
        f.write_char('.')
    }
}

#[cfg(test)]
mod tests {
    use super::{Code, Reason};
    use crate::quantity::Quantity;

    fn quantity(text: &str) -> Quantity {
        Quantity::parse(text).expect("a quantity")
    }

    #[test]
    fn sentences_carry_their_numbers() {
        let check = |reason: Reason, expected: &str| assert_eq!(reason.message(), expected);
        check(
            Reason::new(Code::QueueNotFound).queue("q"),
            "queue \"q\": the queue does not exist.",
        );
        check(
            Reason::new(Code::QueueOverCapability)
                .queue("q")
                .amounts("cpu", quantity("8"), quantity("2500m")),
            "queue \"q\": the queue would pass its capability: needs 8 cpu, has 2500m.",
        );
        check(
            Reason::new(Code::NotEnoughResources)
                .amounts("memory", quantity("8Gi"), quantity("1536Mi"))
                .nodes("not enough memory", 3)
                .nodes("not ready", 1),
            "not enough free resources for the whole gang: needs 8Gi memory, has 1536Mi; \
             0/4 nodes: 3 not enough memory, 1 not ready.",
        );
        check(
            Reason::new(Code::NotSupported).dimension("networkTopology"),
            "it needs something that this scheduler does not do: networkTopology.",
        );
        check(Reason::new(Code::from("Mars")), "held back (Mars).");
    }

    #[test]
    fn wire_form_is_compact_and_reads_back() {
        let reason = Reason::new(Code::GangNotReady).amounts("pods", quantity("8"), quantity("3"));
        let json = serde_json::to_value(&reason).expect("plain data");
        assert_eq!(
            json,
            serde_json::json!({ "code": "GangNotReady", "dimension": "pods", "need": "8", "have": "3" })
        );
        assert_eq!(serde_json::from_value::<Reason>(json).expect("reads back"), reason);
        let newer = serde_json::json!({ "code": "Mars", "colour": "red" });
        assert_eq!(
            serde_json::from_value::<Reason>(newer).expect("tolerant").code,
            Code::Other("Mars".into())
        );
    }
}
