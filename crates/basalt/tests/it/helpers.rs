//! Jobs, applied and looked at with `kubectl`.

use crate::server::Server;

/// A Job of `pods` pods that need `cpu` each, all at once, on nodes with the label `on`.
pub(crate) fn job(name: &str, pods: u32, cpu: &str, on: &str) -> String {
    job_in("default", name, (pods, pods), cpu, on)
}

/// A Job in a queue, of so many pods of which so many are needed; its pods carry its name as the label `app`.
pub(crate) fn job_in(queue: &str, name: &str, (pods, min): (u32, u32), cpu: &str, on: &str) -> String {
    format!(
        "apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {{name: {name}}}
spec:
  queue: {queue}
  minAvailable: {min}
  schedulerName: volcano
  tasks:
  - name: w
    replicas: {pods}
    template:
      metadata: {{labels: {{app: {name}}}}}
      spec:
        restartPolicy: Never
        nodeSelector: {{{on}}}
        containers:
        - {{name: main, image: busybox, resources: {{requests: {{cpu: {cpu}}}}}}}
"
    )
}

pub(crate) fn apply(server: &Server, manifest: &str) {
    let file = server.data.join("manifest.yaml");
    std::fs::write(&file, manifest).expect("a manifest");
    server.kubectl(&["apply", "-f", file.to_str().expect("a path of text")]);
}

pub(crate) fn metric(server: &Server, name: &str) -> Option<f64> {
    let text = server.metrics();
    let line = text.lines().find(|line| {
        let rest = line.strip_prefix(name);
        rest.is_some_and(|rest| rest.starts_with(' '))
    })?;
    line.rsplit(' ').next()?.parse().ok()
}

pub(crate) fn is_running(server: &Server, job: &str) -> bool {
    server.kubectl(&["get", "vcjob", job, "-o", "jsonpath={.status.state.phase}"]) == "Running"
}
