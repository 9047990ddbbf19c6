//! Installs our CustomResourceDefinitions, and brings older ones up to date.

use std::hash::{DefaultHasher, Hash, Hasher};

use anyhow::Context;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::PostParams;
use kube::{Api, Client, ResourceExt};

/// Tells which form of a definition is installed, so that an unchanged one is not written at every start.
const FORM: &str = "basalt.sh/definition";

/// Creates the definitions that are absent and replaces those of another form.
pub(crate) async fn install(client: &Client) -> anyhow::Result<()> {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    for mut definition in basalt_api::crd::all() {
        let name = definition.name_any();
        let mut hasher = DefaultHasher::new();
        serde_json::to_string(&definition.spec)?.hash(&mut hasher);
        let form = format!("{:016x}", hasher.finish());
        definition.annotations_mut().insert(FORM.to_owned(), form.clone());
        let stored = api
            .get_opt(&name)
            .await
            .with_context(|| format!("reading the definition {name}"))?;
        match stored {
            None => {
                api.create(&PostParams::default(), &definition)
                    .await
                    .with_context(|| format!("installing {name}"))?;
            }
            Some(stored) if stored.annotations().get(FORM) == Some(&form) => {}
            Some(stored) => {
                definition.metadata.resource_version = stored.metadata.resource_version;
                let replaced = api.replace(&name, &PostParams::default(), &definition).await;
                replaced.with_context(|| format!("bringing {name} up to date"))?;
            }
        }
    }
    Ok(())
}
