//! The scheduler: snapshot in, plan out; pure.
