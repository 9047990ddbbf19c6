//! Schemas of the built-in kinds, and OpenAPI v3 documents as `kubectl` reads them.

mod document;

pub use document::{ResourceDoc, document};

use super::{patch::merge_keys, schema::Schema};
use k8s_openapi::{
    api::{
        admissionregistration::v1 as admissionregistration, authentication::v1 as authentication,
        authorization::v1 as authorization, autoscaling::v1 as autoscaling, coordination::v1 as coordination,
        core::v1 as core, discovery::v1 as discovery, events::v1 as events, networking::v1 as networking,
        policy::v1 as policy, rbac::v1 as rbac, scheduling::v1 as scheduling, storage::v1 as storage,
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1 as apiextensions,
    apimachinery::pkg::apis::meta::v1 as meta,
};
use schemars::{SchemaGenerator, generate::SchemaSettings, transform::RemoveRefSiblings};
use serde_json::{Map, Value, json};
use std::{
    collections::BTreeSet,
    sync::{Arc, LazyLock, OnceLock},
};

/// Where references to definitions point.
pub(super) const DEFINITIONS: &str = "#/components/schemas/";

/// A kind that Kubernetes itself defines.
struct Builtin {
    api_version: &'static str,
    kind: &'static str,
    /// Name of the definition of its schema.
    definition: String,
    schema: OnceLock<Arc<Value>>,
    compiled: OnceLock<Option<Arc<Schema>>>,
}

struct Builtins {
    kinds: Vec<Builtin>,
    definitions: Map<String, Value>,
}

static BUILTINS: LazyLock<Builtins> = LazyLock::new(|| {
    let settings = SchemaSettings::openapi3().with(|settings| {
        settings.transforms = vec![Box::new(RemoveRefSiblings::default())];
    });
    let mut generator = settings.into_generator();
    let mut kinds = Vec::new();
    collect(&mut generator, &mut kinds);
    let mut definitions = generator.take_definitions(true);
    for (name, definition) in &mut definitions {
        refine(name, definition);
    }
    for builtin in &kinds {
        if let Some(Value::Object(definition)) = definitions.get_mut(&builtin.definition) {
            let (group, version) = builtin
                .api_version
                .rsplit_once('/')
                .unwrap_or(("", builtin.api_version));
            let gvk = json!([{ "group": group, "version": version, "kind": builtin.kind }]);
            definition.insert("x-kubernetes-group-version-kind".to_owned(), gvk);
        }
    }
    Builtins { kinds, definitions }
});

macro_rules! kinds {
    ($generator:ident, $found:ident, $($api_version:literal: $($module:ident::$kind:ident),+;)+) => {
        $($(
            $generator.subschema_for::<$module::$kind>();
            let definition = <$module::$kind as schemars::JsonSchema>::schema_name().into_owned();
            let (schema, compiled) = (OnceLock::new(), OnceLock::new());
            $found.push(Builtin { api_version: $api_version, kind: stringify!($kind), definition, schema, compiled });
        )+)+
    };
}

/// Every built-in kind that is served, or that requests carry.
fn collect(generator: &mut SchemaGenerator, found: &mut Vec<Builtin>) {
    kinds!(generator, found,
        "v1": core::Binding, core::ConfigMap, core::Endpoints, core::Event, core::LimitRange, core::Namespace, core::Node,
            core::PersistentVolume, core::PersistentVolumeClaim, core::Pod, core::PodTemplate, core::ResourceQuota,
            core::Secret, core::Service, core::ServiceAccount, meta::DeleteOptions, meta::Status;
        "admissionregistration.k8s.io/v1": admissionregistration::MutatingWebhookConfiguration,
            admissionregistration::ValidatingWebhookConfiguration;
        "apiextensions.k8s.io/v1": apiextensions::CustomResourceDefinition;
        "authentication.k8s.io/v1": authentication::SelfSubjectReview, authentication::TokenRequest,
            authentication::TokenReview;
        "authorization.k8s.io/v1": authorization::LocalSubjectAccessReview, authorization::SelfSubjectAccessReview,
            authorization::SelfSubjectRulesReview, authorization::SubjectAccessReview;
        "autoscaling/v1": autoscaling::Scale;
        "coordination.k8s.io/v1": coordination::Lease;
        "discovery.k8s.io/v1": discovery::EndpointSlice;
        "events.k8s.io/v1": events::Event;
        "networking.k8s.io/v1": networking::NetworkPolicy;
        "policy/v1": policy::Eviction, policy::PodDisruptionBudget;
        "rbac.authorization.k8s.io/v1": rbac::ClusterRole, rbac::ClusterRoleBinding, rbac::Role, rbac::RoleBinding;
        "scheduling.k8s.io/v1": scheduling::PriorityClass;
        "storage.k8s.io/v1": storage::CSIDriver, storage::CSINode, storage::StorageClass, storage::VolumeAttachment;
    );
}

/// Adds what the generated definitions leave out: merge keys, and the two types of an int-or-string.
fn refine(name: &str, definition: &mut Value) {
    let short = name.rsplit('.').next().unwrap_or(name);
    let Some(definition) = definition.as_object_mut() else {
        return;
    };
    if definition.contains_key("x-kubernetes-int-or-string") {
        let (first, second) = if short == "Quantity" {
            ("string", "number")
        } else {
            ("integer", "string")
        };
        definition.insert("oneOf".to_owned(), json!([{ "type": first }, { "type": second }]));
    }
    let Some(properties) = definition.get_mut("properties").and_then(Value::as_object_mut) else {
        return;
    };
    for (field, property) in properties {
        let Some(rule) = merge_keys::rule(short, field) else {
            continue;
        };
        let Some(property) = property.as_object_mut() else {
            continue;
        };
        property.insert("x-kubernetes-patch-strategy".to_owned(), Value::from(rule.strategy));
        if let Some(key) = rule.key {
            property.insert("x-kubernetes-patch-merge-key".to_owned(), Value::from(key));
        }
    }
    if let (true, Some(Value::Array(required))) = (properties_have_metadata(definition), definition.get_mut("required"))
    {
        // Kubernetes' own documents do not ask for metadata.
        required.retain(|field| field != "metadata");
        if required.is_empty() {
            definition.remove("required");
        }
    }
}

fn properties_have_metadata(definition: &Map<String, Value>) -> bool {
    definition
        .get("properties")
        .is_some_and(|properties| properties.get("metadata").is_some())
}

fn builtin(api_version: &str, kind: &str) -> Option<&'static Builtin> {
    BUILTINS
        .kinds
        .iter()
        .find(|builtin| builtin.kind == kind && builtin.api_version == api_version)
}

/// Whether this is a built-in kind.
pub fn is_builtin(api_version: &str, kind: &str) -> bool {
    builtin(api_version, kind).is_some()
}

/// The schema of a built-in kind, with everything it refers to under `$defs`.
pub fn schema_of(api_version: &str, kind: &str) -> Option<Arc<Value>> {
    let builtin = builtin(api_version, kind)?;
    Some(
        builtin
            .schema
            .get_or_init(|| Arc::new(definition(&builtin.definition)))
            .clone(),
    )
}

/// The compiled schema of a built-in kind: its types, for pruning and type checks.
pub fn compiled(api_version: &str, kind: &str) -> Option<Arc<Schema>> {
    let builtin = builtin(api_version, kind)?;
    let compile = || {
        Schema::compile_builtin_definition(&BUILTINS.definitions, &builtin.definition)
            .ok()
            .map(Arc::new)
    };
    builtin.compiled.get_or_init(compile).clone()
}

/// The definition of the type of a built-in kind; for `Event` that of the core group.
pub(super) fn definition_of_kind(kind: &str) -> Option<&'static str> {
    let groups = [
        "v1",
        "rbac.authorization.k8s.io/v1",
        "policy/v1",
        "scheduling.k8s.io/v1",
        "storage.k8s.io/v1",
        "coordination.k8s.io/v1",
        "networking.k8s.io/v1",
        "apiextensions.k8s.io/v1",
        "discovery.k8s.io/v1",
        "events.k8s.io/v1",
        "admissionregistration.k8s.io/v1",
    ];
    groups
        .iter()
        .find_map(|group| builtin(group, kind))
        .map(|builtin| builtin.definition.as_str())
}

/// One definition as it is, without what it refers to.
pub(super) fn bare_definition(name: &str) -> Option<&'static Value> {
    BUILTINS.definitions.get(name)
}

/// A definition with everything it refers to under `$defs`; an empty object if there is none of that name.
pub(super) fn definition(name: &str) -> Value {
    let Some(mut found) = bare_definition(name).cloned() else {
        return json!({});
    };
    let mut names = BTreeSet::new();
    reach(&found, &mut names);
    if let Some(object) = found.as_object_mut() {
        object.insert("$defs".to_owned(), Value::Object(select(&names)));
    }
    found
}

/// All definitions of the given names.
pub(super) fn select(names: &BTreeSet<String>) -> Map<String, Value> {
    let found = names
        .iter()
        .filter_map(|name| bare_definition(name).map(|found| (name.clone(), found.clone())));
    found.collect()
}

/// Adds the names of all definitions that a schema refers to, directly or not.
pub(super) fn reach(schema: &Value, names: &mut BTreeSet<String>) {
    match schema {
        Value::Object(fields) => {
            if let Some(name) = fields
                .get("$ref")
                .and_then(Value::as_str)
                .and_then(|path| path.strip_prefix(DEFINITIONS))
                && names.insert(name.to_owned())
                && let Some(found) = bare_definition(name)
            {
                reach(found, names);
            }
            fields.values().for_each(|value| reach(value, names));
        }
        Value::Array(items) => items.iter().for_each(|item| reach(item, names)),
        _ => {}
    }
}
