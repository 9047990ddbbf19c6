//! `ray`: starts a head and the workers that join it, and gives the head a Service.

use std::sync::Arc;

use basalt_api::job::TaskSpec;
use basalt_api::job::plugins::{Plugin, Ray};
use basalt_api::{Job, ObjectRef, names, resource_kind};
use k8s_openapi::api::core::v1::{Container, PodSpec};
use serde_json::{Value, json};

use super::hosts::Gang;
use super::{Act, Wanted, edit, owned};
use crate::object;

/// Starts Ray.
#[derive(Debug)]
pub(super) struct HeadAndWorkers {
    settings: Ray,
    gang: Arc<Gang>,
}

impl HeadAndWorkers {
    pub(super) fn new(settings: Ray, gang: Arc<Gang>) -> Self {
        Self { settings, gang }
    }

    /// The head's ports by name, each number once.
    fn ports(&self) -> Vec<(&'static str, u16)> {
        let Ray {
            port,
            dashboard_port,
            client_port,
            ..
        } = &self.settings;
        let mut ports: Vec<(&'static str, u16)> = Vec::new();
        for (name, port) in [
            ("gcs", port),
            ("dashboard", dashboard_port),
            ("client-server", client_port),
        ] {
            if !ports.iter().any(|(_, other)| *other == port.number()) {
                ports.push((name, port.number()));
            }
        }
        ports
    }

    fn start_head(&self, container: &mut Container) {
        for (name, number) in self.ports() {
            edit::open_port(container, name, number);
        }
        let Ray {
            port,
            dashboard_port,
            client_port,
            ..
        } = &self.settings;
        let (port, dashboard, client) = (port.number(), dashboard_port.number(), client_port.number());
        let flags = format!("--port={port} --dashboard-port={dashboard} --ray-client-server-port={client}");
        run(
            container,
            format!("ray start --head --block --dashboard-host=0.0.0.0 {flags}"),
        );
    }

    fn start_worker(&self, container: &mut Container) {
        if let Some(head) = self.gang.task(&self.settings.head) {
            let (host, port) = (head.hosts.address(0), self.settings.port.number());
            run(container, format!("ray start --block --address={host}:{port}"));
        }
    }
}

fn run(container: &mut Container, command: String) {
    container.command = Some(vec!["sh".to_owned(), "-c".to_owned(), command]);
}

impl Act for HeadAndWorkers {
    fn shape(&self, task: &TaskSpec, pod: &mut PodSpec) {
        for container in &mut pod.containers {
            if task.name == self.settings.head && container.name == self.settings.head_container {
                self.start_head(container);
            } else if task.name == self.settings.worker && container.name == self.settings.worker_container {
                self.start_worker(container);
            }
        }
    }

    fn wanted(&self, job: &Job, _: &[u8; 32]) -> Vec<Wanted> {
        let name = format!("{}-head-svc", self.gang.job);
        let target = ObjectRef::new(resource_kind::SERVICE, &self.gang.namespace, &name);
        let selector = json!({
            names::JOB_NAME: self.gang.job,
            names::JOB_NAMESPACE: self.gang.namespace,
            names::TASK_SPEC: self.settings.head,
        });
        // By number: a port that the user opened may have another name.
        let port = |(name, number)| json!({"name": name, "port": number, "targetPort": number, "protocol": "TCP"});
        let ports: Vec<Value> = self.ports().into_iter().map(port).collect();
        let object = json!({
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": object::value(&owned(job, &target)),
            "spec": {"selector": selector, "ports": ports},
        });
        vec![Wanted::once(Plugin::Ray, target, object)]
    }
}
