//! Runs pods as local processes, or fakes them.
