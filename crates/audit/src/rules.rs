//! Which promises a scheduler's configuration makes.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::read::{at, entries, list, text};

/// A scheduler's configuration (`volcano-scheduler.conf`, as JSON), read for what it promises.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    actions: Vec<String>,
    plugins: Vec<Plugin>,
    /// Placements that wait for others to end may be kept for a job that does not reach its minimum.
    pub(crate) holds_partial: bool,
}

#[derive(Clone, Debug, Default)]
struct Plugin {
    name: String,
    tier: usize,
    flags: BTreeMap<String, bool>,
    arguments: Value,
}

/// How a capacity plugin shares the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Capacity {
    /// Queues form a tree, and limits of all queues above count.
    pub tree: bool,
    /// What a queue leaves unset follows from its weight.
    pub from_weight: bool,
    /// Up to this many levels above, what an ancestor deserves counts too.
    pub level: i64,
}

impl Rules {
    /// Reads a configuration.
    pub fn read(conf: &Value) -> Self {
        let mut plugins = Vec::new();
        for (tier, plugin) in list(conf, &["tiers"])
            .iter()
            .enumerate()
            .flat_map(|(at, tier)| list(tier, &["plugins"]).iter().map(move |plugin| (at, plugin)))
        {
            plugins.push(Plugin {
                name: text(plugin, &["name"]).to_owned(),
                tier,
                flags: entries(plugin, &[])
                    .filter_map(|(key, value)| Some((key.to_owned(), value.as_bool()?)))
                    .collect(),
                arguments: at(plugin, &["arguments"]).clone(),
            });
        }
        let holds_partial = plugins.iter().any(|plugin| plugin.name == "sla");
        let actions = text(conf, &["actions"])
            .split(',')
            .map(|action| action.trim().to_owned());
        Self {
            actions: actions.collect(),
            plugins,
            holds_partial,
        }
    }

    /// When in a cycle it is an action's turn; none: it is not part of it.
    pub(crate) fn turn(&self, action: &str) -> Option<usize> {
        self.actions.iter().position(|one| one == action)
    }

    /// When in a cycle pods are last given nodes for which nobody has to go.
    pub(crate) fn last_binds(&self) -> Option<usize> {
        let binds = |action: &String| matches!(action.as_str(), "allocate" | "backfill");
        self.actions.iter().rposition(binds)
    }

    /// When in a cycle pods are first given nodes for which nobody has to go.
    pub(crate) fn first_binds(&self) -> Option<usize> {
        let binds = |action: &String| matches!(action.as_str(), "allocate" | "backfill");
        self.actions.iter().position(binds)
    }

    fn plugin(&self, name: &str) -> Option<&Plugin> {
        self.plugins.iter().find(|plugin| plugin.name == name)
    }

    /// Whether a plugin is there with this flag on; flags that are not written are on.
    pub(crate) fn has(&self, name: &str, flag: &str) -> bool {
        self.plugin(name)
            .is_some_and(|plugin| plugin.flags.get(flag).copied().unwrap_or(true))
    }

    /// Whether a plugin's word is heard before that of all plugins of later tiers.
    pub(crate) fn leads(&self, name: &str, flag: &str) -> bool {
        self.has(name, flag) && self.plugin(name).is_some_and(|plugin| plugin.tier == 0)
    }

    /// Whether the plugin `predicates` looks at this: its arguments can switch it off.
    pub(crate) fn looks_at(&self, argument: &str) -> bool {
        self.has("predicates", "enablePredicate")
            && self
                .plugin("predicates")
                .is_none_or(|plugin| truth(at(&plugin.arguments, &[argument])).unwrap_or(true))
    }

    /// The rule of the capacity plugin, if it is there.
    pub(crate) fn capacity(&self) -> Option<Capacity> {
        let plugin = self.plugin("capacity")?;
        let argument = |name| at(&plugin.arguments, &[name]);
        Some(Capacity {
            tree: plugin.flags.get("enableHierarchy").copied().unwrap_or(false),
            from_weight: truth(argument("deservedFromWeight")).unwrap_or(false),
            level: argument("ancestorReclaimLevel").as_i64().unwrap_or(0),
        })
    }

    /// Whether nodes can be locked for queues.
    pub(crate) fn locks(&self) -> bool {
        self.plugin("node_reservation").is_some()
    }

    /// Whether the cluster is shared by weight.
    pub(crate) fn proportion(&self) -> bool {
        self.plugin("proportion").is_some()
    }
}

fn truth(value: &Value) -> Option<bool> {
    value.as_bool().or_else(|| value.as_str()?.parse().ok())
}
