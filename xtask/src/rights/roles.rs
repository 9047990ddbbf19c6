//! What rendered roles and bindings grant to whom.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use serde_json::Value;

use super::Atom;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Rule {
    #[serde(default)]
    api_groups: Vec<String>,
    #[serde(default)]
    resources: Vec<String>,
    #[serde(default)]
    resource_names: Vec<String>,
    verbs: Vec<String>,
}

/// Which role: its namespace, if it has one, and its name.
type Key = (Option<String>, String);

/// Rights by account: `system:serviceaccount:NAMESPACE:NAME`.
#[derive(Debug)]
pub(super) struct Roles(BTreeMap<String, BTreeSet<Atom>>);

impl Roles {
    /// Reads a stream of YAML documents; those that are no roles or bindings are passed over.
    pub(super) fn read(text: &str) -> Result<Self> {
        let mut rules: BTreeMap<Key, Vec<Rule>> = BTreeMap::new();
        let mut bindings = Vec::new();
        for document in text.split("\n---") {
            // Definitions are large, and of no interest.
            let is_role = |line: &str| line.starts_with("kind: ") && line.contains("Role");
            if !document.lines().any(is_role) {
                continue;
            }
            let object: Value = serde_saphyr::from_str(document).context("a role or binding is no YAML")?;
            let (namespace, name) = (
                text_at(&object, "/metadata/namespace"),
                text_at(&object, "/metadata/name"),
            );
            let name = name.context("a role or binding without a name")?;
            match object["kind"].as_str() {
                Some("Role" | "ClusterRole") => {
                    let listed = serde_json::from_value(object["rules"].clone());
                    rules.insert(
                        (namespace, name.clone()),
                        listed.with_context(|| format!("rules of {name}"))?,
                    );
                }
                Some("RoleBinding" | "ClusterRoleBinding") => bindings.push((namespace, object)),
                _ => {}
            }
        }
        let mut roles = Self(BTreeMap::new());
        for (namespace, binding) in &bindings {
            roles.bind(namespace.as_deref(), binding, &rules)?;
        }
        Ok(roles)
    }

    fn bind(&mut self, namespace: Option<&str>, binding: &Value, rules: &BTreeMap<Key, Vec<Rule>>) -> Result<()> {
        let role = text_at(binding, "/roleRef/name").context("a binding without a role")?;
        let of_namespace = binding["roleRef"]["kind"] == "Role";
        let key = (of_namespace.then(|| namespace.unwrap_or_default().to_owned()), role);
        let Some(rules) = rules.get(&key) else {
            bail!("a binding names the role {}, which is not there", key.1);
        };
        let atoms: Vec<Atom> = rules.iter().flat_map(|rule| atoms(rule, namespace)).collect();
        for subject in binding["subjects"].as_array().into_iter().flatten() {
            if subject["kind"] == "ServiceAccount" {
                let part = |field: &str| subject[field].as_str().unwrap_or_default();
                let account = format!("system:serviceaccount:{}:{}", part("namespace"), part("name"));
                self.0.entry(account).or_default().extend(atoms.iter().cloned());
            }
        }
        Ok(())
    }

    /// The rights of an account; none for one that no binding names.
    pub(super) fn of(&self, account: &str) -> Option<&BTreeSet<Atom>> {
        self.0.get(account)
    }

    /// All accounts and their rights.
    pub(super) fn accounts(&self) -> impl Iterator<Item = (&str, &BTreeSet<Atom>)> {
        self.0.iter().map(|(account, atoms)| (account.as_str(), atoms))
    }
}

fn text_at(object: &Value, path: &str) -> Option<String> {
    object.pointer(path).and_then(Value::as_str).map(str::to_owned)
}

fn atoms(rule: &Rule, namespace: Option<&str>) -> Vec<Atom> {
    let any = [None];
    let named: Vec<Option<&String>> = rule.resource_names.iter().map(Some).collect();
    let names: &[Option<&String>] = if named.is_empty() { &any } else { &named };
    let mut atoms = Vec::new();
    for group in &rule.api_groups {
        for resource in &rule.resources {
            for verb in &rule.verbs {
                atoms.extend(names.iter().map(|name| Atom {
                    group: group.clone(),
                    resource: resource.clone(),
                    verb: verb.clone(),
                    namespace: namespace.map(str::to_owned),
                    name: name.cloned(),
                }));
            }
        }
    }
    atoms
}
