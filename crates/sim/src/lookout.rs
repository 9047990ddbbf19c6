//! The auditor's seat: sees every write, and the whole world after it.

use basalt_audit::{Auditor, Finding, Objects, QueueWatch, Rules, Write};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use crate::api::{Api, Key, Kind, Report};

/// How long part of a gang may hold room: the scheduler's grace, the time for answers that were lost, and a few
/// deletions that fail.
const PARTIAL_MAX: SignedDuration = SignedDuration::from_secs(60);

/// The auditor, and the world as raw objects.
pub(crate) struct Lookout {
    objects: Objects,
    /// Where each object of `objects` is, by kind.
    places: [Vec<Key>; Kind::COUNT],
    auditor: Auditor,
    queues: QueueWatch,
}

fn list(objects: &mut Objects, kind: Kind) -> Option<&mut Vec<Value>> {
    match kind {
        Kind::Node => Some(&mut objects.nodes),
        Kind::Pod => Some(&mut objects.pods),
        Kind::PodGroup => Some(&mut objects.pod_groups),
        Kind::Queue => Some(&mut objects.queues),
        Kind::Job => Some(&mut objects.jobs),
        _ => None,
    }
}

impl Lookout {
    /// Looks at a world for the first time.
    pub(crate) fn begin(api: &Api) -> Self {
        let mut lookout = Self {
            objects: Objects::default(),
            places: Default::default(),
            auditor: Auditor::default(),
            queues: QueueWatch::default(),
        };
        for (key, object) in api.objects() {
            lookout.put(key, Some(object));
        }
        lookout.queues = QueueWatch::begin(&lookout.objects);
        for (_, command) in api.of_kind(Kind::Command) {
            let write = Write {
                before: None,
                after: Some(command),
                by_user: true,
            };
            lookout.queues.observe(write, &lookout.objects);
        }
        lookout.auditor.observe(&lookout.objects);
        lookout
    }

    fn put(&mut self, key: &Key, object: Option<&Value>) {
        let (Some(objects), Some(places)) = (list(&mut self.objects, key.kind), self.places.get_mut(key.kind.index()))
        else {
            return;
        };
        match (places.binary_search(key), object) {
            (Ok(at), Some(object)) => {
                if let Some(place) = objects.get_mut(at) {
                    place.clone_from(object);
                }
            }
            (Ok(at), None) => {
                places.remove(at);
                objects.remove(at);
            }
            (Err(at), Some(object)) => {
                places.insert(at, key.clone());
                objects.insert(at, object.clone());
            }
            (Err(_), None) => {}
        }
    }

    /// From now on it is known what the scheduler is configured to do.
    pub(crate) fn know(&mut self, rules: &Rules) {
        self.auditor = Auditor::under(rules);
        self.auditor.observe(&self.objects);
    }

    /// A user asks for this object to be deleted.
    pub(crate) fn asked_to_delete(&mut self, object: &Value) {
        self.queues.asked_to_delete(object);
    }

    /// What is wrong with the newest writes.
    pub(crate) fn observe(&mut self, news: &[Report], by_user: bool) -> Vec<Finding> {
        let mut findings = Vec::new();
        for report in news {
            let after = (!report.gone).then_some(&*report.object);
            self.put(&report.key, after);
            let before = report.before.as_deref();
            let write = Write { before, after, by_user };
            findings.extend(self.queues.observe(write, &self.objects));
        }
        if news
            .iter()
            .any(|report| matches!(report.key.kind, Kind::Pod | Kind::PodGroup))
        {
            findings.extend(self.auditor.observe(&self.objects));
        } else if news.iter().any(|report| report.key.kind == Kind::Queue) {
            findings.extend(self.auditor.locks(&self.objects));
        }
        findings
    }

    /// Returns the gangs that have held room without being whole for too long.
    pub(crate) fn overdue_gangs(&mut self, now: Timestamp) -> Vec<Finding> {
        let limit_ms = PARTIAL_MAX.as_millis().try_into().unwrap_or(i64::MAX);
        self.auditor
            .overdue_gangs(&self.objects, now.as_millisecond(), limit_ms)
    }

    /// Takes note that the scheduler was restarted: it has to find partial gangs anew.
    pub(crate) fn scheduler_restarted(&mut self) {
        self.auditor.restart_gang_clock();
    }

    /// What is wrong with a world at rest.
    pub(crate) fn settled(&mut self) -> Vec<Finding> {
        let mut findings = self.auditor.settled(&self.objects);
        findings.extend(self.queues.settled());
        findings
    }
}
