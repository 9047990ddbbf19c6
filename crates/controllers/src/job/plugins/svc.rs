//! `svc`: a name for each pod, files with the hosts of each task, and a network policy.

use std::sync::Arc;

use basalt_api::job::TaskSpec;
use basalt_api::job::plugins::{HOSTS_FOLDER, Plugin, Svc};
use basalt_api::{Job, ObjectRef, ResourceKind, names, resource_kind};
use k8s_openapi::api::core::v1::{ConfigMapVolumeSource, EnvVar, PodSpec, Volume, VolumeMount};
use serde_json::{Map, Value, json};

use super::hosts::{Gang, TaskHosts};
use super::tensorflow::Cluster;
use super::{Act, Wanted, edit, owned};
use crate::object;

/// Names pods and tells them about each other.
#[derive(Debug)]
pub(super) struct Names {
    settings: Svc,
    gang: Arc<Gang>,
    cluster: Option<Arc<Cluster>>,
}

impl Names {
    pub(super) fn new(settings: Svc, gang: Arc<Gang>, cluster: Option<Arc<Cluster>>) -> Self {
        Self {
            settings,
            gang,
            cluster,
        }
    }

    fn variables(&self) -> Vec<EnvVar> {
        let files = self.gang.files();
        let of_task = |task: &TaskHosts| {
            let hosts = task.hosts_variable();
            // A later change of replicas may make the list too long and take the key away; a container that restarts
            // then must not wait for it. Before the ConfigMap is there no container starts, for it is mounted too.
            let list = task.in_env.then(|| edit::reference(&hosts, &files, &hosts, true));
            let count = task.count_variable();
            list.into_iter().chain([edit::reference(&count, &files, &count, false)])
        };
        self.gang.tasks.iter().flat_map(of_task).collect()
    }

    /// The content of the ConfigMap; null for what is too long now and may have been there before.
    fn files(&self) -> Map<String, Value> {
        let mut files = Map::new();
        for task in &self.gang.tasks {
            let list = |there: bool, separator| {
                if there {
                    json!(task.hosts.join(separator))
                } else {
                    Value::Null
                }
            };
            files.insert(task.file(), list(task.in_file, "\n"));
            files.insert(task.hosts_variable(), list(task.in_env, ","));
            files.insert(task.count_variable(), json!(task.hosts.count().to_string()));
        }
        files.extend(self.cluster.as_ref().map(|cluster| cluster.file()));
        files
    }

    fn config_map(&self, job: &Job) -> Wanted {
        let target = self.target(resource_kind::CONFIG_MAP, &self.gang.files());
        let data = self.files();
        let present: Map<String, Value> = data.clone().into_iter().filter(|(_, text)| !text.is_null()).collect();
        let object = json!({
            "apiVersion": target.api_version,
            "kind": target.kind,
            "metadata": object::value(&owned(job, &target)),
            "data": present,
        });
        Wanted::following(Plugin::Svc, target, object, Value::Object(data))
    }

    fn service(&self, job: &Job) -> Wanted {
        let target = self.target(resource_kind::SERVICE, &self.gang.job);
        let mut spec = json!({"clusterIP": "None", "selector": self.labels()});
        if self.settings.publish_not_ready_addresses {
            spec["publishNotReadyAddresses"] = json!(true);
        }
        let object = json!({
            "apiVersion": target.api_version,
            "kind": target.kind,
            "metadata": object::value(&owned(job, &target)),
            "spec": spec,
        });
        Wanted::once(Plugin::Svc, target, object)
    }

    /// Lets nobody in but the job's own pods.
    fn network_policy(&self, job: &Job) -> Wanted {
        let target = self.target(resource_kind::NETWORK_POLICY, &self.gang.job);
        let own = json!({"matchLabels": self.labels()});
        let object = json!({
            "apiVersion": target.api_version,
            "kind": target.kind,
            "metadata": object::value(&owned(job, &target)),
            "spec": {
                "podSelector": own,
                "ingress": [{"from": [{"podSelector": own}]}],
                "policyTypes": ["Ingress"],
            },
        });
        Wanted::once(Plugin::Svc, target, object)
    }

    fn labels(&self) -> Value {
        json!({names::JOB_NAME: self.gang.job, names::JOB_NAMESPACE: self.gang.namespace})
    }

    fn target(&self, kind: ResourceKind, name: &str) -> ObjectRef {
        ObjectRef::new(kind, &self.gang.namespace, name)
    }
}

impl Act for Names {
    fn shape(&self, _: &TaskSpec, pod: &mut PodSpec) {
        if pod.subdomain.as_deref().unwrap_or_default().is_empty() {
            pod.subdomain = Some(self.gang.job.clone());
        }
        if self.settings.inject_hosts_env {
            edit::set_env_everywhere(pod, &self.variables());
        }
        let name = self.gang.files();
        let source = ConfigMapVolumeSource {
            name: name.clone(),
            ..ConfigMapVolumeSource::default()
        };
        let volume = Volume {
            name: name.clone(),
            config_map: Some(source),
            ..Volume::default()
        };
        let place = VolumeMount {
            name,
            mount_path: HOSTS_FOLDER.to_owned(),
            ..VolumeMount::default()
        };
        edit::mount(pod, volume, &place);
    }

    fn stamp(&self, task: &TaskSpec, index: u32, pod: &mut Value) {
        let Some(spec) = edit::spec(pod) else { return };
        let set = spec
            .get("hostname")
            .and_then(Value::as_str)
            .is_some_and(|name| !name.is_empty());
        if !set {
            spec.insert("hostname".to_owned(), json!(self.gang.pod(task, index)));
        }
    }

    fn wanted(&self, job: &Job, _: &[u8; 32]) -> Vec<Wanted> {
        let mut wanted = vec![self.config_map(job), self.service(job)];
        if !self.settings.disable_network_policy {
            wanted.push(self.network_policy(job));
        }
        wanted
    }
}
