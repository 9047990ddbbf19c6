use std::fs;

use futures::StreamExt;

use super::super::state::{ContainerState, Ended, ProcessId};
use super::*;

const SECOND: &str = "2026-11-16T01:00:";

fn line(second: u32, tag: &str, text: &str) -> String {
    format!("{SECOND}{second:02}.000000000Z stdout {tag} {text}\n")
}

fn pod(files: &[(&str, String)]) -> tempfile::TempDir {
    let pods = tempfile::tempdir().unwrap();
    let logs = pods.path().join("u/logs/c");
    fs::create_dir_all(&logs).unwrap();
    for (name, text) in files {
        fs::write(logs.join(name), text).unwrap();
    }
    pods
}

fn say(pods: &Path, now: Now, last: Option<Ended>, restarts: u32) {
    let container = ContainerState {
        now,
        last,
        restarts,
        ready: false,
        started: false,
    };
    let shim = ProcessId {
        pid: 1,
        started: 0,
        boot: String::new(),
    };
    let state = PodState {
        uid: "u".to_owned(),
        sequence: 1,
        shim,
        containers: [("c".to_owned(), container)].into(),
        initialized: true,
        over: None,
    };
    fs::write(pods.join("u/state.json"), serde_json::to_vec(&state).unwrap()).unwrap();
}

fn running() -> Now {
    let process = ProcessId {
        pid: 1,
        started: 0,
        boot: String::new(),
    };
    Now::Running {
        process,
        since: Timestamp::UNIX_EPOCH,
    }
}

fn ended() -> Ended {
    Ended {
        exit_code: 0,
        signal: None,
        reason: "Completed".to_owned(),
        message: String::new(),
        began: Timestamp::UNIX_EPOCH,
        ended: Timestamp::UNIX_EPOCH,
    }
}

async fn text(pods: &Path, wish: LogWish) -> Result<String, LogError> {
    let pieces: Vec<io::Result<Bytes>> = read(pods, "u", "c", wish)?.collect().await;
    let bytes: Vec<u8> = pieces.into_iter().flat_map(|piece| piece.unwrap().to_vec()).collect();
    Ok(String::from_utf8(bytes).unwrap())
}

#[tokio::test]
async fn parts_of_a_log() {
    let pods = pod(&[
        ("0.log", line(1, "F", "old run")),
        ("1.log.2", line(10, "F", "a") + &line(11, "P", "b1 ")),
        ("1.log.1", line(12, "F", "b2") + &line(13, "F", "")),
        (
            "1.log",
            line(14, "F", "c d  e") + &line(15, "F", "f") + "2026-11-16T01:00:16Z stdout F unfin",
        ),
    ]);
    say(pods.path(), running(), None, 1);
    let check = async |wish: LogWish, expected: &str| {
        assert_eq!(
            text(pods.path(), wish.clone()).await.as_deref(),
            Ok(expected),
            "{wish:?}"
        );
    };
    let all = LogWish::default();
    let tail = |lines| LogWish {
        tail_lines: Some(lines),
        ..LogWish::default()
    };
    check(all.clone(), "a\nb1 b2\n\nc d  e\nf\n").await;
    check(tail(0), "").await;
    check(tail(1), "f\n").await;
    check(tail(3), "\nc d  e\nf\n").await;
    check(tail(4), "b1 b2\n\nc d  e\nf\n").await;
    check(tail(5), "a\nb1 b2\n\nc d  e\nf\n").await;
    check(tail(u64::MAX), "a\nb1 b2\n\nc d  e\nf\n").await;
    let since = Some(format!("{SECOND}14Z").parse().unwrap());
    check(LogWish { since, ..all.clone() }, "c d  e\nf\n").await;
    check(
        LogWish {
            limit_bytes: Some(4),
            ..all.clone()
        },
        "a\nb1",
    )
    .await;
    check(
        LogWish {
            limit_bytes: Some(0),
            ..all.clone()
        },
        "",
    )
    .await;
    check(
        LogWish {
            previous: true,
            ..all.clone()
        },
        "old run\n",
    )
    .await;
    let stamped = LogWish {
        timestamps: true,
        ..tail(4)
    };
    let stamp = |second: u32| format!("{SECOND}{second:02}.000000000Z ");
    let expected = format!(
        "{}b1 b2\n{}\n{}c d  e\n{}f\n",
        stamp(11),
        stamp(13),
        stamp(14),
        stamp(15)
    );
    check(stamped, &expected).await;
}

#[tokio::test]
async fn which_run_is_meant() {
    let check = async |files: &[(&str, String)], now: Now, last: bool, previous: bool, expected: Result<&str, &str>| {
        let pods = pod(files);
        say(pods.path(), now, last.then(ended), 0);
        let wish = LogWish {
            previous,
            ..LogWish::default()
        };
        let found = text(pods.path(), wish).await.map_err(|error| error.to_string());
        assert_eq!(found.as_deref().map_err(String::as_str), expected);
    };
    let waits = |reason: &str| Now::Waiting {
        reason: reason.to_owned(),
        message: String::new(),
    };
    let (one, two) = (("0.log", line(1, "F", "one")), ("1.log", line(2, "F", "two")));
    check(
        &[],
        waits("PodInitializing"),
        false,
        false,
        Err("container \"c\" is waiting to start: PodInitializing"),
    )
    .await;
    check(std::slice::from_ref(&one), running(), false, false, Ok("one\n")).await;
    check(
        std::slice::from_ref(&one),
        running(),
        false,
        true,
        Err("previous terminated container \"c\" not found"),
    )
    .await;
    check(&[one.clone(), two.clone()], running(), true, false, Ok("two\n")).await;
    check(&[one.clone(), two.clone()], running(), true, true, Ok("one\n")).await;
    check(
        &[one.clone(), two.clone()],
        waits("CrashLoopBackOff"),
        true,
        true,
        Ok("two\n"),
    )
    .await;
    check(&[one, two], waits("CrashLoopBackOff"), true, false, Ok("two\n")).await;
    let pods = tempfile::tempdir().unwrap();
    assert_eq!(text(pods.path(), LogWish::default()).await, Err(LogError::NoPod));
}

#[tokio::test]
async fn a_log_is_followed_over_its_rotation() {
    let pods = pod(&[("0.log", line(1, "F", "1"))]);
    let path = pods.path().join("u/logs/c/0.log");
    say(pods.path(), running(), None, 0);
    let wish = LogWish {
        follow: true,
        ..LogWish::default()
    };
    let mut log = Box::pin(read(pods.path(), "u", "c", wish).unwrap());
    let mut next = async || {
        let piece = tokio::time::timeout(Duration::from_secs(10), log.next())
            .await
            .expect("in time");
        piece.map(|piece| String::from_utf8(piece.unwrap().to_vec()).unwrap())
    };
    assert_eq!(next().await.as_deref(), Some("1\n"));
    let append = |text: String| {
        use std::io::Write;
        let mut file = fs::OpenOptions::new().create(true).append(true).open(&path).unwrap();
        file.write_all(text.as_bytes()).unwrap();
    };
    append(line(2, "F", "2"));
    assert_eq!(next().await.as_deref(), Some("2\n"));
    // Twice between two looks, and a last line in the file that was put aside.
    append(line(3, "F", "3"));
    fs::rename(&path, path.with_extension("log.2")).unwrap();
    fs::write(path.with_extension("log.1"), line(4, "F", "4")).unwrap();
    append(line(5, "F", "5"));
    let mut found = String::new();
    while found != "3\n4\n5\n" {
        found.push_str(&next().await.expect("more"));
        assert!("3\n4\n5\n".starts_with(&found), "{found}");
    }
    append(line(6, "F", "last"));
    say(pods.path(), Now::Ended(ended()), None, 0);
    assert_eq!(next().await.as_deref(), Some("last\n"));
    assert_eq!(next().await, None);
}
