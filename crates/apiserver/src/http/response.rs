//! What the server answers: objects in the form that the client asked for, and errors as `metav1.Status`.

pub(super) mod presentation;
pub(super) mod status;
