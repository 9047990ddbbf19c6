//! `basalt up --demo` in a pipe: real processes, shown line by line, to their end.

use std::process::{Command, Stdio};

#[test]
fn the_demo_runs_to_its_end_in_a_pipe() {
    let output = Command::new(env!("CARGO_BIN_EXE_basalt"))
        .args(["up", "--demo", "--listen", "127.0.0.1:0"])
        .stdin(Stdio::null())
        .output()
        .expect("the basalt binary starts");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let complaints = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{text}\n{complaints}");
    let jobs = [
        ("train-vision", "Completed"),
        ("augment", "Completed"),
        ("label-photos", "Completed"),
        ("count-words", "Completed"),
        ("finetune", "Completed"),
        ("translate", "Completed"),
        ("daily-report", "Completed"),
        ("monthly-report", "Completed"),
        ("import-orders", "Failed"),
        ("find-needle", "Completed"),
        ("thumbnails", "Completed"),
        ("health-check", "Completed"),
    ];
    for (job, phase) in jobs {
        let ended = text
            .lines()
            .any(|line| line.contains(&format!(" {job} in ")) && line.contains(&format!(" is {phase}")));
        assert!(ended, "{job} did not end as {phase}\n{text}");
    }
    for said in [
        "monthly-report in reports is Pending: ",
        ": we are 5",
        "import-orders-reader-0: orders.csv: no such file",
        "all jobs have ended",
    ] {
        let said_so = text.lines().any(|line| line.contains(said));
        assert!(said_so, "{said:?} is not in\n{text}\n{complaints}");
    }
    // Only the first lines of a job are shown, and its pods speak in any order: one of them says it, under its own name.
    for (pods, who, count, said) in [
        ("train-vision-worker", "worker", 4, "epoch 1 of 12"),
        ("monthly-report-writer", "writer", 3, "there is room at last"),
    ] {
        let mut lines = (0..count).map(|index| format!("{pods}-{index}: {who} {index}: {said}"));
        let said_so = lines.any(|expected| text.lines().any(|line| line.contains(&expected)));
        assert!(said_so, "no {pods} says {said:?}\n{text}\n{complaints}");
    }
}
