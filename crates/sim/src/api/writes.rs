//! What each verb does.

use std::sync::Arc;

use basalt_admission::{Operation, Settings, User, Verdict};
use basalt_api::json::{is_deleting, string_at};
use serde_json::{Value, json};

use super::meta;
use super::{Answer, Api, Key, Kind, Refusal, Report, Request, Stored, Typed};

fn refusal(code: u16, reason: &str, message: String) -> Refusal {
    Refusal {
        code,
        reason: reason.to_owned(),
        message,
    }
}

fn not_found(key: &Key) -> Refusal {
    refusal(404, "NotFound", format!("{key} not found"))
}

fn conflict(key: &Key, why: &str) -> Refusal {
    refusal(409, "Conflict", format!("{key}: {why}"))
}

fn other_uid(key: &Key, wanted: &str, is: &str) -> Refusal {
    conflict(key, &format!("the uid is {is}, not {wanted}"))
}

impl Api {
    /// Does what is asked, or says why not.
    pub fn handle(&mut self, request: &Request) -> Answer {
        match request {
            Request::Create { key, object } => self.create(key, object.clone()),
            Request::Patch { key, status, merge } => self.patch(key, *status, merge),
            Request::Strategic { key, status, patch } => {
                let old = self.get(key).ok_or_else(|| not_found(key))?;
                let merge = merged_conditions(old, patch);
                self.patch(key, *status, &merge)
            }
            Request::Delete {
                key,
                uid,
                revision,
                grace,
            } => self.delete(key, uid.as_deref(), revision.as_deref(), *grace),
            Request::Bind { namespace, binds } => self.bind(namespace, binds),
            Request::Event { .. } => Ok(Arc::new(Value::Null)),
        }
    }

    fn create(&mut self, key: &Key, mut object: Value) -> Answer {
        let kind = key.kind;
        let namespace = Key::new(Kind::Namespace, "", &key.namespace);
        if kind.is_namespaced() && !self.objects.contains_key(&namespace) {
            return Err(not_found(&namespace));
        }
        let (uid, stamp) = (format!("u{}", self.uids.saturating_add(1)), self.stamp.clone());
        let Some(metadata) = meta::metadata(&mut object) else {
            return Err(refusal(400, "BadRequest", "the object is not a JSON object".to_owned()));
        };
        for key in [
            "selfLink",
            "managedFields",
            "deletionTimestamp",
            "deletionGracePeriodSeconds",
            "resourceVersion",
            "generation",
        ] {
            metadata.remove(key);
        }
        meta::tidy(metadata);
        if kind.is_namespaced() {
            metadata.insert("namespace".to_owned(), (*key.namespace).into());
        }
        metadata.insert("uid".to_owned(), uid.into());
        metadata.insert("creationTimestamp".to_owned(), stamp.into());
        if kind.is_custom() {
            metadata.insert("generation".to_owned(), 1.into());
        }
        begin(kind, &mut object);
        if self.objects.contains_key(key) {
            return Err(refusal(409, "AlreadyExists", format!("{key} already exists")));
        }
        self.admit(Operation::Create, key, None, Some(&mut object), None)?;
        self.uids = self.uids.saturating_add(1);
        self.store(key, object)
    }

    fn patch(&mut self, key: &Key, status: bool, merge: &Value) -> Answer {
        let old = self.get(key).cloned().ok_or_else(|| not_found(key))?;
        let revision = string_at(merge, "/metadata/resourceVersion");
        if !revision.is_empty() && revision != string_at(&old, "/metadata/resourceVersion") {
            return Err(conflict(
                key,
                "the object has been modified; apply your changes to the latest version",
            ));
        }
        let (uid, is) = (string_at(merge, "/metadata/uid"), string_at(&old, "/metadata/uid"));
        if !uid.is_empty() && uid != is {
            return Err(other_uid(key, uid, is));
        }
        let mut new = changed(key.kind, status, &old, merge);
        let subresource = status.then_some("status");
        self.admit(Operation::Update, key, subresource, Some(&mut new), Some(&old))?;
        if key.kind.is_custom() && wanted(key.kind, &old).ne(wanted(key.kind, &new)) {
            meta::bump_generation(&mut new);
        }
        if new == *old {
            return Ok(old);
        }
        if is_deleting(&new) && !meta::is_held(&new) && !has_grace(key.kind, &new) {
            return self.remove(key, new);
        }
        self.store(key, new)
    }

    fn delete(&mut self, key: &Key, uid: Option<&str>, revision: Option<&str>, grace: Option<i64>) -> Answer {
        let old = self.get(key).cloned().ok_or_else(|| not_found(key))?;
        let is = string_at(&old, "/metadata/uid");
        if let Some(wanted) = uid.filter(|wanted| *wanted != is) {
            return Err(other_uid(key, wanted, is));
        }
        let is = string_at(&old, "/metadata/resourceVersion");
        if let Some(wanted) = revision.filter(|wanted| *wanted != is) {
            return Err(conflict(key, &format!("the version is {is}, not {wanted}")));
        }
        self.admit(Operation::Delete, key, None, None, Some(&old))?;
        let mut new = (*old).clone();
        self.mark(key.kind, grace, &mut new);
        if !meta::is_held(&new) && !has_grace(key.kind, &new) {
            return self.remove(key, new);
        }
        if new == *old {
            return Ok(old);
        }
        self.store(key, new)
    }

    /// Writes into the object that it is being deleted.
    fn mark(&self, kind: Kind, wanted: Option<i64>, object: &mut Value) {
        let runs = kind == Kind::Pod
            && !matches!(string_at(object, "/status/phase"), "Succeeded" | "Failed")
            && !string_at(object, "/spec/nodeName").is_empty();
        let own = object
            .pointer("/spec/terminationGracePeriodSeconds")
            .and_then(Value::as_i64);
        let grace = if runs { wanted.or(own).unwrap_or(30).max(0) } else { 0 };
        if is_deleting(object) {
            let left = object
                .pointer("/metadata/deletionGracePeriodSeconds")
                .and_then(Value::as_i64);
            // Grace can be cut short, never extended.
            if kind == Kind::Pod && grace < left.unwrap_or_default() && (wanted.is_some() || grace == 0) {
                self.set_deadline(object, grace);
            }
            return;
        }
        self.set_deadline(object, grace);
        meta::bump_generation(object);
    }

    fn set_deadline(&self, object: &mut Value, grace: i64) {
        let at = self
            .now
            .saturating_add(jiff::SignedDuration::from_secs(grace))
            .unwrap_or(self.now);
        if let Some(metadata) = meta::metadata(object) {
            let at = at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
            metadata.insert("deletionTimestamp".to_owned(), at.into());
            metadata.insert("deletionGracePeriodSeconds".to_owned(), grace.into());
        }
    }

    fn bind(&mut self, namespace: &str, binds: &[(String, String, String)]) -> Answer {
        let mut pods = Vec::with_capacity(binds.len());
        for (name, uid, node) in binds {
            let key = Key::new(Kind::Pod, namespace, name);
            let old = self.get(&key).ok_or_else(|| not_found(&key))?;
            let is = string_at(old, "/metadata/uid");
            if !uid.is_empty() && uid != is {
                return Err(other_uid(&key, uid, is));
            }
            if is_deleting(old) {
                return Err(conflict(&key, "the pod is being deleted"));
            }
            let has = string_at(old, "/spec/nodeName");
            if !has.is_empty() {
                return Err(conflict(&key, &format!("the pod is already on node {has}")));
            }
            let mut new = (**old).clone();
            new["spec"]["nodeName"] = json!(node);
            end_waiting(&mut new);
            pods.push((key, new));
        }
        for (key, pod) in pods {
            self.store(&key, pod)?;
        }
        Ok(Arc::new(Value::Null))
    }

    fn admit(
        &self,
        operation: Operation,
        key: &Key,
        subresource: Option<&str>,
        object: Option<&mut Value>,
        old: Option<&Value>,
    ) -> Result<(), Refusal> {
        if subresource.is_some() || !basalt_admission::concerns(key.kind.group(), key.kind.plural()) {
            return Ok(());
        }
        let request = basalt_admission::Request {
            operation,
            group: key.kind.group(),
            resource: key.kind.plural(),
            subresource,
            namespace: &key.namespace,
            name: &key.name,
            user: &User::default(),
            object: object.as_deref(),
            old,
            dry_run: false,
        };
        let decision = basalt_admission::admit(&request, &self.view, &Settings::default());
        if let Verdict::Refuse(refused) = decision.verdict {
            return Err(refusal(refused.code, refused.reason, refused.message));
        }
        if let (Some(object), Some(changed)) = (object, decision.object) {
            *object = changed;
        }
        Ok(())
    }

    fn store(&mut self, key: &Key, object: Value) -> Answer {
        self.tell(key, object, false)
    }

    fn remove(&mut self, key: &Key, last: Value) -> Answer {
        self.tell(key, last, true)
    }

    /// Gives the object its revision, keeps it or lets it go, and tells everyone.
    fn tell(&mut self, key: &Key, mut object: Value, gone: bool) -> Answer {
        self.revision = self.revision.saturating_add(1);
        if let Some(metadata) = meta::metadata(&mut object) {
            metadata.insert("resourceVersion".to_owned(), self.revision.to_string().into());
        }
        let typed =
            Typed::read(key.kind, &object).map_err(|error| refusal(422, "Invalid", format!("{key}: {error}")))?;
        let (object, typed) = (Arc::new(object), Arc::new(typed));
        let before = if gone {
            self.view.remove(&key.kind.resource(), &key.namespace, &key.name);
            self.objects.remove(key)
        } else {
            self.view.put(&key.kind.resource(), &object);
            let (object, typed) = (object.clone(), typed.clone());
            self.objects.insert(key.clone(), Stored { object, typed })
        };
        let report = Report {
            key: key.clone(),
            object: object.clone(),
            typed,
            before: before.map(|stored| stored.object),
            gone,
        };
        self.news.push(report.clone());
        if let Some(journal) = self.journal.get_mut(key.kind.index()) {
            journal.push(report);
        }
        Ok(object)
    }
}

/// How a new object of a kind begins.
fn begin(kind: Kind, object: &mut Value) {
    if kind.has_status()
        && kind != Kind::Node
        && let Some(map) = object.as_object_mut()
    {
        map.remove("status");
    }
    match kind {
        Kind::Pod => {
            if string_at(object, "/spec/nodeName").is_empty()
                && let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut)
            {
                spec.remove("nodeName");
            }
            object["status"] = json!({"phase": "Pending"});
        }
        Kind::Namespace => object["status"] = json!({"phase": "Active"}),
        _ => {}
    }
}

/// The object with a merge patch. A write of the object cannot touch the status, and a write of the status nothing else:
/// only what may change is merged at all.
fn changed(kind: Kind, status: bool, old: &Value, merge: &Value) -> Value {
    let mut new = old.clone();
    let (Some(to), Some(merge)) = (new.as_object_mut(), merge.as_object()) else {
        return new;
    };
    let allowed = |part: &str| (part == "status") == status || (part == "status" && !kind.has_status());
    for (part, patch) in merge.iter().filter(|(part, _)| allowed(part)) {
        if patch.is_null() {
            to.remove(part);
        } else {
            json_patch::merge(to.entry(part.clone()).or_insert(Value::Null), patch);
        }
    }
    if !status && merge.contains_key("metadata") {
        meta::keep(old, &mut new);
    }
    new
}

/// Removes the condition that a pod waits for a node.
fn end_waiting(pod: &mut Value) {
    let Some(status) = pod.get_mut("status").and_then(Value::as_object_mut) else {
        return;
    };
    if let Some(conditions) = status.get_mut("conditions").and_then(Value::as_array_mut) {
        conditions.retain(|condition| string_at(condition, "/type") != "PodScheduled");
        if conditions.is_empty() {
            status.remove("conditions");
        }
    }
}

/// Returns a strategic merge patch as a plain one: the object's conditions are kept, and those of the patch replace the
/// ones of their type, field by field.
fn merged_conditions(old: &Value, patch: &Value) -> Value {
    let list = |object: &Value| {
        let conditions = object.pointer("/status/conditions").and_then(Value::as_array);
        conditions.cloned().unwrap_or_default()
    };
    let mut conditions = list(old);
    for new in list(patch) {
        let same_type = conditions
            .iter_mut()
            .find(|known| string_at(known, "/type") == string_at(&new, "/type"));
        match same_type {
            Some(known) => json_patch::merge(known, &new),
            None => conditions.push(new),
        }
    }
    let mut merge = patch.clone();
    if !conditions.is_empty() {
        merge["status"]["conditions"] = json!(conditions);
    }
    merge
}

/// What the generation counts.
fn wanted(kind: Kind, object: &Value) -> impl Iterator<Item = (&String, &Value)> {
    let fields = object.as_object().into_iter().flatten();
    fields.filter(move |(key, _)| *key != "metadata" && (*key != "status" || !kind.has_status()))
}

/// Whether the pod's node still has to end it.
fn has_grace(kind: Kind, object: &Value) -> bool {
    let grace = object
        .pointer("/metadata/deletionGracePeriodSeconds")
        .and_then(Value::as_i64);
    kind == Kind::Pod && grace.unwrap_or_default() > 0
}
