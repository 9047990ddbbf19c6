//! Kubernetes quantities, exactly: `250m`, `1536Mi`, `1e3`.
//!
//! A quantity is an integer number of nano-units and the format it was written in. Parsing, rounding and the
//! canonical form follow Kubernetes, with these readings where Kubernetes is loose:
//!
//! * A number needs a digit: `""`, `"-"`, `"."` and `"Ki"` are refused (Kubernetes reads some of them as 0).
//! * Anything finer than a nano-unit is rounded away from zero.
//! * `Ki`…`Ei` amounts are capped at 2^63−1 as in Kubernetes. Other amounts are of arbitrary size there; here
//!   they are capped at 10^29, far beyond what any consumer can use, so that parsing never overflows.
//! * From 1000E on, Kubernetes prints a decimal amount without its last thousand; here it is printed in full.
//! * As an integer, a negative amount is rounded away from zero, as a positive one is; Kubernetes does so for small
//!   amounts and is wrong for others.
//! * Equality and order look at the amount only: `1Ki == 1024`.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

#[cfg(test)]
mod tests;

/// Amounts by resource name: `cpu`, `memory`, `nvidia.com/gpu`.
pub type ResourceList = BTreeMap<String, Quantity>;

/// The pattern that CRDs check quantities with. It admits nothing that [`Quantity::parse`] refuses, but for the length.
pub const PATTERN: &str =
    r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?[0-9]{1,18}))?$";

const NANO: i128 = 1_000_000_000;
const MILLI: i128 = 1_000_000;
/// 10^29 units.
const MAX: i128 = 10_i128.pow(38);
/// 2^63−1 units.
const BINARY_MAX: i128 = (i64::MAX as i128) * NANO;
/// Longer texts are refused: no honest quantity comes near.
pub(crate) const TEXT_MAX: usize = 1024;

/// How a quantity is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Format {
    /// `250m`, `3k`, `2G`
    #[default]
    DecimalSi,
    /// `64Mi`
    BinarySi,
    /// `12e6`
    DecimalExponent,
}

/// Why a text is not a quantity, or a quantity not an integer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    /// No text.
    #[error("a quantity must not be empty")]
    Empty,
    /// More text than any quantity needs.
    #[error("a quantity of {length} characters is too long (at most {TEXT_MAX})")]
    TooLong {
        /// Length of the text in bytes.
        length: usize,
    },
    /// No number where one is needed.
    #[error("{text:?} is not a quantity: it needs a number such as 1, 0.5 or .5 in front")]
    Number {
        /// The whole text.
        text: String,
    },
    /// A suffix that does not exist.
    #[error("{text:?} is not a quantity: unknown suffix {suffix:?} (known: n u m k M G T P E, Ki Mi Gi Ti Pi Ei, e3)")]
    Suffix {
        /// The whole text.
        text: String,
        /// What follows the number.
        suffix: String,
    },
    /// Does not fit into 64 bits.
    #[error("{quantity} does not fit into a 64-bit number of {unit}")]
    Overflow {
        /// The quantity.
        quantity: Quantity,
        /// `units` or `milli-units`.
        unit: &'static str,
    },
}

/// An exact amount of a resource.
#[derive(Clone, Copy, Debug, Default)]
pub struct Quantity {
    nano: i128,
    format: Format,
}

impl Quantity {
    /// Nothing.
    pub const ZERO: Self = Self {
        nano: 0,
        format: Format::DecimalSi,
    };

    /// Reads a quantity as Kubernetes does.
    pub fn parse(text: &str) -> Result<Self, QuantityError> {
        if text.is_empty() {
            return Err(QuantityError::Empty);
        }
        if text.len() > TEXT_MAX {
            return Err(QuantityError::TooLong { length: text.len() });
        }
        let (negative, unsigned) = match text.as_bytes().first() {
            Some(b'-') => (true, &text[1..]),
            Some(b'+') => (false, &text[1..]),
            _ => (false, text),
        };
        let (whole, rest) = split_digits(unsigned);
        let (fraction, suffix) = rest.strip_prefix('.').map_or(("", rest), split_digits);
        if whole.is_empty() && fraction.is_empty() {
            return Err(QuantityError::Number { text: text.to_owned() });
        }
        let scale = Scale::of(suffix).ok_or_else(|| QuantityError::Suffix {
            text: text.to_owned(),
            suffix: suffix.to_owned(),
        })?;
        let mut format = scale.format();
        let nano = match scale {
            Scale::Ten(exponent, _) => decimal(whole, fraction, exponent),
            Scale::Two(exponent) => binary(whole, fraction, exponent),
        };
        if format == Format::BinarySi && (1..NANO).contains(&nano) {
            format = Format::DecimalSi;
        }
        Ok(Self {
            nano: if negative { -nano } else { nano },
            format,
        })
    }

    /// A whole number of units.
    pub const fn from_units(units: i64, format: Format) -> Self {
        Self {
            nano: units as i128 * NANO,
            format,
        }
    }

    /// A number of thousandths, as used for cpu.
    pub const fn from_milli(milli: i64) -> Self {
        Self {
            nano: milli as i128 * MILLI,
            format: Format::DecimalSi,
        }
    }

    /// A number of billionths; `None` beyond 10^29 units.
    pub fn from_nano(nano: i128, format: Format) -> Option<Self> {
        (-MAX..=MAX).contains(&nano).then_some(Self { nano, format })
    }

    /// The exact amount in billionths.
    pub const fn nano(self) -> i128 {
        self.nano
    }

    /// The amount in thousandths, rounded away from zero.
    pub fn milli(self) -> Result<i64, QuantityError> {
        self.rounded(MILLI, "milli-units")
    }

    /// The amount in units, rounded away from zero.
    pub fn units(self) -> Result<i64, QuantityError> {
        self.rounded(NANO, "units")
    }

    /// How it is written.
    pub const fn format(self) -> Format {
        self.format
    }

    /// Whether it is nothing.
    pub const fn is_zero(self) -> bool {
        self.nano == 0
    }

    /// Whether it is less than nothing.
    pub const fn is_negative(self) -> bool {
        self.nano < 0
    }

    /// Whether it is a whole number of units.
    pub const fn is_whole(self) -> bool {
        self.nano % NANO == 0
    }

    /// The sum, in the format of the first that is not zero; `None` beyond 10^29 units.
    pub fn checked_add(self, other: Self) -> Option<Self> {
        Self::from_nano(self.nano.checked_add(other.nano)?, self.common_format(other))
    }

    /// The difference, in the format of the first that is not zero; `None` beyond 10^29 units.
    pub fn checked_sub(self, other: Self) -> Option<Self> {
        Self::from_nano(self.nano.checked_sub(other.nano)?, self.common_format(other))
    }

    /// `count` times this; `None` beyond 10^29 units.
    pub fn checked_mul(self, count: u64) -> Option<Self> {
        Self::from_nano(self.nano.checked_mul(i128::from(count))?, self.format)
    }

    /// The sum, held at the largest amount that exists.
    #[must_use]
    pub fn saturating_add(self, other: Self) -> Self {
        // Both are within ±10^38, so their sum cannot leave i128's ±1.7·10^38 unnoticed.
        let nano = self.nano.saturating_add(other.nano).clamp(-MAX, MAX);
        Self {
            nano,
            format: self.common_format(other),
        }
    }

    /// `count` times this, held at the largest amount that exists.
    #[must_use]
    pub fn saturating_mul(self, count: u64) -> Self {
        Self {
            nano: self.nano.saturating_mul(i128::from(count)).clamp(-MAX, MAX),
            format: self.format,
        }
    }

    fn common_format(self, other: Self) -> Format {
        if self.is_zero() { other.format } else { self.format }
    }

    fn rounded(self, unit: i128, name: &'static str) -> Result<i64, QuantityError> {
        let whole = self.nano / unit;
        let up = if self.nano % unit == 0 { 0 } else { self.nano.signum() };
        i64::try_from(whole + up).map_err(|_| QuantityError::Overflow {
            quantity: self,
            unit: name,
        })
    }
}

/// What a suffix multiplies with.
enum Scale {
    Ten(i32, Format),
    Two(u32),
}

impl Scale {
    fn of(suffix: &str) -> Option<Self> {
        let si = |exponent| Some(Self::Ten(exponent, Format::DecimalSi));
        match suffix {
            "n" => si(-9),
            "u" => si(-6),
            "m" => si(-3),
            "" => si(0),
            "k" => si(3),
            "M" => si(6),
            "G" => si(9),
            "T" => si(12),
            "P" => si(15),
            "E" => si(18),
            "Ki" => Some(Self::Two(10)),
            "Mi" => Some(Self::Two(20)),
            "Gi" => Some(Self::Two(30)),
            "Ti" => Some(Self::Two(40)),
            "Pi" => Some(Self::Two(50)),
            "Ei" => Some(Self::Two(60)),
            _ => {
                let exponent: i64 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
                // Amounts saturate long before this bound, in both directions.
                let exponent = exponent.clamp(-1_000_000, 1_000_000) as i32;
                Some(Self::Ten(exponent, Format::DecimalExponent))
            }
        }
    }

    const fn format(&self) -> Format {
        match self {
            Self::Ten(_, format) => *format,
            Self::Two(_) => Format::BinarySi,
        }
    }
}

fn split_digits(text: &str) -> (&str, &str) {
    let end = text.bytes().take_while(u8::is_ascii_digit).count();
    text.split_at(end)
}

/// `whole.fraction × 10^exponent` in nano-units, rounded up, capped.
fn decimal(whole: &str, fraction: &str, exponent: i32) -> i128 {
    let all = whole.bytes().chain(fraction.bytes()).map(|b| b - b'0');
    let digits = all.skip_while(|digit| *digit == 0);
    let count = i64::from(digits.clone().count() as u32);
    if count == 0 {
        return 0;
    }
    // The number is `digits × 10^shift`; only its first `kept` digits stand before the nano point.
    let shift = i64::from(exponent) + 9 - i64::from(fraction.len() as u32);
    let kept = count + shift;
    if kept > 39 {
        return MAX;
    }
    if kept <= 0 {
        return 1;
    }
    let kept = kept as usize;
    let padded = digits.clone().chain(std::iter::repeat(0)).take(kept);
    let nano = padded.fold(0_i128, |nano, digit| {
        nano.saturating_mul(10).saturating_add(i128::from(digit))
    });
    let lost = digits.skip(kept).any(|digit| digit != 0);
    nano.saturating_add(i128::from(lost)).min(MAX)
}

/// `whole.fraction × 2^exponent` in nano-units, rounded up, capped.
fn binary(whole: &str, fraction: &str, exponent: u32) -> i128 {
    let factor = 1_i128 << exponent;
    let mut units: i128 = 0;
    for digit in whole.bytes() {
        units = (units * 10 + i128::from(digit - b'0')).min(BINARY_MAX);
    }
    let mut digits = fraction.bytes().map(|b| b - b'0');
    let mut nano: i128 = 0;
    for _ in 0..9 {
        nano = nano * 10 + i128::from(digits.next().unwrap_or(0));
    }
    // What is finer than a nano-unit can still matter once it is multiplied: double it digit by digit.
    let mut finer: Vec<u8> = digits.collect();
    let mut carried: i128 = 0;
    for _ in 0..exponent {
        let mut carry = 0;
        for digit in finer.iter_mut().rev() {
            let doubled = *digit * 2 + carry;
            *digit = doubled % 10;
            carry = doubled / 10;
        }
        carried = carried * 2 + i128::from(carry);
    }
    let lost = finer.iter().any(|digit| *digit != 0);
    units
        .saturating_mul(factor)
        .saturating_mul(NANO)
        .saturating_add(nano * factor + carried + i128::from(lost))
        .min(BINARY_MAX)
}

const DECIMAL_SUFFIXES: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
const BINARY_SUFFIXES: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

/// The canonical form: no fraction, the largest suffix that loses nothing.
impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.nano == 0 {
            return f.write_str("0");
        }
        let small = self.nano.abs() < 1024 * NANO;
        let beyond = self.nano.abs() > BINARY_MAX;
        if self.format == Format::BinarySi && !small && !beyond && self.is_whole() {
            let (amount, times) = without_factor(self.nano / NANO, 1024, BINARY_SUFFIXES.len() as u32 - 1);
            return write!(f, "{amount}{}", BINARY_SUFFIXES.get(times as usize).unwrap_or(&""));
        }
        if self.format == Format::DecimalExponent {
            let (amount, times) = without_factor(self.nano, 1000, u32::MAX);
            let exponent = i64::from(times) * 3 - 9;
            return if exponent == 0 {
                write!(f, "{amount}")
            } else {
                write!(f, "{amount}e{exponent}")
            };
        }
        let (amount, times) = without_factor(self.nano, 1000, DECIMAL_SUFFIXES.len() as u32 - 1);
        write!(f, "{amount}{}", DECIMAL_SUFFIXES.get(times as usize).unwrap_or(&""))
    }
}

/// Divides by `factor` as often as nothing is lost, at most `most` times.
fn without_factor(mut amount: i128, factor: i128, most: u32) -> (i128, u32) {
    let mut times = 0;
    while times < most && amount % factor == 0 {
        amount /= factor;
        times += 1;
    }
    (amount, times)
}

impl FromStr for Quantity {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        Self::parse(text)
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nano == other.nano
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        self.nano.cmp(&other.nano)
    }
}

impl Hash for Quantity {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.nano.hash(state);
    }
}

impl Serialize for Quantity {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(QuantityVisitor)
    }
}

struct QuantityVisitor;

impl Visitor<'_> for QuantityVisitor {
    type Value = Quantity;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a quantity as text or number")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Quantity, E> {
        // Kubernetes trims inside JSON, and only there.
        Quantity::parse(text.trim()).map_err(E::custom)
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Quantity, E> {
        Ok(Quantity::from_units(number, Format::DecimalSi))
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Quantity, E> {
        Ok(Quantity {
            nano: i128::from(number) * NANO,
            format: Format::DecimalSi,
        })
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<Quantity, E> {
        // The shortest text that reads back as this number is what was written.
        Quantity::parse(&number.to_string()).map_err(E::custom)
    }

    fn visit_unit<E: de::Error>(self) -> Result<Quantity, E> {
        Ok(Quantity::ZERO)
    }
}

impl JsonSchema for Quantity {
    fn schema_name() -> Cow<'static, str> {
        "Quantity".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "x-kubernetes-int-or-string": true, "pattern": PATTERN, "maxLength": TEXT_MAX })
    }
}

/// Conversion to the Kubernetes client's type, for pod templates and nodes.
impl From<Quantity> for k8s_openapi::apimachinery::pkg::api::resource::Quantity {
    fn from(quantity: Quantity) -> Self {
        Self(quantity.to_string())
    }
}

/// Conversion from the Kubernetes client's type.
impl TryFrom<&k8s_openapi::apimachinery::pkg::api::resource::Quantity> for Quantity {
    type Error = QuantityError;

    fn try_from(quantity: &k8s_openapi::apimachinery::pkg::api::resource::Quantity) -> Result<Self, QuantityError> {
        Self::parse(quantity.0.trim())
    }
}
