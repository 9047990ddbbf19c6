//! Rules that a newcomer can hold in the head, enforced.

use std::path::Path;

use anyhow::Result;

use crate::generate;

/// All findings, sorted.
pub(crate) fn check(root: &Path) -> Result<Vec<String>> {
    let mut findings = generate::stale(root)?;
    findings.sort();
    Ok(findings)
}
