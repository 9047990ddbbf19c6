//! One wrong field of an object, printed as Kubernetes prints it.

use serde_json::{Value, json};
use std::fmt::{self, Write as _};

/// What is wrong with a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldErrorKind {
    /// A referenced thing does not exist.
    NotFound,
    /// A value must be given.
    Required,
    /// A value that must be unique is there twice.
    Duplicate,
    /// The value breaks a rule.
    Invalid,
    /// The value is not one of a fixed set.
    NotSupported,
    /// The field may not be set, or not be changed, here.
    Forbidden,
    /// The value is too long.
    TooLong,
    /// There are too many items.
    TooMany,
    /// The value has the wrong JSON type.
    TypeInvalid,
    /// Something failed on the server's side while checking.
    Internal,
}

impl FieldErrorKind {
    /// The `reason` of a Status cause.
    pub fn reason(self) -> &'static str {
        match self {
            Self::NotFound => "FieldValueNotFound",
            Self::Required => "FieldValueRequired",
            Self::Duplicate => "FieldValueDuplicate",
            Self::Invalid => "FieldValueInvalid",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Forbidden => "FieldValueForbidden",
            Self::TooLong => "FieldValueTooLong",
            Self::TooMany => "FieldValueTooMany",
            Self::TypeInvalid => "FieldValueTypeInvalid",
            Self::Internal => "InternalError",
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::NotFound => "Not found",
            Self::Required => "Required value",
            Self::Duplicate => "Duplicate value",
            Self::Invalid | Self::TypeInvalid => "Invalid value",
            Self::NotSupported => "Unsupported value",
            Self::Forbidden => "Forbidden",
            Self::TooLong => "Too long",
            Self::TooMany => "Too many",
            Self::Internal => "Internal error",
        }
    }

    fn shows_value(self) -> bool {
        !matches!(self, Self::Required | Self::Forbidden | Self::TooLong | Self::Internal)
    }
}

/// One wrong field.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldError {
    /// Path of the field, e.g. `spec.containers[0].name`.
    pub path: String,
    /// What is wrong.
    pub kind: FieldErrorKind,
    /// The offending value, where it is worth showing.
    pub value: Option<Value>,
    /// More words; may be empty.
    pub detail: String,
}

impl FieldError {
    fn new(path: impl Into<String>, kind: FieldErrorKind, value: Option<Value>, detail: impl Into<String>) -> Self {
        Self {
            path: path.into(),
            kind,
            value,
            detail: detail.into(),
        }
    }

    /// A value that is missing.
    pub fn required(path: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(path, FieldErrorKind::Required, None, detail)
    }

    /// A value that breaks a rule.
    pub fn invalid(path: impl Into<String>, value: impl Into<Value>, detail: impl Into<String>) -> Self {
        Self::new(path, FieldErrorKind::Invalid, Some(value.into()), detail)
    }

    /// A value of the wrong JSON type.
    pub fn type_invalid(path: impl Into<String>, value: impl Into<Value>, detail: impl Into<String>) -> Self {
        Self::new(path, FieldErrorKind::TypeInvalid, Some(value.into()), detail)
    }

    /// A value that is there twice.
    pub fn duplicate(path: impl Into<String>, value: impl Into<Value>) -> Self {
        Self::new(path, FieldErrorKind::Duplicate, Some(value.into()), "")
    }

    /// A field that may not be set or changed.
    pub fn forbidden(path: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(path, FieldErrorKind::Forbidden, None, detail)
    }

    /// A reference to something that does not exist.
    pub fn not_found(path: impl Into<String>, value: impl Into<Value>) -> Self {
        Self::new(path, FieldErrorKind::NotFound, Some(value.into()), "")
    }

    /// A value outside a fixed set.
    pub fn not_supported<S: AsRef<str>>(path: impl Into<String>, value: impl Into<Value>, allowed: &[S]) -> Self {
        let quoted: Vec<String> = allowed.iter().map(|word| quote(word.as_ref())).collect();
        let detail = if quoted.is_empty() {
            String::new()
        } else {
            format!("supported values: {}", quoted.join(", "))
        };
        Self::new(path, FieldErrorKind::NotSupported, Some(value.into()), detail)
    }

    /// A value of more than `max` bytes.
    pub fn too_long(path: impl Into<String>, max: u64) -> Self {
        let unit = if max == 1 { "byte" } else { "bytes" };
        Self::new(
            path,
            FieldErrorKind::TooLong,
            None,
            format!("may not be more than {max} {unit}"),
        )
    }

    /// A list or map of more than `max` items.
    pub fn too_many(path: impl Into<String>, actual: usize, max: u64) -> Self {
        let unit = if max == 1 { "item" } else { "items" };
        Self::new(
            path,
            FieldErrorKind::TooMany,
            Some(json!(actual)),
            format!("must have at most {max} {unit}"),
        )
    }

    /// The message without the path: the `message` of a Status cause.
    pub fn body(&self) -> String {
        let mut text = self.kind.words().to_owned();
        if let (true, Some(value)) = (self.kind.shows_value(), &self.value) {
            text.push_str(": ");
            match value {
                Value::String(word) => text.push_str(&quote(word)),
                other => text.push_str(&other.to_string()),
            }
        }
        if !self.detail.is_empty() {
            text.push_str(": ");
            text.push_str(&self.detail);
        }
        text
    }

    /// This error as an entry of `Status.details.causes`.
    pub fn cause(&self) -> Value {
        json!({ "reason": self.kind.reason(), "message": self.body(), "field": self.path })
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "{}: {}",
            if self.path.is_empty() { "<nil>" } else { &self.path },
            self.body()
        )
    }
}

impl std::error::Error for FieldError {}

/// All errors in one line, as the message of an `Invalid` Status has them.
pub fn aggregate(errors: &[FieldError]) -> String {
    match errors {
        [only] => only.to_string(),
        several => {
            let mut texts: Vec<String> = Vec::with_capacity(several.len());
            for text in several.iter().map(ToString::to_string) {
                if !texts.contains(&text) {
                    texts.push(text);
                }
            }
            if texts.len() == 1 {
                texts.remove(0)
            } else {
                format!("[{}]", texts.join(", "))
            }
        }
    }
}

/// Quotes a word as Go's `%q` does for ordinary text.
pub fn quote(word: &str) -> String {
    let mut text = String::with_capacity(word.len() + 2);
    text.push('"');
    for letter in word.chars() {
        match letter {
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            '\n' => text.push_str("\\n"),
            '\t' => text.push_str("\\t"),
            '\r' => text.push_str("\\r"),
            other if (other as u32) < 0x20 || other == '\u{7f}' => {
                let _ = write!(text, "\\x{:02x}", other as u32);
            }
            other => text.push(other),
        }
    }
    text.push('"');
    text
}

/// `parent.child`, or `child` at the top.
pub fn child(parent: &str, name: &str) -> String {
    if parent.is_empty() {
        name.to_owned()
    } else {
        format!("{parent}.{name}")
    }
}

/// `parent[index]`.
pub fn index(parent: &str, position: usize) -> String {
    format!("{parent}[{position}]")
}

/// `parent[key]`.
pub fn key(parent: &str, name: &str) -> String {
    format!("{parent}[{name}]")
}
