//! Discovery: which groups, versions and resources there are, in the three forms that clients ask for.

use axum::body::Body;
use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use serde_json::{Value, json};

use crate::http::registry::kinds::{Kind, api_version};
use crate::http::registry::{Group, GroupVersion, Registry};
use crate::http::request::negotiation::Discovery;
use crate::http::response::status::{ApiError, ApiResult, bytes_response, json_response};

/// Answers `/api` and `/apis`.
pub(crate) fn roots(registry: &Registry, core: bool, form: Discovery) -> Response<Body> {
    let version = match form {
        Discovery::V2 => "v2",
        Discovery::V2Beta1 => "v2beta1",
        Discovery::Plain => {
            let plain = if core { core_versions() } else { group_list(registry) };
            return json_response(StatusCode::OK, &plain);
        }
    };
    let path = format!("discovery {version} {core}");
    let body = registry.document(&path, || Bytes::from(aggregated(registry, core, version).to_string()));
    let mut response = bytes_response(StatusCode::OK, body);
    let content_type = match form {
        Discovery::V2 => "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
        _ => "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList",
    };
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
        .headers_mut()
        .insert(header::VARY, HeaderValue::from_static("Accept"));
    response
}

fn core_versions() -> Value {
    json!({
        "kind": "APIVersions", "versions": ["v1"],
        "serverAddressByClientCIDRs": [],
    })
}

fn group_list(registry: &Registry) -> Value {
    let groups: Vec<Value> = registry
        .groups()
        .filter(|(name, _)| !name.is_empty())
        .map(|(name, group)| plain_group(name, group))
        .collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

fn plain_group(name: &str, group: &Group) -> Value {
    let version = |gv: &GroupVersion| json!({"groupVersion": api_version(name, &gv.version), "version": gv.version});
    let versions: Vec<Value> = group.versions.iter().map(version).collect();
    let preferred = versions.first().cloned().unwrap_or_default();
    json!({"name": name, "versions": versions, "preferredVersion": preferred})
}

/// Answers `/apis/{group}`.
pub(crate) fn group(registry: &Registry, name: &str) -> ApiResult<Response<Body>> {
    let group = registry
        .group(name)
        .filter(|_| !name.is_empty())
        .ok_or_else(ApiError::no_resource)?;
    let mut answer = plain_group(name, group);
    answer["kind"] = "APIGroup".into();
    answer["apiVersion"] = "v1".into();
    Ok(json_response(StatusCode::OK, &answer))
}

/// Answers `/api/v1` and `/apis/{group}/{version}`.
pub(crate) fn group_version(registry: &Registry, group: &str, version: &str) -> ApiResult<Response<Body>> {
    let gv = registry
        .group_version(group, version)
        .ok_or_else(ApiError::no_resource)?;
    let mut resources = Vec::new();
    for kind in gv.kinds.values() {
        resources.push(plain_resource(kind));
        for sub in &kind.subresources {
            let mut entry = json!({
                "name": format!("{}/{}", kind.plural, sub.name()), "singularName": "",
                "namespaced": kind.namespaced, "kind": kind.kind, "verbs": sub.verbs(),
            });
            if let Some((group, version, own)) = sub.own_kind() {
                entry["kind"] = own.into();
                entry["group"] = group.into();
                entry["version"] = version.into();
            }
            resources.push(entry);
        }
    }
    let gv = api_version(group, version);
    let answer = json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": gv, "resources": resources});
    Ok(json_response(StatusCode::OK, &answer))
}

fn plain_resource(kind: &Kind) -> Value {
    let mut entry = json!({
        "name": kind.plural, "singularName": kind.singular, "namespaced": kind.namespaced,
        "kind": kind.kind, "verbs": kind.verbs.names(),
    });
    names(kind, &mut entry);
    entry
}

fn names(kind: &Kind, entry: &mut Value) {
    if !kind.short_names.is_empty() {
        entry["shortNames"] = json!(kind.short_names);
    }
    if !kind.categories.is_empty() {
        entry["categories"] = json!(kind.categories);
    }
}

fn aggregated(registry: &Registry, core: bool, version: &str) -> Value {
    let items: Vec<Value> = registry
        .groups()
        .filter(|(name, _)| name.is_empty() == core)
        .map(|(name, group)| {
            let versions: Vec<Value> = group
                .versions
                .iter()
                .map(|gv| {
                    let resources: Vec<Value> = gv.kinds.values().map(|kind| aggregated_resource(kind)).collect();
                    json!({"version": gv.version, "resources": resources, "freshness": "Current"})
                })
                .collect();
            json!({"metadata": {"name": name, "creationTimestamp": null}, "versions": versions})
        })
        .collect();
    json!({
        "kind": "APIGroupDiscoveryList", "apiVersion": format!("apidiscovery.k8s.io/{version}"),
        "metadata": {}, "items": items,
    })
}

fn aggregated_resource(kind: &Kind) -> Value {
    let response_kind = json!({"group": kind.group, "version": kind.version, "kind": kind.kind});
    let mut entry = json!({
        "resource": kind.plural, "responseKind": response_kind, "singularResource": kind.singular,
        "scope": if kind.namespaced { "Namespaced" } else { "Cluster" },
        "verbs": kind.verbs.names(),
    });
    names(kind, &mut entry);
    let subs: Vec<Value> = kind
        .subresources
        .iter()
        .map(|sub| {
            let own = sub.own_kind().map(|(group, version, kind)| json!({"group": group, "version": version, "kind": kind}));
            json!({"subresource": sub.name(), "responseKind": own.unwrap_or_else(|| response_kind.clone()), "verbs": sub.verbs()})
        })
        .collect();
    if !subs.is_empty() {
        entry["subresources"] = subs.into();
    }
    entry
}

/// Answers `/version`. The minor fits `kubectl` 1.32 to 1.34 without a skew warning.
pub(crate) fn version() -> Response<Body> {
    let git_version = concat!("v1.33.0+basalt.", env!("CARGO_PKG_VERSION"));
    json_response(
        StatusCode::OK,
        &json!({
            "major": "1", "minor": "33", "gitVersion": git_version, "gitCommit": "", "gitTreeState": "clean",
            "buildDate": "1970-01-01T00:00:00Z", "goVersion": "none", "compiler": "rustc",
            "platform": format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH),
        }),
    )
}

/// Answers `/`: the paths that a curious person may follow.
pub(crate) fn paths(registry: &Registry) -> Response<Body> {
    let mut paths = vec!["/api".to_owned(), "/api/v1".to_owned(), "/apis".to_owned()];
    for (name, group) in registry.groups().filter(|(name, _)| !name.is_empty()) {
        paths.push(format!("/apis/{name}"));
        paths.extend(group.versions.iter().map(|gv| format!("/apis/{name}/{}", gv.version)));
    }
    paths.extend(["/healthz", "/livez", "/openapi/v3", "/readyz", "/version"].map(str::to_owned));
    json_response(StatusCode::OK, &json!({"paths": paths}))
}
