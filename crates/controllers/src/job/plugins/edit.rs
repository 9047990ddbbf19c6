//! Small edits of templates and pods that keep what the user wrote.

use k8s_openapi::api::core::v1::{
    ConfigMapKeySelector, Container, ContainerPort, EnvVar, EnvVarSource, PodSpec, Volume, VolumeMount,
};
use serde_json::{Map, Value, json};

/// All containers of a pod, init containers among them.
pub(super) fn containers(pod: &mut PodSpec) -> impl Iterator<Item = &mut Container> {
    pod.init_containers.iter_mut().flatten().chain(&mut pod.containers)
}

/// A variable with a value.
pub(super) fn text(name: &str, value: &str) -> EnvVar {
    EnvVar {
        name: name.to_owned(),
        value: Some(value.to_owned()),
        value_from: None,
    }
}

/// A variable with the content of a key of a ConfigMap.
pub(super) fn reference(name: &str, config_map: &str, key: &str, optional: bool) -> EnvVar {
    let selector = ConfigMapKeySelector {
        key: key.to_owned(),
        name: config_map.to_owned(),
        optional: optional.then_some(true),
    };
    EnvVar {
        name: name.to_owned(),
        value: None,
        value_from: Some(EnvVarSource {
            config_map_key_ref: Some(selector),
            ..EnvVarSource::default()
        }),
    }
}

/// Sets a variable in place, or adds it.
pub(super) fn set_env(container: &mut Container, variable: EnvVar) {
    let env = container.env.get_or_insert_default();
    match env.iter_mut().find(|other| other.name == variable.name) {
        Some(other) => *other = variable,
        None => env.push(variable),
    }
}

/// Sets variables in all containers.
pub(super) fn set_env_everywhere(pod: &mut PodSpec, variables: &[EnvVar]) {
    for container in containers(pod) {
        for variable in variables {
            set_env(container, variable.clone());
        }
    }
}

/// Opens a port, unless it is open; the name is left out if another port has it.
pub(super) fn open_port(container: &mut Container, name: &str, number: u16) {
    let number = i32::from(number);
    let ports = container.ports.get_or_insert_default();
    if ports.iter().any(|port| port.container_port == number) {
        return;
    }
    let taken = ports.iter().any(|port| port.name.as_deref() == Some(name));
    ports.push(ContainerPort {
        container_port: number,
        name: (!taken).then(|| name.to_owned()),
        ..ContainerPort::default()
    });
}

/// Adds a volume and mounts it in all containers, unless the user has one of that name or a mount at that place.
pub(super) fn mount(pod: &mut PodSpec, volume: Volume, place: &VolumeMount) {
    let volumes = pod.volumes.get_or_insert_default();
    if !volumes.iter().any(|other| other.name == volume.name) {
        volumes.push(volume);
    }
    let path = |mount: &VolumeMount| mount.mount_path.trim_end_matches('/').to_owned();
    for container in containers(pod) {
        let mounts = container.volume_mounts.get_or_insert_default();
        if !mounts.iter().any(|other| path(other) == path(place)) {
            mounts.push(place.clone());
        }
    }
}

/// The `spec` of a pod as JSON.
pub(super) fn spec(pod: &mut Value) -> Option<&mut Map<String, Value>> {
    pod.get_mut("spec")?.as_object_mut()
}

/// Sets variables in all containers of a pod as JSON, in place or at the end.
pub(super) fn stamp_env(pod: &mut Value, variables: &[(&str, &str)]) {
    let Some(spec) = spec(pod) else { return };
    for list in ["initContainers", "containers"] {
        let containers = spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten();
        for container in containers.filter_map(Value::as_object_mut) {
            let env = container.entry("env").or_insert_with(|| json!([]));
            let Some(env) = env.as_array_mut() else { continue };
            for (name, value) in variables {
                let variable = json!({"name": name, "value": value});
                match env.iter_mut().find(|other| other["name"] == *name) {
                    Some(other) => *other = variable,
                    None => env.push(variable),
                }
            }
        }
    }
}
