//! `pytorch`: what torch.distributed asks its environment for.

use basalt_api::Job;
use basalt_api::job::TaskSpec;
use basalt_api::job::plugins::Pytorch;
use k8s_openapi::api::core::v1::{Container, PodSpec};
use serde_json::Value;

use super::hosts::Gang;
use super::{Act, edit, replicas};

const WAITER: &str = "wait-for-master";

/// Tries once a second, with what the image has; the arguments are host, port and seconds.
const WAIT_SCRIPT: &str = r#"end=$(($(date +%s) + $3))
until { nc -z -w 1 "$1" "$2" || bash -c ': >"/dev/tcp/$0/$1"' "$1" "$2"; } >/dev/null 2>&1; do
  if [ "$(date +%s)" -ge "$end" ]; then
    echo "$1:$2 did not answer within $3 s" >&2
    exit 1
  fi
  sleep 1
done
"#;

/// Ranks pods: masters first, then workers.
#[derive(Debug)]
pub(super) struct Ranks {
    settings: Pytorch,
    /// Where the first master is; without a master nothing is done.
    master: Option<String>,
    masters: u32,
    world: u32,
}

impl Ranks {
    pub(super) fn new(settings: Pytorch, job: &Job, gang: &Gang) -> Self {
        let master = gang.task(&settings.master).map(|task| task.hosts.address(0));
        let masters = replicas(job, &settings.master);
        let workers = if settings.worker == settings.master {
            0
        } else {
            replicas(job, &settings.worker)
        };
        Self {
            settings,
            master,
            masters,
            world: masters.saturating_add(workers),
        }
    }

    fn rank(&self, task: &TaskSpec, index: u32) -> Option<u32> {
        match &task.name {
            name if *name == self.settings.master => Some(index),
            name if *name == self.settings.worker => Some(self.masters.saturating_add(index)),
            _ => None,
        }
    }

    fn waiter(&self, master: &str) -> Container {
        let port = self.settings.port.number().to_string();
        let timeout = self.settings.wait_timeout.count().to_string();
        let command = ["sh", "-c", WAIT_SCRIPT, WAITER, master, &port, &timeout];
        Container {
            name: WAITER.to_owned(),
            image: Some(self.settings.wait_image.reference().to_owned()),
            command: Some(command.map(str::to_owned).to_vec()),
            ..Container::default()
        }
    }
}

impl Act for Ranks {
    fn shape(&self, task: &TaskSpec, pod: &mut PodSpec) {
        let Some(master) = &self.master else { return };
        let port = self.settings.port.number();
        let variables = [
            edit::text("MASTER_ADDR", master),
            edit::text("MASTER_PORT", &port.to_string()),
            edit::text("WORLD_SIZE", &self.world.to_string()),
        ];
        edit::set_env_everywhere(pod, &variables);
        for container in &mut pod.containers {
            edit::open_port(container, "pytorchjob-port", port);
        }
        let is_worker = task.name == self.settings.worker && task.name != self.settings.master;
        if self.settings.wait_master && is_worker {
            let first = pod.init_containers.get_or_insert_default();
            if !first.iter().any(|container| container.name == WAITER) {
                first.push(self.waiter(master));
            }
        }
    }

    fn stamp(&self, task: &TaskSpec, index: u32, pod: &mut Value) {
        if self.master.is_some()
            && let Some(rank) = self.rank(task, index)
        {
            edit::stamp_env(pod, &[("RANK", &rank.to_string())]);
        }
    }
}
