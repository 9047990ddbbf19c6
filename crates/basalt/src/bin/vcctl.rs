//! The `vcctl` binary.

fn main() {}
