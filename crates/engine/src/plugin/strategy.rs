//! `resource-strategy-fit`: for each resource, fuller or emptier nodes first.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::{Blocker, Fit, Hook, Plugin, Shape};
use crate::conf::PluginConf;
use crate::facts::Strategy;
use crate::model::{Id, NodeId};
use crate::resources::{CPU, DimId, MEMORY};
use crate::session::State;

/// How one resource counts.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Rule {
    /// Fuller nodes first.
    most: bool,
    weight: f64,
}

/// What must stay free on a node for each idle piece of a device: milli-cores and bytes.
#[derive(Clone, Debug, PartialEq)]
struct Ratio {
    device: String,
    cpu: f64,
    memory: f64,
}

/// The plugin, with its arguments.
pub(super) struct StrategyFit {
    weight: f64,
    /// By name; a name that ends with `*` stands for all that begin like it.
    rules: BTreeMap<String, Rule>,
    /// Scarce resources with their weights: nodes that lack them come first for pods that do not need them.
    scarce: Vec<(String, f64)>,
    scarce_weight: f64,
    ratios: Vec<Ratio>,
    /// The rule of each dimension, worked out when a cycle opens.
    by_dim: Vec<Option<Rule>>,
    scarce_dims: Vec<(DimId, f64)>,
    ratio_dims: Vec<(DimId, f64, f64)>,
}

fn positive(value: Option<&Value>, default: f64) -> f64 {
    value
        .and_then(Value::as_f64)
        .filter(|&number| number > 0.0)
        .unwrap_or(default)
}

fn rule(entry: &Value) -> Rule {
    Rule {
        most: entry.get("type").and_then(Value::as_str) == Some("MostAllocated"),
        weight: positive(entry.get("weight"), 1.0),
    }
}

/// The names in a list with commas, of a part that is switched on.
fn listed(part: Option<&Value>) -> Vec<String> {
    let on = |part: &&Value| {
        let enable = part.get("enable");
        enable.is_some_and(|value| value.as_bool() == Some(true) || value.as_str() == Some("true"))
    };
    let names = part.filter(on).and_then(|part| part.get("resources")?.as_str());
    let names = names.unwrap_or_default().split(',').map(str::trim);
    names.filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

impl StrategyFit {
    pub(super) fn new(conf: &PluginConf) -> Self {
        let resources = conf.arguments.get("resources").and_then(Value::as_object);
        let mut rules: BTreeMap<String, Rule> = resources
            .into_iter()
            .flatten()
            .filter(|(name, _)| is_pattern(name))
            .map(|(name, entry)| (name.clone(), rule(entry)))
            .collect();
        if rules.is_empty() {
            let spread = Rule {
                most: false,
                weight: 1.0,
            };
            rules = [("cpu".to_owned(), spread), ("memory".to_owned(), spread)].into();
        }
        let (sra, proportional) = (conf.arguments.get("sra"), conf.arguments.get("proportional"));
        let number = |part: Option<&Value>, table: &str, key: &str, default: f64| {
            let number = part.and_then(|part| part.get(table)?.get(key)?.as_f64());
            number.filter(|&number| number >= 0.0).unwrap_or(default)
        };
        let scarce = listed(sra).into_iter().map(|name| {
            let weight = number(sra, "resourceWeight", &name, 1.0);
            (name, weight)
        });
        let ratios = listed(proportional).into_iter().map(|device| Ratio {
            cpu: 1000.0 * number(proportional, "resourceProportion", &format!("{device}.cpu"), 1.0),
            memory: 1e9 * number(proportional, "resourceProportion", &format!("{device}.memory"), 1.0),
            device,
        });
        StrategyFit {
            weight: positive(conf.arguments.get("resourceStrategyFitWeight"), 10.0),
            rules,
            scarce: scarce.collect(),
            scarce_weight: positive(sra.and_then(|sra| sra.get("weight")), 1.0),
            ratios: ratios.collect(),
            by_dim: Vec::new(),
            scarce_dims: Vec::new(),
            ratio_dims: Vec::new(),
        }
    }

    /// The rule of a resource: by its own name, else by the longest pattern that fits.
    fn rule_of(&self, name: &str) -> Option<Rule> {
        let fits = |pattern: &&String| {
            let stem = pattern.strip_suffix('*');
            stem.is_some_and(|stem| name.starts_with(stem))
        };
        let patterns = || self.rules.keys().filter(fits).max_by_key(|pattern| pattern.len());
        self.rules.get(name).or_else(|| self.rules.get(patterns()?)).copied()
    }

    /// What the pod's own annotations make of a rule.
    fn own_rule(own: &Strategy, name: &Arc<str>, configured: Option<Rule>) -> Option<Rule> {
        let weight = if own.weights.is_empty() {
            configured?.weight
        } else {
            *own.weights.get(name)? as f64
        };
        let most = own.most.or_else(|| configured.map(|rule| rule.most)).unwrap_or(false);
        Some(Rule { most, weight }).filter(|rule| rule.weight > 0.0)
    }

    /// Nodes without scarce resources first, as far as they have all that the pod asks for.
    fn sparing(&self, state: &State, shape: Shape, node: NodeId) -> f64 {
        let allocatable = &state.model.nodes[node].allocatable;
        let all: f64 = self.scarce_dims.iter().map(|&(_, weight)| weight).sum();
        let offers = |dim: DimId| allocatable.get(dim).is_some_and(|capacity| capacity > 0);
        let mut asked = state.model.classes.request(shape.class).iter();
        if all <= 0.0 || asked.any(|(dim, _)| !offers(dim)) {
            return 0.0;
        }
        let here = self.scarce_dims.iter().filter(|&&(dim, _)| offers(dim));
        let here: f64 = here.map(|&(_, weight)| weight).sum();
        100.0 * self.scarce_weight * (1.0 - here / all)
    }
}

/// A name, or a beginning with one `*` at its end.
fn is_pattern(name: &str) -> bool {
    let stem = name.strip_suffix('*').unwrap_or(name);
    !stem.is_empty() && !stem.contains('*')
}

impl Plugin for StrategyFit {
    fn hooks(&self) -> &'static [Hook] {
        &[Hook::Predicate, Hook::NodeOrder]
    }

    fn open(&mut self, state: &State) -> bool {
        let dims = &state.model.dims;
        let find = |name: &str| dims.find(name);
        self.by_dim = (0..dims.count())
            .map(|dim| self.rule_of(dims.name(DimId(dim as u16))))
            .collect();
        let scarce = self.scarce.iter();
        self.scarce_dims = scarce
            .filter_map(|(name, weight)| Some((find(name)?, *weight)))
            .collect();
        let ratios = self.ratios.iter();
        self.ratio_dims = ratios
            .filter_map(|ratio| Some((find(&ratio.device)?, ratio.cpu, ratio.memory)))
            .collect();
        false
    }

    fn minds_guests(&self, state: &State, shape: Shape) -> bool {
        let request = state.model.classes.request(shape.class);
        let asks = |&(device, ..): &(DimId, f64, f64)| request.get(device).is_some_and(|amount| amount > 0);
        !self.ratio_dims.is_empty() && !self.ratio_dims.iter().any(asks)
    }

    /// A pod that asks for no device leaves enough for the idle ones.
    fn guest_blocker(&self, state: &State, shape: Shape, node: NodeId, fit: Fit) -> Option<Blocker> {
        if !self.minds_guests(state, shape) {
            return None;
        }
        let free = if fit == Fit::Idle {
            state.ledger.idle()
        } else {
            state.ledger.future()
        };
        let request = state.model.classes.request(shape.class);
        let left = |dim: DimId| (free.get(node.index(), dim) - request.get(dim).unwrap_or(0)) as f64;
        let short = |&(device, cpu, memory): &(DimId, f64, f64)| {
            let idle = free.get(node.index(), device) as f64;
            idle > 0.0 && (left(CPU) < idle * cpu || left(MEMORY) < idle * memory)
        };
        self.ratio_dims.iter().any(short).then_some(Blocker::Proportion)
    }

    fn score(&self, state: &State, shape: Shape, node: NodeId) -> f64 {
        let allocatable = &state.model.nodes[node].allocatable;
        let own = state.model.classes[shape.class].key.constraints.strategy.as_ref();
        let (mut sum, mut weights) = (0.0, 0.0);
        for (dim, request) in state.model.classes.request(shape.class).iter() {
            let configured = self.by_dim.get(usize::from(dim.0)).copied().flatten();
            let rule = match own {
                Some(own) => Self::own_rule(own, state.model.dims.name(dim), configured),
                None => configured,
            };
            let Some(rule) = rule else { continue };
            weights += rule.weight;
            let Some(capacity) = allocatable.get(dim).filter(|&capacity| capacity > 0) else {
                continue;
            };
            let idle = state.ledger.idle().get(node.index(), dim);
            let used = capacity.saturating_sub(idle).saturating_add(request);
            if used > capacity {
                return self.sparing(state, shape, node);
            }
            let part = used as f64 / capacity as f64;
            sum += rule.weight * if rule.most { part } else { 1.0 - part };
        }
        let fit = if weights > 0.0 {
            100.0 * self.weight * sum / weights
        } else {
            0.0
        };
        fit + self.sparing(state, shape, node)
    }
}
