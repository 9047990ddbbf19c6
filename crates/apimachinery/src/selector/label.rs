//! Label selectors: `a=b,c!=d,e in (f,g),!h`.

use super::{CompactStringMap, SelectorError};
use crate::{
    field_error::{FieldError, index, key},
    names,
};
use serde_json::Value;
use std::collections::BTreeSet;

/// How a requirement compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    /// The value is one of a set (`=`, `==`, `in`).
    In,
    /// The value is none of a set, or the label is absent (`!=`, `notin`).
    NotIn,
    /// The label is there.
    Exists,
    /// The label is not there.
    DoesNotExist,
    /// The value is an integer above the given one.
    GreaterThan,
    /// The value is an integer below the given one.
    LessThan,
}

/// One term of a label selector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelRequirement {
    /// The label's key.
    pub key: String,
    /// The comparison.
    pub operator: Operator,
    /// The values to compare with.
    pub values: BTreeSet<String>,
}

/// A label selector: all requirements must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelSelector {
    /// The requirements, in the order given.
    pub requirements: Vec<LabelRequirement>,
}

impl LabelSelector {
    /// Reads the text form of the `labelSelector` query parameter.
    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        Parser {
            tokens: tokens(text),
            position: 0,
        }
        .selector()
    }

    /// Reads a `metav1.LabelSelector` object (`matchLabels`, `matchExpressions`); an empty one selects everything.
    pub fn from_object(object: &Value) -> Result<Self, SelectorError> {
        let mut requirements = Vec::new();
        for (name, value) in object
            .get("matchLabels")
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
        {
            let value = value.as_str().unwrap_or_default().to_owned();
            requirements.push(requirement(name.clone(), Operator::In, BTreeSet::from([value]), "=")?);
        }
        for entry in object
            .get("matchExpressions")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
        {
            let text = |field| entry.get(field).and_then(Value::as_str).unwrap_or_default();
            let operator = match text("operator") {
                "In" => Operator::In,
                "NotIn" => Operator::NotIn,
                "Exists" => Operator::Exists,
                "DoesNotExist" => Operator::DoesNotExist,
                other => {
                    return Err(SelectorError(format!(
                        "{other:?} is not a valid label selector operator"
                    )));
                }
            };
            let values = entry.get("values").and_then(Value::as_array).into_iter().flatten();
            let values = values.filter_map(|value| value.as_str().map(str::to_owned)).collect();
            requirements.push(requirement(text("key").to_owned(), operator, values, "in")?);
        }
        Ok(Self { requirements })
    }

    /// Whether the selector selects everything.
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    /// Whether labels satisfy every requirement.
    pub fn matches(&self, labels: &CompactStringMap) -> bool {
        self.requirements
            .iter()
            .all(|requirement| requirement.matches(labels.get(&requirement.key)))
    }
}

impl LabelRequirement {
    /// Whether a label's value (or its absence) satisfies this requirement.
    pub fn matches(&self, value: Option<&str>) -> bool {
        match self.operator {
            Operator::In => value.is_some_and(|value| self.values.contains(value)),
            Operator::NotIn => value.is_none_or(|value| !self.values.contains(value)),
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
            Operator::GreaterThan => self.compare(value, |have, limit| have > limit),
            Operator::LessThan => self.compare(value, |have, limit| have < limit),
        }
    }

    fn compare(&self, value: Option<&str>, holds: fn(i64, i64) -> bool) -> bool {
        let have = value.and_then(|value| value.parse::<i64>().ok());
        let limit = self.values.first().and_then(|value| value.parse::<i64>().ok());
        matches!((have, limit), (Some(have), Some(limit)) if holds(have, limit))
    }
}

fn requirement(
    name: String,
    operator: Operator,
    values: BTreeSet<String>,
    sign: &str,
) -> Result<LabelRequirement, SelectorError> {
    let mut wrong = Vec::new();
    let messages = names::qualified(&name);
    if !messages.is_empty() {
        wrong.push(FieldError::invalid("key", name.clone(), messages.join("; ")));
    }
    let list = || Value::from(values.iter().cloned().collect::<Vec<_>>());
    match operator {
        Operator::In | Operator::NotIn if values.is_empty() && matches!(sign, "in" | "notin") => {
            wrong.push(FieldError::invalid(
                "values",
                list(),
                "for 'in', 'notin' operators, values set can't be empty",
            ));
        }
        Operator::Exists | Operator::DoesNotExist if !values.is_empty() => {
            wrong.push(FieldError::invalid(
                "values",
                list(),
                "values set must be empty for exists and does not exist",
            ));
        }
        Operator::GreaterThan | Operator::LessThan => {
            for (position, value) in values
                .iter()
                .enumerate()
                .filter(|(_, value)| value.parse::<i64>().is_err())
            {
                let words = "for 'Gt', 'Lt' operators, the value must be an integer";
                wrong.push(FieldError::invalid(index("values", position), value.clone(), words));
            }
        }
        _ => {}
    }
    for (position, value) in values.iter().enumerate() {
        let messages = names::label_value(value);
        if !messages.is_empty() {
            let path = key(&index("values", position), &name);
            wrong.push(FieldError::invalid(path, value.clone(), messages.join("; ")));
        }
    }
    if wrong.is_empty() {
        Ok(LabelRequirement {
            key: name,
            operator,
            values,
        })
    } else {
        Err(SelectorError(crate::field_error::aggregate(&wrong)))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Word,
    Sign,
    End,
}

#[derive(Clone, Debug)]
struct Token {
    kind: Kind,
    text: String,
}

fn is_sign(letter: char) -> bool {
    matches!(letter, '=' | '!' | '(' | ')' | ',' | '>' | '<')
}

fn tokens(text: &str) -> Vec<Token> {
    let mut found = Vec::new();
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        if letter.is_ascii_whitespace() {
            continue;
        }
        let mut word = String::from(letter);
        if is_sign(letter) {
            // Only `==` and `!=` are longer than one sign.
            if matches!(letter, '=' | '!') && letters.peek() == Some(&'=') {
                word.push('=');
                letters.next();
            }
            found.push(Token {
                kind: Kind::Sign,
                text: word,
            });
        } else {
            while let Some(next) = letters.next_if(|next| !is_sign(*next) && !next.is_ascii_whitespace()) {
                word.push(next);
            }
            found.push(Token {
                kind: Kind::Word,
                text: word,
            });
        }
    }
    found
}

struct Parser {
    tokens: Vec<Token>,
    position: usize,
}

fn expected<T>(found: &Token, wanted: &str) -> Result<T, SelectorError> {
    Err(SelectorError(format!("found '{}', expected: {wanted}", found.text)))
}

impl Parser {
    fn peek(&self) -> Token {
        self.tokens.get(self.position).cloned().unwrap_or(Token {
            kind: Kind::End,
            text: String::new(),
        })
    }

    fn next(&mut self) -> Token {
        let token = self.peek();
        self.position += 1;
        token
    }

    fn next_is(&self, sign: &str) -> bool {
        let token = self.peek();
        token.kind == Kind::Sign && token.text == sign
    }

    fn at_end_of_term(&self) -> bool {
        self.peek().kind == Kind::End || self.next_is(",")
    }

    fn selector(&mut self) -> Result<LabelSelector, SelectorError> {
        let mut requirements = Vec::new();
        while self.peek().kind != Kind::End {
            if self.peek().kind != Kind::Word && !self.next_is("!") {
                return expected(&self.peek(), "!, identifier, or 'end of string'");
            }
            let requirement = self
                .term()
                .map_err(|error| SelectorError(format!("unable to parse requirement: {error}")))?;
            requirements.push(requirement);
            if self.peek().kind == Kind::End {
                break;
            }
            if !self.next_is(",") {
                return expected(&self.peek(), "',' or 'end of string'");
            }
            self.next();
            if self.peek().kind != Kind::Word && !self.next_is("!") {
                return expected(&self.peek(), "identifier after ','");
            }
        }
        requirements.sort_by(|left: &LabelRequirement, right| left.key.cmp(&right.key));
        Ok(LabelSelector { requirements })
    }

    fn term(&mut self) -> Result<LabelRequirement, SelectorError> {
        let negated = self.next_is("!");
        if negated {
            self.next();
        }
        let name = self.next();
        if name.kind != Kind::Word {
            return expected(&name, "identifier");
        }
        let messages = names::qualified(&name.text);
        if !messages.is_empty() {
            let wrong = FieldError::invalid("<nil>", name.text, messages.join("; "));
            return Err(SelectorError(wrong.to_string()));
        }
        if negated {
            return requirement(name.text, Operator::DoesNotExist, BTreeSet::new(), "!");
        }
        if self.at_end_of_term() {
            return requirement(name.text, Operator::Exists, BTreeSet::new(), "");
        }
        let sign = self.next();
        let operator = match sign.text.as_str() {
            "=" | "==" | "in" => Operator::In,
            "!=" | "notin" => Operator::NotIn,
            ">" => Operator::GreaterThan,
            "<" => Operator::LessThan,
            _ => return expected(&sign, "in, notin, =, ==, !=, gt, lt"),
        };
        let values = if sign.kind == Kind::Word {
            self.set()?
        } else {
            BTreeSet::from([self.value()?])
        };
        requirement(name.text, operator, values, &sign.text)
    }

    fn value(&mut self) -> Result<String, SelectorError> {
        if self.at_end_of_term() {
            return Ok(String::new());
        }
        let token = self.next();
        if token.kind == Kind::Word {
            Ok(token.text)
        } else {
            expected(&token, "identifier")
        }
    }

    fn set(&mut self) -> Result<BTreeSet<String>, SelectorError> {
        let open = self.next();
        if open.text != "(" || open.kind != Kind::Sign {
            return Err(SelectorError(format!("found '{}' expected: '('", open.text)));
        }
        let mut values = BTreeSet::new();
        if self.next_is(")") {
            self.next();
            return Ok(values);
        }
        loop {
            if self.next_is(",") || self.next_is(")") {
                values.insert(String::new());
            } else {
                let token = self.next();
                if token.kind != Kind::Word {
                    return expected(&token, "',', ')' or identifier");
                }
                values.insert(token.text);
            }
            let separator = self.next();
            match (separator.kind, separator.text.as_str()) {
                (Kind::Sign, ")") => return Ok(values),
                (Kind::Sign, ",") => {}
                _ => return expected(&separator, "',' or ')'"),
            }
        }
    }
}
