//! What pods say to nodes that only pretend to run them: `basalt.sh/run-time` and `basalt.sh/exit-code`.

use crate::duration::Duration;

/// The exit code of an attempt: one for all, or one for each, of which the last one stays.
pub fn exit_code(codes: &str, attempt: usize) -> Result<u8, String> {
    let code = codes
        .split(',')
        .take(attempt.saturating_add(1))
        .last()
        .unwrap_or(codes)
        .trim();
    code.parse()
        .map_err(|_| format!("{code:?} is not an exit code: it must be a whole number from 0 to 255"))
}

/// A length of time in milliseconds, rounded up so that a short one never becomes none.
pub fn millis(text: &str) -> Result<i64, String> {
    let nanos = Duration::parse(text).map_err(|e| e.to_string())?.as_nanos();
    if nanos < 0 {
        return Err(format!("{text:?} is negative"));
    }
    Ok(nanos / 1_000_000 + i64::from(nanos % 1_000_000 > 0))
}
