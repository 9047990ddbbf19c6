//! A small API server around the world of the controllers: it stores what they ask for, minds preconditions and
//! finalizers, tells the world of every change, and can let the controllers die after any write.

use std::collections::{BTreeMap, BTreeSet};

use basalt_api::{NamespacedName, ObjectRef};
use basalt_controllers::Change;
use basalt_controllers::cache::Origin;
use basalt_controllers::companion::KINDS;
use basalt_controllers::world::{Rules, Work, World};
use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

type Key = (String, String, String);

/// Objects by kind, namespace and name, and controllers that look at them.
pub(crate) struct Cluster {
    objects: BTreeMap<Key, Value>,
    world: World,
    due: BTreeSet<Work>,
    pub(crate) now: i64,
    revision: u64,
    /// Every write, in order: `status q`, `delete Job a`, …
    pub(crate) log: Vec<String>,
    /// Every event: `Queue q: reason: message`.
    pub(crate) events: Vec<String>,
    /// The controllers die after this write, once, and start again from what is stored.
    pub(crate) crash_after: Option<usize>,
    /// Jobs are looked at, too, and their pods take time to stop.
    with_jobs: bool,
    /// Nobody is there to see what happens.
    down: bool,
    /// Nodes that were locked for a queue while an unrelated one held them.
    pub(crate) conflicts: Vec<String>,
    /// By which rules nodes are locked.
    rules: Option<Rules>,
    /// What is stored is what the controllers asked for: they know it from the answer before the watch tells.
    answering: bool,
}

fn new_world() -> World {
    World::new(BTreeSet::from(["volcano".to_owned()]))
}

fn typed<T: DeserializeOwned>(object: &Value) -> T {
    serde_json::from_value(object.clone()).expect("typed")
}

fn key_of(object: &Value) -> Key {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let meta = &object["metadata"];
    (text(&object["kind"]), text(&meta["namespace"]), text(&meta["name"]))
}

/// Why a write was refused.
struct Conflict;

impl Cluster {
    /// A cluster with `root`, `default` and these objects, at rest.
    pub(crate) fn new(objects: Vec<Value>) -> Self {
        let mut cluster = Self {
            objects: BTreeMap::new(),
            world: new_world(),
            due: BTreeSet::from([Work::StandardQueues]),
            now: 1_800_000_000,
            revision: 0,
            log: Vec::new(),
            events: Vec::new(),
            crash_after: None,
            with_jobs: false,
            down: false,
            answering: false,
            rules: None,
            conflicts: Vec::new(),
        };
        cluster.settle();
        for object in objects {
            cluster.put(object);
        }
        cluster.settle();
        cluster.log.clear();
        cluster.events.clear();
        cluster
    }

    /// A cluster in which Jobs are looked at, too.
    pub(crate) fn with_jobs(objects: Vec<Value>) -> Self {
        let mut cluster = Self::new(Vec::new());
        cluster.with_jobs = true;
        for object in objects {
            cluster.put(object);
        }
        cluster.log.clear();
        cluster
    }

    /// The controllers die …
    pub(crate) fn go_down(&mut self) {
        self.down = true;
    }

    /// … and start again.
    pub(crate) fn come_up(&mut self) {
        self.down = false;
        self.restart();
    }

    /// Nodes are locked by these rules from now on, or not at all.
    pub(crate) fn reserve(&mut self, rules: Option<Rules>) {
        self.rules = rules;
        self.due.extend(self.world.set_reserving(rules));
    }

    fn time(&self) -> Timestamp {
        Timestamp::from_second(self.now).expect("in range")
    }

    /// The names of the queues above one.
    fn above(&self, name: &str) -> BTreeSet<String> {
        let mut above = BTreeSet::new();
        let mut here = name.to_owned();
        while let Some(queue) = self.get("Queue", "", &here) {
            let parent = queue["spec"]["parent"].as_str().unwrap_or_default().to_owned();
            if !above.insert(parent.clone()) {
                break;
            }
            here = parent;
        }
        above
    }

    /// Nobody may take a node that a stranger holds.
    fn look_for_conflicts(&mut self, taker: &str, nodes: &Value) {
        let texts = |list: &Value| -> BTreeSet<String> {
            let texts = list.as_array().into_iter().flatten().filter_map(Value::as_str);
            texts.map(str::to_owned).collect()
        };
        let nodes = texts(nodes);
        let held = |name: &str| texts(&self.queue(name)["status"]["reservation"]["nodes"]);
        let before = held(taker);
        let conflicts: Vec<String> = self
            .names("Queue")
            .into_iter()
            .filter(|other| {
                *other != taker && !self.above(other).contains(taker) && !self.above(taker).contains(*other)
            })
            .flat_map(|other| {
                let theirs = held(other);
                let both = nodes
                    .iter()
                    .filter(|node| theirs.contains(*node) && !before.contains(*node));
                both.map(|node| format!("{taker} takes {node} from {other}"))
                    .collect::<Vec<_>>()
            })
            .collect();
        self.conflicts.extend(conflicts);
    }

    /// Creates an object, or replaces all but its identity.
    pub(crate) fn put(&mut self, mut object: Value) {
        let key = key_of(&object);
        let (uid, created) = match self.objects.get(&key) {
            Some(old) => (
                old["metadata"]["uid"].clone(),
                old["metadata"]["creationTimestamp"].clone(),
            ),
            None => (
                json!(format!("uid-{}", self.revision + 1)),
                json!(self.time().to_string()),
            ),
        };
        let meta = &mut object["metadata"];
        if meta["uid"].is_null() {
            meta["uid"] = uid;
        }
        if meta["creationTimestamp"].is_null() {
            meta["creationTimestamp"] = created;
        }
        self.store(key, object);
    }

    fn store(&mut self, key: Key, mut object: Value) {
        self.revision += 1;
        object["metadata"]["resourceVersion"] = json!(self.revision.to_string());
        if key.0 == "Job" {
            let old = self.objects.get(&key);
            let generation = old.map_or(0, |old| old["metadata"]["generation"].as_i64().unwrap_or(0));
            let changed = old.is_none_or(|old| old["spec"] != object["spec"]);
            object["metadata"]["generation"] = json!(generation + i64::from(changed));
        }
        let finalizers = object["metadata"]["finalizers"]
            .as_array()
            .is_some_and(|all| !all.is_empty());
        let stops = key.0 == "Pod" && self.with_jobs;
        if !object["metadata"]["deletionTimestamp"].is_null() && !finalizers && !stops {
            self.remove(&key);
            return;
        }
        self.report(&object);
        self.objects.insert(key, object);
    }

    fn report(&mut self, object: &Value) {
        if self.down {
            return;
        }
        if self.answering {
            self.tell(object, Origin::Answer);
        }
        self.tell(object, Origin::Watch);
    }

    fn tell(&mut self, object: &Value, origin: Origin) {
        let world = &mut self.world;
        let work = match object["kind"].as_str() {
            Some("Queue") => world.upsert_queue(typed(object), origin),
            Some("Job") => world.upsert_job(typed(object), origin),
            Some("PodGroup") => world.upsert_group(typed(object), origin),
            Some("Pod") => world.upsert_pod(typed(object), origin),
            Some("Command") => world.upsert_command(typed(object), origin),
            Some("Node") => world.upsert_node(&typed(object)),
            Some(kind) if KINDS.contains(&kind) => world.upsert_companion(kind, &typed(&object["metadata"]), origin),
            other => panic!("a {other:?}"),
        };
        self.due.extend(work);
    }

    fn remove(&mut self, key: &Key) {
        let Some(object) = self.objects.remove(key) else { return };
        if self.down {
            return;
        }
        let uid = object["metadata"]["uid"].as_str().expect("uid");
        let at = NamespacedName::new(&key.1, &key.2);
        let world = &mut self.world;
        let work = match key.0.as_str() {
            "Queue" => world.remove_queue(&at, uid),
            "Job" => world.remove_job(&at, uid),
            "PodGroup" => world.remove_group(&at, uid),
            "Pod" => world.remove_pod(&at, uid),
            "Command" => world.remove_command(&at, uid),
            "Node" => world.remove_node(&at.name),
            kind if KINDS.contains(&kind) => world.remove_companion(kind, &at, uid),
            other => panic!("a {other}"),
        };
        self.due.extend(work);
    }

    /// Removes an object whatever holds it.
    pub(crate) fn force_remove(&mut self, kind: &str, namespace: &str, name: &str) {
        self.remove(&(kind.to_owned(), namespace.to_owned(), name.to_owned()));
    }

    /// Deletes an object as a person does: it goes when nothing holds it.
    pub(crate) fn delete(&mut self, kind: &str, namespace: &str, name: &str) {
        let key = (kind.to_owned(), namespace.to_owned(), name.to_owned());
        let mut object = self.objects.get(&key).expect("exists").clone();
        object["metadata"]["deletionTimestamp"] = json!(self.time().to_string());
        self.store(key, object);
    }

    /// Merges into an object as a person or another component does.
    pub(crate) fn merge(&mut self, kind: &str, namespace: &str, name: &str, patch: &Value) {
        let key = (kind.to_owned(), namespace.to_owned(), name.to_owned());
        let mut object = self
            .objects
            .get(&key)
            .unwrap_or_else(|| panic!("{kind} {name}"))
            .clone();
        json_patch::merge(&mut object, patch);
        self.store(key, object);
    }

    pub(crate) fn get(&self, kind: &str, namespace: &str, name: &str) -> Option<&Value> {
        self.objects
            .get(&(kind.to_owned(), namespace.to_owned(), name.to_owned()))
    }

    pub(crate) fn queue(&self, name: &str) -> &Value {
        self.get("Queue", "", name).unwrap_or_else(|| panic!("queue {name}"))
    }

    pub(crate) fn state(&self, name: &str) -> &str {
        self.queue(name)["status"]["state"].as_str().unwrap_or_default()
    }

    pub(crate) fn names(&self, kind: &str) -> Vec<&str> {
        self.objects
            .keys()
            .filter(|key| key.0 == kind)
            .map(|key| key.2.as_str())
            .collect()
    }

    /// A condition as `status reason message`.
    pub(crate) fn condition(&self, queue: &str, kind: &str) -> String {
        let all = self.queue(queue)["status"]["conditions"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let found = all
            .iter()
            .find(|condition| condition["type"] == kind)
            .expect("the condition");
        let text = |field: &str| found[field].as_str().unwrap_or_default().to_owned();
        format!("{} {} {}", text("status"), text("reason"), text("message"))
    }

    /// Lets the controllers work until they are content.
    pub(crate) fn settle(&mut self) {
        for _ in 0..10_000 {
            if self.down {
                return;
            }
            let Some(work) = self.due.pop_first() else { return };
            // Plain pods are not what is tried here, and Jobs only where that is said.
            if matches!(work, Work::Pod(_)) || (matches!(work, Work::Job(_)) && !self.with_jobs) {
                continue;
            }
            let now = self.time();
            let outcome = self.world.look_at(&work, now);
            self.due.extend(outcome.queues.into_iter().map(Work::Queue));
            if outcome.wake_at.is_some_and(|at| at <= self.time()) {
                self.due.insert(work.clone());
            }
            for change in outcome.changes {
                self.answering = true;
                let refused = self.execute(&change).is_err();
                self.answering = false;
                if refused {
                    self.due.insert(work.clone());
                    break;
                }
                if self.crash_after == Some(self.log.len()) {
                    self.crash_after = None;
                    self.restart();
                    break;
                }
            }
        }
        panic!("does not settle: {:?}", self.due);
    }

    /// The clock moves on, and whoever asked to be woken is.
    pub(crate) fn pass(&mut self, seconds: i64) {
        self.now += seconds;
        self.restart();
        self.settle();
    }

    /// New controllers see what is stored, and nothing else.
    fn restart(&mut self) {
        self.world = new_world();
        self.due = BTreeSet::from([Work::StandardQueues]);
        self.due.extend(self.world.set_reserving(self.rules));
        for object in self.objects.values().cloned().collect::<Vec<_>>() {
            self.report(&object);
        }
    }

    fn check(&self, target: &ObjectRef, uid: Option<&str>, version: Option<&str>) -> Result<Option<Key>, Conflict> {
        let key = (
            target.kind.to_string(),
            target.namespace.to_string(),
            target.name.to_string(),
        );
        let Some(object) = self.objects.get(&key) else {
            return Ok(None);
        };
        let same = |field: &str, wanted: Option<&str>| wanted.is_none_or(|wanted| object["metadata"][field] == wanted);
        let fits = same("uid", uid) && same("resourceVersion", version);
        if fits { Ok(Some(key)) } else { Err(Conflict) }
    }

    fn execute(&mut self, change: &Change) -> Result<(), Conflict> {
        match change {
            Change::Create { target, object } => {
                let key = key_of(object);
                if self.objects.contains_key(&key) {
                    return Err(Conflict);
                }
                self.log.push(format!("create {} {}", target.kind, target.name));
                self.put(object.clone());
            }
            Change::Patch {
                target,
                subresource,
                uid,
                resource_version,
                merge,
            } => {
                let what = subresource.as_deref().unwrap_or("patch");
                let key = self.check(target, uid.as_deref(), resource_version.as_deref())?;
                self.log.push(format!("{what} {}", target.name));
                let fields: Vec<&str> = merge
                    .as_object()
                    .expect("an object")
                    .keys()
                    .map(String::as_str)
                    .collect();
                assert_eq!(fields.contains(&"status"), subresource.is_some(), "{merge}");
                for field in ["allocated", "deserved", "share"] {
                    assert!(merge["status"].get(field).is_none(), "{field} is not ours: {merge}");
                }
                if let Some((kind, namespace, name)) = key {
                    if let Some(nodes) = merge.pointer("/status/reservation/nodes").filter(|_| kind == "Queue") {
                        self.look_for_conflicts(&name, nodes);
                    }
                    self.merge(&kind, &namespace, &name, merge);
                }
            }
            Change::Delete {
                target,
                uid,
                resource_version,
            } => {
                let key = self.check(target, Some(uid), resource_version.as_deref())?;
                self.log.push(format!("delete {} {}", target.kind, target.name));
                if let Some((kind, namespace, name)) = key {
                    let closed = kind != "Queue" || self.state(&name) == "Closed";
                    assert!(closed, "queue {name} is not Closed");
                    self.delete(&kind, &namespace, &name);
                }
            }
            Change::Event {
                regarding,
                reason,
                message,
                ..
            } => {
                self.events
                    .push(format!("{} {}: {reason}: {message}", regarding.kind, regarding.name));
            }
            Change::Strategic { .. } => unreachable!("no controller asks for it"),
        }
        Ok(())
    }
}

/// A queue under `parent`.
pub(crate) fn queue(name: &str, parent: &str) -> Value {
    json!({
        "apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": name},
        "spec": {"parent": parent, "state": "Open"},
    })
}

/// The queue with more in its spec.
pub(crate) fn with_spec(mut queue: Value, spec: &Value) -> Value {
    json_patch::merge(&mut queue["spec"], spec);
    queue
}

/// A Job in a queue.
pub(crate) fn job(name: &str, queue: &str, phase: &str) -> Value {
    json!({
        "apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job",
        "metadata": {"name": name, "namespace": "n", "uid": format!("uid-of-{name}")},
        "spec": {"queue": queue}, "status": {"state": {"phase": phase}},
    })
}

/// The PodGroup of a Job, or, with an empty name, of nobody.
pub(crate) fn group(job: &str, queue: &str, phase: &str) -> Value {
    let (name, owners) = if job.is_empty() {
        ("lone".to_owned(), json!([]))
    } else {
        let uid = format!("uid-of-{job}");
        let owner = json!({"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": job, "uid": uid, "controller": true});
        (format!("{job}-{uid}"), json!([owner]))
    };
    json!({
        "apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup",
        "metadata": {"name": name, "namespace": "n", "ownerReferences": owners},
        "spec": {"queue": queue}, "status": {"phase": phase},
    })
}

/// A pod with annotations.
pub(crate) fn pod(name: &str, annotations: &Value, phase: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "n", "annotations": annotations},
        "spec": {"schedulerName": "volcano", "containers": []}, "status": {"phase": phase},
    })
}

/// A Command to a queue with this uid.
pub(crate) fn command(name: &str, action: &str, queue: &str, uid: &str) -> Value {
    let target = json!({"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "name": queue, "uid": uid});
    json!({
        "apiVersion": "bus.volcano.sh/v1alpha1", "kind": "Command", "metadata": {"name": name, "namespace": "default"},
        "action": action, "target": target,
    })
}
