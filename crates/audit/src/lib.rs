//! The promises, recomputed from raw objects; pure, and never with the engine.
