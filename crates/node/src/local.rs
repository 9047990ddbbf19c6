//! This machine as a node: bound pods run as local processes.
//!
//! Two programs share the work, so that pods outlive the server:
//!
//! - the *agent* (`agent`) lives in the server: it registers the Node, turns a bound pod into a [`plan::PodPlan`] in a folder
//!   of its own, starts the pod's shim, and turns what the shim says into `Pod.status`;
//! - the *shim* (`shim`, `basalt pod-shim`) is one small process per pod: it runs the containers in order, restarts them,
//!   probes them, keeps their logs, ends them, and says what happened ([`state::PodState`], also kept in a file).
//!
//! They talk in lines of JSON over one Unix socket that the agent listens on ([`talk`]). A shim whose agent has gone runs on
//! and calls again until there is one.

pub mod agent;
mod environment;
pub mod exec;
mod fields;
pub mod folder;
pub mod gpu;
mod hosts;
pub mod logs;
pub mod machine;
pub mod plan;
pub mod process;
pub mod shim;
pub mod state;
mod status;
pub mod talk;
mod trouble;
mod volumes;
