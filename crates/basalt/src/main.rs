//! The `basalt` binary.

fn main() {}
