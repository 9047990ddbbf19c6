//! The files of configMap, secret, downwardAPI and projected volumes.

use std::collections::BTreeMap;
use std::path::PathBuf;

use k8s_openapi::api::core::v1::{ConfigMap, Container, DownwardAPIVolumeFile, KeyToPath, Pod, Secret, Volume};

use super::files::FileText;
use super::is_below;
use crate::local::environment::{Sources, container_named};
use crate::local::fields::{self, Surroundings};
use crate::local::trouble::Trouble;

const MODE: i32 = 0o644;

/// Whether the volume is made of objects rather than of disk.
pub(crate) fn has_contents(volume: &Volume) -> bool {
    volume.config_map.is_some()
        || volume.secret.is_some()
        || volume.downward_api.is_some()
        || volume.projected.is_some()
}

/// What is in such a volume now.
pub(crate) fn contents(
    pod: &Pod,
    volume: &Volume,
    around: &Surroundings,
    sources: &Sources,
) -> Result<Vec<FileText>, Trouble> {
    let mut files = Files {
        name: &volume.name,
        pod,
        around,
        sources,
        found: BTreeMap::new(),
    };
    if let Some(source) = &volume.config_map {
        let mode = source.default_mode.unwrap_or(MODE);
        files.add_object(
            (Kind::Map, &source.name),
            source.items.as_deref(),
            mode,
            source.optional,
        )?;
    }
    if let Some(source) = &volume.secret {
        let mode = source.default_mode.unwrap_or(MODE);
        let name = source.secret_name.as_deref().unwrap_or_default();
        files.add_object((Kind::Secret, name), source.items.as_deref(), mode, source.optional)?;
    }
    if let Some(source) = &volume.downward_api {
        files.add_fields(source.items.as_deref(), source.default_mode.unwrap_or(MODE))?;
    }
    if let Some(projected) = &volume.projected {
        let mode = projected.default_mode.unwrap_or(MODE);
        for source in projected.sources.iter().flatten() {
            if let Some(map) = &source.config_map {
                files.add_object((Kind::Map, &map.name), map.items.as_deref(), mode, map.optional)?;
            } else if let Some(secret) = &source.secret {
                files.add_object(
                    (Kind::Secret, &secret.name),
                    secret.items.as_deref(),
                    mode,
                    secret.optional,
                )?;
            } else if let Some(fields) = &source.downward_api {
                files.add_fields(fields.items.as_deref(), mode)?;
            } else {
                return Err(Trouble::refused(
                    "UnsupportedVolume",
                    format!(
                        "volume {:?}: of projections this node has configMap, secret and downwardAPI",
                        volume.name
                    ),
                ));
            }
        }
    }
    Ok(files.found.into_values().collect())
}

/// Objects whose keys become files.
#[derive(Clone, Copy)]
enum Kind {
    Map,
    Secret,
}

struct Files<'a> {
    name: &'a str,
    pod: &'a Pod,
    around: &'a Surroundings,
    sources: &'a Sources,
    found: BTreeMap<PathBuf, FileText>,
}

impl Files<'_> {
    /// The keys of an object, all or those that are listed.
    fn add_object(
        &mut self,
        (kind, name): (Kind, &str),
        items: Option<&[KeyToPath]>,
        mode: i32,
        optional: Option<bool>,
    ) -> Result<(), Trouble> {
        let (keys, kind) = match kind {
            Kind::Map => (self.sources.config_maps.get(name).map(keys_of_map), "configmap"),
            Kind::Secret => (self.sources.secrets.get(name).map(keys_of_secret), "secret"),
        };
        let optional = optional == Some(true);
        let volume = self.name;
        let missing = |what: String| Trouble::mount(format!("volume {volume:?}: {what}"));
        let Some(keys) = keys else {
            return if optional {
                Ok(())
            } else {
                Err(missing(format!("{kind} {name:?} not found")))
            };
        };
        let Some(items) = items.filter(|items| !items.is_empty()) else {
            for (key, bytes) in keys {
                self.add(key, bytes.to_vec(), mode)?;
            }
            return Ok(());
        };
        for item in items {
            match keys.get(item.key.as_str()) {
                Some(bytes) => self.add(&item.path, bytes.to_vec(), item.mode.unwrap_or(mode))?,
                None if optional => {}
                None => return Err(missing(format!("{kind} {name:?} has no key {:?}", item.key))),
            }
        }
        Ok(())
    }

    fn add_fields(&mut self, items: Option<&[DownwardAPIVolumeFile]>, mode: i32) -> Result<(), Trouble> {
        for item in items.unwrap_or_default() {
            let text = if let Some(selector) = &item.field_ref {
                fields::field(self.pod, self.around, &selector.field_path).ok_or_else(|| {
                    let message = format!("volume {:?}: there is no field {:?}", self.name, selector.field_path);
                    Trouble::refused("InvalidFieldRef", message)
                })?
            } else if let Some(selector) = &item.resource_field_ref {
                let nobody = Container::default();
                let container = container_named(self.pod, &nobody, selector.container_name.as_deref());
                fields::resource(container, self.around, selector)?
            } else {
                String::new()
            };
            self.add(&item.path, text.into_bytes(), item.mode.unwrap_or(mode))?;
        }
        Ok(())
    }

    fn add(&mut self, path: &str, bytes: Vec<u8>, mode: i32) -> Result<(), Trouble> {
        let at = PathBuf::from(path);
        if path.is_empty() || path.starts_with("..") || !is_below(&at) {
            let message = format!("volume {:?}: {path:?} is no path below it", self.name);
            return Err(Trouble::refused("InvalidVolume", message));
        }
        let mode = u32::try_from(mode).unwrap_or(0) & 0o777;
        self.found.insert(at.clone(), FileText { path: at, bytes, mode });
        Ok(())
    }
}

fn keys_of_map(map: &ConfigMap) -> BTreeMap<&str, &[u8]> {
    let texts = map.data.iter().flatten().map(|(k, v)| (k.as_str(), v.as_bytes()));
    let bytes = map
        .binary_data
        .iter()
        .flatten()
        .map(|(k, v)| (k.as_str(), v.0.as_slice()));
    texts.chain(bytes).collect()
}

fn keys_of_secret(secret: &Secret) -> BTreeMap<&str, &[u8]> {
    let bytes = secret.data.iter().flatten();
    bytes.map(|(k, v)| (k.as_str(), v.0.as_slice())).collect()
}
