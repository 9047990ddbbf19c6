//! Virtual clock, in-memory store, step-wise executor, faults, replay.
