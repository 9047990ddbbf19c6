//! The scheduler's configuration: Volcano's `volcano-scheduler.conf`.
//!
//! Reading is lenient in what it keeps and loud in what it does not understand: an unknown key or plugin is a warning
//! with a suggestion; `strict` callers turn warnings into errors. An unknown action is an error, as in Volcano.

mod action;

use std::collections::BTreeMap;

pub use self::action::{SchedulingAction, UnknownAction};
use crate::plugin::{NODE_RESERVATION, plugin_names};
use serde_json::{Map, Value};

/// The configuration of `basalt up`.
pub const EMBEDDED: &str = r#"
actions: "enqueue, allocate, reclaim, gangreclaim, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}]
- plugins: [{name: overcommit}, {name: drf, enablePreemptable: false}, {name: predicates}, {name: capacity, enableHierarchy: true, arguments: {deservedFromWeight: true}}, {name: nodeorder}, {name: binpack}, {name: node_reservation}]
"#;

/// A configuration, read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Conf {
    /// What a cycle does, in order. Where the plugin `node_reservation` is configured and the action `reserve` is not
    /// listed, it comes first.
    pub actions: Vec<SchedulingAction>,
    /// Plugins by tier.
    pub tiers: Vec<Vec<PluginConf>>,
    /// Arguments of actions.
    pub configurations: BTreeMap<String, Map<String, Value>>,
    /// What was not understood, each with a suggestion where there is one.
    pub warnings: Vec<String>,
    /// Those of the warnings that are about something we know and do not have yet.
    pub lacking: Vec<String>,
}

/// One plugin's entry.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PluginConf {
    /// Its name.
    pub name: String,
    /// Flags that are written out.
    pub flags: BTreeMap<String, bool>,
    /// Its arguments.
    pub arguments: Map<String, Value>,
}

impl PluginConf {
    /// Whether a flag is on; what is not written out is on, but for hierarchy and cluster order.
    pub fn is_on(&self, flag: &str) -> bool {
        let default = !matches!(flag, "enableHierarchy" | "EnabledClusterOrder");
        self.flags.get(flag).copied().unwrap_or(default)
    }

    /// An argument that is a whole number. A quoted number is none, as in Volcano.
    pub fn integer(&self, key: &str) -> Option<i64> {
        self.arguments.get(key)?.as_i64()
    }

    /// An argument that is a text.
    pub fn text(&self, key: &str) -> Option<&str> {
        self.arguments.get(key)?.as_str()
    }

    /// An argument that is yes or no; texts "true" and "false" count.
    pub fn boolean(&self, key: &str) -> Option<bool> {
        let value = self.arguments.get(key)?;
        value.as_bool().or_else(|| value.as_str()?.parse().ok())
    }
}

/// Why a configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfError {
    /// Not YAML.
    #[error("the scheduler configuration is not valid YAML: {0}")]
    Yaml(String),
    /// The wrong shape.
    #[error("the scheduler configuration has the wrong shape: {path} must be {expected}")]
    Shape {
        /// Where.
        path: String,
        /// What belongs there.
        expected: &'static str,
    },
    /// No such action.
    #[error("the scheduler configuration names an unknown action {name:?}{}", hint(.name, SchedulingAction::ALL.map(SchedulingAction::name)))]
    UnknownAction {
        /// The name.
        name: String,
    },
}

/// Plugins of Volcano that the engine does not have yet.
const MISSING_PLUGINS: [&str; 9] = [
    "cdp",
    "deviceshare",
    "extender",
    "network-topology-aware",
    "numa-aware",
    "rescheduling",
    "task-topology",
    "tdm",
    "usage",
];
const TOP_KEYS: &[&str] = &["actions", "tiers", "configurations", "metrics"];
const FLAGS: &[&str] = &[
    "enableHierarchy",
    "enableJobOrder",
    "enableJobReady",
    "enableJobPipelined",
    "enableJobEnqueued",
    "enableTaskOrder",
    "enablePreemptable",
    "enableReclaimable",
    "enablePreemptive",
    "enableQueueOrder",
    "enablePredicate",
    "enableBestNode",
    "enableNodeOrder",
    "enableTargetJob",
    "enableReservedNodes",
    "enableJobStarving",
    "enabledVictim",
    "enabledOverused",
    "enabledAllocatable",
    "enabledHyperNodeOrder",
    "enabledSubJobReady",
    "enabledSubJobPipelined",
    "enabledSubJobOrder",
    "enabledHyperNodeGradient",
    "EnabledClusterOrder",
];

/// Returns whether the engine has a plugin of this name.
pub fn is_supported_plugin(name: &str) -> bool {
    plugin_names().any(|known| known == name)
}

impl Conf {
    /// Reads a configuration.
    pub fn parse(text: &str) -> Result<Conf, ConfError> {
        let value: Value = serde_saphyr::from_str(text).map_err(|error| ConfError::Yaml(error.to_string()))?;
        let top = object(&value, "the document")?;
        let mut conf = Conf::default();
        conf.warn_unknown(top.keys(), TOP_KEYS, "");
        let actions = top.get("actions").map_or(Ok(""), |value| {
            value.as_str().ok_or(ConfError::Shape {
                path: "actions".into(),
                expected: "a text",
            })
        })?;
        for name in actions.split(',').map(str::trim).filter(|name| !name.is_empty()) {
            conf.add_action(name)?;
        }
        for (at, tier) in list(top.get("tiers"), "tiers")?.iter().enumerate() {
            conf.add_tier(at, tier)?;
        }
        for (at, entry) in list(top.get("configurations"), "configurations")?.iter().enumerate() {
            let path = format!("configurations[{at}]");
            let entry = object(entry, &path)?;
            conf.warn_unknown(entry.keys(), &["name", "arguments"], &path);
            let name = name_of(entry, &path)?;
            conf.configurations.insert(name, arguments_of(entry, &path)?);
        }
        conf.place_reserve();
        Ok(conf)
    }

    /// The embedded configuration.
    pub fn embedded() -> Conf {
        Conf::parse(EMBEDDED).unwrap_or_default()
    }

    /// Whether an action is part of the cycle.
    pub fn has_action(&self, action: SchedulingAction) -> bool {
        self.actions.contains(&action)
    }

    /// Whether any action takes room from those who have it.
    pub fn evicts(&self) -> bool {
        use SchedulingAction::{GangPreempt, GangReclaim, Preempt, Reclaim};
        let evicts = |action: &SchedulingAction| matches!(action, Preempt | Reclaim | GangPreempt | GangReclaim);
        self.actions.iter().any(evicts)
    }

    /// Whether a plugin is in some tier.
    pub fn has_plugin(&self, name: &str) -> bool {
        self.tiers.iter().flatten().any(|plugin| plugin.name == name)
    }

    fn add_action(&mut self, name: &str) -> Result<(), ConfError> {
        let unknown = |UnknownAction| ConfError::UnknownAction { name: name.to_owned() };
        self.actions.push(name.parse().map_err(unknown)?);
        Ok(())
    }

    /// Runs the action of the plugin `node_reservation` first where it is not listed: configurations from before it had a
    /// name keep their meaning.
    fn place_reserve(&mut self) {
        let (listed, reserves) = (
            self.has_action(SchedulingAction::Reserve),
            self.has_plugin(NODE_RESERVATION),
        );
        if reserves && !listed {
            self.actions.insert(0, SchedulingAction::Reserve);
        } else if listed && !reserves {
            self.warnings.push(format!(
                "action \"reserve\" does nothing without the plugin {NODE_RESERVATION:?}"
            ));
        }
    }

    fn add_tier(&mut self, at: usize, tier: &Value) -> Result<(), ConfError> {
        let path = format!("tiers[{at}]");
        let tier = object(tier, &path)?;
        self.warn_unknown(tier.keys(), &["plugins"], &path);
        let mut plugins = Vec::new();
        for (at, entry) in list(tier.get("plugins"), &format!("{path}.plugins"))?
            .iter()
            .enumerate()
        {
            let path = format!("{path}.plugins[{at}]");
            plugins.push(self.read_plugin(entry, &path)?);
        }
        self.tiers.push(plugins);
        Ok(())
    }

    fn read_plugin(&mut self, entry: &Value, path: &str) -> Result<PluginConf, ConfError> {
        let entry = object(entry, path)?;
        let name = name_of(entry, path)?;
        if !is_supported_plugin(&name) {
            if MISSING_PLUGINS.contains(&name.as_str()) {
                self.lacking
                    .push(format!("plugin {name:?} is not supported yet and is skipped"));
                self.warnings.extend(self.lacking.last().cloned());
            } else {
                let known = plugin_names().chain(MISSING_PLUGINS);
                self.warnings
                    .push(format!("unknown plugin {name:?} is skipped{}", hint(&name, known)));
            }
        }
        let known: Vec<&str> = FLAGS.iter().copied().chain(["name", "arguments"]).collect();
        self.warn_unknown(entry.keys(), &known, path);
        let mut plugin = PluginConf {
            name,
            arguments: arguments_of(entry, path)?,
            ..Default::default()
        };
        for (key, value) in entry.iter().filter(|(key, _)| FLAGS.contains(&key.as_str())) {
            let path = || format!("{path}.{key}");
            let on = value.as_bool().ok_or_else(|| ConfError::Shape {
                path: path(),
                expected: "true or false",
            })?;
            plugin.flags.insert(key.clone(), on);
        }
        Ok(plugin)
    }

    fn warn_unknown<'a>(&mut self, keys: impl Iterator<Item = &'a String>, known: &[&str], path: &str) {
        for key in keys.filter(|key| !known.contains(&key.as_str())) {
            let place = if path.is_empty() {
                String::new()
            } else {
                format!(" in {path}")
            };
            self.warnings.push(format!(
                "unknown key {key:?}{place} is ignored{}",
                hint(key, known.iter().copied())
            ));
        }
    }
}

fn object<'a>(value: &'a Value, path: &str) -> Result<&'a Map<String, Value>, ConfError> {
    value.as_object().ok_or_else(|| ConfError::Shape {
        path: path.to_owned(),
        expected: "a mapping",
    })
}

fn list<'a>(value: Option<&'a Value>, path: &str) -> Result<&'a [Value], ConfError> {
    match value {
        None | Some(Value::Null) => Ok(&[]),
        Some(Value::Array(items)) => Ok(items),
        Some(_) => Err(ConfError::Shape {
            path: path.to_owned(),
            expected: "a list",
        }),
    }
}

fn name_of(entry: &Map<String, Value>, path: &str) -> Result<String, ConfError> {
    let name = entry.get("name").and_then(Value::as_str);
    name.map(str::to_owned).ok_or_else(|| ConfError::Shape {
        path: format!("{path}.name"),
        expected: "a text",
    })
}

fn arguments_of(entry: &Map<String, Value>, path: &str) -> Result<Map<String, Value>, ConfError> {
    match entry.get("arguments") {
        None | Some(Value::Null) => Ok(Map::new()),
        Some(value) => object(value, &format!("{path}.arguments")).cloned(),
    }
}

/// ", did you mean …?" where a known word is near.
fn hint<'k>(word: &str, known: impl IntoIterator<Item = &'k str>) -> String {
    let candidates = known
        .into_iter()
        .map(|candidate| (distance(word, candidate), candidate));
    let near = candidates.min();
    match near {
        Some((steps, candidate)) if steps <= 1 + word.len() / 4 => format!(", did you mean {candidate:?}?"),
        _ => String::new(),
    }
}

/// How many letters have to be added, dropped or changed.
fn distance(a: &str, b: &str) -> usize {
    let (a, b) = (a.to_lowercase(), b.to_lowercase());
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().take(64).enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, &y) in b.iter().enumerate() {
            let change = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = change.min(row[j] + 1).min(row[j + 1] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, warnings: &[&str]) -> Conf {
        let conf = Conf::parse(text).unwrap();
        assert_eq!(conf.warnings, warnings);
        conf
    }

    fn names(conf: &Conf) -> Vec<&'static str> {
        conf.actions.iter().map(|action| action.name()).collect()
    }

    #[test]
    fn every_action_has_a_name() {
        for action in SchedulingAction::ALL {
            assert_eq!(action.to_string().parse(), Ok(action));
        }
        assert_eq!("fly".parse::<SchedulingAction>(), Err(UnknownAction));
    }

    #[test]
    fn reserve_comes_first_unless_it_is_listed() {
        let with_plugin = |actions: &str| {
            let text = format!("actions: {actions}\ntiers: [{{plugins: [{{name: node_reservation}}]}}]");
            names(&check(&text, &[])).join(" ")
        };
        assert_eq!(with_plugin("enqueue, allocate"), "reserve enqueue allocate");
        assert_eq!(with_plugin("enqueue, allocate, reserve"), "enqueue allocate reserve");
        assert_eq!(names(&check("actions: allocate", &[])), ["allocate"]);
        let warning = "action \"reserve\" does nothing without the plugin \"node_reservation\"";
        assert_eq!(
            names(&check("actions: reserve, allocate", &[warning])),
            ["reserve", "allocate"]
        );
    }

    #[test]
    fn embedded_parses() {
        let conf = Conf::embedded();
        assert_eq!(
            names(&conf),
            ["reserve", "enqueue", "allocate", "reclaim", "gangreclaim", "backfill"]
        );
        assert_eq!(conf.tiers.iter().map(Vec::len).collect::<Vec<_>>(), [3, 7]);
        assert_eq!(conf.warnings, [""; 0]);
        let capacity = &conf.tiers[1][3];
        assert!(capacity.is_on("enableHierarchy") && capacity.boolean("deservedFromWeight") == Some(true));
        assert!(!conf.tiers[1][1].is_on("enablePreemptable") && conf.tiers[1][1].is_on("enableJobOrder"));
    }

    #[test]
    fn warnings_suggest() {
        check(
            "actoins: x\nactions: allocate",
            &["unknown key \"actoins\" is ignored, did you mean \"actions\"?"],
        );
        check(
            "tiers: [{plugins: [{name: gangs}, {name: gang, enableJobRedy: true}]}]",
            &[
                "unknown plugin \"gangs\" is skipped, did you mean \"gang\"?",
                "unknown key \"enableJobRedy\" in tiers[0].plugins[1] is ignored, did you mean \"enableJobReady\"?",
            ],
        );
        let conf = check(
            "actions: ' allocate ,enqueue,'\nconfigurations: [{name: allocate, arguments: {a: 1}}]",
            &[],
        );
        assert_eq!(names(&conf), ["allocate", "enqueue"]);
        assert_eq!(conf.configurations["allocate"]["a"], 1);
    }

    #[test]
    fn refusals() {
        for (text, part) in [
            (
                "actions: alocate",
                "unknown action \"alocate\", did you mean \"allocate\"?",
            ),
            ("actions: [a]", "actions must be a text"),
            ("tiers: 1", "tiers must be a list"),
            ("tiers: [{plugins: [{}]}]", "tiers[0].plugins[0].name must be a text"),
            (
                "tiers: [{plugins: [{name: gang, enableJobOrder: 1}]}]",
                "enableJobOrder must be true or false",
            ),
            ("[", "not valid YAML"),
        ] {
            let error = Conf::parse(text).unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
