//! The subcommands of `basalt` that work against any cluster; `up`, `plan` and the demo have modules of their own.

pub mod controllers;
pub mod manager;
pub mod nodes;
pub mod scheduler;
pub mod uninstall;
pub mod webhook;
