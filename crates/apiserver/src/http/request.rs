//! What a request says: who sends it, what its URL names, which form it asks for, and the object in its body.

pub(super) mod authentication;
pub(super) mod body;
pub(super) mod call;
pub(super) mod incoming_object;
pub(super) mod negotiation;
pub(super) mod path;
pub(super) mod query;
