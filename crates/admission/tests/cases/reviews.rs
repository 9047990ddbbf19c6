//! AdmissionReviews: the table as reviews, and mutations of them. There is no coverage to guide the
//! mutation on stable Rust; a new way to end (which rule, how many clauses, what is patched) is what makes
//! an input worth keeping.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use basalt_admission::{Review, Settings, Stage, View, admit};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::mutate::{KINDS_OF_VALUES, Random, mutated, pointers};
use crate::table::{Row, World, all, mismatch};

/// What `cargo test` runs; `BASALT_FUZZ_EXECUTIONS` says otherwise.
const EXECUTIONS: u64 = 10_000;
const CORPUS_MAX: usize = 20_000;
/// Far above any decision, so that a busy machine does not fail it, and far below a hang.
const TIME_MAX: Duration = Duration::from_secs(2);

/// The answer of the webhook's function to a body, without a network.
fn answer(row: &Row, stage: Stage) -> Value {
    let review = Review::read(row.review().to_string().as_bytes()).expect("a review");
    let decision = admit(&review.request(), &row.world.view(), &row.settings);
    review.answer(stage, &decision, row.granted)
}

#[test]
fn every_case_ends_the_same_as_a_review() {
    for row in all() {
        assert_eq!(mismatch(&row), None);
        let response = answer(&row, Stage::Validate)["response"].clone();
        assert_eq!(response["allowed"], json!(!row.refused), "{}: {response}", row.title);
        if row.refused {
            let rule = &response["status"]["details"]["causes"][0]["field"];
            assert_eq!(rule, row.rule, "{}: {response}", row.title);
        }
        assert_eq!(
            answer(&row, Stage::Mutate)["response"]["allowed"],
            json!(true),
            "{}",
            row.title
        );
    }
}

#[test]
fn bodies_that_are_no_reviews_are_told_why() {
    let check = |body: &str, why: &str| {
        let error = Review::read(body.as_bytes()).expect_err("no review").to_string();
        assert!(error.contains(why), "{error}");
    };
    check("", "not JSON");
    check("{}", "AdmissionReview");
    check(
        r#"{"apiVersion":"admission.k8s.io/v1beta1","kind":"AdmissionReview"}"#,
        "v1beta1",
    );
    check(
        r#"{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}"#,
        "request.uid is null",
    );
    let connect =
        r#"{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u","operation":"CONNECT"}}"#;
    check(connect, "request.operation is \"CONNECT\"");
}

/// The table as reviews, and objects in which every field is set.
fn seeds() -> Vec<Value> {
    all().iter().chain(&whole_objects()).map(Row::review).collect()
}

fn resource(review: &Value) -> &str {
    review["request"]["resource"]["resource"].as_str().unwrap_or_default()
}

/// One object of each kind with every field that rules read, new and changed.
fn whole_objects() -> Vec<Row> {
    let texts: Value = serde_json::from_str(include_str!("table/whole.json")).expect("JSON");
    let kinds = [
        ("batch.volcano.sh", "jobs"),
        ("scheduling.volcano.sh", "podgroups"),
        ("scheduling.volcano.sh", "queues"),
        ("bus.volcano.sh", "commands"),
        ("", "pods"),
    ];
    let row = |(group, resource): (&'static str, &'static str)| Row {
        object: Some(texts[resource].clone()),
        ..Row::new(group, resource, "whole")
    };
    let changed = |row: Row| Row {
        old: row.object.clone(),
        ..row
    };
    let new = kinds.map(row);
    new.iter().cloned().map(changed).chain(new.iter().cloned()).collect()
}

/// Every field that any case has, with a value of every kind in its place.
#[test]
fn every_field_with_every_kind_of_value_is_answered() {
    let view = World::usual().view();
    let mut seen = BTreeSet::new();
    let (mut executions, mut ends) = (0_u64, BTreeSet::new());
    let mut answer = |review: &Value| {
        executions += 1;
        ends.insert(run(&view, review.to_string().as_bytes()));
    };
    for review in seeds() {
        let what = format!("{} {}", resource(&review), review["request"]["operation"]);
        for place in pointers(&review) {
            let inside = place.starts_with("/request/object") || place.starts_with("/request/oldObject");
            // The second element of a list is read as the first is.
            let field: String = place.chars().filter(|c| !c.is_ascii_digit()).collect();
            if !inside || !seen.insert((what.clone(), field)) {
                continue;
            }
            let stored = place.replacen("/request/object", "/request/oldObject", 1);
            // What is stored has passed these rules, mostly: fewer kinds of values will do.
            let step = if place.starts_with("/request/oldObject") { 3 } else { 1 };
            for value in KINDS_OF_VALUES.iter().step_by(step) {
                let mut changed = review.clone();
                *changed.pointer_mut(&place).expect("a place") = value.clone();
                // The same in what is stored, where it came by other means, every second time.
                if seen.len().is_multiple_of(2)
                    && let Some(here) = changed.pointer_mut(&stored)
                {
                    *here = value.clone();
                }
                answer(&changed);
            }
        }
    }
    println!(
        "AdmissionReview: {} fields, {} kinds of values, {executions} executions, {} ways to end",
        seen.len(),
        KINDS_OF_VALUES.len(),
        ends.len()
    );
}

#[test]
fn mutated_reviews_are_always_answered() {
    let executions = std::env::var("BASALT_FUZZ_EXECUTIONS").map_or(EXECUTIONS, |text| text.parse().expect("a number"));
    let view = World::usual().view();
    let mut corpus: Vec<Vec<Value>> = Vec::new();
    let mut ends: BTreeSet<String> = BTreeSet::new();
    for seed in seeds() {
        ends.insert(run(&view, seed.to_string().as_bytes()));
        keep(&mut corpus, seed);
    }
    let size = |corpus: &[Vec<Value>]| corpus.iter().map(Vec::len).sum::<usize>();
    let first = size(&corpus);
    let mut random = Random(0x5EED);
    let mut slowest = Duration::ZERO;
    let mut kinds: BTreeMap<String, u64> = BTreeMap::new();
    for _ in 0..executions {
        let input = mutated(&corpus, &mut random);
        let begun = Instant::now();
        let end = run(&view, &input);
        slowest = slowest.max(begun.elapsed());
        assert!(
            slowest < TIME_MAX,
            "{slowest:?} for {}",
            String::from_utf8_lossy(&input)
        );
        let kind = end.split(' ').next().unwrap_or_default();
        *kinds.entry(kind.to_owned()).or_default() += 1;
        if ends.len() < CORPUS_MAX
            && ends.insert(end)
            && let Ok(review) = serde_json::from_slice(&input)
        {
            keep(&mut corpus, review);
        }
    }
    kinds.retain(|_, count| *count > executions / 100);
    println!(
        "AdmissionReview: {executions} executions {kinds:?}, corpus {} ({first} cases), {} ways to end, slowest {slowest:?}",
        size(&corpus),
        ends.len()
    );
}

/// Puts a review to those of its kind. What has no kind that we know is not worth a list.
fn keep(corpus: &mut Vec<Vec<Value>>, review: Value) {
    let known = ["jobs", "podgroups", "queues", "commands", "pods"];
    let Some(kind) = known.iter().position(|kind| *kind == resource(&review)) else {
        return;
    };
    corpus.resize(known.len(), Vec::new());
    corpus[kind].push(review);
}

/// Answers an input, checks the answers, and says in a few words how it ended.
fn run(view: &View, input: &[u8]) -> String {
    let review = match Review::read(input) {
        Ok(review) => review,
        Err(error) => return error.to_string().chars().take(30).collect(),
    };
    let settings = Settings {
        queue_acl: true,
        ..Settings::default()
    };
    let decision = admit(&review.request(), view, &settings);
    let mut end = format!("{} {:?}", review.resource(), decision.warnings.len());
    for (stage, granted) in [(Stage::Mutate, true), (Stage::Validate, true), (Stage::Validate, false)] {
        let answer = review.answer(stage, &decision, granted);
        assert_eq!(
            (&answer["apiVersion"], &answer["kind"]),
            (&json!("admission.k8s.io/v1"), &json!("AdmissionReview"))
        );
        let response = &answer["response"];
        assert!(response["uid"].as_str().is_some_and(|uid| !uid.is_empty()), "{answer}");
        let allowed = response["allowed"].as_bool().expect("a verdict");
        if !allowed {
            let status = &response["status"];
            assert!(matches!(status["code"].as_u64(), Some(403 | 422)), "{answer}");
            let message = status["message"].as_str().expect("a message");
            let rule = status["details"]["causes"][0]["field"].as_str().expect("a rule");
            end.extend([" ", rule, &";".repeat(message.matches("; ").count())]);
        }
        if let Some(patch) = response["patch"].as_str() {
            assert_eq!((stage, &response["patchType"]), (Stage::Mutate, &json!("JSONPatch")));
            end += &patched(&review, patch, decision.object.as_ref());
        }
    }
    end
}

/// The patch makes of what came what was decided; its paths, for the signature.
fn patched(review: &Review, patch: &str, expected: Option<&Value>) -> String {
    let patch = STANDARD.decode(patch).expect("base64");
    let patch: json_patch::Patch = serde_json::from_slice(&patch).expect("a patch");
    let mut object = review.request().object.cloned().expect("an object");
    json_patch::patch(&mut object, &patch).expect("the patch applies");
    assert_eq!(Some(&object), expected);
    let paths = patch.iter().map(|operation| operation.path().to_string());
    paths.collect::<Vec<_>>().join(" ")
}
