//! Label and field selectors, and the facets of an object that they look at.

mod facets;
mod field;
mod label;
mod string_map;

pub use facets::{facets, facets_of_paths};
pub use field::{FieldSelector, FieldTerm};
pub use label::{LabelRequirement, LabelSelector, Operator};
pub use string_map::CompactStringMap;

/// Why a selector is refused (status 400).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SelectorError(pub String);
