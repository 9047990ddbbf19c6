//! `basalt uninstall`: takes back what would outlive the system and get in the way.
//!
//! A webhook whose server is gone refuses every write of our kinds, and a queue with a finalizer that nobody takes off
//! can never be deleted. The chart runs this before its objects go. The controllers put the finalizer back as long as
//! they run, so they are stopped in between. Queues, jobs and CRDs stay.

#[cfg(test)]
mod tests;

use std::time::Duration;

use anyhow::Context;
use basalt_api::rights::{DEPLOYMENTS, WEBHOOK_MUTATE, WEBHOOK_SECRET, WEBHOOK_VALIDATE};
use basalt_api::{Queue, names};
use k8s_openapi::api::admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::core::{ApiResource, DynamicObject, PartialObjectMeta};
use kube::{Api, Client, ResourceExt};
use serde_json::json;
use tokio::time::Instant;

use crate::flags::connection::ConnectionFlags;
use basalt_runtime::process;
use basalt_webhook::{MADE_BY, pod_namespace};

/// Take back what would outlive the system: webhook configurations and finalizers.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
In this order: the webhook configurations go; what puts finalizers back (the Deployments basalt-controllers and
basalt-manager) and what makes certificates (basalt-webhook) is scaled to nothing; every queue loses the finalizer
basalt.sh/queue; the Secret with the webhook's own authority goes. Queues, jobs, pods and CRDs stay. It can be repeated.

Examples:
  basalt uninstall --kubeconfig ~/.kube/config --dry-run    what would be done
  basalt uninstall                                          inside a pod: with its service account")]
pub struct UninstallArguments {
    #[command(flatten)]
    connection: ConnectionFlags,
    /// Where the system runs [default: the pod's namespace, outside of pods basalt-system]
    #[arg(long, value_name = "NAME")]
    namespace: Option<String>,
    /// Seconds that its pods have to end
    #[arg(long, value_name = "SECONDS", default_value_t = 90)]
    timeout: u64,
    /// Only say what would be done
    #[arg(long)]
    dry_run: bool,
}

/// Does it, and says what it did.
pub fn main(arguments: UninstallArguments) -> anyhow::Result<()> {
    process::run(|mut stop| async move {
        let removal = Removal {
            client: arguments.connection.client().await?,
            namespace: arguments.namespace.unwrap_or_else(pod_namespace),
            timeout: Duration::from_secs(arguments.timeout),
            dry_run: arguments.dry_run,
            say: |line| println!("{line}"),
        };
        tokio::select! {
            done = removal.run() => done,
            () = stop.wished() => anyhow::bail!("interrupted; it can be repeated"),
        }
    })
}

/// Objects of a page of a list.
const PAGE: u32 = 500;
/// How often queues are gone through while a write of one of them does not pass, and how long is waited in between.
const PASSES: u32 = 20;
const BETWEEN_PASSES: Duration = Duration::from_millis(500);

/// What became of a queue.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    Released,
    /// It does not have our finalizer, or is gone.
    Nothing,
    /// Not yet, for this reason.
    Again(String),
}

/// Whether a write may pass a moment later: the object changed in between, or the API server has not yet heard that the
/// webhook is not to be asked any more.
fn is_passing(error: &kube::Error) -> bool {
    let kube::Error::Api(status) = error else {
        return false;
    };
    matches!(status.code, 409 | 429 | 500..) || (status.code == 403 && status.message.contains("admission webhook"))
}

struct Removal<S> {
    client: Client,
    namespace: String,
    timeout: Duration,
    dry_run: bool,
    /// Tells the user.
    say: S,
}

/// The code of an answer that is no success.
fn code(error: &kube::Error) -> u16 {
    match error {
        kube::Error::Api(status) => status.code,
        _ => 0,
    }
}

impl<S: Fn(String)> Removal<S> {
    async fn run(&self) -> anyhow::Result<()> {
        let validating = ApiResource::erase::<ValidatingWebhookConfiguration>(&());
        let mutating = ApiResource::erase::<MutatingWebhookConfiguration>(&());
        for (kind, name) in [(validating, WEBHOOK_VALIDATE), (mutating, WEBHOOK_MUTATE)] {
            self.delete(&Api::all_with(self.client.clone(), &kind), &kind, name)
                .await?;
        }
        self.stop().await?;
        self.release_queues().await?;
        self.remove_secret().await
    }

    fn told(&self, done: &str, what: &str) {
        let line = if self.dry_run {
            format!("{what}: would be {done}")
        } else {
            format!("{what}: {done}")
        };
        (self.say)(line);
    }

    async fn delete(&self, api: &Api<DynamicObject>, kind: &ApiResource, name: &str) -> anyhow::Result<()> {
        let what = format!("{}/{name}", kind.kind);
        let parameters = DeleteParams {
            dry_run: self.dry_run,
            ..DeleteParams::default()
        };
        match api.delete(name, &parameters).await {
            Ok(_) => self.told("removed", &what),
            Err(error) if code(&error) == 404 => (self.say)(format!("{what}: not there")),
            Err(error) => return Err(error).with_context(|| format!("removing {what}")),
        }
        Ok(())
    }

    /// Stops what would undo the rest, and waits until it is gone.
    async fn stop(&self) -> anyhow::Result<()> {
        let api: Api<Deployment> = Api::namespaced(self.client.clone(), &self.namespace);
        let mut selectors = Vec::new();
        for name in DEPLOYMENTS {
            let parameters = PatchParams {
                dry_run: self.dry_run,
                ..PatchParams::default()
            };
            let scale = Patch::Merge(json!({"spec": {"replicas": 0}}));
            match api.patch(name, &parameters, &scale).await {
                Ok(deployment) => {
                    self.told("scaled to nothing", &format!("Deployment/{name}"));
                    let selector = deployment.spec.selector;
                    selectors.push(selector.match_labels.unwrap_or_default());
                }
                Err(error) if code(&error) == 404 => {}
                // Whoever may not do it may have stopped it in another way.
                Err(error) if code(&error) == 403 => (self.say)(format!(
                    "Deployment/{name}: left alone ({error}); if it runs, it puts finalizers back"
                )),
                Err(error) => return Err(error).with_context(|| format!("scaling Deployment/{name}")),
            }
        }
        let chosen = selectors.into_iter().filter(|labels| !labels.is_empty());
        for labels in chosen.filter(|_| !self.dry_run) {
            let labels: Vec<String> = labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
            self.wait_for_none(&labels.join(",")).await?;
        }
        Ok(())
    }

    async fn wait_for_none(&self, labels: &str) -> anyhow::Result<()> {
        let api: Api<PartialObjectMeta<Pod>> = Api::namespaced(self.client.clone(), &self.namespace);
        let deadline = Instant::now() + self.timeout;
        loop {
            let parameters = ListParams::default().labels(labels).limit(1);
            let left = api.list(&parameters).await;
            let left = left.with_context(|| format!("looking for pods with {labels}"))?;
            let Some(pod) = left.items.first() else {
                return Ok(());
            };
            anyhow::ensure!(
                Instant::now() < deadline,
                "pod {} has not ended within {:?}: repeat this when it has, or take more time with --timeout",
                pod.name_any(),
                self.timeout
            );
            tokio::time::sleep(Duration::from_millis(250)).await;
        }
    }

    /// Takes our finalizer off every queue.
    async fn release_queues(&self) -> anyhow::Result<()> {
        let (mut released, mut last) = (false, String::new());
        for _ in 0..PASSES {
            let outcomes = self.pass().await?;
            released |= outcomes.contains(&Outcome::Released);
            let again = outcomes.into_iter().find_map(|outcome| match outcome {
                Outcome::Again(why) => Some(why),
                Outcome::Released | Outcome::Nothing => None,
            });
            let Some(why) = again else {
                if !released {
                    (self.say)("queues: none has our finalizer".to_owned());
                }
                return Ok(());
            };
            last = why;
            tokio::time::sleep(BETWEEN_PASSES).await;
        }
        anyhow::bail!("{last}: repeat this when that is over")
    }

    /// Goes through all queues once.
    async fn pass(&self) -> anyhow::Result<Vec<Outcome>> {
        let api: Api<PartialObjectMeta<Queue>> = Api::all(self.client.clone());
        let mut parameters = ListParams::default().limit(PAGE);
        let mut outcomes = Vec::new();
        loop {
            let page = match api.list(&parameters).await {
                Ok(page) => page,
                // Without the CRD there are none.
                Err(error) if code(&error) == 404 => return Ok(outcomes),
                Err(error) => return Err(error).context("listing queues"),
            };
            for queue in &page.items {
                outcomes.push(self.release(&api, queue).await?);
            }
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => parameters.continue_token = Some(token),
                None => return Ok(outcomes),
            }
        }
    }

    async fn release(
        &self,
        api: &Api<PartialObjectMeta<Queue>>,
        queue: &PartialObjectMeta<Queue>,
    ) -> anyhow::Result<Outcome> {
        let (name, finalizers) = (queue.name_any(), queue.finalizers());
        let others: Vec<&String> = finalizers
            .iter()
            .filter(|finalizer| *finalizer != names::QUEUE_FINALIZER)
            .collect();
        if others.len() == finalizers.len() {
            return Ok(Outcome::Nothing);
        }
        if self.dry_run {
            // Not even tried: the webhook is still there, and may be asked in vain.
            self.told("released from its finalizer", &format!("Queue/{name}"));
            return Ok(Outcome::Released);
        }
        let metadata = json!({"resourceVersion": queue.resource_version(), "finalizers": others});
        let patch = Patch::Merge(json!({"metadata": metadata}));
        match api.patch(&name, &PatchParams::default(), &patch).await {
            Ok(_) => {
                self.told("released from its finalizer", &format!("Queue/{name}"));
                Ok(Outcome::Released)
            }
            Err(error) if code(&error) == 404 => Ok(Outcome::Nothing),
            Err(error) if is_passing(&error) => Ok(Outcome::Again(format!("releasing queue {name}: {error}"))),
            Err(error) => Err(error).with_context(|| format!("releasing queue {name}")),
        }
    }

    /// The Secret that the webhook made; one of somebody else's stays.
    async fn remove_secret(&self) -> anyhow::Result<()> {
        let kind = ApiResource::erase::<Secret>(&());
        let api: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), &self.namespace, &kind);
        let name = WEBHOOK_SECRET;
        let [key, value] = MADE_BY;
        match api.get_opt(name).await {
            Ok(Some(secret)) if secret.labels().get(key).is_some_and(|maker| maker == value) => {
                self.delete(&api, &kind, name).await
            }
            Ok(_) => Ok(()),
            Err(error) if code(&error) == 403 => {
                (self.say)(format!("Secret/{name}: left alone ({error})"));
                Ok(())
            }
            Err(error) => Err(error).with_context(|| format!("reading Secret/{name}")),
        }
    }
}
