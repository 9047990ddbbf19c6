//! Quotas of namespaces come, change and go.

use std::sync::Arc;

use super::is_meant;
use crate::facts::{QuotaFacts, Resources, is_quota_name, quota_name};
use crate::model::{NamespaceId, Quota};
use crate::resources::Amounts;
use crate::session::State;

impl State {
    pub(super) fn upsert_quota(&mut self, facts: &QuotaFacts) {
        let [hard, used] = [&facts.hard, &facts.used].map(|resources| self.model.dims.limits(resources));
        self.ledger.grow(&self.model);
        let uid = facts.uid.clone();
        let quota = Quota { uid, hard, used };
        if self.model.quotas.get(&facts.key) != Some(&quota) {
            self.model.quotas.insert(facts.key.clone(), quota);
            self.ease();
        }
    }

    pub(super) fn quota_gone(&mut self, key: &str, uid: Option<&str>) {
        let known = self.model.quotas.get(key);
        if known.is_some_and(|quota| is_meant(uid, &quota.uid)) {
            self.model.quotas.remove(key);
            self.ease();
        }
    }

    pub(super) fn namespace_of(&mut self, key: &str) -> NamespaceId {
        let (namespace, _) = crate::plan::split_key(key);
        self.model.namespaces.intern(&Arc::from(namespace))
    }

    /// A group's declared minimum: what its pods ask for, and, where it says more than that, all that quotas count.
    pub(super) fn read_minimum(&mut self, declared: Option<&Resources>) -> (Option<Amounts>, Option<Box<Amounts>>) {
        let Some(declared) = declared else {
            return (None, None);
        };
        let mut plain: Resources = declared.clone();
        plain.retain(|name, _| !is_quota_name(name));
        let mut counted = plain.clone();
        for (name, &amount) in declared {
            counted.entry(quota_name(name).into()).or_insert(amount);
        }
        let only_plain = counted.len() == plain.len();
        let counted = (!only_plain).then(|| Box::new(self.model.dims.amounts(&counted)));
        (Some(self.model.dims.amounts(&plain)), counted)
    }
}
