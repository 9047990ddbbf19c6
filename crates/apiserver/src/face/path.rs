//! Paths and queries: what a request is about, read from its URL.

use std::borrow::Cow;

use super::status::{ApiError, ApiResult};
use crate::machinery::table::Include;

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
const URL_MAX: usize = 64 * 1024;

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

/// The parameters of a request. Unknown ones are ignored, as Kubernetes does.
#[derive(Debug, Default, Clone)]
pub(crate) struct Query {
    pub(crate) label_selector: String,
    pub(crate) field_selector: String,
    pub(crate) limit: u64,
    pub(crate) continue_token: String,
    pub(crate) resource_version: String,
    pub(crate) resource_version_match: String,
    pub(crate) watch: bool,
    pub(crate) bookmarks: bool,
    pub(crate) send_initial_events: Option<bool>,
    pub(crate) timeout_seconds: Option<u64>,
    pub(crate) dry_run: bool,
    pub(crate) field_validation: FieldValidation,
    pub(crate) grace_period_seconds: Option<i64>,
    pub(crate) propagation: Option<String>,
    pub(crate) include_object: Include,
}

/// What happens to fields that the schema does not know.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FieldValidation {
    Ignore,
    #[default]
    Warn,
    Strict,
}

impl Query {
    /// Reads the part of the URL after `?`.
    pub(crate) fn parse(text: Option<&str>) -> ApiResult<Query> {
        let mut query = Query::default();
        let Some(text) = text.filter(|text| !text.is_empty()) else {
            return Ok(query);
        };
        if text.len() > URL_MAX {
            return Err(ApiError::new(414, "RequestURITooLong", "request URI too long"));
        }
        for pair in text.split('&') {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            query.set(&unescape(key, true)?, unescape(value, true)?.into_owned())?;
        }
        Ok(query)
    }

    fn set(&mut self, key: &str, value: String) -> ApiResult<()> {
        match key {
            "labelSelector" => self.label_selector = value,
            "fieldSelector" => self.field_selector = value,
            "limit" => self.limit = number(key, &value)?,
            "continue" => self.continue_token = value,
            "resourceVersion" => self.resource_version = value,
            "resourceVersionMatch" => self.resource_version_match = value,
            "watch" => self.watch = boolean(&value),
            "allowWatchBookmarks" => self.bookmarks = boolean(&value),
            "sendInitialEvents" => self.send_initial_events = Some(boolean(&value)),
            "timeoutSeconds" => self.timeout_seconds = Some(number(key, &value)?),
            "dryRun" => self.dry_run = dry_run(&value)?,
            "fieldValidation" => self.field_validation = field_validation(&value)?,
            "gracePeriodSeconds" => self.grace_period_seconds = Some(number(key, &value)?.cast_signed()),
            "propagationPolicy" => self.propagation = Some(value),
            "orphanDependents" if boolean(&value) => self.propagation = Some("Orphan".to_owned()),
            "includeObject" => self.include_object = Include::parse(&value).unwrap_or_default(),
            _ => {}
        }
        Ok(())
    }
}

pub(crate) fn boolean(value: &str) -> bool {
    !matches!(value, "false" | "0" | "False" | "FALSE" | "f" | "F")
}

fn number(key: &str, value: &str) -> ApiResult<u64> {
    if value.is_empty() {
        return Ok(0);
    }
    let fits = |number: &u64| *number <= i64::MAX.cast_unsigned();
    value
        .parse()
        .ok()
        .filter(fits)
        .ok_or_else(|| ApiError::bad_request(format!("invalid {key}: {value:?} is not a number")))
}

fn dry_run(value: &str) -> ApiResult<bool> {
    match value {
        "All" => Ok(true),
        "" => Ok(false),
        other => Err(ApiError::new(
            422,
            "Invalid",
            format!("dryRun: Unsupported value: \"{other}\": supported values: \"All\""),
        )),
    }
}

fn field_validation(value: &str) -> ApiResult<FieldValidation> {
    match value {
        "Ignore" => Ok(FieldValidation::Ignore),
        "" | "Warn" => Ok(FieldValidation::Warn),
        "Strict" => Ok(FieldValidation::Strict),
        other => Err(ApiError::new(
            422,
            "Invalid",
            format!(
                "fieldValidation: Unsupported value: \"{other}\": supported values: \"Ignore\", \"Strict\", \"Warn\""
            ),
        )),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

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
