//! Requests about a part of an object, or about an action on it: `binding`, `eviction`, `scale`, `token`, `log`, `exec`.

pub(super) mod binding;
pub(super) mod eviction;
pub mod pod_host;
pub(super) mod scale;
pub(super) mod service_account_token;
