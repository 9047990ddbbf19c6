//! Routing: from the URL of a request to the handler that answers it.

use std::panic::AssertUnwindSafe;

use axum::body::Body;
use futures::FutureExt;
use http::{Method, Request, Response, StatusCode};

use super::Server;
use crate::http::discovery::{groups, openapi};
use crate::http::registry::Registry;
use crate::http::registry::kinds::{Sub, Verbs};
use crate::http::request::call::Call;
use crate::http::request::path::{self, ResourcePath, Route};
use crate::http::request::query::Query;
use crate::http::request::{authentication, negotiation};
use crate::http::response::status::{ApiError, ApiResult};
use crate::http::subresources::pod_host;
use crate::http::verbs;

impl Server {
    /// Answers a request; a panic in a handler becomes an internal error.
    pub async fn handle(self, request: Request<Body>) -> Response<Body> {
        // A bug in one request must not take its caller down, who may be a controller in this process.
        match AssertUnwindSafe(self.dispatch(request)).catch_unwind().await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => error.response(),
            Err(_) => ApiError::internal("the request could not be handled").response(),
        }
    }

    /// Answers `/readyz`: a server that cannot write is not ready, although it can still read.
    fn readiness(&self) -> Response<Body> {
        match self.inner.store.refusal() {
            None => text_response(StatusCode::OK, "ok".to_owned()),
            Some(why) => text_response(
                StatusCode::INTERNAL_SERVER_ERROR,
                format!("[-]store failed: {why}\nreadyz check failed\n"),
            ),
        }
    }

    async fn dispatch(&self, request: Request<Body>) -> ApiResult<Response<Body>> {
        let (parts, body) = request.into_parts();
        let route = path::parse(parts.uri.path())?;
        match route {
            Route::Health => return Ok(text_response(StatusCode::OK, "ok".to_owned())),
            Route::Ready => return Ok(self.readiness()),
            Route::Version => return Ok(groups::version()),
            _ => {}
        }
        let identity = authentication::identify(&parts, self.inner.options.token.as_deref())?;
        let registry = self.registry();
        let read = || {
            if parts.method == Method::GET {
                Ok(())
            } else {
                Err(ApiError::method_not_allowed())
            }
        };
        let path = match route {
            Route::Resource(path) => path,
            Route::Metrics => {
                read()?;
                return self.metrics().await;
            }
            other => {
                read()?;
                return answer_discovery(&registry, &other, &parts);
            }
        };
        let kind = registry
            .find(path.group, path.version, path.plural)
            .ok_or_else(ApiError::no_resource)?
            .clone();
        let sub = path
            .subresource
            .map(|name| kind.subresource(name).ok_or_else(ApiError::no_resource))
            .transpose()?;
        check_scope(&path, kind.namespaced)?;
        if let Some(hosted @ (Sub::Log | Sub::Exec)) = sub {
            let pod = pod_host::PodName::of(&path);
            return pod_host::answer(self, &kind, pod, hosted, parts).await;
        }
        let reading = parts.method == Method::GET;
        let call = Call {
            server: self.clone(),
            namespace: path.namespace.as_deref().unwrap_or_default().into(),
            name: path.name.as_deref().unwrap_or_default().into(),
            sub,
            query: Query::parse(parts.uri.query())?,
            form: if reading || kind.verbs == Verbs::All {
                negotiation::form(&parts.headers)?
            } else {
                negotiation::Form::Plain
            },
            identity,
            kind,
            headers: parts.headers,
        };
        verbs::answer(&call, &parts.method, body).await
    }

    async fn metrics(&self) -> ApiResult<Response<Body>> {
        let page = self.inner.metrics.get().ok_or_else(ApiError::no_resource)?;
        let mut response = Response::new(Body::from((page.write)().await));
        let value = http::HeaderValue::from_static(page.content_type);
        response.headers_mut().insert(http::header::CONTENT_TYPE, value);
        Ok(response)
    }
}

/// Checks that the path has a namespace where the kind is namespaced, and none where it is not.
fn check_scope(path: &ResourcePath<'_>, namespaced: bool) -> ApiResult<()> {
    // Objects of namespaced kinds have a namespace; only lists may span all of them.
    let fits = match (&path.namespace, namespaced) {
        (Some(_), false) => false,
        (None, true) => path.name.is_none(),
        _ => true,
    };
    if fits { Ok(()) } else { Err(ApiError::no_resource()) }
}

/// Answers a request about groups, versions, resources or schemas.
fn answer_discovery(registry: &Registry, route: &Route<'_>, parts: &http::request::Parts) -> ApiResult<Response<Body>> {
    match *route {
        Route::Root => Ok(groups::paths(registry)),
        Route::CoreVersions => Ok(groups::roots(registry, true, negotiation::discovery(&parts.headers))),
        Route::Groups => Ok(groups::roots(registry, false, negotiation::discovery(&parts.headers))),
        Route::Group(group) => groups::group(registry, group),
        Route::GroupVersion { group, version } => groups::group_version(registry, group, version),
        Route::OpenApiIndex => Ok(openapi::index(registry)),
        Route::OpenApi(path) => openapi::document(registry, path),
        Route::Health | Route::Ready | Route::Version | Route::Metrics | Route::Resource(_) | Route::Unknown => {
            Err(ApiError::no_resource())
        }
    }
}

fn text_response(code: StatusCode, text: String) -> Response<Body> {
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = code;
    let value = http::HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(http::header::CONTENT_TYPE, value);
    response
}
