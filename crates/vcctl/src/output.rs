//! How objects are shown: as a table, or as `-o` says.

pub(crate) mod age;
pub(crate) mod page;
pub(crate) mod table;

use basalt_api::ResourceKind;
use basalt_api::json::string_at;
use clap::ValueEnum;
use serde_json::{Value, json};
use table::Table;

use crate::error::CliError;
use crate::session::Session;
use crate::terminal::neutral;

/// `-o` of commands that list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// The API objects as JSON
    Json,
    /// The API objects as YAML
    Yaml,
    /// The table with more columns
    Wide,
    /// Kind and name only
    Name,
}

/// `-o` of commands that make something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ObjectFormat {
    /// The API object as JSON
    Json,
    /// The API object as YAML
    Yaml,
    /// Kind and name only
    Name,
}

/// What a command made of `asked` objects: one alone as it is, of several a list.
pub(crate) fn made(
    kind: ResourceKind,
    mut made: Vec<Value>,
    asked: usize,
    format: ObjectFormat,
) -> Result<String, CliError> {
    if format == ObjectFormat::Name {
        return Ok(to_names(kind, &made));
    }
    let value = match (asked, made.pop()) {
        (_, None) => return Ok(String::new()),
        (1, Some(only)) => only,
        (_, Some(last)) => {
            made.push(last);
            list(made)
        }
    };
    if format == ObjectFormat::Json {
        to_json(value)
    } else {
        to_yaml(value)
    }
}

/// Prints objects that were asked for: as a table, or as `-o` says.
pub(crate) fn print_list(
    kind: ResourceKind,
    items: Vec<Value>,
    format: Option<Format>,
    table: impl FnOnce(&[Value], bool) -> Table,
    session: &mut Session<'_>,
) -> Result<(), CliError> {
    let shown = match format {
        Some(Format::Json) => to_json(list(items))?,
        Some(Format::Yaml) => to_yaml(list(items))?,
        _ if items.is_empty() => return session.tell("No resources found"),
        Some(Format::Name) => to_names(kind, &items),
        wide => table(&items, wide.is_some()).render(session.look.colour),
    };
    session.print(&shown)
}

/// Objects as kubectl prints a list of them.
pub(crate) fn list(items: Vec<Value>) -> Value {
    json!({"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": ""}, "items": items})
}

/// JSON as kubectl prints it: keys in order, four spaces, without managed fields.
pub(crate) fn to_json(mut value: Value) -> Result<String, CliError> {
    tidy(&mut value);
    let mut text = Vec::new();
    let indent = serde_json::ser::PrettyFormatter::with_indent(b"    ");
    let mut serializer = serde_json::Serializer::with_formatter(&mut text, indent);
    serde::Serialize::serialize(&value, &mut serializer).map_err(std::io::Error::other)?;
    text.push(b'\n');
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// YAML as kubectl prints it: keys in order, without managed fields.
pub(crate) fn to_yaml(mut value: Value) -> Result<String, CliError> {
    tidy(&mut value);
    let options = serde_saphyr::ser_options! { prefer_block_scalars: true, folded_wrap_chars: usize::MAX };
    Ok(serde_saphyr::to_string_with_options(&value, options).map_err(std::io::Error::other)?)
}

/// One line per object: `job.batch.volcano.sh/train`.
pub(crate) fn to_names(kind: ResourceKind, items: &[Value]) -> String {
    let name = |item: &Value| {
        format!(
            "{}/{}\n",
            kind.with_group(&kind.singular()),
            neutral(string_at(item, "/metadata/name"))
        )
    };
    items.iter().map(name).collect()
}

/// Sorts all keys and removes managed fields, which nobody wants to read.
fn tidy(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(tidy),
        Value::Object(map) => {
            if let Some(Value::Object(metadata)) = map.get_mut("metadata") {
                metadata.remove("managedFields");
            }
            map.sort_keys();
            map.values_mut().for_each(tidy);
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use basalt_api::resource_kind::JOB;

    fn sample() -> Value {
        json!({
            "kind": "Job", "apiVersion": "batch.volcano.sh/v1alpha1",
            "spec": {"queue": "default", "unknown": {"b": 1, "a": [true, null]}, "text": "two\nlines\n", "esc": "\u{1b}[2J", "no": "yes", "n": "1"},
            "metadata": {"name": "train", "managedFields": [{"manager": "x"}], "annotations": {}},
        })
    }

    #[test]
    fn json_is_as_kubectl_prints_it() {
        insta::assert_snapshot!(to_json(list(vec![sample()])).unwrap());
    }

    #[test]
    fn yaml_is_as_kubectl_prints_it_and_reads_back() {
        let yaml = to_yaml(sample()).unwrap();
        insta::assert_snapshot!(yaml);
        let mut expected = sample();
        tidy(&mut expected);
        assert_eq!(serde_saphyr::from_str::<Value>(&yaml).unwrap(), expected);
        assert!(!yaml.contains('\u{1b}'));
    }

    #[test]
    fn names_are_as_kubectl_prints_them() {
        assert_eq!(to_names(JOB, &[sample()]), "job.batch.volcano.sh/train\n");
    }
}
