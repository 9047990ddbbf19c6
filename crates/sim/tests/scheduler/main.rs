//! The scheduler in random clusters, with the auditor watching.

mod extremes;
mod generate;
mod mutants;
mod properties;
