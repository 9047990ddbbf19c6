//! `binpack`: fuller nodes first.

use super::{Hook, Plugin, Shape};
use crate::conf::PluginConf;
use crate::model::{Id, NodeId};
use crate::resources::{CPU, DimId, MEMORY};
use crate::session::State;

/// The plugin, with its weights.
pub(super) struct Binpack {
    weight: f64,
    cpu: f64,
    memory: f64,
    /// Other resources that count, by name.
    others: Vec<(String, f64)>,
    /// The same, by dimension, as far as the dimensions are known.
    dims: Vec<(DimId, f64)>,
}

impl Binpack {
    pub(super) fn new(conf: &PluginConf) -> Self {
        let weight = |key: &str| match conf.integer(key) {
            Some(weight) if weight >= 0 => weight as f64,
            _ => 1.0,
        };
        let others = conf.text("binpack.resources").unwrap_or_default();
        let others = others.split(',').map(str::trim).filter(|name| !name.is_empty());
        Binpack {
            weight: weight("binpack.weight"),
            cpu: weight("binpack.cpu"),
            memory: weight("binpack.memory"),
            others: others
                .map(|name| (name.to_owned(), weight(&format!("binpack.resources.{name}"))))
                .collect(),
            dims: Vec::new(),
        }
    }
}

impl Plugin for Binpack {
    fn hooks(&self) -> &'static [Hook] {
        &[Hook::NodeOrder]
    }

    fn open(&mut self, state: &State) -> bool {
        self.dims = vec![(CPU, self.cpu), (MEMORY, self.memory)];
        self.dims.extend(
            self.others
                .iter()
                .filter_map(|(name, weight)| Some((state.model.dims.find(name)?, *weight))),
        );
        false
    }

    fn score(&self, state: &State, shape: Shape, node: NodeId) -> f64 {
        let (offered, idle, row) = (state.ledger.offered(), state.ledger.idle(), node.index());
        let (mut sum, mut weights) = (0.0, 0.0);
        for (dim, request) in state.model.classes.request(shape.class).iter() {
            let Some(&(_, weight)) = self.dims.iter().find(|&&(known, _)| known == dim) else {
                continue;
            };
            weights += weight;
            let capacity = offered.get(row, dim);
            if capacity <= 0 {
                continue;
            }
            let used = capacity.saturating_sub(idle.get(row, dim)).saturating_add(request);
            if used > capacity {
                return 0.0;
            }
            sum += weight * used as f64 / capacity as f64;
        }
        if weights > 0.0 {
            100.0 * self.weight * sum / weights
        } else {
            0.0
        }
    }
}
