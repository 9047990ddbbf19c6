//! What the watch tells of the pods: when they were made and bound, and who wrote what.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use basalt_api::names;
use serde::{Deserialize, Serialize};

use super::cluster::Versioned;

/// A pod with the few fields that are looked at.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Seen {
    pub(super) metadata: Metadata,
    spec: Spec,
    status: Status,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Metadata {
    pub(super) name: String,
    pub(super) uid: String,
    resource_version: String,
    deletion_timestamp: Option<String>,
    annotations: BTreeMap<String, String>,
    managed_fields: Vec<ManagedFields>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct ManagedFields {
    manager: String,
    subresource: String,
    time: String,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    node_name: String,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct Status {
    phase: String,
}

impl Versioned for Seen {
    fn version(&self) -> &str {
        &self.metadata.resource_version
    }
}

impl Seen {
    /// Its PodGroup.
    pub(super) fn group(&self) -> Option<&str> {
        self.metadata.annotations.get(names::GROUP_NAME).map(String::as_str)
    }

    /// Whether it has a node.
    pub(super) fn is_bound(&self) -> bool {
        !self.spec.node_name.is_empty()
    }

    /// Who wrote last, as far as the server notes it.
    fn writer(&self) -> String {
        let last = self.metadata.managed_fields.iter().max_by(|a, b| a.time.cmp(&b.time));
        match last {
            Some(by) if by.subresource.is_empty() => by.manager.clone(),
            Some(by) => format!("{} ({})", by.manager, by.subresource),
            None => "unknown".to_owned(),
        }
    }
}

/// Writes of pods, by what they changed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Writes {
    /// Creations.
    pub(super) create: u64,
    /// Binds.
    pub(super) bind: u64,
    /// Changes of the phase, which are the kubelet's.
    pub(super) phase: u64,
    /// Anything else, by who wrote it.
    pub(super) other: BTreeMap<String, u64>,
}

impl Writes {
    /// Those that a batch system answers for: all but the kubelet's.
    pub(super) fn ours(&self) -> u64 {
        self.create + self.bind + self.other.values().sum::<u64>()
    }
}

#[derive(Debug)]
struct Pod {
    version: String,
    phase: String,
    created: Instant,
    bound: Option<Instant>,
}

/// All pods of a run.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pods: HashMap<String, Pod>,
    pub(super) writes: Writes,
    pub(super) bound: usize,
    pub(super) started: usize,
    pub(super) last_bound: Option<Instant>,
}

impl Tally {
    /// Takes note of a pod that was made or changed. Deletions are not part of a measurement.
    pub(super) fn observe(&mut self, seen: &Seen, now: Instant) {
        if seen.metadata.deletion_timestamp.is_some() {
            return;
        }
        let writes = &mut self.writes;
        let pod = match self.pods.get_mut(&seen.metadata.uid) {
            Some(pod) if pod.version == seen.metadata.resource_version => return,
            Some(pod) => {
                let (binds, moves) = (seen.is_bound() && pod.bound.is_none(), pod.phase != seen.status.phase);
                if binds {
                    writes.bind += 1;
                } else if moves {
                    writes.phase += 1;
                } else {
                    *writes.other.entry(seen.writer()).or_default() += 1;
                }
                if moves && pod.phase == "Pending" {
                    self.started += 1;
                }
                pod
            }
            None => {
                writes.create += 1;
                self.pods.entry(seen.metadata.uid.clone()).or_insert(Pod {
                    version: String::new(),
                    phase: String::new(),
                    created: now,
                    bound: None,
                })
            }
        };
        pod.version.clone_from(&seen.metadata.resource_version);
        pod.phase.clone_from(&seen.status.phase);
        if pod.bound.is_none() && seen.is_bound() {
            pod.bound = Some(now);
            self.bound += 1;
            self.last_bound = Some(now);
        }
    }

    /// How many pods were seen.
    pub(super) fn created(&self) -> usize {
        self.pods.len()
    }

    /// From when a pod was first seen to when its node was, of all bound pods.
    pub(super) fn latencies(&self) -> Vec<Duration> {
        let bound = self.pods.values().filter_map(|pod| Some((pod.created, pod.bound?)));
        bound
            .map(|(created, bound)| bound.saturating_duration_since(created))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// `uid version node phase`, each as one event; what was counted: create, bind, phase, other, bound, started.
    fn check(events: &[&str], expected: (u64, u64, u64, u64, usize, usize)) {
        let mut tally = Tally::default();
        for event in events {
            let words: Vec<&str> = event.split(' ').collect();
            let [uid, version, node, phase] = words.as_slice() else {
                panic!("{event}")
            };
            let node = if *node == "-" { None } else { Some(node) };
            let mut pod = json!({
                "metadata": {"name": "p", "uid": uid, "resourceVersion": version, "managedFields": [
                    {"manager": "a", "time": "2026-01-01T00:00:01Z"},
                    {"manager": "b", "subresource": "status", "time": "2026-01-01T00:00:02Z"},
                ]},
                "spec": {}, "status": {"phase": phase},
            });
            if let Some(node) = node {
                pod["spec"]["nodeName"] = json!(node);
            }
            tally.observe(&serde_json::from_value(pod).unwrap(), Instant::now());
        }
        let writes = &tally.writes;
        let other = writes.other.values().sum();
        let got = (
            writes.create,
            writes.bind,
            writes.phase,
            other,
            tally.bound,
            tally.started,
        );
        assert_eq!(got, expected, "{events:?}");
        assert!(writes.other.keys().all(|by| by == "b (status)"));
        assert_eq!(tally.latencies().len(), tally.bound);
        assert_eq!(writes.ours(), got.0 + got.1 + got.3);
    }

    #[test]
    fn writes_are_counted_by_what_they_changed() {
        check(&[], (0, 0, 0, 0, 0, 0));
        check(
            &["u 1 - Pending", "u 2 n Pending", "u 3 n Running", "u 4 n Succeeded"],
            (1, 1, 2, 0, 1, 1),
        );
        check(
            &["u 1 - Pending", "u 1 - Pending", "u 2 - Pending", "u 3 n Pending"],
            (1, 1, 0, 1, 1, 0),
        );
        check(&["u 1 n Pending", "v 2 - Pending"], (2, 0, 0, 0, 1, 0));
        // Bound and started in one event: a watch that came late.
        check(&["u 1 - Pending", "u 3 n Running"], (1, 1, 0, 0, 1, 1));
    }

    #[test]
    fn a_pod_that_is_being_deleted_is_left_out() {
        let mut tally = Tally::default();
        let pod =
            json!({"metadata": {"uid": "u", "resourceVersion": "1", "deletionTimestamp": "2026-01-01T00:00:00Z"}});
        tally.observe(&serde_json::from_value(pod).unwrap(), Instant::now());
        assert_eq!((tally.created(), tally.writes), (0, Writes::default()));
    }
}
