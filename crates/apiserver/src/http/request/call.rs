//! One request about a resource, read from its URL and its headers.

use std::sync::Arc;

use http::HeaderMap;

use crate::http::metadata;
use crate::http::registry::kinds::{Kind, Sub};
use crate::http::request::authentication::Identity;
use crate::http::request::negotiation::Form;
use crate::http::request::query::Query;
use crate::http::response::status::ApiError;
use crate::http::server::Server;
use crate::store::{Key, Store};

/// One request about a resource, read from its head.
pub(crate) struct Call {
    pub(crate) server: Server,
    pub(crate) kind: Arc<Kind>,
    /// Empty for cluster-scoped kinds and for all namespaces.
    pub(crate) namespace: Arc<str>,
    /// Empty for the collection.
    pub(crate) name: Arc<str>,
    pub(crate) sub: Option<Sub>,
    pub(crate) query: Query,
    pub(crate) form: Form,
    pub(crate) identity: Identity,
    pub(crate) headers: HeaderMap,
}

impl Call {
    pub(crate) fn store(&self) -> &Store {
        &self.server.inner.store
    }

    /// Where an object of this call's kind and namespace is kept.
    pub(crate) fn key(&self, name: &str) -> Key {
        Key {
            resource: self.kind.resource.clone(),
            namespace: self.namespace.clone(),
            name: name.into(),
        }
    }

    /// The namespace for a list: none for all of them.
    pub(crate) fn list_namespace(&self) -> Option<&str> {
        (!self.namespace.is_empty()).then_some(self.namespace.as_ref())
    }

    pub(crate) fn not_found(&self) -> ApiError {
        ApiError::not_found(&self.kind, &self.name)
    }

    /// The time as objects carry it.
    pub(crate) fn now(&self) -> String {
        metadata::time(self.server.now())
    }

    /// A copy that outlives the request.
    pub(crate) fn copy(&self) -> Call {
        self.about(&self.namespace, &self.name)
    }

    /// The same request about another object.
    pub(crate) fn about(&self, namespace: &Arc<str>, name: &Arc<str>) -> Call {
        Call {
            server: self.server.clone(),
            kind: self.kind.clone(),
            namespace: namespace.clone(),
            name: name.clone(),
            sub: self.sub,
            query: self.query.clone(),
            form: self.form,
            identity: self.identity.clone(),
            headers: self.headers.clone(),
        }
    }

    /// A request that the server makes of itself.
    pub(crate) fn internal(server: &Server, kind: &Arc<Kind>, namespace: &str, name: &str) -> Call {
        Call {
            server: server.clone(),
            kind: kind.clone(),
            namespace: namespace.into(),
            name: name.into(),
            sub: None,
            query: Query::default(),
            form: Form::Plain,
            identity: Identity::admin("system:apiserver"),
            headers: HeaderMap::new(),
        }
    }
}
