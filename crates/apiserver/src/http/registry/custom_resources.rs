//! CustomResourceDefinitions: checking them, establishing them, and the kinds that they define.

use std::sync::Arc;

use basalt_apimachinery::json::{string_at, strings_at, value_at};
use basalt_apimachinery::schema::Schema;
use basalt_apimachinery::table::Printer;
use serde_json::{Value, json};

use crate::http::metadata::is_deleting;
use crate::http::registry::kinds::{
    CustomShape, Kind, ScalePaths, Shape, Sub, Verbs, api_version, built_in, qualified,
};

/// Holds a deleted CRD until its objects are gone.
pub(crate) const CLEANUP_FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";

/// The store's word for CRDs.
pub(crate) const RESOURCE: &str = "customresourcedefinitions.apiextensions.k8s.io";

fn versions(crd: &Value) -> impl Iterator<Item = &Value> {
    value_at(crd, "/spec/versions")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
}

fn is_true(value: &Value, key: &str) -> bool {
    value.get(key) == Some(&Value::Bool(true))
}

/// Whether the CRD's condition of that type is True.
pub(crate) fn condition(crd: &Value, condition: &str) -> bool {
    let conditions = value_at(crd, "/status/conditions").and_then(Value::as_array);
    conditions
        .into_iter()
        .flatten()
        .any(|found| string_at(found, "/type") == condition && string_at(found, "/status") == "True")
}

/// What the server needs to know of a CRD, once it is read.
#[derive(Debug)]
pub(crate) struct Definition {
    name: String,
    group: String,
    plural: String,
    kind: String,
    accepted: bool,
    /// The kinds that it makes the server serve; none for a CRD that is not established.
    pub(crate) kinds: Vec<Arc<Kind>>,
}

impl Definition {
    pub(crate) fn new(crd: &Value) -> Definition {
        let stored = versions(crd).find(|version| is_true(version, "storage"));
        let stored = stored.map(|version| string_at(version, "/name")).unwrap_or_default();
        let served = versions(crd).filter(|version| is_true(version, "served") && condition(crd, "Established"));
        Definition {
            name: string_at(crd, "/metadata/name").to_owned(),
            group: string_at(crd, "/spec/group").to_owned(),
            plural: string_at(crd, "/spec/names/plural").to_owned(),
            kind: string_at(crd, "/spec/names/kind").to_owned(),
            accepted: condition(crd, "NamesAccepted"),
            kinds: served
                .filter_map(|version| kind_of(crd, version, stored))
                .map(Arc::new)
                .collect(),
        }
    }
}

fn kind_of(crd: &Value, version: &Value, stored: &str) -> Option<Kind> {
    let names = value_at(crd, "/spec/names")?;
    let (group, plural, kind) = (
        string_at(crd, "/spec/group"),
        string_at(names, "/plural"),
        string_at(names, "/kind"),
    );
    let name = string_at(version, "/name");
    let mut shape = shape(version, &api_version(group, name), kind)?;
    shape.terminating = is_deleting(crd);
    let subresources = [
        value_at(version, "/subresources/status").map(|_| Sub::Status),
        shape.scale.as_ref().map(|_| Sub::Scale),
    ];
    Some(Kind {
        group: group.into(),
        version: name.into(),
        api_version: api_version(group, name).into(),
        kind: kind.into(),
        list_kind: or_else(string_at(names, "/listKind"), || format!("{kind}List")),
        plural: plural.into(),
        singular: or_else(string_at(names, "/singular"), || kind.to_lowercase()),
        short_names: strings_at(names, "/shortNames").map(str::to_owned).collect(),
        categories: strings_at(names, "/categories").map(str::to_owned).collect(),
        namespaced: string_at(crd, "/spec/scope") == "Namespaced",
        resource: qualified(plural, group).into(),
        stored_api_version: api_version(group, stored).into(),
        verbs: Verbs::All,
        subresources: subresources.into_iter().flatten().collect(),
        generation: true,
        shape: Shape::Custom(Box::new(shape)),
    })
}

fn or_else(given: &str, default: impl FnOnce() -> String) -> Arc<str> {
    if given.is_empty() {
        default().into()
    } else {
        given.into()
    }
}

fn shape(version: &Value, api_version: &str, kind: &str) -> Option<CustomShape> {
    let open_api = value_at(version, "/schema/openAPIV3Schema")?;
    let schema = Schema::compile(open_api).ok()?;
    let scale = value_at(version, "/subresources/scale").map(|scale| ScalePaths {
        spec: string_at(scale, "/specReplicasPath").to_owned(),
        status: string_at(scale, "/statusReplicasPath").to_owned(),
        selector: scale
            .get("labelSelectorPath")
            .and_then(Value::as_str)
            .map(str::to_owned),
    });
    let printer = Printer::custom(version.get("additionalPrinterColumns").unwrap_or(&Value::Null)).ok()?;
    let selectable = version
        .get("selectableFields")
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    let selectable = selectable
        .map(|field| string_at(field, "/jsonPath").trim_start_matches('.').to_owned())
        .collect();
    let deprecation = is_true(version, "deprecated").then(|| {
        let given = string_at(version, "/deprecationWarning");
        if given.is_empty() {
            format!("{api_version} {kind} is deprecated")
        } else {
            given.to_owned()
        }
    });
    Some(CustomShape {
        schema,
        open_api: open_api.to_string().into(),
        printer,
        scale,
        selectable,
        terminating: false,
        deprecation,
    })
}

/// Fills in what Kubernetes fills in.
pub(crate) fn default(crd: &mut Value) {
    let kind = string_at(crd, "/spec/names/kind").to_owned();
    let Some(spec) = crd.get_mut("spec").and_then(Value::as_object_mut) else {
        return;
    };
    spec.entry("conversion").or_insert_with(|| json!({"strategy": "None"}));
    let Some(names) = spec.get_mut("names").and_then(Value::as_object_mut) else {
        return;
    };
    names.entry("singular").or_insert_with(|| kind.to_lowercase().into());
    names.entry("listKind").or_insert_with(|| format!("{kind}List").into());
}

/// Writes the status of a CRD: accepted names, conditions and stored versions. `others` are the CRDs that there are.
pub(crate) fn establish(crd: &mut Value, others: &[Arc<Definition>], now: &str) {
    let refused = clash(crd, others);
    let stored: Vec<String> = {
        let before = strings_at(crd, "/status/storedVersions").map(str::to_owned);
        let current = versions(crd)
            .filter(|version| is_true(version, "storage"))
            .map(|v| string_at(v, "/name").to_owned());
        let mut all: Vec<String> = before.collect();
        all.extend(current);
        let mut seen = std::collections::BTreeSet::new();
        all.retain(|version| seen.insert(version.clone()));
        all
    };
    let (accepted, reason, message) = match &refused {
        None => ("True", "NoConflicts", "no conflicts found".to_owned()),
        Some(why) => ("False", "NameConflict", why.clone()),
    };
    let names = value_at(crd, "/spec/names").cloned().unwrap_or_default();
    let was_established = condition(crd, "Established");
    let established = if refused.is_none() || was_established {
        ("True", "InitialNamesAccepted", "the initial names have been accepted")
    } else {
        ("False", "NotAccepted", "not all names are accepted")
    };
    set_condition(crd, "NamesAccepted", (accepted, reason, &message), now);
    set_condition(crd, "Established", established, now);
    if let Some(status) = crd.get_mut("status").and_then(Value::as_object_mut) {
        if refused.is_none() {
            status.insert("acceptedNames".to_owned(), names);
        }
        status.insert("storedVersions".to_owned(), stored.into());
    }
}

/// Sets a condition; the time of the last transition moves only when the status changes.
pub(crate) fn set_condition(object: &mut Value, kind: &str, state: (&str, &str, &str), now: &str) {
    if !object["status"]["conditions"].is_array() {
        object["status"]["conditions"] = json!([]);
    }
    let Some(conditions) = object["status"]["conditions"].as_array_mut() else {
        return;
    };
    let (status, reason, message) = state;
    let found = conditions
        .iter_mut()
        .find(|condition| string_at(condition, "/type") == kind);
    let since = found
        .as_ref()
        .filter(|condition| string_at(condition, "/status") == status);
    let since = since
        .map_or(now, |condition| string_at(condition, "/lastTransitionTime"))
        .to_owned();
    let new = json!({
        "type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": since,
    });
    match found {
        Some(condition) => *condition = new,
        None => conditions.push(new),
    }
}

/// Why the names of a CRD cannot be had, if so.
fn clash(crd: &Value, others: &[Arc<Definition>]) -> Option<String> {
    let (group, plural, kind) = (
        string_at(crd, "/spec/group"),
        string_at(crd, "/spec/names/plural"),
        string_at(crd, "/spec/names/kind"),
    );
    let own = string_at(crd, "/metadata/name");
    if built_in()
        .iter()
        .any(|known| *known.group == *group && (*known.plural == *plural || *known.kind == *kind))
    {
        return Some(format!("\"{plural}\" is already in use"));
    }
    let taken = |other: &&Arc<Definition>| {
        other.name != own && other.group == group && (other.plural == plural || other.kind == kind) && other.accepted
    };
    others
        .iter()
        .find(taken)
        .map(|_| format!("\"{kind}\" is already in use"))
}
