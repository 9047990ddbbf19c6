//! One run of a container: from the second stage to the last byte of its output.

use std::cell::RefCell;
use std::fs;
use std::io::{self, Read as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Command, ExitStatus, Stdio};
use std::rc::Rc;
use std::time::Duration;

use jiff::Timestamp;
use rustix::process::Signal;
use tokio::io::AsyncReadExt as _;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::action::act;
use super::cgroups::Cgroups;
use super::health::Health;
use super::log::{self, Log};
use super::pod::{Pod, StopWatch};
use super::reaper::Exit;
use super::stage::Refusal;
use super::tree::Tree;
use crate::local::plan::{Action, ContainerPlan};
use crate::local::process;
use crate::local::state::{Ended, Now, ProcessId};

/// Longest termination message, and how much of the log stands in for one.
const MESSAGE_MAX: usize = 4096;
const LOG_MESSAGE_MAX: usize = 2048;
const LOG_MESSAGE_LINES: usize = 80;
/// For output that somebody outside the container still holds open.
const DRAIN: Duration = Duration::from_secs(1);

/// What SIGTERM gets at least, as in Kubernetes.
const AFTER_HOOK: Duration = Duration::from_secs(2);

/// A second stage, and soon a container.
struct Started {
    process: ProcessId,
    exit: Exit,
    /// Says why not, or closes when the program begins.
    told: tokio::net::UnixStream,
    output: Vec<JoinHandle<io::Result<()>>>,
}

/// Runs a container once; `run` counts from 0.
pub(super) async fn once(pod: &Rc<Pod>, plan: &ContainerPlan, run: u32, stop: &mut StopWatch) -> Ended {
    let began = Timestamp::now();
    let cgroups = Cgroups::of_container(&pod.plan.isolation.cgroups, &plan.name);
    let kills_before = cgroups.out_of_memory_kills();
    let started = match start(pod, plan, run).await {
        Ok(started) => started,
        Err(error) => return refused(began, Refusal::setup("cannot start", error)),
    };
    let Started {
        process,
        mut exit,
        mut told,
        output,
    } = started;
    let mut refusal = Vec::new();
    let heard = tokio::select! {
        heard = told.read_to_end(&mut refusal) => heard.map(drop),
        // A mount can hang for as long as it likes; a stop does not wait for it.
        () = stop.due() => process.signal(Signal::KILL),
    };
    if let Err(error) = heard {
        eprintln!("{}: second stage: {error}", plan.name);
    }
    if !refusal.is_empty() {
        let refusal = serde_json::from_slice(&refusal).unwrap_or_else(|error| Refusal::setup("cannot start", error));
        let _ = exit.await;
        drain(output).await;
        return refused(began, refusal);
    }
    let tree = Tree::of(cgroups.clone(), process.pid);
    let attendance = Attendance {
        pod,
        plan,
        process,
        tree: &tree,
    };
    let status = attendance.attend(run, began, &mut exit, stop).await;
    tree.kill(&pod.reaper).await;
    drain(output).await;
    let killed_for_memory = cgroups.out_of_memory_kills() > kills_before;
    ended(pod, plan, run, began, status, killed_for_memory)
}

/// Sets up what the second stage needs, and starts it.
async fn start(pod: &Rc<Pod>, plan: &ContainerPlan, run: u32) -> io::Result<Started> {
    make_message_file(pod, plan)?;
    if let Some(old) = run.checked_sub(2) {
        log::remove(&pod.folder.log(&plan.name, old));
    }
    let log = Rc::new(RefCell::new(Log::open(pod.folder.log(&plan.name, run), log::FILE_MAX)));
    let (told, socket) = std::os::unix::net::UnixStream::pair()?;
    told.set_nonblocking(true)?;
    let (stdout, stdout_end) = io::pipe()?;
    let (stderr, stderr_end) = io::pipe()?;
    let mut command = Command::new(super::program());
    command
        .arg0("basalt")
        .args([super::WORD, "container"])
        .arg(pod.folder.path())
        .arg(&plan.name)
        .env_clear()
        .stdin(Stdio::from(OwnedFd::from(socket)))
        .stdout(stdout_end)
        .stderr(stderr_end);
    let (pid, exit) = pod.reaper.spawn(&mut command)?;
    // It holds the other ends of socket and pipes.
    drop(command);
    let keep = |name, from: io::PipeReader| tokio::task::spawn_local(log::keep(log.clone(), name, OwnedFd::from(from)));
    let output = vec![keep("stdout", stdout), keep("stderr", stderr)];
    let known = ProcessId::of(pid).and_then(|process| Ok((process, tokio::net::UnixStream::from_std(told)?)));
    match known {
        Ok((process, told)) => Ok(Started {
            process,
            exit,
            told,
            output,
        }),
        Err(error) => {
            // Nobody would attend to it. Its number is its own until it was waited for.
            process::kill(pid, Signal::KILL)?;
            let _ = exit.await;
            drain(output).await;
            Err(error)
        }
    }
}

/// An empty file for the last words, writable for whoever the container runs as.
fn make_message_file(pod: &Pod, plan: &ContainerPlan) -> io::Result<()> {
    let path = pod.folder.message(&plan.name);
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(&path, "")?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o666))
}

/// A container that has begun.
struct Attendance<'a> {
    pod: &'a Rc<Pod>,
    plan: &'a ContainerPlan,
    process: ProcessId,
    tree: &'a Tree,
}

impl Attendance<'_> {
    /// Stays with a container until its first process has ended, whoever ended it.
    async fn attend(&self, run: u32, since: Timestamp, exit: &mut Exit, stop: &mut StopWatch) -> ExitStatus {
        let (pod, plan) = (self.pod, self.plan);
        pod.reaper.reap();
        if let Ok(status) = exit.try_recv() {
            pod.record.container(&plan.name, |state| state.restarts = run);
            return status;
        }
        let process = self.process.clone();
        // Without hook and probes it is as ready as it will be; with them, health says when.
        let ready = plan.post_start.is_none() && plan.startup.is_none();
        pod.record.container(&plan.name, |state| {
            state.now = Now::Running { process, since };
            state.restarts = run;
            state.started = ready;
            state.ready = ready && plan.readiness.is_none();
        });
        let health = Health {
            pod,
            plan,
            process: self.process.clone(),
            begin: Instant::now(),
        };
        let until = tokio::select! {
            status = &mut *exit => return status.unwrap_or_default(),
            until = stop.wanted() => until,
            grace = health.watch() => Instant::now() + grace,
        };
        self.end(exit, stop, until).await
    }

    /// Ends a container: its hook, SIGTERM to it and what it started, SIGKILL to all that is left when the time is over.
    async fn end(&self, exit: &mut Exit, stop: &mut StopWatch, until: Instant) -> ExitStatus {
        let (pod, plan) = (self.pod, self.plan);
        pod.record
            .tell(false, "Killing", format!("Stopping container {}", plan.name));
        let hook = plan.pre_stop.as_ref().filter(|_| until > Instant::now());
        let last = async {
            let mut until = until;
            if let Some(hook) = hook {
                self.before_end(hook, until).await;
                // A hook that used up all the time leaves a little for SIGTERM.
                until = until.max(Instant::now() + AFTER_HOOK);
            }
            if until > Instant::now()
                && let Err(error) = process::kill_group(self.process.pid, Signal::TERM)
            {
                eprintln!("{}: cannot send SIGTERM: {error}", plan.name);
            }
            self.tree.wait_gone(&pod.reaper, until).await;
        };
        tokio::select! {
            () = last => {}
            () = stop.sooner(until) => {}
        }
        self.tree.kill(&pod.reaper).await;
        exit.await.unwrap_or_default()
    }

    /// The hook before the end; the container can end meanwhile.
    async fn before_end(&self, hook: &Action, until: Instant) {
        let limit = until.saturating_duration_since(Instant::now());
        tokio::select! {
            () = self.tree.wait_gone(&self.pod.reaper, until) => {}
            done = act(self.pod, &self.plan.name, &self.process, hook, limit) => {
                if let Err(error) = done {
                    let message = format!("PreStopHook of container {} failed: {error}", self.plan.name);
                    self.pod.record.tell(true, "FailedPreStopHook", message);
                }
            }
        }
    }
}

/// Waits for the last output.
async fn drain(output: Vec<JoinHandle<io::Result<()>>>) {
    let until = Instant::now() + DRAIN;
    for stream in output {
        let stop = stream.abort_handle();
        if tokio::time::timeout_at(until, stream).await.is_err() {
            stop.abort();
        }
    }
}

fn refused(began: Timestamp, refusal: Refusal) -> Ended {
    Ended {
        exit_code: i32::from(refusal.code),
        signal: None,
        reason: if refusal.code == 128 {
            "StartError"
        } else {
            "ContainerCannotRun"
        }
        .to_owned(),
        message: refusal.message,
        began,
        ended: Timestamp::now(),
    }
}

fn ended(
    pod: &Pod,
    plan: &ContainerPlan,
    run: u32,
    began: Timestamp,
    status: ExitStatus,
    out_of_memory: bool,
) -> Ended {
    let exit_code = status
        .code()
        .unwrap_or_else(|| 128 + status.signal().unwrap_or_default());
    let reason = match exit_code {
        0 => "Completed",
        _ if out_of_memory => "OOMKilled",
        _ => "Error",
    };
    let mut message = read_message(pod, plan);
    if message.is_empty() && exit_code != 0 && plan.message_from_log {
        message = log::tail(&pod.folder.log(&plan.name, run), LOG_MESSAGE_LINES, LOG_MESSAGE_MAX);
    }
    Ended {
        exit_code,
        signal: status.signal(),
        reason: reason.to_owned(),
        message,
        began,
        ended: Timestamp::now(),
    }
}

/// The last words; a container can write more than anybody reads.
fn read_message(pod: &Pod, plan: &ContainerPlan) -> String {
    let mut bytes = Vec::new();
    if let Ok(file) = fs::File::open(pod.folder.message(&plan.name)) {
        let _ = file.take(MESSAGE_MAX as u64).read_to_end(&mut bytes);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
