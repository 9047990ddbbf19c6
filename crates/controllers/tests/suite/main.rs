//! The controllers, each in a small world.

mod cluster;
mod job;
mod lifecycle;
mod objects;
mod phase;
mod plain;
mod plugins;
mod queue;
mod random;
mod tallies;
mod tree;
mod world;
