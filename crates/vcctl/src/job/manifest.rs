//! Jobs from files: every document must be a Job, and an error says where it is.

use std::path::Path;

use basalt_api::json::string_at;
use basalt_api::resource_kind::JOB;
use serde_json::{Value, json};

use crate::error::CliError;
use crate::manifest;

/// All Jobs of a file, of the files of a folder, or of stdin (`-`), with the namespace and queue that flags ask for.
pub(super) fn read(path: &Path, namespace: Option<&str>, queue: Option<&str>) -> Result<Vec<Value>, CliError> {
    let mut jobs = Vec::new();
    for (source, manifests) in manifest::read(path)? {
        if manifests.is_empty() {
            return Err(CliError::Manifest(manifest::ManifestError::File {
                path: source,
                why: "there is no Job in it".to_owned(),
            }));
        }
        for manifest in manifests {
            check_kind(&manifest.object).map_err(|why| manifest.fault(why))?;
            let job = placed(manifest.object.clone(), namespace, queue);
            jobs.push(job.map_err(|why| manifest.fault(why))?);
        }
    }
    Ok(jobs)
}

fn check_kind(item: &Value) -> Result<(), String> {
    let (version, kind) = (string_at(item, "/apiVersion"), string_at(item, "/kind"));
    if (version, kind) != (JOB.api_version, JOB.kind) {
        let found = if kind.is_empty() {
            "something without a kind".to_owned()
        } else {
            format!("{kind} of {version:?}")
        };
        return Err(format!(
            "this is {found}, not a Job of {:?}; `kubectl apply -f` takes any kind",
            JOB.api_version
        ));
    }
    if !item["metadata"].is_object() {
        return Err("metadata is missing".to_owned());
    }
    if string_at(item, "/metadata/name").is_empty() && string_at(item, "/metadata/generateName").is_empty() {
        return Err("metadata.name is missing".to_owned());
    }
    if !item["spec"].is_object() {
        return Err("spec is missing".to_owned());
    }
    Ok(())
}

fn placed(mut job: Value, namespace: Option<&str>, queue: Option<&str>) -> Result<Value, String> {
    if let Some(wanted) = namespace {
        match string_at(&job, "/metadata/namespace") {
            "" => job["metadata"]["namespace"] = json!(wanted),
            own if own == wanted => {}
            own => return Err(format!("its namespace is {own}, but --namespace says {wanted}")),
        }
    }
    if let Some(queue) = queue {
        job["spec"]["queue"] = json!(queue);
    }
    Ok(job)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\n";

    fn job(name: &str) -> String {
        format!("{HEAD}metadata: {{name: {name}}}\nspec: {{queue: own}}\n")
    }

    /// Names and queues of the jobs, or the error.
    fn check(text: &str, flags: (Option<&str>, Option<&str>), expected: Result<&[(&str, &str)], &str>) {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("jobs.yaml");
        std::fs::write(&file, text).unwrap();
        let got = read(&file, flags.0, flags.1)
            .map(|jobs| {
                jobs.iter()
                    .map(|j| {
                        (
                            string_at(j, "/metadata/name").to_owned(),
                            string_at(j, "/spec/queue").to_owned(),
                        )
                    })
                    .collect::<Vec<_>>()
            })
            .map_err(|e| e.to_string().replace(&file.display().to_string(), "jobs.yaml"));
        match (got, expected) {
            (Ok(got), Ok(expected)) => {
                let got: Vec<(&str, &str)> = got.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
                assert_eq!(got, expected, "{text}");
            }
            (Err(got), Err(expected)) => assert!(got.starts_with(expected), "{got}\nis not\n{expected}"),
            (got, expected) => panic!("{text}\n{got:?} is not {expected:?}"),
        }
    }

    #[test]
    fn jobs_are_read_from_documents() {
        let (a, b) = (job("a"), job("b"));
        check(&a, (None, None), Ok(&[("a", "own")]));
        check(
            &format!("---\n{a}---\n# only a comment\n---\n{b}"),
            (None, Some("q")),
            Ok(&[("a", "q"), ("b", "q")]),
        );
        check(
            &format!("# note\n--- # one\n{a}"),
            (Some("ml"), None),
            Ok(&[("a", "own")]),
        );
        check(&format!("{a}\n---\n"), (None, None), Ok(&[("a", "own")]));
        let json = r#"{"apiVersion":"batch.volcano.sh/v1alpha1","kind":"Job","metadata":{"name":"j"},"spec":{}}"#;
        check(json, (None, None), Ok(&[("j", "")]));
        check(
            &format!(r#"{{"apiVersion":"v1","kind":"List","items":[{json},{json}]}}"#),
            (None, None),
            Ok(&[("j", ""), ("j", "")]),
        );
    }

    #[test]
    fn an_error_says_in_which_document() {
        let a = job("a");
        check("", (None, None), Err("cannot read jobs.yaml: there is no Job in it"));
        check(
            &format!("{a}---\napiVersion: v1\nkind: Pod\n"),
            (None, None),
            Err("jobs.yaml, document 2: this is Pod of \"v1\", not a Job of \"batch.volcano.sh/v1alpha1\""),
        );
        check(
            &format!("{a}---\n{a}---\nx: [1\n"),
            (None, None),
            Err("jobs.yaml, document 3: "),
        );
        check(
            "a: 1\n",
            (None, None),
            Err("jobs.yaml, document 1: this is something without a kind"),
        );
        check(
            "- 1\n",
            (None, None),
            Err("jobs.yaml, document 1: this is something without a kind"),
        );
        check(
            &format!("{HEAD}spec: {{}}\n"),
            (None, None),
            Err("jobs.yaml, document 1: metadata is missing"),
        );
        check(
            &format!("{HEAD}metadata: 3\n"),
            (None, None),
            Err("jobs.yaml, document 1: metadata is missing"),
        );
        check(
            &format!("{HEAD}metadata: {{}}\n"),
            (None, None),
            Err("jobs.yaml, document 1: metadata.name is missing"),
        );
        check(
            &format!("{HEAD}metadata: {{name: a}}\n"),
            (None, None),
            Err("jobs.yaml, document 1: spec is missing"),
        );
        let elsewhere = format!("{HEAD}metadata: {{name: a, namespace: x}}\nspec: {{}}\n");
        check(
            &elsewhere,
            (Some("y"), None),
            Err("jobs.yaml, document 1: its namespace is x, but --namespace says y"),
        );
    }

    #[test]
    fn a_folder_is_read_in_the_order_of_its_names() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        assert!(
            read(path, None, None)
                .unwrap_err()
                .to_string()
                .contains("there is no .yaml, .yml or .json file")
        );
        for (file, text) in [
            ("2.yml", job("b")),
            ("1.yaml", job("a")),
            ("notes.txt", "no yaml: [".to_owned()),
        ] {
            std::fs::write(path.join(file), text).unwrap();
        }
        let names: Vec<Value> = read(path, None, None)
            .unwrap()
            .into_iter()
            .map(|j| j["metadata"]["name"].clone())
            .collect();
        assert_eq!(names, ["a", "b"]);
        assert!(read(&path.join("none.yaml"), None, None).is_err());
    }
}
