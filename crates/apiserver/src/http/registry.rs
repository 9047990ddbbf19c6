//! Which kinds are served now: the built-in table plus what CustomResourceDefinitions define.

pub(super) mod custom_resources;
pub(super) mod kinds;
pub(super) mod selector_index;
pub(super) mod strategies;

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use kinds::Kind;

/// An immutable table of served kinds; a change of a CRD makes a new one.
#[derive(Debug, Default)]
pub struct Registry {
    groups: BTreeMap<Arc<str>, Group>,
    /// Documents that are made once per table, by path and form.
    pub(crate) documents: parking_lot::Mutex<BTreeMap<String, Arc<OnceLock<Bytes>>>>,
}

/// One API group.
#[derive(Debug, Default)]
pub(crate) struct Group {
    /// Newest and most stable version first.
    pub(crate) versions: Vec<GroupVersion>,
}

/// One version of a group, with its resources by plural name.
#[derive(Debug)]
pub(crate) struct GroupVersion {
    pub(crate) version: Arc<str>,
    pub(crate) kinds: BTreeMap<Arc<str>, Arc<Kind>>,
}

impl Registry {
    /// The table of built-in kinds and of the kinds that CRDs define.
    pub(crate) fn new(custom: impl IntoIterator<Item = Arc<Kind>>) -> Registry {
        let mut registry = Registry::default();
        for kind in kinds::built_in().iter().cloned().chain(custom) {
            if registry.find(&kind.group, &kind.version, &kind.plural).is_none() {
                registry.add(kind);
            }
        }
        for group in registry.groups.values_mut() {
            group
                .versions
                .sort_by_key(|gv| std::cmp::Reverse(version_rank(&gv.version)));
        }
        registry
    }

    fn add(&mut self, kind: Arc<Kind>) {
        let group = self.groups.entry(kind.group.clone()).or_default();
        match group.versions.iter_mut().find(|gv| gv.version == kind.version) {
            Some(gv) => {
                gv.kinds.insert(kind.plural.clone(), kind);
            }
            None => group.versions.push(GroupVersion {
                version: kind.version.clone(),
                kinds: BTreeMap::from([(kind.plural.clone(), kind)]),
            }),
        }
    }

    /// The kind served under that group, version and plural name.
    pub fn find(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<Kind>> {
        self.group_version(group, version)?.kinds.get(plural)
    }

    /// Any version of the kind with that `apiVersion` group and kind name; the preferred one first.
    pub fn by_kind(&self, group: &str, kind: &str) -> Option<&Arc<Kind>> {
        let group = self.groups.get(group)?;
        group
            .versions
            .iter()
            .flat_map(|gv| gv.kinds.values())
            .find(|found| found.kind.as_ref() == kind)
    }

    /// The kind that keeps its objects under the store's `resource`.
    pub fn by_resource(&self, resource: &str) -> Option<&Arc<Kind>> {
        self.kinds().find(|kind| kind.resource.as_ref() == resource)
    }

    pub(crate) fn group_version(&self, group: &str, version: &str) -> Option<&GroupVersion> {
        self.groups
            .get(group)?
            .versions
            .iter()
            .find(|gv| gv.version.as_ref() == version)
    }

    pub(crate) fn groups(&self) -> impl Iterator<Item = (&Arc<str>, &Group)> {
        self.groups.iter()
    }

    pub(crate) fn group(&self, group: &str) -> Option<&Group> {
        self.groups.get(group)
    }

    /// All served kinds.
    pub fn kinds(&self) -> impl Iterator<Item = &Arc<Kind>> {
        self.groups
            .values()
            .flat_map(|group| group.versions.iter().flat_map(|gv| gv.kinds.values()))
    }

    /// A document that is made at most once for this table.
    pub(crate) fn document(&self, path: &str, make: impl FnOnce() -> Bytes) -> Bytes {
        let cell = self.documents.lock().entry(path.to_owned()).or_default().clone();
        cell.get_or_init(make).clone()
    }
}

/// Orders versions as Kubernetes does: stable before beta before alpha, then by numbers; other names last.
fn version_rank(version: &str) -> (u8, u32, u32) {
    let parse = || {
        let rest = version.strip_prefix('v')?;
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let (major, stage) = rest.split_at(digits);
        let major = major.parse::<u32>().ok()?;
        Some(match stage {
            "" => (3, major, 0),
            stage => {
                let beta = stage.strip_prefix("beta").map(|minor| (2, minor));
                let (rank, minor) = beta.or_else(|| stage.strip_prefix("alpha").map(|minor| (1, minor)))?;
                (rank, major, minor.parse().ok()?)
            }
        })
    };
    parse().unwrap_or((0, 0, 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_ordered_by_stability() {
        let mut versions = ["v1alpha1", "foo", "v2", "v1", "v2beta1", "v10beta3", "v11alpha2"];
        versions.sort_by_key(|version| std::cmp::Reverse(version_rank(version)));
        assert_eq!(
            versions,
            ["v2", "v1", "v10beta3", "v2beta1", "v11alpha2", "v1alpha1", "foo"]
        );
    }

    #[test]
    fn no_workload_controllers_groups() {
        let registry = Registry::new([]);
        assert!(registry.group("apps").is_none() && registry.group("batch").is_none());
        assert_eq!(
            registry.find("", "v1", "pods").map(|kind| kind.kind.to_string()),
            Some("Pod".to_owned())
        );
    }
}
