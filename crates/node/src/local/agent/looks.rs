//! A look at one pod: what is known of it, and the next thing to do.

use std::sync::Arc;
use std::time::Duration;

use basalt_api::backoff::Backoff;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DeleteParams, Patch, PatchParams, Preconditions};
use serde_json::{Value, json};
use tracing::{debug, warn};

use super::super::folder::PodFolder;
use super::super::status::containers_of;
use super::super::trouble::Trouble;
use super::super::volumes::References;
use super::admission::WAITING_FOR_GPU;
use super::pods::{LocalPod, Stage};
use super::prepare::{self, Order};
use super::times::RETRY_FIRST;
use super::watches::Kind;
use super::{Agent, Answer, Message, users};
use crate::events::Note;

/// Delays until a status that could not be written is written again.
const WRITE_RETRY: Backoff = Backoff::new(RETRY_FIRST, Duration::from_secs(30));
/// Delays until a pod that could not be started is tried again.
const ROOM_RETRY: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_mins(1));

impl Agent {
    pub(super) fn pod_applied(&mut self, object: Pod) {
        let meta = &object.metadata;
        let (Some(uid), Some(namespace), Some(name)) = (meta.uid.clone(), &meta.namespace, &meta.name) else {
            return;
        };
        // The uid becomes a folder's name.
        if uid.is_empty() || uid.contains(['/', '\0']) || uid.starts_with('.') {
            return;
        }
        let round = self.round;
        let pod = self
            .pods
            .entry(uid.clone())
            .or_insert_with(|| LocalPod::new(&uid, namespace, name));
        pod.listed = round;
        if pod.name.is_empty() {
            // Taken over without a plan.
            pod.namespace.clone_from(namespace);
            pod.name.clone_from(name);
        }
        let before = pod.object.replace(Arc::new(object));
        if let (Some(before), Some(now)) = (before.as_deref(), pod.object.as_deref()) {
            pod.deletion_seen |=
                before.metadata.deletion_timestamp.is_none() && now.metadata.deletion_timestamp.is_some();
            let fields = |pod: &Pod| (pod.metadata.labels.clone(), pod.metadata.annotations.clone());
            if fields(before) != fields(now) {
                self.renamed.insert(pod.namespace.clone());
                self.refresh(&uid);
            }
        } else if let Some(now) = pod.object.as_deref() {
            let status = now.status.as_ref();
            if let Some(time) = status.and_then(|s| s.start_time.as_ref()) {
                pod.taken = time.0;
            }
            let address = status.and_then(|s| s.pod_ip.as_ref()?.parse().ok());
            if let Some(address) = address.filter(|_| pod.address.is_none() && matches!(pod.stage, Stage::Running(_))) {
                self.addresses.claim(address);
                pod.address = Some(address);
            }
            if let Ok(shown) = serde_json::to_value(status) {
                pod.shown = shown;
            }
            if pod.stage == Stage::New && pod.object_ended() {
                pod.stage = Stage::Finished;
            }
            self.renamed.insert(pod.namespace.clone());
            // A ConfigMap may have changed while nobody looked.
            self.refresh(&uid);
        }
        self.look(&uid);
    }

    pub(super) fn pod_gone(&mut self, uid: &str) {
        if let Some(pod) = self.pods.get_mut(uid) {
            pod.object = None;
            pod.listed = 0;
            self.renamed.insert(pod.namespace.clone());
            self.look(uid);
        }
    }

    pub(super) fn pods_listed(&mut self) {
        self.listed = true;
        let round = self.round;
        let uids: Vec<String> = self.pods.keys().cloned().collect();
        for uid in uids {
            if self
                .pods
                .get(&uid)
                .is_some_and(|pod| pod.object.is_none() || pod.listed != round)
            {
                self.pod_gone(&uid);
            }
        }
    }

    /// Does the next thing for a pod.
    pub(super) fn look(&mut self, uid: &str) {
        let Some(pod) = self.pods.get(uid) else { return };
        // An answer that is on its way makes us look again.
        if pod.sent || !self.listed {
            if !pod.sent && pod.object.is_some() {
                // A pod of the first list is not made to wait for the end of the list.
                self.look_at_listed(uid);
            }
            return;
        }
        if pod.object.is_none() {
            self.look_at_orphan(uid);
        } else {
            self.look_at_listed(uid);
        }
    }

    /// The object is gone: what is left goes too.
    fn look_at_orphan(&mut self, uid: &str) {
        let Some(pod) = self.pods.get_mut(uid) else { return };
        match pod.stage {
            Stage::Preparing | Stage::Removing => {}
            Stage::Running(_) => self.say_stop(uid),
            _ => {
                pod.stage = Stage::Removing;
                pod.gpus.clear();
                let folder = PodFolder::of(&self.shared.places.pods(), uid);
                let (messages, uid) = (self.messages.clone(), uid.to_owned());
                tokio::task::spawn_blocking(move || {
                    if let Err(error) = super::adopt::remove(&folder) {
                        warn!(%error, uid, "a pod's folder could not be removed; the next start tries again");
                    }
                    let _ = messages.send(Message::Removed { uid });
                });
            }
        }
    }

    fn look_at_listed(&mut self, uid: &str) {
        let Some(pod) = self.pods.get(uid) else { return };
        let deleted = pod.deleted();
        match pod.stage {
            Stage::New | Stage::Waiting { .. } if deleted => self.delete(uid),
            Stage::New => self.prepare(uid),
            Stage::Preparing | Stage::Removing => {}
            Stage::Running(_) => {
                if deleted {
                    self.say_stop(uid);
                }
                self.show(uid);
            }
            Stage::Waiting { .. } | Stage::Refused { .. } | Stage::Ended(_) | Stage::Finished => {
                // The last words first, so that whoever watches sees how it ended.
                if !self.show(uid) && deleted {
                    self.delete(uid);
                }
            }
        }
    }

    /// Fills the folder and starts the shim, in a task.
    fn prepare(&mut self, uid: &str) {
        let Some(pod) = self.pods.get(uid).filter(|_| !self.leaving) else {
            return;
        };
        let Some(object) = pod.object.clone() else { return };
        if pod.time_left(Timestamp::now()) == Some(Duration::ZERO) {
            let message = "the pod was here longer than its activeDeadlineSeconds, and did not begin".to_owned();
            return self.troubled(uid, Trouble::refused("DeadlineExceeded", message));
        }
        let allowed = self
            .room_for(uid, &object)
            .and_then(|()| users::extras(&object))
            .and_then(|ignored| Ok((ignored, self.allot_gpus(&object)?)));
        let (ignored, gpus) = match allowed {
            Ok(allowed) => allowed,
            Err(trouble) => return self.troubled(uid, trouble),
        };
        let Some(pod) = self.pods.get_mut(uid) else { return };
        pod.gpus = gpus.values().flatten().cloned().collect();
        let address = *pod.address.get_or_insert_with(|| self.addresses.take());
        if pod.shown.get("startTime").is_none_or(Value::is_null) {
            pod.taken = Timestamp::now();
        }
        pod.stage = Stage::Preparing;
        let (taken, namespace) = (pod.taken, pod.namespace.clone());
        self.tell_beginnings(uid, &object, &ignored);
        let names = self.shared_names(&namespace);
        let hosts = self.pods.get(uid).and_then(|pod| pod.names(&names)).unwrap_or_default();
        if let Some(pod) = self.pods.get_mut(uid) {
            pod.hosts.clone_from(&hosts);
        }
        self.renamed.insert(namespace);
        let order = Order {
            uid: uid.to_owned(),
            pod: object,
            address,
            gpus,
            hosts,
            taken,
        };
        self.children += 1;
        let child_number = self.children;
        if let Some(pod) = self.pods.get_mut(uid) {
            pod.child = Some(child_number);
        }
        let (shared, messages, uid) = (Arc::clone(&self.shared), self.messages.clone(), uid.to_owned());
        tokio::spawn(async move {
            let started = prepare::start(shared, order).await;
            let (child, result) = match started {
                Ok(child) => (Some(child), Ok(())),
                Err(trouble) => (None, Err(trouble)),
            };
            let _ = messages.send(Message::Prepared {
                uid: uid.clone(),
                result,
            });
            if let Some(mut child) = child {
                let _ = child.wait().await;
                let _ = messages.send(Message::Exited {
                    uid,
                    child: child_number,
                });
            }
        });
    }

    /// Says once what is different here.
    fn tell_beginnings(&mut self, uid: &str, object: &Pod, ignored: &[String]) {
        let Some(pod) = self.pods.get_mut(uid) else { return };
        if std::mem::replace(&mut pod.image_told, true) {
            return;
        }
        let (_, main) = containers_of(object);
        let images: Vec<&str> = main.iter().filter_map(|c| c.image.as_deref()).collect();
        let message = format!(
            "no image is pulled: the command runs as a process of this machine ({} is a label)",
            images.join(", ")
        );
        let Some(pod) = self.pods.get(uid) else { return };
        self.note(pod, Note::normal("ImageNotPulled", message));
        for what in ignored {
            self.note(pod, Note::warning("Ignored", what.clone()));
        }
    }

    pub(super) fn prepared(&mut self, uid: &str, result: Result<(), Trouble>) {
        match result {
            Ok(()) => {
                if let Some(pod) = self.pods.get_mut(uid) {
                    pod.attempts = 0;
                    if pod.stage == Stage::Preparing {
                        pod.stage = Stage::Running(None);
                    }
                }
                self.look(uid);
            }
            Err(trouble) => self.troubled(uid, trouble),
        }
    }

    /// The pod cannot run, or not yet.
    fn troubled(&mut self, uid: &str, trouble: Trouble) {
        let Some(pod) = self.pods.get_mut(uid) else { return };
        let had_gpus = !std::mem::take(&mut pod.gpus).is_empty();
        pod.child = None;
        pod.waits_for_gpu = matches!(trouble, Trouble::Waits { event, .. } if event == WAITING_FOR_GPU);
        let (stage, note) = match trouble {
            Trouble::Waits {
                waiting,
                event,
                message,
            } => {
                let note = Note::warning(event, message.clone());
                let stage = Stage::Waiting {
                    reason: waiting,
                    message,
                };
                (stage, note)
            }
            Trouble::Refused { reason, message } => {
                let note = Note::warning(reason, message.clone());
                let stage = Stage::Refused {
                    reason: reason.to_owned(),
                    message,
                };
                (stage, note)
            }
        };
        let waits = matches!(stage, Stage::Waiting { .. });
        pod.stage = stage;
        pod.attempts = pod.attempts.saturating_add(1);
        let wait = ROOM_RETRY.delay_after(pod.attempts);
        let wait = pod.time_left(Timestamp::now()).map_or(wait, |left| wait.min(left));
        if let Some(pod) = self.pods.get(uid) {
            self.note(pod, note);
        }
        self.look(uid);
        if waits {
            self.look_later(uid, wait);
        }
        if had_gpus {
            self.wake_waiting_for_gpus();
        }
    }

    /// Something that pods refer to came, changed or went.
    pub(super) fn object_changed(&mut self, kind: Kind, namespace: &str, name: &str) {
        let refers = |pod: &LocalPod| {
            let Some(object) = pod.object.as_deref().filter(|_| pod.namespace == namespace) else {
                return false;
            };
            let all = References::of(object);
            match kind {
                Kind::ConfigMap => all.config_maps.contains(name),
                Kind::Secret => all.secrets.contains(name),
                Kind::Claim => all.claims.contains(name),
            }
        };
        let uids: Vec<String> = self
            .pods
            .values()
            .filter(|pod| refers(pod))
            .map(|pod| pod.uid.clone())
            .collect();
        for uid in uids {
            self.wake(&uid);
            self.refresh(&uid);
        }
    }

    /// Brings the volumes of a running pod up to date.
    pub(super) fn refresh(&mut self, uid: &str) {
        let Some(pod) = self.pods.get_mut(uid) else { return };
        let (Some(object), Some(address)) = (pod.object.clone(), pod.address) else {
            return;
        };
        let volumes = object.spec.as_ref().and_then(|s| s.volumes.as_ref());
        let any = volumes.into_iter().flatten().any(super::super::volumes::has_contents);
        if !any || !matches!(pod.stage, Stage::Running(_) | Stage::Preparing) {
            return;
        }
        if pod.refreshing || pod.stage == Stage::Preparing {
            pod.refresh_again = true;
            return;
        }
        pod.refreshing = true;
        pod.refresh_again = false;
        let (shared, messages, uid) = (Arc::clone(&self.shared), self.messages.clone(), uid.to_owned());
        tokio::spawn(async move {
            let result = prepare::refresh(shared, uid.clone(), object, address).await;
            let _ = messages.send(Message::Refreshed { uid, result });
        });
    }

    pub(super) fn refreshed(&mut self, uid: &str, result: Result<(), Trouble>) {
        let Some(pod) = self.pods.get_mut(uid) else { return };
        pod.refreshing = false;
        if let Err(Trouble::Waits { message, .. } | Trouble::Refused { message, .. }) = result {
            // As in Kubernetes, what was there stays.
            debug!(uid, message, "a volume keeps what it had");
        }
        if pod.refresh_again {
            self.refresh(uid);
        }
    }

    /// Writes the status if the server does not know it yet; whether it did.
    fn show(&mut self, uid: &str) -> bool {
        let Some(pod) = self.pods.get_mut(uid) else {
            return false;
        };
        let Some(status) = pod.unshown(Timestamp::now()) else {
            return false;
        };
        pod.sent = true;
        pod.shown.clone_from(&status);
        // The uid makes the server refuse the patch for another pod of the same name.
        let patch = json!({"metadata": {"uid": pod.uid}, "status": status});
        let (namespace, name, uid) = (pod.namespace.clone(), pod.name.clone(), pod.uid.clone());
        let (client, messages) = (self.shared.client.clone(), self.messages.clone());
        tokio::spawn(async move {
            let pods: Api<Pod> = Api::namespaced(client, &namespace);
            let result = pods
                .patch_status(&name, &PatchParams::default(), &Patch::Strategic(patch))
                .await;
            let answer = answer_of(result.map(drop), Answer::Shown);
            let _ = messages.send(Message::Answered { uid, answer });
        });
        true
    }

    /// Deletes the object for good.
    fn delete(&mut self, uid: &str) {
        let Some(pod) = self.pods.get_mut(uid).filter(|pod| !pod.removed) else {
            return;
        };
        pod.sent = true;
        let (namespace, name, uid) = (pod.namespace.clone(), pod.name.clone(), pod.uid.clone());
        let (client, messages) = (self.shared.client.clone(), self.messages.clone());
        tokio::spawn(async move {
            let pods: Api<Pod> = Api::namespaced(client, &namespace);
            let precondition = Preconditions {
                uid: Some(uid.clone()),
                resource_version: None,
            };
            let params = DeleteParams::default().grace_period(0).preconditions(precondition);
            let answer = answer_of(pods.delete(&name, &params).await.map(drop), Answer::Deleted);
            let _ = messages.send(Message::Answered { uid, answer });
        });
    }

    pub(super) fn answered(&mut self, uid: &str, answer: Answer) {
        let Some(pod) = self.pods.get_mut(uid) else { return };
        pod.sent = false;
        match answer {
            Answer::Shown => pod.attempts = 0,
            Answer::Deleted => pod.removed = true,
            // The watch will say so as well.
            Answer::Gone => return self.pod_gone(uid),
            Answer::Failed => {
                pod.shown = Value::Null;
                pod.attempts = pod.attempts.saturating_add(1);
                let wait = WRITE_RETRY.delay_after(pod.attempts);
                return self.look_later(uid, wait);
            }
        }
        self.look(uid);
    }

    pub(super) fn forget(&mut self, uid: &str) {
        if let Some(pod) = self.pods.remove(uid) {
            if let Some(address) = pod.address {
                self.addresses.give(address);
            }
            self.renamed.insert(pod.namespace);
        }
    }
}

fn answer_of(result: Result<(), kube::Error>, done: Answer) -> Answer {
    match result {
        Ok(()) => done,
        Err(kube::Error::Api(status)) if status.code == 404 => Answer::Gone,
        Err(kube::Error::Api(status)) if status.code == 409 => {
            // Another pod of the same name: the watch tells that ours is gone.
            debug!(message = status.message, "a conflict about a pod; trying again");
            Answer::Failed
        }
        Err(error) => {
            warn!(%error, "a request about a pod failed; trying again");
            Answer::Failed
        }
    }
}
