//! How old things are.

/// How long ago, in two units at most: `45s`, `12m`, `3h20m`, `2d4h`.
pub(crate) fn age(created: &str, now: jiff::Timestamp) -> String {
    let Ok(created) = created.parse::<jiff::Timestamp>() else {
        return String::new();
    };
    let seconds = now.as_second().saturating_sub(created.as_second()).max(0);
    let (minutes, hours, days) = (seconds / 60, seconds / 3_600, seconds / 86_400);
    match (days, hours, minutes) {
        (0, 0, 0..2) => format!("{seconds}s"),
        (0, 0, _) => format!("{minutes}m"),
        (0, 0..10, _) => format!("{hours}h{}m", minutes % 60),
        (0, ..) => format!("{hours}h"),
        (1..10, ..) => format!("{days}d{}h", hours % 24),
        _ => format!("{days}d"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_have_two_units_at_most() {
        let now: jiff::Timestamp = "2026-11-15T10:00:00Z".parse().unwrap();
        for (seconds, shown) in [
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (3_599, "59m"),
            (3_600, "1h0m"),
            (12_000, "3h20m"),
            (80_000, "22h"),
            (86_400 * 2 + 4 * 3_600, "2d4h"),
            (86_400 * 40, "40d"),
        ] {
            let created = jiff::Timestamp::from_second(now.as_second() - seconds).unwrap();
            assert_eq!(age(&created.to_string(), now), shown);
        }
        assert_eq!(age("2030-01-01T00:00:00Z", now), "0s");
    }
}
