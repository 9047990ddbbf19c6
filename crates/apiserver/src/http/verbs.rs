//! What can be done with objects, one module per verb; every verb gets a [`Call`] and returns a response.

pub(super) mod commit;
pub(super) mod create;
pub(super) mod create_review;
pub(super) mod delete;
pub(super) mod get;
pub(super) mod list;
pub(super) mod list_pages;
pub(super) mod patch;
pub(super) mod update;
pub(super) mod watch;

use axum::body::Body;
use http::{Method, Response};

use super::registry::kinds::{Sub, Verbs};
use super::request::body;
use super::request::call::Call;
use super::response::status::{ApiError, ApiResult};
use super::subresources::{binding, eviction, scale, service_account_token};

/// Answers a request with the verb or the subresource that it names.
pub(crate) async fn answer(call: &Call, method: &Method, request: Body) -> ApiResult<Response<Body>> {
    let named = !call.name.is_empty();
    if call.kind.verbs == Verbs::CreateOnly {
        return match (method, named) {
            (&Method::POST, false) if call.kind.is("basalt.sh", "GangBinding") => {
                binding::bind_gang(call, &body::read_up_to(request, binding::GANG_BYTES_MAX).await?).await
            }
            (&Method::POST, false) => create_review::create(call, &body::read(request).await?),
            _ => Err(ApiError::method_not_allowed()),
        };
    }
    match (method, named, call.sub) {
        (&Method::GET, false, None) if call.query.watch => watch::watch(call),
        (&Method::GET, false, None) => list::list(call),
        (&Method::GET, true, None | Some(Sub::Status)) => get::get(call),
        (&Method::GET, true, Some(Sub::Scale)) => scale::get(call),
        (&Method::POST, false, None) => create::create(call, &body::read(request).await?).await,
        (&Method::POST, true, Some(Sub::Binding)) => binding::bind(call, &body::read(request).await?).await,
        (&Method::POST, true, Some(Sub::Eviction)) => eviction::evict(call, &body::read(request).await?).await,
        (&Method::POST, true, Some(Sub::Token)) => service_account_token::create(call, &body::read(request).await?),
        (&Method::PUT, true, None | Some(Sub::Status | Sub::Finalize)) => {
            update::replace(call, &body::read(request).await?).await
        }
        (&Method::PUT | &Method::PATCH, true, Some(Sub::Scale)) => {
            scale::change(call, method, &body::read(request).await?).await
        }
        (&Method::PATCH, true, None | Some(Sub::Status)) => patch::patch(call, &body::read(request).await?).await,
        (&Method::DELETE, true, None) => delete::delete(call, &body::read(request).await?).await,
        (&Method::DELETE, false, None) => delete::collection(call, &body::read(request).await?).await,
        _ => Err(ApiError::method_not_allowed()),
    }
}
