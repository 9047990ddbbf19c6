//! Label and field selectors, and the facets of an object that they look at.

mod facets;
mod field;
mod label;

pub use facets::{facets, facets_of_paths};
pub use field::{FieldSelector, FieldTerm};
pub use label::{LabelRequirement, LabelSelector, Operator};

/// Why a selector is refused (status 400).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SelectorError(pub String);
