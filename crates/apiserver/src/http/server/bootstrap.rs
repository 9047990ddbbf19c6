//! The objects that every cluster has from the start: namespaces, service accounts, priority classes, a storage class.

use basalt_apimachinery::builtin_kinds::SYSTEM_PRIORITY_CLASSES;
use serde_json::{Value, json};

use crate::http::request::call::Call;
use crate::http::response::status::ApiError;
use crate::http::server::Server;
use crate::http::verbs::create::insert;

/// An object that every cluster has could not be made.
#[derive(Debug, thiserror::Error)]
#[error("cannot create {kind} {name}: {source}")]
pub struct BootstrapError {
    kind: &'static str,
    name: String,
    source: ApiError,
}

const NAMESPACES: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];

/// Name of the storage class that claims get when they name none.
const STORAGE_CLASS: &str = "standard";

impl Server {
    /// Makes the objects that every cluster has, where they are absent.
    pub async fn bootstrap(&self) -> Result<(), BootstrapError> {
        for name in NAMESPACES {
            self.ensure(("", "namespaces", "Namespace"), "", name, json!({}))
                .await?;
        }
        for namespace in NAMESPACES {
            self.ensure(
                ("", "serviceaccounts", "ServiceAccount"),
                namespace,
                "default",
                json!({}),
            )
            .await?;
        }
        for (name, value) in SYSTEM_PRIORITY_CLASSES {
            let class = json!({"value": value, "preemptionPolicy": "PreemptLowerPriority",
                "description": "Used for system critical pods."});
            self.ensure(
                ("scheduling.k8s.io", "priorityclasses", "PriorityClass"),
                "",
                name,
                class,
            )
            .await?;
        }
        let annotations = json!({"storageclass.kubernetes.io/is-default-class": "true"});
        let class = json!({"provisioner": "basalt.sh/made-up", "reclaimPolicy": "Delete",
            "volumeBindingMode": "Immediate", "metadata": {"annotations": annotations}});
        self.ensure(
            ("storage.k8s.io", "storageclasses", "StorageClass"),
            "",
            STORAGE_CLASS,
            class,
        )
        .await
    }

    async fn ensure(
        &self,
        (group, plural, kind): (&str, &str, &'static str),
        namespace: &str,
        name: &str,
        mut object: Value,
    ) -> Result<(), BootstrapError> {
        let failed = |source| BootstrapError {
            kind,
            name: name.to_owned(),
            source,
        };
        let registry = self.registry();
        let found = registry
            .find(group, "v1", plural)
            .ok_or_else(|| failed(ApiError::no_resource()))?;
        let call = Call::internal(self, found, namespace, "");
        if self.store().head(&call.key(name)).is_some() {
            return Ok(());
        }
        object["metadata"]["name"] = name.into();
        match insert(&call, object).await {
            Err(error) if error.reason != "AlreadyExists" => Err(failed(error)),
            _ => Ok(()),
        }
    }
}
