//! Objects from files, folders and stdin: every document, the items of lists, and where each was written.

use std::io::Read;
use std::path::{Path, PathBuf};

use serde_json::Value;

/// More than any manifest needs; less than what would hurt.
const SIZE_MAX: u64 = 256 << 20;
const FILES_MAX: usize = 10_000;

/// An object and where it was written.
#[derive(Clone, Debug, PartialEq)]
pub struct Manifest {
    /// The file, or `stdin`.
    pub source: String,
    /// Which document of it, from 1.
    pub document: usize,
    /// The object.
    pub object: Value,
}

impl Manifest {
    /// Something is wrong with this object.
    pub fn fault(&self, why: impl ToString) -> ManifestError {
        ManifestError::Document {
            source_name: self.source.clone(),
            document: self.document,
            why: why.to_string(),
        }
    }
}

/// Why manifests cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    /// A file or folder.
    #[error("cannot read {path}: {why}")]
    File {
        /// Which.
        path: String,
        /// Why.
        why: String,
    },
    /// A document.
    #[error("{source_name}, document {document}: {why}")]
    Document {
        /// The file, or `stdin`.
        source_name: String,
        /// Which document, from 1.
        document: usize,
        /// Why.
        why: String,
    },
}

/// The objects of a file, of the files of a folder (one list for each), or of stdin (`-`).
pub fn read(path: &Path) -> Result<Vec<(String, Vec<Manifest>)>, ManifestError> {
    let mut all = Vec::new();
    for file in files(path)? {
        let source = if file == Path::new("-") {
            "stdin".to_owned()
        } else {
            file.display().to_string()
        };
        let mut found = Vec::new();
        for (index, document) in documents(&content(&file)?).enumerate() {
            let objects = parse(document).map_err(|why| ManifestError::Document {
                source_name: source.clone(),
                document: index + 1,
                why,
            })?;
            found.extend(objects.into_iter().map(|object| Manifest {
                source: source.clone(),
                document: index + 1,
                object,
            }));
        }
        all.push((source, found));
    }
    Ok(all)
}

fn files(path: &Path) -> Result<Vec<PathBuf>, ManifestError> {
    if path == Path::new("-") || !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let fail = |why: String| ManifestError::File {
        path: path.display().to_string(),
        why,
    };
    let mut files = Vec::new();
    for entry in std::fs::read_dir(path)
        .map_err(|e| fail(e.to_string()))?
        .take(FILES_MAX)
    {
        let file = entry.map_err(|e| fail(e.to_string()))?.path();
        let known = file
            .extension()
            .is_some_and(|e| e == "yaml" || e == "yml" || e == "json");
        if known && file.is_file() {
            files.push(file);
        }
    }
    if files.is_empty() {
        return Err(fail("there is no .yaml, .yml or .json file in this folder".to_owned()));
    }
    files.sort();
    Ok(files)
}

fn content(path: &Path) -> Result<String, ManifestError> {
    let fail = |why: String| ManifestError::File {
        path: path.display().to_string(),
        why,
    };
    let reader: Box<dyn Read> = if path == Path::new("-") {
        Box::new(std::io::stdin())
    } else {
        Box::new(std::fs::File::open(path).map_err(|e| fail(e.to_string()))?)
    };
    let mut bytes = Vec::new();
    reader
        .take(SIZE_MAX + 1)
        .read_to_end(&mut bytes)
        .map_err(|e| fail(e.to_string()))?;
    if bytes.len() as u64 > SIZE_MAX {
        return Err(fail(format!("it is larger than {} MiB", SIZE_MAX >> 20)));
    }
    String::from_utf8(bytes).map_err(|_| fail("it is not UTF-8 text".to_owned()))
}

/// The documents of a YAML text: it is cut at lines that begin with `---`.
fn documents(text: &str) -> impl Iterator<Item = &str> {
    let is_cut = |line: &str| {
        line.strip_prefix("---")
            .is_some_and(|rest| rest.is_empty() || rest.starts_with(char::is_whitespace))
    };
    let mut pieces = Vec::new();
    let (mut start, mut at) = (0, 0);
    for line in text.split_inclusive('\n') {
        if is_cut(line) {
            pieces.push(&text[start..at]);
            start = at + "---".len();
        }
        at += line.len();
    }
    pieces.push(&text[start..]);
    // What stands before the first cut is a document only if there is something in it.
    let skip = usize::from(pieces.len() > 1 && is_blank(pieces[0]));
    pieces.into_iter().skip(skip)
}

fn is_blank(document: &str) -> bool {
    document.lines().all(|line| {
        let line = line.trim();
        line.is_empty() || line.starts_with('#')
    })
}

/// The object of a document, or the items of a list.
fn parse(document: &str) -> Result<Vec<Value>, String> {
    if is_blank(document) {
        return Ok(Vec::new());
    }
    // JSON is YAML too; its own reader is faster and has no limits but size.
    let json = document.trim_start().starts_with('{');
    let value = json.then(|| serde_json::from_str(document).ok()).flatten();
    let mut value: Value = match value {
        Some(value) => value,
        None => serde_saphyr::from_str_with_options(document, limits()).map_err(|e| e.to_string())?,
    };
    let kind = value.get("kind").and_then(Value::as_str).unwrap_or_default();
    let Some(item) = kind.strip_suffix("List").map(str::to_owned) else {
        return Ok(vec![value]);
    };
    let Some(Value::Array(mut items)) = value.get_mut("items").map(Value::take) else {
        return Err("a List needs items".to_owned());
    };
    // The items of a list of one kind do not always say what they are.
    for entry in items
        .iter_mut()
        .filter_map(Value::as_object_mut)
        .filter(|_| !item.is_empty())
    {
        entry.entry("kind").or_insert_with(|| item.as_str().into());
        entry.entry("apiVersion").or_insert_with(|| value["apiVersion"].clone());
    }
    Ok(items)
}

/// A list of a whole cluster is one document, so that size is the only limit.
fn limits() -> serde_saphyr::Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! { max_nodes: SIZE_MAX as usize, max_events: SIZE_MAX as usize },
    }
}
