//! The engine: cluster state in, plan out; pure.
//!
//! [`Engine::apply`] takes changes of the cluster as plain [`facts`]; [`Engine::cycle`] answers with a [`plan::Plan`].
//! There is no clock, no randomness and no input or output in here: the same events, configuration, time and seed give
//! the same plan, byte for byte.
//!
//! What holds in every plan: a transaction with binds leaves its gang with at least its minimum placed, pods without
//! requests included (they count only once they have a place); no node gets more than it offers, and none that is not
//! ready, cordoned or tainted against a pod gets that pod (with the `predicates` plugin). An event about an end that
//! carries a uid is about that very object: one that was made anew under the name stays. Reasons of a waiting group
//! change only when what they are about does.
//!
//! Others read the engine through borrowing [`view`]s ([`Engine::group`], [`Engine::pod`], [`Engine::node`],
//! [`Engine::queue`]), run it without a cluster through [`offline`], and never see its tables: `model` holds what objects
//! say, `ledger` what is counted, `session` both together with an undo log; `plugin` has the rules, one table of hooks; the
//! actions of a cycle place pods through per-class trees of candidate nodes that the ledger's journal keeps up to date.

#![cfg_attr(not(test), warn(clippy::disallowed_methods, clippy::disallowed_types))]

mod actions;
mod candidates;
pub mod conf;
mod engine;
mod explain;
pub mod facts;
mod ledger;
mod model;
mod mutants;
pub mod offline;
pub mod plan;
mod plugin;
mod resources;
pub mod scenario;
mod session;
#[cfg(test)]
mod testing;
pub mod view;

pub use crate::conf::{Conf, ConfError};
pub use crate::engine::{Engine, Options, Statistics};
pub use crate::facts::Event;
#[cfg(feature = "mutants")]
pub use crate::mutants::plant_mutant;
pub use crate::plan::Plan;
pub use crate::view::{NodeView, PodGroupView, PodView, QueueView};
