//! Protobuf bodies: what Go's own encoder writes must come out as the same object's JSON.

use basalt_apimachinery::protobuf::{ProtoError, decode};
use proptest::prelude::*;
use serde_json::{Value, json};

fn unhex(text: &str) -> Vec<u8> {
    let digit = |byte: u8| (byte as char).to_digit(16).expect("hex") as u8;
    text.as_bytes()
        .chunks(2)
        .map(|pair| digit(pair[0]) << 4 | digit(pair[1]))
        .collect()
}

/// Go writes nulls and empty structures for what is not set; neither says anything.
fn strip(value: Value) -> Value {
    let says_something = |value: &Value| match value {
        Value::Null => false,
        Value::Object(fields) => !fields.is_empty(),
        Value::Array(items) => !items.is_empty(),
        _ => true,
    };
    match value {
        Value::Object(fields) => {
            let fields = fields.into_iter().map(|(name, value)| (name, strip(value)));
            Value::Object(fields.filter(|(_, value)| says_something(value)).collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(strip).collect()),
        plain => plain,
    }
}

/// Structures that Go always writes and we leave out when they are empty or zero.
fn without_noise(mut value: Value) -> Value {
    match &mut value {
        Value::Object(fields) => {
            fields.retain(|name, value| {
                let empty_port = name == "targetPort" && *value == 0;
                !empty_port
            });
            fields
                .values_mut()
                .for_each(|value| *value = without_noise(value.take()));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| *item = without_noise(item.take())),
        _ => {}
    }
    value
}

fn check_vectors(text: &str) -> usize {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let mut count = 0;
    for (hex, expected) in lines.filter_map(|line| line.split_once(' ')) {
        let expected: Value = serde_json::from_str(expected).expect("JSON");
        let found = decode(&unhex(hex)).unwrap_or_else(|error| panic!("{error}: {expected}"));
        assert_eq!(without_noise(strip(found)), without_noise(strip(expected)));
        count += 1;
    }
    count
}

#[test]
fn bodies_of_go_clients_decode() {
    assert!(check_vectors(include_str!("protobuf_vectors.txt")) > 50);
}

#[test]
fn pointers_keep_their_zeros() {
    let bodies: Vec<Value> = include_str!("protobuf_vectors.txt")
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| decode(&unhex(line.split_once(' ')?.0)).ok())
        .collect();
    let find = |kind: &str| {
        bodies
            .iter()
            .find(|body| body["kind"] == kind)
            .unwrap_or_else(|| panic!("no {kind}"))
    };
    assert_eq!(find("DeleteOptions")["gracePeriodSeconds"], 0);
    let pod = find("Pod");
    assert_eq!(pod["metadata"]["creationTimestamp"], "2025-11-15T08:30:00Z");
    assert_eq!(pod["spec"]["volumes"][0], json!({ "name": "e", "emptyDir": {} }));
    assert_eq!(pod["spec"]["automountServiceAccountToken"], false);
    assert_eq!(
        pod["spec"]["containers"][0]["livenessProbe"],
        json!({ "tcpSocket": { "port": 0 } })
    );
    assert_eq!(pod.get("status"), None);
    let policy = find("NetworkPolicy");
    assert_eq!(
        policy["spec"]["ingress"],
        json!([{}, { "from": [{ "namespaceSelector": {} }] }])
    );
    assert_eq!(find("Lease")["spec"]["acquireTime"], "2025-11-15T08:30:00.123456Z");
    assert_eq!(find("PriorityClass")["value"], -5);
    assert_eq!(find("Secret")["data"], json!({ "k": "AP8=", "empty": "" }));
}

#[test]
fn bad_bodies_are_refused() {
    let envelope = |fields: &[u8]| [b"k8s\0", fields].concat();
    let check = |body: Vec<u8>, expected: ProtoError| assert_eq!(decode(&body), Err(expected));
    check(vec![], ProtoError::Magic);
    check(b"{}".to_vec(), ProtoError::Magic);
    let unknown = |api_version: &str, kind: &str| ProtoError::UnknownKind {
        api_version: api_version.to_owned(),
        kind: kind.to_owned(),
    };
    check(envelope(&[]), unknown("", ""));
    check(envelope(b"\x0a\x08\x0a\x02v1\x12\x02Po"), unknown("v1", "Po"));
    check(envelope(b"\x0a\x20\x0a"), ProtoError::Truncated);
    check(envelope(b"\x0b"), ProtoError::Tag(11));
    check(envelope(&[0xff; 11]), ProtoError::Overflow);
    check(envelope(b"\x1a\x04gzip"), ProtoError::Encoding("gzip".to_owned()));
    // A pod whose metadata is a number, and one whose name is no text.
    check(
        envelope(b"\x0a\x09\x0a\x02v1\x12\x03Pod\x12\x02\x08\x01"),
        ProtoError::WireType("metadata".to_owned()),
    );
    check(
        envelope(b"\x0a\x09\x0a\x02v1\x12\x03Pod\x12\x05\x0a\x03\x0a\x01\xff"),
        ProtoError::Utf8("name".to_owned()),
    );
}

proptest! {
    #[test]
    fn garbage_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = decode(&bytes);
        let pod = [b"k8s\0\x0a\x09\x0a\x02v1\x12\x03Pod\x12".as_slice(), &[bytes.len().min(127) as u8], &bytes].concat();
        let _ = decode(&pod);
    }

    #[test]
    fn damaged_bodies_never_panic(which in 0_usize..40, at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let line = include_str!("protobuf_vectors.txt").lines().filter(|line| !line.starts_with('#')).nth(which);
        if let Some((hex, _)) = line.and_then(|line| line.split_once(' ')) {
            let mut body = unhex(hex);
            let position = at.index(body.len());
            body[position] = byte;
            let _ = decode(&body);
            let _ = decode(&body[..position]);
        }
    }
}
