//! The controllers, each in a small world.

mod chaos;
mod cluster;
mod job;
mod lifecycle;
mod objects;
mod phase;
mod plain;
mod plugins;
mod policies;
mod queue;
mod random;
mod reservation;
mod scale;
mod script;
mod search;
mod tallies;
mod tree;
mod world;
