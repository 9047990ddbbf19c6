//! A share between 0 and 1 in decimal arithmetic: `0.29 × 100` is 29, not 28.999….

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::quantity::{Quantity, QuantityError};

const ONE: i128 = 1_000_000_000;

/// A decimal number with nine places; the CRD holds it within 0 and 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fraction(Quantity);

impl Fraction {
    /// Wraps a decimal number; the range is the caller's to check, with [`Fraction::is_share`].
    pub const fn new(value: Quantity) -> Self {
        Self(value)
    }

    /// The number as an exact quantity.
    pub const fn value(self) -> Quantity {
        self.0
    }

    /// Whether it lies within 0 and 1.
    pub fn is_share(self) -> bool {
        (0..=ONE).contains(&self.0.nano())
    }

    /// The whole part of `count` times this share; nothing for a number outside 0 and 1.
    pub fn floor_of(self, count: u64) -> u64 {
        if !self.is_share() {
            return 0;
        }
        let product = i128::from(count) * self.0.nano() / ONE;
        u64::try_from(product).unwrap_or(u64::MAX)
    }
}

/// Why a text is no share.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FractionError {
    /// It is no number.
    #[error(transparent)]
    Number(#[from] QuantityError),
    /// It is a number outside the range.
    #[error("{text} is not a share: choose a number from 0 to 1, for example 0.25")]
    Range {
        /// What was written.
        text: String,
    },
}

impl FromStr for Fraction {
    type Err = FractionError;

    fn from_str(text: &str) -> Result<Self, FractionError> {
        let fraction = Self(Quantity::parse(cut(text))?);
        if fraction.is_share() {
            return Ok(fraction);
        }
        let text = text.to_owned();
        Err(FractionError::Range { text })
    }
}

impl fmt::Display for Fraction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.nano() as f64 / ONE as f64)
    }
}

impl Serialize for Fraction {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.0.nano() as f64 / ONE as f64)
    }
}

/// Without the decimals beyond the ninth: a share is never more than what was written.
fn cut(text: &str) -> &str {
    let decimals = text.strip_prefix("0.").unwrap_or_default();
    let is_plain = decimals.len() > 9 && decimals.bytes().all(|byte| byte.is_ascii_digit());
    text.get(..11).filter(|_| is_plain).unwrap_or(text)
}

/// A share as it is written: a number, or the text of one.
#[derive(Deserialize)]
#[serde(untagged)]
enum Written {
    Number(f64),
    Text(String),
}

impl<'de> Deserialize<'de> for Fraction {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = match Written::deserialize(deserializer)? {
            // Written out in the fewest digits that mean this number, never with an exponent.
            Written::Number(number) => number.to_string(),
            Written::Text(text) => text,
        };
        Quantity::parse(cut(&text)).map(Self).map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for Fraction {
    fn schema_name() -> Cow<'static, str> {
        "Fraction".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "number", "minimum": 0, "maximum": 1 })
    }
}

#[cfg(test)]
mod tests {
    use super::Fraction;

    #[test]
    fn whole_part_is_exact() {
        let check = |text: &str, count: u64, expected: u64| {
            let fraction: Fraction = serde_json::from_str(text).expect("a number");
            assert_eq!(fraction.floor_of(count), expected, "{text} of {count}");
        };
        check("0.29", 100, 29);
        check("0.57", 100, 57);
        check("0.2", 4, 0);
        check("0.2", 5, 1);
        check("1", 7, 7);
        check("0", 7, 0);
        check("0.333333333", 3, 0);
        check("0.3333333333", 3, 0);
        check("0.6666666666666666", 30, 19);
        check("0.30000000000000004", 10, 3);
        check("0.99999999999", 10, 9);
        check("\"0.3333333333\"", 3, 0);
        check("1e-3", 1000, 1);
        check("1.5", 10, 0);
        check("-0.5", 10, 0);
    }

    #[test]
    fn texts_within_the_range() {
        for text in ["0", "0.2", "1", "1.0", "250m"] {
            assert!(text.parse::<Fraction>().is_ok(), "{text}");
        }
        for text in ["", "-0.1", "1.01", "1.0000000001", "20%", "half"] {
            assert!(text.parse::<Fraction>().is_err(), "{text}");
        }
    }

    #[test]
    fn wire_form_is_a_number() {
        for text in ["0.29", "0.1", "1.0", "0.0", "0.333333333"] {
            let fraction: Fraction = serde_json::from_str(text).expect("a number");
            assert_eq!(serde_json::to_string(&fraction).expect("a number"), text);
        }
    }
}
