//! Code generation and tidy checks.
fn main() {}
