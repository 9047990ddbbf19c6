//! What the tests of the store share.
#![allow(dead_code, reason = "each test binary uses its part")]

use std::path::Path;

use basalt_apiserver::store::{
    Backend, Commit, CommitError, Draft, Expect, Facets, Key, Object, Options, Revision, Store, Write,
};

/// A body `{"resourceVersion":"…","value":"VALUE"}`.
pub(crate) fn draft(value: &str) -> Draft {
    let after = format!(r#"","value":"{value}"}}"#);
    Draft::new(br#"{"resourceVersion":""#, after.as_bytes())
}

/// What [`draft`] becomes.
pub(crate) fn body(revision: Revision, value: &str) -> String {
    format!(r#"{{"resourceVersion":"{revision}","value":"{value}"}}"#)
}

/// The VALUE of an object; its body must agree with its revision, its facets with its body.
pub(crate) fn value(object: &Object) -> String {
    let text = std::str::from_utf8(&object.body).unwrap();
    let value = text.rsplit('"').nth(1).unwrap();
    assert_eq!(text, body(object.revision, value));
    assert_eq!(object.facets.label("value"), Some(value));
    value.to_owned()
}

pub(crate) fn put(key: &Key, expect: Expect, value: &str) -> Write {
    Write::Put {
        key: key.clone(),
        expect,
        draft: draft(value),
    }
}

pub(crate) fn delete(key: &Key, expect: Expect) -> Write {
    Write::Delete {
        key: key.clone(),
        expect,
        last: draft("gone"),
    }
}

pub(crate) fn check(key: &Key, expect: Expect) -> Write {
    Write::Check {
        key: key.clone(),
        expect,
    }
}

/// The value as a label, to see that facets survive everything.
fn index(_: &Key, body: &[u8]) -> Facets {
    let text = std::str::from_utf8(body).unwrap();
    let value = text.rsplit('"').nth(1).unwrap();
    Facets {
        labels: [("value", value)].into_iter().collect(),
        fields: basalt_apimachinery::selector::CompactStringMap::default(),
    }
}

pub(crate) fn options(backend: Backend) -> Options {
    Options {
        indexer: index,
        ..Options::new(backend)
    }
}

pub(crate) fn memory() -> Store {
    Store::open(options(Backend::Memory)).unwrap()
}

pub(crate) fn disk(path: &Path) -> Store {
    Store::open(options(Backend::Disk(path.to_owned()))).unwrap()
}

/// Waits for a commit outside of a runtime.
pub(crate) fn commit(store: &Store, writes: Vec<Write>) -> Result<Commit, CommitError> {
    futures::executor::block_on(store.commit(writes))
}

/// Everything in the resource, as `namespace/name=value@revision`.
pub(crate) fn dump(store: &Store, resource: &str) -> Vec<String> {
    let show = |object: &std::sync::Arc<Object>| {
        format!(
            "{}/{}={}@{}",
            object.key.namespace,
            object.key.name,
            value(object),
            object.revision
        )
    };
    store.list(resource, None).objects.iter().map(show).collect()
}
