//! `mpi`: the hosts that the master starts processes on, and an open port.

use basalt_api::job::TaskSpec;
use basalt_api::job::plugins::Mpi;
use k8s_openapi::api::core::v1::{EnvVar, PodSpec};

use super::hosts::{Gang, Way};
use super::{Act, edit};

const MPI_HOST: &str = "MPI_HOST";

/// Tells the master its workers.
#[derive(Debug)]
pub(super) struct HostList {
    settings: Mpi,
    /// `MPI_HOST`, where it can be had; else there is the file of `svc`.
    variable: Option<EnvVar>,
}

impl HostList {
    pub(super) fn new(settings: Mpi, gang: &Gang) -> Self {
        let variable = gang.task(&settings.worker).and_then(|task| match gang.way_of(task) {
            Way::Text(list) => Some(edit::text(MPI_HOST, &list)),
            Way::Reference => Some(edit::reference(MPI_HOST, &gang.files(), &task.hosts_variable(), true)),
            Way::None => None,
        });
        Self { settings, variable }
    }
}

impl Act for HostList {
    fn shape(&self, task: &TaskSpec, pod: &mut PodSpec) {
        let is_master = task.name == self.settings.master;
        for container in edit::containers(pod) {
            edit::open_port(container, "mpijob-port", self.settings.port.number());
            if let Some(variable) = self.variable.clone().filter(|_| is_master) {
                edit::set_env(container, variable);
            }
        }
    }
}
