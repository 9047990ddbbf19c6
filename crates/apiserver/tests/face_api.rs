//! The HTTP face, driven in-process: raw requests and `kube::Client`, over a store in memory.

#[path = "face/admission.rs"]
mod admission;
#[path = "face/custom.rs"]
mod custom;
#[path = "face/host.rs"]
mod host;
#[path = "face/lists.rs"]
mod lists;
#[path = "face/objects.rs"]
mod objects;
#[path = "face/pods.rs"]
mod pods;
#[path = "face/refusals.rs"]
mod refusals;
#[path = "face/scripted.rs"]
mod scripted;
#[path = "face/serving.rs"]
mod serving;
#[path = "face/watches.rs"]
mod watches;
#[path = "face/workers.rs"]
mod workers;
#[path = "face/world.rs"]
mod world;
