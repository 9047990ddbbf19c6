//! Durations as Go writes them: `1h30m`, `300ms`, `-1.5s`.

use std::borrow::Cow;
use std::fmt::{self, Write as _};
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

const SECOND: i64 = 1_000_000_000;
const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 60 * MINUTE;

/// The pattern that CRDs check durations with: all that [`Duration::parse`] reads, and what is too long for it.
pub const PATTERN: &str = r"^(\+|-)?(0|(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+)$";

/// A span of time in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Duration(i64);

/// Why a text is not a duration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a duration: {why} (write it as 1h30m, 90s or 500ms)")]
pub struct DurationError {
    /// The whole text.
    pub text: String,
    /// What is wrong with it.
    pub why: &'static str,
}

impl Duration {
    /// A number of nanoseconds.
    pub const fn from_nanos(nanos: i64) -> Self {
        Self(nanos)
    }

    /// A number of whole seconds, held at the largest that exists.
    pub const fn from_secs(seconds: i64) -> Self {
        Self(seconds.saturating_mul(SECOND))
    }

    /// In nanoseconds.
    pub const fn as_nanos(self) -> i64 {
        self.0
    }

    /// In milliseconds, cut.
    pub const fn as_millis(self) -> i64 {
        self.0 / 1_000_000
    }

    /// Reads what Go's `ParseDuration` reads.
    pub fn parse(text: &str) -> Result<Self, DurationError> {
        let fail = |why| DurationError {
            text: text.to_owned(),
            why,
        };
        let (negative, mut rest) = match text.as_bytes().first() {
            Some(b'-') => (true, &text[1..]),
            Some(b'+') => (false, &text[1..]),
            _ => (false, text),
        };
        if rest == "0" {
            return Ok(Self(0));
        }
        if rest.is_empty() || rest.len() > 256 {
            return Err(fail("it is empty or too long"));
        }
        let mut total: i128 = 0;
        while !rest.is_empty() {
            let number_end = rest
                .find(|c: char| !c.is_ascii_digit() && c != '.')
                .unwrap_or(rest.len());
            let (number, tail) = rest.split_at(number_end);
            let unit_end = tail
                .find(|c: char| c.is_ascii_digit() || c == '.')
                .unwrap_or(tail.len());
            let (unit, tail) = tail.split_at(unit_end);
            let unit = unit_nanos(unit).ok_or_else(|| fail("it needs a unit: ns, us, ms, s, m or h"))?;
            let part = nanos(number, unit).ok_or_else(|| fail("it needs a number before each unit"))?;
            total = total.saturating_add(part);
            rest = tail;
        }
        let signed = if negative { -total } else { total };
        i64::try_from(signed)
            .map(Self)
            .map_err(|_| fail("it is longer than 292 years"))
    }
}

fn unit_nanos(unit: &str) -> Option<i64> {
    Some(match unit {
        "ns" => 1,
        "us" | "µs" | "μs" => 1_000,
        "ms" => 1_000_000,
        "s" => SECOND,
        "m" => MINUTE,
        "h" => HOUR,
        _ => return None,
    })
}

fn nanos(number: &str, unit: i64) -> Option<i128> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
        return None;
    }
    let whole: i128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    // 18 places of an hour are finer than a nanosecond.
    let fraction: String = fraction.chars().take(18).collect();
    let places = u32::try_from(fraction.len()).ok()?;
    let fraction: i128 = if fraction.is_empty() { 0 } else { fraction.parse().ok()? };
    let unit = i128::from(unit);
    whole
        .checked_mul(unit)?
        .checked_add(fraction.checked_mul(unit)? / 10_i128.pow(places))
}

/// As Go prints it: `1h30m0s`, `1.5s`, `300ms`.
impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let total = self.0.unsigned_abs();
        if self.0 < 0 {
            f.write_char('-')?;
        }
        let (second, minute, hour) = (SECOND as u64, MINUTE as u64, HOUR as u64);
        if total == 0 {
            return f.write_str("0s");
        }
        if total < second {
            let (unit, name) = match total {
                0..1_000 => (1, "ns"),
                1_000..1_000_000 => (1_000, "µs"),
                _ => (1_000_000, "ms"),
            };
            return write!(f, "{}{name}", decimal(total, unit));
        }
        if total >= hour {
            write!(f, "{}h", total / hour)?;
        }
        if total >= minute {
            write!(f, "{}m", total % hour / minute)?;
        }
        write!(f, "{}s", decimal(total % minute, second))
    }
}

fn decimal(amount: u64, unit: u64) -> String {
    let (whole, rest) = (amount / unit, amount % unit);
    if rest == 0 {
        return whole.to_string();
    }
    let places = unit.ilog10() as usize;
    let digits = format!("{rest:0places$}");
    format!("{whole}.{}", digits.trim_end_matches('0'))
}

impl FromStr for Duration {
    type Err = DurationError;

    fn from_str(text: &str) -> Result<Self, DurationError> {
        Self::parse(text)
    }
}

impl Serialize for Duration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Duration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<'de, str>::deserialize(deserializer)?;
        Self::parse(&text).map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for Duration {
    fn schema_name() -> Cow<'static, str> {
        "Duration".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "pattern": PATTERN })
    }
}

#[cfg(test)]
mod tests {
    use super::{Duration, PATTERN};

    fn pattern_admits(text: &str) -> bool {
        regex::Regex::new(PATTERN).expect("a pattern").is_match(text)
    }

    #[test]
    fn reads_and_prints_as_go_does() {
        let check = |text: &str, printed: &str| {
            assert_eq!(
                Duration::parse(text).expect("a duration").to_string(),
                printed,
                "{text}"
            );
            assert!(pattern_admits(text) && pattern_admits(printed), "{text}");
        };
        check("0", "0s");
        check("0s", "0s");
        check("1h30m", "1h30m0s");
        check("90s", "1m30s");
        check("3600s", "1h0m0s");
        check("1.5s", "1.5s");
        check(".5m", "30s");
        check("300ms", "300ms");
        check("1500ms", "1.5s");
        check("2us", "2µs");
        check("1.5µs", "1.5µs");
        check("7ns", "7ns");
        check("-1m", "-1m0s");
        check("+1m", "1m0s");
        check("1h1ns", "1h0m0.000000001s");
    }

    #[test]
    fn refuses_what_go_refuses() {
        for text in [
            "",
            "-",
            "1",
            "1.5",
            "s",
            ".s",
            "1x",
            "1h 2m",
            "h1",
            "1..5s",
            "300000h1000000h2000000h",
            "1d",
        ] {
            assert!(Duration::parse(text).is_err(), "{text:?} should be refused");
            assert!(!pattern_admits(text) || text.len() > 20, "{text:?} should be refused");
        }
    }

    proptest::proptest! {
        #[test]
        fn printing_and_parsing_is_the_identity(nanos: i64) {
            let duration = Duration::from_nanos(nanos);
            proptest::prop_assert_eq!(Duration::parse(&duration.to_string()), Ok(duration));
        }

        #[test]
        fn any_text_parses_or_fails_without_panic(text in "[-+]?([0-9]{0,25}\\.?[0-9]{0,25}(h|m|s|ms|us|ns|x)?){0,4}") {
            if let Ok(duration) = Duration::parse(&text) {
                proptest::prop_assert!(pattern_admits(&text));
                proptest::prop_assert_eq!(Duration::parse(&duration.to_string()), Ok(duration));
            }
        }
    }
}
