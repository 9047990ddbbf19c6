//! The scheduler in random clusters, with the auditor watching.

mod generate;
mod mutants;
mod properties;
