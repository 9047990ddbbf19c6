//! Installs our CustomResourceDefinitions, and brings older ones up to date.

use anyhow::Context;
use basalt_api::stable_hash::StableHash;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::PostParams;
use kube::{Api, Client, ResourceExt};

/// Tells which form of a definition is installed, so that an unchanged one is not written at every start.
const FORM: &str = "basalt.sh/definition";

/// Returns the form of a definition: a hash of its spec that every version of the program computes alike. Definitions
/// that an earlier version marked with another hash are replaced once.
fn form_of(definition: &CustomResourceDefinition) -> anyhow::Result<String> {
    let mut hash = StableHash::default();
    serde_json::to_writer(&mut hash, &definition.spec)?;
    Ok(format!("{:016x}", hash.value()))
}

/// Creates the definitions that are absent and replaces those of another form.
pub(crate) async fn install(client: &Client) -> anyhow::Result<()> {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    for mut definition in basalt_api::crd::all() {
        let name = definition.name_any();
        let form = form_of(&definition)?;
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

#[cfg(test)]
mod tests {
    use basalt_apiserver::http::{Server, ServerOptions};
    use basalt_apiserver::store::{Backend, Store};
    use serde_json::json;

    use super::*;
    use crate::up::store_options;

    #[test]
    fn the_form_of_a_definition_is_the_same_in_every_version() {
        let definition = json!({"metadata": {"name": "ws.g"}, "spec": {"group": "g", "scope": "Cluster",
            "names": {"kind": "W", "plural": "ws"}, "versions": []}});
        let definition: CustomResourceDefinition = serde_json::from_value(definition).expect("a definition");
        assert_eq!(form_of(&definition).expect("a form"), "7bc1e0d451f72cd7");
    }

    /// Versions before this one marked definitions with a hash that changed with the compiler.
    #[tokio::test]
    async fn a_definition_with_an_old_mark_is_replaced_once() {
        let store = Store::open(store_options(Backend::Memory)).expect("a store");
        let server = Server::new(store, ServerOptions::default());
        server.bootstrap().await.expect("a server");
        let client = server.client("system:admin");
        install(&client).await.expect("the definitions");
        let api: Api<CustomResourceDefinition> = Api::all(client.clone());
        let read = async || api.get("queues.scheduling.volcano.sh").await.expect("a definition");
        let first = read().await;
        let mut old = first.clone();
        old.annotations_mut()
            .insert(FORM.to_owned(), "0123456789abcdef".to_owned());
        let name = old.name_any();
        api.replace(&name, &PostParams::default(), &old)
            .await
            .expect("an old mark");
        install(&client).await.expect("the definitions");
        let renewed = read().await;
        assert_eq!(renewed.annotations().get(FORM), first.annotations().get(FORM));
        install(&client).await.expect("the definitions");
        assert_eq!(read().await.resource_version(), renewed.resource_version());
    }
}
