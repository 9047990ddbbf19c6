//! `nodeorder`: Kubernetes' scorers, each from 0 to 100, times their weights.

mod compared;

use super::predicates::{meets, tolerated};
use super::{Hook, Plugin, Shape, Site};
use crate::conf::PluginConf;
use crate::facts::{Constraints, Taint, TaintEffect};
use crate::model::{Id, Model, NodeId, TaskId};
use crate::resources::{CPU, DimId, MEMORY};
use crate::session::State;

/// Devices count in the balance of pods that ask for them.
const GPU: &str = "nvidia.com/gpu";

const MIB: i64 = 1 << 20;
/// Images smaller than this in all do not matter …
const IMAGES_MIN: i64 = 23 * MIB;
/// … and beyond this, for each container, more does not matter.
const IMAGES_MAX: i64 = 1000 * MIB;

/// The plugin, with its weights.
pub(super) struct NodeOrder {
    least: f64,
    most: f64,
    balanced: f64,
    node_affinity: f64,
    pod_affinity: f64,
    taints: f64,
    images: f64,
    spread: f64,
    gpu: Option<DimId>,
}

impl NodeOrder {
    pub(super) fn new(conf: &PluginConf) -> Self {
        let weight = |key: &str, default: f64| {
            let weight = conf.integer(&format!("{key}.weight"));
            weight.map_or(default, |weight| weight as f64)
        };
        NodeOrder {
            least: weight("leastrequested", 1.0),
            most: weight("mostrequested", 0.0),
            balanced: weight("balancedresource", 1.0),
            node_affinity: weight("nodeaffinity", 2.0),
            pod_affinity: weight("podaffinity", 2.0),
            taints: weight("tainttoleration", 3.0),
            images: weight("imagelocality", 1.0),
            spread: weight("podtopologyspread", 2.0),
            gpu: None,
        }
    }

    /// How much is free, how much is used, how alike the dimensions are.
    fn room(&self, state: &State, shape: Shape, node: NodeId) -> f64 {
        let (offered, idle, row) = (state.ledger.offered(), state.ledger.idle(), node.index());
        let requests = state.model.classes.request(shape.class);
        let (mut least, mut most, mut dims) = (0, 0, 0);
        let mut balance = Balance::default();
        for dim in [CPU, MEMORY] {
            let capacity = offered.get(row, dim);
            if capacity <= 0 {
                continue;
            }
            let taken = capacity.saturating_sub(idle.get(row, dim));
            let request = requests.get(dim).unwrap_or(0);
            let used = taken.saturating_add(at_least(dim, request)).clamp(0, capacity);
            least += hundredths(capacity - used, capacity);
            if self.most != 0.0 {
                most += hundredths(used, capacity);
            }
            balance.add(taken.saturating_add(request), capacity);
            dims += 1;
        }
        if let Some(gpu) = self.gpu
            && let Some(request) = requests.get(gpu)
            && offered.get(row, gpu) > 0
        {
            let capacity = offered.get(row, gpu);
            let taken = capacity.saturating_sub(idle.get(row, gpu));
            balance.add(taken.saturating_add(request), capacity);
        }
        let asks = |dim: DimId| requests.get(dim).is_some_and(|request| request > 0);
        let asks = asks(CPU) || asks(MEMORY) || self.gpu.is_some_and(asks);
        let balanced = if asks { balance.score() } else { 0.0 };
        let part = |sum: i64| if dims == 0 { 0.0 } else { (sum / dims) as f64 };
        self.least * part(least) + self.most * part(most) + self.balanced * balanced
    }

    /// How much of the pod's images the node has; what few nodes have counts less, so that pods do not crowd there.
    fn image_score(state: &State, images: &[std::sync::Arc<str>], node: NodeId) -> f64 {
        let (known, all) = (&state.model.places.images, state.nodes_in_order().len().max(1));
        let here = &state.model.nodes[node].images;
        let scaled = |name: &std::sync::Arc<str>| {
            let image = known.get(name).filter(|_| here.contains_key(name))?;
            Some((image.bytes as f64 * f64::from(image.nodes) / all as f64) as i64)
        };
        let sum: i64 = images.iter().filter_map(scaled).fold(0, i64::saturating_add);
        let max = IMAGES_MAX.saturating_mul(i64::try_from(images.len()).unwrap_or(1));
        (100 * (sum.clamp(IMAGES_MIN, max) - IMAGES_MIN) / (max - IMAGES_MIN)) as f64
    }
}

/// How far apart the used parts of the dimensions are.
#[derive(Default)]
struct Balance {
    fractions: [f64; 3],
    count: usize,
}

impl Balance {
    fn add(&mut self, used: i64, capacity: i64) {
        self.fractions[self.count] = (used as f64 / capacity as f64).min(1.0);
        self.count += 1;
    }

    fn score(&self) -> f64 {
        let fractions = &self.fractions[..self.count];
        let apart = match fractions {
            [] => return 0.0,
            [_] => 0.0,
            [a, b] => ((a - b) / 2.0).abs(),
            _ => {
                let mean = fractions.iter().sum::<f64>() / self.count as f64;
                let squares = fractions.iter().map(|fraction| (fraction - mean) * (fraction - mean));
                (squares.sum::<f64>() / self.count as f64).sqrt()
            }
        };
        f64::from(((1.0 - apart) * 100.0) as i32)
    }
}

/// A part of a whole, from 0 to 100, rounded down. Below 2⁴⁵ the division of floats is exact enough to round alike, and
/// it is the quicker one.
fn hundredths(part: i64, whole: i64) -> i64 {
    if whole < 1 << 45 {
        ((part * 100) as f64 / whole as f64) as i64
    } else {
        (i128::from(part) * 100 / i128::from(whole)) as i64
    }
}

/// What a pod that asks for none of a resource counts as, so that such pods spread too.
fn at_least(dim: DimId, request: i64) -> i64 {
    match (dim, request) {
        (CPU, 0) => 100,
        (MEMORY, 0) => 200 * MIB,
        _ => request,
    }
}

/// How many taints of the node the pod would rather not bear.
fn shunned(model: &Model, constraints: &Constraints, node: NodeId) -> u32 {
    let shy =
        |taint: &&Taint| taint.effect == TaintEffect::PreferNoSchedule && !tolerated(taint, &constraints.tolerations);
    model.nodes[node]
        .taints
        .iter()
        .filter(shy)
        .fold(0, |count, _| count + 1)
}

impl Plugin for NodeOrder {
    fn hooks(&self) -> &'static [Hook] {
        &[Hook::NodeOrder]
    }

    fn open(&mut self, state: &State) -> bool {
        self.gpu = state.model.dims.find(GPU);
        false
    }

    fn score_version(&self, state: &State, shape: Shape) -> u64 {
        let constraints = &state.model.classes[shape.class].key.constraints;
        let images = constraints.images.iter().filter(|_| self.images != 0.0);
        let version = |name| state.model.places.images.get(name).map(|image| image.version);
        images.filter_map(version).max().unwrap_or(0)
    }

    /// Where only one thing is wished for, or at most one taint shunned, comparing nodes comes down to yes or no.
    fn score(&self, state: &State, shape: Shape, node: NodeId) -> f64 {
        let model = &state.model;
        let constraints = &model.classes[shape.class].key.constraints;
        let mut score = self.room(state, shape, node);
        if let [(_, wish)] = constraints.node_wishes.as_slice()
            && meets(model, std::slice::from_ref(wish), node)
        {
            score += 100.0 * self.node_affinity;
        }
        if !model.nodes[node].taints.is_empty() && model.places.shy_nodes == 0 {
            score -= 100.0 * self.taints * f64::from(shunned(model, constraints, node));
        }
        if self.images != 0.0 && !constraints.images.is_empty() {
            score += self.images * Self::image_score(state, &constraints.images, node);
        }
        score
    }

    fn compares(&self, state: &State, shape: Shape) -> bool {
        let constraints = &state.model.classes[shape.class].key.constraints;
        (self.node_affinity != 0.0 && constraints.node_wishes.len() > 1)
            || (self.taints != 0.0 && state.model.places.shy_nodes > 0)
    }

    fn rank(&self, state: &State, task: TaskId, sites: &mut [Site]) {
        let class = state.model.tasks[task].class;
        let constraints = &state.model.classes[class].key.constraints;
        if self.node_affinity != 0.0 && constraints.node_wishes.len() > 1 {
            compared::node_wishes(state, constraints, self.node_affinity, sites);
        }
        if self.taints != 0.0 && state.model.places.shy_nodes > 0 {
            compared::taints(state, constraints, self.taints, sites);
        }
        if self.pod_affinity != 0.0 {
            compared::pod_wishes(state, task, self.pod_affinity, sites);
        }
        if self.spread != 0.0 {
            compared::spread(state, task, self.spread, sites);
        }
    }
}
