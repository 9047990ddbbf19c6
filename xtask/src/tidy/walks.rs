//! The walks in `docs/ARCHITECTURE.md` name files and functions: each of them must exist.

use std::path::Path;

use anyhow::{Context, Result};

/// The page that has the walks.
const PAGE: &str = "docs/ARCHITECTURE.md";

/// Returns a finding for each step of a walk whose file or function does not exist.
pub(crate) fn check(root: &Path) -> Result<Vec<String>> {
    let page = std::fs::read_to_string(root.join(PAGE)).with_context(|| format!("cannot read {PAGE}"))?;
    let missing = steps(&page).filter(|(file, function)| {
        let text = std::fs::read_to_string(root.join("crates").join(file)).unwrap_or_default();
        !defines(&text, function)
    });
    Ok(missing
        .map(|(file, function)| format!("{PAGE}: crates/{file} has no function {function}"))
        .collect())
}

/// Returns every `crate/src/file.rs:function` that stands in back-ticks.
fn steps(page: &str) -> impl Iterator<Item = (&str, &str)> {
    let quoted = page.split('`').skip(1).step_by(2);
    quoted.filter_map(|word| {
        word.split_once(".rs:")
            .map(|(file, function)| (&word[..file.len() + 3], function))
    })
}

/// Whether a source text defines a function of that name.
fn defines(text: &str, function: &str) -> bool {
    let head = format!("fn {function}");
    text.match_indices(&head).any(|(at, _)| {
        let next = text[at + head.len()..].chars().next();
        next.is_some_and(|letter| letter == '(' || letter == '<')
    })
}

#[cfg(test)]
mod tests {
    use super::{defines, steps};

    #[test]
    fn steps_are_what_stands_in_back_ticks_with_a_file_and_a_function() {
        let page = "- `a/src/b.rs:go` goes; `other` and `c.rs` do not; `d/e.rs:stop`";
        assert_eq!(
            steps(page).collect::<Vec<_>>(),
            [("a/src/b.rs", "go"), ("d/e.rs", "stop")]
        );
    }

    #[test]
    fn a_function_is_found_by_its_whole_name() {
        for (text, expected) in [
            ("pub fn go(x: u8) {}", true),
            ("async fn go<T>() {}", true),
            ("fn gone() {}", false),
            ("let go = 1;", false),
        ] {
            assert_eq!(defines(text, "go"), expected, "{text}");
        }
    }
}
