//! Changes of bodies that mostly stay JSON and mostly stay reviews: what is inside the object is what rules read.

use std::sync::LazyLock;

use serde_json::{Value, json};

const INPUT_MAX: usize = 64 * 1024;

/// SplitMix64: the same inputs in every run.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn below(&mut self, count: usize) -> usize {
        (self.next() % count.max(1) as u64) as usize
    }

    pub(crate) fn pick<'a, T>(&mut self, among: &'a [T]) -> &'a T {
        &among[self.below(among.len())]
    }
}

/// A value of every kind that a field can be written with.
pub(crate) static KINDS_OF_VALUES: LazyLock<Vec<Value>> = LazyLock::new(|| {
    let deep = |inner: Value| (0..100).fold(inner, |inner, _| json!([inner]));
    vec![
        Value::Null,
        json!(true),
        json!(false),
        json!(0),
        json!(1),
        json!(-1),
        json!(0.5),
        json!(1.5),
        json!(-0.25),
        json!(-0.0),
        json!(1e300),
        json!(i32::MAX),
        json!(i64::from(i32::MAX) + 1),
        json!(i64::MIN),
        json!(i64::MAX),
        json!(u64::MAX),
        json!(""),
        json!("x"),
        json!("ü"),
        json!("日本/~1%"),
        json!("-1"),
        json!("0.5"),
        json!("1e400"),
        json!("99999999999999999999999999Ei"),
        json!("\u{0}\n"),
        json!("%"),
        json!("y".repeat(5000)),
        json!([]),
        json!([null]),
        json!(["x", 1, {}]),
        json!({}),
        json!({"": null}),
        json!({"name": ["x"], "cpu": {"cpu": 1}}),
        deep(json!("x")),
    ]
});

/// A changed review of one that is known. `corpus` holds a list for each kind of object, so that each gets its share.
pub(crate) fn mutated(corpus: &[Vec<Value>], random: &mut Random) -> Vec<u8> {
    let mut known = || {
        let kind = random.below(corpus.len());
        random.pick(&corpus[kind]).clone()
    };
    let (mut value, other) = (known(), known());
    for _ in 0..=random.below(4) {
        change_value(&mut value, &other, random);
    }
    let mut input = value.to_string().into_bytes();
    // Most bytes that are changed blindly only break the JSON; so most changes keep it.
    if random.below(25) == 0 {
        change_bytes(&mut input, other.to_string().as_bytes(), random);
    }
    input.truncate(INPUT_MAX);
    input
}

fn change_bytes(input: &mut Vec<u8>, other: &[u8], random: &mut Random) {
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

/// A place in a review, mostly one inside the objects: the envelope is soon tried.
fn place(review: &Value, random: &mut Random) -> String {
    let mut places = pointers(review);
    if random.below(40) != 0 {
        places.retain(|place| place.starts_with("/request/object/") || place.starts_with("/request/oldObject/"));
    }
    if places.is_empty() {
        return String::new();
    }
    random.pick(&places).clone()
}

fn change_value(value: &mut Value, other: &Value, random: &mut Random) {
    let here = place(value, random);
    let unescape = |key: &str| key.replace("~1", "/").replace("~0", "~");
    match random.below(12) {
        0 => drop(take(value, &here)),
        1 => duplicate(value, &here),
        2 => {
            // Two values trade places.
            let there = place(value, random);
            let (Some(first), Some(second)) = (value.pointer(&here).cloned(), value.pointer(&there).cloned()) else {
                return;
            };
            replace(value, &here, second);
            replace(value, &there, first);
        }
        3 => {
            // A field gets the name of another.
            let there = place(other, random);
            let name = unescape(there.rsplit('/').next().unwrap_or_default());
            let parent = here.rsplit_once('/').map_or("", |(parent, _)| parent).to_owned();
            if let Some(taken) = take(value, &here)
                && let Some(Value::Object(map)) = value.pointer_mut(&parent)
            {
                map.insert(name, taken);
            }
        }
        4 => {
            // What another review has in the same place.
            if let Some(theirs) = other.pointer(&here) {
                let theirs = theirs.clone();
                replace(value, &here, theirs);
            }
        }
        5 => {
            // A field of another review is added.
            let there = place(other, random);
            if let (Some((parent, key)), Some(theirs)) = (there.rsplit_once('/'), other.pointer(&there))
                && let Some(Value::Object(map)) = value.pointer_mut(parent)
            {
                map.insert(unescape(key), theirs.clone());
            }
        }
        6 => {
            let there = place(other, random);
            replace(value, &here, other.pointer(&there).cloned().unwrap_or_default());
        }
        7 => replace(value, &here, interesting(random)),
        _ => replace(value, &here, random.pick(&KINDS_OF_VALUES).clone()),
    }
}

fn replace(value: &mut Value, place: &str, new: Value) {
    if let Some(here) = value.pointer_mut(place) {
        *here = new;
    }
}

fn take(value: &mut Value, place: &str) -> Option<Value> {
    let (parent, key) = place.rsplit_once('/')?;
    match value.pointer_mut(parent)? {
        Value::Object(map) => map.remove(&key.replace("~1", "/").replace("~0", "~")),
        Value::Array(list) => {
            let index = key.parse::<usize>().ok().filter(|index| *index < list.len())?;
            Some(list.remove(index))
        }
        _ => None,
    }
}

fn duplicate(value: &mut Value, place: &str) {
    let Some(again) = value.pointer(place).cloned() else {
        return;
    };
    let parent = place.rsplit_once('/').map_or("", |(parent, _)| parent);
    match value.pointer_mut(parent) {
        Some(Value::Array(list)) => list.push(again),
        Some(here) => *here = json!([again.clone(), again]),
        None => {}
    }
}

fn interesting(random: &mut Random) -> Value {
    const WORDS: [&str; 24] = [
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
        "0.0000000001",
        "Queue",
        "Job",
        "svc",
        "mpi",
        "PodFailed",
        "*",
        "1h30m",
        "99%",
    ];
    match random.below(5) {
        0 => json!(random.next().cast_signed()),
        1 => json!(random.below(70_000).cast_signed() - 5),
        2 => json!(f64::from_bits(random.next())),
        3 => json!({"cpu": random.below(100), "memory": "9Ei", "nvidia.com/gpu": random.below(3)}),
        _ => json!(random.pick(&WORDS)),
    }
}

/// Every place in a value.
pub(crate) fn pointers(value: &Value) -> Vec<String> {
    fn below(value: &Value, here: &mut String, found: &mut Vec<String>) {
        found.push(here.clone());
        let length = here.len();
        let mut enter = |key: &str, value: &Value| {
            here.push('/');
            here.push_str(key);
            below(value, here, found);
            here.truncate(length);
        };
        match value {
            Value::Object(map) => map.iter().for_each(|(key, value)| {
                enter(&key.replace('~', "~0").replace('/', "~1"), value);
            }),
            Value::Array(list) => list
                .iter()
                .enumerate()
                .for_each(|(index, value)| enter(&index.to_string(), value)),
            _ => {}
        }
    }
    let mut found = Vec::new();
    below(value, &mut String::new(), &mut found);
    found
}
