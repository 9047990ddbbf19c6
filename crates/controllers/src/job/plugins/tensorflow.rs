//! `tensorflow`: `TF_CONFIG`, with all addresses of the cluster and the pod's own place in it.
//!
//! Each pod's value holds the whole cluster. In a large job that would be gigabytes of pods, so there the
//! cluster is kept once in the ConfigMap of `svc`, and Kubernetes puts it into the value of each pod.

use std::sync::Arc;

use basalt_api::job::TaskSpec;
use basalt_api::job::plugins::Tensorflow;
use k8s_openapi::api::core::v1::PodSpec;
use serde_json::{Value, json};

use super::hosts::{Gang, TaskHosts, Way};
use super::{Act, edit};

const TF_CONFIG: &str = "TF_CONFIG";
/// Variable and file with the cluster.
const CLUSTER: &str = "VC_TENSORFLOW_CLUSTER";

/// All addresses by role.
#[derive(Debug)]
pub(super) struct Cluster {
    settings: Tensorflow,
    gang: Arc<Gang>,
    way: Way<()>,
}

impl Cluster {
    pub(super) fn new(settings: Tensorflow, gang: Arc<Gang>) -> Self {
        let mut cluster = Self {
            settings,
            gang,
            way: Way::None,
        };
        cluster.way = cluster.gang.way_of_bytes(cluster.bytes());
        cluster
    }

    /// Roles in the order of Volcano's JSON, with the tasks that play them.
    fn roles(&self) -> impl Iterator<Item = (&'static str, &TaskHosts)> {
        let Tensorflow {
            ps,
            worker,
            chief,
            evaluator,
            ..
        } = &self.settings;
        [
            ("ps", ps),
            ("worker", worker),
            ("chief", chief),
            ("evaluator", evaluator),
        ]
        .into_iter()
        .filter_map(|(role, task)| Some((role, self.gang.task(task)?)))
        .filter(|(_, task)| task.hosts.count() > 0)
    }

    /// At least as many bytes as `TF_CONFIG` has.
    fn bytes(&self) -> u64 {
        let beside_each = r#""":65535,"#.len();
        let beside_all = (CLUSTER.len() + 512) as u64;
        let lists = self.roles().map(|(_, task)| task.hosts.bytes(beside_each));
        lists.fold(beside_all, u64::saturating_add)
    }

    fn text(&self) -> String {
        let port = self.settings.port.number();
        let lists: Vec<String> = self
            .roles()
            .map(|(role, task)| {
                let hosts: Vec<String> = task.hosts.addresses().map(|host| format!("{host}:{port}")).collect();
                format!("{}:{}", json!(role), json!(hosts))
            })
            .collect();
        format!("{{{}}}", lists.join(","))
    }

    /// The entry in the ConfigMap: null if it is not needed there, for it may have been.
    pub(super) fn file(&self) -> (String, Value) {
        let content = match self.way {
            Way::Reference => json!(self.text()),
            Way::Text(()) | Way::None => Value::Null,
        };
        (CLUSTER.to_owned(), content)
    }

    /// What a task is called in the cluster.
    fn role<'a>(&self, task: &'a str) -> &'a str {
        let known = self.roles().find(|(_, other)| other.task == task);
        known.map_or(task, |(role, _)| role)
    }
}

/// Tells each pod its place.
#[derive(Debug)]
pub(super) struct TfConfig {
    cluster: Arc<Cluster>,
    /// The cluster as pods write it; nothing for a pod that is alone, or for a cluster that does not fit.
    written: Option<String>,
}

impl TfConfig {
    pub(super) fn new(cluster: Arc<Cluster>) -> Self {
        let is_alone = matches!(cluster.gang.tasks.as_slice(), [task] if task.hosts.count() == 1);
        let written = match cluster.way {
            _ if is_alone => None,
            Way::Text(()) => Some(cluster.text()),
            Way::Reference => Some(format!("$({CLUSTER})")),
            Way::None => None,
        };
        Self { cluster, written }
    }
}

impl Act for TfConfig {
    fn shape(&self, _: &TaskSpec, pod: &mut PodSpec) {
        if self.written.is_none() || self.cluster.way != Way::Reference {
            return;
        }
        let files = self.cluster.gang.files();
        for container in edit::containers(pod) {
            // A value can only hold variables that stand before it.
            let env = container.env.get_or_insert_default();
            env.retain(|variable| variable.name != TF_CONFIG && variable.name != CLUSTER);
            env.push(edit::reference(CLUSTER, &files, CLUSTER, true));
        }
    }

    fn stamp(&self, task: &TaskSpec, index: u32, pod: &mut Value) {
        if let Some(cluster) = &self.written {
            let role = json!(self.cluster.role(&task.name));
            let value = format!(r#"{{"cluster":{cluster},"task":{{"type":{role},"index":{index}}}}}"#);
            edit::stamp_env(pod, &[(TF_CONFIG, &value)]);
        }
    }
}
