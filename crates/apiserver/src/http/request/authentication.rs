//! Who asks: a bearer token over the network, an extension of the request in-process.

use std::sync::Arc;

use basalt_admission::User;
use http::header;
use http::request::Parts;

use crate::http::response::status::{ApiError, ApiResult};

/// The user that a request is made by.
#[derive(Debug, Clone)]
pub struct Identity {
    user: Arc<User>,
}

/// Name of the holder of the admin's token.
pub const ADMIN: &str = "basalt:admin";

impl Identity {
    /// A user with all rights.
    pub fn admin(name: &str) -> Identity {
        let groups = vec!["system:masters".to_owned(), "system:authenticated".to_owned()];
        Identity {
            user: Arc::new(User {
                name: name.to_owned(),
                groups,
            }),
        }
    }

    /// The user as admission sees it.
    pub fn user(&self) -> &User {
        &self.user
    }
}

/// Finds out who asks, or refuses.
pub(crate) fn identify(parts: &Parts, token: Option<&str>) -> ApiResult<Identity> {
    if let Some(identity) = parts.extensions.get::<Identity>() {
        return Ok(identity.clone());
    }
    let given = parts
        .headers
        .get(header::AUTHORIZATION)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    let given = given.strip_prefix("Bearer ").map(str::trim);
    match (given, token) {
        (Some(given), Some(token)) if same(given.as_bytes(), token.as_bytes()) => Ok(Identity::admin(ADMIN)),
        _ => Err(ApiError::unauthorized()),
    }
}

/// Compares without telling by its duration where two texts differ.
pub(crate) fn same(given: &[u8], token: &[u8]) -> bool {
    if token.is_empty() || given.len() != token.len() {
        return false;
    }
    let difference = given
        .iter()
        .zip(token)
        .fold(0_u8, |all, (a, b)| std::hint::black_box(all | (a ^ b)));
    difference == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_same_token_passes() {
        for (given, token, expected) in [
            ("abc", "abc", true),
            ("abd", "abc", false),
            ("ab", "abc", false),
            ("", "", false),
            ("abcd", "abc", false),
        ] {
            assert_eq!(same(given.as_bytes(), token.as_bytes()), expected, "{given} {token}");
        }
    }
}
