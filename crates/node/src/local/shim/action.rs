//! What probes ask and hooks do.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::Signal;
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;
use tokio::net::unix::pipe;
use tokio::time::{sleep, timeout};

use super::enter::Entry;
use super::http;
use super::log::last_bytes;
use super::pod::Pod;
use crate::local::plan::Action;
use crate::local::process;
use crate::local::state::ProcessId;

/// Output of a command that is kept for the message.
const OUTPUT_MAX: usize = 1024;

/// Does it, within a time; what is wrong in words.
pub(super) async fn act(
    pod: &Pod,
    container: &str,
    inside: &ProcessId,
    action: &Action,
    limit: Duration,
) -> Result<(), String> {
    let late = || format!("no answer within {}s", limit.as_secs_f64());
    match action {
        Action::Exec(command) => exec(pod, container, inside, command, limit).await,
        Action::Http {
            host,
            port,
            path,
            tls,
            headers,
        } => {
            let ask = http::Ask {
                host,
                port: *port,
                path,
                headers,
            };
            let status = timeout(limit, http::get(&ask, *tls)).await.map_err(|_| late())?;
            match status.map_err(|error| format!("{host}:{port}{path}: {error}"))? {
                200..=399 => Ok(()),
                status => Err(format!("HTTP status {status}")),
            }
        }
        Action::Tcp { host, port } => match timeout(limit, TcpStream::connect((host.as_str(), *port))).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => Err(format!("{host}:{port}: {error}")),
            Err(_) => Err(late()),
        },
        Action::Sleep(seconds) => {
            sleep(Duration::from_secs(u64::from(*seconds)).min(limit)).await;
            Ok(())
        }
    }
}

/// Kills a command that nobody waits for any more.
struct Abandoned(u32);

impl Drop for Abandoned {
    fn drop(&mut self) {
        for error in [
            process::kill_group(self.0, Signal::KILL),
            process::kill(self.0, Signal::KILL),
        ] {
            if let Err(error) = error {
                eprintln!("cannot kill {}: {error}", self.0);
            }
        }
    }
}

async fn exec(
    pod: &Pod,
    container: &str,
    inside: &ProcessId,
    command: &[String],
    limit: Duration,
) -> Result<(), String> {
    let entry = Entry {
        container,
        pid: inside.pid,
        started: inside.started,
        terminal: false,
        kept: true,
    };
    let (output, end) = io::pipe().map_err(|error| error.to_string())?;
    let errors = end.try_clone().map_err(|error| error.to_string())?;
    let mut stage = Command::new(super::program());
    stage
        .arg0("basalt")
        .args([super::WORD, "exec"])
        .arg(pod.folder.path())
        .args(entry.words())
        .args(command)
        .env_clear()
        .stdin(Stdio::null())
        .stdout(end)
        .stderr(errors);
    let (pid, exit) = pod
        .reaper
        .spawn(&mut stage)
        .map_err(|error| format!("cannot start: {error}"))?;
    drop(stage);
    let abandoned = Abandoned(pid);
    let mut said = Vec::new();
    let read = read_some(output, &mut said);
    let status = timeout(limit, async {
        tokio::pin!(read);
        tokio::select! {
            status = exit => status,
            // Its output can end before it does, and go on after it.
            never = &mut read => match never {},
        }
    });
    let status = status
        .await
        .map_err(|_| format!("no answer within {}s", limit.as_secs_f64()))?;
    // It was waited for: its number may belong to another by now.
    std::mem::forget(abandoned);
    let status = status.unwrap_or_default();
    let code = status
        .code()
        .unwrap_or_else(|| 128 + status.signal().unwrap_or_default());
    if code == 0 {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&said);
    Err(format!("exit code {code}: {}", last_bytes(said.trim(), OUTPUT_MAX)))
}

/// Keeps the beginning of an output and takes the rest, so that nobody waits for a reader.
async fn read_some(from: io::PipeReader, kept: &mut Vec<u8>) -> std::convert::Infallible {
    if let Ok(mut from) = pipe::Receiver::from_owned_fd(OwnedFd::from(from)) {
        let mut bytes = vec![0; 4096];
        while let Ok(count @ 1..) = from.read(&mut bytes).await {
            let room = OUTPUT_MAX.saturating_sub(kept.len()).min(count);
            kept.extend_from_slice(bytes.get(..room).unwrap_or_default());
        }
    }
    std::future::pending().await
}
