//! Just enough of Rust's grammar to tell code from comments and text.

/// The source with the inside of comments, texts and characters replaced by spaces. Line breaks stay, so that
/// line numbers are those of the source.
pub(crate) fn code(source: &str) -> String {
    let chars: Vec<char> = source.chars().collect();
    let mut out = String::with_capacity(source.len());
    let mut at = 0;
    while let Some(current) = chars.get(at).copied() {
        let end = match current {
            '/' if next_is(&chars, at + 1, '/') => line_comment(&chars, at),
            '/' if next_is(&chars, at + 1, '*') => block_comment(&chars, at),
            '"' => text(&chars, at),
            'r' if !follows_word(&chars, at) => raw_text(&chars, at).unwrap_or(at),
            '\'' => character(&chars, at).unwrap_or(at),
            _ => at,
        };
        if end > at {
            out.extend(
                chars[at..end]
                    .iter()
                    .map(|skipped| if *skipped == '\n' { '\n' } else { ' ' }),
            );
            at = end;
        } else {
            out.push(current);
            at += 1;
        }
    }
    out
}

fn next_is(chars: &[char], at: usize, expected: char) -> bool {
    chars.get(at) == Some(&expected)
}

/// Whether the character belongs to a longer word, as the `r` of `for` does; `br"…"` is a raw text all the same.
fn follows_word(chars: &[char], at: usize) -> bool {
    let before = at.checked_sub(1).and_then(|index| chars.get(index));
    before.is_some_and(|before| (before.is_alphanumeric() && *before != 'b') || *before == '_')
}

fn line_comment(chars: &[char], at: usize) -> usize {
    (at..chars.len())
        .find(|index| chars[*index] == '\n')
        .unwrap_or(chars.len())
}

fn block_comment(chars: &[char], mut at: usize) -> usize {
    let mut depth = 0_usize;
    while at < chars.len() {
        if next_is(chars, at, '/') && next_is(chars, at + 1, '*') {
            depth += 1;
            at += 2;
        } else if next_is(chars, at, '*') && next_is(chars, at + 1, '/') {
            depth = depth.saturating_sub(1);
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    chars.len()
}

fn text(chars: &[char], at: usize) -> usize {
    let mut index = at + 1;
    while let Some(current) = chars.get(index) {
        match current {
            '\\' => index += 2,
            '"' => return index + 1,
            _ => index += 1,
        }
    }
    chars.len()
}

/// The end of `r"…"` or `r#"…"#`; `None` for any other `r`.
fn raw_text(chars: &[char], at: usize) -> Option<usize> {
    let hashes = chars
        .get(at + 1..)?
        .iter()
        .take_while(|current| **current == '#')
        .count();
    if !next_is(chars, at + 1 + hashes, '"') {
        return None;
    }
    let mut index = at + 2 + hashes;
    while index < chars.len() {
        let closes = chars[index] == '"' && (1..=hashes).all(|offset| next_is(chars, index + offset, '#'));
        if closes {
            return Some(index + 1 + hashes);
        }
        index += 1;
    }
    Some(chars.len())
}

/// The end of `'x'` or `'\n'`; `None` for a lifetime.
fn character(chars: &[char], at: usize) -> Option<usize> {
    if next_is(chars, at + 1, '\\') {
        let close = (at + 3..chars.len()).find(|index| chars[*index] == '\'')?;
        return Some(close + 1);
    }
    next_is(chars, at + 2, '\'').then_some(at + 3)
}

/// The place after the brace that closes the one at `open`.
pub(crate) fn closing_brace(code: &str, open: usize) -> usize {
    let mut depth = 0_usize;
    for (index, current) in code.char_indices().skip_while(|(index, _)| *index < open) {
        match current {
            '{' => depth += 1,
            '}' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return index + 1;
                }
            }
            _ => {}
        }
    }
    code.len()
}

#[cfg(test)]
mod tests {
    use super::{closing_brace, code};

    #[test]
    fn only_code_is_left() {
        let check = |source: &str, left: &str| {
            let blanked = code(source);
            assert_eq!(blanked.lines().count(), source.lines().count(), "{source}");
            let words: Vec<&str> = blanked.split_whitespace().collect();
            assert_eq!(words.join(" "), left, "{source}");
        };
        check("a // todo!()\nb", "a b");
        check("a /* x /* nested */ \n y */ b", "a b");
        check("f(\"todo!() \\\" more\") g", "f( ) g");
        check("f(r#\"a \" b\"#) g", "f( ) g");
        check("f(br\"a\\\") g", "f(b ) g");
        check("f('\"') g('\\'') h", "f( ) g( ) h");
        check("fn f<'a>(x: &'a str) {}", "fn f<'a>(x: &'a str) {}");
        check("for r in xs {}", "for r in xs {}");
        check("let var = \"//\"; todo!()", "let var = ; todo!()");
        check("\"never closed", "");
    }

    #[test]
    fn braces_are_matched() {
        let source = "fn f() { if x { y } } fn g() {}";
        assert_eq!(&source[..closing_brace(source, 7)], "fn f() { if x { y } }");
        assert_eq!(closing_brace("{ {", 0), 3);
    }
}
