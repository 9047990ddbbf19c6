//! Which names, labels and keys are valid, with Kubernetes' own words for what is wrong.

const DNS_LABEL: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const DNS_LABEL_1035: &str = "[a-z]([-a-z0-9]*[a-z0-9])?";
const QUALIFIED: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";
const QUALIFIED_WORDS: &str =
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";

fn too_long(max: usize) -> String {
    format!("must be no more than {max} characters")
}

fn pattern(words: &str, expression: &str, examples: &[&str]) -> String {
    let examples: Vec<String> = examples.iter().map(|example| format!("'{example}', ")).collect();
    format!(
        "{words} (e.g. {}regex used for validation is '{expression}')",
        examples.join(" or ")
    )
}

fn lower_or_digit(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit()
}

fn ends_with_letters_or_digits(text: &[u8], allowed: fn(u8) -> bool) -> bool {
    matches!((text.first(), text.last()), (Some(&first), Some(&last)) if allowed(first) && allowed(last))
}

fn looks_like_label(text: &[u8]) -> bool {
    ends_with_letters_or_digits(text, lower_or_digit) && text.iter().all(|&byte| lower_or_digit(byte) || byte == b'-')
}

/// What keeps `value` from being an RFC 1123 label; empty if nothing does.
pub fn dns_label(value: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if value.len() > 63 {
        wrong.push(too_long(63));
    }
    if !looks_like_label(value.as_bytes()) {
        if subdomain_form(value) {
            wrong.push("must not contain dots".to_owned());
        } else {
            wrong.push(pattern(
                "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', \
                 and must start and end with an alphanumeric character",
                DNS_LABEL,
                &["my-name", "123-abc"],
            ));
        }
    }
    wrong
}

/// What keeps `value` from being an RFC 1035 label (as Services want it).
pub fn dns_1035_label(value: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if value.len() > 63 {
        wrong.push(too_long(63));
    }
    if !looks_like_label(value.as_bytes()) || !value.starts_with(|first: char| first.is_ascii_lowercase()) {
        wrong.push(pattern(
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', \
             start with an alphabetic character, and end with an alphanumeric character",
            DNS_LABEL_1035,
            &["my-name", "abc-123"],
        ));
    }
    wrong
}

fn subdomain_form(value: &str) -> bool {
    value.split('.').all(|part| looks_like_label(part.as_bytes()))
}

/// What keeps `value` from being an RFC 1123 subdomain, the form of most names.
pub fn dns_subdomain(value: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if value.len() > 253 {
        wrong.push(too_long(253));
    }
    if !subdomain_form(value) {
        wrong.push(pattern(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', \
             and must start and end with an alphanumeric character",
            &format!("{DNS_LABEL}(\\.{DNS_LABEL})*"),
            &["example.com"],
        ));
    }
    wrong
}

/// What keeps `value` from being one segment of a URL path, the form of RBAC names.
pub fn path_segment(value: &str) -> Vec<String> {
    match value {
        "." | ".." => vec![format!("may not be '{value}'")],
        other => ["/", "%"]
            .iter()
            .filter(|sign| other.contains(**sign))
            .map(|sign| format!("may not contain '{sign}'"))
            .collect(),
    }
}

fn qualified_form(name: &str) -> bool {
    let bytes = name.as_bytes();
    ends_with_letters_or_digits(bytes, |byte| byte.is_ascii_alphanumeric())
        && bytes
            .iter()
            .all(|&byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
}

fn qualified_pattern() -> String {
    pattern(QUALIFIED_WORDS, QUALIFIED, &["MyName", "my.name", "123-abc"])
}

/// What keeps `value` from being a label key, annotation key, finalizer or resource name.
pub fn qualified(value: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    let parts: Vec<&str> = value.splitn(3, '/').collect();
    let name = match parts.as_slice() {
        [name] => *name,
        [prefix, name] => {
            if prefix.is_empty() {
                wrong.push("prefix part must be non-empty".to_owned());
            } else {
                wrong.extend(
                    dns_subdomain(prefix)
                        .into_iter()
                        .map(|words| format!("prefix part {words}")),
                );
            }
            *name
        }
        _ => {
            return vec![format!(
                "a valid label key {} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')",
                qualified_pattern()
            )];
        }
    };
    if name.is_empty() {
        wrong.push("name part must be non-empty".to_owned());
    } else if name.len() > 63 {
        wrong.push(format!("name part {}", too_long(63)));
    }
    if !qualified_form(name) {
        wrong.push(format!("name part {}", qualified_pattern()));
    }
    wrong
}

/// What keeps `value` from being a label value.
pub fn label_value(value: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if value.len() > 63 {
        wrong.push(too_long(63));
    }
    if !value.is_empty() && !qualified_form(value) {
        wrong.push(pattern(
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', \
             and must start and end with an alphanumeric character",
            &format!("({QUALIFIED})?"),
            &["MyValue", "my_value", "12345"],
        ));
    }
    wrong
}

/// What keeps `value` from being a key of a ConfigMap or a Secret.
pub fn config_key(value: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if value.len() > 253 {
        wrong.push(too_long(253));
    }
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    if value.is_empty() || !value.bytes().all(allowed) {
        wrong.push(pattern(
            "a valid config key must consist of alphanumeric characters, '-', '_' or '.'",
            "[-._a-zA-Z0-9]+",
            &["key.name", "KEY_NAME", "key-name"],
        ));
    }
    match value {
        "." | ".." => wrong.push(format!("must not be '{value}'")),
        other if other.starts_with("..") => wrong.push("must not start with '..'".to_owned()),
        _ => {}
    }
    wrong
}

/// What keeps `value` from naming an environment variable.
pub fn env_name(value: &str) -> Vec<String> {
    if value.bytes().all(|byte| (0x20..0x7f).contains(&byte) && byte != b'=') {
        Vec::new()
    } else {
        vec![
            "a valid environment variable name must consist only of printable ASCII characters other than '='"
                .to_owned(),
        ]
    }
}

/// What keeps `value` from naming a port.
pub fn port_name(value: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if value.len() > 15 {
        wrong.push(too_long(15));
    }
    if value.is_empty() || !value.bytes().all(|byte| lower_or_digit(byte) || byte == b'-') {
        wrong.push("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)".to_owned());
    }
    if !value.bytes().any(|byte| byte.is_ascii_lowercase()) {
        wrong.push("must contain at least one letter (a-z)".to_owned());
    }
    if value.contains("--") {
        wrong.push("must not contain consecutive hyphens".to_owned());
    }
    if value.starts_with('-') || value.ends_with('-') {
        wrong.push("must not begin or end with a hyphen".to_owned());
    }
    wrong
}
