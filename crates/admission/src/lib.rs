//! Admission of every kind: request and view in, decision out; pure.
