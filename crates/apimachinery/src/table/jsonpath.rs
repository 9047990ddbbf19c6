//! The part of JSONPath that printer columns use: fields, quoted fields, indices, `[*]` and `[?(@.a=="b")]`.

use serde_json::Value;

/// Why a path cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid JSONPath {path:?}: {reason}")]
pub struct JsonPathError {
    /// The path.
    pub path: String,
    /// What is wrong with it.
    pub reason: &'static str,
}

#[derive(Clone, Debug, PartialEq)]
enum Step {
    Field(String),
    Index(i64),
    All,
    Filter { path: Vec<Step>, equal: bool, value: Value },
    Exists(Vec<Step>),
}

/// A compiled path.
#[derive(Clone, Debug, PartialEq)]
pub struct JsonPath(Vec<Step>);

impl JsonPath {
    /// Reads `.spec.x`, `{.spec.x}` or `spec.x`.
    pub fn parse(text: &str) -> Result<Self, JsonPathError> {
        let inner = text
            .strip_prefix('{')
            .and_then(|rest| rest.strip_suffix('}'))
            .unwrap_or(text);
        let inner = inner.strip_prefix('$').unwrap_or(inner);
        steps(inner).map(Self).map_err(|reason| JsonPathError {
            path: text.to_owned(),
            reason,
        })
    }

    /// Everything that the path leads to.
    pub fn find<'a>(&self, object: &'a Value) -> Vec<&'a Value> {
        walk(&self.0, vec![object])
    }
}

fn walk<'a>(steps: &[Step], start: Vec<&'a Value>) -> Vec<&'a Value> {
    steps.iter().fold(start, |found, step| {
        found.into_iter().flat_map(|value| apply(step, value)).collect()
    })
}

fn apply<'a>(step: &Step, value: &'a Value) -> Vec<&'a Value> {
    let children = || match value {
        Value::Array(items) => items.iter().collect(),
        Value::Object(fields) => fields.values().collect(),
        _ => Vec::new(),
    };
    match step {
        Step::Field(name) => value.get(name).into_iter().collect(),
        Step::All => children(),
        Step::Index(index) => {
            let Some(items) = value.as_array() else {
                return Vec::new();
            };
            let length = i64::try_from(items.len()).unwrap_or(i64::MAX);
            let position = if *index < 0 {
                index.saturating_add(length)
            } else {
                *index
            };
            usize::try_from(position)
                .ok()
                .and_then(|position| items.get(position))
                .into_iter()
                .collect()
        }
        Step::Filter {
            path,
            equal,
            value: wanted,
        } => {
            let holds = |item: &&Value| walk(path, vec![item]).iter().any(|found| (*found == wanted) == *equal);
            children().into_iter().filter(holds).collect()
        }
        Step::Exists(path) => children()
            .into_iter()
            .filter(|item| !walk(path, vec![item]).is_empty())
            .collect(),
    }
}

fn steps(mut rest: &str) -> Result<Vec<Step>, &'static str> {
    let mut found = Vec::new();
    while !rest.is_empty() {
        if rest.starts_with('[') {
            let end = closing(rest).ok_or("unterminated array")?;
            found.push(bracket(&rest[1..end])?);
            rest = &rest[end + 1..];
            continue;
        }
        rest = rest.strip_prefix('.').unwrap_or(rest);
        if rest.starts_with('[') {
            continue;
        }
        let (name, after) = field(rest);
        match name.as_str() {
            "" if after.is_empty() && found.is_empty() => break,
            "" => return Err("empty field name"),
            "*" => found.push(Step::All),
            _ => found.push(Step::Field(name)),
        }
        rest = after;
    }
    Ok(found)
}

/// A field name up to the next dot or bracket; a backslash keeps the next letter.
fn field(text: &str) -> (String, &str) {
    let mut name = String::new();
    let mut letters = text.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '\\' => name.extend(letters.next().map(|(_, next)| next)),
            '.' | '[' => return (name, &text[at..]),
            other => name.push(other),
        }
    }
    (name, "")
}

/// Where the bracket that opens `text` closes, outside of quotes.
fn closing(text: &str) -> Option<usize> {
    let mut depth = 0_usize;
    let mut quoted = None;
    for (at, letter) in text.char_indices() {
        match (quoted, letter) {
            (Some(open), letter) if letter == open => quoted = None,
            (None, '\'' | '"') => quoted = Some(letter),
            (None, '[') => depth += 1,
            (None, ']') => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(at);
                }
            }
            _ => {}
        }
    }
    None
}

fn unquote(text: &str) -> Option<String> {
    let inner = ['\'', '"']
        .iter()
        .find_map(|quote| text.strip_prefix(*quote)?.strip_suffix(*quote))?;
    Some(inner.replace('\\', ""))
}

fn bracket(text: &str) -> Result<Step, &'static str> {
    let text = text.trim();
    if text == "*" || text == ":" {
        return Ok(Step::All);
    }
    if let Some(name) = unquote(text) {
        return Ok(Step::Field(name));
    }
    if let Some(filter) = text.strip_prefix("?(").and_then(|rest| rest.strip_suffix(')')) {
        return condition(filter.trim());
    }
    text.parse().map(Step::Index).map_err(|_| "invalid array index")
}

fn condition(text: &str) -> Result<Step, &'static str> {
    let path_of = |side: &str| steps(side.trim().strip_prefix('@').ok_or("a filter must begin with @")?);
    let (sign, equal) = if text.contains("!=") {
        ("!=", false)
    } else {
        ("==", true)
    };
    let Some((left, right)) = text.split_once(sign) else {
        return path_of(text).map(Step::Exists);
    };
    let right = right.trim();
    let value = match unquote(right) {
        Some(word) => Value::String(word),
        None => serde_json::from_str(right).map_err(|_| "a filter must compare with a literal")?,
    };
    Ok(Step::Filter {
        path: path_of(left)?,
        equal,
        value,
    })
}
