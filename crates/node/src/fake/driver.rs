//! The thin part around the state machine: two watches in, a bounded number of requests out.

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use futures::{FutureExt, Stream, StreamExt};
use kube::api::{Api, DeleteParams, Patch, PatchParams, Preconditions};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Client, ResourceExt};
use tokio::sync::{mpsc, oneshot};
use tokio::task::{JoinError, JoinSet};
use tracing::{debug, warn};

use super::kubelet::{Action, Event, FakeKubelet, Millis, Outcome, PodRef, Rules, Target};
use super::wire::{self, SlimNode, SlimPod};
use super::{FakeOptions, heartbeat};
use crate::NodeError;
use crate::events::{self, Note};

/// How long the loop may sleep when nothing is due; any bound will do.
const SLEEP_MAX: Duration = Duration::from_mins(1);
/// How long a shutdown waits for requests on their way.
const FINISH_MAX: Duration = Duration::from_secs(2);
/// How many watch events are taken in before the next requests leave.
const EVENTS_PER_TURN: usize = 256;

/// Serves every node labelled `basalt.sh/fake=true` until `shutdown` resolves.
///
/// Requests on their way at that moment are finished; the rest is found again at the next start.
pub async fn run(client: Client, options: FakeOptions, shutdown: impl Future<Output = ()>) -> Result<(), NodeError> {
    let mut shutdown = pin!(shutdown);
    let mut pods = pin!(pod_events(&client));
    let mut nodes = pin!(node_events(&client));
    let mut kubelet = FakeKubelet::new(Rules {
        defaults: options.defaults,
        orphan_grace: options
            .orphan_grace
            .map(|grace| Millis::try_from(grace.as_millis()).unwrap_or(Millis::MAX)),
    });
    let requests_max = options.requests_in_flight.max(1);
    let mut requests = JoinSet::new();
    // It ends with this function.
    let mut beating = JoinSet::new();
    let (ask, mut asked) = mpsc::channel(1);
    if let Some(period) = options.heartbeat {
        beating.spawn(heartbeat::beat(client.clone(), period, ask));
    }
    loop {
        while requests.len() < requests_max
            && let Some(action) = kubelet.take(now())
        {
            requests.spawn(request(client.clone(), action));
        }
        let busy = requests.len() >= requests_max;
        tokio::select! {
            () = &mut shutdown => break,
            event = pods.next() => {
                take_in(&mut kubelet, event.ok_or(NodeError::WatchEnded("pods"))?, pods.as_mut());
            }
            event = nodes.next() => {
                take_in(&mut kubelet, event.ok_or(NodeError::WatchEnded("nodes"))?, nodes.as_mut());
            }
            Some(done) = requests.join_next() => {
                let (target, outcome) = answer(done);
                kubelet.apply(now(), Event::Done(target, outcome));
            }
            Some(answer) = asked.recv() => {
                // Whoever asked may be gone.
                let _ = oneshot::Sender::send(answer, kubelet.served());
            }
            () = tokio::time::sleep(sleep_for(kubelet.next_due())), if !busy => {}
        }
    }
    let finish = async { while requests.join_next().await.is_some() {} };
    if tokio::time::timeout(FINISH_MAX, finish).await.is_err() {
        debug!("fake kubelet: left before all requests were answered");
    }
    Ok(())
}

/// Applies an event and those that are already there behind it.
fn take_in(kubelet: &mut FakeKubelet, first: Option<Event>, mut more: impl Stream<Item = Option<Event>> + Unpin) {
    let mut next = Some(first);
    for _ in 0..EVENTS_PER_TURN {
        match next {
            Some(Some(event)) => kubelet.apply(now(), event),
            Some(None) => {}
            None => return,
        }
        next = more.next().now_or_never().flatten();
    }
    if let Some(Some(event)) = next {
        kubelet.apply(now(), event);
    }
}

fn now() -> Millis {
    jiff::Timestamp::now().as_millisecond()
}

fn sleep_for(due: Option<Millis>) -> Duration {
    let millis = due.map_or(Millis::MAX, |due| due.saturating_sub(now()));
    Duration::from_millis(u64::try_from(millis).unwrap_or(0)).min(SLEEP_MAX)
}

fn pod_events(client: &Client) -> impl Stream<Item = Option<Event>> + use<> {
    let api: Api<SlimPod> = Api::all_with(client.clone(), &wire::pod_resource());
    // Pods that are not bound are nobody's here.
    watcher(api, watcher::Config::default().fields("spec.nodeName!="))
        .default_backoff()
        .map(|event| match event {
            Ok(watcher::Event::Init) => Some(Event::PodsRelisting),
            Ok(watcher::Event::InitDone) => Some(Event::PodsListed),
            Ok(watcher::Event::Apply(pod) | watcher::Event::InitApply(pod)) => {
                wire::pod_facts(pod).map(|facts| Event::PodApplied(Box::new(facts)))
            }
            Ok(watcher::Event::Delete(pod)) => pod.metadata.uid.map(Event::PodDeleted),
            Err(error) => {
                warn!(%error, "fake kubelet: the watch on pods failed; trying again");
                None
            }
        })
}

fn node_events(client: &Client) -> impl Stream<Item = Option<Event>> + use<> {
    let api: Api<SlimNode> = Api::all_with(client.clone(), &wire::node_resource());
    watcher(api, watcher::Config::default())
        .default_backoff()
        .map(|event| match event {
            Ok(watcher::Event::Init) => Some(Event::NodesRelisting),
            Ok(watcher::Event::InitDone) => Some(Event::NodesListed),
            Ok(watcher::Event::Apply(node) | watcher::Event::InitApply(node)) => {
                wire::node_facts(node).map(Event::NodeApplied)
            }
            Ok(watcher::Event::Delete(node)) => Some(Event::NodeDeleted(node.name_any())),
            Err(error) => {
                warn!(%error, "fake kubelet: the watch on nodes failed; trying again");
                None
            }
        })
}

/// The answer of a request; a panic in one is a bug, and goes on here.
fn answer(done: Result<(Target, Outcome), JoinError>) -> (Target, Outcome) {
    done.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))
}

async fn request(client: Client, action: Action) -> (Target, Outcome) {
    let client = &client;
    let target = action.target();
    let result = match action {
        Action::PatchPod { pod, patch, warnings } => {
            for warning in warnings {
                let note = Note::warning("InvalidAnnotation", warning);
                events::post(
                    client,
                    "basalt-fake-kubelet",
                    &pod.namespace,
                    &pod.name,
                    &pod.uid,
                    &note,
                )
                .await;
            }
            let patch = Patch::Strategic(patch);
            pods(client, &pod)
                .patch_status(&pod.name, &PatchParams::default(), &patch)
                .await
                .map(drop)
        }
        Action::DeletePod(pod) => {
            let precondition = Preconditions {
                uid: Some(pod.uid.to_string()),
                resource_version: None,
            };
            let params = DeleteParams::default().grace_period(0).preconditions(precondition);
            pods(client, &pod).delete(&pod.name, &params).await.map(drop)
        }
        Action::PatchNode {
            name,
            registration,
            status,
        } => patch_node(client, &name, registration, status).await,
    };
    (target, outcome(result))
}

fn outcome(result: Result<(), kube::Error>) -> Outcome {
    match result {
        Ok(()) => Outcome::Done,
        Err(kube::Error::Api(status)) if status.code == 404 => Outcome::Gone,
        // Another pod of the same name: the watch will tell.
        Err(kube::Error::Api(status)) if status.code == 409 => {
            debug!(message = status.message, "fake kubelet: conflict; trying again");
            Outcome::Failed
        }
        Err(error) => {
            warn!(%error, "fake kubelet: a request failed; trying again");
            Outcome::Failed
        }
    }
}

fn pods(client: &Client, pod: &PodRef) -> Api<SlimPod> {
    Api::namespaced_with(client.clone(), &pod.namespace, &wire::pod_resource())
}

async fn patch_node(
    client: &Client,
    name: &str,
    registration: Option<serde_json::Value>,
    status: Option<serde_json::Value>,
) -> Result<(), kube::Error> {
    let nodes: Api<SlimNode> = Api::all_with(client.clone(), &wire::node_resource());
    let params = PatchParams::default();
    if let Some(registration) = registration {
        nodes.patch(name, &params, &Patch::Merge(registration)).await?;
    }
    if let Some(status) = status {
        nodes.patch_status(name, &params, &Patch::Strategic(status)).await?;
    }
    Ok(())
}
