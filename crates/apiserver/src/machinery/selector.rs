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

/// The value of `key` in pairs that are sorted by key.
fn lookup<'a, K: AsRef<str>, V: AsRef<str>>(pairs: &'a [(K, V)], key: &str) -> Option<&'a str> {
    let position = pairs.binary_search_by(|(name, _)| name.as_ref().cmp(key)).ok()?;
    pairs.get(position).map(|(_, value)| value.as_ref())
}
