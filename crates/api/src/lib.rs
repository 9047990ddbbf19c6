//! Every custom resource as Rust types, well-known names, quantities, CRD yaml.
