//! The controllers, each in a small world.

mod job;
mod objects;
mod phase;
mod plain;
mod queue;
mod random;
mod world;
