# Everyday commands. `just` alone lists them.

default:
    @just --list

# Start the embedded cluster with three fake nodes.
up *args:
    cargo run --release -- up --nodes 3 {{args}}

# What a change must pass before it is merged.
check: fmt-check lint test

# All tests that need nothing but Rust; the tidy rules are among them.
test:
    cargo test --workspace

lint:
    cargo clippy --workspace --all-targets -- -D warnings

fmt:
    cargo fmt --all

fmt-check:
    cargo fmt --all --check

# Write generated files anew.
gen:
    cargo xtask gen

# Architecture, lengths, leftovers, freshness of generated files.
tidy:
    cargo xtask tidy

# Licences, advisories, sources and bans of dependencies (needs cargo-deny).
deny:
    cargo deny check
