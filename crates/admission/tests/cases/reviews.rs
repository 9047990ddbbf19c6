//! AdmissionReviews: the table as reviews, and mutations of them. There is no coverage to guide the
//! mutation on stable Rust; a new way to end (which rule, how many clauses, what is patched) is what makes
//! an input worth keeping.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use basalt_admission::{Review, Settings, Stage, View, admit};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::table::{Row, World, all, mismatch};

/// What `cargo test` runs; `BASALT_FUZZ_EXECUTIONS` says otherwise.
const EXECUTIONS: u64 = 20_000;
const CORPUS_MAX: usize = 20_000;
const INPUT_MAX: usize = 64 * 1024;
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

#[test]
fn mutated_reviews_are_always_answered() {
    let executions = std::env::var("BASALT_FUZZ_EXECUTIONS").map_or(EXECUTIONS, |text| text.parse().expect("a number"));
    let view = World::usual().view();
    let mut corpus: Vec<Vec<u8>> = all().iter().map(|row| row.review().to_string().into_bytes()).collect();
    let first = corpus.len();
    let mut ends: BTreeSet<String> = corpus.iter().map(|input| run(&view, input)).collect();
    let mut random = Random(0x5EED);
    let mut slowest = Duration::ZERO;
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
        if corpus.len() < CORPUS_MAX && ends.insert(end) {
            corpus.push(input);
        }
    }
    println!(
        "AdmissionReview: {executions} executions, corpus {} ({first} cases), {} ways to end, slowest {slowest:?}",
        corpus.len(),
        ends.len()
    );
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

/// SplitMix64: the same inputs in every run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, count: usize) -> usize {
        (self.next() % count.max(1) as u64) as usize
    }

    fn pick<'a, T>(&mut self, among: &'a [T]) -> &'a T {
        &among[self.below(among.len())]
    }
}

fn mutated(corpus: &[Vec<u8>], random: &mut Random) -> Vec<u8> {
    let mut input = random.pick(corpus).clone();
    for _ in 0..=random.below(4) {
        // Most bytes that are changed blindly only break the JSON; so most changes keep it.
        if random.below(8) == 0 {
            change_bytes(&mut input, random.pick(corpus).clone(), random);
        } else if let Ok(mut value) = serde_json::from_slice::<Value>(&input) {
            change_value(&mut value, random.pick(corpus).clone(), random);
            input = value.to_string().into_bytes();
        }
    }
    input.truncate(INPUT_MAX);
    input
}

fn change_bytes(input: &mut Vec<u8>, other: Vec<u8>, random: &mut Random) {
    let at = random.below(input.len());
    match random.below(4) {
        0 => input.truncate(at),
        1 => input.insert(at, random.next() as u8),
        2 if !input.is_empty() => input[at] ^= 1 << random.below(8),
        _ => {
            let from = random.below(other.len());
            input.truncate(at);
            input.extend_from_slice(&other[from..]);
        }
    }
}

fn change_value(value: &mut Value, other: Vec<u8>, random: &mut Random) {
    let places = pointers(value);
    let place = random.pick(&places).clone();
    let replacement = match random.below(3) {
        0 => serde_json::from_slice::<Value>(&other).ok().and_then(|other| {
            let places = pointers(&other);
            let place: &String = random.pick(&places);
            other.pointer(place).cloned()
        }),
        _ => Some(interesting(random)),
    };
    match (random.below(4), place.rsplit_once('/')) {
        (0, Some((parent, key))) => {
            let key = key.replace("~1", "/").replace("~0", "~");
            match value.pointer_mut(parent) {
                Some(Value::Object(map)) => drop(map.remove(&key)),
                Some(Value::Array(list)) if !list.is_empty() => {
                    let at = random.below(list.len());
                    let again = list[at].clone();
                    list.push(again);
                }
                _ => {}
            }
        }
        _ => {
            if let (Some(here), Some(new)) = (value.pointer_mut(&place), replacement) {
                *here = new;
            }
        }
    }
}

fn interesting(random: &mut Random) -> Value {
    const WORDS: [&str; 22] = [
        "",
        "root",
        "default",
        "team",
        "team-a",
        "full",
        "loose",
        "shut-a",
        "busy",
        "leaving",
        "Open",
        "Closed",
        "Closing",
        "CREATE",
        "UPDATE",
        "DELETE",
        "-1",
        "1e400",
        "99999999999999999999999999Ei",
        "0.0000000001",
        "Queue",
        "ü/~1",
    ];
    match random.below(9) {
        0 => Value::Null,
        1 => json!(random.next().is_multiple_of(2)),
        2 => json!(random.next().cast_signed()),
        3 => json!(random.below(70_000).cast_signed() - 5),
        4 => json!(f64::from_bits(random.next())),
        5 => json!({"cpu": random.below(100), "memory": "9Ei", "nvidia.com/gpu": random.below(3)}),
        6 => json!([]),
        7 => (0..random.below(100)).fold(json!("x"), |inner, _| json!([inner])),
        _ => json!(random.pick(&WORDS)),
    }
}

/// Every place in a value.
fn pointers(value: &Value) -> Vec<String> {
    let mut found = vec![String::new()];
    let mut at = 0;
    while let Some(here) = found.get(at).cloned() {
        let escape = |key: &str| key.replace('~', "~0").replace('/', "~1");
        match value.pointer(&here) {
            Some(Value::Object(map)) => found.extend(map.keys().map(|key| format!("{here}/{}", escape(key)))),
            Some(Value::Array(list)) => found.extend((0..list.len()).map(|index| format!("{here}/{index}"))),
            _ => {}
        }
        at += 1;
    }
    found
}
