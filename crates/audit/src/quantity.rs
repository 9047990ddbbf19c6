//! Quantities, read once more and in another way than the engine reads them: as billionths.

use serde_json::Value;

/// Billionths of the unit.
pub(crate) type Nano = i128;

const NANO_DIGITS: i32 = 9;
const DIGITS_MAX: usize = 30;

/// Reads a quantity (`1500m`, `2Gi`, `1e3`, a plain number), rounding up below a billionth. None if it is not one.
pub(crate) fn parse(value: &Value) -> Option<Nano> {
    match value {
        Value::String(text) => parse_text(text),
        Value::Number(number) => parse_text(&number.to_string()),
        _ => None,
    }
}

fn parse_text(text: &str) -> Option<Nano> {
    let (negative, rest) = match text.as_bytes().first()? {
        b'-' => (true, text.get(1..)?),
        b'+' => (false, text.get(1..)?),
        _ => (false, text),
    };
    let end = rest
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(rest.len());
    let (number, suffix) = rest.split_at(end);
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    let digits = format!("{whole}{part}");
    if digits.is_empty() || digits.len() > DIGITS_MAX || part.contains('.') {
        return None;
    }
    let mantissa: i128 = digits.parse().ok()?;
    let (binary, decimal) = scale(suffix)?;
    let mantissa = mantissa.checked_mul(1_i128.checked_shl(binary)?)?;
    let exponent = NANO_DIGITS
        .checked_add(decimal)?
        .checked_sub(i32::try_from(part.len()).ok()?)?;
    let size = ten_to(exponent.unsigned_abs());
    let nano = if exponent >= 0 {
        mantissa.checked_mul(size?)?
    } else {
        divide_up(mantissa, size)
    };
    Some(if negative { -nano } else { nano })
}

/// Division that rounds up; a divisor too large to write leaves the smallest amount.
fn divide_up(amount: i128, by: Option<i128>) -> i128 {
    by.map_or(i128::from(amount > 0), |by| amount / by + i128::from(amount % by > 0))
}

fn ten_to(exponent: u32) -> Option<i128> {
    10_i128.checked_pow(exponent)
}

/// Powers of two and of ten that a suffix stands for.
fn scale(suffix: &str) -> Option<(u32, i32)> {
    Some(match suffix {
        "" => (0, 0),
        "n" => (0, -9),
        "u" => (0, -6),
        "m" => (0, -3),
        "k" => (0, 3),
        "M" => (0, 6),
        "G" => (0, 9),
        "T" => (0, 12),
        "P" => (0, 15),
        "E" => (0, 18),
        "Ki" => (10, 0),
        "Mi" => (20, 0),
        "Gi" => (30, 0),
        "Ti" => (40, 0),
        "Pi" => (50, 0),
        "Ei" => (60, 0),
        _ => (0, suffix.strip_prefix(['e', 'E'])?.parse().ok()?),
    })
}

/// For people: the amount in units, with as many decimals as it needs.
pub(crate) fn show(nano: Nano) -> String {
    let (sign, size) = if nano < 0 {
        ("-", nano.unsigned_abs())
    } else {
        ("", nano.unsigned_abs())
    };
    let (whole, part) = (size / 1_000_000_000, size % 1_000_000_000);
    let decimals = format!("{part:09}");
    match decimals.trim_end_matches('0') {
        "" => format!("{sign}{whole}"),
        decimals => format!("{sign}{whole}.{decimals}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn reads_what_kubernetes_writes() {
        let cases = [
            (json!("1"), Some("1")),
            (json!(2), Some("2")),
            (json!(0.5), Some("0.5")),
            (json!("1500m"), Some("1.5")),
            (json!("100n"), Some("0.0000001")),
            (json!("0.1n"), Some("0.000000001")),
            (json!("1Ki"), Some("1024")),
            (json!("1.5Gi"), Some("1610612736")),
            (json!("12e6"), Some("12000000")),
            (json!("1E-3"), Some("0.001")),
            (json!("3E"), Some("3000000000000000000")),
            (json!("8Ei"), Some("9223372036854775808")),
            (json!("-1"), Some("-1")),
            (json!(".5"), Some("0.5")),
            (json!("1e-999"), Some("0.000000001")),
            (json!("2c"), None),
            (json!(""), None),
            (json!("m"), None),
            (json!("1.2.3"), None),
            (json!("1e99999999999"), None),
            (json!("1 Gi"), None),
            (json!(null), None),
        ];
        for (input, expected) in cases {
            assert_eq!(parse(&input).map(show).as_deref(), expected, "{input}");
        }
    }

    proptest! {
        #[test]
        fn never_panics(text in "\\PC*") {
            parse_text(&text);
        }

        #[test]
        fn agrees_with_the_wire_type(mantissa in 0_u32..1_000_000, suffix in prop::sample::select(vec!["m", "", "k", "M", "G", "Ki", "Mi", "Gi"])) {
            let text = format!("{mantissa}{suffix}");
            let ours = parse_text(&text);
            let theirs = basalt_api::Quantity::parse(&text).ok().and_then(|quantity| quantity.milli().ok());
            prop_assert_eq!(ours.map(|nano| nano / 1_000_000), theirs.map(i128::from));
        }
    }
}
