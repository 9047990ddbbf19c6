//! `kill -9` at random moments. The test starts itself as the writer, which prints what was
//! acknowledged; after each kill everything that it printed must be there, and nothing by half.

#[path = "support/store.rs"]
mod support;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};

use basalt_apiserver::store::{Backend, Expect, Key, Options, Revision, Store};
use rand::RngExt;
use support::{options, put, value};

const FOLDER: &str = "BASALT_TEST_STORE_CRASH";
const KILLS: usize = 20;
const WRITERS: u64 = 16;

/// A log that is reclaimed often, so that kills hit that too.
fn crash_options(folder: &Path) -> Options {
    Options {
        log_bytes_floor: 16 << 10,
        ..options(Backend::Disk(folder.join("store")))
    }
}

fn pair(writer: u64) -> [Key; 2] {
    ["a", "b"].map(|half| Key::new("pods", "default", format!("{writer}-{half}")))
}

/// Not a test by itself: the process that is killed.
#[test]
fn writer() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let store = Store::open(crash_options(Path::new(&folder))).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .build()
        .unwrap();
    let write = |writer: u64| {
        let store = store.clone();
        async move {
            for turn in 0_u64.. {
                let text = format!("{turn}{}", ".".repeat(turn as usize % 500));
                let writes = pair(writer).iter().map(|key| put(key, Expect::Any, &text)).collect();
                let commit = store.commit(writes).await.unwrap();
                let mut out = std::io::stdout().lock();
                writeln!(out, "ack {writer} {} {text}", commit.revision).unwrap();
                out.flush().unwrap();
            }
        }
    };
    runtime.block_on(futures::future::join_all(
        (0..WRITERS).map(|writer| runtime.spawn(write(writer))),
    ));
}

/// Lets the writer acknowledge so many, kills it, and returns the newest acknowledged of each.
fn run_and_kill(folder: &Path, acknowledgements: usize) -> BTreeMap<u64, (Revision, String)> {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["writer", "--exact", "--nocapture", "--test-threads=1"])
        .env(FOLDER, folder)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut newest = BTreeMap::new();
    let mut seen = 0;
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    // After the kill what is left in the pipe was acknowledged, too; but not half a line.
    while lines.read_line(&mut line).unwrap() > 0 {
        // The harness prints in front of the first.
        if let Some(ack) = line.strip_suffix('\n').and_then(|line| line.split("ack ").nth(1)) {
            let mut words = ack.split(' ');
            let mut number = || words.next().unwrap().parse::<u64>().unwrap();
            let (writer, revision) = (number(), number());
            newest.insert(writer, (revision, words.next().unwrap().to_owned()));
            seen += 1;
            if seen == acknowledgements {
                child.kill().unwrap();
            }
        }
        line.clear();
    }
    assert!(seen >= acknowledgements, "the writer ended by itself");
    child.wait().unwrap();
    newest
}

#[test]
fn nothing_acknowledged_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let mut random = rand::rng();
    let mut last = 0;
    for _ in 0..KILLS {
        let newest = run_and_kill(folder.path(), random.random_range(1..600));
        let store = Store::open(crash_options(folder.path())).unwrap();
        let highest = newest.values().map(|(revision, _)| *revision).max().unwrap();
        assert!(highest > last, "the revision went back over a restart");
        assert!(store.revision() >= highest);
        for (writer, (revision, text)) in newest {
            let [a, b] = pair(writer).map(|key| store.get(&key).unwrap_or_else(|| panic!("{key} is lost")));
            assert_eq!(a.revision + 1, b.revision, "half a transaction");
            assert_eq!(value(&a), value(&b), "half a transaction");
            assert!(
                b.revision > revision || (b.revision == revision && value(&b) == text),
                "{b:?} is not {revision}"
            );
        }
        last = store.revision();
    }
}
