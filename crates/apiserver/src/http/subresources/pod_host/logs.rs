//! `GET pods/NAME/log`: the output of a container.

use axum::body::Body;
use futures::StreamExt;
use http::{HeaderValue, Response, header};
use jiff::{SignedDuration, Timestamp};

use super::{Asked, LogAsk, container, is_on, last, over};
use crate::http::response::status::{ApiError, ApiResult};

/// Reads what is asked for and hands it on as it comes.
pub(super) async fn read(asked: Asked<'_>, parameters: &[(String, String)]) -> ApiResult<Response<Body>> {
    let ask = options(parameters, asked.server.now())?;
    let hosted = &asked.hosted;
    container::check_log(&asked.pod, &hosted.pod, &hosted.container, ask.previous)?;
    let pieces = asked.host()?.logs(asked.hosted.clone(), ask).await?;
    let mut closing = asked.server.inner.closing.subscribe();
    let pieces = pieces.take_until(Box::pin(async move { over(&mut closing).await }));
    let mut response = Response::new(Body::from_stream(pieces));
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    Ok(response)
}

fn options(parameters: &[(String, String)], now: Timestamp) -> ApiResult<LogAsk> {
    let since_seconds = number(parameters, "sinceSeconds", 1)?;
    let since_time = last(parameters, "sinceTime").map(|given| {
        let read: Result<Timestamp, _> = given.parse();
        read.map_err(|error| ApiError::bad_request(format!("invalid sinceTime {given:?}: {error}")))
    });
    let since = match (since_seconds, since_time.transpose()?) {
        (Some(_), Some(_)) => {
            let why = "Forbidden: at most one of `sinceTime` or `sinceSeconds` may be specified";
            return Err(invalid("sinceSeconds", why));
        }
        (Some(seconds), None) => {
            let before = SignedDuration::from_secs(i64::try_from(seconds).unwrap_or(i64::MAX));
            now.checked_sub(before).ok()
        }
        (None, time) => time,
    };
    Ok(LogAsk {
        follow: is_on(parameters, "follow"),
        previous: is_on(parameters, "previous"),
        timestamps: is_on(parameters, "timestamps"),
        since,
        tail_lines: number(parameters, "tailLines", 0)?,
        limit_bytes: number(parameters, "limitBytes", 1)?,
    })
}

fn invalid(field: &str, why: &str) -> ApiError {
    ApiError::new(422, "Invalid", format!("PodLogOptions \"\" is invalid: {field}: {why}"))
}

fn number(parameters: &[(String, String)], key: &str, least: i64) -> ApiResult<Option<u64>> {
    let Some(given) = last(parameters, key) else {
        return Ok(None);
    };
    let read: i64 = given
        .parse()
        .map_err(|_| ApiError::bad_request(format!("invalid {key}: {given:?} is not a number")))?;
    if read < least {
        let bound = if least == 0 {
            "greater than or equal to 0"
        } else {
            "greater than 0"
        };
        return Err(invalid(key, &format!("Invalid value: {read}: must be {bound}")));
    }
    Ok(u64::try_from(read).ok())
}
