//! `nodegroup`: which node groups a queue's pods go to.

use std::sync::Arc;

use basalt_api::names::NODEGROUP_NAME;

use super::{Blocker, Hook, Plugin, Shape};
use crate::conf::PluginConf;
use crate::facts::NodeGroups;
use crate::model::{NodeId, QueueId};
use crate::session::State;

/// The plugin, with its arguments.
pub(super) struct NodeGroup {
    /// Nodes of no group are for nobody; otherwise for queues that name no groups.
    strict: bool,
    /// Of the preferred groups, the first is the best.
    ordered: bool,
    /// A queue that names no groups takes over those of the nearest queue above that does.
    hierarchy: bool,
}

impl NodeGroup {
    pub(super) fn new(conf: &PluginConf) -> Self {
        NodeGroup {
            strict: conf.boolean("strict").unwrap_or(true),
            ordered: conf.boolean("enablePreferredOrder").unwrap_or(false),
            hierarchy: conf.is_on("enableHierarchy"),
        }
    }

    fn groups(state: &State, shape: Shape) -> Option<&NodeGroups> {
        let queue = shape.zone.is_some().then(|| &state.model.queues[shape.zone])?;
        queue.node_groups.as_ref().filter(|groups| !names_none(groups))
    }
}

fn names_none(groups: &NodeGroups) -> bool {
    [
        &groups.required,
        &groups.preferred,
        &groups.anti_required,
        &groups.anti_preferred,
    ]
    .iter()
    .all(|names| names.is_empty())
}

fn group_of(state: &State, node: NodeId) -> Option<&Arc<str>> {
    state.model.nodes[node].labels.get(NODEGROUP_NAME)
}

impl Plugin for NodeGroup {
    fn hooks(&self) -> &'static [Hook] {
        &[Hook::Predicate, Hook::NodeOrder]
    }

    fn has_zones(&self) -> bool {
        true
    }

    fn zone(&self, state: &State, queue: QueueId) -> QueueId {
        let chain = &state.model.queues[queue].chain;
        let reach = if self.hierarchy { chain.len() } else { 1 };
        let names = |queue: &&QueueId| state.model.queues[**queue].node_groups.is_some();
        chain.iter().take(reach).find(names).copied().unwrap_or(QueueId::NONE)
    }

    fn blocker(&self, state: &State, shape: Shape, node: NodeId) -> Option<Blocker> {
        let admits = match (group_of(state, node), Self::groups(state, shape)) {
            (None, None) => !self.strict,
            (None, Some(_)) | (Some(_), None) => false,
            (Some(group), Some(groups)) => {
                let wanted = groups.required.contains(group) || groups.preferred.contains(group);
                groups.anti_preferred.contains(group) || (wanted && !groups.anti_required.contains(group))
            }
        };
        (!admits).then_some(Blocker::NodeGroup)
    }

    fn score(&self, state: &State, shape: Shape, node: NodeId) -> f64 {
        let (Some(group), Some(groups)) = (group_of(state, node), Self::groups(state, shape)) else {
            return 0.0;
        };
        if groups.anti_preferred.contains(group) {
            return -1.0;
        }
        let required = if groups.required.contains(group) { 100.0 } else { 0.0 };
        let all = groups.preferred.len();
        let preferred = match groups.preferred.iter().position(|name| name == group) {
            Some(at) if self.ordered => 50.0 * (all - at) as f64 / all as f64,
            Some(_) => 50.0,
            None => 0.0,
        };
        required + preferred
    }
}
