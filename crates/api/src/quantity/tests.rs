use proptest::prelude::*;

use super::{Format, MAX, NANO, PATTERN, Quantity, QuantityError};

fn quantity(text: &str) -> Quantity {
    Quantity::parse(text).unwrap_or_else(|error| panic!("{text:?}: {error}"))
}

#[test]
fn prints_the_canonical_form() {
    let check = |text: &str, canonical: &str| assert_eq!(quantity(text).to_string(), canonical, "{text:?}");
    // Zero, however it is written.
    for zero in [
        "0",
        "-0",
        "+0",
        "00",
        "0.0",
        ".0",
        "0.",
        "0Ki",
        "0m",
        "0e9",
        "0E",
        "0.000000000000000000000Gi",
    ] {
        check(zero, "0");
    }
    // Decimal suffixes, up and down.
    check("1", "1");
    check("+1", "1");
    check("-1", "-1");
    check("1.", "1");
    check(".5", "500m");
    check("0.5", "500m");
    check("-.5", "-500m");
    check("1.5", "1500m");
    check("1000m", "1");
    check("1001m", "1001m");
    check("100m", "100m");
    check("0100m", "100m");
    check("0.1", "100m");
    check("0.1m", "100u");
    check("1u", "1u");
    check("1000u", "1m");
    check("1n", "1n");
    check("999n", "999n");
    check("1000", "1k");
    check("1024", "1024");
    check("1000000", "1M");
    check("1k", "1k");
    check("1000k", "1M");
    check("1.5k", "1500");
    check("12.000", "12");
    check("1M", "1M");
    check("1G", "1G");
    check("1T", "1T");
    check("1P", "1P");
    check("1E", "1E");
    check("9E", "9E");
    check("10E", "10E");
    check("1000P", "1E");
    check("1.1E", "1100P");
    check("1000E", "1000E");
    // Binary suffixes.
    check("1Ki", "1Ki");
    check("1024Ki", "1Mi");
    check("1024Mi", "1Gi");
    check("1000Ki", "1000Ki");
    check("1Mi", "1Mi");
    check("1Gi", "1Gi");
    check("1Ti", "1Ti");
    check("1Pi", "1Pi");
    check("1Ei", "1Ei");
    check("1.5Gi", "1536Mi");
    check("1.5Ki", "1536");
    check("0.5Mi", "512Ki");
    check("0.5Ki", "512");
    check("-1536Mi", "-1536Mi");
    check("0.001Ki", "1024m");
    check(".000001Ki", "1024u");
    check("1.0001Ki", "1024102400u");
    check("2047.5Ki", "2096640");
    // Exponents keep their form.
    check("1e3", "1e3");
    check("1E3", "1e3");
    check("1e+3", "1e3");
    check("12e6", "12e6");
    check("12e5", "1200e3");
    check("1e0", "1");
    check("1e1", "10");
    check("1e2", "100");
    check("100e1", "1e3");
    check("1e-3", "1e-3");
    check("1.5e-3", "1500e-6");
    check("1e-9", "1e-9");
    check("1e21", "1e21");
    check("-1e3", "-1e3");
}

#[test]
fn rounds_up_and_caps() {
    let check = |text: &str, canonical: &str| assert_eq!(quantity(text).to_string(), canonical, "{text:?}");
    // Finer than a nano-unit goes away from zero.
    check("0.1n", "1n");
    check("1.1n", "2n");
    check("-0.1n", "-1n");
    check("-1.1n", "-2n");
    check("1e-10", "1e-9");
    check("1e-999999999999", "1e-9");
    check("0.0000000001", "1n");
    check("0.00000000000000000000000001Ki", "1n");
    check("1.0000000001", "1000000001n");
    // 2^63-1 for binary suffixes, as in Kubernetes; 10^29 for the rest.
    check("7Ei", "7Ei");
    check("8Ei", "9223372036854775807");
    check("9Ei", "9223372036854775807");
    check("100000000000000000000000000000Ki", "9223372036854775807");
    check("-9Ei", "-9223372036854775807");
    check("1e28", "10e27");
    check("1e29", "100e27");
    check("1e30", "100e27");
    check("1e999", "100e27");
    check("1e999999999999", "100e27");
    check("-1e999", "-100e27");
    check("999999999999999999999999999999999999999999E", "100000000000E");
}

#[test]
fn refuses_what_is_no_quantity() {
    let bad = [
        "",
        " ",
        " 1",
        "1 ",
        "1 Ki",
        "-",
        "+",
        ".",
        "-.",
        "--1",
        "+-1",
        "Ki",
        "m",
        "e3",
        "a",
        "1a",
        "2c",
        "1C",
        "NaN",
        "nan",
        "inf",
        "Infinity",
        "0x10",
        "1_000",
        "1,5",
        "1..5",
        "1.5.",
        "1.1.M",
        "1+1.0M",
        "0.1mi",
        "0.1am",
        "aoeu",
        ".5i",
        "1i",
        "-3.01i",
        "-3.01e-",
        "1e",
        "1e+",
        "1e-",
        "1e3.5",
        "1e3k",
        "1e3Ki",
        "1ki",
        "1KI",
        "1kI",
        "1K",
        "1g",
        "1t",
        "1mm",
        "1Kii",
        "1Ki500",
        "1k5",
        "1Ki-5",
        "1e99999999999999999999",
        "١",
        "１",
        "1µ",
        "1\u{0}",
        "1\n",
    ];
    for text in bad {
        assert!(Quantity::parse(text).is_err(), "{text:?} should be refused");
    }
    assert_eq!(Quantity::parse(""), Err(QuantityError::Empty));
    assert_eq!(
        Quantity::parse(&"1".repeat(2000)),
        Err(QuantityError::TooLong { length: 2000 })
    );
    let error = Quantity::parse("2c").expect_err("no such suffix").to_string();
    assert!(error.contains("\"2c\"") && error.contains("\"c\""), "{error}");
}

#[test]
fn keeps_its_format() {
    let check = |text: &str, format: Format| assert_eq!(quantity(text).format(), format, "{text:?}");
    check("1", Format::DecimalSi);
    check("1k", Format::DecimalSi);
    check("1E", Format::DecimalSi);
    check("1E3", Format::DecimalExponent);
    check("1e3", Format::DecimalExponent);
    check("1Ki", Format::BinarySi);
    check("0.5Ki", Format::BinarySi);
    // Less than one cannot be written with a binary suffix.
    check("0.0001Ki", Format::DecimalSi);
}

#[test]
fn becomes_an_integer_rounded_up() {
    let check = |text: &str, milli: Option<i64>, units: Option<i64>| {
        assert_eq!(quantity(text).milli().ok(), milli, "milli of {text:?}");
        assert_eq!(quantity(text).units().ok(), units, "units of {text:?}");
    };
    check("0", Some(0), Some(0));
    check("1", Some(1000), Some(1));
    check("1.5", Some(1500), Some(2));
    check("1m", Some(1), Some(1));
    check("1n", Some(1), Some(1));
    check("1001u", Some(2), Some(1));
    check("-1n", Some(-1), Some(-1));
    check("-1.5", Some(-1500), Some(-2));
    check("1Ki", Some(1_024_000), Some(1024));
    check("9E", None, Some(9_000_000_000_000_000_000));
    check("9223372036854775807", None, Some(i64::MAX));
    check("9223372036854775808", None, None);
    check("10E", None, None);
    let error = quantity("10E").units().expect_err("too large").to_string();
    assert_eq!(error, "10E does not fit into a 64-bit number of units");
}

#[test]
fn compares_and_adds_by_amount() {
    assert_eq!(quantity("1Ki"), quantity("1024"));
    assert_eq!(quantity("1000m"), quantity("1"));
    assert!(quantity("1Ki") > quantity("1k"));
    assert!(quantity("-1") < quantity("0"));
    let check_add = |a: &str, b: &str, sum: &str| {
        assert_eq!(
            quantity(a)
                .checked_add(quantity(b))
                .map(|sum| sum.to_string())
                .as_deref(),
            Some(sum),
            "{a} + {b}"
        );
    };
    check_add("1Ki", "1Ki", "2Ki");
    check_add("0", "1Ki", "1Ki");
    check_add("1", "500m", "1500m");
    check_add("1Gi", "1", "1073741825");
    check_add("1e3", "1k", "2e3");
    // Beyond what a binary suffix may say, the amount is written in full.
    check_add("7Ei", "7Ei", "16140901064495857664");
    let check_sub = |a: &str, b: &str, difference: &str| {
        let result = quantity(a)
            .checked_sub(quantity(b))
            .map(|difference| difference.to_string());
        assert_eq!(result.as_deref(), Some(difference), "{a} - {b}");
    };
    check_sub("1Gi", "512Mi", "512Mi");
    check_sub("1", "1500m", "-500m");
    check_sub("0", "1Ki", "-1Ki");
    assert_eq!(quantity("1e29").checked_add(quantity("1n")), None);
    assert_eq!(quantity("-1e29").checked_sub(quantity("1n")), None);
    assert_eq!(quantity("1e29").saturating_add(quantity("1e29")), quantity("1e29"));
    assert_eq!(quantity("250m").checked_mul(4), Some(quantity("1")));
    assert_eq!(quantity("1e28").checked_mul(u64::MAX), None);
}

#[test]
fn reads_text_and_numbers_from_json() {
    let check = |json: &str, canonical: &str| {
        let read: Quantity = serde_json::from_str(json).unwrap_or_else(|error| panic!("{json}: {error}"));
        assert_eq!(read.to_string(), canonical, "{json}");
    };
    check("\"1536Mi\"", "1536Mi");
    check("\" 1 \"", "1");
    check("1", "1");
    check("-3", "-3");
    check("18446744073709551615", "18446744073709551615");
    check("0.1", "100m");
    check("1.5", "1500m");
    check("1e3", "1k");
    check("1e300", "100000000000E");
    check("null", "0");
    for bad in ["true", "[]", "{}", "\"\"", "\"2c\""] {
        assert!(serde_json::from_str::<Quantity>(bad).is_err(), "{bad}");
    }
    assert_eq!(serde_json::to_string(&quantity("1.5Gi")).expect("text"), "\"1536Mi\"");
}

/// What Kubernetes' own library (apimachinery v0.37) makes of random texts: canonical form, milli-units and units, or
/// `err`. Left out are texts on which we differ on purpose, as the module says.
#[test]
fn agrees_with_kubernetes() {
    let mut lines = 0;
    for line in include_str!("kubernetes.tsv").lines() {
        let columns: Vec<&str> = line.split('\t').collect();
        let ours = match Quantity::parse(columns[0]) {
            Err(_) => vec![columns[0].to_owned(), "err".to_owned()],
            Ok(quantity) => {
                // In these rows Kubernetes says 0 where the number does not fit; elsewhere it may say anything.
                let number = |result: Result<i64, QuantityError>| result.unwrap_or(0).to_string();
                let text = columns[0].to_owned();
                vec![
                    text,
                    quantity.to_string(),
                    number(quantity.milli()),
                    number(quantity.units()),
                ]
            }
        };
        assert_eq!(ours, columns);
        lines += 1;
    }
    assert!(lines > 400);
}

/// The order of amounts, by a plain and slow way: both as digit strings of equal scale.
fn naive(text: &str) -> i128 {
    let (number, suffix) = text.split_at(text.find(|c: char| c.is_alphabetic()).unwrap_or(text.len()));
    let number: i128 = number.parse().expect("digits");
    let factor: i128 = match suffix {
        "n" => 1,
        "u" => 1000,
        "m" => 1_000_000,
        "k" => 1000 * NANO,
        "Ki" => 1024 * NANO,
        "Mi" => 1024 * 1024 * NANO,
        "G" => NANO * NANO,
        _ => NANO,
    };
    number * factor
}

fn any_format() -> impl Strategy<Value = Format> {
    prop_oneof![
        Just(Format::DecimalSi),
        Just(Format::BinarySi),
        Just(Format::DecimalExponent)
    ]
}

fn any_quantity() -> impl Strategy<Value = Quantity> {
    let amount = prop_oneof![
        -MAX..=MAX,
        (-1_000_000_i128..1_000_000).prop_map(|units| units * NANO),
        (-1_000_000_i128..1_000_000).prop_map(|kibi| kibi * 1024 * NANO),
        (-10_000_i128..10_000, 0_u32..29).prop_map(|(digits, zeros)| digits * 10_i128.pow(zeros)),
        -10_000_i128..10_000,
    ];
    (amount, any_format()).prop_filter_map("in range", |(nano, format)| Quantity::from_nano(nano, format))
}

proptest! {
    #[test]
    fn printing_and_parsing_is_the_identity(quantity in any_quantity()) {
        let text = quantity.to_string();
        let read = Quantity::parse(&text).expect("canonical text");
        prop_assert_eq!(read, quantity);
        // 1553000 of a binary quantity has no suffix left to tell its format by; Kubernetes forgets it as well.
        if quantity.format() != Format::BinarySi {
            prop_assert_eq!(read.to_string(), text.clone());
        }
        let pattern_is_happy = text.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
        prop_assert!(pattern_is_happy, "{} has no fraction", text);
        prop_assert!(regex::Regex::new(PATTERN).expect("a pattern").is_match(&text));
    }

    #[test]
    fn what_the_pattern_admits_is_a_quantity(text in PATTERN.trim_matches(['^', '$'])) {
        prop_assert!(Quantity::parse(&text).is_ok(), "{}", text);
    }

    #[test]
    fn any_text_parses_or_fails_without_panic(text in "[-+]?[0-9]{0,30}\\.?[0-9]{0,30}([numkMGTPE]|[KMGTPE]i|[eE][-+]?[0-9]{1,6})?") {
        if let Ok(quantity) = Quantity::parse(&text) {
            prop_assert_eq!(Quantity::parse(&quantity.to_string()), Ok(quantity));
        }
    }

    #[test]
    fn amounts_agree_with_plain_arithmetic(number in -1_000_000_000_i64..1_000_000_000, suffix in "|n|u|m|k|G|Ki|Mi") {
        let text = format!("{number}{suffix}");
        prop_assert_eq!(quantity(&text).nano(), naive(&text));
    }

    #[test]
    fn a_fraction_is_never_rounded_down(whole in 0_u64..100, fraction in "[0-9]{1,25}", suffix in "|m|k|Ki|Gi|Ei") {
        let exact = quantity(&format!("{whole}.{fraction}{suffix}"));
        let below = quantity(&format!("{whole}{suffix}"));
        let above = quantity(&format!("{}{suffix}", whole + 1));
        prop_assert!(below <= exact && exact <= above);
        let nudged = quantity(&format!("{whole}.{fraction}1{suffix}"));
        prop_assert!(exact <= nudged);
    }

    #[test]
    fn adding_and_taking_away_is_exact(a in any_quantity(), b in any_quantity()) {
        if let Some(sum) = a.checked_add(b) {
            prop_assert_eq!(sum.checked_sub(b), Some(a));
            prop_assert_eq!(b.checked_add(a), Some(sum));
            prop_assert_eq!(a.saturating_add(b), sum);
            prop_assert_eq!(sum.cmp(&a), b.cmp(&Quantity::ZERO));
        }
        prop_assert_eq!(a.cmp(&b), a.nano().cmp(&b.nano()));
    }

    #[test]
    fn integers_are_rounded_away_from_zero(quantity in any_quantity()) {
        if let Ok(milli) = quantity.milli() {
            let back = Quantity::from_milli(milli);
            let off = back.nano().abs() - quantity.nano().abs();
            prop_assert!((0..1_000_000).contains(&off));
        }
    }
}
