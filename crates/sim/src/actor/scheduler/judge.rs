//! The audit of single decisions, on the view that they were made on.

use std::collections::BTreeMap;
use std::sync::Arc;

use basalt_audit::{Finding, Rules, World, judge};
use basalt_engine::plan::{Bind, Plan, split_key};
use serde_json::{Value, json};

use crate::api::{Key, Kind, Report};
use crate::decision;
use basalt_api::json::string_at;

/// Judges every decision of the scheduler by what the scheduler has observed.
pub(super) struct DecisionJudge {
    rules: Rules,
    seen: BTreeMap<Key, Arc<Value>>,
    /// Binds that the watch has not shown yet, and that are not known to have failed: pod, uid, node.
    believed: BTreeMap<Key, (Arc<str>, Arc<str>)>,
    judged: u64,
    findings: Vec<Finding>,
}

impl DecisionJudge {
    /// Judges by these rules.
    pub(super) fn new(rules: Rules) -> Self {
        Self {
            rules,
            seen: BTreeMap::new(),
            believed: BTreeMap::new(),
            judged: 0,
            findings: Vec::new(),
        }
    }

    /// Returns what was judged since the last call, and what is wrong with it.
    pub(super) fn take(&mut self) -> (u64, Vec<Finding>) {
        (std::mem::take(&mut self.judged), std::mem::take(&mut self.findings))
    }

    pub(super) fn observe(&mut self, report: &Report) {
        if report.gone || !string_at(&report.object, "/spec/nodeName").is_empty() {
            self.believed.remove(&report.key);
        }
        if report.gone {
            self.seen.remove(&report.key);
        } else {
            self.seen.insert(report.key.clone(), report.object.clone());
        }
    }

    /// Takes note of binds that are not known to have failed.
    pub(super) fn believe<'b>(&mut self, binds: impl Iterator<Item = &'b Bind>) {
        for bind in binds {
            let (namespace, name) = split_key(&bind.pod);
            let key = Key::new(Kind::Pod, namespace, name);
            self.believed.insert(key, (bind.uid.clone(), bind.node.clone()));
        }
    }

    /// Judges a plan by the locks of nodes alone.
    pub(super) fn judge(&mut self, plan: &Plan) {
        let mut seen = self.seen.clone();
        for (key, (uid, node)) in &self.believed {
            if let Some(pod) = seen
                .get_mut(key)
                .filter(|pod| string_at(pod, "/metadata/uid") == &**uid)
            {
                Arc::make_mut(pod)["spec"]["nodeName"] = json!(node);
            }
        }
        let world = World::read(seen.values().map(|object| &**object));
        let findings = judge(&world, &self.rules, &decision(plan));
        let of_locks = |finding: &Finding| finding.invariant.is_about_reservations();
        self.findings.extend(findings.into_iter().filter(of_locks));
        self.judged = self.judged.saturating_add(1);
    }
}
