//! The scheduler: cluster state in, plan out; pure.
//!
//! [`Engine::apply`] takes changes of the cluster as plain [`facts`]; [`Engine::cycle`] answers with a [`plan::Plan`].
//! There is no clock, no randomness and no input or output in here: the same events, configuration, time and seed give
//! the same plan, byte for byte.
//!
//! Inside: [`model`] holds what objects say, [`ledger`] what is counted, [`session`] both together with an undo log;
//! [`plugin`] has the rules, one table of hooks; the actions of a cycle place pods through per-class trees of
//! candidate nodes that the ledger's journal keeps up to date.

mod actions;
mod candidates;
pub mod conf;
mod engine;
mod explain;
pub mod facts;
pub mod generate;
pub mod ledger;
pub mod model;
pub mod plan;
pub mod plugin;
pub mod resources;
pub mod session;

pub use crate::conf::{Conf, ConfError};
pub use crate::engine::{Engine, Options, Statistics};
pub use crate::facts::Event;
pub use crate::plan::Plan;
