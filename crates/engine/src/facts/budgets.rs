//! Disruption budgets: how many pods of some kind may be taken away at a time.

use std::sync::Arc;

use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use serde::{Deserialize, Serialize};

use super::PodSelector;

/// A disruption budget.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BudgetFacts {
    /// `namespace/name`.
    pub key: Arc<str>,
    /// Its uid.
    #[serde(default)]
    pub uid: Arc<str>,
    /// Which pods it is about.
    #[serde(default)]
    pub pods: PodSelector,
    /// How many of them may go now, as its controller says; none before it has said anything.
    #[serde(default)]
    pub allowed: u32,
}

impl From<&PodDisruptionBudget> for BudgetFacts {
    fn from(budget: &PodDisruptionBudget) -> Self {
        let text = |text: Option<&String>| text.map_or("", String::as_str).to_owned();
        let (namespace, name) = (
            text(budget.metadata.namespace.as_ref()),
            text(budget.metadata.name.as_ref()),
        );
        let selector = budget.spec.as_ref().and_then(|spec| spec.selector.as_ref());
        let allowed = budget.status.as_ref().and_then(|status| status.disruptions_allowed);
        BudgetFacts {
            key: format!("{namespace}/{name}").into(),
            uid: text(budget.metadata.uid.as_ref()).into(),
            pods: PodSelector {
                namespaces: vec![namespace.into()],
                namespace_labels: None,
                labels: selector.map(super::convert::requirements),
            },
            allowed: u32::try_from(allowed.unwrap_or(0)).unwrap_or(0),
        }
    }
}
