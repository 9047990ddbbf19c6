//! `predicates`: which nodes admit a pod at all. (Whether there is room is the ledger's business.)

mod neighbours;
mod spread;
mod volumes;

use std::sync::Arc;

pub(super) use self::neighbours::Census;
pub(super) use self::spread::counts;
use super::{Blocker, Fit, Hook, Plugin, Shape, Site};
use crate::conf::PluginConf;
use crate::facts::{Constraints, NodeTerm, Taint, TaintEffect, Toleration};
use crate::model::{Model, NodeId, TaskId};
use crate::mutants::mutant;
use crate::session::State;

/// The plugin: which of its rules hold.
pub(super) struct Predicates {
    node_affinity: bool,
    taints: bool,
    ports: bool,
    pod_affinity: bool,
    spread: bool,
    volume_zone: bool,
    volumes: bool,
}

impl Predicates {
    pub(super) fn new(conf: &PluginConf) -> Self {
        let on = |name: &str| conf.boolean(&format!("predicate.{name}Enable")).unwrap_or(true);
        Predicates {
            node_affinity: on("NodeAffinity"),
            taints: on("TaintToleration"),
            ports: on("NodePorts"),
            pod_affinity: on("PodAffinity"),
            spread: on("PodTopologySpread"),
            volume_zone: on("VolumeZone"),
            volumes: on("VolumeBinding"),
        }
    }
}

impl Plugin for Predicates {
    fn hooks(&self) -> &'static [Hook] {
        &[Hook::Predicate]
    }

    fn blocker(&self, state: &State, shape: Shape, node: NodeId) -> Option<Blocker> {
        let constraints = &state.model.classes[shape.class].key.constraints;
        let record = &state.model.nodes[node];
        if record.not_ready {
            return Some(Blocker::NotReady);
        }
        if record.unschedulable && !mutant!(IgnoreCordon) && !tolerated(&cordon(), &constraints.tolerations) {
            return Some(Blocker::Unschedulable);
        }
        if self.node_affinity && !mutant!(IgnoreAffinity) && !selects(&state.model, constraints, node) {
            return Some(Blocker::Affinity);
        }
        let bears = || bears(&state.model, constraints, node);
        (self.taints && !mutant!(IgnoreTaints) && !bears()).then_some(Blocker::Taint)
    }

    fn minds_guests(&self, state: &State, shape: Shape) -> bool {
        self.ports && !state.model.classes[shape.class].key.constraints.ports.is_empty()
    }

    fn guest_blocker(&self, state: &State, shape: Shape, node: NodeId, fit: Fit) -> Option<Blocker> {
        let wanted = &state.model.classes[shape.class].key.constraints.ports;
        if !self.ports || wanted.is_empty() || mutant!(IgnorePorts) {
            return None;
        }
        let clashes = |&task: &TaskId| {
            let status = state.ledger.status(task);
            let stays = status.takes_future() || (fit == Fit::Idle && status.takes_idle());
            let class = state.model.tasks[task].class;
            let taken = &state.model.classes[class].key.constraints.ports;
            stays && taken.iter().any(|port| wanted.iter().any(|mine| mine.clashes(port)))
        };
        state
            .ledger
            .tasks_on(node)
            .iter()
            .any(clashes)
            .then_some(Blocker::Ports)
    }

    fn judge(&self, state: &State, task: TaskId, sites: &mut [Site]) {
        if self.pod_affinity {
            neighbours::judge(state, task, sites);
        }
        if self.spread {
            spread::judge(state, task, sites);
        }
        volumes::judge(state, task, sites, self.volumes, self.volume_zone);
    }
}

/// Whether a node meets all requirements of one of these terms. An empty term is met by no node.
pub(super) fn meets(model: &Model, terms: &[NodeTerm], node: NodeId) -> bool {
    let (labels, name) = (&model.nodes[node].labels, model.nodes.name(node));
    terms.iter().any(|term| {
        !term.is_empty()
            && term.iter().all(|requirement| {
                let label = || labels.get(&requirement.key).map(|value| &**value);
                requirement.holds(if requirement.on_name { Some(name) } else { label() })
            })
    })
}

/// Whether a pod's selector and required affinity take the node.
pub(super) fn selects(model: &Model, constraints: &Constraints, node: NodeId) -> bool {
    let labels = &model.nodes[node].labels;
    let selected = constraints
        .node_selector
        .iter()
        .all(|(key, value)| labels.get(key) == Some(value));
    let affine = |terms: &Vec<NodeTerm>| meets(model, terms, node);
    selected && constraints.node_affinity.as_ref().is_none_or(affine)
}

/// Whether a pod tolerates all taints of a node that keep pods away.
fn bears(model: &Model, constraints: &Constraints, node: NodeId) -> bool {
    let repels = |taint: &&Taint| taint.effect != TaintEffect::PreferNoSchedule;
    let taints = model.nodes[node].taints.iter().filter(repels);
    taints
        .into_iter()
        .all(|taint| tolerated(taint, &constraints.tolerations))
}

/// A cordoned node counts as having this taint, which a pod may tolerate.
fn cordon() -> Taint {
    Taint {
        key: Arc::from("node.kubernetes.io/unschedulable"),
        value: Arc::from(""),
        effect: TaintEffect::NoSchedule,
    }
}

pub(super) fn tolerated(taint: &Taint, tolerations: &[Toleration]) -> bool {
    tolerations.iter().any(|toleration| toleration.tolerates(taint))
}
