//! A cluster at one moment, read from raw objects once and kept small.

mod node;
mod pod;
mod queue;

use std::collections::BTreeMap;
use std::rc::Rc;

use serde_json::Value;

use crate::amounts::{Amounts, Dim, Written};
use crate::quantity::{Nano, parse};
use crate::read::{at, entries, label, list, meta, number, text};

pub(crate) use self::node::{Node, Taint};
pub(crate) use self::pod::{Pod, PodTerm, Requirement, Shape, Stand};
pub(crate) use self::queue::{Queue, locks};

/// A cluster at one moment: what a scheduler saw when it decided. Binds that it decided earlier and still believes in
/// have to be part of it.
#[derive(Clone, Debug)]
pub struct World {
    pub(crate) dims: Vec<String>,
    dim_ids: BTreeMap<String, Dim>,
    pub(crate) nodes: Vec<Node>,
    pub(crate) node_ids: BTreeMap<String, usize>,
    pub(crate) pods: Vec<Pod>,
    pub(crate) pod_ids: BTreeMap<String, usize>,
    shapes: BTreeMap<Shape, Rc<Shape>>,
    pub(crate) groups: Vec<Group>,
    pub(crate) group_ids: BTreeMap<String, usize>,
    pub(crate) queues: Vec<Queue>,
    pub(crate) queue_ids: BTreeMap<String, usize>,
    classes: BTreeMap<String, (i64, bool)>,
    pub(crate) budgets: Vec<Budget>,
}

/// A pod group.
#[derive(Clone, Debug, Default)]
pub(crate) struct Group {
    pub key: String,
    pub queue: String,
    pub min: i64,
    pub role_mins: BTreeMap<String, i64>,
    pub class: String,
    /// What its minimum needs, as declared.
    pub min_resources: Written,
    pub completed: bool,
    /// It says that none of its pods may go.
    pub protected: bool,
}

impl Group {
    /// The minimums by role; they count only where all of them are part of the gang.
    pub(crate) fn roles(&self) -> impl Iterator<Item = (&String, i64)> {
        let all: i64 = self
            .role_mins
            .values()
            .fold(0, |sum: i64, min| sum.saturating_add(*min));
        let count = all <= self.min;
        self.role_mins
            .iter()
            .filter(move |(_, min)| count && **min > 0)
            .map(|(role, min)| (role, *min))
    }
}

/// A PodDisruptionBudget.
#[derive(Clone, Debug, Default)]
pub(crate) struct Budget {
    pub key: String,
    pub namespace: String,
    pub selector: Selector,
    pub allowed: i64,
}

/// A label selector.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Selector {
    /// Nothing is selected.
    none: bool,
    equal: Vec<(String, String)>,
    expressions: Vec<(String, String, Vec<String>)>,
}

impl Selector {
    /// Reads a selector; where there is none, nothing is selected.
    pub(crate) fn read(value: &Value) -> Self {
        let owned = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        Self {
            none: !value.is_object(),
            equal: entries(value, &["matchLabels"])
                .map(|(key, value)| (key.to_owned(), owned(value)))
                .collect(),
            expressions: list(value, &["matchExpressions"])
                .iter()
                .map(|one| {
                    let values = list(one, &["values"]).iter().map(owned).collect();
                    (
                        text(one, &["key"]).to_owned(),
                        text(one, &["operator"]).to_owned(),
                        values,
                    )
                })
                .collect(),
        }
    }

    /// Whether labels are selected.
    pub(crate) fn selects(&self, labels: &BTreeMap<String, String>) -> bool {
        !self.none
            && self.equal.iter().all(|(key, value)| labels.get(key) == Some(value))
            && self.expressions.iter().all(|(key, operator, values)| {
                let value = labels.get(key);
                match operator.as_str() {
                    "In" => value.is_some_and(|value| values.contains(value)),
                    "NotIn" => value.is_none_or(|value| !values.contains(value)),
                    "Exists" => value.is_some(),
                    "DoesNotExist" => value.is_none(),
                    _ => false,
                }
            })
    }
}

impl Default for World {
    fn default() -> Self {
        let mut world = Self {
            dims: Vec::new(),
            dim_ids: BTreeMap::new(),
            nodes: Vec::new(),
            node_ids: BTreeMap::new(),
            pods: Vec::new(),
            pod_ids: BTreeMap::new(),
            shapes: BTreeMap::new(),
            groups: Vec::new(),
            group_ids: BTreeMap::new(),
            queues: Vec::new(),
            queue_ids: BTreeMap::new(),
            classes: BTreeMap::new(),
            budgets: Vec::new(),
        };
        world.dim("cpu");
        world.dim("pods");
        world
    }
}

impl World {
    /// Reads an object by its kind; false if the kind is none that decisions are about. The object itself is not kept.
    pub fn insert(&mut self, object: &Value) -> bool {
        match text(object, &["kind"]) {
            "Node" => {
                let node = Node::read(self, object);
                keep(&mut self.nodes, &mut self.node_ids, node.name.clone(), node);
            }
            "Pod" => {
                let pod = Pod::read(self, object);
                keep(&mut self.pods, &mut self.pod_ids, pod.key.clone(), pod);
            }
            "PodGroup" => {
                let group = self.read_group(object);
                keep(&mut self.groups, &mut self.group_ids, group.key.clone(), group);
            }
            "Queue" => {
                let queue = Queue::read(self, object);
                keep(&mut self.queues, &mut self.queue_ids, queue.name.clone(), queue);
            }
            "PriorityClass" => {
                let default = at(object, &["globalDefault"]).as_bool().unwrap_or(false);
                let value = (number(object, &["value"]), default);
                self.classes.insert(meta(object, "name").to_owned(), value);
            }
            "PodDisruptionBudget" => self.budgets.push(Budget {
                key: label("PodDisruptionBudget", object),
                namespace: meta(object, "namespace").to_owned(),
                selector: Selector::read(at(object, &["spec", "selector"])),
                allowed: number(object, &["status", "disruptionsAllowed"]),
            }),
            _ => return false,
        }
        true
    }

    /// A world from many objects.
    pub fn read<'a>(objects: impl IntoIterator<Item = &'a Value>) -> Self {
        let mut world = Self::default();
        for object in objects {
            world.insert(object);
        }
        world
    }

    fn read_group(&mut self, object: &Value) -> Group {
        let queue = Some(text(object, &["spec", "queue"]));
        let flag = text(object, &["metadata", "annotations", "volcano.sh/preemptable"]);
        Group {
            key: key(object),
            queue: queue.filter(|name| !name.is_empty()).unwrap_or("default").to_owned(),
            min: number(object, &["spec", "minMember"]).max(0),
            role_mins: entries(object, &["spec", "minTaskMember"])
                .map(|(role, min)| (role.to_owned(), min.as_i64().unwrap_or(0).max(0)))
                .collect(),
            class: text(object, &["spec", "priorityClassName"]).to_owned(),
            min_resources: self.written(at(object, &["spec", "minResources"])),
            completed: text(object, &["status", "phase"]) == "Completed",
            protected: flag == "false",
        }
    }

    /// The index of a dimension.
    pub(crate) fn dim(&mut self, name: &str) -> Dim {
        if let Some(&dim) = self.dim_ids.get(name) {
            return dim;
        }
        let dim = self.dims.len();
        self.dims.push(name.to_owned());
        self.dim_ids.insert(name.to_owned(), dim);
        dim
    }

    /// The index of a dimension that is known.
    pub(crate) fn find_dim(&self, name: &str) -> Option<Dim> {
        self.dim_ids.get(name).copied()
    }

    /// A resource list as it is written. What cannot be read, or is negative, is zero.
    pub(crate) fn written(&mut self, list: &Value) -> Written {
        entries(list, &[])
            .map(|(name, quantity)| (self.dim(name), parse(quantity).unwrap_or(0).max(0)))
            .collect()
    }

    /// The priority of a group.
    pub(crate) fn priority(&self, group: &Group) -> i64 {
        let default = self
            .classes
            .values()
            .filter(|(_, default)| *default)
            .map(|(value, _)| *value);
        match self.classes.get(&group.class) {
            Some((value, _)) => *value,
            None => default.max().unwrap_or(0),
        }
    }

    /// The group of a pod.
    pub(crate) fn group_of(&self, pod: &Pod) -> Option<usize> {
        self.group_ids.get(pod.group.as_ref()?).copied()
    }

    /// The queue of a group, if it exists.
    pub(crate) fn queue_of(&self, group: usize) -> Option<usize> {
        self.queue_ids.get(&self.groups[group].queue).copied()
    }

    /// What all nodes offer.
    pub(crate) fn total(&self) -> Amounts {
        let mut total = Amounts::default();
        for node in &self.nodes {
            total.add(&node.offers);
        }
        total
    }

    fn shape(&mut self, shape: Shape) -> Rc<Shape> {
        if let Some(known) = self.shapes.get(&shape) {
            return known.clone();
        }
        let kept = Rc::new(shape.clone());
        self.shapes.insert(shape, kept.clone());
        kept
    }

    /// Amounts for people.
    pub(crate) fn show(&self, dim: Dim, amount: Nano) -> String {
        format!("{} {}", crate::quantity::show(amount), self.dims[dim])
    }
}

/// `namespace/name`.
pub(crate) fn key(object: &Value) -> String {
    format!("{}/{}", meta(object, "namespace"), meta(object, "name"))
}

/// Puts an object in its place; a second one of the same name replaces the first.
fn keep<T>(list: &mut Vec<T>, ids: &mut BTreeMap<String, usize>, name: String, object: T) {
    if let Some(&at) = ids.get(&name) {
        list[at] = object;
    } else {
        ids.insert(name, list.len());
        list.push(object);
    }
}
