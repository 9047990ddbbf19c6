//! The API over HTTP: Kubernetes' API over the store.
//!
//! A request goes from `server` (listening, routing) through `request` (what it says) and `registry` (which kind it
//! is about) to one of the `verbs` or `subresources`, and leaves as a `response`. Objects are kept as the JSON bytes
//! that are served, so reads and watches parse nothing. The same handler answers over TLS and, without a socket, as the
//! service of a `kube::Client` ([`Server::client`]).

mod admission;
mod discovery;
mod metadata;
mod registry;
mod request;
mod response;
mod server;
mod subresources;
mod verbs;

pub use admission::{AdmissionHook, Rules};
pub use registry::Registry;
pub use registry::kinds::{CustomShape, Kind, ScalePaths, Shape, Sub, Verbs};
pub use registry::selector_index::index;
pub use request::authentication::{ADMIN, Identity};
pub use request::body::BODY_MAX;
pub use response::status::{ApiError, ApiResult};
pub use server::bootstrap::BootstrapError;
pub use server::listener::{FaceOptions, ServeError, serve_router, serve_tls};
pub use server::pki::{Pki, PkiError};
pub use server::{Clock, Server, ServerOptions, Uids};
pub use subresources::pod_host;

pub(crate) use metadata::{Head, Owner, head};
pub(crate) use registry::custom_resources::{CLEANUP_FINALIZER, RESOURCE as DEFINITIONS};
pub(crate) use request::call::Call;
pub(crate) use subresources::eviction::weigh;
pub(crate) use verbs::create::insert;
pub(crate) use verbs::delete::{DeleteOptions, FOREGROUND, ORPHAN, Propagation, delete_one};
pub(crate) use verbs::update::{Modified, modify};
