//! `nodeorder`: Kubernetes' scorers for free and for balanced resources.

use super::{Hook, Plugin};
use crate::conf::PluginConf;
use crate::model::{ClassId, Id, NodeId};
use crate::resources::{CPU, DimId, MEMORY};
use crate::session::State;

/// The plugin, with its weights.
pub(super) struct NodeOrder {
    least: f64,
    most: f64,
    balanced: f64,
}

impl NodeOrder {
    pub(super) fn new(conf: &PluginConf) -> Self {
        let weight = |key: &str, default: f64| conf.integer(key).map_or(default, |weight| weight as f64);
        NodeOrder {
            least: weight("leastrequested.weight", 1.0),
            most: weight("mostrequested.weight", 0.0),
            balanced: weight("balancedresource.weight", 1.0),
        }
    }
}

/// What a pod that asks for none of a resource counts as, so that such pods spread too.
fn at_least(dim: DimId, request: i64) -> i64 {
    match (dim, request) {
        (CPU, 0) => 100,
        (MEMORY, 0) => 200 * 1024 * 1024,
        _ => request,
    }
}

impl Plugin for NodeOrder {
    fn hooks(&self) -> &'static [Hook] {
        &[Hook::NodeOrder]
    }

    fn score(&self, state: &State, class: ClassId, node: NodeId) -> f64 {
        let allocatable = &state.model.nodes[node].allocatable;
        let requests = state.model.classes.request(class);
        let (mut least, mut most, mut fractions, mut dims) = (0, 0, [0.0; 2], 0_u8);
        for dim in [CPU, MEMORY] {
            let Some(capacity) = allocatable.get(dim).filter(|&capacity| capacity > 0) else {
                continue;
            };
            let taken = capacity.saturating_sub(state.ledger.idle().get(node.index(), dim));
            let request = requests.get(dim).unwrap_or(0);
            let used = taken.saturating_add(at_least(dim, request)).clamp(0, capacity);
            least += (capacity - used) * 100 / capacity;
            most += used * 100 / capacity;
            fractions[usize::from(dims)] = (taken.saturating_add(request) as f64 / capacity as f64).min(1.0);
            dims += 1;
        }
        if dims == 0 {
            return 0.0;
        }
        let apart = if dims == 2 {
            (fractions[0] - fractions[1]).abs() / 2.0
        } else {
            0.0
        };
        let balanced = ((1.0 - apart) * 100.0).floor();
        let count = i64::from(dims);
        self.least * (least / count) as f64 + self.most * (most / count) as f64 + self.balanced * balanced
    }
}
