//! Manifests that the steps apply.

/// A Job of pods that want one core each, in the namespace `default`.
pub(super) struct Job<'a> {
    pub(super) name: &'a str,
    pub(super) queue: &'a str,
    pub(super) pods: u32,
    pub(super) min: u32,
    /// More fields of the pods' spec.
    pub(super) pod_spec: &'a str,
    /// More of the pods' annotations.
    pub(super) annotations: &'a str,
}

/// A Job of one-core pods, of which `min` must run together.
pub(super) fn job(name: &str, queue: &str, pods: u32, min: u32) -> String {
    let job = Job {
        name,
        queue,
        pods,
        min,
        pod_spec: "",
        annotations: "",
    };
    job.yaml()
}

/// The same, whose pods go to nodes with a label, and of a priority class.
pub(super) fn job_with(name: &str, queue: &str, pods: u32, min: u32, pod_spec: &str) -> String {
    let job = Job {
        name,
        queue,
        pods,
        min,
        pod_spec,
        annotations: "",
    };
    job.yaml()
}

impl Job<'_> {
    pub(super) fn yaml(&self) -> String {
        let Self {
            name,
            queue,
            pods,
            min,
            pod_spec,
            annotations,
        } = self;
        let queue = if queue.is_empty() {
            String::new()
        } else {
            format!("  queue: {queue}\n")
        };
        let class = pod_spec
            .strip_prefix("priorityClassName: ")
            .map_or(String::new(), |class| format!("  priorityClassName: {class}\n"));
        let pod_spec = if pod_spec.is_empty() {
            String::new()
        } else {
            format!("        {pod_spec}\n")
        };
        format!(
            "apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {{name: {name}}}
spec:
{queue}{class}  minAvailable: {min}
  schedulerName: volcano
  tasks:
  - name: w
    replicas: {pods}
    template:
      metadata: {{annotations: {{{annotations}}}}}
      spec:
        restartPolicy: Never
{pod_spec}        containers:
        - {{name: main, image: busybox, resources: {{requests: {{cpu: 1}}}}}}
---
"
        )
    }
}

/// A PodGroup that nobody's Job stands behind.
pub(super) fn group(name: &str, queue: &str) -> String {
    format!(
        "apiVersion: scheduling.volcano.sh/v1beta1
kind: PodGroup
metadata: {{name: {name}}}
spec: {{queue: {queue}, minMember: 1}}
---
"
    )
}

/// A pod that names a queue and has no PodGroup.
pub(super) fn pod(name: &str, queue: &str) -> String {
    format!(
        "apiVersion: v1
kind: Pod
metadata: {{name: {name}, annotations: {{scheduling.volcano.sh/queue-name: {queue}}}}}
spec:
  schedulerName: volcano
  restartPolicy: Never
  containers:
  - {{name: main, image: busybox, resources: {{requests: {{cpu: 1}}}}}}
---
"
    )
}

/// A queue with whatever its spec shall be.
pub(super) fn queue(name: &str, spec: &str) -> String {
    format!(
        "apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata: {{name: {name}}}
spec: {{{spec}}}
---
"
    )
}
