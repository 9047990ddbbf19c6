//! The API over HTTP, driven in-process: raw requests and `kube::Client`, over a store in memory.

#[path = "http/admission.rs"]
mod admission;
#[path = "http/custom.rs"]
mod custom;
#[path = "http/host.rs"]
mod host;
#[path = "http/lists.rs"]
mod lists;
#[path = "http/objects.rs"]
mod objects;
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
