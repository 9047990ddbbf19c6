//! Get: one object, in the form that the client asked for.

use axum::body::Body;
use http::{Response, StatusCode};

use crate::http::request::call::Call;
use crate::http::response::presentation;
use crate::http::response::status::ApiResult;
use crate::http::verbs::list;

pub(crate) fn get(call: &Call) -> ApiResult<Response<Body>> {
    let object = call
        .store()
        .get(&call.key(&call.name))
        .ok_or_else(|| call.not_found())?;
    list::check_not_older(call, object.revision)?;
    Ok(presentation::answer(call, StatusCode::OK, &object))
}
