//! The API over HTTP, driven in-process: raw requests and `kube::Client`, over a store in memory.

#[path = "http/admission.rs"]
mod admission;
#[path = "http/custom.rs"]
mod custom;
#[path = "http/lists.rs"]
mod lists;
#[path = "http/objects.rs"]
mod objects;
#[path = "http/pod_exec.rs"]
mod pod_exec;
#[path = "http/pod_host.rs"]
mod pod_host;
#[path = "http/pod_logs.rs"]
mod pod_logs;
#[path = "http/pods.rs"]
mod pods;
#[path = "http/refusals.rs"]
mod refusals;
#[path = "http/scripted.rs"]
mod scripted;
#[path = "http/serving.rs"]
mod serving;
#[path = "http/watches.rs"]
mod watches;
#[path = "http/workers.rs"]
mod workers;
#[path = "http/world.rs"]
mod world;
