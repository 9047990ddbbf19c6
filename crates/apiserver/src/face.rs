//! The HTTP face: Kubernetes' API over the store.
//!
//! One fallback handler reads the path ([`path`]), finds the kind ([`registry`]) and runs one verb ([`call`]). Objects
//! are kept as the JSON bytes that are served, so reads and watches parse nothing. The same handler answers over TLS
//! ([`tls`]) and, without a socket, as the service of a `kube::Client` ([`Server::client`]).

mod activity;
mod admission;
mod auth;
mod body;
mod bootstrap;
mod call;
mod create;
mod custom;
mod delete;
mod discovery;
mod evict;
pub mod host;
mod incoming;
mod index;
mod kinds;
mod list;
mod meta;
mod negotiate;
mod openapi;
mod pages;
mod patch;
mod path;
mod pki;
mod pods;
mod present;
mod registry;
mod reviews;
mod scale;
mod server;
mod status;
mod strategy;
mod tls;
mod tokens;
mod update;
mod watch;

pub use admission::{AdmissionHook, Rules};
pub use auth::{ADMIN, Identity};
pub use body::BODY_MAX;
pub use bootstrap::BootstrapError;
pub use index::index;
pub use kinds::{CustomShape, Kind, ScalePaths, Shape, Sub, Verbs};
pub use pki::{Pki, PkiError};
pub use registry::Registry;
pub use server::{Clock, Server, ServerOptions, Uids};
pub use status::{ApiError, ApiResult};
pub use tls::{FaceOptions, ServeError, serve_router, serve_tls};

pub(crate) use call::Call;
pub(crate) use create::insert;
pub(crate) use custom::{CLEANUP_FINALIZER, RESOURCE as DEFINITIONS};
pub(crate) use delete::{DeleteOptions, FOREGROUND, ORPHAN, Propagation, delete_one};
pub(crate) use evict::weigh;
pub(crate) use meta::{Head, Owner, at, head, text};
pub(crate) use update::{Modified, modify};
