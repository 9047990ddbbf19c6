//! The folder on disk: who may open it, what is refused untouched, how damage is found, and that the
//! log stays short.

#[path = "support/store.rs"]
mod support;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use basalt_apiserver::store::{Backend, CommitError, Expect, Key, OpenError, Options, Store};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use support::{commit, delete, disk, dump, options, put};

fn key(name: &str) -> Key {
    Key::new("pods", "default", name)
}

fn try_open(path: &Path) -> Result<Store, OpenError> {
    Store::open(options(Backend::Disk(path.to_owned())))
}

/// Every file below a folder, with its contents.
fn contents(path: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let files = fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path());
    files.map(|file| (file.clone(), fs::read(&file).unwrap())).collect()
}

/// A folder prepared by `prepare` is refused with an error that contains `expected`, and not touched.
#[track_caller]
fn refused(prepare: impl FnOnce(&Path), expected: &str) {
    let folder = tempfile::tempdir().unwrap();
    prepare(folder.path());
    let before = contents(folder.path());
    let error = try_open(folder.path()).map(|_| ()).unwrap_err().to_string();
    assert!(error.contains(expected), "{error}");
    let after = contents(folder.path());
    assert_eq!(
        before.keys().collect::<Vec<_>>(),
        after.keys().collect::<Vec<_>>(),
        "files appeared or vanished"
    );
    let changed: Vec<_> = before
        .iter()
        .filter(|(path, bytes)| after[*path] != **bytes)
        .map(|(path, _)| path)
        .collect();
    assert!(changed.is_empty(), "{changed:?} changed");
}

fn sample(path: &Path) -> Vec<String> {
    let store = disk(path);
    for index in 0..50 {
        commit(
            &store,
            vec![put(
                &key(&format!("pod-{}", index % 20)),
                Expect::Any,
                &"v".repeat(index * 20),
            )],
        )
        .unwrap();
    }
    store.close();
    dump(&store, "pods")
}

#[test]
fn what_is_not_ours_is_refused() {
    refused(
        |path| fs::write(path.join("notes.txt"), "mine").unwrap(),
        "not a Basalt store",
    );
    refused(
        |path| fs::write(path.join("log.redb"), "mine").unwrap(),
        "not a Basalt store",
    );
    refused(
        |path| fs::write(path.join("FORMAT"), "something else\n").unwrap(),
        "not a Basalt store",
    );
    refused(
        |path| fs::write(path.join("FORMAT"), [0xff, 0xfe]).unwrap(),
        "not a Basalt store",
    );
    refused(
        |path| fs::write(path.join("FORMAT"), "basalt store\nformat 999\nready\n").unwrap(),
        "format 999",
    );
    refused(
        |path| fs::write(path.join("FORMAT"), "basalt store\n").unwrap(),
        "store format",
    );
}

#[test]
fn a_file_is_not_a_folder() {
    let file = tempfile::NamedTempFile::new().unwrap();
    assert!(matches!(
        try_open(file.path()).map(|_| ()),
        Err(OpenError::Foreign { .. })
    ));
}

#[test]
fn damage_is_found() {
    let edit = |path: &Path, edit: &dyn Fn(&mut Vec<u8>)| {
        sample(path);
        let file = path.join("log.redb");
        let mut bytes = fs::read(&file).unwrap();
        edit(&mut bytes);
        fs::write(&file, bytes).unwrap();
    };
    refused(
        |path| {
            sample(path);
            fs::remove_file(path.join("log.redb")).unwrap();
        },
        "missing",
    );
    refused(|path| edit(path, &|bytes| bytes.truncate(0)), "damaged");
    refused(|path| edit(path, &|bytes| bytes.truncate(1000)), "damaged");
    refused(|path| edit(path, &|bytes| bytes.truncate(bytes.len() / 2)), "damaged");
    refused(|path| edit(path, &|bytes| bytes[..64].fill(b'?')), "damaged");
    refused(|path| edit(path, &|bytes| bytes.fill(0)), "damaged");
}

/// A flipped bit is found, or it is where it does not matter: never is anything else read than written.
#[test]
fn flipped_bits_never_change_what_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let expected = sample(&path);
    let file = path.join("log.redb");
    let sound = fs::read(&file).unwrap();
    // Most of a young file is empty: only bytes of pages in use are worth a flip.
    let used: Vec<usize> = (0..sound.len())
        .filter(|at| sound[at / 4096 * 4096..][..4096].iter().any(|b| *b != 0))
        .collect();
    let mut random = StdRng::seed_from_u64(7);
    let mut found = 0;
    for _ in 0..150 {
        let mut bytes = sound.clone();
        bytes[used[random.random_range(0..used.len())]] ^= 1 << random.random_range(0..8);
        fs::write(&file, bytes).unwrap();
        match try_open(&path) {
            Ok(store) => assert_eq!(dump(&store, "pods"), expected),
            Err(OpenError::Corrupt { .. }) => found += 1,
            Err(other) => panic!("{other}"),
        }
    }
    assert!(found > 0);
}

#[test]
fn one_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let store = disk(folder.path());
    match try_open(folder.path()).map(|_| ()) {
        Err(OpenError::Locked { pid, .. }) => assert_eq!(pid, Some(std::process::id())),
        other => panic!("{other:?}"),
    }
    store.close();
    assert_eq!(
        commit(&store, vec![put(&key("a"), Expect::Any, "x")]).unwrap_err(),
        CommitError::Closed
    );
    try_open(folder.path()).unwrap();
}

/// A creation that was interrupted at any step goes on.
#[test]
fn interrupted_creations() {
    let steps: [&[(&str, &str)]; 4] = [
        &[],
        &[("lock", "1")],
        &[("lock", "1"), ("FORMAT.new", "basa")],
        &[
            ("lock", "1"),
            ("FORMAT", "basalt store\nformat 1\nnew\n"),
            ("log.redb", "half a database"),
        ],
    ];
    for files in steps {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            fs::write(folder.path().join(name), text).unwrap();
        }
        let store = try_open(folder.path()).unwrap();
        commit(&store, vec![put(&key("a"), Expect::Absent, "x")]).unwrap();
        store.close();
        assert_eq!(dump(&disk(folder.path()), "pods"), ["default/a=x@2"]);
    }
}

/// Some objects that never change among many that do: the file does not grow with the writes.
#[test]
fn the_log_stays_short() {
    let folder = tempfile::tempdir().unwrap();
    let options = Options {
        log_bytes_floor: 256 << 10,
        history_bytes_max: 64 << 10,
        ..options(Backend::Disk(folder.path().into()))
    };
    let store = Store::open(options.clone()).unwrap();
    for index in 0..50 {
        commit(
            &store,
            vec![put(&key(&format!("still-{index}")), Expect::Absent, &"s".repeat(2000))],
        )
        .unwrap();
    }
    // 32 MiB of writes, in transactions of 64 kB.
    for turn in 0..512 {
        let writes = (0..32).map(|index| put(&key(&format!("busy-{index}")), Expect::Any, &format!("{turn:02000}")));
        commit(&store, writes.collect()).unwrap();
    }
    commit(&store, vec![delete(&key("busy-0"), Expect::Present)]).unwrap();
    let size = fs::metadata(folder.path().join("log.redb")).unwrap().len();
    assert!(size < 8 << 20, "the log has {size} bytes");
    let expected = dump(&store, "pods");
    assert_eq!(expected.len(), 50 + 31);
    store.close();
    assert_eq!(dump(&Store::open(options).unwrap(), "pods"), expected);
}
