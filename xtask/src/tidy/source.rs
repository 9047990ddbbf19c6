//! Rules about one source file.

use std::path::Path;

use super::PURE;
use super::lexer::{closing_brace, code};

const FILE_LINES_MAX: usize = 600;
const FUNCTION_LINES_MAX: usize = 90;

/// What no committed file contains.
const UNFINISHED: [(&str, &str); 4] = [
    ("todo!", "unfinished code"),
    ("unimplemented!", "unfinished code"),
    ("dbg!", "a left-over of debugging"),
    ("#[ignore", "a test that does not run"),
];

/// What no file of a pure crate contains; clippy has no lint for it. All other bans of the pure crates are clippy's.
const ASYNC: [&str; 4] = ["async fn", "async move", "async {", ".await"];

/// Findings about the file at `path` (below the root) with this content.
pub(crate) fn check(path: &Path, text: &str) -> Vec<String> {
    let name = path.display();
    let mut findings = Vec::new();
    let lines = text.lines().count();
    if lines > FILE_LINES_MAX {
        findings.push(format!("{name}: {lines} lines; at most {FILE_LINES_MAX}"));
    }
    if path.file_name().is_some_and(|file| file == "mod.rs") {
        findings.push(format!("{name}: call it by its module's name, beside its folder"));
    }
    let code = code(text);
    for (word, why) in UNFINISHED {
        findings.extend(uses(&code, word).map(|line| format!("{name}:{line}: `{word}`: {why}")));
    }
    for (line, function, length) in functions(&code) {
        if length > FUNCTION_LINES_MAX {
            findings.push(format!(
                "{name}:{line}: fn {function} has {length} lines; at most {FUNCTION_LINES_MAX}"
            ));
        }
    }
    if is_pure(path) {
        for word in ASYNC {
            findings.extend(uses(&code, word).map(|line| format!("{name}:{line}: `{word}` in a pure crate: no async")));
        }
    }
    findings
}

/// Whether the file belongs to a pure crate.
fn is_pure(path: &Path) -> bool {
    PURE.iter().any(|name| path.starts_with(Path::new("crates").join(name)))
}

/// The lines on which `word` stands, not as a part of a longer name.
fn uses<'a>(code: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    code.match_indices(word).filter_map(move |(at, _)| {
        let before = code[..at].chars().next_back();
        let after = code[at + word.len()..].chars().next();
        let starts = !word.starts_with(is_name) || !before.is_some_and(is_name);
        let ends = !word.ends_with(is_name) || !after.is_some_and(is_name);
        (starts && ends).then(|| line_of(code, at))
    })
}

fn is_name(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

fn line_of(code: &str, at: usize) -> usize {
    code[..at].matches('\n').count() + 1
}

/// Every function with a body: its line, name and length in lines.
fn functions(code: &str) -> Vec<(usize, String, usize)> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices("fn ") {
        if code[..at].chars().next_back().is_some_and(is_name) {
            continue;
        }
        let rest = &code[at..];
        // A declaration without a body ends in a semicolon; `[u8; 4]` in a signature does not end it.
        let mut brackets = 0_i32;
        let body = rest.char_indices().find(|(_, current)| {
            match current {
                '[' | '(' => brackets += 1,
                ']' | ')' => brackets -= 1,
                _ => {}
            }
            *current == '{' || (*current == ';' && brackets <= 0)
        });
        if let Some((offset, '{')) = body {
            let end = closing_brace(code, at + offset);
            let name: String = rest.chars().skip(3).take_while(|current| is_name(*current)).collect();
            found.push((line_of(code, at), name, code[at..end].matches('\n').count() + 1));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::check;

    fn findings(path: &str, text: &str) -> Vec<String> {
        check(Path::new(path), text)
    }

    /// Exactly one finding, at this place and about this.
    fn caught(path: &str, text: &str, expected: &str) {
        let found = findings(path, text);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].contains(expected), "{found:?} should say {expected}");
    }

    fn clean(path: &str, text: &str) {
        assert_eq!(findings(path, text), Vec::<String>::new());
    }

    #[test]
    fn long_files_are_found() {
        clean("crates/api/src/a.rs", &"\n".repeat(600));
        caught("crates/api/src/a.rs", &"\n".repeat(601), "601 lines");
    }

    #[test]
    fn long_functions_are_found() {
        let function = |lines: usize| {
            format!(
                "/// x\npub fn long<T>(x: [u8; 4]) -> T {{\n{}}}\n",
                "    x();\n".repeat(lines)
            )
        };
        clean("crates/api/src/a.rs", &function(88));
        caught("crates/api/src/a.rs", &function(89), "a.rs:2: fn long has 91 lines");
        // Declarations and function types have no body.
        clean(
            "crates/api/src/a.rs",
            &format!("trait T {{ fn a(); {} }}", "\n".repeat(200)),
        );
        clean(
            "crates/api/src/a.rs",
            &format!("struct S {{ f: fn (u8) -> u8, {} }}", "\n".repeat(80)),
        );
    }

    #[test]
    fn unfinished_code_is_found() {
        caught("crates/api/src/a.rs", "fn f() {\n    todo!()\n}", "a.rs:2: `todo!`");
        caught(
            "crates/api/src/a.rs",
            "fn f() { unimplemented!(\"x\") }",
            "`unimplemented!`",
        );
        caught("crates/api/src/a.rs", "fn f() { dbg!(1); }", "`dbg!`");
        caught(
            "crates/api/tests/a.rs",
            "#[test]\n#[ignore = \"slow\"]\nfn f() {}",
            "a.rs:2: `#[ignore`",
        );
        clean(
            "crates/api/src/a.rs",
            "// todo!() is not allowed\nconst X: &str = \"todo!()\";",
        );
    }

    #[test]
    fn module_files_have_names() {
        caught("crates/api/src/a/mod.rs", "", "module's name");
    }

    #[test]
    fn pure_crates_know_no_async() {
        for (text, word) in [
            ("async fn f() {}", "async fn"),
            ("f(async move {});", "async move"),
            ("f(async {});", "async {"),
            ("let x = y.await;", ".await"),
        ] {
            for pure in super::PURE {
                caught(&format!("crates/{pure}/src/deep/a.rs"), text, word);
            }
            clean("crates/basalt/src/a.rs", text);
            clean("crates/engine/src/a.rs", &format!("// {text}"));
        }
        clean("crates/engine/src/a.rs", "let books = books.awaited;");
    }
}
