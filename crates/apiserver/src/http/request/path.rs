//! What a request is about, read from the path of its URL.

use std::borrow::Cow;

use crate::http::response::status::{ApiError, ApiResult};

/// What a path names.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Route<'a> {
    /// `/healthz`, `/livez`.
    Health,
    /// `/readyz`.
    Ready,
    /// `/version`.
    Version,
    /// `/metrics`.
    Metrics,
    /// `/`: the list of paths.
    Root,
    /// `/api`.
    CoreVersions,
    /// `/apis`.
    Groups,
    /// `/apis/{group}`.
    Group(&'a str),
    /// `/api/v1` or `/apis/{group}/{version}`.
    GroupVersion { group: &'a str, version: &'a str },
    /// `/openapi/v3`.
    OpenApiIndex,
    /// `/openapi/v3/{api/v1 | apis/group/version}`.
    OpenApi(&'a str),
    /// Objects.
    Resource(ResourcePath<'a>),
    /// Nothing that is served.
    Unknown,
}

/// A path to a resource, an object, or a subresource.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ResourcePath<'a> {
    pub(crate) group: &'a str,
    pub(crate) version: &'a str,
    pub(crate) namespace: Option<Cow<'a, str>>,
    pub(crate) plural: &'a str,
    pub(crate) name: Option<Cow<'a, str>>,
    pub(crate) subresource: Option<&'a str>,
}

/// Longest path and query that are looked at.
pub(super) const URL_MAX: usize = 64 * 1024;

/// Reads a path.
pub(crate) fn parse(path: &str) -> ApiResult<Route<'_>> {
    if path.len() > URL_MAX {
        return Err(ApiError::new(414, "RequestURITooLong", "request URI too long"));
    }
    let trimmed = path.trim_matches('/');
    let mut segments = trimmed.split('/');
    Ok(match segments.next().unwrap_or_default() {
        "" => Route::Root,
        "healthz" | "livez" => Route::Health,
        "readyz" => Route::Ready,
        "version" => Route::Version,
        "metrics" => Route::Metrics,
        "openapi" => match trimmed.strip_prefix("openapi/v3") {
            Some("") => Route::OpenApiIndex,
            Some(rest) => rest.strip_prefix('/').map_or(Route::Unknown, Route::OpenApi),
            None => Route::Unknown,
        },
        "api" => match segments.next() {
            None => Route::CoreVersions,
            Some(version) => resource("", version, segments)?,
        },
        "apis" => match (segments.next(), segments.next()) {
            (None, _) => Route::Groups,
            (Some(group), None) => Route::Group(group),
            (Some(group), Some(version)) => resource(group, version, segments)?,
        },
        _ => Route::Unknown,
    })
}

fn resource<'a>(group: &'a str, version: &'a str, rest: std::str::Split<'a, char>) -> ApiResult<Route<'a>> {
    let mut segments = [""; 6];
    let mut count = 0;
    for segment in rest {
        let Some(slot) = segments.get_mut(count) else {
            return Ok(Route::Unknown);
        };
        *slot = segment;
        count += 1;
    }
    let path = |namespace: Option<&'a str>, plural, name: Option<&'a str>, subresource| -> ApiResult<Route<'a>> {
        Ok(Route::Resource(ResourcePath {
            group,
            version,
            namespace: namespace.map(|text| unescape(text, false)).transpose()?,
            plural,
            name: name.map(|text| unescape(text, false)).transpose()?,
            subresource,
        }))
    };
    match segments.get(..count).unwrap_or_default() {
        [] => Ok(Route::GroupVersion { group, version }),
        // A namespace's own subresources; no resource has these names.
        ["namespaces", name, sub @ ("status" | "finalize")] => path(None, "namespaces", Some(name), Some(sub)),
        ["namespaces", namespace, plural] => path(Some(namespace), plural, None, None),
        ["namespaces", namespace, plural, name] => path(Some(namespace), plural, Some(name), None),
        ["namespaces", namespace, plural, name, sub] => path(Some(namespace), plural, Some(name), Some(sub)),
        [plural] => path(None, plural, None, None),
        [plural, name] => path(None, plural, Some(name), None),
        [plural, name, sub] => path(None, plural, Some(name), Some(sub)),
        _ => Ok(Route::Unknown),
    }
}

/// Undoes percent encoding; in queries `+` is a space.
pub(crate) fn unescape(text: &str, plus: bool) -> ApiResult<Cow<'_, str>> {
    if !text.bytes().any(|byte| byte == b'%' || (plus && byte == b'+')) {
        return Ok(Cow::Borrowed(text));
    }
    let bad = || ApiError::bad_request(format!("invalid URL escape in {text:?}"));
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b'+' if plus => out.push(b' '),
            b'%' => {
                let digit = |byte: Option<u8>| byte.and_then(|byte| char::from(byte).to_digit(16)).ok_or_else(bad);
                let (high, low) = (digit(bytes.next())?, digit(bytes.next())?);
                out.push((high * 16 + low) as u8);
            }
            other => out.push(other),
        }
    }
    String::from_utf8(out).map(Cow::Owned).map_err(|_| bad())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::http::request::query::Query;

    fn check(path: &str, namespace: Option<&str>, plural: &str, name: Option<&str>, sub: Option<&str>) {
        let Ok(Route::Resource(found)) = parse(path) else {
            panic!("{path} is no resource")
        };
        let parts = (
            found.namespace.as_deref(),
            found.plural,
            found.name.as_deref(),
            found.subresource,
        );
        assert_eq!(parts, (namespace, plural, name, sub), "{path}");
    }

    #[test]
    fn resources() {
        check("/api/v1/pods", None, "pods", None, None);
        check("/api/v1/namespaces", None, "namespaces", None, None);
        check("/api/v1/namespaces/a", None, "namespaces", Some("a"), None);
        check(
            "/api/v1/namespaces/a/status",
            None,
            "namespaces",
            Some("a"),
            Some("status"),
        );
        check(
            "/api/v1/namespaces/a/finalize",
            None,
            "namespaces",
            Some("a"),
            Some("finalize"),
        );
        check("/api/v1/namespaces/a/pods/", Some("a"), "pods", None, None);
        check(
            "/api/v1/namespaces/a/pods/p/binding",
            Some("a"),
            "pods",
            Some("p"),
            Some("binding"),
        );
        check(
            "/apis/rbac.authorization.k8s.io/v1/clusterroles/system%3Ax",
            None,
            "clusterroles",
            Some("system:x"),
            None,
        );
        check("/apis/g/v1/widgets/w/scale", None, "widgets", Some("w"), Some("scale"));
    }

    #[test]
    fn other_routes() {
        let cases = [
            ("/", Route::Root),
            ("/api", Route::CoreVersions),
            (
                "/api/v1",
                Route::GroupVersion {
                    group: "",
                    version: "v1",
                },
            ),
            ("/apis/", Route::Groups),
            ("/apis/g", Route::Group("g")),
            (
                "/apis/g/v1",
                Route::GroupVersion {
                    group: "g",
                    version: "v1",
                },
            ),
            ("/openapi/v3", Route::OpenApiIndex),
            ("/openapi/v3/apis/g/v1", Route::OpenApi("apis/g/v1")),
            ("/openapi/v2", Route::Unknown),
            ("/openapi/v33", Route::Unknown),
            ("/api/v1/namespaces/a/pods/p/binding/more", Route::Unknown),
            ("/version", Route::Version),
            ("/livez/ping", Route::Health),
            ("/readyz", Route::Ready),
        ];
        for (path, expected) in cases {
            assert_eq!(parse(path).ok(), Some(expected), "{path}");
        }
    }

    proptest! {
        #[test]
        fn any_url_is_read_or_refused(path in ".{0,80}", query in ".{0,80}") {
            let _route = parse(&path).is_ok();
            let _query = Query::parse(Some(&query)).is_ok();
        }

        #[test]
        fn escapes_are_undone(text in ".{0,40}") {
            let escaped = text.bytes().map(|byte| format!("%{byte:02X}")).collect::<Vec<_>>().concat();
            let read = unescape(&escaped, false).expect("well-formed escapes");
            prop_assert_eq!(read, text);
        }
    }
}
